#!/bin/sh
# What the load generators themselves cost: strandline-bench and Kafka's ProducerPerformance, the same rate against the same Kafka, turn by
# turn. CPU is user and system time of the whole process; that of a run of one record (for a JVM mostly its start) is shown beside it.
#
#   RATES  records a second to send, each for $EACH seconds                                             (5000 20000)
. "$(dirname "$0")/../lib.sh"
. "$here/kafka.sh"
RATES=${RATES:-5000 20000}

# cpu COMMAND...: runs it with its output in $OUT/tool.out, and sets $seconds of CPU.
cpu() {
    times >"$OUT/before"
    "$@" >"$OUT/tool.out" 2>"$OUT/tool.err" || true
    times >"$OUT/after"
    # The second line is of the children: minutes and seconds, user and system.
    seconds=$(sed -sn 2p "$OUT/before" "$OUT/after" | tr 'ms' '  ' | awk '{ s = -s + $1 * 60 + $2 + $3 * 60 + $4 } END { printf "%.2f", s }')
}

ours() { # RATE RECORDS
    rm -rf "$DATA/run"
    cpu "$BIN/strandline-bench" run --quiet --json --no-verify -b "$KAFKA" --topic generator --keep-topic --rate "$1" --num-records "$2" \
        --batch 16KiB --output "$DATA/run"
    latency=$(jq -r '.latency.response | "p50 \(.p50_ns / 1e6 | . * 100 | round / 100) ms, p99 \(.p99_ns / 1e6 | . * 100 | round / 100) ms"' "$OUT/tool.out")
    rm -rf "$DATA/run"
}

theirs() { # RATE RECORDS
    cpu java -Xmx512m -cp "$KAFKA_LIB/*" -Dlog4j.configurationFile=/dev/null org.apache.kafka.tools.ProducerPerformance --topic generator \
        --num-records "$2" --record-size 1024 --throughput "$1" --command-property "bootstrap.servers=$KAFKA" "acks=all"
    latency=$(tail -n 1 "$OUT/tool.out" | sed -nE 's/.* ([0-9]+) ms 50th.* ([0-9]+) ms 99th.*/p50 \1 ms, p99 \2 ms/p')
}

install_kafka
start_kafka
trap stop_kafka EXIT
"$BIN/strandline-bench" run --quiet --no-verify -b "$KAFKA" --topic generator --keep-topic --partitions 12 --rate 1k --num-records 20000 \
    --output "$DATA/run" >"$OUT/warm.out" 2>&1 || true
rm -rf "$DATA/run"
echo "| rate | tool | CPU s | CPU s of one record | µs CPU a record | what it says |"
echo "|---|---|---|---|---|---|"
for rate in $RATES; do
    for run in $(seq "$RUNS"); do
        for tool in ours theirs; do
            "$tool" 1000 1
            start=$seconds
            "$tool" "$rate" $((rate * EACH))
            [ "$tool" = ours ] && name=strandline-bench || name=ProducerPerformance
            echo "| $rate | $name $run | $seconds | $start | $(awk -v a="$seconds" -v b="$start" -v n=$((rate * EACH)) 'BEGIN { printf "%.1f", (a - b) * 1e6 / n }') | $latency |"
        done
    done
done
