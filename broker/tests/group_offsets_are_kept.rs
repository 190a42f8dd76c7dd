//! Committed offsets over TCP: every version, who may commit, what is refused, what takes them away.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::Write;

use bytes::BytesMut;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::{
    DeleteGroupsRequest, DeleteTopicsRequest, DescribeGroupsRequest, ListGroupsRequest, OffsetCommitRequest,
    OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse, OffsetFetchRequest, OffsetFetchResponse,
    RequestHeader, ResponseHeader,
};
use kafka_protocol::protocol::{Decodable, Encodable};
use strandline_wire::offsets_by_id;
use support::group::{
    GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, Member, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID, commit,
    commit_request, committed, coordinator, describe, fetch_request, group_id, text,
};
use support::topic::{create, metadata, name};
use support::{Batch, Broker, Client, Partition};
use uuid::Uuid;

fn start() -> Broker {
    let broker = Broker::start_set(&["group.initial.rebalance.delay.ms=0"]);
    create(&mut broker.client(), "t", 3, &[]);
    broker
}

/// A request of version 10, whose topics have ids: the answer.
fn call_by_id<A: Decodable>(client: &mut Client, key: i16, body: &BytesMut) -> A {
    let mut frame = BytesMut::new();
    let header = RequestHeader::default()
        .with_request_api_key(key)
        .with_request_api_version(10)
        .with_correlation_id(77);
    header.encode(&mut frame, 2).unwrap();
    frame.extend_from_slice(body);
    client
        .stream
        .write_all(&(frame.len() as i32).to_be_bytes())
        .unwrap();
    client.stream.write_all(&frame).unwrap();
    let mut answer = bytes::Bytes::from(client.receive_frame().unwrap());
    assert_eq!(ResponseHeader::decode(&mut answer, 1).unwrap().correlation_id, 77);
    A::decode(&mut answer, 10).unwrap()
}

#[test]
fn every_version_commits_and_every_version_reads() {
    let broker = start();
    let mut client = coordinator(&broker, "g");
    let topic_id = metadata(&mut client, &["t"]).topics[0].topic_id;
    for version in 2..=10 {
        let offset = 100 + i64::from(version);
        let mut request = commit_request("g", "t", 0, offset);
        let partition = &mut request.topics[0].partitions[0];
        partition.committed_metadata = Some(text(&format!("m{version}")));
        if version >= 6 {
            partition.committed_leader_epoch = 3;
        }
        let answer: OffsetCommitResponse = if version == 10 {
            let mut body = BytesMut::new();
            offsets_by_id::encode_commit(&mut body, &request, &[topic_id]);
            call_by_id(&mut client, 8, &body)
        } else {
            client.call(version, &request)
        };
        assert_eq!(answer.topics[0].partitions[0].error_code, 0, "v{version}");
        if version == 10 {
            assert_eq!(answer.topics[0].topic_id, topic_id);
        } else {
            assert_eq!(answer.topics[0].name.as_str(), "t");
        }
        read_in_every_version(
            &mut client,
            topic_id,
            offset,
            &format!("m{version}"),
            version >= 6,
        );
    }
}

