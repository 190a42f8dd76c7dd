# What the scripts of this folder share: where things are, a quiet moment, one run, medians. Sourced, not run.
#
#   BIN      the folder of strandline and strandline-bench      (target/release)
#   DATA     a folder on a real disk; emptied as a run ends     (target/perf)
#   RUNS     runs of each side, interleaved: A B A B ...        (5)
#   EACH     seconds of each run, after 2 s of warm-up          (8)
#   QUIET    seconds to wait for an idle machine before a run   (0)
#   PRIORITY nice value of broker and load generator            (0)
#
# Needs jq and curl. Every run's JSON stays in $OUT.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=${here%/perf*}
BIN=${BIN:-$top/target/release}
DATA=${DATA:-$top/target/perf}
RUNS=${RUNS:-5} EACH=${EACH:-8} QUIET=${QUIET:-0} PRIORITY=${PRIORITY:-0}
OUT=${OUT:-$DATA/$(basename "$0" .sh)}
mkdir -p "$OUT"

# Busy hundredths of all cores over half a second.
busy() {
    set -- $(awk '/^cpu / { print $5 + $6, $2 + $3 + $4 + $5 + $6 + $7 + $8 }' /proc/stat)
    sleep 0.5
    awk -v idle="$1" -v all="$2" '/^cpu / {
        print int(100 * (1 - ($5 + $6 - idle) / ($2 + $3 + $4 + $5 + $6 + $7 + $8 - all))) }' /proc/stat
}

# Waits until the machine does little, no longer than $QUIET seconds.
quiet() {
    waited=0
    while [ "$waited" -lt "$QUIET" ] && [ "$(busy)" -gt 8 ]; do waited=$((waited + 1)); done
}

# one NAME OPTIONS...: one run; its JSON in $OUT/NAME.json, the load of the machine before it in $OUT/NAME.load.
one() {
    name=$1
    shift
    quiet
    cut -d' ' -f1 /proc/loadavg >"$OUT/$name.load"
    rm -rf "$DATA/run"
    # An INVALID run has its figures too; that it is one stands in them.
    nice -n "$PRIORITY" "$BIN/strandline-bench" run --json --quiet --output "$DATA/run" "$@" \
        >"$OUT/$name.json" 2>"$OUT/$name.err" || [ -s "$OUT/$name.json" ] || { cat "$OUT/$name.err"; exit 1; }
    rm -rf "$DATA/run"
}

# of NAME FILTER: one figure of a run.
of() { jq -r "$2" "$OUT/$1.json"; }

# median NUMBER...
median() { printf '%s\n' "$@" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# ratio A B
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f\n", (b > 0 ? a / b : 0) }'; }

# scale NUMBER UNIT: divided, with three digits that matter.
scale() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3g\n", a / b }'; }

# latencies SIDE RUN: response p50, p99 and p99.9 in microseconds, the throughput in MB/s, hiccups p99.9, the load.
latencies() {
    of "$1-$2" '[.latency.response.p50_ns, .latency.response.p99_ns, .latency.response.p999_ns, .hiccups.p999_ns]
        | map(. / 1000 | round) | @tsv' | tr '\n' '\t'
    of "$1-$2" '(if .verdict.valid then "" else "INVALID" end)' | tr '\n' '\t'
    cat "$OUT/$1-$2.load"
}

# all SIDE FILTER: a figure of every run of a side.
all() { for run in $(seq "$RUNS"); do of "$1-$run" "$2"; done; }
