# Tables and curves of what compare.sh left in $OUT. Sourced after lib.sh.

# runs_of NAME FILTER: a figure of every run that is there.
runs_of() {
    for file in "$OUT/$1"-[0-9]*.json; do
        [ ! -e "$file" ] || jq -r "$2" "$file"
    done
}

# median_run NAME: the file of the run with the median p99.
median_run() {
    for file in "$OUT/$1"-[0-9]*.json; do
        [ ! -e "$file" ] || echo "$(jq .latency.response.p99_ns "$file") $file"
    done | sort -g | awk '{ file[NR] = $2 } END { print file[int((NR + 1) / 2)] }'
}

# row NAME LABEL: medians of all runs of one side, with what its acknowledgement promises.
row() {
    [ -n "$(median_run "$1")" ] || return 0
    for figure in .latency.response.p50_ns .latency.response.p99_ns .latency.response.p999_ns .latency.end_to_end.p99_ns .hiccups.p999_ns \
        '(.rates.achieved // 0) * .load.record_bytes'; do
        median $(runs_of "$1" "$figure // 0")
    done | tr '\n' ' ' | awk -v label="$2" -v durable="$(jq -r '.target.durability | split(":")[0]' "$(median_run "$1")")" \
        -v invalid="$(runs_of "$1" '.verdict.valid' | grep -c false)" -v runs="$(runs_of "$1" 1 | wc -l)" '
        function ms(ns) { return ns > 0 ? sprintf("%.3g", ns / 1e6) : "-" }
        { printf "| %s | %s | %s | %s | %s | %s | %s | %.1f | %d, %d INVALID |\n", label, durable, ms($1), ms($2), ms($3), ms($4), ms($5), $6 / 1e6, runs, invalid }'
}

# quotient MODE WORKLOAD: Strandline over Kafka.
quotient() {
    line=
    for figure in .latency.response.p50_ns .latency.response.p99_ns .latency.response.p999_ns .rates.achieved; do
        a=$(median $(runs_of "kafka-$1-$2" "$figure // 0")) b=$(median $(runs_of "strandline-$1-$2" "$figure // 0"))
        line="$line $(awk -v a="$a" -v b="$b" 'BEGIN { if (a > 0) printf "%.2f", b / a; else print "-" }')"
    done
    # shellcheck disable=SC2086
    set -- $line
    echo "Strandline ÷ Kafka: p50 $1, p99 $2, p99.9 $3, MB/s $4"
}

title() {
    case $1 in
    low) echo "Low rate: 1,000 records/s, 12 partitions" ;;
    half) echo "Half of the peak: $(runs_of "kafka-$2-half" '.rates.offered | round' | head -n 1) records/s, 12 partitions" ;;
    peak) echo "Peak: closed loop, 12 partitions, batches of 128 KiB" ;;
    partitions) echo "1,000 partitions, 1,000 records/s" ;;
    esac
}

report() {
    for workload in low half peak partitions; do
        [ -n "$(ls "$OUT"/kafka-*-"$workload"-[0-9]*.json 2>/dev/null)" ] || continue
        set --
        for mode in cache flush; do
            [ -n "$(median_run "kafka-$mode-$workload")" ] || continue
            echo
            echo "### $(title "$workload" "$mode"); Kafka: $mode"
            echo
            echo "| ms, medians of runs | flushed before the ack | p50 | p99 | p99.9 | e2e p99 | hiccups p99.9 | MB/s | runs |"
            echo "|---|---|---|---|---|---|---|---|---|"
            row "kafka-$mode-$workload" "Kafka"
            row "strandline-$mode-$workload" "Strandline"
            echo
            quotient "$mode" "$workload"
            set -- "$@" "Kafka $mode" "$(median_run "kafka-$mode-$workload")" "Strandline beside it" "$(median_run "strandline-$mode-$workload")"
        done
        curve "$OUT/$workload.svg" "$(title "$workload" "$mode" | cut -d: -f1): response by percentile, the run with the median p99" "$@"
        echo "curve: $OUT/$workload.svg"
    done
}

# curve FILE TITLE [NAME RUN.json]...: latency by percentile, each nine as wide as the one before, both axes by magnitude.
curve() {
    out=$1 title=$2
    shift 2
    number=0
    while [ $# -gt 1 ]; do
        number=$((number + 1))
        jq -r --arg name "$1" --arg n "$number" '.curves[] | select(.name == "response") | .points[] | select(.quantile < 1)
            | [$n, $name, .quantile, .value_ns] | @tsv' "$2"
        shift 2
    done | awk -F'\t' -v title="$title" '
        function x(q) { return 70 + 560 * (-log(1 - q) / log(10)) / 4 }
        function y(ns) { return 330 - 300 * (log(ns / 1e4) / log(10)) / 6 }
        BEGIN {
            split("#d1570a #1f6feb #8250df #1a7f37", colour, " ")
            print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 680 420\" font-family=\"sans-serif\" font-size=\"12\">"
            print "<rect width=\"680\" height=\"420\" fill=\"#fff\"/><text x=\"70\" y=\"16\" font-weight=\"bold\">" title "</text>"
            split("0.01 0.1 1 10 100 1000 10000", ms, " ")
            for (i = 1; i <= 7; i++) {
                at = 330 - 50 * (i - 1)
                print "<path d=\"M70 " at "H630\" stroke=\"#ddd\"/><text x=\"64\" y=\"" at + 4 "\" text-anchor=\"end\">" ms[i] " ms</text>"
            }
            split("0 0.9 0.99 0.999 0.9999", quantile, " "); split("0% 90% 99% 99.9% 99.99%", label, " ")
            for (i = 1; i <= 5; i++)
                print "<text x=\"" x(quantile[i]) "\" y=\"350\" text-anchor=\"middle\">" label[i] "</text>"
        }
        $1 != last { if (last) print "\"/>"; last = $1; name[last] = $2
            printf "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"%s\" points=\"", colour[last] }
        $3 <= 0.9999 && $4 >= 1e4 { printf "%.1f,%.1f ", x($3), y($4) }
        END {
            if (last) print "\"/>"
            for (i = 1; i <= last; i++)
                print "<path d=\"M" 70 + 150 * (i - 1) " 380h24\" stroke=\"" colour[i] "\" stroke-width=\"3\"/><text x=\"" 98 + 150 * (i - 1) "\" y=\"384\">" name[i] "</text>"
            print "</svg>"
        }' >"$out"
}