fn read_in_every_version(client: &mut Client, topic_id: Uuid, offset: i64, note: &str, has_epoch: bool) {
    let epoch = if has_epoch { 3 } else { -1 };
    for version in 1..=7 {
        let topic = OffsetFetchRequestTopic::default()
            .with_name(name("t"))
            .with_partition_indexes(vec![0, 1]);
        let named = OffsetFetchRequest::default()
            .with_group_id(group_id("g"))
            .with_topics(Some(vec![topic]))
            .with_require_stable(version >= 7);
        let answer = client.call(version, &named);
        assert_eq!(answer.error_code, 0);
        let partitions = &answer.topics[0].partitions;
        assert_eq!(partitions[0].committed_offset, offset, "v{version}");
        assert_eq!(partitions[0].metadata.as_deref(), Some(note));
        if version >= 5 {
            assert_eq!(partitions[0].committed_leader_epoch, epoch);
        }
        assert_eq!(
            (partitions[1].committed_offset, partitions[1].error_code),
            (-1, 0)
        );
        if version >= 2 {
            let all = client.call(version, &named.with_topics(None));
            assert_eq!(all.topics.len(), 1);
            assert_eq!(all.topics[0].partitions[0].committed_offset, offset);
        }
    }
    for version in 8..=9 {
        let mut request = fetch_request("g", "t", &[0, 1]);
        let mut all = request.groups[0].clone();
        all.topics = None;
        request.groups.push(all);
        request
            .groups
            .push(fetch_request("unknown", "t", &[0]).groups.remove(0));
        let answer = client.call(version, &request);
        for group in &answer.groups {
            assert_eq!(group.error_code, 0);
        }
        assert_eq!(answer.groups[0].topics[0].partitions[0].committed_offset, offset);
        assert_eq!(answer.groups[1].topics[0].partitions.len(), 1);
        assert_eq!(answer.groups[2].topics[0].partitions[0].committed_offset, -1);
    }
    let mut request = fetch_request("g", "t", &[0, 1]);
    let mut all = request.groups[0].clone();
    all.topics = None;
    request.groups.push(all);
    let mut body = BytesMut::new();
    offsets_by_id::encode_fetch(&mut body, &request, &[vec![topic_id], Vec::new()]);
    let answer: OffsetFetchResponse = call_by_id(client, 9, &body);
    for group in &answer.groups {
        assert_eq!(group.topics[0].topic_id, topic_id);
        assert_eq!(group.topics[0].partitions[0].committed_offset, offset);
    }
    // An id that no topic has.
    let mut body = BytesMut::new();
    request.groups.truncate(1);
    offsets_by_id::encode_fetch(&mut body, &request, &[vec![Uuid::from_u128(1)]]);
    let answer: OffsetFetchResponse = call_by_id(client, 9, &body);
    assert_eq!(answer.groups[0].topics[0].partitions[0].error_code, 100);
}

#[test]
fn what_cannot_be_committed_is_refused_and_the_rest_is_kept() {
    let broker = start();
    let mut client = coordinator(&broker, "g");
    let mut request = commit_request("g", "t", 0, 5);
    let mut bad = request.topics[0].partitions[0].clone();
    bad.partition_index = 3;
    request.topics[0].partitions.push(bad.clone());
    bad.partition_index = 1;
    bad.committed_metadata = Some(text(&"x".repeat(4097)));
    request.topics[0].partitions.push(bad.clone());
    bad.partition_index = 2;
    // 4,096 units of UTF-16, more in bytes.
    bad.committed_metadata = Some(text(&"ü".repeat(4096)));
    request.topics[0].partitions.push(bad);
    let mut unknown = request.topics[0].clone();
    unknown.name = name("missing");
    request.topics.push(unknown);
    let answer = client.call(8, &request);
    let codes = |topic: usize| -> Vec<i16> {
        let partitions = answer.topics[topic].partitions.iter();
        partitions.map(|partition| partition.error_code).collect()
    };
    assert_eq!(codes(0), [0, 3, 12, 0]);
    assert_eq!(codes(1), [3, 3, 3, 3]);
    assert_eq!(committed(&mut client, "g", "t", 0), 5);
    assert_eq!(committed(&mut client, "g", "t", 1), -1);
    assert_eq!(committed(&mut client, "g", "t", 2), 5);

    let mut body = BytesMut::new();
    let request = commit_request("g", "t", 0, 6);
    offsets_by_id::encode_commit(&mut body, &request, &[Uuid::from_u128(1)]);
    let answer: OffsetCommitResponse = call_by_id(&mut client, 8, &body);
    assert_eq!(answer.topics[0].partitions[0].error_code, 100, "UNKNOWN_TOPIC_ID");
    assert_eq!(answer.topics[0].topic_id, Uuid::from_u128(1));
    // The empty group id commits as in Kafka.
    let mut client = coordinator(&broker, "");
    assert_eq!(commit(&mut client, "", "t", 0, 9), 0);
    assert_eq!(committed(&mut client, "", "t", 0), 9);
}

