//! Consumers in groups: every library joins, shares, loses a member to kill -9, and resumes where it committed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kafka_protocol::messages::ListGroupsRequest;

use super::{expect, fresh};
use crate::broker::signal;
use crate::client::{Check, Client, Produce};
use crate::native::Native;
use crate::raw::Raw;
use crate::record::Record;
use crate::report::Report;
use crate::script::Script;
use crate::tools::Tools;

const PARTITIONS: i32 = 4;
/// Records of each part of the scenario, spread over the partitions.
const RECORDS: i64 = 400;
const MORE_RECORDS: i64 = 100;
/// A rebalance may wait for the session of a member that died (6 s), and libraries pause between tries.
const STEP_MAX: Duration = Duration::from_secs(60);
/// Libraries that also rebalance cooperatively (KIP-429).
const COOPERATIVE: [&str; 4] = [
    "rdkafka",
    "confluent-kafka",
    "kafka-clients-3.9.2",
    "kafka-clients-4.4.0",
];

/// Libraries that speak the consumer protocol (KIP-848), in its final form.
pub(super) const CONSUMER_PROTOCOL: [&str; 3] = ["rdkafka", "confluent-kafka", "kafka-clients-4.4.0"];
/// What the drivers take for it in the place of an assignor.
pub(super) const CONSUMER: &str = "consumer";
/// There the broker says how long a session is; Apache Kafka takes 45 s at least.
const STEP_MAX_CONSUMER: Duration = Duration::from_secs(120);

/// Runs the suite for every library, all at once: most of it is waiting for sessions to end.
pub(crate) fn run(report: &mut Report, tools: &Tools, bootstrap: &str) {
    let names = Tools::group_libraries();
    report.side_by_side(
        &names,
        |name| format!("groups, {name}"),
        |name| library(tools, bootstrap, name),
    );
}

/// So many records, the same number to each partition.
pub(super) fn evenly(count: i64, partitions: i32) -> Vec<Record> {
    (0..count)
        .map(|number| {
            let mut record = Record::new(Some(b"key"), Some(number.to_string().as_bytes()));
            record.place = number % i64::from(partitions);
            record
        })
        .collect()
}

fn library(tools: &Tools, bootstrap: &str, name: &str) -> Vec<Check> {
    let mut checks = scenario(tools, bootstrap, name, "range");
    if COOPERATIVE.contains(&name) {
        checks.extend(scenario(tools, bootstrap, name, "cooperative-sticky"));
    }
    if CONSUMER_PROTOCOL.contains(&name) {
        checks.extend(scenario(tools, bootstrap, name, CONSUMER));
    }
    checks
}

fn scenario(tools: &Tools, bootstrap: &str, name: &str, assignor: &str) -> Vec<Check> {
    let mut group = match Group::new(tools, bootstrap, name, assignor) {
        Ok(group) => group,
        Err(why) => return vec![(format!("{assignor}: set-up"), Err(why))],
    };
    let steps: [Step<'_>; 6] = [
        ("one member has every partition", Group::alone),
        ("two members share, and read everything", Group::shared),
        (
            "one is stopped for longer than its session, and comes back",
            Group::paused,
        ),
        ("one is killed, the other takes over", Group::killed),
        ("committed offsets are exact", Group::committed),
        ("a new member resumes where they committed", Group::resumed),
    ];
    let mut checks = Vec::new();
    for (what, step) in steps {
        let outcome = step(&mut group);
        let passed = outcome.is_ok();
        checks.push((format!("{assignor}: {what}"), outcome));
        // What follows builds on it.
        if !passed {
            break;
        }
    }
    checks
}

/// A part of the scenario, and what it shows.
type Step<'a> = (&'static str, fn(&mut Group<'a>) -> Result<(), String>);

/// A group of one library's members, and what it was given.
pub(super) struct Group<'a> {
    tools: &'a Tools,
    bootstrap: &'a str,
    name: &'a str,
    assignor: &'a str,
    topic: String,
    group: String,
    writer: Native,
    members: Vec<Script>,
    /// Offsets that came, by partition, and how many there are.
    came: BTreeMap<i32, BTreeSet<i64>>,
    written: i64,
}

