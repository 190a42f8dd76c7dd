//! A group whose members run in processes of their own, as several suites have it: what they are told to do, what came to
//! them, and what must be true of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::{Duration, Instant};

use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, DescribeGroupsRequest, GroupId, ListGroupsRequest,
};
use kafka_protocol::protocol::StrBytes;

use super::{create, expect, fresh};
use crate::client::{Client, Produce};
use crate::native::Native;
use crate::raw::Raw;
use crate::record::Record;
use crate::script::Script;
use crate::tools::Tools;

/// Records that are there before the first member, spread over the partitions.
const RECORDS: i64 = 400;
/// Records of each further write.
pub(super) const MORE_RECORDS: i64 = 100;
/// A rebalance may wait for the session of a member that died (6 s), and libraries pause between tries.
const STEP_MAX: Duration = Duration::from_secs(90);
/// By the consumer protocol the broker says how long a session is; Apache Kafka takes 45 s at least, unless told otherwise.
const STEP_MAX_CONSUMER: Duration = Duration::from_secs(120);
/// How a member polls: as long as nothing comes.
const POLL: &str = "poll ms=200";
/// What the drivers take for the consumer protocol in the place of an assignor.
pub(super) const CONSUMER: &str = "consumer";

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

/// Offsets by partition.
type Came = BTreeMap<i32, BTreeSet<i64>>;

/// Enters the lines of a poll.
fn note(came: &mut Came, lines: &[String]) -> Result<(), String> {
    for line in lines {
        let (partition, offset) = line.split_once(' ').ok_or("no record line")?;
        let partition = partition.parse().map_err(|_| "no partition")?;
        let offset = offset.parse().map_err(|_| "no offset")?;
        came.entry(partition).or_default().insert(offset);
    }
    Ok(())
}

/// What the brokers say of a group that did not do what it should, for whoever reads of it.
pub(super) fn described(bootstrap: &str, group: &str) -> String {
    let id = || vec![GroupId(StrBytes::from_string(group.to_owned()))];
    let ask = |address: &str| -> Result<Option<String>, String> {
        let mut broker = Raw::connect(address)?;
        let by_broker = ConsumerGroupDescribeRequest::default().with_group_ids(id());
        let by_broker = broker.call(0, &by_broker)?.groups;
        if by_broker.iter().any(|group| group.error_code == 0) {
            return Ok(Some(format!("{by_broker:?}")));
        }
        let classic = broker
            .call(5, &DescribeGroupsRequest::default().with_groups(id()))?
            .groups;
        let is_here = classic.iter().any(|group| !group.members.is_empty());
        Ok(is_here.then(|| format!("{classic:?}")))
    };
    let answers = || -> Result<String, String> {
        for broker in &Raw::connect(bootstrap)?.metadata(group, false)?.brokers {
            if let Some(found) = ask(&format!("{}:{}", broker.host.as_str(), broker.port))? {
                return Ok(found);
            }
        }
        Ok("no broker has members of it".to_owned())
    };
    let text = answers().unwrap_or_else(|why| why);
    format!("{text:.3000}")
}

/// What a look at a member showed.
pub(super) struct Seen {
    pub(super) assigned: Vec<i32>,
    /// Whether its last commit was taken; a rebalance refuses it.
    committed: bool,
}

/// A group, its topic, and what its members were given.
pub(super) struct Group<'a> {
    tools: &'a Tools,
    bootstrap: &'a str,
    name: &'a str,
    assignor: &'a str,
    topic: String,
    group: String,
    partitions: i32,
    writer: Native,
    pub(super) members: Vec<Script>,
    /// Offsets that came, by partition, and how many there are.
    came: Came,
    written: i64,
}

impl<'a> Group<'a> {
    /// A group without members, and its topic with records in it. Members are of the library `name` where nothing else
    /// is said.
    pub(super) fn new(
        tools: &'a Tools,
        bootstrap: &'a str,
        name: &'a str,
        assignor: &'a str,
        partitions: i32,
    ) -> Result<Self, String> {
        let topic = fresh("group");
        create(tools, bootstrap, &topic, partitions)?;
        let mut group = Self {
            tools,
            bootstrap,
            name,
            assignor,
            group: topic.clone(),
            topic,
            partitions,
            writer: Native::new(bootstrap),
            members: Vec::new(),
            came: Came::new(),
            written: 0,
        };
        group.write(RECORDS)?;
        Ok(group)
    }

    /// Writes more records, the same number to each partition.
    pub(super) fn write(&mut self, count: i64) -> Result<(), String> {
        self.writer
            .produce(&Produce::to(&self.topic), &evenly(count, self.partitions))?;
        self.written += count;
        Ok(())
    }

    /// A member more.
    pub(super) fn join(&mut self) -> Result<(), String> {
        self.join_by(self.name, self.assignor)
    }

    /// A member more, of another library or by another assignor.
    pub(super) fn join_by(&mut self, name: &str, assignor: &str) -> Result<(), String> {
        self.begin_join(name, assignor)?;
        match self.members.last_mut() {
            Some(member) => member.answer().map(drop),
            None => Ok(()),
        }
    }

    /// A member more, whose answer is still to be taken.
    fn begin_join(&mut self, name: &str, assignor: &str) -> Result<(), String> {
        let mut member = self.tools.member(name, self.bootstrap)?;
        let head = format!(
            "join topic={} group={} assignor={assignor}",
            self.topic, self.group
        );
        member.ask(&head, &[])?;
        self.members.push(member);
        Ok(())
    }

