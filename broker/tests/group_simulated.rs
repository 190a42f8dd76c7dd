//! The real coordinator on virtual time: power cuts, a slow replay, and offsets that expire.

#![allow(clippy::unwrap_used)]

#[path = "support/simulated.rs"]
mod simulated;
mod support;

use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    DeleteGroupsRequest, DescribeGroupsRequest, FindCoordinatorRequest, HeartbeatRequest, JoinGroupRequest,
    LeaveGroupRequest, ListGroupsRequest, OffsetDeleteRequest, OffsetFetchRequest, SyncGroupRequest,
};
use simulated::{SimClient, config, name};
use strandline::config::BrokerConfig;
use strandline::node::simulated as node;
use strandline_runtime::Runtime;
use strandline_runtime::sim::{SimRuntime, Simulation};
use strandline_storage::disk::sim::Latency;
use strandline_storage::disk::{SimDisk, SimDiskOptions};
use support::group::{
    GROUP_ID_NOT_FOUND, LOAD_IN_PROGRESS, MEMBER_ID_REQUIRED, commit_request, fetch_request, group_id,
    subscription, text,
};

const COMMIT: i16 = 8;
const FETCH: i16 = 8;

fn quick() -> Arc<BrokerConfig> {
    config(&[
        ("offsets.topic.num.partitions", "3"),
        ("group.initial.rebalance.delay.ms", "0"),
        ("offsets.retention.minutes", "1"),
        ("offsets.retention.check.interval.ms", "5000"),
    ])
}

async fn find(client: &mut SimClient, group: &str) {
    let request = FindCoordinatorRequest::default().with_coordinator_keys(vec![text(group)]);
    let answer = client.ask(4, &request).await;
    assert_eq!(answer.coordinators[0].error_code, 0);
}

async fn commit(client: &mut SimClient, group: &str, topic: &str, offset: i64) -> i16 {
    let request = commit_request(group, topic, 0, offset);
    client.ask(COMMIT, &request).await.topics[0].partitions[0].error_code
}

/// The committed offset, once the coordinator knows.
async fn committed(runtime: &SimRuntime, client: &mut SimClient, group: &str, topic: &str) -> i64 {
    loop {
        let answer = client.ask(FETCH, &fetch_request(group, topic, &[0])).await;
        let group = &answer.groups[0];
        match group.error_code {
            0 => return group.topics[0].partitions[0].committed_offset,
            LOAD_IN_PROGRESS => runtime.sleep(Duration::from_millis(100)).await,
            code => panic!("{code}"),
        }
    }
}

async fn listed(client: &mut SimClient) -> Vec<String> {
    let answer = client.ask(5, &ListGroupsRequest::default()).await;
    assert_eq!(answer.error_code, 0);
    answer
        .groups
        .iter()
        .map(|group| group.group_id.to_string())
        .collect()
}

/// A member that joined alone and has everything.
struct Member {
    group: String,
    id: String,
    generation: i32,
}

