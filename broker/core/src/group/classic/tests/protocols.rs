use super::bench::*;
use crate::group::classic::*;

fn consumer_metadata(topics: &[&str]) -> String {
    let mut bytes = vec![0, 1];
    bytes.extend((topics.len() as i32).to_be_bytes());
    for topic in topics {
        bytes.extend((topic.len() as i16).to_be_bytes());
        bytes.extend(topic.as_bytes());
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_member_of_another_kind_or_without_a_common_protocol_is_refused() {
    let mut bench = Bench::new();
    let refused = |bench: &mut Bench, join: Join| {
        let ticket = bench.join(join);
        assert_eq!(bench.join_error(ticket), ErrorCode::InconsistentGroupProtocol);
    };
    refused(&mut bench, Join::new().kind(""));
    refused(&mut bench, Join::new().protocols(&[]));
    let members = bench.stable(1);
    refused(&mut bench, Join::new().kind("connect"));
    refused(&mut bench, Join::new().protocols(&[("sticky", "")]));
    refused(&mut bench, Join::new().protocols(&[]));
    refused(
        &mut bench,
        Join::new().id(&members[0].id).protocols(&[("sticky", "")]),
    );
    assert_eq!(bench.group.state(), GroupState::Stable);
}

#[test]
fn the_protocol_that_all_have_and_most_prefer_is_chosen() {
    let mut bench = Bench::new();
    let a = Join::new()
        .version(3)
        .protocols(&[("range", ""), ("sticky", ""), ("own", "")]);
    let b = Join::new().version(3).protocols(&[("sticky", ""), ("range", "")]);
    let c = Join::new()
        .version(3)
        .protocols(&[("other", ""), ("sticky", ""), ("range", "")]);
    let ticket = bench.join(a);
    bench.join(b);
    bench.join(c);
    bench.pass(10_000);
    assert_eq!(bench.join_answer(ticket).protocol_name.as_deref(), Some("sticky"));
}

#[test]
fn between_equal_votes_the_longest_standing_member_decides() {
    for (first, second) in [("range", "sticky"), ("sticky", "range")] {
        let mut bench = Bench::new();
        let ticket = bench.join(Join::new().version(3).protocols(&[(first, ""), (second, "")]));
        bench.join(Join::new().version(3).protocols(&[(second, ""), (first, "")]));
        bench.pass(10_000);
        assert_eq!(bench.join_answer(ticket).protocol_name.as_deref(), Some(first));
    }
}

#[test]
fn the_leader_gets_every_members_metadata_of_the_chosen_protocol() {
    let mut bench = Bench::new();
    let leader = bench.join(
        Join::new()
            .version(3)
            .protocols(&[("a", "leader-a"), ("b", "leader-b")]),
    );
    let follower = bench.join(
        Join::new()
            .version(5)
            .instance("i")
            .protocols(&[("b", "follower-b"), ("a", "follower-a")]),
    );
    bench.pass(10_000);
    let answer = bench.join_answer(leader).clone();
    assert_eq!(answer.leader, answer.member_id);
    let members: Vec<_> = answer
        .members
        .iter()
        .map(|member| (member.instance_id.as_deref(), &member.metadata[..]))
        .collect();
    assert_eq!(
        members,
        [(None, &b"leader-a"[..]), (Some("i"), &b"follower-a"[..])]
    );
    let follower = bench.join_answer(follower);
    assert_eq!(follower.leader, answer.leader);
    assert!(follower.members.is_empty());
    assert!(!answer.skip_assignment);
}

#[test]
fn of_protocols_with_one_name_the_first_counts() {
    let mut bench = Bench::new();
    let ticket = bench.join(
        Join::new()
            .version(3)
            .protocols(&[("a", "first"), ("a", "second")]),
    );
    bench.join(Join::new().version(3).protocols(&[("a", "")]));
    bench.pass(10_000);
    assert_eq!(&bench.join_answer(ticket).members[0].metadata[..], b"first");
}

#[test]
fn an_empty_group_may_change_its_kind() {
    let mut bench = Bench::without_delay();
    let members = bench.stable(1);
    bench.leave(&[leaving(&members[0].id)]);
    bench.persist_all();
    assert_eq!(bench.group.protocol_type().map(|kind| &**kind), Some("consumer"));
    bench.join(
        Join::new()
            .version(3)
            .kind("connect")
            .protocols(&[("compatible", "")]),
    );
    assert_eq!(bench.group.protocol_type().map(|kind| &**kind), Some("connect"));
}

/// KIP-211: offsets of subscribed topics neither expire nor may be deleted.
#[test]
fn the_subscribed_topics_are_those_of_the_generation() {
    let mut bench = Bench::without_delay();
    assert!(!bench.group.is_subscribed_to("a"));
    let (a, b) = (consumer_metadata(&["a"]), consumer_metadata(&["b", "c"]));
    let first = bench.join(Join::new().version(3).protocols(&[("range", &a)]));
    let first = bench.joined(first);
    assert!(bench.group.is_subscribed_to("a"));
    bench.join(Join::new().version(3).protocols(&[("range", &b)]));
    assert!(
        !bench.group.is_subscribed_to("b"),
        "not before the next generation"
    );
    bench.join(Join::new().version(3).id(&first.id).protocols(&[("range", &a)]));
    assert!(
        ["a", "b", "c"]
            .iter()
            .all(|topic| bench.group.is_subscribed_to(topic))
    );
    assert!(!bench.group.is_subscribed_to("d"));
}

#[test]
fn a_group_whose_metadata_cannot_be_read_counts_as_subscribed_to_every_topic() {
    let mut bench = Bench::new();
    let members = bench.stable(1);
    assert!(bench.group.is_subscribed_to("anything"));
    assert_eq!(bench.group.offset_expiry(), OffsetExpiry::Never);
    bench.leave(&[leaving(&members[0].id)]);
    assert!(!bench.group.is_subscribed_to("anything"));
}

#[test]
fn groups_of_other_kinds_are_subscribed_to_nothing() {
    let mut bench = Bench::new();
    bench.join(Join::new().version(3).kind("connect"));
    bench.pass(3_000);
    assert!(!bench.group.is_subscribed_to("anything"));
}
