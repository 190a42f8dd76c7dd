#!/bin/sh
# Strandline against Apache Kafka on the same machine, the same load generator, turn by turn: the page is against-kafka.md.
#
# Kafka runs at KAFKA (host:port); with KAFKA_LIB, a folder with its jars (kafka_2.13 4.2.0 and what it needs from Maven
# Central), this script starts one KRaft node with Kafka's defaults there and stops it at the end. Its data lies in $DATA, too.
# MODES: "cache" is Kafka's default, acknowledged from the page cache; "flush" is the topic with flush.messages=1.
. "$(dirname "$0")/lib.sh"
. "$here/broker.sh"
MODES=${MODES:-cache flush}
KAFKA=${KAFKA:-127.0.0.1:23192}

start_kafka() {
    port=${KAFKA#*:}
    rm -rf "$DATA/kafka"
    mkdir -p "$DATA/kafka"
    cat >"$DATA/kafka/server.properties" <<EOF
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
controller.quorum.voters=1@127.0.0.1:$((port + 1))
log.dirs=$DATA/kafka/data
offsets.topic.replication.factor=1
# A minute by default: then the space of a deleted topic is given back in the middle of somebody else's run.
log.segment.delete.delay.ms=1000
EOF
    if curl -s "telnet://$KAFKA" -m 0.2 -o /dev/null </dev/null; [ $? -ne 7 ]; then
        echo "somebody listens on $KAFKA already: name another one with KAFKA"
        exit 1
    fi
    # Kafka's own start script gives the JVM these flags.
    jvm="-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent"
    java -Xmx256m -cp "$KAFKA_LIB/*" kafka.tools.StorageTool format -t cGVlcnBlZXJwZWVycGVlcg \
        -c "$DATA/kafka/server.properties" >"$OUT/kafka.out" 2>&1
    # shellcheck disable=SC2086
    nice -n "$PRIORITY" java -Xmx2g -Xms2g $jvm -cp "$KAFKA_LIB/*" kafka.Kafka "$DATA/kafka/server.properties" >>"$OUT/kafka.out" 2>&1 &
    kafka=$!
    trap 'stop_broker; kill $kafka 2>/dev/null; wait $kafka; rm -rf "$DATA/kafka"' EXIT
    while curl -s "telnet://$KAFKA" -m 0.2 -o /dev/null </dev/null; [ $? -eq 7 ]; do
        kill -0 "$kafka" 2>/dev/null || { tail -5 "$OUT/kafka.out"; exit 1; }
        sleep 0.5
    done
    sleep 3
}

# What the run before left in the page cache, or to be deleted, is no part of the next one.
settle() {
    sleep 2
    sync
}

# pair LOAD MODE OPTIONS...: one run of each side.
pair() {
    load=$1 mode=$2
    shift 2
    case $mode in
    cache) config= ;;
    flush) config="--topic-config flush.messages=1" ;;
    esac
    # shellcheck disable=SC2086
    settle
    one "kafka-$mode-$load-$run" -b "$KAFKA" $config --record-size 1KiB --duration "${EACH}s" "$@"
    settle
    one "strandline-$mode-$load-$run" -b "$address" --record-size 1KiB --duration "${EACH}s" "$@"
}

start_broker
[ -z "${KAFKA_LIB:-}" ] || start_kafka
# The JVM compiles what is hot: it gets a run of each kind before any that counts.
run=warm
for mode in $MODES; do
    pair 1k "$mode" --rate 1k --partitions 12 --no-verify
    pair max "$mode" --rate max --partitions 12 --no-verify --batch 128KiB
done
for run in $(seq "$RUNS"); do
    for mode in $MODES; do
        pair 1k "$mode" --rate 1k --partitions 12 --consumers 1
        pair 5k "$mode" --rate 5k --partitions 12 --consumers 1
    done
done
for run in $(seq "$RUNS"); do
    for mode in $MODES; do
        pair max "$mode" --rate max --partitions 12 --no-verify --batch 128KiB
    done
done
for mode in $MODES; do
    for load in 1k 5k; do
        printf '\n%s, %s/s\tp50\tp99\tp99.9\thiccup99.9 (µs)\tvalid\tload\n' "$mode" "$load"
        for run in $(seq "$RUNS"); do
            for side in kafka strandline; do
                printf '%s-%s\t' "$side" "$run"
                latencies "$side-$mode-$load" "$run"
            done
        done
        for quantile in p50 p99 p999; do
            a=$(median $(all "kafka-$mode-$load" ".latency.response.${quantile}_ns"))
            b=$(median $(all "strandline-$mode-$load" ".latency.response.${quantile}_ns"))
            echo "$quantile: kafka $(scale "$a" 1000) µs, strandline $(scale "$b" 1000) µs, ratio $(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.3f", b / a }')"
        done
    done
    a=$(median $(all "kafka-$mode-max" '.rates.achieved * .load.record_bytes'))
    b=$(median $(all "strandline-$mode-max" '.rates.achieved * .load.record_bytes'))
    printf '\n%s, producer MB/s: kafka %s, strandline %s, ratio %s\n' "$mode" "$(scale "$a" 1e6)" "$(scale "$b" 1e6)" "$(ratio "$b" "$a")"
    all "kafka-$mode-max" '.rates.achieved * .load.record_bytes / 1e6 | round' | tr '\n' ' '
    echo kafka
    all "strandline-$mode-max" '.rates.achieved * .load.record_bytes / 1e6 | round' | tr '\n' ' '
    echo strandline
done
