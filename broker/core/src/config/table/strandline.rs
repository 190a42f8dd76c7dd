//! Keys that Kafka does not have.

use super::super::key::{Check, Key, Kind};

pub(super) const KEYS: &[Key] = &[
    Key::broker("strandline.memory.bytes", Kind::Long, None)
        .at_least(1)
        .doc(""),
    Key::broker("strandline.journal.bytes", Kind::Long, None)
        .at_least(1)
        .doc(""),
    Key::broker("strandline.direct.bytes", Kind::Long, Some("262144"))
        .at_least(4096)
        .doc(""),
    Key::broker("strandline.disk.free.min.bytes", Kind::Long, None)
        .at_least(0)
        .doc(""),
    Key::broker(
        "strandline.decompressed.batch.max.bytes",
        Kind::Long,
        Some("104857600"),
    )
    .at_least(1)
    .doc(""),
    Key::broker("strandline.shards", Kind::Int, None)
        .check(Check::Between(1, 999))
        .doc(""),
    Key::broker("strandline.shard.pin", Kind::Boolean, Some("true")).doc(""),
    Key::broker("strandline.shard.spin.us", Kind::Long, Some("0"))
        .check(Check::Between(0, 1_000_000))
        .doc(""),
    Key::broker("strandline.shard.preempt.us", Kind::Long, Some("200"))
        .check(Check::Between(100, 100_000))
        .doc(""),
    Key::broker("strandline.shard.ring.depth", Kind::Int, Some("256"))
        .check(Check::Between(32, 4_096))
        .doc(""),
    Key::broker("strandline.shard.io.memory.bytes", Kind::Long, Some("1048576"))
        .check(Check::Between(65_536, 1_073_741_824))
        .doc(""),
    Key::broker("strandline.http.enable", Kind::Boolean, Some("true")).doc(""),
    Key::broker("strandline.http.host", Kind::String, Some("127.0.0.1")).doc(""),
    Key::broker("strandline.http.port", Kind::Int, None)
        .check(Check::Between(0, 65_535))
        .doc(""),
    Key::broker("strandline.advertised.listeners.per.shard", Kind::List, None).doc(""),
];
