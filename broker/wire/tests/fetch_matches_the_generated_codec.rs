//! Fetch in every version, byte for byte against the codec that `kafka-protocol` generated from Kafka's schemas.

mod generated;

use bytes::{Buf, Bytes, BytesMut};
use generated::{text, their_bytes, topics};
use kafka_protocol::messages::{self, fetch_request as their_request, fetch_response as their_response};
use kafka_protocol::protocol::{Decodable, StrBytes};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use strandline_wire::fetch::{
    self, AbortedTransaction, EpochEndOffset, FIRST_NODE_ENDPOINTS_VERSION, FIRST_SESSION_VERSION,
    FIRST_TOPIC_ID_VERSION, FetchPartition, FetchPartitionHeader, FetchRequest, FetchResponse,
    FetchResponseEncoder, FetchResponseHeader, FetchedPartition, LeaderIdAndEpoch, NodeEndpoint, SnapshotId,
    TopicRef,
};
use strandline_wire::frame::decode_response_header;
use strandline_wire::{ErrorCode, Grouped, Uuid};

const VERSIONS: std::ops::RangeInclusive<i16> = 4..=18;

fn partition() -> impl Strategy<Value = FetchPartition> {
    let tags = (option::of(any::<[u8; 16]>()), option::of(0..i64::MAX));
    (any::<[i32; 4]>(), any::<[i64; 2]>(), tags).prop_map(|(ints, offsets, (directory, high_watermark))| {
        let [index, current_leader_epoch, last_fetched_epoch, max_bytes] = ints;
        let [fetch_offset, log_start_offset] = offsets;
        let replica_directory_id = directory.map_or(Uuid::nil(), Uuid::from_bytes);
        let high_watermark = high_watermark.unwrap_or(i64::MAX);
        FetchPartition {
            index,
            current_leader_epoch,
            fetch_offset,
            last_fetched_epoch,
            log_start_offset,
            max_bytes,
            replica_directory_id,
            high_watermark,
        }
    })
}

/// What the version can carry of a partition.
fn carried(partition: &FetchPartition, version: i16) -> FetchPartition {
    let mut carried = *partition;
    let default = FetchPartition::default();
    if version < 5 {
        carried.log_start_offset = default.log_start_offset;
    }
    if version < 9 {
        carried.current_leader_epoch = default.current_leader_epoch;
    }
    if version < 12 {
        carried.last_fetched_epoch = default.last_fetched_epoch;
    }
    if version < 17 {
        carried.replica_directory_id = default.replica_directory_id;
    }
    if version < 18 {
        carried.high_watermark = default.high_watermark;
    }
    carried
}

fn their_partition(ours: &FetchPartition) -> their_request::FetchPartition {
    their_request::FetchPartition::default()
        .with_partition(ours.index)
        .with_fetch_offset(ours.fetch_offset)
        .with_partition_max_bytes(ours.max_bytes)
        .with_log_start_offset(ours.log_start_offset)
        .with_current_leader_epoch(ours.current_leader_epoch)
        .with_last_fetched_epoch(ours.last_fetched_epoch)
        .with_replica_directory_id(ours.replica_directory_id)
        .with_high_watermark(ours.high_watermark)
}

