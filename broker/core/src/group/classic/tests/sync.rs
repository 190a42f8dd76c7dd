use super::bench::*;
use crate::group::classic::*;

/// A group of two in CompletingRebalance.
fn completing(bench: &mut Bench) -> (Known, Known) {
    let first = bench.join(Join::new().version(3));
    let second = bench.join(Join::new().version(3));
    bench.pass(6_000);
    (bench.joined(first), bench.joined(second))
}

fn of(member: &Known) -> Identity {
    identity(&member.id, member.generation)
}

#[test]
fn nobody_gets_an_assignment_before_it_is_durable() {
    let mut bench = Bench::new();
    let (leader, follower) = completing(&mut bench);
    let follower_sync = bench.sync(of(&follower), &[]);
    let leader_sync = bench.sync(
        of(&leader),
        &[(&leader.id, "to the leader"), (&follower.id, "to the follower")],
    );
    assert!(bench.waits(follower_sync) && bench.waits(leader_sync));
    assert_eq!(bench.group.state(), GroupState::CompletingRebalance);
    let record = bench.persisted(Ok(()));
    assert_eq!(bench.synced(follower_sync), Ok("to the follower"));
    assert_eq!(bench.synced(leader_sync), Ok("to the leader"));
    assert_eq!(
        bench.sync_answer(leader_sync).protocol_type.as_deref(),
        Some("consumer")
    );
    assert_eq!(
        bench.sync_answer(leader_sync).protocol_name.as_deref(),
        Some("range")
    );
    assert_eq!(bench.group.state(), GroupState::Stable);

    assert_eq!(
        (record.generation, record.leader.as_deref()),
        (1, Some(&*leader.id))
    );
    assert_eq!(record.members.len(), 2);
    assert_eq!(
        record.members[1],
        MemberRecord {
            member_id: (&*follower.id).into(),
            instance_id: None,
            client_id: "client".into(),
            client_host: "/127.0.0.1".into(),
            rebalance_timeout_ms: 60_000,
            session_timeout_ms: 10_000,
            subscription: "metadata".into(),
            assignment: "to the follower".into(),
        }
    );
}

#[test]
fn a_late_follower_gets_its_assignment_at_once_and_one_left_out_an_empty_one() {
    let mut bench = Bench::new();
    let (leader, follower) = completing(&mut bench);
    bench.sync(of(&leader), &[(&leader.id, "all"), ("a stranger", "nothing")]);
    bench.persist_all();
    let sync = bench.sync(of(&follower), &[]);
    assert_eq!(bench.synced(sync), Ok(""));
    let again = bench.sync(of(&leader), &[(&leader.id, "something else")]);
    assert_eq!(bench.synced(again), Ok("all"));
    assert!(bench.records.is_empty());
}

#[test]
fn an_assignment_does_not_outlive_its_generation() {
    let mut bench = Bench::new();
    let members = bench.stable(2);
    let rejoin = |bench: &mut Bench| {
        let tickets = [0, 1].map(|at| bench.join(Join::new().id(&members[at].id)));
        tickets.map(|ticket| bench.joined(ticket))
    };
    let assignments = |bench: &Bench| {
        let members = bench.group.describe().members;
        members
            .into_iter()
            .map(|member| member.assignment)
            .collect::<Vec<_>>()
    };
    // The leader leaves one out.
    let [leader, follower] = rejoin(&mut bench);
    bench.sync(of(&leader), &[(&leader.id, "all")]);
    bench.persist_all();
    let sync = bench.sync(of(&follower), &[]);
    assert_eq!(bench.synced(sync), Ok(""));
    assert_eq!(assignments(&bench), ["all", ""]);
    // The next generation ends before it has an assignment.
    rejoin(&mut bench);
    bench.join(Join::new().version(3));
    assert_eq!(assignments(&bench), ["", "", ""]);
}

