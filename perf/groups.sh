#!/bin/sh
# Groups: Strandline and an Apache Kafka on the same machine, turn by turn, under the same driver: the page is groups.md.
#
# Kafka listens at KAFKA (host:port), started by hand with group.initial.rebalance.delay.ms=0; without it only Strandline runs.
# MEMBERS, CONNECTIONS: the sizes to measure. PROTOCOLS: classic, consumer. STORM=0 and REPLAY=0 leave these out.
. "$(dirname "$0")/lib.sh"
. "$here/broker.sh"
MEMBERS=${MEMBERS:-10 100 1000} CONNECTIONS=${CONNECTIONS:-1 16 128} PROTOCOLS=${PROTOCOLS:-classic consumer}
ulimit -n "$(ulimit -Hn)"

# turn NAME SCRIPT ARGUMENTS...: one run of each side, its lines in $OUT/NAME-SIDE.jsonl.
turn() {
    name=$1 script=$2
    shift 2
    for side in strandline ${KAFKA:+kafka}; do
        case $side in
        strandline) at=${address%%,*} ;;
        kafka) at=$KAFKA ;;
        esac
        quiet
        nice -n "$PRIORITY" python3 "$here/groups/$script" "$at" "$@" >>"$OUT/$name-$side.jsonl"
    done
}

# row NAME FIGURE: the median of a figure on each side, and all values.
row() {
    for side in strandline ${KAFKA:+kafka}; do
        [ "$(jq -r ".$2 // empty" "$OUT/$1-$side.jsonl" | wc -l)" -gt 0 ] || continue
        # shellcheck disable=SC2046
        printf '%-22s %-8s %-10s %s  (%s)\n' "$1" "$2" "$side" "$(median $(jq -r ".$2" "$OUT/$1-$side.jsonl"))" \
            "$(jq -r ".$2" "$OUT/$1-$side.jsonl" | tr '\n' ' ')"
    done
}

rm -f "$OUT"/*.jsonl
start_broker --set group.initial.rebalance.delay.ms=0
# The JVM compiles what is hot: a run of each kind before those that count.
for run in warm $(seq "$RUNS"); do
    for protocol in $PROTOCOLS; do
        for members in $MEMBERS; do turn "$protocol-$members" join.py "$members" "$protocol"; done
    done
    for connections in $CONNECTIONS; do turn "commits-$connections" commits.py "$connections" "$EACH"; done
    [ "$run" != warm ] || rm -f "$OUT"/*.jsonl
done
for protocol in $PROTOCOLS; do
    for members in $MEMBERS; do
        row "$protocol-$members" start
        row "$protocol-$members" again
    done
done
for connections in $CONNECTIONS; do row "commits-$connections" commits_per_second; done
cut -d' ' -f1-3 /proc/loadavg
# What a storm of rebalances on one shard costs a producer on the other.
[ "${STORM:-1}" = 0 ] || python3 "$here/groups/storm.py" "${address%%,*}" 100 4
stop_broker
[ "${REPLAY:-1}" = 0 ] || SCALE_BIN=$BIN SCALE_DATA=$DATA/replay python3 "$here/groups/replay.py"
