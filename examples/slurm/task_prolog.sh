#!/bin/sh
# `TaskProlog=` of slurm.conf: with `sbatch --export=ALL,HIGHWATER=1`, every Python program of a job records its GPU memory.
# A printed line `export NAME=value` sets a variable of the task.
[ "${HIGHWATER:-0}" = 1 ] || exit 0
directory="${SLURM_SUBMIT_DIR:-$PWD}/highwater-${SLURM_JOB_ID:-0}"
mkdir -p "$directory"
echo "export HIGHWATER_RECORD=$directory/"
echo "print highwater: recordings go to $directory; afterwards: highwater view $directory"
