//! Listeners, connections and requests.

use super::super::key::{Check, Effect, Key, Kind};

const OWN_THREADS: Effect = Effect::Without("a shard is one thread: use strandline.shards");
const OWN_CONNECTIONS: Effect =
    Effect::Without("nodes talk over connections of their own, with fixed times: see docs/cluster.md");
const QUOTAS: Effect = Effect::Without("quotas are not served yet");

pub(super) const KEYS: &[Key] = &[
    Key::broker("advertised.listeners", Kind::List, None).doc(
        "What clients are told to connect to, as NAME://host:port a listener. The port is that of \
             shard 0; shard s is told with that port plus s. Needed where a listener binds every \
             interface or stands behind address translation.",
    ),
    Key::broker("connections.max.idle.ms", Kind::Long, Some("600000")).doc(
        "A connection without a request for this long is closed; a negative value lets it idle for \
             ever.",
    ),
    Key::broker(
        "delete.records.purgatory.purge.interval.requests",
        Kind::Int,
        Some("1"),
    )
    .effect(OWN_THREADS)
    .doc("How many finished DeleteRecords requests are kept before they are purged."),
    Key::broker("fetch.max.bytes", Kind::Int, Some("57671680"))
        .at_least(1_024)
        .doc(
            "The most bytes of records in one answer to a fetch; a first batch that is larger is sent \
             all the same.",
        ),
    Key::broker("fetch.purgatory.purge.interval.requests", Kind::Int, Some("1000"))
        .effect(OWN_THREADS)
        .doc("How many finished fetches are kept before they are purged."),
    Key::broker("inter.broker.listener.name", Kind::String, None)
        .effect(OWN_CONNECTIONS)
        .doc("The listener that nodes use among themselves."),
    Key::broker(
        "listener.security.protocol.map",
        Kind::String,
        Some("SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"),
    )
    .effect(Effect::Partly("only PLAINTEXT can be served"))
    .doc("The protocol of each listener, as NAME:PROTOCOL."),
    // Read only, unlike Kafka's: a change would be answered with success, and nothing would come of it.
    Key::broker("listeners", Kind::List, Some("PLAINTEXT://127.0.0.1:9092")).doc(
        "What the node listens on, as NAME://host:port, one item a listener. Shard s listens on the \
             port plus s; port 0 takes a free one for each shard.",
    ),
    Key::broker("max.connection.creation.rate", Kind::Int, Some("2147483647"))
        .cluster_wide()
        .at_least(0)
        .effect(QUOTAS)
        .doc("The most new connections a second."),
    Key::broker("max.connections", Kind::Int, Some("2147483647"))
        .cluster_wide()
        .at_least(0)
        .doc(
            "The most open connections of the node, over all shards. What the limit on descriptors \
             leaves for connections holds where it is lower.",
        ),
    Key::broker("max.connections.per.ip", Kind::Int, Some("2147483647"))
        .cluster_wide()
        .at_least(0)
        .doc("The most open connections of the node from one address."),
    Key::broker("max.connections.per.ip.overrides", Kind::String, Some(""))
        .cluster_wide()
        .check(Check::HostCounts)
        .doc("Other maxima for single addresses, as address:count."),
    Key::broker(
        "max.incremental.fetch.session.cache.slots",
        Kind::Int,
        Some("1000"),
    )
    .at_least(0)
    .doc("The most fetch sessions of a shard."),
    Key::broker("max.request.partition.size.limit", Kind::Int, Some("2000"))
        .at_least(1)
        .doc("The most partitions in one answer to DescribeTopicPartitions."),
    Key::broker("num.io.threads", Kind::Int, Some("8"))
        .cluster_wide()
        .at_least(1)
        .effect(OWN_THREADS)
        .doc("Threads that serve requests."),
    Key::broker("num.network.threads", Kind::Int, Some("3"))
        .cluster_wide()
        .at_least(1)
        .effect(OWN_THREADS)
        .doc("Threads that read requests."),
    Key::broker(
        "producer.purgatory.purge.interval.requests",
        Kind::Int,
        Some("1000"),
    )
    .effect(OWN_THREADS)
    .doc("How many finished produces are kept before they are purged."),
    Key::broker("queued.max.request.bytes", Kind::Long, Some("-1"))
        .effect(Effect::Without(
            "a shard's memory budget bounds what is received: strandline.memory.bytes",
        ))
        .doc("The most bytes of requests that wait."),
    Key::broker("queued.max.requests", Kind::Int, Some("500"))
        .at_least(1)
        .effect(OWN_THREADS)
        .doc("The most requests that wait for a thread."),
    Key::broker("request.timeout.ms", Kind::Int, Some("30000"))
        .effect(OWN_CONNECTIONS)
        .doc("How long a request between nodes may take."),
    Key::broker(
        "socket.connection.setup.timeout.max.ms",
        Kind::Long,
        Some("30000"),
    )
    .effect(OWN_CONNECTIONS)
    .doc("The longest time that connecting to another node may take."),
    Key::broker("socket.connection.setup.timeout.ms", Kind::Long, Some("10000"))
        .effect(OWN_CONNECTIONS)
        .doc("How long connecting to another node may take at first."),
    Key::broker("socket.listen.backlog.size", Kind::Int, Some("50"))
        .at_least(1)
        .effect(Effect::Without("the backlog is the kernel's largest"))
        .doc("How many connections may wait to be accepted."),
    Key::broker("socket.receive.buffer.bytes", Kind::Int, Some("102400"))
        .effect(Effect::Without("the kernel sizes it"))
        .doc("Size of a socket's receive buffer."),
    Key::broker("socket.request.max.bytes", Kind::Int, Some("104857600"))
        .at_least(1)
        .doc("The largest request; a larger one closes its connection before any memory is taken."),
    Key::broker("socket.send.buffer.bytes", Kind::Int, Some("102400"))
        .effect(Effect::Without("the kernel sizes it"))
        .doc("Size of a socket's send buffer."),
];
