//! What groups have committed, and committing for a group without members.

use std::collections::BTreeMap;

use strandline_wire::ErrorCode;
use strandline_wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use strandline_wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use strandline_wire::messages::{OffsetCommitRequest, OffsetFetchRequest, TopicName};
use strandline_wire::protocol::StrBytes;

use super::coordinator::{is_about_coordinator, is_repeatable};
use super::{group_id, left_out, subject};
use crate::client::{Client, ClientError, Connection, NamedResults, check};

/// Later versions know topics by id alone (KIP-848).
const VERSION_MAX: i16 = 9;
/// The first version of OffsetFetch that takes several groups (KIP-709).
const BATCHES_VERSION: i16 = 8;
/// The first version of OffsetFetch with a code for the whole group.
const GROUP_CODE_VERSION: i16 = 2;
/// Offsets in one commit: their records stay well below any limit on a batch.
const PARTITIONS_PER_COMMIT: usize = 1_000;
/// Who commits without being a member.
const NO_GENERATION: i32 = -1;

/// A partition: topic and number.
pub type Position = (String, i32);

/// What became of each partition.
pub type PositionResults = Vec<(Position, Result<(), ClientError>)>;

/// What a group committed for a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The next record to read.
    pub offset: i64,
    /// What the client keeps with it.
    pub metadata: String,
}

impl Client {
    /// Everything that groups have committed. A group that is not there has committed nothing.
    pub fn committed(&mut self, names: &[String]) -> NamedResults<BTreeMap<Position, Committed>> {
        self.ask_coordinators(names, is_repeatable, |connection, names| {
            let version = connection.version::<OffsetFetchRequest>(VERSION_MAX)?;
            if version >= BATCHES_VERSION {
                return committed_of_several(connection, version, names);
            }
            let answers = names
                .iter()
                .map(|name| (name.clone(), committed_of_one(connection, version, name)));
            Ok(answers.collect())
        })
    }

    /// Commits offsets as nobody's member, which is refused while the group has members. Each partition has its own result.
    pub fn commit_offsets(&mut self, group: &str, offsets: &BTreeMap<Position, i64>) -> PositionResults {
        let all: Vec<(&Position, i64)> = offsets.iter().map(|(at, offset)| (at, *offset)).collect();
        let mut results = Vec::new();
        for some in all.chunks(PARTITIONS_PER_COMMIT) {
            match self.ask_coordinator(group, |connection| commit(connection, group, some)) {
                Ok(answers) => results.extend(answers),
                Err(error) => results.extend(some.iter().map(|(at, _)| ((*at).clone(), Err(error.clone())))),
            }
        }
        results
    }
}

fn committed_of_several(
    connection: &mut Connection,
    version: i16,
    names: &[String],
) -> Result<NamedResults<BTreeMap<Position, Committed>>, ClientError> {
    let asked = names.iter().map(|name| {
        OffsetFetchRequestGroup::default()
            .with_group_id(group_id(name))
            .with_topics(None)
    });
    let request = OffsetFetchRequest::default().with_groups(asked.collect());
    let response = connection.call(version, &request)?;
    let answer = |name: &String| {
        let mut groups = response.groups.iter();
        let group = groups
            .find(|group| group.group_id.as_str() == name)
            .ok_or_else(|| left_out(name))?;
        check(subject(name), group.error_code, None)?;
        let partitions = group.topics.iter().flat_map(|topic| {
            let partitions = topic.partitions.iter();
            partitions.map(|partition| {
                let at = (topic.name.to_string(), partition.partition_index);
                (
                    at,
                    partition.error_code,
                    partition.committed_offset,
                    partition.metadata.as_ref(),
                )
            })
        });
        collect(name, partitions)
    };
    Ok(names.iter().map(|name| (name.clone(), answer(name))).collect())
}

fn committed_of_one(
    connection: &mut Connection,
    version: i16,
    name: &str,
) -> Result<BTreeMap<Position, Committed>, ClientError> {
    let request = OffsetFetchRequest::default()
        .with_group_id(group_id(name))
        .with_topics(None);
    let response = connection.call(version, &request)?;
    if version >= GROUP_CODE_VERSION {
        check(subject(name), response.error_code, None)?;
    }
    let partitions = response.topics.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter();
        partitions.map(|partition| {
            let at = (topic.name.to_string(), partition.partition_index);
            (
                at,
                partition.error_code,
                partition.committed_offset,
                partition.metadata.as_ref(),
            )
        })
    });
    collect(name, partitions)
}

fn collect<'a>(
    group: &str,
    partitions: impl Iterator<Item = (Position, i16, i64, Option<&'a StrBytes>)>,
) -> Result<BTreeMap<Position, Committed>, ClientError> {
    let mut committed = BTreeMap::new();
    for (at, code, offset, metadata) in partitions {
        check(format!("{}, {}-{}", subject(group), at.0, at.1), code, None)?;
        // Below zero nothing is committed.
        if offset >= 0 {
            let metadata = metadata.map(|text| text.to_string()).unwrap_or_default();
            committed.insert(at, Committed { offset, metadata });
        }
    }
    Ok(committed)
}

fn commit(
    connection: &mut Connection,
    group: &str,
    offsets: &[(&Position, i64)],
) -> Result<PositionResults, ClientError> {
    let version = connection.version::<OffsetCommitRequest>(VERSION_MAX)?;
    let mut topics: Vec<OffsetCommitRequestTopic> = Vec::new();
    for ((topic, partition), offset) in offsets {
        let value = OffsetCommitRequestPartition::default()
            .with_partition_index(*partition)
            .with_committed_offset(*offset)
            .with_committed_metadata(Some(StrBytes::from_static_str("")));
        match topics.last_mut() {
            Some(last) if last.name.as_str() == topic => last.partitions.push(value),
            _ => topics.push(
                OffsetCommitRequestTopic::default()
                    .with_name(TopicName(StrBytes::from_string(topic.clone())))
                    .with_partitions(vec![value]),
            ),
        }
    }
    let request = OffsetCommitRequest::default()
        .with_group_id(group_id(group))
        .with_generation_id_or_member_epoch(NO_GENERATION)
        .with_topics(topics);
    let response = connection.call(version, &request)?;
    let mut codes: BTreeMap<Position, i16> = BTreeMap::new();
    for topic in &response.topics {
        for partition in &topic.partitions {
            codes.insert(
                (topic.name.to_string(), partition.partition_index),
                partition.error_code,
            );
        }
    }
    if let Some(code) = codes
        .values()
        .find(|code| is_about_coordinator(ErrorCode::from_code(**code)))
    {
        // That goes for all of them, so that all are committed again.
        check(subject(group), *code, None)?;
    }
    let results = offsets.iter().map(|(at, _)| {
        let what = format!("{}, {}-{}", subject(group), at.0, at.1);
        let result = match codes.get(*at) {
            Some(code) => check(what, *code, None),
            None => Err(left_out(group)),
        };
        ((*at).clone(), result)
    });
    Ok(results.collect())
}
