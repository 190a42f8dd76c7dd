//! Listeners, connections and requests.

use super::super::key::{Check, Key, Kind};

pub(super) const KEYS: &[Key] = &[
    Key::broker("advertised.listeners", Kind::List, None).doc(""),
    Key::broker("connections.max.idle.ms", Kind::Long, Some("600000")).doc(""),
    Key::broker(
        "delete.records.purgatory.purge.interval.requests",
        Kind::Int,
        Some("1"),
    )
    .doc(""),
    Key::broker("fetch.max.bytes", Kind::Int, Some("57671680"))
        .at_least(1_024)
        .doc(""),
    Key::broker("fetch.purgatory.purge.interval.requests", Kind::Int, Some("1000")).doc(""),
    Key::broker("inter.broker.listener.name", Kind::String, None).doc(""),
    Key::broker(
        "listener.security.protocol.map",
        Kind::String,
        Some("SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"),
    )
    .per_broker()
    .doc(""),
    Key::broker("listeners", Kind::List, Some("PLAINTEXT://127.0.0.1:9092"))
        .per_broker()
        .doc(""),
    Key::broker("max.connection.creation.rate", Kind::Int, Some("2147483647"))
        .cluster_wide()
        .at_least(0)
        .doc(""),
    Key::broker("max.connections", Kind::Int, Some("2147483647"))
        .cluster_wide()
        .at_least(0)
        .doc(""),
    Key::broker("max.connections.per.ip", Kind::Int, Some("2147483647"))
        .cluster_wide()
        .at_least(0)
        .doc(""),
    Key::broker("max.connections.per.ip.overrides", Kind::String, Some(""))
        .cluster_wide()
        .check(Check::HostCounts)
        .doc(""),
    Key::broker(
        "max.incremental.fetch.session.cache.slots",
        Kind::Int,
        Some("1000"),
    )
    .at_least(0)
    .doc(""),
    Key::broker("max.request.partition.size.limit", Kind::Int, Some("2000"))
        .at_least(1)
        .doc(""),
    Key::broker("num.io.threads", Kind::Int, Some("8"))
        .cluster_wide()
        .at_least(1)
        .doc(""),
    Key::broker("num.network.threads", Kind::Int, Some("3"))
        .cluster_wide()
        .at_least(1)
        .doc(""),
    Key::broker(
        "producer.purgatory.purge.interval.requests",
        Kind::Int,
        Some("1000"),
    )
    .doc(""),
    Key::broker("queued.max.request.bytes", Kind::Long, Some("-1")).doc(""),
    Key::broker("queued.max.requests", Kind::Int, Some("500"))
        .at_least(1)
        .doc(""),
    Key::broker("request.timeout.ms", Kind::Int, Some("30000")).doc(""),
    Key::broker(
        "socket.connection.setup.timeout.max.ms",
        Kind::Long,
        Some("30000"),
    )
    .doc(""),
    Key::broker("socket.connection.setup.timeout.ms", Kind::Long, Some("10000")).doc(""),
    Key::broker("socket.listen.backlog.size", Kind::Int, Some("50"))
        .at_least(1)
        .doc(""),
    Key::broker("socket.receive.buffer.bytes", Kind::Int, Some("102400")).doc(""),
    Key::broker("socket.request.max.bytes", Kind::Int, Some("104857600"))
        .at_least(1)
        .doc(""),
    Key::broker("socket.send.buffer.bytes", Kind::Int, Some("102400")).doc(""),
];