proptest! {
    #[test]
    fn requests(
        version in VERSIONS,
        cluster_id in option::of(text()),
        replica in (any::<i32>(), any::<i64>()),
        numbers: [i32; 5],
        isolation_level: i8,
        topics in topics(partition()),
        forgotten in topics(any::<i32>()),
        rack_id in text(),
    ) {
        let mut ours = FetchRequest { isolation_level, replica_id: replica.0, ..FetchRequest::default() };
        [ours.max_wait_ms, ours.min_bytes, ours.max_bytes, _, _] = numbers;
        let mut theirs = messages::FetchRequest::default()
            .with_max_wait_ms(ours.max_wait_ms)
            .with_min_bytes(ours.min_bytes)
            .with_max_bytes(ours.max_bytes)
            .with_isolation_level(isolation_level);
        if version >= 15 {
            ours.replica_epoch = replica.1;
            theirs.replica_state = their_request::ReplicaState::default()
                .with_replica_id(replica.0.into())
                .with_replica_epoch(replica.1);
        } else {
            theirs.replica_id = replica.0.into();
        }
        if version >= FIRST_SESSION_VERSION {
            [.., ours.session_id, ours.session_epoch] = numbers;
            theirs = theirs.with_session_id(ours.session_id).with_session_epoch(ours.session_epoch);
        }
        if version >= 11 {
            ours.rack_id = &rack_id;
            theirs.rack_id = StrBytes::from_string(rack_id.clone());
        }
        if version >= 12 {
            ours.cluster_id = cluster_id.as_deref();
            theirs.cluster_id = cluster_id.clone().map(StrBytes::from_string);
        }
        for topic in &topics {
            ours.topics.begin(topic.reference(version >= FIRST_TOPIC_ID_VERSION));
            let (name, id) = topic.their_reference(version >= FIRST_TOPIC_ID_VERSION);
            let mut partitions = Vec::new();
            for partition in &topic.partitions {
                let ours_partition = carried(partition, version);
                ours.topics.push(ours_partition);
                partitions.push(their_partition(&ours_partition));
            }
            let topic = their_request::FetchTopic::default().with_topic(name).with_topic_id(id);
            theirs.topics.push(topic.with_partitions(partitions));
        }
        if version >= FIRST_SESSION_VERSION {
            for topic in &forgotten {
                ours.forgotten_topics.begin(topic.reference(version >= FIRST_TOPIC_ID_VERSION));
                topic.partitions.iter().for_each(|index| ours.forgotten_topics.push(*index));
                let (name, id) = topic.their_reference(version >= FIRST_TOPIC_ID_VERSION);
                let forgotten = their_request::ForgottenTopic::default().with_topic(name).with_topic_id(id);
                theirs.forgotten_topics_data.push(forgotten.with_partitions(topic.partitions.clone()));
            }
        }

        let expected = their_bytes(&theirs, version);
        let mut out = BytesMut::new();
        fetch::encode_request(&mut out, version, &ours).unwrap();
        prop_assert_eq!(&out, &expected);
        prop_assert_eq!(fetch::decode_request(version, &expected).unwrap(), ours);
    }

    #[test]
    fn any_bytes_are_read_or_refused(version in VERSIONS, bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(request) = fetch::decode_request(version, &bytes) {
            let mut out = BytesMut::new();
            fetch::encode_request(&mut out, version, &request).unwrap();
            prop_assert!(messages::FetchRequest::decode(&mut out.freeze(), version).is_ok());
        }
        let _ = fetch::decode_response(version, &bytes);
    }
}

#[derive(Clone, Debug)]
struct Answer {
    index: i32,
    error_code: ErrorCode,
    offsets: [i64; 3],
    diverging: Option<(i32, i64)>,
    leader: Option<(i32, i32)>,
    snapshot: Option<(i64, i32)>,
    aborted: Option<Vec<(i64, i64)>>,
    preferred: i32,
    records: Vec<Vec<u8>>,
}

fn answer() -> impl Strategy<Value = Answer> {
    let tags = (
        option::of((0..i32::MAX, any::<i64>())),
        option::of((0..i32::MAX, any::<i32>())),
        option::of((0..i64::MAX, any::<i32>())),
    );
    let code = proptest::sample::select(ErrorCode::ALL);
    let aborted = option::of(vec(any::<(i64, i64)>(), 0..3));
    let records = vec(vec(any::<u8>(), 0..50), 0..3);
    (
        any::<i32>(),
        code,
        any::<[i64; 3]>(),
        tags,
        aborted,
        any::<i32>(),
        records,
    )
        .prop_map(
            |(index, error_code, offsets, (diverging, leader, snapshot), aborted, preferred, records)| {
                Answer {
                    index,
                    error_code,
                    offsets,
                    diverging,
                    leader,
                    snapshot,
                    aborted,
                    preferred,
                    records,
                }
            },
        )
}

