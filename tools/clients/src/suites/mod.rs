//! The suites. Each one works on topics of its own, so that a broker that already holds data serves as well.

pub(crate) mod api_ranges;
pub(crate) mod compaction;
pub(crate) mod compression;
pub(crate) mod consumer_protocol;
pub(crate) mod export;
pub(crate) mod fetch_limits;
pub(crate) mod group;
pub(crate) mod group_lag;
pub(crate) mod group_of_ten;
pub(crate) mod group_scenarios;
pub(crate) mod group_tools;
pub(crate) mod group_topics;
pub(crate) mod group_upgrade;
pub(crate) mod groups;
pub(crate) mod kafka_tools;
pub(crate) mod library;
pub(crate) mod load;
pub(crate) mod matrix;
pub(crate) mod partitioner;
pub(crate) mod replicas;
pub(crate) mod retention;
pub(crate) mod shards;
pub(crate) mod streams;
pub(crate) mod topics;

use crate::client::Check;
use crate::raw::Raw;
use crate::tools::Tools;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A topic name that no earlier run used.
pub(crate) fn fresh(name: &str) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{name}-{:x}", since.as_nanos())
}

/// An error that names what was expected and what was found.
pub(crate) fn expect<T: PartialEq + std::fmt::Debug>(found: &T, right: &T) -> Result<(), String> {
    if found == right {
        return Ok(());
    }
    Err(format!(
        "expected {:.300}, found {:.300}",
        format!("{right:?}"),
        format!("{found:?}")
    ))
}

/// Brokers of an Apache Kafka have heard of a new topic within this time, however busy the machine; ours once it is created.
const HEARD_MAX: Duration = Duration::from_secs(60);

/// Creates a topic and sees to it that it can be used.
pub(crate) fn create(tools: &Tools, bootstrap: &str, topic: &str, partitions: i32) -> Result<(), String> {
    expect(
        &Raw::connect(bootstrap)?.create_topic(topic, partitions, &[])?,
        &0,
    )?;
    let end = Instant::now()
        + if tools.is_peer() {
            HEARD_MAX
        } else {
            Duration::ZERO
        };
    loop {
        let metadata = Raw::connect(bootstrap)?.metadata(topic, false)?;
        let is_ready = metadata.topics.iter().any(|found| {
            found.error_code == 0 && found.partitions.iter().all(|partition| partition.error_code == 0)
        });
        if is_ready {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("{topic} was created and is not there"));
        }
    }
}

/// A step of a suite: what it shows, and what it does.
pub(crate) type Step<'a, T> = (&'a str, &'a dyn Fn(&mut T) -> Result<(), String>);

/// Runs steps of which each builds on those before, up to the first that fails.
pub(crate) fn in_turn<T>(subject: &mut T, steps: &[Step<'_, T>]) -> Vec<Check> {
    let mut checks = Vec::new();
    for (what, step) in steps {
        let outcome = step(subject);
        let passed = outcome.is_ok();
        checks.push(((*what).to_owned(), outcome));
        if !passed {
            break;
        }
    }
    checks
}
