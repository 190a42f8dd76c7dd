use super::bench::*;
use crate::group::classic::*;

#[test]
fn the_first_rebalance_waits_for_more_members_and_longer_while_they_come() {
    let mut bench = Bench::new();
    let first = bench.join(Join::new().version(3).rebalance(8_000));
    bench.pass(2_900);
    let second = bench.join(Join::new().version(3).rebalance(8_000));
    bench.pass(3_000);
    assert!(bench.waits(first));
    let third = bench.join(Join::new().version(3).rebalance(8_000));
    // 3 s, 3 s and the 2 s that are left of the rebalance timeout of 8 s.
    bench.pass(2_099);
    assert!(bench.waits(first));
    let fourth = bench.join(Join::new().version(3).rebalance(8_000));
    bench.pass(1);
    for ticket in [first, second, third, fourth] {
        assert_eq!(bench.joined(ticket).generation, 1);
    }
    assert_eq!(bench.join_answer(first).members.len(), 4);
}

#[test]
fn the_first_rebalance_is_not_delayed_when_nobody_else_comes() {
    let mut bench = Bench::new();
    let ticket = bench.join(Join::new().version(3));
    bench.pass(2_999);
    assert!(bench.waits(ticket));
    bench.pass(1);
    bench.joined(ticket);
}

#[test]
fn without_an_initial_delay_the_first_member_joins_at_once() {
    let mut bench = Bench::without_delay();
    let ticket = bench.join(Join::new().version(3));
    assert_eq!(bench.joined(ticket).generation, 1);
    assert_eq!(bench.group.state(), GroupState::CompletingRebalance);
}

#[test]
fn everyone_is_told_of_a_rebalance_by_the_heartbeat_and_may_still_commit() {
    let mut bench = Bench::new();
    let members = bench.stable(2);
    bench.join(Join::new().version(3));
    assert_eq!(bench.group.state(), GroupState::PreparingRebalance);
    for member in &members {
        let member = identity(&member.id, member.generation);
        assert_eq!(bench.heartbeat(&member), ErrorCode::RebalanceInProgress);
        assert_eq!(bench.group.commit(&member, false, bench.now_ms), Ok(()));
        let sync = bench.sync(member, &[]);
        assert_eq!(bench.synced(sync), Err(ErrorCode::RebalanceInProgress));
    }
}

#[test]
fn a_rebalance_completes_as_soon_as_all_have_rejoined() {
    let mut bench = Bench::new();
    let members = bench.stable(2);
    let new = bench.join(Join::new().version(3));
    let first = bench.join(Join::new().id(&members[0].id));
    assert!(bench.waits(new) && bench.waits(first));
    let second = bench.join(Join::new().id(&members[1].id));
    for ticket in [new, first, second] {
        assert_eq!(bench.joined(ticket).generation, 2);
    }
    assert_eq!(bench.join_answer(first).members.len(), 3);
    assert_eq!(
        bench.heartbeat(&identity(&members[0].id, 1)),
        ErrorCode::IllegalGeneration
    );
    assert_eq!(bench.heartbeat(&identity(&members[0].id, 2)), ErrorCode::None);
}

#[test]
fn a_rebalance_waits_for_those_that_were_told_their_id() {
    let mut bench = Bench::without_delay();
    let members = bench.stable(1);
    let asked = bench.join(Join::new());
    let id = bench.join_answer(asked).member_id.clone();
    let rejoined = bench.join(Join::new().id(&members[0].id));
    assert!(bench.waits(rejoined));
    bench.join(Join::new().id(&id));
    assert_eq!(bench.joined(rejoined).generation, 2);
}

#[test]
fn the_rebalance_timeout_is_the_longest_of_the_members() {
    let mut bench = Bench::new();
    let tickets = [20_000, 30_000, 10_000].map(|timeout_ms| {
        let join = Join::new().version(3).session(60_000).rebalance(timeout_ms);
        bench.join(join)
    });
    bench.pass(9_000);
    let members = tickets.map(|ticket| bench.joined(ticket));
    bench.sync_all(&members);
    let leader = bench.join(Join::new().id(&members[0].id).session(60_000).rebalance(20_000));
    bench.pass(29_999);
    assert!(bench.waits(leader));
    bench.pass(1);
    assert_eq!(bench.joined(leader).generation, 2);
    // Those that have not rejoined are out.
    assert_eq!(bench.join_answer(leader).members.len(), 1);
    assert_eq!(bench.group.len(), 1);
    let late = bench.join(Join::new().id(&members[1].id));
    assert_eq!(bench.join_error(late), ErrorCode::UnknownMemberId);
}