    /// Members more, of these libraries, which join and poll at once; their answers are still to be taken.
    pub(super) fn begin_joins(&mut self, names: &[&str], assignor: &str) -> Result<(), String> {
        for name in names {
            self.begin_join(name, assignor)?;
        }
        let first = self.members.len() - names.len();
        self.members[first..]
            .iter_mut()
            .try_for_each(|member| member.ask(POLL, &[]))
    }

    /// Takes the answers of members that began to join.
    pub(super) fn joined(&mut self, numbers: Range<usize>) -> Result<(), String> {
        for member in &mut self.members[numbers] {
            member.answer()?;
            note(&mut self.came, &member.answer()?)?;
        }
        Ok(())
    }

    /// The member that has been there for the longest time commits and leaves.
    pub(super) fn oldest_leaves(&mut self) -> Result<(), String> {
        let mut member = self.members.remove(0);
        member.request("commit", &[])?;
        member.request("leave", &[]).map(drop)
    }

    /// The group as the broker lists it that coordinates it.
    pub(super) fn listed(&self) -> Result<ListedGroup, String> {
        let metadata = Raw::connect(self.bootstrap)?.metadata(&self.topic, false)?;
        for broker in &metadata.brokers {
            let address = format!("{}:{}", broker.host.as_str(), broker.port);
            let answer = Raw::connect(&address)?.call(5, &ListGroupsRequest::default())?;
            let mut listed = answer.groups.into_iter();
            if let Some(listed) = listed.find(|listed| listed.group_id.as_str() == self.group) {
                return Ok(listed);
            }
        }
        Err("the group is not listed".to_owned())
    }

    /// Every member at once polls, commits what came, and says what it has.
    fn round(&mut self) -> Result<Vec<Seen>, String> {
        for member in &mut self.members {
            for command in [POLL, "commit", "assigned"] {
                member.ask(command, &[])?;
            }
        }
        let mut seen = Vec::new();
        for member in &mut self.members {
            note(&mut self.came, &member.answer()?)?;
            // What a rebalance kept from being committed comes again.
            let committed = member.answer()?.is_empty();
            let assigned = member.answer()?;
            seen.push(Seen {
                assigned: assigned.iter().filter_map(|line| line.parse().ok()).collect(),
                committed,
            });
        }
        Ok(seen)
    }

    /// Lets every member work until `done`, or the time is over.
    pub(super) fn until(&mut self, what: &str, done: impl Fn(&Self, &[Seen]) -> bool) -> Result<(), String> {
        let end = Instant::now()
            + match self.assignor {
                CONSUMER => STEP_MAX_CONSUMER,
                _ => STEP_MAX,
            };
        loop {
            let seen = self.round().map_err(|why| format!("{what}: {why}"))?;
            if done(self, &seen) {
                return Ok(());
            }
            if Instant::now() > end {
                let assigned: Vec<_> = self
                    .members
                    .iter()
                    .zip(&seen)
                    .map(|(member, seen)| (member.name(), &seen.assigned, seen.committed))
                    .collect();
                return Err(format!(
                    "{what}: not in time; assigned {assigned:?}, {} of {} records came; {}",
                    self.count(),
                    self.written,
                    described(self.bootstrap, &self.group)
                ));
            }
        }
    }

    fn count(&self) -> i64 {
        self.came.values().map(|offsets| offsets.len() as i64).sum()
    }

    /// One member has every partition.
    pub(super) fn alone(&mut self) -> Result<(), String> {
        self.join()?;
        self.until("alone", |group, seen| {
            seen[0].assigned.len() == group.partitions as usize
        })
    }

    /// Every member has a part, all of it belongs to someone, and what is written meanwhile comes.
    pub(super) fn all_work(&mut self) -> Result<(), String> {
        self.until("shared by all", |group, seen| {
            seen.iter().all(|member| !member.assigned.is_empty()) && group.belongs(seen)
        })?;
        self.write_and_read()
    }

    /// Every member has its fair share, and everything comes.
    pub(super) fn balanced(&mut self) -> Result<(), String> {
        self.until("shared", |group, seen| {
            let fair = group.partitions as usize / seen.len();
            let counts = seen.iter().map(|member| member.assigned.len());
            let most = fair + usize::from(fair * seen.len() < group.partitions as usize);
            counts.clone().all(|count| (fair..=most).contains(&count)) && group.belongs(seen)
        })?;
        self.write_and_read()
    }

    /// Whether every partition belongs to one member.
    fn belongs(&self, seen: &[Seen]) -> bool {
        let mut all: Vec<i32> = seen.iter().flat_map(|member| &member.assigned).copied().collect();
        all.sort_unstable();
        all.into_iter().eq(0..self.partitions)
    }

    /// What is written now comes too, and everything before.
    pub(super) fn write_and_read(&mut self) -> Result<(), String> {
        self.write(MORE_RECORDS)?;
        self.until("read", |group, _| group.count() == group.written)
    }

    /// Everybody commits and leaves, and the group's offsets are the ends of the partitions.
    pub(super) fn committed(&mut self) -> Result<(), String> {
        self.until("committed", |_, seen| seen.iter().all(|member| member.committed))?;
        self.leave()?;
        let each = self.written / i64::from(self.partitions);
        let right: Vec<i64> = (0..self.partitions).map(|_| each).collect();
        let found = self.writer.committed(&self.group, &self.topic, self.partitions)?;
        expect(&found, &right)
    }

    /// A new member gets what is written from now on, and nothing of what came before.
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
        self.leave()
    }

    fn leave(&mut self) -> Result<(), String> {
        for member in &mut self.members {
            member.ask("leave", &[])?;
        }
        let mut members = std::mem::take(&mut self.members);
        members
            .iter_mut()
            .try_for_each(|member| member.answer().map(drop))
    }
}