#[test]
fn only_members_of_the_generation_commit() {
    let broker = start();
    let mut outsider = coordinator(&broker, "g");
    let with = |generation: i32, member: &str| {
        commit_request("g", "t", 0, 1)
            .with_generation_id_or_member_epoch(generation)
            .with_member_id(text(member))
    };
    let code = |client: &mut Client, version: i16, request: &OffsetCommitRequest| {
        client.call(version, request).topics[0].partitions[0].error_code
    };
    // Without a group, a generation is one that nobody knows.
    assert_eq!(code(&mut outsider, 8, &with(1, "a")), ILLEGAL_GENERATION);
    assert_eq!(code(&mut outsider, 9, &with(1, "a")), GROUP_ID_NOT_FOUND);
    let mut member = Member::new(&broker, "g");
    member.join();
    assert_eq!(
        member.commit("t", 0, 1),
        REBALANCE_IN_PROGRESS,
        "no assignment yet"
    );
    let own = member.id.clone();
    assert_eq!(member.sync(&[(&own, "all")]).error_code, 0);
    assert_eq!(member.commit("t", 0, 42), 0);
    assert_eq!(
        code(&mut outsider, 8, &with(member.generation, "made-up")),
        UNKNOWN_MEMBER_ID
    );
    assert_eq!(code(&mut outsider, 8, &with(-1, "")), UNKNOWN_MEMBER_ID);
    assert_eq!(
        code(&mut outsider, 8, &with(member.generation + 1, &own)),
        ILLEGAL_GENERATION
    );
    assert_eq!(committed(&mut outsider, "g", "t", 0), 42);
    assert_eq!(member.leave(), 0);
    assert_eq!(commit(&mut outsider, "g", "t", 0, 7), 0, "the group is empty");
    assert_eq!(committed(&mut outsider, "g", "t", 0), 7);
}

fn delete_offsets(client: &mut Client, group: &str, topic: &str, partitions: &[i32]) -> OffsetDeleteResponse {
    let partitions = partitions
        .iter()
        .map(|number| OffsetDeleteRequestPartition::default().with_partition_index(*number));
    let topic = OffsetDeleteRequestTopic::default()
        .with_name(name(topic))
        .with_partitions(partitions.collect());
    let request = OffsetDeleteRequest::default()
        .with_group_id(group_id(group))
        .with_topics(vec![topic]);
    client.call(0, &request)
}

fn delete_group(client: &mut Client, group: &str) -> i16 {
    let request = DeleteGroupsRequest::default().with_groups_names(vec![group_id(group)]);
    client.call(2, &request).results[0].error_code
}

fn listed(client: &mut Client, states: &[&str], types: &[&str]) -> Vec<String> {
    let request = ListGroupsRequest::default()
        .with_states_filter(states.iter().map(|state| text(state)).collect())
        .with_types_filter(types.iter().map(|kind| text(kind)).collect());
    let answer = client.call(5, &request);
    assert_eq!(answer.error_code, 0);
    let mut names: Vec<_> = answer
        .groups
        .iter()
        .map(|group| {
            assert_eq!(group.group_type.as_str(), "classic");
            format!(
                "{} {} {}",
                group.group_id.as_str(),
                group.protocol_type,
                group.group_state
            )
        })
        .collect();
    names.sort();
    names
}

#[test]
fn groups_are_listed_described_and_deleted() {
    let broker = start();
    let mut member = Member::new(&broker, "live");
    member.join_alone();
    let mut client = coordinator(&broker, "simple");
    assert_eq!(commit(&mut client, "simple", "t", 0, 1), 0);
    assert_eq!(
        listed(&mut client, &[], &[]),
        ["live consumer Stable", "simple  Empty"]
    );
    assert_eq!(listed(&mut client, &["stable"], &[]), ["live consumer Stable"]);
    assert_eq!(listed(&mut client, &["Empty"], &["Classic"]), ["simple  Empty"]);
    assert!(listed(&mut client, &[], &["consumer"]).is_empty());
    for version in 0..=3 {
        assert_eq!(
            client.call(version, &ListGroupsRequest::default()).groups.len(),
            2
        );
    }
    for version in 0..=6 {
        let request = DescribeGroupsRequest::default()
            .with_groups(vec![group_id("live"), group_id("nobody")])
            .with_include_authorized_operations(version >= 3);
        let answer = client.call(version, &request);
        let (live, nobody) = (&answer.groups[0], &answer.groups[1]);
        assert_eq!(
            (live.group_state.as_str(), live.protocol_data.as_str()),
            ("Stable", "range")
        );
        let described = &live.members[0];
        assert_eq!(described.member_id.as_str(), member.id);
        assert_eq!(
            (described.client_id.as_str(), described.client_host.as_str()),
            ("test", "/127.0.0.1")
        );
        assert_eq!(&described.member_assignment[..], b"all");
        assert_eq!(nobody.group_state.as_str(), "Dead");
        let code = if version >= 6 { GROUP_ID_NOT_FOUND } else { 0 };
        assert_eq!(nobody.error_code, code, "v{version}");
    }
    assert_eq!(delete_group(&mut client, "live"), 68, "NON_EMPTY_GROUP");
    assert_eq!(delete_group(&mut client, "nobody"), GROUP_ID_NOT_FOUND);
    assert_eq!(delete_group(&mut client, "simple"), 0);
    assert_eq!(committed(&mut client, "simple", "t", 0), -1);
    assert_eq!(listed(&mut client, &[], &[]), ["live consumer Stable"]);
    assert_eq!(describe(&mut client, "simple").error_code, GROUP_ID_NOT_FOUND);
}

