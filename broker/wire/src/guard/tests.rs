//! The schemas against the generated codec: random bodies made from the schema, decoded by the codec, encoded again.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{self, *};
use kafka_protocol::protocol::{Decodable, Encodable};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};

use super::schema::{Field, Kind, Schema, Shape};
use super::{requests, responses};
use crate::primitives::WriteExt;
use crate::{ADVERTISED, ApiKey, WireError, is_flexible};

/// Writes a random body along a schema.
struct Maker {
    rng: TestRng,
    version: i16,
    flexible: bool,
    out: BytesMut,
}

impl Maker {
    fn pick(&mut self, below: u32) -> u32 {
        self.rng.next_u32() % below
    }

    fn element(&mut self, schema: &Schema) {
        match schema.shape {
            Shape::Fixed(size) => self.fixed(size),
            Shape::String => self.string(),
            Shape::Structure(fields) => self.structure(fields),
        }
    }

    fn fixed(&mut self, size: usize) {
        // The codec decodes booleans to true or false and so does not give other bytes back.
        for _ in 0..size {
            let byte = self.pick(2) as u8;
            self.out.extend_from_slice(&[byte]);
        }
    }

    fn string(&mut self) {
        let length = self.pick(4) as usize;
        self.out.put_string(self.flexible, &"abc"[..length.min(3)]);
    }

    fn structure(&mut self, fields: &[Field]) {
        let version = self.version;
        for field in fields.iter().filter(|field| field.is_in_order(version)) {
            self.field(&field.kind);
        }
        if !self.flexible {
            return;
        }
        let tagged: Vec<_> = fields
            .iter()
            .filter(|field| field.tag_in(self.version).is_some())
            .collect();
        self.out.put_unsigned_varint(tagged.len() as u32);
        for field in tagged {
            let outer = std::mem::take(&mut self.out);
            self.field(&field.kind);
            let value = std::mem::replace(&mut self.out, outer);
            self.out.put_unsigned_varint(field.tag_in(self.version).unwrap());
            self.out.put_unsigned_varint(value.len() as u32);
            self.out.extend_from_slice(&value);
        }
    }

    fn field(&mut self, kind: &Kind) {
        match kind {
            Kind::Fixed(size) => self.fixed(*size),
            Kind::String => self.string(),
            Kind::Bytes => {
                self.out.put_length(self.flexible, Some(2));
                self.out.extend_from_slice(b"xy");
            }
            Kind::Array(element) => {
                let count = self.pick(3);
                self.out.put_length(self.flexible, Some(count as usize));
                (0..count).for_each(|_| self.element(element));
            }
            Kind::Structure(schema) => self.element(schema),
            Kind::NullableStructure(schema) => {
                let present = self.pick(2) as u8;
                self.out.extend_from_slice(&[if present == 1 { 1 } else { 0xff }]);
                if present == 1 {
                    self.element(schema);
                }
            }
        }
    }
}

fn make(schema: &Schema, api: ApiKey, version: i16, seed: [u8; 32]) -> Bytes {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let flexible = is_flexible(api.key(), version);
    let mut maker = Maker {
        rng,
        version,
        flexible,
        out: BytesMut::new(),
    };
    maker.element(schema);
    maker.out.freeze()
}

/// Decodes behind the guard and encodes again.
fn round_trip<T: Decodable + Encodable>(
    check: fn(i16, i16, &[u8]) -> Result<(), WireError>,
    api: ApiKey,
    version: i16,
    body: &Bytes,
) -> Result<(Bytes, usize), String> {
    check(api.key(), version, body).map_err(|error| error.to_string())?;
    let codec_version = crate::cold::codec_version(api.key(), version);
    let mut rest = body.clone();
    let message = T::decode(&mut rest, codec_version).map_err(|error| format!("{error:#}"))?;
    let mut out = BytesMut::new();
    message
        .encode(&mut out, codec_version)
        .map_err(|error| format!("{error:#}"))?;
    Ok((out.freeze(), rest.len()))
}