#[test]
fn another_leads_when_the_leader_does_not_rejoin() {
    let mut bench = Bench::new();
    let members = bench.stable(3);
    bench.join(Join::new().version(3));
    let second = bench.join(Join::new().id(&members[1].id));
    bench.pass_alive(60_000, &members);
    let answer = bench.join_answer(second);
    assert_eq!(&*answer.leader, &*members[1].id);
    assert_eq!(answer.members.len(), 2);
}

#[test]
fn a_silent_member_is_dropped_after_its_session_timeout() {
    let mut bench = Bench::new();
    let members = bench.stable(2);
    bench.pass(9_000);
    assert_eq!(bench.heartbeat(&identity(&members[0].id, 1)), ErrorCode::None);
    bench.pass(999);
    assert_eq!(bench.group.state(), GroupState::Stable);
    bench.pass(1);
    assert_eq!(bench.group.state(), GroupState::PreparingRebalance);
    assert_eq!(bench.group.len(), 1);
    assert_eq!(
        bench.heartbeat(&identity(&members[1].id, 1)),
        ErrorCode::UnknownMemberId
    );
    let rejoined = bench.join(Join::new().id(&members[0].id));
    assert_eq!(bench.joined(rejoined).generation, 2);
}

#[test]
fn the_last_member_dying_leaves_an_empty_group_with_a_record_of_it() {
    let mut bench = Bench::new();
    bench.stable(1);
    bench.pass(10_000);
    assert_eq!(bench.group.state(), GroupState::Empty);
    assert_eq!(bench.group.generation(), 2);
    assert!(!bench.group.is_idle(), "its record is not durable yet");
    let emptied_ms = bench.now_ms;
    let record = bench.persisted(Ok(()));
    assert!(bench.group.is_idle() && bench.group.has_record());
    assert_eq!(
        record,
        GroupRecord {
            protocol_type: Some("consumer".into()),
            generation: 2,
            protocol_name: None,
            leader: None,
            state_since_ms: Some(emptied_ms),
            members: Vec::new(),
        }
    );
    assert_eq!(bench.group.offset_expiry(), OffsetExpiry::Since(emptied_ms));
}

/// Nobody sees a client go away whose join waits, so a new member that is never heard of again must not stay.
#[test]
fn a_new_member_whose_join_waits_too_long_is_dropped() {
    let mut bench = Bench::new();
    let join = || Join::new().session(1_800_000).rebalance(1_800_000);
    let (_, ticket) = bench.join_dynamic(join);
    bench.pass(4_000);
    let member = bench.joined(ticket);
    bench.sync_all(std::slice::from_ref(&member));
    let ghost = bench.join(join().version(3));
    bench.pass(5 * 60_000 - 1);
    assert!(bench.waits(ghost));
    bench.pass(1);
    assert_eq!(bench.join_error(ghost), ErrorCode::UnknownMemberId);
    assert_eq!(bench.group.len(), 1);
}

#[test]
fn members_that_wait_to_rejoin_need_no_heartbeats() {
    let mut bench = Bench::new();
    let members = bench.stable(2);
    let rejoined = bench.join(Join::new().id(&members[0].id));
    bench.pass_alive(59_000, &members[1..]);
    assert!(bench.waits(rejoined));
    let other = bench.join(Join::new().id(&members[1].id));
    assert_eq!(bench.joined(rejoined).generation, 2);
    // From its answer on it has a session again.
    bench.pass_alive(9_000, &[bench.joined(other)]);
    assert_eq!(bench.group.len(), 2);
    bench.pass_alive(1_000, &[bench.joined(other)]);
    assert_eq!(bench.group.len(), 1);
}

