//! KIP-345: static members.

use super::bench::*;
use crate::group::classic::*;

fn sync_of(bench: &mut Bench, member: &Known, instance: &str) -> Ticket {
    bench.sync(static_identity(&member.id, instance, member.generation), &[])
}

#[test]
fn a_static_member_joins_at_once_with_an_id_made_of_its_instance_id() {
    let mut bench = Bench::new();
    let ticket = bench.join(Join::new().instance("one"));
    assert!(bench.waits(ticket));
    bench.pass(3_000);
    assert_eq!(
        bench.joined(ticket).id,
        "one-00000000-0000-0000-0000-000000000001"
    );
}

#[test]
fn a_static_member_that_comes_back_to_a_stable_group_causes_no_rebalance() {
    let mut bench = Bench::new();
    let members = bench.stable_static(&["one", "two"]);
    let ticket = bench.join(Join::new().instance("two"));
    assert!(bench.waits(ticket), "its new id is not durable yet");
    let record = bench.persisted(Ok(()));
    let back = bench.joined(ticket);
    assert_eq!(back.generation, 1);
    assert_ne!(back.id, members[1].id);
    assert_eq!(&*record.members[1].member_id, &*back.id);
    assert_eq!(record.members[1].assignment, members[1].id);
    assert_eq!(&*bench.join_answer(ticket).leader, &*members[0].id);
    assert_eq!(bench.group.state(), GroupState::Stable);

    let sync = sync_of(&mut bench, &back, "two");
    assert_eq!(
        bench.synced(sync),
        Ok(&*members[1].id),
        "the assignment of the one before"
    );
    assert_eq!(
        bench.heartbeat(&static_identity(&members[0].id, "one", 1)),
        ErrorCode::None
    );
}

#[test]
fn the_one_before_is_fenced_in_whatever_it_does() {
    let mut bench = Bench::new();
    let members = bench.stable_static(&["one", "two"]);
    bench.join(Join::new().instance("two"));
    bench.persist_all();
    let old = static_identity(&members[1].id, "two", 1);
    assert_eq!(bench.heartbeat(&old), ErrorCode::FencedInstanceId);
    let commit = bench.group.commit(&old, false, bench.now_ms);
    assert_eq!(commit, Err(ErrorCode::FencedInstanceId));
    let sync = bench.sync(old, &[]);
    assert_eq!(bench.synced(sync), Err(ErrorCode::FencedInstanceId));
    let join = bench.join(Join::new().id(&members[1].id).instance("two"));
    assert_eq!(bench.join_error(join), ErrorCode::FencedInstanceId);
    let leave = bench.leave(&[leaving_static(&members[1].id, "two")]);
    assert_eq!(bench.left(leave).1, [ErrorCode::FencedInstanceId]);
    assert_eq!(bench.group.state(), GroupState::Stable);
    // Without the instance id the old member id is just unknown, and so is an instance that never joined.
    assert_eq!(
        bench.heartbeat(&identity(&members[1].id, 1)),
        ErrorCode::UnknownMemberId
    );
    let stranger = static_identity(&members[0].id, "three", 1);
    assert_eq!(bench.heartbeat(&stranger), ErrorCode::UnknownMemberId);
}

#[test]
fn parked_requests_of_the_one_before_are_fenced() {
    let mut bench = Bench::new();
    let first = bench.join(Join::new().instance("one"));
    let second = bench.join(Join::new().instance("one"));
    assert_eq!(bench.join_error(first), ErrorCode::FencedInstanceId);
    bench.pass(3_000);
    let member = bench.joined(second);
    assert_eq!(bench.group.len(), 1);
    let sync = sync_of(&mut bench, &member, "one");
    assert!(bench.waits(sync));
    let third = bench.join(Join::new().instance("one"));
    assert_eq!(bench.synced(sync), Err(ErrorCode::FencedInstanceId));
    // The leader may have assigned to the old id: so again from the start.
    assert_eq!(bench.joined(third).generation, 2);
}

/// KIP-814: the leader that comes back leads, but is not to assign, since nobody would get that assignment.
#[test]
fn a_leader_that_comes_back_is_told_to_skip_the_assignment() {
    let mut bench = Bench::new();
    let members = bench.stable_static(&["one", "two"]);
    let ticket = bench.join(Join::new().instance("one"));
    bench.persist_all();
    let answer = bench.join_answer(ticket).clone();
    assert!(answer.skip_assignment);
    assert_eq!(answer.leader, answer.member_id);
    assert_eq!(answer.members.len(), 2);

    // An older client is told of the old leader, so that it does not think to be it.
    let ticket = bench.join(Join::new().version(8).instance("one"));
    bench.persist_all();
    let older = bench.join_answer(ticket);
    assert!(!older.skip_assignment && older.members.is_empty());
    assert_eq!(older.leader, answer.member_id);
    assert_ne!(older.leader, older.member_id);
    assert_ne!(&*older.member_id, &*members[0].id);
    assert_eq!(bench.group.state(), GroupState::Stable);

    // As a follower it gets no members and skips nothing.
    let ticket = bench.join(Join::new().instance("two"));
    bench.persist_all();
    let follower = bench.join_answer(ticket);
    assert!(!follower.skip_assignment && follower.members.is_empty());
}

