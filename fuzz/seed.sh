#!/bin/sh
# Fills the corpus of each target from ../testdata: every layout, and the recordings below 200 kB as plain pickles; the logs.
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
