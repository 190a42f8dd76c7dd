//! What users of other brokers hit.

use super::bench::*;
use crate::group::classic::*;

/// The group stuck in PreparingRebalance when its last member died while another had only asked for an id.
#[test]
fn the_last_member_dying_while_another_never_joins_leaves_a_group_that_works() {
    let mut bench = Bench::new();
    let (_, first) = bench.join_dynamic(|| Join::new().version(4).session(6_000));
    bench.pass(3_000);
    let first = bench.joined(first);
    bench.sync_all(&[first]);
    let ghost = bench.join(Join::new().version(4).session(6_000));
    assert_eq!(bench.join_error(ghost), ErrorCode::MemberIdRequired);
    bench.pass(7_000);
    assert_eq!(bench.group.state(), GroupState::Empty);
    assert_eq!(bench.group.generation(), 2);
    bench.persist_all();
    let (_, new) = bench.join_dynamic(|| Join::new().version(4).session(6_000));
    bench.pass(4_000);
    assert_eq!(bench.joined(new).generation, 3);
}

/// The same when the other asked for its id just before the last member died, and its id lives on.
#[test]
fn the_last_member_dying_before_a_young_pending_one_leaves_a_group_that_works() {
    let mut bench = Bench::new();
    let (_, first) = bench.join_dynamic(|| Join::new().session(6_000));
    bench.pass(3_000);
    let first = bench.joined(first);
    bench.sync_all(&[first]);
    bench.pass(5_000);
    bench.join(Join::new().session(1_800_000));
    bench.pass(1_000);
    assert_eq!(bench.group.state(), GroupState::Empty);
    let (_, new) = bench.join_dynamic(Join::new);
    bench.pass(4_000);
    bench.joined(new);
}

/// Members without a rebalance timeout evicted each other for ever.
#[test]
fn version_0_has_the_session_timeout_for_a_rebalance_timeout() {
    for (version, timeout_ms) in [(0, -1), (0, 0), (1, 0), (9, -1)] {
        let mut bench = Bench::new();
        let join = || Join::new().version(version).session(10_000).rebalance(timeout_ms);
        let mut tickets = Vec::new();
        for _ in 0..3 {
            let ticket = bench.join(join());
            if bench.waits(ticket) {
                tickets.push(ticket);
            } else {
                let id = bench.join_answer(ticket).member_id.clone();
                tickets.push(bench.join(join().id(&id)));
            }
        }
        bench.pass(10_000);
        let members: Vec<_> = tickets.iter().map(|ticket| bench.joined(*ticket)).collect();
        assert!(members.iter().all(|member| member.generation == 1));
        bench.sync_all(&members);
        bench.pass_alive(100_000, &members);
        assert_eq!((bench.group.generation(), bench.group.len()), (1, 3));
    }
}

/// A member that had only asked for an id and leaves must not hold up a rebalance.
#[test]
fn a_pending_member_that_leaves_completes_the_rebalance_at_once() {
    let mut bench = Bench::new();
    let members = bench.stable(1);
    let pending = bench.join(Join::new());
    let pending = bench.join_answer(pending).member_id.clone();
    let rejoined = bench.join(Join::new().id(&members[0].id));
    assert!(bench.waits(rejoined));
    let left = bench.leave(&[leaving(&pending)]);
    assert_eq!(bench.left(left), (ErrorCode::None, vec![ErrorCode::None]));
    assert_eq!(bench.joined(rejoined).generation, 2);
}

/// A client that drops while its join is parked and tries again: the ghosts go, at the latest after five minutes.
#[test]
fn clients_that_drop_during_parked_joins_leave_no_ghosts() {
    let mut bench = Bench::new();
    let slow = || Join::new().session(1_800_000).rebalance(1_800_000);
    let (_, ticket) = bench.join_dynamic(slow);
    bench.pass(4_000);
    let member = bench.joined(ticket);
    bench.sync_all(std::slice::from_ref(&member));
    for _ in 0..20 {
        bench.join(slow().version(3));
        bench.pass(1_000);
    }
    assert_eq!(bench.group.len(), 21);
    bench.pass(5 * 60_000);
    assert_eq!(bench.group.len(), 1);
    let rejoined = bench.join(slow().id(&member.id));
    assert_eq!(bench.joined(rejoined).generation, 2);
}

