#!/bin/sh
# `Epilog=` of slurm.conf, or the last line of a job's script: explains beside the log why the job ran out of memory. Never fails.
set -u
highwater=${HIGHWATER_PROGRAM:-/usr/bin/highwater}
log="${SLURM_JOB_STDERR:-${SLURM_JOB_STDOUT:-}}"
if [ -x "$highwater" ] && [ -f "$log" ]; then
    timeout 60 "$highwater" explain "$log" > "$log.highwater.txt" 2> /dev/null || rm -f "$log.highwater.txt"
fi
exit 0
