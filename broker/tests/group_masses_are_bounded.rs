//! Large groups, many groups, and members that say much: memory is bounded, others are served, and what is refused says so.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::offset_commit_request::OffsetCommitRequestPartition;
use kafka_protocol::messages::{
    CreatePartitionsRequest, DescribeGroupsRequest, ListGroupsRequest, OffsetCommitRequest, SyncGroupRequest,
    TopicName,
};
use support::group::{
    LOAD_IN_PROGRESS, Member, REBALANCE_IN_PROGRESS, commit, commit_request, committed, coordinator,
    describe, fetch_request,
};
use support::stops::StopAtEnd;
use support::topic::create;
use support::{Batch, Broker, Partition};

const QUICK: &str = "group.initial.rebalance.delay.ms=0";
const UNKNOWN_SERVER_ERROR: i16 = -1;
const GROUP_MAX_SIZE_REACHED: i16 = 81;
const NOT_AVAILABLE: i16 = 15;
const INVALID_PARTITIONS: i16 = 37;

/// Every member joins, and the leader's assignment comes to all: one generation, all in it.
fn settle(members: &mut [Member], assignment_bytes: usize) -> Vec<i16> {
    for member in &mut *members {
        member.send_join(5);
    }
    let mut generation = None;
    for member in &mut *members {
        let joined = member.receive_join(5);
        assert_eq!(joined.error_code, 0);
        assert_eq!(
            *generation.get_or_insert(joined.generation_id),
            joined.generation_id
        );
    }
    let text = "x".repeat(assignment_bytes);
    let ids: Vec<String> = members.iter().map(|member| member.id.clone()).collect();
    let assignments: Vec<(&str, &str)> = ids.iter().map(|id| (&**id, &*text)).collect();
    for (number, member) in members.iter_mut().enumerate() {
        let own: &[_] = if number == 0 { &assignments } else { &[] };
        let request = member.sync_request(3, own);
        member.client.send(3, &request).unwrap();
    }
    let synced = members.iter_mut().map(|member| {
        let (_, answer) = member.client.receive::<SyncGroupRequest>(3).unwrap();
        answer.error_code
    });
    synced.collect()
}

/// The first member is stable and leads; the others have learned their ids; then all are told to join.
fn gather(broker: &Broker, group: &str, count: usize) -> Vec<Member> {
    let mut members: Vec<Member> = (0..count).map(|_| Member::new(broker, group)).collect();
    members[0].join_alone();
    for member in &mut members[1..] {
        member.learn_id();
    }
    members
}

#[test]
fn a_hundred_members_settle_in_one_generation() {
    let broker = Broker::start_set(&[QUICK]);
    let mut members = gather(&broker, "g", 100);
    let codes = settle(&mut members, 10);
    assert!(codes.iter().all(|code| *code == 0));
    let described = describe(&mut members[0].client, "g");
    assert_eq!(
        (described.group_state.as_str(), described.members.len()),
        ("Stable", 100)
    );
    for member in &mut members {
        assert_eq!(member.heartbeat(), 0);
    }
}

