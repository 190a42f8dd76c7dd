//! Produce in every version, byte for byte against the codec that `kafka-protocol` generated from Kafka's schemas.

mod generated;

use bytes::{Bytes, BytesMut};
use generated::{text, their_bytes, topics};
use kafka_protocol::messages::{self, produce_request as their_request, produce_response as their_response};
use kafka_protocol::protocol::{Decodable, StrBytes};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use strandline_wire::batch::RecordError;
use strandline_wire::produce::{
    self, FIRST_LEADER_VERSION, FIRST_TOPIC_ID_VERSION, LeaderIdAndEpoch, NodeEndpoint, ProducePartition,
    ProducePartitionResponse, ProduceRequest, ProduceResponse, TopicRef,
};
use strandline_wire::{ErrorCode, Grouped};

const VERSIONS: std::ops::RangeInclusive<i16> = 3..=13;

#[derive(Clone, Debug)]
struct Answer {
    index: i32,
    error_code: ErrorCode,
    offsets: [i64; 3],
    record_errors: Vec<(i32, Option<String>)>,
    message: Option<String>,
    leader: Option<(i32, i32)>,
}

fn answer() -> impl Strategy<Value = Answer> {
    let errors = vec((any::<i32>(), option::of(text())), 0..3);
    let leader = option::of((0..i32::MAX, 0..i32::MAX));
    (
        any::<i32>(),
        proptest::sample::select(ErrorCode::ALL),
        any::<[i64; 3]>(),
        errors,
        option::of(text()),
        leader,
    )
        .prop_map(
            |(index, error_code, offsets, record_errors, message, leader)| Answer {
                index,
                error_code,
                offsets,
                record_errors,
                message,
                leader,
            },
        )
}

impl Answer {
    /// What the version can carry of it.
    fn ours(&self, version: i16) -> ProducePartitionResponse<'_> {
        let mut ours = ProducePartitionResponse::error(self.index, self.error_code);
        [ours.base_offset, ours.log_append_time_ms, _] = self.offsets;
        if version >= 5 {
            ours.log_start_offset = self.offsets[2];
        }
        if version >= 8 {
            let errors = self.record_errors.iter().cloned();
            ours.record_errors = errors
                .map(|(batch_index, message)| RecordError { batch_index, message })
                .collect();
            ours.error_message = self.message.as_deref().map(Into::into);
        }
        if version >= FIRST_LEADER_VERSION {
            let leader = |(leader_id, leader_epoch)| LeaderIdAndEpoch {
                leader_id,
                leader_epoch,
            };
            ours.current_leader = self.leader.map(leader);
        }
        ours
    }

    fn theirs(&self, version: i16) -> their_response::PartitionProduceResponse {
        let ours = self.ours(version);
        let errors = ours.record_errors.iter().map(|error| {
            their_response::BatchIndexAndErrorMessage::default()
                .with_batch_index(error.batch_index)
                .with_batch_index_error_message(error.message.clone().map(StrBytes::from_string))
        });
        let mut theirs = their_response::PartitionProduceResponse::default()
            .with_index(ours.index)
            .with_error_code(ours.error_code.code())
            .with_base_offset(ours.base_offset)
            .with_log_append_time_ms(ours.log_append_time_ms)
            .with_log_start_offset(ours.log_start_offset)
            .with_record_errors(errors.collect())
            .with_error_message(
                ours.error_message
                    .map(|text| StrBytes::from_string(text.into_owned())),
            );
        if let Some(leader) = ours.current_leader {
            theirs.current_leader = their_response::LeaderIdAndEpoch::default()
                .with_leader_id(leader.leader_id.into())
                .with_leader_epoch(leader.leader_epoch);
        }
        theirs
    }
}