impl Member {
    async fn join(client: &mut SimClient, group: &str, topics: &[&str], id: &str) -> Self {
        let topics: Vec<String> = topics.iter().map(|topic| (*topic).to_owned()).collect();
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(text("range"))
            .with_metadata(subscription(&topics).into());
        let mut request = JoinGroupRequest::default()
            .with_group_id(group_id(group))
            .with_session_timeout_ms(10_000)
            .with_rebalance_timeout_ms(10_000)
            .with_member_id(text(id))
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![protocol]);
        let mut answer = client.ask(5, &request).await;
        if answer.error_code == MEMBER_ID_REQUIRED {
            request.member_id = answer.member_id;
            answer = client.ask(5, &request).await;
        }
        assert_eq!(answer.error_code, 0);
        let member = Self {
            group: group.to_owned(),
            id: answer.member_id.to_string(),
            generation: answer.generation_id,
        };
        let assignment = SyncGroupRequestAssignment::default()
            .with_member_id(text(&member.id))
            .with_assignment(b"all".to_vec().into());
        let sync = SyncGroupRequest::default()
            .with_group_id(group_id(group))
            .with_member_id(text(&member.id))
            .with_generation_id(member.generation)
            .with_assignments(vec![assignment]);
        assert_eq!(client.ask(3, &sync).await.error_code, 0);
        member
    }

    async fn heartbeat(&self, client: &mut SimClient) -> i16 {
        let request = HeartbeatRequest::default()
            .with_group_id(group_id(&self.group))
            .with_generation_id(self.generation)
            .with_member_id(text(&self.id));
        client.ask(3, &request).await.error_code
    }

    async fn commit(&self, client: &mut SimClient, topic: &str, offset: i64) {
        let request = commit_request(&self.group, topic, 0, offset)
            .with_generation_id_or_member_epoch(self.generation)
            .with_member_id(text(&self.id));
        let answer = client.ask(COMMIT, &request).await;
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
    }

    async fn leave(&self, client: &mut SimClient) {
        let member = MemberIdentity::default().with_member_id(text(&self.id));
        let request = LeaveGroupRequest::default()
            .with_group_id(group_id(&self.group))
            .with_members(vec![member]);
        assert_eq!(client.ask(3, &request).await.members[0].error_code, 0);
    }

    /// Lives on for `span`.
    async fn live(&self, runtime: &SimRuntime, client: &mut SimClient, span: Duration) {
        let beat = Duration::from_secs(3);
        for _ in 0..span.as_secs() / beat.as_secs() {
            runtime.sleep(beat).await;
            assert_eq!(self.heartbeat(client).await, 0);
        }
    }
}

/// Commits, then a power cut with a commit on its way: the last acknowledged is there, or the one behind it.
fn crash(seed: u64) -> u64 {
    let simulation = Simulation::new(seed);
    let runtime = simulation.runtime("node");
    let disk = SimDisk::new(runtime.clone(), SimDiskOptions::default());
    let on_disk = disk.clone();
    let (member, last) = simulation.run_until(async move {
        let node = node::start(&runtime, &on_disk, quick()).await.unwrap();
        node.ready.await.unwrap();
        let mut client = SimClient::connect(&runtime).await;
        client.create("t", 1, &[]).await;
        find(&mut client, "g").await;
        let member = Member::join(&mut client, "g", &["t"], "").await;
        let last = 10 + (seed as i64 % 7);
        for offset in 1..=last {
            member.commit(&mut client, "t", offset).await;
        }
        assert_eq!(commit(&mut client, "simple", "t", 5).await, 0);
        // On its way when the power goes.
        let request = commit_request("g", "t", 0, last + 1)
            .with_generation_id_or_member_epoch(member.generation)
            .with_member_id(text(&member.id));
        client.send(COMMIT, &request).await;
        runtime.sleep(Duration::from_micros(40 * seed)).await;
        (member, last)
    });
    disk.crash();
    simulation.kill_host("node");
    let runtime = simulation.runtime("node");
    let disk = disk.attach(runtime.clone());
    simulation.run_until(async move {
        let node = node::start(&runtime, &disk, quick()).await.unwrap();
        node.ready.await.unwrap();
        let mut client = SimClient::connect(&runtime).await;
        let found = committed(&runtime, &mut client, "g", "t").await;
        assert!(
            (last..=last + 1).contains(&found),
            "{last} acknowledged, {found} found"
        );
        assert_eq!(committed(&runtime, &mut client, "simple", "t").await, 5);
        // The member goes on in its generation.
        assert_eq!(member.heartbeat(&mut client).await, 0);
        member.commit(&mut client, "t", last + 2).await;
        node.client.stop();
        node.ended.await.unwrap().unwrap();
    });
    simulation.trace_hash()
}

#[test]
fn acknowledged_commits_and_assignments_survive_power_cuts() {
    for seed in 1..=12 {
        assert_eq!(crash(seed), crash(seed), "seed {seed} repeats");
    }
}