impl<'a> Group<'a> {
    pub(super) fn new(
        tools: &'a Tools,
        bootstrap: &'a str,
        name: &'a str,
        assignor: &'a str,
    ) -> Result<Self, String> {
        let topic = fresh("group");
        Raw::connect(bootstrap)?.create_topic(&topic, PARTITIONS, &[])?;
        let mut group = Self {
            tools,
            bootstrap,
            name,
            assignor,
            group: topic.clone(),
            topic,
            writer: Native::new(bootstrap),
            members: Vec::new(),
            came: BTreeMap::new(),
            written: 0,
        };
        group.write(RECORDS)?;
        Ok(group)
    }

    /// Writes more records, the same number to each partition.
    fn write(&mut self, count: i64) -> Result<(), String> {
        self.writer
            .produce(&Produce::to(&self.topic), &evenly(count, PARTITIONS))?;
        self.written += count;
        Ok(())
    }

    /// A member more.
    pub(super) fn join(&mut self) -> Result<(), String> {
        self.join_by(self.name, self.assignor)
    }

    /// A member more, of another library or by another assignor.
    pub(super) fn join_by(&mut self, name: &str, assignor: &str) -> Result<(), String> {
        let mut member = self.tools.member(name, self.bootstrap)?;
        let head = format!(
            "join topic={} group={} assignor={assignor}",
            self.topic, self.group
        );
        member.request(&head, &[])?;
        self.members.push(member);
        Ok(())
    }

    /// The member that has been there for the longest time commits and leaves.
    pub(super) fn oldest_leaves(&mut self) -> Result<(), String> {
        let mut member = self.members.remove(0);
        member.request("commit", &[])?;
        member.request("leave", &[]).map(drop)
    }

    /// The type of the group, as the broker lists it that coordinates it.
    pub(super) fn group_type(&self) -> Result<String, String> {
        let metadata = Raw::connect(self.bootstrap)?.metadata(&self.topic, false)?;
        for broker in &metadata.brokers {
            let address = format!("{}:{}", broker.host.as_str(), broker.port);
            let answer = Raw::connect(&address)?.call(5, &ListGroupsRequest::default())?;
            let listed = answer
                .groups
                .iter()
                .find(|listed| listed.group_id.as_str() == self.group);
            if let Some(listed) = listed {
                return Ok(listed.group_type.to_string());
            }
        }
        Err("the group is not listed".to_owned())
    }

