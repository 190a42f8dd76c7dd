//! Sending batches: each to its partition's leader, each acknowledged before the next of its partition.
//!
//! One request a leader is on its way at a time. That keeps order and makes a repeat safe with the sequence numbers of an
//! idempotent producer (KIP-98), without any of its machinery for several in flight.

use std::collections::BTreeMap;

use strandline_wire::ErrorCode;
use strandline_wire::batch::BatchBuilder;
use strandline_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use strandline_wire::messages::produce_response::PartitionProduceResponse;
use strandline_wire::messages::{
    InitProducerIdRequest, ProduceRequest, ProduceResponse, ProducerId, TopicName,
};
use strandline_wire::protocol::StrBytes;

use super::{BrokerId, Client, ClientError, Retry, check};
use crate::client_config::Acks;

/// The last version of Produce that names topics by name. With ids, a topic that is deleted and created again while
/// lines are sent would be refused; here the name is what the user asked for.
const HIGHEST_VERSION: i16 = 12;

/// A producer's identity, given by the broker.
#[derive(Clone, Copy, Debug)]
struct Identity {
    producer_id: i64,
    producer_epoch: i16,
}

/// A batch that was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Its partition.
    pub partition: i32,
    /// Its records.
    pub records: u64,
    /// The offset of its first record; none with acks=0, or when the broker knew only that it was a duplicate.
    pub base_offset: Option<i64>,
}

/// What became of the batches of one round.
#[derive(Debug)]
pub struct Round {
    /// The batches that are stored.
    pub acknowledged: Vec<Acknowledged>,
    /// Why others are not. After it, the producer is of no further use.
    pub failure: Option<ClientError>,
}

/// Sends to one topic.
#[derive(Debug)]
pub struct Producer {
    topic: String,
    leaders: BTreeMap<i32, BrokerId>,
    identity: Option<Identity>,
    sequences: BTreeMap<i32, i32>,
}

/// An encoded batch that is not acknowledged yet.
struct Unacknowledged {
    bytes: bytes::Bytes,
    records: u64,
}

impl Producer {
    /// A producer for a topic with these leaders. Takes an identity from the broker when idempotence is on.
    pub fn new(
        client: &mut Client,
        topic: &str,
        leaders: BTreeMap<i32, BrokerId>,
    ) -> Result<Self, ClientError> {
        let identity = if client.config().idempotence {
            init_producer_id(client)?
        } else {
            None
        };
        Ok(Self {
            topic: topic.to_owned(),
            leaders,
            identity,
            sequences: BTreeMap::new(),
        })
    }

    /// Sends one batch to each of several partitions and waits until all are acknowledged or one has failed for good.
    pub fn send(&mut self, client: &mut Client, batches: BTreeMap<i32, BatchBuilder>) -> Round {
        let mut round = Round {
            acknowledged: Vec::new(),
            failure: None,
        };
        let mut waiting = BTreeMap::new();
        for (partition, builder) in batches {
            match self.seal(partition, builder) {
                Ok(batch) => {
                    waiting.insert(partition, batch);
                }
                Err(error) => round.failure = Some(error),
            }
        }
        let mut retry = Retry::within(client.config(), client.config().delivery_timeout);
        while !waiting.is_empty() && round.failure.is_none() {
            let Some(error) = self.attempt(client, &mut waiting, &mut round) else {
                continue;
            };
            match retry.pause_after(error) {
                Ok(()) => self.refresh_leaders(client),
                Err(error) => round.failure = Some(error),
            }
        }
        round
    }

    /// Gives the batch its place in the partition's sequence and encodes it.
    fn seal(&mut self, partition: i32, builder: BatchBuilder) -> Result<Unacknowledged, ClientError> {
        let records = builder.record_count();
        let builder = match self.identity {
            Some(Identity {
                producer_id,
                producer_epoch,
            }) => {
                let sequence = self.sequences.entry(partition).or_insert(0);
                let base_sequence = *sequence;
                // Sequences wrap to 0 after i32::MAX.
                *sequence = ((i64::from(base_sequence) + records as i64) & i64::from(i32::MAX)) as i32;
                builder.producer(producer_id, producer_epoch, base_sequence)
            }
            None => builder,
        };
        let bytes = builder.finish().map_err(|error| ClientError::Records {
            topic: self.topic.clone(),
            partition,
            offset: 0,
            reason: error.to_string(),
        })?;
        Ok(Unacknowledged {
            bytes: bytes.into(),
            records: records as u64,
        })
    }

