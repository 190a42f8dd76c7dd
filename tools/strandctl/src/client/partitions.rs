//! Changing the partitions of topics: more of them, and less in them.

use std::collections::BTreeMap;

use strandline_wire::ErrorCode;
use strandline_wire::messages::create_partitions_request::CreatePartitionsTopic;
use strandline_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use strandline_wire::messages::{CreatePartitionsRequest, DeleteRecordsRequest};

use super::admin::{left_out, repeatable, topic_name};
use super::{BrokerId, Client, ClientError, Retry, check};

impl Client {
    /// Gives a topic so many partitions in all.
    pub fn create_partitions(&mut self, topic: &str, total: i32) -> Result<(), ClientError> {
        let timeout_ms = self.config().request_timeout.as_millis() as i32;
        let response = self.ask_controller(|connection| {
            let version = connection.version::<CreatePartitionsRequest>(i16::MAX)?;
            let asked = CreatePartitionsTopic::default()
                .with_name(topic_name(topic))
                .with_count(total)
                .with_assignments(None);
            let request = CreatePartitionsRequest::default()
                .with_timeout_ms(timeout_ms)
                .with_topics(vec![asked]);
            let response = connection.call(version, &request)?;
            repeatable(response.results.iter().map(|topic| topic.error_code))?;
            Ok(response)
        })?;
        let answer = response.results.first().ok_or_else(|| left_out(topic))?;
        check(
            format!("topic {topic}"),
            answer.error_code,
            answer.error_message.as_ref(),
        )
    }

    /// Deletes the records of partitions below an offset each, -1 for all there are; the first offset that is left of each, or
    /// why it was not done. A deletion that is repeated does nothing more, so that errors that may pass are retried.
    pub fn delete_records(
        &mut self,
        topic: &str,
        before: &BTreeMap<i32, i64>,
    ) -> BTreeMap<i32, Result<i64, ClientError>> {
        let mut done = BTreeMap::new();
        let mut retry = Retry::new(self.config());
        loop {
            let left: BTreeMap<i32, i64> = before
                .iter()
                .filter(|(partition, _)| !done.contains_key(*partition))
                .map(|(partition, offset)| (*partition, *offset))
                .collect();
            if left.is_empty() {
                return done;
            }
            let Err(error) = self.delete_records_once(topic, &left, &mut done) else {
                continue;
            };
            if let Err(error) = retry.pause_after(error) {
                for partition in left
                    .into_keys()
                    .filter(|partition| !done.contains_key(partition))
                    .collect::<Vec<_>>()
                {
                    done.insert(partition, Err(error.clone()));
                }
                return done;
            }
        }
    }

    /// Asks every leader once; what may pass is the error, what was decided is in `done`.
    fn delete_records_once(
        &mut self,
        topic: &str,
        before: &BTreeMap<i32, i64>,
        done: &mut BTreeMap<i32, Result<i64, ClientError>>,
    ) -> Result<(), ClientError> {
        let leaders = self.topic(topic, false)?.leaders();
        let mut by_leader: BTreeMap<BrokerId, Vec<(i32, i64)>> = BTreeMap::new();
        let mut failure = None;
        for (&partition, &offset) in before {
            match leaders.get(&partition) {
                Some(&leader) => by_leader.entry(leader).or_default().push((partition, offset)),
                None => {
                    failure = Some(ClientError::NoLeader {
                        topic: topic.to_owned(),
                        partition,
                    })
                }
            }
        }
        let timeout_ms = self.config().request_timeout.as_millis() as i32;
        for (leader, partitions) in by_leader {
            let asked = partitions.iter().map(|&(partition, offset)| {
                DeleteRecordsPartition::default()
                    .with_partition_index(partition)
                    .with_offset(offset)
            });
            let asked = DeleteRecordsTopic::default()
                .with_name(topic_name(topic))
                .with_partitions(asked.collect());
            let request = DeleteRecordsRequest::default()
                .with_timeout_ms(timeout_ms)
                .with_topics(vec![asked]);
            let response = self.ask(leader, |connection| {
                let version = connection.version::<DeleteRecordsRequest>(i16::MAX)?;
                connection.call(version, &request)
            });
            let response = match response {
                Ok(response) => response,
                Err(error) => {
                    failure = Some(error);
                    continue;
                }
            };
            let answers = response.topics.iter().flat_map(|topic| &topic.partitions);
            let answers: BTreeMap<i32, _> = answers.map(|answer| (answer.partition_index, answer)).collect();
            for (partition, _) in partitions {
                let subject = format!("{topic}-{partition}");
                let result = match answers.get(&partition) {
                    Some(answer) => check(subject, answer.error_code, None).map(|()| answer.low_watermark),
                    None => Err(ClientError::broker(subject, ErrorCode::UnknownServerError, None)),
                };
                match result {
                    Err(error) if error.is_retriable() => failure = Some(error),
                    result => drop(done.insert(partition, result)),
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }
}
