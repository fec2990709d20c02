#!/bin/sh
# Fills the corpus of each target from ../testdata: every layout, and the recordings below 200 kB as plain pickles; the logs,
# the configurations of models, and a log of samples.
set -eu
cd "$(dirname "$0")"
for target in snapshot analysis; do
    corpus=corpus/$target
    mkdir -p "$corpus"
    find ../testdata/layouts -type f ! -name '*.md' -exec cp {} "$corpus/" \;
    for recording in ../testdata/recordings/*.pickle.gz; do
        name=$(basename "$recording" .gz)
        gzip -dc "$recording" > "$corpus/$name"
        if [ "$(wc -c < "$corpus/$name")" -gt 200000 ]; then rm "$corpus/$name"; fi
    done
    for profile in ../testdata/profiler/*.json.gz; do
        name=$(basename "$profile" .gz)
        gzip -dc "$profile" > "$corpus/$name"
        if [ "$(wc -c < "$corpus/$name")" -gt 200000 ]; then rm "$corpus/$name"; fi
    done
done
mkdir -p corpus/messages
for log in ../testdata/messages/*.log; do
    # The first byte is the length of the pieces that it is read in.
    { printf '\006'; cat "$log"; } > "corpus/messages/$(basename "$log")"
done
mkdir -p corpus/models
sed -n 's/.*"config": \({[^}]*}\).*/\1/p' ../testdata/estimates/nullgpu.jsonl | sort -u | split -l 1 - corpus/models/config-
mkdir -p corpus/hwlog
printf '%s\n' '{"format":"highwater-log","version":1,"interval_us":1000}' \
    '{"time_us":1,"driver":{"version":"580.1","cuda":null},"gpus":[{"index":0,"name":"H","uuid":"GPU-1","memory":null,"bar1":null,"utilization":null,"temperature_c":40,"power":null,"ecc":null,"processes":[],"unseen_bytes":null}]}' \
    > corpus/hwlog/one
