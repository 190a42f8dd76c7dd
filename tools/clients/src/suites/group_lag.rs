//! Row B49 of the field reports: groups may be called anything, the page of metrics stays one that Prometheus reads, and lag is
//! the same there, in `strandctl`, and in Kafka's own tool.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::group::evenly;
use super::{expect, fresh};
use crate::broker::Broker;
use crate::client::{Check, Client, Produce};
use crate::native::Native;
use crate::report::Job;
use crate::tools::Tools;

const GROUPS_TOOL: &str = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";
const RECORDS: i64 = 20;
const SHARDS: usize = 2;

/// Each group and its lag, which no other has.
type Lags = BTreeMap<String, i64>;

/// One suite, with a node of its own.
pub(crate) fn jobs<'a>(
    tools: &'a Tools,
    program: &'a Path,
    strandctl: &'a Path,
    scratch: &'a Path,
) -> Vec<Job<'a>> {
    vec![Job::new(
        "lag of groups of any name (B49)".to_owned(),
        move || {
            let node = Broker::start(program, scratch, SHARDS);
            let mut node = match node {
                Ok(node) => node,
                Err(why) => return vec![("set-up".to_owned(), Err(why))],
            };
            let mut checks = told(tools, &node, strandctl);
            checks.push(("stops cleanly after that".to_owned(), node.stop()));
            checks
        },
    )]
}

/// Names that break a page which does not escape them, and one that does not.
fn names() -> Vec<String> {
    [
        "plain",
        "quo\"te",
        "back\\slash",
        "back\\",
        "new\nline",
        "\\n",
        "{group=\"x\",topic=\"y\"} 1",
        "# EOF\n# EOF",
        "a space",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain(["ü".repeat(200)])
    .collect()
}

fn told(tools: &Tools, node: &Broker, strandctl: &Path) -> Vec<Check> {
    let topic = fresh("lag");
    let right = match committed(&node.bootstrap(), &topic) {
        Ok(right) => right,
        Err(why) => return vec![("offsets are committed".to_owned(), Err(why))],
    };
    let is_right = |found: Result<Lags, String>| expect(&found?, &right);
    vec![
        (
            "Prometheus' parser reads the page".to_owned(),
            is_right(scraped(tools, node, &topic)),
        ),
        (
            "strandctl tells the same lag".to_owned(),
            is_right(described(strandctl, node, &topic, &right)),
        ),
        (
            "kafka-consumer-groups tells the same lag".to_owned(),
            by_kafkas_tool(tools, node, &topic).and_then(|mut lags| {
                lags.sort_unstable();
                let mut right: Vec<i64> = right.values().copied().collect();
                right.sort_unstable();
                expect(&lags, &right)
            }),
        ),
    ]
}

/// Each group commits another offset.
fn committed(bootstrap: &str, topic: &str) -> Result<Lags, String> {
    let mut client = Native::new(bootstrap);
    client.produce(&Produce::to(topic), &evenly(RECORDS, 1))?;
    let mut right = Lags::new();
    for (offset, name) in (1..).zip(names()) {
        client.commit(&name, topic, 0, offset)?;
        right.insert(name, RECORDS - offset);
    }
    Ok(right)
}

fn scraped(tools: &Tools, node: &Broker, topic: &str) -> Result<Lags, String> {
    let text = tools.scrape(&format!("http://{}/metrics", node.http()))?;
    let name = |hex: &str| -> Option<String> {
        let digit = |at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(digit).collect();
        String::from_utf8(bytes?).ok()
    };
    let mut lags = Lags::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [group, of, _, lag] = words.as_slice() else {
            return Err(format!("not a line of lag: {line:.200}"));
        };
        if name(of).as_deref() == Some(topic) {
            let lag = lag.parse().map_err(|_| format!("no lag: {line:.200}"))?;
            lags.insert(name(group).ok_or("no name")?, lag);
        }
    }
    Ok(lags)
}

fn described(strandctl: &Path, node: &Broker, topic: &str, groups: &Lags) -> Result<Lags, String> {
    let output = Command::new("timeout")
        .arg("60")
        .arg(strandctl)
        .args(["-b", &node.bootstrap(), "group", "describe", "--json", "--"])
        .args(groups.keys())
        .output()
        .map_err(|error| format!("cannot run {}: {error}", strandctl.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found: serde_json::Value = serde_json::from_str(&text).map_err(|error| {
        let complaint = String::from_utf8_lossy(&output.stderr);
        format!("{error}: {text:.300} {complaint:.600}")
    })?;
    let mut lags = Lags::new();
    for group in found.as_array().into_iter().flatten() {
        let name = group["group"].as_str().unwrap_or_default();
        let rows = group["partitions"].as_array().into_iter().flatten();
        for row in rows.filter(|row| row["topic"] == topic) {
            lags.insert(name.to_owned(), row["lag"].as_i64().ok_or("no lag")?);
        }
    }
    Ok(lags)
}

/// The lags alone: what it prints of the names cannot be told apart.
fn by_kafkas_tool(tools: &Tools, node: &Broker, topic: &str) -> Result<Vec<i64>, String> {
    let bootstrap = node.bootstrap();
    let arguments = [
        "--bootstrap-server",
        &bootstrap,
        "--describe",
        "--all-groups",
        "--offsets",
    ];
    let text = tools.kafka_tool(GROUPS_TOOL, &arguments)?;
    // Behind the topic: partition, committed offset, end, lag.
    let rows = text.lines().filter_map(|line| line.split_once(topic));
    rows.map(|(_, row)| {
        let lag = row.split_whitespace().nth(3).and_then(|lag| lag.parse().ok());
        lag.ok_or_else(|| format!("no lag in {row:.200}"))
    })
    .collect()
}
