#!/bin/sh
# `Prolog=` of slurm.conf: keeps jobs away from a node whose GPUs do not work. Runs as root on the node, before a job.
# SLURM drains the node if this fails, so it fails only for problems that no job can solve.
set -u
highwater=${HIGHWATER_PROGRAM:-/usr/bin/highwater}
log=${HIGHWATER_LOG:-/var/log/highwater/prolog.log}

[ -n "${SLURM_JOB_GPUS:-}" ] || exit 0
[ -x "$highwater" ] || exit 0
mkdir -p "$(dirname "$log")"

# 2 says that the driver does not answer, or that there is no GPU.
timeout 30 "$highwater" top --once >> "$log" 2>&1
status=$?
if [ "$status" -eq 2 ]; then
    echo "print highwater: this node's GPUs do not answer; see $log"
    exit 1
fi
exit 0
