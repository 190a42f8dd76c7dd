//! Keys that Kafka does not have.

use super::super::key::{Check, Key, Kind};

pub(super) const KEYS: &[Key] = &[
    Key::broker("strandline.shards", Kind::Int, None)
        .check(Check::Between(1, 999))
        .doc(
            "How many shards the node runs, each a Kafka broker on a core of its own. By default the \
             distinct physical cores that the process may use, at most 8; a formatted directory's own \
             count wins. A larger number adds empty shards; a smaller one is refused.",
        ),
    Key::broker("strandline.advertised.listeners.per.shard", Kind::List, None).doc(
        "What clients are told for each shard, as NAME://host:port, one item a shard and listener, \
             in the order of the shards: for address translation that does not keep ports in a row.",
    ),
    Key::broker("strandline.memory.bytes", Kind::Long, None)
        .at_least(1)
        .doc(
            "Memory of the whole node: append buffers, cache, connections, journal pages. By default \
             the smaller of a quarter of the machine's memory (or the cgroup's limit) and 256 MiB a \
             shard. A shard needs 32 MiB.",
        ),
    Key::broker("strandline.journal.bytes", Kind::Long, None)
        // The storage's own least.
        .at_least(512 << 10)
        .doc(
            "Size of each shard's journal. By default 128 MiB; never more than half of the shard's \
             memory, since a replay must fit.",
        ),
    Key::broker("strandline.direct.bytes", Kind::Long, Some("262144"))
        .at_least(4096)
        .doc("A batch of at least this size goes straight to its segment instead of through the journal."),
    Key::broker("strandline.disk.free.min.bytes", Kind::Long, None)
        .at_least(0)
        .doc(
            "Appends stop with KAFKA_STORAGE_ERROR while the file system has less free space. By \
             default twice the journals, at least 256 MiB.",
        ),
    Key::broker(
        "strandline.decompressed.batch.max.bytes",
        Kind::Long,
        Some("104857600"),
    )
    .at_least(1)
    .doc("The most that a compressed batch may unpack to."),
    Key::broker("strandline.shard.pin", Kind::Boolean, Some("true"))
        .doc("Whether each shard is pinned to a core. With more shards than cores they share."),
    Key::broker("strandline.shard.spin.us", Kind::Long, Some("0"))
        .check(Check::Between(0, 1_000_000))
        .doc(
            "For how long an idle shard looks for work before it sleeps. Worth it on dedicated cores \
             only; 0 where shards share cores.",
        ),
    Key::broker("strandline.shard.preempt.us", Kind::Long, Some("200"))
        .check(Check::Between(100, 100_000))
        .doc("For how long a task queue of a shard may run before I/O gets its turn."),
    Key::broker("strandline.shard.ring.depth", Kind::Int, Some("256"))
        .check(Check::Between(32, 4_096))
        .doc("Entries of each io_uring of a shard."),
    Key::broker("strandline.shard.io.memory.bytes", Kind::Long, Some("1048576"))
        .check(Check::Between(65_536, 1_073_741_824))
        .doc("Memory of each shard registered with its rings. It counts three times against memlock."),
    Key::broker("strandline.http.enable", Kind::Boolean, Some("true"))
        .doc("Whether /metrics and /health are served over HTTP."),
    Key::broker("strandline.http.host", Kind::String, Some("127.0.0.1"))
        .doc("The address that HTTP listens on."),
    Key::broker("strandline.http.port", Kind::Int, None)
        .check(Check::Between(0, 65_535))
        .doc("The port of HTTP; 0 takes a free one. By default the port of the first listener minus 1."),
    Key::broker("strandline.link.host", Kind::String, None)
        .doc(
            "The address that links of other nodes come in at, in a cluster of several. By default the one of this \
             node's controller.",
        ),
    Key::broker("strandline.link.port", Kind::Int, None)
        .check(Check::Between(0, 65_535))
        .doc(
            "The port of shard 0 for links; each further shard has the next. 0 takes free ones. By default the port \
             of the first listener plus 1000.",
        ),
    Key::broker("strandline.link.advertised.host", Kind::String, None)
        .doc(
            "The host at which other nodes reach the links. By default strandline.link.host if that is one address, \
             else the host of this node's controller.",
        ),
    Key::broker(
        "strandline.metrics.group.partitions.max",
        Kind::Int,
        Some("100000"),
    )
    .at_least(0)
    .doc(
        "Of how many partitions at most /metrics tells what groups have committed and how far behind \
             they are; how many are left out is told too. 0 turns it off.",
    ),
];
