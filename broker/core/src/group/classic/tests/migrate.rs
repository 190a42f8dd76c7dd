//! KIP-848: from one protocol to the other with the members.

use super::bench::*;
use crate::group::classic::*;

fn downgraded(bench: &mut Bench, generation: i32, members: Vec<MigratingMember>) -> Option<GroupRecord> {
    let config = ClassicConfig::default().into();
    let (group, record) = ClassicGroup::downgraded(config, generation, members, bench.now_ms)?;
    bench.group = group;
    bench.group.check();
    Some(record)
}

#[test]
fn members_that_wait_are_told_to_rejoin_when_the_group_goes_over() {
    let mut bench = Bench::new();
    let known = bench.stable(2);
    assert!(bench.group.is_of_consumers());
    let ticket = bench.join(Join::new().id(&known[0].id));
    let members = bench.group.migrating_members();
    assert_eq!(members.len(), 2);
    assert_eq!(&*members[1].member_id, &*known[1].id);
    assert_eq!(members[1].assignment, known[1].id);
    assert_eq!(members[1].protocols, [protocol("range", "metadata")]);
    bench.die(ErrorCode::RebalanceInProgress);
    assert_eq!(bench.join_error(ticket), ErrorCode::RebalanceInProgress);
}

#[test]
fn a_group_that_comes_back_goes_on_with_its_members_and_assignments() {
    let mut bench = Bench::new();
    let known = bench.stable(2);
    let members = bench.group.migrating_members();
    let record = downgraded(&mut bench, 7, members).unwrap();
    assert_eq!((record.generation, record.members.len()), (7, 2));
    assert_eq!(record.protocol_name.as_deref(), Some("range"));
    assert_eq!(record.leader.as_deref(), Some(&*known[0].id));
    assert!(bench.group.has_record());
    for member in &known {
        assert_eq!(bench.heartbeat(&identity(&member.id, 7)), ErrorCode::None);
        let sync = bench.sync(identity(&member.id, 7), &[]);
        assert_eq!(bench.synced(sync), Ok(&*member.id));
    }
    // Sessions count from now on.
    bench.pass(10_000);
    assert_eq!(bench.group.state(), GroupState::Empty);
}

#[test]
fn the_members_rejoin_when_the_last_one_of_the_other_protocol_has_left() {
    let mut bench = Bench::new();
    let known = bench.stable(2);
    let members = bench.group.migrating_members();
    downgraded(&mut bench, 7, members).unwrap();
    let mut effects = Effects::default();
    let now_ms = bench.now_ms;
    bench.group.rebalance_after_downgrade(now_ms, &mut effects);
    assert_eq!(bench.group.state(), GroupState::PreparingRebalance);
    let heartbeat = bench.heartbeat(&identity(&known[1].id, 7));
    assert_eq!(heartbeat, ErrorCode::RebalanceInProgress);
    let tickets = [0, 1].map(|at| bench.join(Join::new().id(&known[at].id)));
    assert_eq!(bench.joined(tickets[0]).generation, 8);
}

#[test]
fn members_that_cannot_be_one_group_do_not_become_one() {
    let mut bench = Bench::new();
    bench.stable_static(&["one", "two"]);
    let members = bench.group.migrating_members();
    assert_eq!(downgraded(&mut bench, 7, Vec::new()), None);
    let one_id = vec![members[0].clone(), members[0].clone()];
    assert_eq!(downgraded(&mut bench, 7, one_id), None);
    let mut one_instance = members.clone();
    one_instance[1].instance_id = members[0].instance_id.clone();
    assert_eq!(downgraded(&mut bench, 7, one_instance), None);
    let mut no_common_protocol = members;
    no_common_protocol[1].protocols = vec![protocol("sticky", "")];
    assert_eq!(downgraded(&mut bench, 7, no_common_protocol), None);
}
