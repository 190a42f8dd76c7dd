#!/bin/sh
# The acknowledgement at low load, broker against reference broker: the page is ack-latency.md.
. "$(dirname "$0")/lib.sh"
load="--rate ${RATE:-1k} --partitions 12 --record-size 1KiB --duration ${EACH}s --consumers 0"
for run in $(seq "$RUNS"); do
    one "reference-$run" --broker null-durable $load
    one "strandline-$run" --broker-arg --shards --broker-arg 1 $load
done
printf 'side-run\tp50\tp99\tp99.9\thiccup99.9 (µs)\tvalid\tload\n'
for run in $(seq "$RUNS"); do
    for side in reference strandline; do
        printf '%s\t' "$side-$run"
        latencies "$side" "$run"
    done
done
for quantile in p50 p99 p999; do
    a=$(median $(all reference ".latency.response.${quantile}_ns"))
    b=$(median $(all strandline ".latency.response.${quantile}_ns"))
    echo "$quantile: reference $(scale "$a" 1000) µs, strandline $(scale "$b" 1000) µs, ratio $(ratio "$b" "$a")"
done