#[test]
fn a_follower_that_rejoins_unchanged_gets_the_current_generation() {
    let mut bench = Bench::new();
    let members = bench.stable(2);
    let ticket = bench.join(Join::new().id(&members[1].id));
    let answer = bench.join_answer(ticket);
    assert_eq!((answer.error, answer.generation), (ErrorCode::None, 1));
    assert_eq!(&*answer.leader, &*members[0].id);
    let sync = bench.sync(identity(&members[1].id, 1), &[]);
    assert_eq!(bench.synced(sync), Ok(&*members[1].id));
    assert_eq!(bench.group.state(), GroupState::Stable);
}

#[test]
fn other_metadata_or_the_leader_rejoining_starts_a_rebalance() {
    let mut bench = Bench::new();
    let members = bench.stable(2);
    let changed = Join::new().id(&members[1].id).protocols(&[("range", "other")]);
    let ticket = bench.join(changed);
    assert!(bench.waits(ticket));
    assert_eq!(bench.group.state(), GroupState::PreparingRebalance);
    let leader = bench.join(Join::new().id(&members[0].id));
    let rejoined = [bench.joined(leader), bench.joined(ticket)];
    bench.sync_all(&rejoined);
    let leader = bench.join(Join::new().id(&members[0].id));
    assert!(bench.waits(leader));
    assert_eq!(bench.group.state(), GroupState::PreparingRebalance);
}

/// A lost answer is asked for again.
#[test]
fn before_the_assignment_an_unchanged_member_gets_the_same_answer_again() {
    let mut bench = Bench::new();
    let (leader_id, leader) = bench.join_dynamic(Join::new);
    let (follower_id, follower) = bench.join_dynamic(Join::new);
    bench.pass(6_000);
    for (id, ticket) in [(leader_id, leader), (follower_id, follower)] {
        let again = bench.join(Join::new().id(&id));
        assert_eq!(bench.join_answer(again), bench.join_answer(ticket));
    }
    assert_eq!(bench.group.state(), GroupState::CompletingRebalance);
}

#[test]
fn before_the_assignment_other_metadata_starts_over_and_parked_syncs_learn_of_it() {
    let mut bench = Bench::new();
    let members = bench.stable(2);
    let leader = bench.join(Join::new().id(&members[0].id));
    let follower = bench.join(Join::new().id(&members[1].id));
    let generation = bench.joined(follower).generation;
    let sync = bench.sync(identity(&members[1].id, generation), &[]);
    assert!(bench.waits(sync));
    bench.joined(leader);
    bench.join(Join::new().id(&members[0].id).protocols(&[("range", "other")]));
    assert_eq!(bench.synced(sync), Err(ErrorCode::RebalanceInProgress));
    assert_eq!(bench.group.state(), GroupState::PreparingRebalance);
}

/// KIP-429: in a cooperative rebalance members rejoin at once, with what they own in their metadata; to the
/// coordinator that is one rebalance after another.
#[test]
fn cooperative_members_rebalance_twice_and_their_metadata_passes_through() {
    let mut bench = Bench::without_delay();
    let owns = |what: &'static str| move || Join::new().protocols(&[("cooperative-sticky", what)]);
    let (first_id, ticket) = bench.join_dynamic(owns("owns nothing"));
    let first = bench.joined(ticket);
    bench.sync_all(std::slice::from_ref(&first));
    let (second_id, second) = bench.join_dynamic(owns("owns nothing"));
    let first = bench.join(owns("owns a b")().id(&first_id));
    let metadata: Vec<_> = bench
        .join_answer(first)
        .members
        .iter()
        .map(|m| m.metadata.clone())
        .collect();
    assert_eq!(metadata, ["owns a b", "owns nothing"]);
    let known = [bench.joined(first), bench.joined(second)];
    bench.sync_all(&known);
    // The first one gave up b and rejoins.
    let first = bench.join(owns("owns a")().id(&first_id));
    assert_eq!(
        bench.heartbeat(&identity(&second_id, 2)),
        ErrorCode::RebalanceInProgress
    );
    bench.join(owns("owns nothing")().id(&second_id));
    assert_eq!(bench.joined(first).generation, 3);
}

#[test]
fn generations_never_end() {
    let mut bench = Bench::without_delay();
    let members = bench.stable(1);
    let mut record = bench.group.current_record();
    record.generation = i32::MAX;
    bench.restart(&record);
    let ticket = bench.join(Join::new().id(&members[0].id));
    assert_eq!(bench.joined(ticket).generation, 1);
}
