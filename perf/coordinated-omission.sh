#!/usr/bin/env bash
# What one stall of known length does to the numbers of each tool: perf/coordinated-omission.sh [LIB]
# A reference broker stalls once, for a second. LIB is a folder with Kafka 4.2's jars; without it Kafka's own tools are left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bench=${BENCH:-target/release/strandline-bench}
lib=${1:-}
out=$(mktemp -d)
broker=
trap '[ -z "$broker" ] || kill "$broker"; rm -rf "$out"' EXIT

# Starts a broker that stalls for a second once it has RECORDS.
stalling() {
  [ -z "$broker" ] || { kill "$broker"; wait "$broker" 2>/dev/null || true; }
  rm -f "$out/ready"; mkfifo "$out/ready"
  "$bench" null-broker --port 0 --retain-bytes 64MiB --pause-after "$1" --pause-for 1s >"$out/ready" &
  broker=$!
  read -r _ address <"$out/ready"
}
row() { printf '%-52s %9s %9s %9s %9s %9s\n' "$@"; }
ours() { # NAME OPTION...
  local name=$1; shift
  "$bench" run -b "$address" --quiet --json --output "$out/run" --partitions 1 --warm-up 0 --no-verify "$@" >"$out/json" || true
  python3 - "$name" "$out/json" <<'PY'
import json, sys
r = json.load(open(sys.argv[2]))["latency"]["response"]
print("%-52s %9d" % (sys.argv[1], r["count"]), *("%9.1f" % (r[k] / 1e6) for k in ("p50_ns", "p90_ns", "p99_ns", "max_ns")))
PY
}
java_tool() { java -Xmx256m -cp "$lib/*" -Dlog4j.configurationFile=/dev/null "$@" 2>/dev/null; }

row "milliseconds" samples p50 p90 p99 max
row "by arithmetic: 10,000 at 1,000/s, a stall of 1 s" 10000 0 0 900 1000
stalling 5000; ours "strandline-bench, open loop at 1,000/s" --rate 1k --num-records 10000
stalling 5000; ours "strandline-bench, closed loop, one in flight" --rate max --num-records 10000 --window 1 --batch 1100
[ -n "$lib" ] || exit 0
producer() { # NAME PROPERTY...
  local name=$1; shift
  java_tool org.apache.kafka.tools.ProducerPerformance --topic omission --num-records 10000 --record-size 1024 --throughput 1000 \
    --command-property "bootstrap.servers=$address" "enable.idempotence=false" "$@" | tail -n 1 |
    sed -nE 's/^([0-9]+) records sent.*, ([0-9.]+) ms max latency, ([0-9]+) ms 50th, ([0-9]+) ms 95th, ([0-9]+) ms 99th.*/\1 \3 - \5 \2/p' |
    { read -r count p50 p90 p99 max && row "$name" "$count" "$p50" "$p90" "$p99" "$max"; }
}
topic() { "$bench" run -b "$address" --quiet --topic omission --keep-topic --partitions 1 --rate 1k --num-records 1 --no-verify --output "$out/run" >/dev/null || true; }
stalling 5001; topic; producer "kafka-producer-perf-test at 1,000/s"
stalling 5001; topic; producer "the same, buffer.memory=64 KiB (send() waits)" buffer.memory=65536
