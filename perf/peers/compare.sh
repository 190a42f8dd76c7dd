#!/bin/sh
# Strandline against Apache Kafka: the same machine, the same cores, the same load generator, turn by turn (A B A B). The page is
# ../against-kafka.md.
#
#   sh perf/peers/compare.sh           starts both brokers, runs everything, prints tables and draws curves
#   sh perf/peers/compare.sh report    prints and draws again what the last runs left in $OUT
#
#   MODES      "cache": Kafka's default, acknowledged from the page cache; "flush": Kafka's topic with flush.messages=1;
#              Strandline's topic is durable in both
#   WORKLOADS  which of: low (1k/s), half (half of the slower side's peak, linger 5 ms, which is what Kafka's producers have), peak (closed loop), partitions (1,000 of them at 1k/s)
#
# Several calls with parts of both add up in $OUT; "half" takes the peaks that are there. More options: ../lib.sh, kafka.sh. Needs Java, and
# Maven unless KAFKA_LIB names a folder with Kafka's jars.
. "$(dirname "$0")/../lib.sh"
. "$here/../broker.sh"
. "$here/kafka.sh"
. "$here/report.sh"
MODES=${MODES:-cache flush}
WORKLOADS=${WORKLOADS:-low peak half partitions}

if [ "${1:-}" = report ]; then
    report
    exit
fi

# What the run before left in the page cache, or to be deleted, is no part of the next one.
settle() {
    sleep 1
    sync
}

# pair MODE WORKLOAD RUN OPTIONS...: one run of each side.
pair() {
    mode=$1 workload=$2 run=$3
    shift 3
    case $mode in
    cache) config= ;;
    flush) config="--topic-config flush.messages=1" ;;
    esac
    settle
    # shellcheck disable=SC2086
    one "kafka-$mode-$workload-$run" -b "$KAFKA" $config --record-size 1KiB --duration "${EACH}s" --warm-up 1s "$@"
    settle
    one "strandline-$mode-$workload-$run" -b "$address" --record-size 1KiB --duration "${EACH}s" --warm-up 1s "$@"
}

# Half of the peak of the slower side, in records a second.
half_of_peak() {
    a=$(median $(runs_of "kafka-$1-peak" .rates.achieved))
    b=$(median $(runs_of "strandline-$1-peak" .rates.achieved))
    awk -v a="$a" -v b="$b" 'BEGIN { printf "%d", (a < b ? a : b) / 2 }'
}

# load MODE WORKLOAD RUN: what each workload is.
load() {
    case $2 in
    low) pair "$@" --rate 1k --partitions 12 --consumers 1 ;;
    half) pair "$@" --rate "$(half_of_peak "$1")" --partitions 12 --batch 128KiB --linger-ms 5 --consumers 1 ;;
    peak) pair "$@" --rate max --partitions 12 --batch 128KiB --no-verify ;;
    partitions) pair "$@" --rate 1k --partitions 1000 --consumers 1 ;;
    *) echo "there is no workload $2"; exit 1 ;;
    esac
}

install_kafka
start_broker
trap 'stop_broker; stop_kafka' EXIT
start_kafka
# The JVM compiles what is hot: it gets runs that do not count.
for mode in $MODES; do
    load "$mode" peak warm
    load "$mode" low warm
done
rm -f "$OUT"/*-warm.*
for mode in $MODES; do
    for workload in $WORKLOADS; do
        for run in $(seq "$RUNS"); do
            load "$mode" "$workload" "$run"
        done
    done
done
report
