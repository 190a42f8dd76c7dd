//! What the leaders of a topic hold on their disks.

use std::collections::BTreeMap;

use strandline_wire::log_details::{CompactionDetails, LogDetails};
use strandline_wire::messages::describe_log_dirs_request::DescribableLogDirTopic;
use strandline_wire::messages::{DescribeLogDirsRequest, TopicName};
use strandline_wire::protocol::StrBytes;

use super::metadata::Topic;
use super::{BrokerId, Client, ClientError};

/// The log of one partition, on its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSize {
    /// Payload bytes; Kafka counts whole files.
    pub bytes: i64,
    /// Its segments, where the broker tells.
    pub segments: Option<u32>,
    /// What the cleaner knows of it, where the log is compacted and the broker tells.
    pub compaction: Option<CompactionDetails>,
}

impl Client {
    /// The logs of a topic, by partition. A leader that cannot say is left out: its partitions are there all the same.
    pub fn log_sizes(&mut self, topic: &Topic) -> BTreeMap<i32, LogSize> {
        let mut by_leader: BTreeMap<BrokerId, Vec<i32>> = BTreeMap::new();
        for (partition, leader) in topic.leaders() {
            by_leader.entry(leader).or_default().push(partition);
        }
        let mut sizes = BTreeMap::new();
        for (leader, partitions) in by_leader {
            if let Ok(found) = self.log_sizes_of(leader, &topic.name, &partitions) {
                sizes.extend(found);
            }
        }
        sizes
    }

    fn log_sizes_of(
        &mut self,
        leader: BrokerId,
        topic: &str,
        partitions: &[i32],
    ) -> Result<Vec<(i32, LogSize)>, ClientError> {
        let response = self.ask(leader, |connection| {
            let version = connection.version::<DescribeLogDirsRequest>(i16::MAX)?;
            let topic = DescribableLogDirTopic::default()
                .with_topic(TopicName(StrBytes::from_string(topic.to_owned())))
                .with_partitions(partitions.to_vec());
            let request = DescribeLogDirsRequest::default().with_topics(Some(vec![topic]));
            connection.call(version, &request)
        })?;
        let topics = response.results.iter().flat_map(|result| &result.topics);
        // Of nothing else, should a broker tell more than it was asked.
        Ok(topics
            .filter(|found| found.name.as_str() == topic)
            .flat_map(|topic| &topic.partitions)
            .filter(|partition| !partition.is_future_key)
            .map(|partition| {
                let details = LogDetails::decode(&partition.unknown_tagged_fields);
                let size = LogSize {
                    bytes: partition.partition_size,
                    segments: details.map(|details| details.segments),
                    compaction: details.and_then(|details| details.compaction),
                };
                (partition.partition_index, size)
            })
            .collect())
    }
}