proptest! {
    #[test]
    fn requests(
        version in VERSIONS,
        transactional_id in option::of(text()),
        acks: i16,
        timeout_ms: i32,
        topics in topics((any::<i32>(), option::of(vec(any::<u8>(), 0..200)))),
    ) {
        let mut ours = Grouped::new();
        let mut theirs = Vec::new();
        for topic in &topics {
            ours.begin(topic.reference(version >= FIRST_TOPIC_ID_VERSION));
            let (name, id) = topic.their_reference(version >= FIRST_TOPIC_ID_VERSION);
            let mut partitions = Vec::new();
            for (index, records) in &topic.partitions {
                ours.push(ProducePartition { index: *index, records: records.as_deref() });
                let partition = their_request::PartitionProduceData::default();
                partitions.push(partition.with_index(*index).with_records(records.clone().map(Bytes::from)));
            }
            let topic = their_request::TopicProduceData::default();
            theirs.push(topic.with_name(name).with_topic_id(id).with_partition_data(partitions));
        }
        let ours =
            ProduceRequest { transactional_id: transactional_id.as_deref(), acks, timeout_ms, topics: ours };
        let theirs = messages::ProduceRequest::default()
            .with_transactional_id(transactional_id.clone().map(|id| StrBytes::from_string(id).into()))
            .with_acks(acks)
            .with_timeout_ms(timeout_ms)
            .with_topic_data(theirs);

        let expected = their_bytes(&theirs, version);
        let mut out = BytesMut::new();
        produce::encode_request(&mut out, version, &ours).unwrap();
        prop_assert_eq!(&out, &expected);
        prop_assert_eq!(produce::decode_request(version, &expected).unwrap(), ours);
    }

    #[test]
    fn responses(
        version in VERSIONS,
        throttle_time_ms: i32,
        topics in topics(answer()),
        endpoints in vec((any::<i32>(), text(), any::<i32>(), option::of(text())), 0..3),
    ) {
        let mut ours = ProduceResponse { throttle_time_ms, ..ProduceResponse::default() };
        let mut theirs = messages::ProduceResponse::default().with_throttle_time_ms(throttle_time_ms);
        for topic in &topics {
            ours.topics.begin(topic.reference(version >= FIRST_TOPIC_ID_VERSION));
            topic.partitions.iter().for_each(|answer| ours.topics.push(answer.ours(version)));
            let (name, id) = topic.their_reference(version >= FIRST_TOPIC_ID_VERSION);
            let answers = topic.partitions.iter().map(|answer| answer.theirs(version)).collect();
            let topic = their_response::TopicProduceResponse::default();
            theirs.responses.push(topic.with_name(name).with_topic_id(id).with_partition_responses(answers));
        }
        if version >= FIRST_LEADER_VERSION {
            for (node_id, host, port, rack) in &endpoints {
                let endpoint = NodeEndpoint { node_id: *node_id, host, port: *port, rack: rack.as_deref() };
                ours.node_endpoints.push(endpoint);
                let endpoint = their_response::NodeEndpoint::default();
                theirs.node_endpoints.push(
                    endpoint
                        .with_node_id((*node_id).into())
                        .with_host(StrBytes::from_string(host.clone()))
                        .with_port(*port)
                        .with_rack(rack.clone().map(StrBytes::from_string)),
                );
            }
        }

        let expected = their_bytes(&theirs, version);
        let mut out = BytesMut::new();
        produce::encode_response(&mut out, version, &ours).unwrap();
        prop_assert_eq!(&out, &expected);
        prop_assert_eq!(produce::decode_response(version, &expected).unwrap(), ours);
    }

    /// A frame that a broker hands on to either decoder is read or refused, whatever is in it.
    #[test]
    fn any_bytes_are_read_or_refused(version in 0..=13_i16, bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(request) = produce::decode_request(version, &bytes) && VERSIONS.contains(&version) {
            let mut out = BytesMut::new();
            produce::encode_request(&mut out, version, &request).unwrap();
            prop_assert!(messages::ProduceRequest::decode(&mut out.freeze(), version).is_ok());
        }
        let _ = produce::decode_response(version, &bytes);
    }
}

/// The versions that are decoded only to be refused: no transactional id before 3, and an answer in their own shape.
#[test]
fn versions_0_to_2_are_read_and_answered() {
    let body = b"\x00\x01\x00\x00\x03\xe8\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x07\x00\x00\x00\x02ab";
    for version in 0..=2 {
        let request = produce::decode_request(version, body).unwrap();
        assert_eq!(
            (request.acks, request.timeout_ms, request.transactional_id),
            (1, 1000, None)
        );
        let partitions: Vec<_> = request.topics.flat().collect();
        assert_eq!(
            partitions,
            [(
                &TopicRef::Name("t"),
                &ProducePartition {
                    index: 7,
                    records: Some(b"ab")
                }
            )]
        );

        let mut response = ProduceResponse::default();
        response.topics.begin(TopicRef::Name("t"));
        response
            .topics
            .push(ProducePartitionResponse::error(7, ErrorCode::UnsupportedVersion));
        let mut out = BytesMut::new();
        produce::encode_response(&mut out, version, &response).unwrap();
        let mut expected = b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x07\x00\x23".to_vec();
        expected.extend_from_slice(&[0xff; 8]);
        expected.extend_from_slice(if version >= 2 { &[0xff; 8] } else { &[] });
        expected.extend_from_slice(if version >= 1 { &[0; 4] } else { &[] });
        assert_eq!(out, expected, "version {version}");
    }
    assert!(produce::decode_request(14, body).is_err());
    assert!(produce::decode_request(-1, body).is_err());
}

#[test]
fn a_topic_named_in_a_way_the_version_has_not_is_an_error() {
    let mut topics = Grouped::new();
    topics.begin(TopicRef::Name("t"));
    let request = ProduceRequest {
        transactional_id: None,
        acks: 1,
        timeout_ms: 0,
        topics,
    };
    assert!(produce::encode_request(&mut BytesMut::new(), 13, &request).is_err());
}

/// A hundred megabytes of empty topics would decode to gigabytes.
#[test]
fn a_frame_of_empty_topics_is_refused() {
    let count = 1_000_000_u32;
    let mut body = b"\x00\x00\x01\x00\x00\x03\xe8".to_vec();
    let mut length = BytesMut::new();
    strandline_wire::primitives::WriteExt::put_unsigned_varint(&mut length, count + 1);
    body.extend_from_slice(&length);
    body.extend(std::iter::repeat_n([1, 1, 0], count as usize).flatten());
    body.push(0);
    let error = produce::decode_request(9, &body).unwrap_err();
    assert!(
        matches!(error, strandline_wire::WireError::TooLarge { .. }),
        "{error}"
    );
}
