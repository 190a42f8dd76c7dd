# A broker of its own for a script: start_broker, counter, stop_broker. Sourced after lib.sh.
# start_broker OPTIONS...: on free ports; sets $address (all shards) and $http.
start_broker() {
    rm -rf "$DATA/broker"
    mkdir -p "$DATA/broker"
    nice -n "$PRIORITY" "$BIN/strandline" --host 127.0.0.1 --port 0 --http-port 0 \
        --data-dir "$DATA/broker" "$@" >"$OUT/broker.out" 2>"$OUT/broker.err" &
    broker=$!
    trap stop_broker EXIT
    trap 'exit 1' INT TERM
    # Ready is one line on stdout.
    while ! grep -q '^ready:' "$OUT/broker.out"; do
        kill -0 "$broker" 2>/dev/null || { cat "$OUT/broker.err"; exit 1; }
        sleep 0.1
    done
    address=$(sed -n 's/^ready:.*PLAINTEXT \(.*\), HTTP.*/\1/p' "$OUT/broker.out" | tr ' ' ',')
    http=$(sed -n 's/^ready:.*HTTP \([^ ]*\).*/\1/p' "$OUT/broker.out")
}

stop_broker() {
    kill "$broker" 2>/dev/null || return 0
    wait "$broker" || true
    rm -rf "$DATA/broker"
}

# counter PATTERN: the sum of the counters of /metrics whose lines match.
counter() {
    curl -sf "http://$http/metrics" | awk -v of="$1" '$0 ~ "^strandline_" of { sum += $2 } END { printf "%.0f\n", sum }'
}
