use super::bench::*;
use crate::group::classic::*;

fn commit(bench: &mut Bench, identity: &Identity) -> Result<(), ErrorCode> {
    bench.group.commit(identity, false, bench.now_ms)
}

fn transactional(bench: &mut Bench, identity: &Identity) -> Result<(), ErrorCode> {
    bench.group.commit(identity, true, bench.now_ms)
}

#[test]
fn commits_from_outside_are_taken_only_while_the_group_is_empty() {
    let mut bench = Bench::new();
    let outside = identity("", -1);
    assert_eq!(commit(&mut bench, &outside), Ok(()));
    // An operator's tool may name a member.
    assert_eq!(commit(&mut bench, &identity("tool", -1)), Ok(()));
    assert_eq!(
        commit(&mut bench, &identity("tool", 0)),
        Err(ErrorCode::UnknownMemberId)
    );
    let members = bench.stable(1);
    assert_eq!(commit(&mut bench, &outside), Err(ErrorCode::UnknownMemberId));
    assert_eq!(
        commit(&mut bench, &identity(&members[0].id, -1)),
        Err(ErrorCode::IllegalGeneration)
    );
    bench.leave(&[leaving(&members[0].id)]);
    assert_eq!(commit(&mut bench, &outside), Ok(()));
    bench.die(ErrorCode::NotCoordinator);
    assert_eq!(
        commit(&mut bench, &outside),
        Err(ErrorCode::CoordinatorNotAvailable)
    );
}

#[test]
fn a_group_that_only_commits_has_no_kind_and_its_offsets_expire_one_by_one() {
    let mut bench = Bench::new();
    commit(&mut bench, &identity("", -1)).unwrap();
    assert_eq!(bench.group.protocol_type(), None);
    assert_eq!(bench.group.offset_expiry(), OffsetExpiry::SinceCommit);
    assert_eq!(bench.group.state(), GroupState::Empty);
    assert!(bench.group.is_idle() && !bench.group.has_record());
}

#[test]
fn a_members_commit_is_fenced_by_id_and_generation() {
    let mut bench = Bench::new();
    let members = bench.stable(1);
    assert_eq!(commit(&mut bench, &identity(&members[0].id, 1)), Ok(()));
    assert_eq!(
        commit(&mut bench, &identity(&members[0].id, 0)),
        Err(ErrorCode::IllegalGeneration)
    );
    assert_eq!(
        commit(&mut bench, &identity(&members[0].id, 2)),
        Err(ErrorCode::IllegalGeneration)
    );
    assert_eq!(
        commit(&mut bench, &identity("nobody", 1)),
        Err(ErrorCode::UnknownMemberId)
    );
}

#[test]
fn while_assignments_are_awaited_a_commit_is_told_of_the_rebalance() {
    let mut bench = Bench::without_delay();
    let ticket = bench.join(Join::new().version(3));
    let member = bench.joined(ticket);
    let member = identity(&member.id, member.generation);
    assert_eq!(bench.group.state(), GroupState::CompletingRebalance);
    assert_eq!(commit(&mut bench, &member), Err(ErrorCode::RebalanceInProgress));
    assert_eq!(transactional(&mut bench, &member), Ok(()));
}

/// KIP-447: transactional commits say who sends them, those of older clients do not.
#[test]
fn transactional_commits_are_fenced_if_they_say_who_sends_them() {
    let mut bench = Bench::new();
    let members = bench.stable(1);
    assert_eq!(transactional(&mut bench, &identity("", -1)), Ok(()));
    assert_eq!(transactional(&mut bench, &identity(&members[0].id, 1)), Ok(()));
    assert_eq!(
        transactional(&mut bench, &identity(&members[0].id, 0)),
        Err(ErrorCode::IllegalGeneration)
    );
    assert_eq!(
        transactional(&mut bench, &identity("nobody", 1)),
        Err(ErrorCode::UnknownMemberId)
    );
    assert_eq!(
        transactional(&mut bench, &static_identity("", "one", -1)),
        Err(ErrorCode::UnknownMemberId)
    );
}

#[test]
fn a_commit_is_a_sign_of_life() {
    let mut bench = Bench::new();
    let members = bench.stable(1);
    let member = identity(&members[0].id, 1);
    for _ in 0..5 {
        bench.pass(9_000);
        assert_eq!(commit(&mut bench, &member), Ok(()));
    }
    bench.pass(9_000);
    transactional(&mut bench, &member).unwrap();
    bench.pass(1_000);
    assert_eq!(bench.group.state(), GroupState::Empty);
}

#[test]
fn deletions_are_refused_while_there_are_members() {
    let mut bench = Bench::new();
    assert_eq!(bench.group.validate_delete(), Ok(()));
    assert_eq!(bench.group.validate_offset_delete(), Ok(()));
    let members = bench.stable(1);
    assert_eq!(bench.group.validate_delete(), Err(ErrorCode::NonEmptyGroup));
    // Of consumers it is known which topics they read.
    assert_eq!(bench.group.validate_offset_delete(), Ok(()));
    bench.leave(&[leaving(&members[0].id)]);
    assert_eq!(bench.group.validate_delete(), Ok(()));
    bench.join(Join::new().version(3).kind("connect"));
    assert_eq!(
        bench.group.validate_offset_delete(),
        Err(ErrorCode::NonEmptyGroup)
    );
    bench.die(ErrorCode::NotCoordinator);
    assert_eq!(bench.group.validate_delete(), Err(ErrorCode::GroupIdNotFound));
    assert_eq!(
        bench.group.validate_offset_delete(),
        Err(ErrorCode::GroupIdNotFound)
    );
}