impl Answer {
    /// What the version can carry of it.
    fn ours(&self, version: i16) -> FetchPartitionHeader {
        let mut ours = FetchPartitionHeader::error(self.index, self.error_code);
        [ours.high_watermark, ours.last_stable_offset, _] = self.offsets;
        let aborted = |pair: &(i64, i64)| AbortedTransaction {
            producer_id: pair.0,
            first_offset: pair.1,
        };
        ours.aborted_transactions = self
            .aborted
            .as_ref()
            .map(|pairs| pairs.iter().map(aborted).collect());
        if version >= 5 {
            ours.log_start_offset = self.offsets[2];
        }
        if version >= 11 {
            ours.preferred_read_replica = self.preferred;
        }
        if version >= 12 {
            ours.diverging_epoch = self
                .diverging
                .map(|(epoch, end_offset)| EpochEndOffset { epoch, end_offset });
            ours.current_leader = self.leader.map(|(leader_id, leader_epoch)| LeaderIdAndEpoch {
                leader_id,
                leader_epoch,
            });
            ours.snapshot_id = self
                .snapshot
                .map(|(end_offset, epoch)| SnapshotId { end_offset, epoch });
        }
        ours
    }

    fn theirs(&self, version: i16) -> their_response::PartitionData {
        let ours = self.ours(version);
        let aborted = ours.aborted_transactions.map(|aborted| {
            let their = |aborted: AbortedTransaction| {
                their_response::AbortedTransaction::default()
                    .with_producer_id(aborted.producer_id.into())
                    .with_first_offset(aborted.first_offset)
            };
            aborted.into_iter().map(their).collect()
        });
        let mut theirs = their_response::PartitionData::default()
            .with_partition_index(ours.index)
            .with_error_code(ours.error_code.code())
            .with_high_watermark(ours.high_watermark)
            .with_last_stable_offset(ours.last_stable_offset)
            .with_log_start_offset(ours.log_start_offset)
            .with_aborted_transactions(aborted)
            .with_preferred_read_replica(ours.preferred_read_replica.into())
            .with_records(Some(Bytes::from(self.records.concat())));
        if let Some(diverging) = ours.diverging_epoch {
            let their = their_response::EpochEndOffset::default();
            theirs.diverging_epoch = their
                .with_epoch(diverging.epoch)
                .with_end_offset(diverging.end_offset);
        }
        if let Some(leader) = ours.current_leader {
            let their = their_response::LeaderIdAndEpoch::default();
            theirs.current_leader = their
                .with_leader_id(leader.leader_id.into())
                .with_leader_epoch(leader.leader_epoch);
        }
        if let Some(snapshot) = ours.snapshot_id {
            let their = their_response::SnapshotId::default();
            theirs.snapshot_id = their
                .with_epoch(snapshot.epoch)
                .with_end_offset(snapshot.end_offset);
        }
        theirs
    }
}