#[test]
fn a_change_of_the_chosen_protocol_causes_a_rebalance() {
    let mut bench = Bench::new();
    let both = |instance| {
        Join::new()
            .instance(instance)
            .protocols(&[("range", ""), ("sticky", "")])
    };
    let tickets = [bench.join(both("one")), bench.join(both("two"))];
    bench.pass(6_000);
    let members = tickets.map(|ticket| bench.joined(ticket));
    bench.sync_all(&members);
    // Only `sticky` is left in common.
    let ticket = bench.join(Join::new().instance("two").protocols(&[("sticky", "")]));
    assert!(bench.waits(ticket) && bench.records.is_empty());
    assert_eq!(bench.group.state(), GroupState::PreparingRebalance);
    let other = bench.join(both("one").id(&members[0].id));
    assert_eq!(bench.join_answer(other).protocol_name.as_deref(), Some("sticky"));
    assert_eq!(bench.joined(ticket).generation, 2);
}

#[test]
fn a_known_static_member_with_other_metadata_causes_a_rebalance() {
    let mut bench = Bench::new();
    let members = bench.stable_static(&["one", "two"]);
    let changed = Join::new()
        .instance("two")
        .id(&members[1].id)
        .protocols(&[("range", "other")]);
    let ticket = bench.join(changed);
    assert!(bench.waits(ticket));
    assert_eq!(bench.group.state(), GroupState::PreparingRebalance);
}

#[test]
fn a_new_id_that_cannot_be_persisted_is_taken_back() {
    let mut bench = Bench::new();
    let members = bench.stable_static(&["one", "two"]);
    let ticket = bench.join(Join::new().instance("two").session(7_000));
    bench.pass_alive(20_000, &members[..1]);
    bench.persisted(Err(ErrorCode::NotEnoughReplicas));
    assert_eq!(bench.join_error(ticket), ErrorCode::CoordinatorNotAvailable);
    let old = static_identity(&members[1].id, "two", 1);
    let commit = bench.group.commit(&old, true, bench.now_ms);
    assert_eq!(commit, Ok(()), "it is the member again");
    // With the session timeout that it had before.
    bench.pass_alive(9_000, &members[..1]);
    assert_eq!(bench.group.len(), 2);
    bench.pass_alive(1_000, &members[..1]);
    assert_eq!(bench.group.len(), 1);
}

#[test]
fn a_rebalance_takes_the_waiting_join_of_one_that_came_back_with_it() {
    for result in [Ok(()), Err(ErrorCode::NotEnoughReplicas)] {
        let mut bench = Bench::new();
        let members = bench.stable_static(&["one", "two"]);
        let back = bench.join(Join::new().instance("two"));
        let leader = bench.join(Join::new().instance("one").id(&members[0].id));
        // All have joined, so the next generation begins before the record's fate is known.
        assert_eq!(bench.joined(back).generation, 2);
        bench.persisted(result);
        let rejoined = [bench.joined(leader), bench.joined(back)];
        bench.sync_all(&rejoined);
    }
}

#[test]
fn a_rebalance_takes_those_with_it_whose_record_was_not_even_begun() {
    let mut bench = Bench::new();
    let members = bench.stable_static(&["one", "two", "three"]);
    let back = ["two", "three"].map(|instance| bench.join(Join::new().instance(instance)));
    let leader = bench.join(Join::new().instance("one").id(&members[0].id));
    let rejoined = [leader, back[0], back[1]].map(|ticket| bench.joined(ticket));
    assert!(rejoined.iter().all(|member| member.generation == 2));
    bench.persisted(Ok(()));
    assert!(bench.records.is_empty());
    bench.sync_all(&rejoined);
}

#[test]
fn one_that_comes_back_twice_in_a_row_is_answered_once_each() {
    let mut bench = Bench::new();
    bench.stable_static(&["one", "two"]);
    let first = bench.join(Join::new().instance("two"));
    let second = bench.join(Join::new().instance("two"));
    assert_eq!(bench.join_error(first), ErrorCode::FencedInstanceId);
    bench.persisted(Ok(()));
    assert!(bench.waits(second), "the record under way has the id before");
    bench.persisted(Ok(()));
    bench.joined(second);
    assert_eq!(bench.group.len(), 2);
}

