//! Offsets of partitions: first, last, by time.

use std::collections::BTreeMap;

use strandline_wire::ErrorCode;
use strandline_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use strandline_wire::messages::{BrokerId as WireBrokerId, ListOffsetsRequest, TopicName};
use strandline_wire::protocol::StrBytes;

use super::{BrokerId, Client, ClientError, Retry, check};

/// The special timestamp of the log start offset.
pub const EARLIEST: i64 = -2;
/// The special timestamp of the high watermark, or of the last stable offset under `read_committed`.
pub const LATEST: i64 = -1;

/// The first version with the isolation level.
const ISOLATION_VERSION: i16 = 2;

impl Client {
    /// The offsets of partitions of one topic: `wanted` maps each to a timestamp, [`EARLIEST`] or [`LATEST`]. A
    /// timestamp beyond the last record gives `None`. Leaders are found, and errors that may pass are retried.
    pub fn list_offsets(
        &mut self,
        topic: &str,
        wanted: &BTreeMap<i32, i64>,
    ) -> Result<BTreeMap<i32, Option<i64>>, ClientError> {
        let mut found = BTreeMap::new();
        let mut retry = Retry::new(self.config());
        loop {
            let missing: BTreeMap<i32, i64> = wanted
                .iter()
                .filter(|(partition, _)| !found.contains_key(*partition))
                .map(|(&partition, &timestamp)| (partition, timestamp))
                .collect();
            if missing.is_empty() {
                return Ok(found);
            }
            if let Err(error) = self.list_offsets_once(topic, &missing, &mut found) {
                retry.pause_after(error)?;
            }
        }
    }

    /// Asks every leader once; what was answered is kept even when another partition fails.
    fn list_offsets_once(
        &mut self,
        topic: &str,
        wanted: &BTreeMap<i32, i64>,
        found: &mut BTreeMap<i32, Option<i64>>,
    ) -> Result<(), ClientError> {
        let leaders = self.topic(topic, false)?.leaders();
        let mut by_leader: BTreeMap<BrokerId, Vec<(i32, i64)>> = BTreeMap::new();
        let mut failure = None;
        for (&partition, &timestamp) in wanted {
            match leaders.get(&partition) {
                Some(&leader) => by_leader.entry(leader).or_default().push((partition, timestamp)),
                None => {
                    failure = Some(ClientError::NoLeader {
                        topic: topic.to_owned(),
                        partition,
                    })
                }
            }
        }
        for (leader, partitions) in by_leader {
            if let Err(error) = self.ask_leader(leader, topic, &partitions, found) {
                failure = Some(error);
            }
        }
        failure.map_or(Ok(()), Err)
    }

    fn ask_leader(
        &mut self,
        leader: BrokerId,
        topic: &str,
        partitions: &[(i32, i64)],
        found: &mut BTreeMap<i32, Option<i64>>,
    ) -> Result<(), ClientError> {
        let read_committed = self.config().read_committed;
        let response = self.ask(leader, |connection| {
            let version = connection.version::<ListOffsetsRequest>(i16::MAX)?;
            let partitions = partitions
                .iter()
                .map(|&(partition, timestamp)| {
                    ListOffsetsPartition::default()
                        .with_partition_index(partition)
                        .with_current_leader_epoch(-1)
                        .with_timestamp(timestamp)
                })
                .collect();
            let topic = ListOffsetsTopic::default()
                .with_name(TopicName(StrBytes::from_string(topic.to_owned())))
                .with_partitions(partitions);
            let mut request = ListOffsetsRequest::default()
                .with_replica_id(WireBrokerId(-1))
                .with_topics(vec![topic]);
            if version >= ISOLATION_VERSION {
                request.isolation_level = i8::from(read_committed);
            }
            connection.call(version, &request)
        })?;
        let mut failure = None;
        for answer in response.topics.iter().flat_map(|topic| &topic.partitions) {
            let subject = format!("{topic}-{}", answer.partition_index);
            match check(subject, answer.error_code, None) {
                Ok(()) => {
                    found.insert(
                        answer.partition_index,
                        (answer.offset >= 0).then_some(answer.offset),
                    );
                }
                Err(error) => failure = Some(error),
            }
        }
        if let Some(&(partition, _)) = partitions
            .iter()
            .find(|(partition, _)| !found.contains_key(partition))
            && failure.is_none()
        {
            // An answer that leaves a partition out would otherwise be asked for without a pause.
            let subject = format!("{topic}-{partition}");
            let text = Some("the broker left it out of its answer".to_owned());
            failure = Some(ClientError::broker(subject, ErrorCode::UnknownServerError, text));
        }
        failure.map_or(Ok(()), Err)
    }

    /// First and last offset of each partition.
    pub fn offset_bounds(
        &mut self,
        topic: &str,
        partitions: impl Iterator<Item = i32> + Clone,
    ) -> Result<BTreeMap<i32, (i64, i64)>, ClientError> {
        let starts = self.list_offsets(
            topic,
            &partitions.clone().map(|index| (index, EARLIEST)).collect(),
        )?;
        let ends = self.list_offsets(topic, &partitions.map(|index| (index, LATEST)).collect())?;
        let bounds = starts.into_iter().map(|(partition, start)| {
            let start = start.unwrap_or(0);
            let end = ends.get(&partition).copied().flatten().unwrap_or(start);
            (partition, (start, end))
        });
        Ok(bounds.collect())
    }
}