macro_rules! for_each_api {
    ($($api:ident: $request:ident, $response:ident;)*) => {
        fn request(api: ApiKey, version: i16, body: &Bytes) -> Result<(Bytes, usize), String> {
            match api {
                $(ApiKey::$api => round_trip::<messages::$request>(super::check_request, api, version, body),)*
                _ => Err("not served".into()),
            }
        }

        fn response(api: ApiKey, version: i16, body: &Bytes) -> Result<(Bytes, usize), String> {
            match api {
                $(ApiKey::$api => round_trip::<messages::$response>(super::check_response, api, version, body),)*
                _ => Err("not served".into()),
            }
        }
    };
}

for_each_api! {
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

/// Every served API and version, but Produce 0 to 2, which only the hand-written codec reads.
fn served() -> impl Iterator<Item = (ApiKey, i16)> {
    ADVERTISED.iter().flat_map(|row| {
        let first = if row.api == ApiKey::Produce {
            crate::produce::FIRST_SERVED_VERSION
        } else {
            row.min_version
        };
        (first..=row.max_version).map(|version| (row.api, version))
    })
}

/// A request that the generated codec lacks is read by hand.
fn is_read_by_hand(api: ApiKey, version: i16) -> bool {
    matches!(api, ApiKey::OffsetCommit | ApiKey::OffsetFetch)
        && version >= crate::offsets_by_id::FIRST_VERSION_BY_ID
}

fn bodies(api: ApiKey, version: i16, seed: [u8; 32]) -> Vec<(&'static str, Bytes)> {
    let (request, response) = (requests::schema(api).unwrap(), responses::schema(api).unwrap());
    let mut bodies = vec![("response", make(response, api, version, seed))];
    if !is_read_by_hand(api, version) {
        bodies.push(("request", make(request, api, version, seed)));
    }
    bodies
}

fn decode(kind: &str, api: ApiKey, version: i16, body: &Bytes) -> Result<(Bytes, usize), String> {
    if kind == "request" {
        request(api, version, body)
    } else {
        response(api, version, body)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// The requests that are read by hand: what a schema calls a body is read, and written again as it was.
    #[test]
    fn the_schemas_are_those_of_the_codec_by_hand(seed: [u8; 32], damage: (u16, u8)) {
        let version = crate::offsets_by_id::FIRST_VERSION_BY_ID;
        for api in [ApiKey::OffsetCommit, ApiKey::OffsetFetch] {
            let body = make(requests::schema(api).unwrap(), api, version, seed);
            let again = |body: &Bytes| -> Result<BytesMut, WireError> {
                let mut out = BytesMut::new();
                if api == ApiKey::OffsetCommit {
                    let (request, ids) = crate::offsets_by_id::decode_commit(body)?;
                    crate::offsets_by_id::encode_commit(&mut out, &request, &ids);
                } else {
                    let (request, ids) = crate::offsets_by_id::decode_fetch(body)?;
                    crate::offsets_by_id::encode_fetch(&mut out, &request, &ids);
                }
                Ok(out)
            };
            prop_assert_eq!(again(&body), Ok(BytesMut::from(&body[..])));
            let mut damaged = body.to_vec();
            let length = damaged.len();
            damaged[usize::from(damage.0) % length] = damage.1;
            let _ = again(&Bytes::from(damaged));
        }
    }

    /// What a schema calls a body, the codec reads to its last byte, and writes again as it was.
    #[test]
    fn the_schemas_are_those_of_the_generated_codec(seed: [u8; 32]) {
        for (api, version) in served() {
            for (kind, body) in bodies(api, version, seed) {
                let what = format!("{} {kind} v{version}: {body:?}", api.name());
                let (again, left) = decode(kind, api, version, &body).map_err(|error| {
                    TestCaseError::fail(format!("{what}: {error}"))
                })?;
                prop_assert_eq!(left, 0, "{}", &what);
                // Tagged fields at their default are not written, so only the length may fall.
                prop_assert!(again == body || again.len() < body.len(), "{}: {:?}", what, again);
            }
        }
    }

    /// Whatever happens to a body on the way, the codec behind the guard gives a message or an error.
    #[test]
    fn damaged_bodies_are_read_or_refused(
        seed: [u8; 32],
        damage in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..4),
        cut in proptest::option::of(any::<u16>()),
    ) {
        for (api, version) in served() {
            for (kind, body) in bodies(api, version, seed) {
                let mut body = body.to_vec();
                for (at, byte) in &damage {
                    let length = body.len().max(1);
                    if let Some(target) = body.get_mut(usize::from(*at) % length) {
                        *target = *byte;
                    }
                }
                if let Some(cut) = cut {
                    body.truncate(usize::from(cut) % (body.len() + 1));
                }
                let _ = decode(kind, api, version, &Bytes::from(body));
            }
        }
    }
}

/// The frame that made `kafka-protocol` 0.18 reserve 154 GB.
#[test]
fn two_billion_topics_are_refused() {
    for (version, body) in [(1, &b"\x7f\xff\xff\xff"[..]), (9, b"\xff\xff\xff\xff\x0f")] {
        let refused = super::check_request(3, version, body);
        assert!(
            matches!(refused, Err(WireError::TooLong { field: "topics", .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn empty_elements_that_would_decode_to_many_times_their_size_are_refused() {
    let mut body = BytesMut::new();
    body.put_length(true, Some(1_000_000));
    body.resize(body.len() + 2_000_000, 1);
    let refused = super::check_request(3, 9, &body);
    assert!(
        matches!(
            refused,
            Err(WireError::TooLarge { .. } | WireError::TooLong { .. })
        ),
        "{refused:?}"
    );

    let mut unknown_tags = BytesMut::new();
    unknown_tags.put_length(true, Some(10_000));
    for _ in 0..10_000 {
        unknown_tags.extend_from_slice(b"\x01\x01\x63\x00"); // an empty name, one tag 99 without a value
    }
    unknown_tags.extend_from_slice(&[0; 8]);
    let refused = super::check_request(3, 9, &unknown_tags);
    assert!(matches!(refused, Err(WireError::TooLarge { .. })), "{refused:?}");
}

#[test]
fn a_known_tagged_field_must_have_the_size_it_says() {
    let body = |size: u8| {
        let mut body = b"\x00\x00\x01\x00\x00\x00\x00\x01".to_vec(); // no error, no keys, no throttle, one tag
        body.extend_from_slice(&[1, size]); // finalized features epoch
        body.extend_from_slice(&[0; 9]);
        body
    };
    assert_eq!(super::check_response(18, 3, &body(8)), Ok(()));
    assert!(super::check_response(18, 3, &body(9)).is_err());
    assert!(super::check_response(18, 3, &body(7)).is_err());
}

#[test]
fn honest_requests_of_many_short_names_pass() {
    let topic = metadata_request::MetadataRequestTopic::default();
    let names = (0..50_000).map(|n| format!("t{n}"));
    let topics = names
        .map(|name| topic.clone().with_name(Some(TopicName(name.into()))))
        .collect();
    let request = MetadataRequest::default().with_topics(Some(topics));
    for version in [4, 8, 9, 12] {
        let mut body = BytesMut::new();
        request.encode(&mut body, version).unwrap();
        assert_eq!(super::check_request(3, version, &body), Ok(()), "v{version}");
    }
}

#[test]
fn apis_and_versions_that_are_not_served_are_refused() {
    assert_eq!(
        super::check_request(4, 0, b""),
        Err(WireError::UnknownApi { api_key: 4 })
    );
    assert_eq!(
        super::check_request(24, 0, b""),
        Err(WireError::UnknownApi { api_key: 24 })
    );
    let refused = Err(WireError::UnsupportedVersion {
        api_key: 3,
        version: 14,
    });
    assert_eq!(super::check_request(3, 14, b""), refused);
}