    /// Polls every member, commits, and goes on until `done` or the time is over.
    fn until(&mut self, what: &str, done: impl Fn(&Self, &[Vec<i32>]) -> bool) -> Result<(), String> {
        let end = Instant::now()
            + match self.assignor {
                CONSUMER => STEP_MAX_CONSUMER,
                _ => STEP_MAX,
            };
        loop {
            let mut assigned = Vec::new();
            for member in &mut self.members {
                for line in member.request("poll ms=200", &[])? {
                    let (partition, offset) = line.split_once(' ').ok_or("no record line")?;
                    let partition = partition.parse().map_err(|_| "no partition")?;
                    let offset = offset.parse().map_err(|_| "no offset")?;
                    self.came.entry(partition).or_default().insert(offset);
                }
                // What a rebalance kept from being committed comes again.
                member.request("commit", &[])?;
                let partitions = member.request("assigned", &[])?;
                assigned.push(partitions.iter().filter_map(|line| line.parse().ok()).collect());
            }
            if done(self, &assigned) {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!(
                    "{what}: not in time; assigned {assigned:?}, {} of {} records came",
                    self.count(),
                    self.written
                ));
            }
        }
    }

    /// Polls each member so often, whatever comes.
    pub(super) fn poll_each(&mut self, times: usize) -> Result<(), String> {
        for _ in 0..times {
            for number in 0..self.members.len() {
                for line in self.members[number].request("poll ms=200", &[])? {
                    self.note(&line)?;
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, line: &str) -> Result<(), String> {
        let (partition, offset) = line.split_once(' ').ok_or("no record line")?;
        let partition = partition.parse().map_err(|_| "no partition")?;
        let offset = offset.parse().map_err(|_| "no offset")?;
        self.came.entry(partition).or_default().insert(offset);
        Ok(())
    }

    fn count(&self) -> i64 {
        self.came.values().map(|offsets| offsets.len() as i64).sum()
    }

    pub(super) fn alone(&mut self) -> Result<(), String> {
        self.join()?;
        self.until("alone", |_, assigned| assigned[0].len() == PARTITIONS as usize)
    }

    fn shared(&mut self) -> Result<(), String> {
        self.join()?;
        self.balanced()
    }

    /// Every member has a part, all of it belongs to someone, and what is written meanwhile comes.
    pub(super) fn all_work(&mut self) -> Result<(), String> {
        self.until("shared by all", |_, assigned| {
            let all: BTreeSet<i32> = assigned.iter().flatten().copied().collect();
            assigned.iter().all(|partitions| !partitions.is_empty()) && all.len() == PARTITIONS as usize
        })?;
        self.write(MORE_RECORDS)?;
        self.until("read", |group, _| group.count() == group.written)
    }

    /// Two members have a half each, and everything comes.
    pub(super) fn balanced(&mut self) -> Result<(), String> {
        let half = PARTITIONS as usize / 2;
        self.until("shared", move |_, assigned| {
            let all: BTreeSet<i32> = assigned.iter().flatten().copied().collect();
            assigned.iter().all(|partitions| partitions.len() == half) && all.len() == 2 * half
        })?;
        self.write(MORE_RECORDS)?;
        self.until("read", |group, _| group.count() == group.written)
    }

    /// Its process stands still until the other one has everything, and goes on.
    fn paused(&mut self) -> Result<(), String> {
        let paused = self.members.pop().ok_or("no member")?;
        signal("-STOP", paused.process_id())?;
        let taken_over = self.until("taken over", |_, assigned| {
            assigned[0].len() == PARTITIONS as usize
        });
        signal("-CONT", paused.process_id())?;
        taken_over?;
        self.members.push(paused);
        self.balanced()
    }

    fn killed(&mut self) -> Result<(), String> {
        // Its process dies without a word.
        drop(self.members.pop());
        self.until("taken over", |_, assigned| {
            assigned[0].len() == PARTITIONS as usize
        })?;
        self.write(MORE_RECORDS)?;
        self.until("read", |group, _| group.count() == group.written)
    }

    pub(super) fn committed(&mut self) -> Result<(), String> {
        for mut member in std::mem::take(&mut self.members) {
            expect(&member.request("commit", &[])?, &Vec::new())?;
            member.request("leave", &[])?;
        }
        let each = self.written / i64::from(PARTITIONS);
        let right: Vec<i64> = (0..PARTITIONS).map(|_| each).collect();
        let found = self.writer.committed(&self.group, &self.topic, PARTITIONS)?;
        expect(&found, &right)
    }

    pub(super) fn resumed(&mut self) -> Result<(), String> {
        self.write(MORE_RECORDS)?;
        let before = std::mem::take(&mut self.came);
        self.join()?;
        self.until("resumed", |group, _| group.count() == MORE_RECORDS)?;
        for (partition, offsets) in &self.came {
            let again = before
                .get(partition)
                .is_some_and(|before| !before.is_disjoint(offsets));
            if again {
                return Err(format!("partition {partition} was read again"));
            }
        }
        for mut member in std::mem::take(&mut self.members) {
            member.request("leave", &[])?;
        }
        Ok(())
    }
}