#[test]
fn offsets_are_deleted_unless_a_member_reads_the_topic() {
    let broker = start();
    create(&mut broker.client(), "u", 1, &[]);
    let mut member = Member::new(&broker, "g");
    member.join_alone();
    assert_eq!((member.commit("t", 0, 1), member.commit("u", 0, 2)), (0, 0));
    let client = &mut member.client;
    let read = delete_offsets(client, "g", "t", &[0]);
    assert_eq!(
        (read.error_code, read.topics[0].partitions[0].error_code),
        (0, 86)
    );
    let other = delete_offsets(client, "g", "u", &[0, 9]);
    let codes: Vec<i16> = other.topics[0]
        .partitions
        .iter()
        .map(|partition| partition.error_code)
        .collect();
    assert_eq!((other.error_code, codes), (0, vec![0, 3]));
    assert_eq!(
        delete_offsets(client, "nobody", "t", &[0]).error_code,
        GROUP_ID_NOT_FOUND
    );
    assert_eq!(delete_offsets(client, "", "t", &[0]).error_code, 24);
    assert_eq!(committed(client, "g", "t", 0), 1);
    assert_eq!(committed(client, "g", "u", 0), -1);
}

/// A topic that comes again under its name starts without offsets (field report B20).
#[test]
fn a_topic_takes_its_offsets_with_it() {
    let broker = start();
    let mut client = coordinator(&broker, "g");
    assert_eq!(commit(&mut client, "g", "t", 0, 41), 0);
    for by_id in [false, true] {
        let id = metadata(&mut client, &["t"]).topics[0].topic_id;
        let state = match by_id {
            true => DeleteTopicState::default().with_topic_id(id),
            false => DeleteTopicState::default().with_name(Some(name("t"))),
        };
        let request = DeleteTopicsRequest::default()
            .with_topics(vec![state])
            .with_timeout_ms(30_000);
        assert_eq!(client.call(6, &request).responses[0].error_code, 0);
        assert_eq!(committed(&mut client, "g", "t", 0), -1);
        create(&mut client, "t", 1, &[]);
        assert_eq!(committed(&mut client, "g", "t", 0), -1);
        assert_eq!(commit(&mut client, "g", "t", 0, 42), 0);
        assert_eq!(committed(&mut client, "g", "t", 0), 42);
    }
}

/// Only the cluster writes to its own topics, and everybody may read them.
#[test]
fn the_offsets_topic_is_internal() {
    let broker = start();
    let mut client = coordinator(&broker, "g");
    assert_eq!(commit(&mut client, "g", "t", 0, 41), 0);
    let found = metadata(&mut client, &["__consumer_offsets"]);
    assert!(found.topics[0].is_internal);
    assert_eq!(found.topics[0].partitions.len(), 50);
    let number = strandline_core::group::offsets::partition_of("g", 50);
    let mut partition = Partition::find(&broker, "__consumer_offsets", number);
    let refused = partition.produce(&Batch::of_values(["x"]));
    assert_eq!(refused.error_code, 17, "INVALID_TOPIC_EXCEPTION");
    assert_eq!(partition.delete_records(-1).error_code, 17);
    let records = partition.read_all(0);
    assert_eq!(records.len(), 1);
    let record = &records[&0];
    assert_eq!(
        record.key.as_deref(),
        Some(&b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00"[..])
    );
    assert_eq!(
        record.value.as_ref().unwrap()[..10],
        *b"\x00\x04\x00\x00\x00\x00\x00\x00\x00\x29"
    );
}
