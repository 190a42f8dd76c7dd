#!/bin/sh
# Reading a topic that memory does not hold, over raw sequential direct reads: the page is catch-up.md.
. "$(dirname "$0")/lib.sh"
mkdir -p "$DATA/limits"
# 2 GB, eight times the memory of the shard, so that all but the newest comes from disk.
records=${RECORDS:-2000000}
printf 'run\tread back MB/s\traw read MB/s\tratio\tload\n'
for run in $(seq "$RUNS"); do
    one "read-$run" --rate max --num-records "$records" --record-size 1KiB --partitions "${PARTITIONS:-8}" --batch 128KiB --window 8 \
        --readers "${READERS:-4}" --broker-arg --shards --broker-arg 1
    nice -n "$PRIORITY" "$BIN/strandline-bench" limits --json --data-dir "$DATA/limits" --each "${LIMITS_EACH:-1s}" >"$OUT/$run.limits"
    read=$(of "read-$run" .read_back.bytes_per_second)
    raw=$(jq .sequential_read.median "$OUT/$run.limits")
    ratio "$read" "$raw" >"$OUT/$run.ratio"
    printf '%s\t%s\t%s\t%s\t%s\n' "$run" "$(scale "$read" 1e6)" "$(scale "$raw" 1e6)" "$(cat "$OUT/$run.ratio")" "$(cat "$OUT/read-$run.load")"
done
echo "median ratio $(median $(for run in $(seq "$RUNS"); do cat "$OUT/$run.ratio"; done))"