/// A record holds the whole group; a large group of static members that restarts must not write one for each.
#[test]
fn those_that_come_back_while_a_record_is_written_share_the_next_one() {
    let mut bench = Bench::new();
    bench.stable_static(&["one", "two", "three", "four"]);
    let tickets = ["one", "two", "three", "four"].map(|instance| bench.join(Join::new().instance(instance)));
    assert_eq!(bench.records.len(), 1);
    bench.persisted(Ok(()));
    bench.joined(tickets[0]);
    assert!(tickets[1..].iter().all(|ticket| bench.waits(*ticket)));
    assert_eq!(bench.records.len(), 1);
    let again = bench.join(Join::new().instance("four"));
    assert_eq!(bench.join_error(tickets[3]), ErrorCode::FencedInstanceId);
    let record = bench.persisted(Err(ErrorCode::NotEnoughReplicas));
    for ticket in &tickets[1..3] {
        assert_eq!(bench.join_error(*ticket), ErrorCode::CoordinatorNotAvailable);
    }
    assert!(bench.waits(again));
    assert_eq!(record.members.len(), 4);
    bench.persist_all();
    assert_eq!(bench.joined(again).generation, 1);
    assert_eq!(bench.group.state(), GroupState::Stable);
    let record = bench.group.current_record();
    assert_eq!(&*record.members[3].member_id, &*bench.joined(again).id);
}

#[test]
fn one_that_came_back_is_watched_from_its_answer_on() {
    let mut bench = Bench::new();
    let members = bench.stable_static(&["one", "two"]);
    let ticket = bench.join(Join::new().instance("two"));
    bench.pass_alive(30_000, &members[..1]);
    bench.persisted(Ok(()));
    bench.joined(ticket);
    bench.pass_alive(10_000, &members[..1]);
    assert_eq!(bench.group.len(), 1);
}

#[test]
fn a_static_member_that_does_not_rejoin_keeps_its_seat_until_its_session_ends() {
    let mut bench = Bench::new();
    let join = |instance| Join::new().instance(instance).session(100_000).rebalance(20_000);
    let tickets = [bench.join(join("one")), bench.join(join("two"))];
    bench.pass(6_000);
    let members = tickets.map(|ticket| bench.joined(ticket));
    bench.sync_all(&members);
    let leader = bench.join(join("one").id(&members[0].id));
    bench.pass(20_000);
    let leader = bench.joined(leader);
    assert_eq!((leader.generation, bench.group.len()), (2, 2));
    // It is assigned to, and has to sync in time.
    bench.sync(
        static_identity(&leader.id, "one", 2),
        &[(&members[1].id, "for the absent")],
    );
    bench.persist_all();
    bench.pass(20_000);
    assert_eq!(bench.group.state(), GroupState::PreparingRebalance);
    assert_eq!(bench.group.len(), 1);
}

#[test]
fn a_rebalance_that_only_absent_static_members_are_left_of_ends_with_their_sessions() {
    let mut bench = Bench::new();
    let join = |instance| Join::new().instance(instance).session(30_000).rebalance(5_000);
    let tickets = [bench.join(join("one")), bench.join(join("two"))];
    bench.pass(6_000);
    let members = tickets.map(|ticket| bench.joined(ticket));
    bench.sync_all(&members);
    bench.pass(1_000);
    let new = bench.join(Join::new().version(3).rebalance(5_000));
    assert!(bench.waits(new));
    // The new member's client goes: its join is answered when nobody else comes.
    bench.pass(5_000);
    let new = bench.joined(new);
    assert_eq!(bench.group.len(), 3);
    bench.leave(&[leaving(&new.id)]);
    assert_eq!(bench.group.state(), GroupState::PreparingRebalance);
    bench.pass(40_000);
    assert_eq!(bench.group.state(), GroupState::Empty);
}

#[test]
fn a_rebalance_that_nobody_joins_is_not_looked_at_all_the_time() {
    let mut bench = Bench::new();
    let join = |instance| Join::new().instance(instance).session(30_000).rebalance(1);
    let tickets = [bench.join(join("one")), bench.join(join("two"))];
    bench.pass(3_000);
    let members = tickets.map(|ticket| bench.joined(ticket));
    bench.sync_all(&members);
    bench.leave(&[leaving_static("", "two")]);
    assert_eq!(bench.group.state(), GroupState::PreparingRebalance);
    bench.pass(1);
    assert_eq!(bench.group.deadline_ms(), Some(bench.now_ms + 1_000));
    let rejoined = bench.join(join("one").id(&members[0].id));
    assert_eq!(bench.joined(rejoined).generation, 2);
}

#[test]
fn an_operator_removes_a_static_member_by_its_instance_id() {
    let mut bench = Bench::new();
    let members = bench.stable_static(&["one", "two"]);
    let ticket = bench.leave(&[
        leaving_static("", "two"),
        leaving_static("", "three"),
        leaving(""),
    ]);
    let unknown = ErrorCode::UnknownMemberId;
    assert_eq!(
        bench.left(ticket),
        (ErrorCode::None, vec![ErrorCode::None, unknown, unknown])
    );
    assert_eq!(bench.group.state(), GroupState::PreparingRebalance);
    assert_eq!(
        bench.heartbeat(&static_identity(&members[1].id, "two", 1)),
        unknown
    );
}

#[test]
fn an_instance_id_of_a_member_that_left_is_free_again() {
    let mut bench = Bench::without_delay();
    let members = bench.stable_static(&["one"]);
    bench.leave(&[leaving_static(&members[0].id, "one")]);
    bench.persist_all();
    let ticket = bench.join(Join::new().instance("one"));
    assert_eq!(bench.joined(ticket).generation, 3);
}