/// Field report B21: a group whose record is larger than a batch may be is told so, and harms no other; with room for it, it is
/// stable, and so it is after a restart.
#[test]
fn a_group_whose_record_is_too_large_is_told_so() {
    for (limit, right) in [("1048588", UNKNOWN_SERVER_ERROR), ("10000000", 0)] {
        let limit_setting = format!("message.max.bytes={limit}");
        let mut broker = Broker::start_set(&[QUICK, "offsets.topic.num.partitions=1", &limit_setting]);
        create(&mut broker.client(), "t", 1, &[]);
        let mut members = gather(&broker, "large", 60);
        let codes = settle(&mut members, 30_000);
        // The leader, and whoever asked before the record was refused; a new rebalance has begun for those who asked later.
        let late = if right == 0 { 0 } else { REBALANCE_IN_PROGRESS };
        assert_eq!(codes[0], right, "{limit}");
        assert!(
            codes.iter().all(|code| [right, late].contains(code)),
            "{limit}: {codes:?}"
        );
        // The line says what was not appended: no OffsetCommit was asked for.
        let log = broker.log();
        let line = log.lines().find(|line| line.contains("MESSAGE_TOO_LARGE"));
        assert_eq!(line.is_some(), right != 0, "{log}");
        assert!(
            line.is_none_or(|line| line.contains("group members") && !line.contains("OffsetCommit")),
            "{log}"
        );
        let mut client = coordinator(&broker, "small");
        assert_eq!(commit(&mut client, "small", "t", 0, 5), 0);
        if right == 0 {
            assert_eq!(describe(&mut client, "large").group_state.as_str(), "Stable");
            broker.kill();
            broker.launch();
            assert_eq!(committed(&mut coordinator(&broker, "small"), "small", "t", 0), 5);
            let mut client = coordinator(&broker, "large");
            for member in &mut members {
                member.client = coordinator(&broker, "large");
                assert_eq!(member.heartbeat(), 0);
            }
            assert_eq!(describe(&mut client, "large").members.len(), 60);
        }
    }
}

/// `group.max.size` holds, for members that come together too.
#[test]
fn a_group_has_no_more_members_than_it_may() {
    let broker = Broker::start_set(&[QUICK, "group.max.size=3"]);
    let mut members = gather(&broker, "g", 3);
    assert!(settle(&mut members, 1).iter().all(|code| *code == 0));
    let mut late = Member::new(&broker, "g");
    late.send_join(5);
    let refused = late.receive_join(5);
    if refused.error_code == 79 {
        late.send_join(5);
        assert_eq!(late.receive_join(5).error_code, GROUP_MAX_SIZE_REACHED);
    } else {
        assert_eq!(refused.error_code, GROUP_MAX_SIZE_REACHED);
    }
}

/// The same as the report has it: three hundred members, each of which says 20 kB of itself.
#[test]
fn members_that_say_much_are_too_much_for_one_record_or_kept_through_a_restart() {
    for (limit, right) in [("1048588", UNKNOWN_SERVER_ERROR), ("10000000", 0)] {
        let limit_setting = format!("message.max.bytes={limit}");
        let mut broker = Broker::start_set(&[QUICK, "offsets.topic.num.partitions=1", &limit_setting]);
        create(&mut broker.client(), "t", 1, &[]);
        let mut members: Vec<Member> = (0..300).map(|_| Member::new(&broker, "large")).collect();
        for member in &mut members {
            member.topics = vec!["x".repeat(20_000)];
        }
        members[0].join_alone();
        for member in &mut members[1..] {
            member.learn_id();
        }
        assert_eq!(settle(&mut members, 1)[0], right, "{limit}");
        let mut client = coordinator(&broker, "small");
        assert_eq!(commit(&mut client, "small", "t", 0, 5), 0);
        if right == 0 {
            broker.kill();
            broker.launch();
            assert_eq!(committed(&mut coordinator(&broker, "small"), "small", "t", 0), 5);
            let mut client = coordinator(&broker, "large");
            let described = describe(&mut client, "large");
            assert_eq!(
                (described.group_state.as_str(), described.members.len()),
                ("Stable", 300)
            );
            for member in members.iter_mut().step_by(50) {
                member.client = coordinator(&broker, "large");
                assert_eq!(member.heartbeat(), 0);
            }
        }
    }
}