    /// One request to each leader. Returns an error that may pass, if any; one that will not ends the round.
    fn attempt(
        &self,
        client: &mut Client,
        waiting: &mut BTreeMap<i32, Unacknowledged>,
        round: &mut Round,
    ) -> Option<ClientError> {
        let mut by_leader: BTreeMap<BrokerId, Vec<i32>> = BTreeMap::new();
        let mut passing = None;
        for &partition in waiting.keys() {
            match self.leaders.get(&partition) {
                Some(&leader) => by_leader.entry(leader).or_default().push(partition),
                None => {
                    passing = Some(ClientError::NoLeader {
                        topic: self.topic.clone(),
                        partition,
                    })
                }
            }
        }
        // All requests leave before the first answer is waited for, so that the leaders work side by side.
        let acks = client.config().acks;
        let timeout_ms = client.config().request_timeout.as_millis() as i32;
        let mut in_flight = Vec::new();
        for (leader, partitions) in by_leader {
            let sent = client.ask(leader, |connection| {
                let version = connection.version::<ProduceRequest>(HIGHEST_VERSION)?;
                let request = self.request(timeout_ms, acks, &partitions, waiting);
                connection.send(version, &request)
            });
            match sent {
                Ok(sent) => in_flight.push((leader, partitions, sent)),
                Err(error) => passing = Some(error),
            }
        }
        for (leader, partitions, sent) in in_flight {
            if acks == Acks::None {
                // Nobody will say more than that it was sent.
                for partition in partitions {
                    let records = waiting.remove(&partition).map_or(0, |batch| batch.records);
                    round.acknowledged.push(Acknowledged {
                        partition,
                        records,
                        base_offset: None,
                    });
                }
                continue;
            }
            match client.ask(leader, |connection| connection.receive::<ProduceRequest>(sent)) {
                Ok(response) => self.take_answer(response, waiting, round, &mut passing),
                Err(error) => passing = Some(error),
            }
        }
        if !waiting.is_empty() && passing.is_none() && round.failure.is_none() {
            let text = Some("the broker left partitions out of its answer".to_owned());
            round.failure = Some(ClientError::broker(
                &self.topic,
                ErrorCode::UnknownServerError,
                text,
            ));
        }
        passing
    }

    fn request(
        &self,
        timeout_ms: i32,
        acks: Acks,
        partitions: &[i32],
        waiting: &BTreeMap<i32, Unacknowledged>,
    ) -> ProduceRequest {
        let data = partitions
            .iter()
            .map(|&partition| {
                let records = waiting.get(&partition).map(|batch| batch.bytes.clone());
                PartitionProduceData::default()
                    .with_index(partition)
                    .with_records(records)
            })
            .collect();
        let topic = TopicProduceData::default()
            .with_name(TopicName(StrBytes::from_string(self.topic.clone())))
            .with_partition_data(data);
        ProduceRequest::default()
            .with_acks(acks.code())
            .with_timeout_ms(timeout_ms)
            .with_topic_data(vec![topic])
    }

    fn take_answer(
        &self,
        response: ProduceResponse,
        waiting: &mut BTreeMap<i32, Unacknowledged>,
        round: &mut Round,
        passing: &mut Option<ClientError>,
    ) {
        for answer in response
            .responses
            .iter()
            .flat_map(|topic| &topic.partition_responses)
        {
            let partition = answer.index;
            let known = answer.error_code == ErrorCode::DuplicateSequenceNumber.code();
            match self.verdict(answer) {
                Ok(()) => {
                    if let Some(batch) = waiting.remove(&partition) {
                        let base_offset = (!known && answer.base_offset >= 0).then_some(answer.base_offset);
                        round.acknowledged.push(Acknowledged {
                            partition,
                            records: batch.records,
                            base_offset,
                        });
                    }
                }
                Err(error) if error.is_retriable() => *passing = Some(error),
                Err(error) => round.failure = Some(error),
            }
        }
    }

    fn verdict(&self, answer: &PartitionProduceResponse) -> Result<(), ClientError> {
        if answer.error_code == ErrorCode::DuplicateSequenceNumber.code() {
            // An earlier attempt was stored, its answer lost.
            return Ok(());
        }
        // The words on the first bad record say more than those on the batch.
        let text = answer
            .record_errors
            .iter()
            .find_map(|record| record.batch_index_error_message.as_ref())
            .or(answer.error_message.as_ref());
        check(
            format!("{}-{}", self.topic, answer.index),
            answer.error_code,
            text,
        )
    }

    /// Looks up the leaders anew; when that fails, the next attempt's own error tells more.
    fn refresh_leaders(&mut self, client: &mut Client) {
        if let Ok(topic) = client.topic(&self.topic, false) {
            self.leaders = topic.leaders();
        }
    }
}

/// Takes a producer id; `None` when the broker has none to give, and repeats may then store a batch twice.
fn init_producer_id(client: &mut Client) -> Result<Option<Identity>, ClientError> {
    let mut retry = Retry::new(client.config());
    loop {
        let result = client.ask_any(|connection| {
            if !connection.serves::<InitProducerIdRequest>() {
                return Ok(None);
            }
            let version = connection.version::<InitProducerIdRequest>(i16::MAX)?;
            let request = InitProducerIdRequest::default()
                .with_transactional_id(None)
                .with_transaction_timeout_ms(i32::MAX)
                .with_producer_id(ProducerId(-1))
                .with_producer_epoch(-1);
            let response = connection.call(version, &request)?;
            check("InitProducerId", response.error_code, None)?;
            Ok(Some(Identity {
                producer_id: response.producer_id.0,
                producer_epoch: response.producer_epoch,
            }))
        });
        match result {
            Ok(identity) => return Ok(identity),
            Err(error) => retry.pause_after(error)?,
        }
    }
}
