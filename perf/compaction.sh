#!/bin/sh
# The cleaner and retention, each against what it may cost: the page is compaction.md. Needs Python.
#
# MEGABYTES: the size of the log that is cleaned (1000). PARTITIONS: for retention (10000).
. "$(dirname "$0")/lib.sh"
export SCALE_BIN=$BIN SCALE_DATA=$DATA/compaction
for run in $(seq "$RUNS"); do
    for part in "speed ${MEGABYTES:-1000}" "tail ${MEGABYTES:-1000} $EACH" "retention ${PARTITIONS:-10000}"; do
        quiet
        # shellcheck disable=SC2086
        nice -n "$PRIORITY" python3 "$here/scale/compaction.py" $part 2>>"$OUT/broker.log"
    done
done