proptest! {
    #[test]
    fn responses(
        version in VERSIONS,
        numbers: [i32; 3],
        error_code in proptest::sample::select(ErrorCode::ALL),
        topics in topics(answer()),
        endpoints in vec((any::<i32>(), text(), any::<i32>(), option::of(text())), 0..3),
    ) {
        let [correlation_id, throttle_time_ms, session_id] = numbers;
        let mut header = FetchResponseHeader { throttle_time_ms, ..FetchResponseHeader::default() };
        if version >= FIRST_SESSION_VERSION {
            (header.error_code, header.session_id) = (error_code, session_id);
        }
        let mut theirs = messages::FetchResponse::default()
            .with_throttle_time_ms(throttle_time_ms)
            .with_error_code(header.error_code.code())
            .with_session_id(header.session_id);
        let mut encoder =
            FetchResponseEncoder::new(BytesMut::new(), version, correlation_id, &header, topics.len());
        let joined: Vec<Vec<Vec<u8>>> = topics
            .iter()
            .map(|topic| topic.partitions.iter().map(|answer| answer.records.concat()).collect())
            .collect();
        let mut expected_topics = Grouped::new();
        for (topic, records) in topics.iter().zip(&joined) {
            encoder.begin_topic(topic.reference(version >= FIRST_TOPIC_ID_VERSION), topic.partitions.len());
            expected_topics.begin(topic.reference(version >= FIRST_TOPIC_ID_VERSION));
            for (answer, records) in topic.partitions.iter().zip(records) {
                encoder.partition(&answer.ours(version), answer.records.iter().map(Vec::as_slice));
                expected_topics.push(FetchedPartition { header: answer.ours(version), records: Some(records) });
            }
            let (name, id) = topic.their_reference(version >= FIRST_TOPIC_ID_VERSION);
            let answers = topic.partitions.iter().map(|answer| answer.theirs(version)).collect();
            let topic = their_response::FetchableTopicResponse::default();
            theirs.responses.push(topic.with_topic(name).with_topic_id(id).with_partitions(answers));
        }
        let mut ours_endpoints = Vec::new();
        if version >= FIRST_NODE_ENDPOINTS_VERSION {
            for (node_id, host, port, rack) in &endpoints {
                let endpoint = NodeEndpoint { node_id: *node_id, host, port: *port, rack: rack.as_deref() };
                ours_endpoints.push(endpoint);
                let their = their_response::NodeEndpoint::default()
                    .with_node_id((*node_id).into())
                    .with_host(StrBytes::from_string(host.clone()))
                    .with_port(*port)
                    .with_rack(rack.clone().map(StrBytes::from_string));
                theirs.node_endpoints.push(their);
            }
        }

        let frame = encoder.finish(&ours_endpoints).unwrap();
        prop_assert!(frame.pieces().all(|piece| !piece.bytes().is_empty()));
        let mut out = BytesMut::new();
        frame.copy_into(&mut out);
        prop_assert_eq!(out.len(), frame.size());
        prop_assert_eq!(out.get_i32() as usize, frame.size() - 4);
        let (id, body_start) = decode_response_header(&out, 1, version).unwrap();
        prop_assert_eq!(id, correlation_id);

        let expected = their_bytes(&theirs, version);
        prop_assert_eq!(&out[body_start..], &expected[..]);
        let decoded = fetch::decode_response(version, &expected).unwrap();
        prop_assert_eq!(decoded, FetchResponse { header, topics: expected_topics, node_endpoints: ours_endpoints });
    }
}

#[test]
fn a_response_that_is_not_as_announced_is_an_error() {
    let header = FetchResponseHeader::default();
    let partition = FetchPartitionHeader::error(0, ErrorCode::None);
    let new = |topics| FetchResponseEncoder::<&[u8]>::new(BytesMut::new(), 12, 1, &header, topics);

    assert!(new(1).finish(&[]).is_err());
    let mut encoder = new(1);
    encoder.begin_topic(TopicRef::Name("t"), 1);
    encoder.begin_topic(TopicRef::Name("u"), 0);
    assert!(encoder.finish(&[]).is_err());
    let mut encoder = new(1);
    encoder.begin_topic(TopicRef::Name("t"), 0);
    encoder.partition(&partition, []);
    assert!(encoder.finish(&[]).is_err());
    let mut encoder = new(1);
    encoder.begin_topic(TopicRef::Id(Uuid::nil()), 0);
    assert!(encoder.finish(&[]).is_err());
    assert!(
        FetchResponseEncoder::<&[u8]>::new(BytesMut::new(), 3, 1, &header, 0)
            .finish(&[])
            .is_err()
    );
}