#[test]
fn a_sync_is_checked() {
    let mut bench = Bench::new();
    let (leader, _) = completing(&mut bench);
    let mut check = |identity: Identity, kind: Option<&str>, name: Option<&str>, version| {
        let ticket = bench.sync_request(SyncRequest {
            version,
            identity,
            protocol_type: kind.map(Into::into),
            protocol_name: name.map(Into::into),
            assignments: Vec::new(),
        });
        (!bench.waits(ticket)).then(|| bench.sync_answer(ticket).error)
    };
    let known = of(&leader);
    assert_eq!(
        check(identity("nobody", 1), None, None, 3),
        Some(ErrorCode::UnknownMemberId)
    );
    assert_eq!(
        check(identity(&leader.id, 0), None, None, 3),
        Some(ErrorCode::IllegalGeneration)
    );
    let inconsistent = Some(ErrorCode::InconsistentGroupProtocol);
    assert_eq!(
        check(known.clone(), Some("connect"), Some("range"), 5),
        inconsistent
    );
    assert_eq!(
        check(known.clone(), Some("consumer"), Some("sticky"), 5),
        inconsistent
    );
    // KIP-559: both are mandatory from version 5 on.
    assert_eq!(check(known.clone(), Some("consumer"), None, 5), inconsistent);
    assert_eq!(check(known.clone(), None, Some("range"), 5), inconsistent);
    assert_eq!(check(known, Some("consumer"), Some("range"), 5), None);
}

#[test]
fn a_record_that_cannot_be_written_starts_another_rebalance() {
    let told = [
        (ErrorCode::NotEnoughReplicas, ErrorCode::CoordinatorNotAvailable),
        (ErrorCode::RequestTimedOut, ErrorCode::CoordinatorNotAvailable),
        (
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::CoordinatorNotAvailable,
        ),
        (ErrorCode::NotLeaderOrFollower, ErrorCode::NotCoordinator),
        (ErrorCode::KafkaStorageError, ErrorCode::NotCoordinator),
        (ErrorCode::MessageTooLarge, ErrorCode::UnknownServerError),
        (ErrorCode::RecordListTooLarge, ErrorCode::UnknownServerError),
        (ErrorCode::InvalidFetchSize, ErrorCode::UnknownServerError),
        (ErrorCode::CorruptMessage, ErrorCode::CorruptMessage),
    ];
    for (failed, answered) in told {
        let mut bench = Bench::new();
        let (leader, follower) = completing(&mut bench);
        let syncs = [
            bench.sync(of(&follower), &[]),
            bench.sync(of(&leader), &[(&leader.id, "all")]),
        ];
        bench.persisted(Err(failed));
        for sync in syncs {
            assert_eq!(bench.synced(sync), Err(answered), "{failed:?}");
        }
        assert_eq!(bench.group.state(), GroupState::PreparingRebalance);
        assert!(
            bench
                .group
                .describe()
                .members
                .iter()
                .all(|member| member.assignment.is_empty())
        );
        let rejoined = [&leader, &follower].map(|member| bench.join(Join::new().id(&member.id)));
        let rejoined = rejoined.map(|ticket| bench.joined(ticket));
        assert_eq!(rejoined[0].generation, 2);
        bench.sync_all(&rejoined);
    }
}

#[test]
fn a_record_that_is_overtaken_by_a_rebalance_does_not_count() {
    for result in [Ok(()), Err(ErrorCode::NotEnoughReplicas)] {
        let mut bench = Bench::new();
        let (leader, follower) = completing(&mut bench);
        let sync = bench.sync(of(&leader), &[(&leader.id, "all")]);
        let new = bench.join(Join::new().version(3));
        assert_eq!(bench.synced(sync), Err(ErrorCode::RebalanceInProgress));
        bench.persisted(result);
        assert_eq!(bench.group.state(), GroupState::PreparingRebalance);
        let rejoined = [&leader, &follower].map(|member| bench.join(Join::new().id(&member.id)));
        let rejoined = [rejoined[0], rejoined[1], new].map(|ticket| bench.joined(ticket));
        bench.sync_all(&rejoined);
    }
}

/// Otherwise the log could keep another assignment than the members got.
#[test]
fn the_leaders_repeated_sync_does_not_change_the_assignment_under_way() {
    let mut bench = Bench::new();
    let (leader, _) = completing(&mut bench);
    let first = bench.sync(of(&leader), &[(&leader.id, "first")]);
    let second = bench.sync(of(&leader), &[(&leader.id, "second")]);
    assert_eq!(bench.synced(first), Err(ErrorCode::RebalanceInProgress));
    assert_eq!(bench.records.len(), 1);
    let record = bench.persisted(Ok(()));
    assert_eq!(&record.members[0].assignment[..], b"first");
    assert_eq!(bench.synced(second), Ok("first"));
}

