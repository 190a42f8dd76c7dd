//! One function for each entry that takes bytes from outside, for the fuzz targets in `fuzz/` and for the replay of their
//! corpora in `cargo test`.
//!
//! Each function must return, whatever the bytes: no panic, no more memory than a small multiple of them. Beyond that, each
//! checks what must hold of what it accepted.

use std::ops::ControlFlow;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages;

use crate::batch::{
    Codec, TimestampType, TopicCompression, ValidationRules, batches, check_crc, find_timestamp,
    for_each_record, max_timestamp_record, patch_and_recrc, validate,
};
use crate::{
    ADVERTISED, ApiKey, decode_cold, decode_request_header, decode_response, fetch, produce, topic_name,
};

/// A cap small enough for a fuzzer to pass it often.
const DECOMPRESSED_MAX_BYTES: usize = 1 << 20;

/// An entry: its corpus folder's name and its function.
pub type Entry = (&'static str, fn(&[u8]));

/// Every entry.
pub const ENTRIES: &[Entry] = &[
    ("request_frame", request_frame),
    ("cold_request", cold_request),
    ("cold_response", cold_response),
    ("produce_request", produce_request),
    ("produce_response", produce_response),
    ("fetch_request", fetch_request),
    ("fetch_response", fetch_response),
    ("batch_validate", batch_validate),
    ("record_set", record_set),
    ("topic_name", topic_name),
];

/// A whole request frame without its size, as a broker takes it from a socket: header, then the body by its API.
pub fn request_frame(bytes: &[u8]) {
    let Ok((header, body_start)) = decode_request_header(bytes) else {
        return;
    };
    let body = &bytes[body_start..];
    match ApiKey::from_key(header.api_key) {
        Some(ApiKey::Produce) => drop(produce::decode_request(header.api_version, body)),
        Some(ApiKey::Fetch) => drop(fetch::decode_request(header.api_version, body)),
        Some(api) => decode_any_request(api, header.api_version, body),
        None => {}
    }
}

/// The first byte chooses API and version, the rest is a request's body for the generated codec.
pub fn cold_request(bytes: &[u8]) {
    if let Some((api, version, body)) = choose(bytes) {
        decode_any_request(api, version, body);
    }
}

/// The first byte chooses API and version, the rest is a response as a client takes it from a socket.
pub fn cold_response(bytes: &[u8]) {
    if let Some((api, version, frame)) = choose(bytes) {
        decode_any_response(api, version, frame);
    }
}

/// The API and version that a byte chooses among those served, and the bytes after it.
fn choose(bytes: &[u8]) -> Option<(ApiKey, i16, &[u8])> {
    let (choice, rest) = bytes.split_first()?;
    let mut served = ADVERTISED
        .iter()
        .flat_map(|row| (row.min_version..=row.max_version).map(|version| (row.api, version)))
        .cycle();
    let (api, version) = served.nth(usize::from(*choice))?;
    Some((api, version, rest))
}

macro_rules! decode_any {
    ($($api:ident: $request:ident, $response:ident;)*) => {
        fn decode_any_request(api: ApiKey, version: i16, body: &[u8]) {
            let body = Bytes::copy_from_slice(body);
            match api {
                $(ApiKey::$api => drop(decode_cold::<messages::$request>(api.key(), version, body)),)*
                _ => {}
            }
        }

        fn decode_any_response(api: ApiKey, version: i16, frame: &[u8]) {
            let frame = Bytes::copy_from_slice(frame);
            match api {
                $(ApiKey::$api => drop(decode_response::<messages::$response>(api.key(), version, frame)),)*
                _ => {}
            }
        }
    };
}

decode_any! {
    Produce: ProduceRequest, ProduceResponse;
    Fetch: FetchRequest, FetchResponse;
    ListOffsets: ListOffsetsRequest, ListOffsetsResponse;
    Metadata: MetadataRequest, MetadataResponse;
    FindCoordinator: FindCoordinatorRequest, FindCoordinatorResponse;
    ApiVersions: ApiVersionsRequest, ApiVersionsResponse;
    CreateTopics: CreateTopicsRequest, CreateTopicsResponse;
    DeleteTopics: DeleteTopicsRequest, DeleteTopicsResponse;
    DeleteRecords: DeleteRecordsRequest, DeleteRecordsResponse;
    InitProducerId: InitProducerIdRequest, InitProducerIdResponse;
    OffsetForLeaderEpoch: OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse;
    DescribeConfigs: DescribeConfigsRequest, DescribeConfigsResponse;
    AlterConfigs: AlterConfigsRequest, AlterConfigsResponse;
    DescribeLogDirs: DescribeLogDirsRequest, DescribeLogDirsResponse;
    CreatePartitions: CreatePartitionsRequest, CreatePartitionsResponse;
    IncrementalAlterConfigs: IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse;
    DescribeCluster: DescribeClusterRequest, DescribeClusterResponse;
    DescribeQuorum: DescribeQuorumRequest, DescribeQuorumResponse;
    UnregisterBroker: UnregisterBrokerRequest, UnregisterBrokerResponse;
    ElectLeaders: ElectLeadersRequest, ElectLeadersResponse;
    AlterPartitionReassignments: AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse;
    ListPartitionReassignments: ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse;
    AddRaftVoter: AddRaftVoterRequest, AddRaftVoterResponse;
    RemoveRaftVoter: RemoveRaftVoterRequest, RemoveRaftVoterResponse;
    ListConfigResources: ListConfigResourcesRequest, ListConfigResourcesResponse;
    DescribeTopicPartitions: DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse;
    OffsetCommit: OffsetCommitRequest, OffsetCommitResponse;
    OffsetFetch: OffsetFetchRequest, OffsetFetchResponse;
    JoinGroup: JoinGroupRequest, JoinGroupResponse;
    Heartbeat: HeartbeatRequest, HeartbeatResponse;
    LeaveGroup: LeaveGroupRequest, LeaveGroupResponse;
    SyncGroup: SyncGroupRequest, SyncGroupResponse;
    DescribeGroups: DescribeGroupsRequest, DescribeGroupsResponse;
    ListGroups: ListGroupsRequest, ListGroupsResponse;
    DeleteGroups: DeleteGroupsRequest, DeleteGroupsResponse;
    OffsetDelete: OffsetDeleteRequest, OffsetDeleteResponse;
    ConsumerGroupHeartbeat: ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse;
    ConsumerGroupDescribe: ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse;
}

/// A version and a body. What is decoded must encode to what decodes to the same.
fn with_version(bytes: &[u8], versions: i16, decode: impl FnOnce(i16, &[u8])) {
    if let Some((version, body)) = bytes.split_first() {
        decode(i16::from(*version) % (versions + 1), body);
    }
}

/// A Produce request of the version in the first byte.
pub fn produce_request(bytes: &[u8]) {
    with_version(bytes, 13, |version, body| {
        let Ok(request) = produce::decode_request(version, body) else {
            return;
        };
        let mut out = BytesMut::new();
        if version >= produce::FIRST_SERVED_VERSION {
            assert_eq!(produce::encode_request(&mut out, version, &request), Ok(()));
            assert_eq!(produce::decode_request(version, &out).as_ref(), Ok(&request));
        }
    });
}

/// A Produce response of the version in the first byte.
pub fn produce_response(bytes: &[u8]) {
    with_version(bytes, 13, |version, body| {
        let Ok(response) = produce::decode_response(version, body) else {
            return;
        };
        let mut out = BytesMut::new();
        assert_eq!(produce::encode_response(&mut out, version, &response), Ok(()));
    });
}

/// A Fetch request of the version in the first byte.
pub fn fetch_request(bytes: &[u8]) {
    with_version(bytes, 18, |version, body| {
        let Ok(request) = fetch::decode_request(version, body) else {
            return;
        };
        let mut out = BytesMut::new();
        assert_eq!(fetch::encode_request(&mut out, version, &request), Ok(()));
        assert_eq!(fetch::decode_request(version, &out).as_ref(), Ok(&request));
    });
}

/// A Fetch response of the version in the first byte; its record sets are read too.
pub fn fetch_response(bytes: &[u8]) {
    with_version(bytes, 18, |version, body| {
        let Ok(response) = fetch::decode_response(version, body) else {
            return;
        };
        response
            .topics
            .items()
            .iter()
            .filter_map(|partition| partition.records)
            .for_each(record_set);
    });
}

/// A produced batch. The first byte chooses the topic's settings, and whether the CRC is set right first, without which a
/// fuzzer would never come past it. What is accepted must be readable.
pub fn batch_validate(bytes: &[u8]) {
    let Some((choice, batch)) = bytes.split_first() else {
        return;
    };
    let mut batch = batch.to_vec();
    if choice & 0x80 != 0 && batch.len() > 21 {
        let crc = crc32c::crc32c(&batch[21..]);
        batch[17..21].copy_from_slice(&crc.to_be_bytes());
    }
    let compression = match Codec::from_id(choice & 0x07) {
        Some(codec) => TopicCompression::Fixed(codec.into()),
        None => TopicCompression::Producer,
    };
    let append_time = choice & 0x08 != 0;
    let rules = ValidationRules {
        now_ms: 1_000_000,
        timestamp_type: if append_time {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        },
        compression,
        compacted: choice & 0x10 != 0,
        decompressed_max_bytes: DECOMPRESSED_MAX_BYTES,
        ..ValidationRules::default()
    };
    let Ok(validated) = validate(&batch, &rules) else {
        return;
    };
    let mut stored = validated.bytes.to_vec();
    if validated.header_changed {
        patch_and_recrc(&mut stored, &validated.header);
    }
    assert!(check_crc(&stored));
    let mut count = 0;
    let walked = for_each_record(&stored, DECOMPRESSED_MAX_BYTES, |record| {
        assert_eq!(record.offset_delta, count);
        count += 1;
        ControlFlow::<()>::Continue(())
    });
    assert_eq!((walked, count), (Ok(None), validated.header.record_count));
}

/// A record set as a client takes it from a fetch answer, or a tool from a segment.
pub fn record_set(bytes: &[u8]) {
    for batch in batches(bytes) {
        let Ok(batch) = batch else { return };
        let _ = find_timestamp(batch.bytes, 1_000_000, 1, DECOMPRESSED_MAX_BYTES);
        let _ = max_timestamp_record(batch.bytes, 1, DECOMPRESSED_MAX_BYTES);
        let _ = for_each_record(batch.bytes, DECOMPRESSED_MAX_BYTES, |record| {
            record.headers().for_each(drop);
            ControlFlow::<()>::Continue(())
        });
    }
}

/// A topic name.
pub fn topic_name(bytes: &[u8]) {
    if let Ok(name) = std::str::from_utf8(bytes) {
        let valid = topic_name::validate(name).is_ok();
        assert!(!valid || (1..=topic_name::MAX_LENGTH).contains(&name.len()));
    }
}
