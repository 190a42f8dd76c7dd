//! What every client library must do for the suites.

use crate::record::Record;

/// The codecs of Kafka, with none.
pub(crate) const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

/// How to produce.
#[derive(Clone, Debug)]
pub(crate) struct Produce<'a> {
    pub(crate) topic: &'a str,
    pub(crate) codec: &'a str,
    pub(crate) acks: &'a str,
    pub(crate) idempotent: bool,
}

impl<'a> Produce<'a> {
    /// All acknowledgements, idempotent, uncompressed.
    pub(crate) fn to(topic: &'a str) -> Self {
        Self {
            topic,
            codec: "none",
            acks: "all",
            idempotent: true,
        }
    }
}

/// What to consume, by assignment.
#[derive(Clone, Debug)]
pub(crate) struct Consume<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) from: i64,
    pub(crate) count: usize,
    /// The byte limits of a fetch and of a partition in it; the library's own when absent.
    pub(crate) fetch_max: Option<u32>,
}

impl<'a> Consume<'a> {
    /// The first `count` records of partition 0.
    pub(crate) fn start_of(topic: &'a str, count: usize) -> Self {
        Self {
            topic,
            partition: 0,
            from: 0,
            count,
            fetch_max: None,
        }
    }
}

/// One check of an admin scenario.
pub(crate) type Check = (String, Result<(), String>);

/// A client library under test.
pub(crate) trait Client: Send {
    /// How the report calls it.
    fn name(&self) -> &str;

    /// The codecs it compresses with.
    fn codecs(&self) -> &[&'static str] {
        &CODECS
    }

    /// Whether its interface can express `record` at all.
    fn can_write(&self, _record: &Record) -> bool {
        true
    }

    /// Whether it reads by assignment, without a group.
    fn can_consume(&self) -> bool {
        true
    }

    /// Produces the records to the partitions they name; returns their offsets, -1 where the library does
    /// not tell.
    fn produce(&mut self, how: &Produce<'_>, records: &[Record]) -> Result<Vec<i64>, String>;

    /// Reads records; fewer than asked when they do not come in time.
    fn consume(&mut self, what: &Consume<'_>) -> Result<Vec<Record>, String>;

    /// Runs the library's admin scenario on a topic that does not exist yet; `None` when it has none.
    fn admin(&mut self, topic: &str) -> Option<Result<Vec<Check>, String>>;
}