#[test]
fn members_that_do_not_sync_in_time_are_dropped() {
    let mut bench = Bench::new();
    let (leader, follower) = completing(&mut bench);
    // The follower waits for the leader, which lives but does not assign.
    let sync = bench.sync(of(&follower), &[]);
    bench.pass_alive(59_000, std::slice::from_ref(&leader));
    assert!(bench.waits(sync));
    bench.pass_alive(1_000, std::slice::from_ref(&leader));
    assert_eq!(bench.synced(sync), Err(ErrorCode::RebalanceInProgress));
    assert_eq!(bench.group.state(), GroupState::PreparingRebalance);
    assert_eq!(bench.heartbeat(&of(&leader)), ErrorCode::UnknownMemberId);
    let rejoined = bench.join(Join::new().id(&follower.id));
    assert_eq!(&*bench.join_answer(rejoined).leader, &*follower.id);
}

#[test]
fn a_follower_of_a_stable_group_that_never_syncs_is_dropped_too() {
    let mut bench = Bench::new();
    let (leader, follower) = completing(&mut bench);
    bench.sync(of(&leader), &[]);
    bench.persist_all();
    assert_eq!(bench.group.state(), GroupState::Stable);
    bench.pass_alive(61_000, &[leader.clone(), follower.clone()]);
    assert_eq!(bench.group.state(), GroupState::PreparingRebalance);
    assert_eq!(bench.group.len(), 1);
}

#[test]
fn once_all_have_synced_there_is_no_sync_deadline() {
    let mut bench = Bench::new();
    let members = bench.stable(2);
    bench.pass_alive(120_000, &members);
    assert_eq!(bench.group.state(), GroupState::Stable);
    assert_eq!(bench.group.generation(), 1);
}

#[test]
fn a_member_is_not_expired_while_its_assignment_is_being_persisted() {
    let mut bench = Bench::new();
    let (leader, follower) = completing(&mut bench);
    let syncs = [
        bench.sync(of(&leader), &[(&leader.id, "all")]),
        bench.sync(of(&follower), &[]),
    ];
    bench.pass(100_000);
    assert!(syncs.iter().all(|sync| bench.waits(*sync)));
    bench.persisted(Ok(()));
    assert_eq!(bench.synced(syncs[0]), Ok("all"));
    bench.pass(9_999);
    assert_eq!(bench.group.state(), GroupState::Stable);
    bench.pass(1);
    assert_eq!(bench.group.state(), GroupState::Empty);
}

#[test]
fn a_repeated_sync_takes_the_place_of_the_one_that_waits() {
    let mut bench = Bench::new();
    let (leader, follower) = completing(&mut bench);
    let first = bench.sync(of(&follower), &[]);
    let second = bench.sync(of(&follower), &[]);
    assert_eq!(bench.synced(first), Err(ErrorCode::RebalanceInProgress));
    bench.sync(of(&leader), &[(&follower.id, "its own")]);
    bench.persist_all();
    assert_eq!(bench.synced(second), Ok("its own"));
}

#[test]
fn the_group_is_described_as_it_is_in_each_state() {
    let mut bench = Bench::new();
    let describe = |bench: &Bench| {
        let group = bench.group.describe();
        let member = group.members.first();
        let bytes = member.map(|member| (member.metadata.clone(), member.assignment.clone()));
        (
            group.state.name(),
            group.protocol_type,
            group.protocol_name,
            bytes,
        )
    };
    assert_eq!(describe(&bench), ("Empty", "".into(), "".into(), None));
    let members = bench.stable(1);
    let assignment = bytes::Bytes::from(members[0].id.clone());
    assert_eq!(
        describe(&bench),
        (
            "Stable",
            "consumer".into(),
            "range".into(),
            Some(("metadata".into(), assignment.clone()))
        )
    );
    let joined = bench.join(Join::new());
    assert_eq!(bench.join_error(joined), ErrorCode::MemberIdRequired);
    bench.join(Join::new().id(&members[0].id));
    assert_eq!(
        describe(&bench),
        (
            "PreparingRebalance",
            "consumer".into(),
            "".into(),
            Some(("".into(), assignment.clone()))
        )
    );
    bench.pass(10_000);
    assert_eq!(
        describe(&bench),
        (
            "CompletingRebalance",
            "consumer".into(),
            "".into(),
            Some(("".into(), assignment))
        )
    );
    bench.die(ErrorCode::NotCoordinator);
    assert_eq!(describe(&bench).0, "Dead");
}