/// Until the partition is replayed every API says so in its own shape, and nothing is guessed.
#[test]
fn while_it_loads_a_coordinator_says_so() {
    let simulation = Simulation::new(5);
    let runtime = simulation.runtime("node");
    let slow = SimDiskOptions {
        read: Latency::micros(3_000_000, 3_000_000),
        ..SimDiskOptions::default()
    };
    let disk = SimDisk::new(runtime.clone(), slow);
    let on_disk = disk.clone();
    let member = simulation.run_until(async move {
        let node = node::start(&runtime, &on_disk, quick()).await.unwrap();
        node.ready.await.unwrap();
        let mut client = SimClient::connect(&runtime).await;
        client.create("t", 1, &[]).await;
        find(&mut client, "g").await;
        let member = Member::join(&mut client, "g", &["t"], "").await;
        member.commit(&mut client, "t", 42).await;
        // A clean stop leaves the records in segments: replaying them reads the disk.
        node.client.stop();
        node.ended.await.unwrap().unwrap();
        member
    });
    simulation.kill_host("node");
    let runtime = simulation.runtime("node");
    let disk = disk.attach(runtime.clone());
    simulation.run_until(async move {
        let node = node::start(&runtime, &disk, quick()).await.unwrap();
        node.ready.await.unwrap();
        let mut client = SimClient::connect(&runtime).await;
        // The coordinator is known while it loads.
        find(&mut client, "g").await;
        for version in 1..=8 {
            let answer = if version < 8 {
                let topic = OffsetFetchRequestTopic::default()
                    .with_name(name("t"))
                    .with_partition_indexes(vec![0]);
                let request = OffsetFetchRequest::default()
                    .with_group_id(group_id("g"))
                    .with_topics(Some(vec![topic]));
                client.ask(version, &request).await
            } else {
                client.ask(version, &fetch_request("g", "t", &[0])).await
            };
            let code = match version {
                1 => answer.topics[0].partitions[0].error_code,
                2..8 => answer.error_code,
                _ => answer.groups[0].error_code,
            };
            assert_eq!(code, LOAD_IN_PROGRESS, "OffsetFetch v{version}");
        }
        assert_eq!(commit(&mut client, "g", "t", 50).await, LOAD_IN_PROGRESS);
        let join = JoinGroupRequest::default()
            .with_group_id(group_id("g"))
            .with_session_timeout_ms(10_000)
            .with_member_id(text(&member.id))
            .with_protocol_type(text("consumer"));
        for version in [0, 5, 9] {
            let answer = client.ask(version, &join).await;
            assert_eq!((answer.error_code, answer.generation_id), (LOAD_IN_PROGRESS, -1));
        }
        let sync = SyncGroupRequest::default()
            .with_group_id(group_id("g"))
            .with_generation_id(member.generation)
            .with_member_id(text(&member.id));
        assert_eq!(client.ask(3, &sync).await.error_code, LOAD_IN_PROGRESS);
        // A member need not do anything because of it.
        assert_eq!(member.heartbeat(&mut client).await, 0);
        let leave = LeaveGroupRequest::default().with_group_id(group_id("g"));
        assert_eq!(client.ask(3, &leave).await.error_code, LOAD_IN_PROGRESS);
        let describe = DescribeGroupsRequest::default().with_groups(vec![group_id("g")]);
        assert_eq!(
            client.ask(5, &describe).await.groups[0].error_code,
            LOAD_IN_PROGRESS
        );
        assert_eq!(
            client.ask(5, &ListGroupsRequest::default()).await.error_code,
            LOAD_IN_PROGRESS
        );
        let delete = DeleteGroupsRequest::default().with_groups_names(vec![group_id("g")]);
        assert_eq!(
            client.ask(2, &delete).await.results[0].error_code,
            LOAD_IN_PROGRESS
        );
        let offsets = OffsetDeleteRequest::default().with_group_id(group_id("g"));
        assert_eq!(client.ask(0, &offsets).await.error_code, LOAD_IN_PROGRESS);

        assert_eq!(committed(&runtime, &mut client, "g", "t").await, 42);
        assert_eq!(member.heartbeat(&mut client).await, 0);
        let answer: Vec<String> = listed(&mut client).await;
        assert_eq!(answer, ["g"]);
        node.client.stop();
        node.ended.await.unwrap().unwrap();
    });
}

