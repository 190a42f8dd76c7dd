#!/bin/sh
# Flushes of the journal for each produced batch, 64 batches in flight: the page is flushes.md.
. "$(dirname "$0")/lib.sh"
. "$here/broker.sh"
start_broker --shards 1
printf 'load-run\tbatches\tflushes\tflushes a batch\tMB/s\tload\n'
measure() {
    side=$1
    shift
    before=$(counter journal_flushes_total)
    one "$side-$run" -b "$address" --rate max --no-verify --duration "${EACH}s" "$@"
    flushes=$(($(counter journal_flushes_total) - before))
    batches=$(of "$side-$run" .tool.batches)
    ratio=$(awk -v a="$flushes" -v b="$batches" 'BEGIN { printf "%.4f", a / b }')
    echo "$ratio" >"$OUT/$side-$run.ratio"
    printf '%s-%s\t%s\t%s\t%s\t%s\t%s\n' "$side" "$run" "$batches" "$flushes" "$ratio" \
        "$(scale "$(of "$side-$run" '.rates.achieved * .load.record_bytes')" 1e6)" "$(cat "$OUT/$side-$run.load")"
}
for run in $(seq "$RUNS"); do
    # One connection with 64 requests in flight, and 64 connections with one; a request is one batch.
    measure pipelined --partitions 1 --producers 1 --window 64 --batch 1KiB --record-size 512
    measure connections --partitions 1 --producers 64 --window 1 --batch 1KiB --record-size 512
    measure large --partitions 1 --producers 1 --window 64 --batch 16KiB --record-size 1KiB
done
for side in pipelined connections large; do
    echo "$side: median $(median $(for run in $(seq "$RUNS"); do cat "$OUT/$side-$run.ratio"; done)) flushes a batch"
done
