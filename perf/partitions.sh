#!/bin/sh
# A thousand busy partitions on a shard against one, at the same total rate: the page is partitions.md.
. "$(dirname "$0")/lib.sh"
load="--rate ${RATE:-1k} --record-size 1KiB --duration ${EACH}s --consumers 0 --broker-arg --shards --broker-arg 1"
for run in $(seq "$RUNS"); do
    one "1-$run" --partitions 1 $load
    one "1000-$run" --partitions 1000 $load
done
printf 'partitions-run\tp50\tp99\tp99.9\thiccup99.9 (µs)\tvalid\tload\n'
for run in $(seq "$RUNS"); do
    for side in 1 1000; do
        printf '%s\t' "$side-$run"
        latencies "$side" "$run"
    done
done
for quantile in p50 p99 p999; do
    a=$(median $(all 1 ".latency.response.${quantile}_ns"))
    b=$(median $(all 1000 ".latency.response.${quantile}_ns"))
    echo "$quantile: 1 partition $(scale "$a" 1000) µs, 1000 partitions $(scale "$b" 1000) µs, ratio $(ratio "$b" "$a")"
done
