use super::bench::*;
use crate::group::classic::*;

#[test]
fn members_leave_in_batches_each_with_its_own_error() {
    let mut bench = Bench::new();
    let members = bench.stable(3);
    let ticket = bench.leave(&[
        leaving(&members[0].id),
        leaving("nobody"),
        leaving(&members[1].id),
    ]);
    assert_eq!(
        bench.left(ticket),
        (
            ErrorCode::None,
            vec![ErrorCode::None, ErrorCode::UnknownMemberId, ErrorCode::None]
        )
    );
    assert_eq!(bench.group.state(), GroupState::PreparingRebalance);
    let rejoined = bench.join(Join::new().id(&members[2].id));
    assert_eq!(bench.joined(rejoined).generation, 2);
    assert_eq!(&*bench.join_answer(rejoined).leader, &*members[2].id);
}

#[test]
fn nobody_leaving_changes_nothing() {
    let mut bench = Bench::new();
    bench.stable(1);
    let ticket = bench.leave(&[leaving("nobody")]);
    assert_eq!(bench.left(ticket).1, [ErrorCode::UnknownMemberId]);
    assert_eq!(bench.group.state(), GroupState::Stable);
    let ticket = bench.leave(&[]);
    assert_eq!(bench.left(ticket), (ErrorCode::None, vec![]));
}

#[test]
fn the_last_one_to_leave_is_answered_when_that_is_durable() {
    let mut bench = Bench::new();
    let members = bench.stable(1);
    let ticket = bench.leave(&[leaving(&members[0].id)]);
    assert_eq!(bench.group.state(), GroupState::Empty);
    assert!(bench.waits(ticket));
    bench.persisted(Ok(()));
    assert_eq!(bench.left(ticket), (ErrorCode::None, vec![ErrorCode::None]));

    let members = bench.stable(1);
    let ticket = bench.leave(&[leaving(&members[0].id)]);
    bench.persisted(Err(ErrorCode::NotEnoughReplicas));
    assert_eq!(bench.left(ticket), (ErrorCode::CoordinatorNotAvailable, vec![]));
    assert_eq!(bench.group.state(), GroupState::Empty);
    assert!(bench.group.is_idle());
}

#[test]
fn one_that_was_only_told_its_id_does_not_hold_up_the_last_one_to_leave() {
    let mut bench = Bench::new();
    let members = bench.stable(1);
    bench.join(Join::new());
    let ticket = bench.leave(&[leaving(&members[0].id)]);
    assert_eq!(bench.group.state(), GroupState::Empty);
    assert!(bench.waits(ticket));
    bench.persisted(Ok(()));
    assert_eq!(bench.left(ticket).1, [ErrorCode::None]);
}

#[test]
fn a_join_or_sync_that_waits_is_answered_when_its_member_leaves() {
    let mut bench = Bench::new();
    let members = bench.stable(2);
    let join = bench.join(Join::new().id(&members[0].id));
    bench.leave(&[leaving(&members[0].id)]);
    assert_eq!(bench.join_error(join), ErrorCode::UnknownMemberId);
    let rejoined = bench.join(Join::new().id(&members[1].id));
    let member = bench.joined(rejoined);
    let sync = bench.sync(identity(&member.id, member.generation), &[]);
    bench.leave(&[leaving(&member.id)]);
    assert_eq!(bench.synced(sync), Err(ErrorCode::UnknownMemberId));
}

#[test]
fn a_rebalance_goes_on_when_the_one_it_waits_for_leaves() {
    let mut bench = Bench::new();
    let members = bench.stable(2);
    let leader = bench.join(Join::new().id(&members[0].id));
    assert!(bench.waits(leader));
    let ticket = bench.leave(&[leaving(&members[1].id)]);
    assert_eq!(bench.left(ticket).1, [ErrorCode::None]);
    assert_eq!(bench.joined(leader).generation, 2);
}

#[test]
fn all_leaving_during_the_first_rebalance_leaves_an_empty_group() {
    let mut bench = Bench::new();
    let (id, join) = bench.join_dynamic(Join::new);
    bench.leave(&[leaving(&id)]);
    assert_eq!(bench.join_error(join), ErrorCode::UnknownMemberId);
    bench.pass(3_000);
    assert_eq!(bench.group.state(), GroupState::Empty);
    bench.persist_all();
    assert!(bench.group.is_idle());
}

#[test]
fn one_that_was_only_told_its_id_leaves_an_empty_group_as_it_is() {
    let mut bench = Bench::new();
    let ticket = bench.join(Join::new());
    let id = bench.join_answer(ticket).member_id.clone();
    let left = bench.leave(&[leaving(&id)]);
    assert_eq!(bench.left(left).1, [ErrorCode::None]);
    assert_eq!(
        (bench.group.state(), bench.group.generation()),
        (GroupState::Empty, 0)
    );
    assert!(bench.group.is_idle() && bench.transitions.is_empty());
}