/// Field report B23: with a retention of a minute, and a look every five seconds.
#[test]
fn offsets_expire_from_the_moment_that_kafka_counts_from() {
    let slack = Duration::from_secs(6);
    simulated::with_node(
        7,
        SimDiskOptions::default(),
        quick(),
        move |runtime, node| async move {
            node.ready.await.unwrap();
            let mut client = SimClient::connect(&runtime).await;
            for topic in ["x", "y"] {
                client.create(topic, 1, &[]).await;
            }
            find(&mut client, "live").await;
            let minute = Duration::from_secs(60);

            // Without members: from the commit on.
            assert_eq!(commit(&mut client, "simple", "x", 1).await, 0);
            runtime.sleep(minute - slack).await;
            assert_eq!(committed(&runtime, &mut client, "simple", "x").await, 1);
            runtime.sleep(2 * slack).await;
            assert_eq!(committed(&runtime, &mut client, "simple", "x").await, -1);
            assert!(listed(&mut client).await.is_empty(), "and its group with it");

            // A live member that reads x: x stays, y goes.
            let member = Member::join(&mut client, "live", &["x"], "").await;
            member.commit(&mut client, "x", 2).await;
            member.commit(&mut client, "y", 3).await;
            member.live(&runtime, &mut client, 3 * minute).await;
            assert_eq!(committed(&runtime, &mut client, "live", "x").await, 2);
            assert_eq!(committed(&runtime, &mut client, "live", "y").await, -1);

            // From when the group became empty, not from the commit.
            member.leave(&mut client).await;
            runtime.sleep(minute - slack).await;
            assert_eq!(committed(&runtime, &mut client, "live", "x").await, 2);
            assert_eq!(listed(&mut client).await, ["live"]);
            runtime.sleep(2 * slack).await;
            assert_eq!(committed(&runtime, &mut client, "live", "x").await, -1);
            assert!(listed(&mut client).await.is_empty());
            let describe = DescribeGroupsRequest::default().with_groups(vec![group_id("live")]);
            assert_eq!(
                client.ask(6, &describe).await.groups[0].error_code,
                GROUP_ID_NOT_FOUND
            );
        },
    );
}

/// The wall clock is set a week ahead, as after a suspension or by the first answer of a time server: a group that becomes empty
/// afterwards has its whole retention, before and after a restart.
#[test]
fn a_clock_that_was_set_expires_no_offsets() {
    let simulation = Simulation::new(8);
    let runtime = simulation.runtime("node");
    let disk = SimDisk::new(runtime.clone(), SimDiskOptions::default());
    let (own, place) = (runtime.clone(), disk.clone());
    let (stop, ended, mut client, member) = simulation.run_until(async move {
        let started = node::start(&own, &place, quick()).await.unwrap();
        started.ready.await.unwrap();
        let mut client = SimClient::connect(&own).await;
        client.create("x", 1, &[]).await;
        find(&mut client, "g").await;
        let member = Member::join(&mut client, "g", &["x"], "").await;
        (started.client, started.ended, client, member)
    });
    simulation.set_clock_offset_ms("node", 7 * 24 * 3_600_000);
    simulation.run_until(async move {
        member.commit(&mut client, "x", 2).await;
        member.leave(&mut client).await;
        let almost = Duration::from_secs(40);
        runtime.sleep(almost).await;
        assert_eq!(committed(&runtime, &mut client, "g", "x").await, 2);
        stop.stop();
        ended.await.unwrap().unwrap();
        let started = node::start(&runtime, &disk, quick()).await.unwrap();
        started.ready.await.unwrap();
        let mut client = SimClient::connect(&runtime).await;
        runtime.sleep(Duration::from_secs(6)).await;
        assert_eq!(committed(&runtime, &mut client, "g", "x").await, 2);
        runtime.sleep(almost).await;
        assert_eq!(committed(&runtime, &mut client, "g", "x").await, -1);
        started.client.stop();
        started.ended.await.unwrap().unwrap();
    });
}
