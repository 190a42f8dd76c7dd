#!/bin/sh
# Durable bytes a second over what disk and loopback allow: the page is durable-throughput.md.
. "$(dirname "$0")/lib.sh"
. "$here/broker.sh"
start_broker --shards 1
mkdir -p "$DATA/limits"
printf 'path-run\tMB/s\tcommit KiB\traw MB/s\tloopback MB/s\tratio\tload\n'
# measure PATH OPTIONS...: the limits, then a run in the same minute.
measure() {
    side=$1
    shift
    # Before the run, once the disk has digested the topic deleted after the last one: that halves its rate and more.
    sync
    sleep 4
    nice -n "$PRIORITY" "$BIN/strandline-bench" limits --json --data-dir "$DATA/limits" --each "${LIMITS_EACH:-1s}" >"$OUT/$side-$run.limits"
    flushed=$(counter journal_flushes_total)
    one "$side-$run" -b "$address" --rate max --no-verify --duration "${EACH}s" --partitions 12 "$@"
    flushed=$(($(counter journal_flushes_total) - flushed))
    sent=$(of "$side-$run" '.tool.records * .load.record_bytes')
    got=$(of "$side-$run" '.rates.achieved * .load.record_bytes')
    # The raw ceiling at the commit size of this run: between the two sizes measured around it.
    jq -r --argjson got "$got" --argjson commit "$((sent / flushed))" --arg load "$(cat "$OUT/$side-$run.load")" --arg name "$side-$run" '
        [.durable[] | { bytes, rate: .bytes_per_second.median }] as $all
        | ([$commit, $all[0].bytes] | max) as $commit
        | ([$all[] | select(.bytes <= $commit)] | last) as $below
        | ([$all[] | select(.bytes > $commit)] | first // $below) as $above
        | (if $above.bytes == $below.bytes then $below.rate else
            $below.rate + ($above.rate - $below.rate) * (($commit - $below.bytes) / ($above.bytes - $below.bytes)) end) as $raw
        | .loopback_stream.median as $loopback
        | ($got / ([$raw, $loopback] | min)) as $ratio
        | [$name, ($got / 1e6 | round), ($commit / 1024 | round), ($raw / 1e6 | round), ($loopback / 1e6 | round),
            ($ratio * 100 | round / 100), $load] | @tsv' "$OUT/$side-$run.limits" | tee "$OUT/$side-$run.row"
}
for run in $(seq "$RUNS"); do
    # Batches below strandline.direct.bytes go through the journal, larger ones to their segment.
    measure journal --batch 64KiB --window 16
    measure extents --batch 1MiB --window 16
done
for side in journal extents; do
    echo "$side: median ratio $(median $(for run in $(seq "$RUNS"); do cut -f6 "$OUT/$side-$run.row"; done))"
done