/// Metadata larger than a record may be: the group's own SyncGroup fails, and it can try again.
#[test]
fn a_group_too_large_to_persist_is_told_so_and_goes_on_when_it_may() {
    let mut bench = Bench::new();
    let metadata = "m".repeat(20_000);
    let mut tickets = Vec::new();
    for _ in 0..300 {
        tickets.push(bench.join(Join::new().version(3).protocols(&[("range", &metadata)])));
    }
    bench.pass(6_000);
    let members: Vec<_> = tickets.iter().map(|ticket| bench.joined(*ticket)).collect();
    let sync = bench.sync(identity(&members[0].id, 1), &[]);
    bench.persisted(Err(ErrorCode::MessageTooLarge));
    assert_eq!(bench.synced(sync), Err(ErrorCode::UnknownServerError));
    let rejoin = |bench: &mut Bench, member: &Known| {
        bench.join(Join::new().id(&member.id).protocols(&[("range", &metadata)]))
    };
    let tickets: Vec<_> = members.iter().map(|member| rejoin(&mut bench, member)).collect();
    let members: Vec<_> = tickets.iter().map(|ticket| bench.joined(*ticket)).collect();
    bench.sync_all(&members);
    let record = bench.group.current_record();
    bench.restart(&record);
    for member in &members {
        let heartbeat = bench.heartbeat(&identity(&member.id, member.generation));
        assert_eq!(heartbeat, ErrorCode::None);
    }
}

/// A hundred clients that join within the same second make one generation, two at most.
#[test]
fn a_hundred_clients_that_join_at_once_become_one_stable_group() {
    let mut bench = Bench::new();
    let mut tickets = Vec::new();
    for _ in 0..100 {
        tickets.push(bench.join_dynamic(Join::new).1);
        bench.pass(10);
    }
    bench.pass(6_000);
    let members: Vec<_> = tickets.iter().map(|ticket| bench.joined(*ticket)).collect();
    bench.sync_all(&members);
    assert_eq!(bench.group.generation(), 1);
}

/// Offsets expired under groups that were alive, or never.
#[test]
fn offsets_expire_from_when_the_group_became_empty_and_not_while_it_lives() {
    let metadata = "\0\0\0\0\0\u{1}\0\u{1}y";
    let mut bench = Bench::new();
    let join = || Join::new().protocols(&[("range", metadata)]);
    let (_, ticket) = bench.join_dynamic(join);
    assert_eq!(bench.group.offset_expiry(), OffsetExpiry::Never, "in a rebalance");
    bench.pass(4_000);
    let member = bench.joined(ticket);
    assert_eq!(bench.group.offset_expiry(), OffsetExpiry::Never, "in a rebalance");
    bench.sync_all(std::slice::from_ref(&member));
    // A live group keeps those of the topics that it reads; others go one by one.
    assert_eq!(bench.group.offset_expiry(), OffsetExpiry::SinceCommit);
    assert!(bench.group.is_subscribed_to("y") && !bench.group.is_subscribed_to("x"));
    bench.pass_alive(180_000, &[member]);
    assert!(bench.group.is_subscribed_to("y"));
    bench.pass(10_000);
    let emptied_ms = bench.now_ms;
    bench.persist_all();
    bench.pass(30_000);
    assert_eq!(bench.group.offset_expiry(), OffsetExpiry::Since(emptied_ms));
    assert!(!bench.group.is_subscribed_to("y"));
}

/// Moving the coordinator: the old one sends its members on, the new one goes on with them without a rebalance.
#[test]
fn a_group_whose_coordinator_moves_goes_on_without_a_rebalance() {
    let mut bench = Bench::new();
    let members = bench.stable(20);
    let record = bench.group.current_record();
    for _ in 0..10 {
        bench.die(ErrorCode::NotCoordinator);
        bench.restart(&record);
        bench.pass_alive(3_000, &members);
    }
    assert_eq!(
        (bench.group.state(), bench.group.generation()),
        (GroupState::Stable, 1)
    );
}