/// Field report B21: very many groups of one offset each are listed and described while records are produced beside them, and
/// are all there after a restart. STRANDLINE_GROUPS says how many, STRANDLINE_GROUPS_MEMORY what the node may take for them.
#[test]
fn thousands_of_groups_are_listed_and_loaded() {
    let of_environment =
        |name: &str, default: usize| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let count = of_environment("STRANDLINE_GROUPS", 5_000);
    let memory = of_environment("STRANDLINE_GROUPS_MEMORY", 64 << 20);
    let memory_setting = format!("strandline.memory.bytes={memory}");
    let mut broker = Broker::start_set(&[
        "offsets.topic.num.partitions=4",
        // A disk that others keep busy for seconds is not what this is about.
        "offsets.commit.timeout.ms=60000",
        &memory_setting,
    ]);
    create(&mut broker.client(), "t", 1, &[]);
    let groups: Vec<String> = (0..count).map(|number| format!("group-{number}")).collect();
    // Whoever creates the offsets topic waits until every shard serves it; who finds it just then may come too early (16).
    drop(coordinator(&broker, &groups[0]));
    const CLIENTS: usize = 8;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        // Also when an assertion fails: the producer would go on for ever.
        let ends = StopAtEnd(&done);
        scope.spawn(|| {
            let mut partition = Partition::find(&broker, "t", 0);
            while !done.load(Ordering::Relaxed) {
                partition.append(&Batch::of_values(["beside"]));
            }
        });
        let committing: Vec<_> = groups
            .chunks(count.div_ceil(CLIENTS))
            .map(|part| {
                let broker = &broker;
                scope.spawn(move || {
                    let mut client = coordinator(broker, &part[0]);
                    for (number, group) in part.iter().enumerate() {
                        assert_eq!(commit(&mut client, group, "t", 0, number as i64), 0);
                    }
                })
            })
            .collect();
        committing.into_iter().for_each(|thread| thread.join().unwrap());
        let mut client = coordinator(&broker, &groups[0]);
        for part in groups.chunks(1_000) {
            let named = part.iter().map(|group| support::group::group_id(group)).collect();
            let answer = client.call(6, &DescribeGroupsRequest::default().with_groups(named));
            assert!(
                answer
                    .groups
                    .iter()
                    .all(|group| group.group_state.as_str() == "Empty")
            );
            assert_eq!(answer.groups.len(), part.len());
        }
        drop(ends);
    });
    let listed = |broker: &Broker| loop {
        let answer = broker.client().call(5, &ListGroupsRequest::default());
        match answer.error_code {
            0 => break answer.groups.len(),
            LOAD_IN_PROGRESS => thread::yield_now(),
            code => panic!("{code}"),
        }
    };
    // Its memory, and what a node takes without any: the program, its threads and their rings.
    let bound = (memory as u64) + ((64 + 2) << 20);
    assert_eq!(listed(&broker), count);
    let before = broker.peak_resident_bytes();
    assert!(before < bound, "{before}");
    broker.kill();
    broker.launch();
    assert_eq!(listed(&broker), count);
    let mut client = coordinator(&broker, &groups[0]);
    for (number, group) in groups.iter().enumerate().step_by(97) {
        let right = (number % count.div_ceil(CLIENTS)) as i64;
        assert_eq!(committed(&mut client, group, "t", 0), right);
    }
    let after = broker.peak_resident_bytes();
    assert!(after < bound, "{after}");
    println!("groups: {count}, at most {before} bytes resident, {after} after a restart");
}

/// A shard's groups take a part of its memory and no more: what is new is refused, what is there goes on.
#[test]
fn groups_take_no_more_than_their_part_of_the_memory() {
    let broker = Broker::start_set(&[
        QUICK,
        "offsets.topic.num.partitions=1",
        "offset.metadata.max.bytes=30000",
    ]);
    create(&mut broker.client(), "t", 2_000, &[]);
    let mut member = Member::new(&broker, "g");
    member.join_alone();
    let mut named = Member::named(&broker, "static", "instance");
    named.join_alone();
    let mut client = coordinator(&broker, "simple");
    let note = "x".repeat(30_000);
    // 30 partitions a commit, 900 kB each; the shard has 64 MiB.
    let request = |first: i32| -> OffsetCommitRequest {
        let mut request = commit_request("simple", "t", 0, 1);
        request.topics[0].partitions = (first..first + 30)
            .map(|number| {
                OffsetCommitRequestPartition::default()
                    .with_partition_index(number)
                    .with_committed_offset(1)
                    .with_committed_metadata(Some(support::group::text(&note)))
            })
            .collect();
        request
    };
    let mut taken = 0;
    let refused = (0..2_000 / 30)
        .map(|number| number * 30)
        .find(|first| {
            let code = client.call(8, &request(*first)).topics[0].partitions[0].error_code;
            taken += usize::from(code == 0);
            code == NOT_AVAILABLE
        })
        .expect("a bound");
    assert!((20..60).contains(&taken), "{taken} commits of 900 kB");
    // What is there can be committed again, and members go on.
    assert_eq!(client.call(8, &request(0)).topics[0].partitions[0].error_code, 0);
    assert_eq!(committed(&mut client, "simple", "t", 0), 1);
    assert_eq!(member.heartbeat(), 0);
    assert_eq!(
        client.call(8, &request(refused)).topics[0].partitions[0].error_code,
        NOT_AVAILABLE
    );
    let mut late = Member::new(&broker, "other");
    late.send_join(5);
    assert_eq!(late.receive_join(5).error_code, GROUP_MAX_SIZE_REACHED);
    assert!(broker.log().contains("groups hold all the memory"));
    // A static member that comes back takes its own place; one that says more of itself than before has no room for that.
    let mut again = Member::named(&broker, "static", "instance");
    again.send_join(5);
    assert_eq!(again.receive_join(5).error_code, 0);
    again.topics = vec!["x".repeat(30_000); 20];
    again.send_join(5);
    assert_eq!(again.receive_join(5).error_code, NOT_AVAILABLE);
}

