# One Apache Kafka for a script: install_kafka, start_kafka, stop_kafka. Sourced after lib.sh.
#
#   KAFKA_LIB a folder with Kafka's jars; without it Maven lays them into target/peers (pom.xml names the version)
#   KAFKA     host:port of the node that is started                                                    (127.0.0.1:23192)
KAFKA=${KAFKA:-127.0.0.1:23192}

# Maven Central, once.
install_kafka() {
    KAFKA_LIB=${KAFKA_LIB:-$top/target/peers/kafka}
    [ -e "$KAFKA_LIB" ] || {
        echo "fetching Kafka's jars by Maven"
        rm -rf "$KAFKA_LIB.part"
        mkdir -p "$(dirname "$KAFKA_LIB")"
        mvn -B -q -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$KAFKA_LIB.part"
        mv "$KAFKA_LIB.part" "$KAFKA_LIB"
    }
}

# Whether nobody listens there.
free() {
    code=0
    curl -s "telnet://$1" -m 0.2 -o /dev/null </dev/null || code=$?
    [ "$code" = 7 ]
}

# One KRaft node, broker and controller in one JVM, with Kafka's defaults; its data lies in $DATA.
start_kafka() {
    port=${KAFKA#*:}
    rm -rf "$DATA/kafka"
    mkdir -p "$DATA/kafka"
    cat >"$DATA/kafka/server.properties" <<END
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
controller.quorum.voters=1@127.0.0.1:$((port + 1))
log.dirs=$DATA/kafka/data
offsets.topic.replication.factor=1
# A minute by default: then the space of a deleted topic is given back in the middle of somebody else's run.
log.segment.delete.delay.ms=1000
END
    free "$KAFKA" || { echo "somebody listens on $KAFKA already: name another one with KAFKA"; exit 1; }
    # Kafka's own start script gives the JVM these flags.
    jvm="-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent"
    java -Xmx256m -cp "$KAFKA_LIB/*" kafka.tools.StorageTool format -t cGVlcnBlZXJwZWVycGVlcg \
        -c "$DATA/kafka/server.properties" >"$OUT/kafka.out" 2>&1
    # shellcheck disable=SC2086
    nice -n "$PRIORITY" java -Xmx2g -Xms2g $jvm -cp "$KAFKA_LIB/*" kafka.Kafka "$DATA/kafka/server.properties" >>"$OUT/kafka.out" 2>&1 &
    kafka=$!
    while free "$KAFKA"; do
        kill -0 "$kafka" 2>/dev/null || { tail -5 "$OUT/kafka.out"; exit 1; }
        sleep 0.5
    done
    sleep 3
}

stop_kafka() {
    kill "$kafka" 2>/dev/null || return 0
    wait "$kafka" || true
    rm -rf "$DATA/kafka"
}