/// A small request must not ask for much: each of these would have taken gigabytes.
#[test]
fn what_is_too_much_is_refused_before_it_is_made() {
    let broker = Broker::start_set(&[QUICK, "offsets.topic.num.partitions=1"]);
    create(&mut broker.client(), "t", 1, &[]);
    let group = "g".repeat(32_000);
    let mut client = coordinator(&broker, &group);
    // One partition, very often, for a group of a long name.
    let mut request = commit_request(&group, "t", 0, 1);
    request.topics[0].partitions = vec![request.topics[0].partitions[0].clone(); 58_000];
    let answer = client.call(8, &request);
    let codes = answer.topics[0]
        .partitions
        .iter()
        .map(|partition| partition.error_code);
    assert!(codes.clone().all(|code| code == UNKNOWN_SERVER_ERROR));
    assert_eq!(codes.count(), 58_000);
    assert_eq!(commit(&mut client, &group, "t", 0, 7), 0);
    // The offset with a note, very often.
    let mut noted = commit_request("noted", "t", 0, 1);
    noted.topics[0].partitions[0].committed_metadata = Some(support::group::text(&"x".repeat(4_000)));
    assert_eq!(client.call(8, &noted).topics[0].partitions[0].error_code, 0);
    let answer = client.call(8, &fetch_request("noted", "t", &vec![0; 20_000]));
    assert_eq!(answer.groups[0].error_code, UNKNOWN_SERVER_ERROR);
    assert_eq!(committed(&mut client, "noted", "t", 0), 1);
    // A member that says more of itself than a record can hold.
    let mut member = Member::new(&broker, "g");
    member.topics = vec!["x".repeat(30_000); 40];
    member.send_join(5);
    assert_eq!(member.receive_join(5).error_code, UNKNOWN_SERVER_ERROR);
    assert!(
        broker.peak_resident_bytes() < (64 + 64 + 2) << 20,
        "{}",
        broker.peak_resident_bytes()
    );
}

/// A group is found by the number of partitions: another one would lose them all.
#[test]
fn the_offsets_topic_keeps_its_number_of_partitions() {
    let broker = Broker::start_set(&[QUICK, "offsets.topic.num.partitions=2"]);
    create(&mut broker.client(), "t", 1, &[]);
    let mut client = coordinator(&broker, "g");
    assert_eq!(commit(&mut client, "g", "t", 0, 7), 0);
    let topic = CreatePartitionsTopic::default()
        .with_name(TopicName(support::group::text("__consumer_offsets")))
        .with_count(5);
    let request = CreatePartitionsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(10_000);
    let answer = broker.client().call(3, &request);
    assert_eq!(answer.results[0].error_code, INVALID_PARTITIONS);
    assert_eq!(committed(&mut coordinator(&broker, "g"), "g", "t", 0), 7);
}
