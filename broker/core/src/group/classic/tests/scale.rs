//! Large groups: no event may cost a walk over all members times anything.

use super::bench::*;
use crate::group::classic::*;

/// With a cost per event that grows with the group this would take minutes.
#[test]
fn a_group_of_five_thousand_members_rebalances_and_lives() {
    const MEMBERS: usize = 5_000;
    let mut group = ClassicGroup::new(ClassicConfig::default().into(), 0);
    let mut effects = Effects::default();
    let mut ids = Vec::new();
    for number in 0..MEMBERS as u64 {
        let mut join = Join::new().version(3).session(1_800_000).request;
        join.random = uuid::Uuid::from_u128(u128::from(number));
        ids.push(format!("client-{}", join.random));
        group.join(join, Ticket(number), 0, &mut effects);
    }
    assert!(effects.answers.is_empty());
    let rebalances = 3;
    for generation in 1..=rebalances {
        group.tick(i64::from(generation) * 3_000, &mut effects);
        group.tick(i64::from(generation) * 3_000 + 3_000, &mut effects);
        assert_eq!((group.generation(), effects.answers.len()), (generation, MEMBERS));
        effects.answers.clear();
        let assignments: Vec<_> = ids
            .iter()
            .map(|id| ((&**id).into(), bytes::Bytes::new()))
            .collect();
        for (number, id) in ids.iter().enumerate().rev() {
            let sync = SyncRequest {
                version: 3,
                identity: identity(id, generation),
                protocol_type: None,
                protocol_name: None,
                assignments: if number == 0 {
                    assignments.clone()
                } else {
                    Vec::new()
                },
            };
            group.sync(sync, Ticket(number as u64), 6_000, &mut effects);
        }
        let persist = effects.persists.pop().unwrap();
        assert_eq!(persist.record.members.len(), MEMBERS);
        group.persisted(persist.id, Ok(()), 6_000, &mut effects);
        assert_eq!(effects.answers.len(), MEMBERS);
        effects.answers.clear();
        for id in &ids {
            assert_eq!(group.heartbeat(&identity(id, generation), 6_000), ErrorCode::None);
            assert_eq!(group.commit(&identity(id, generation), false, 6_000), Ok(()));
        }
        if generation < rebalances {
            for (number, id) in ids.iter().enumerate() {
                let join = Join::new().id(id).session(1_800_000).request;
                group.join(join, Ticket(number as u64), 6_000, &mut effects);
            }
        }
    }
    let all: Vec<_> = ids.iter().map(|id| leaving(id)).collect();
    group.leave(all, Ticket(0), 6_000, &mut effects);
    assert_eq!(group.state(), GroupState::Empty);
    group.check();
}

#[test]
fn five_thousand_members_that_die_at_once_are_dropped_in_one_tick() {
    let mut group = ClassicGroup::new(ClassicConfig::default().into(), 0);
    let mut effects = Effects::default();
    for number in 0..5_000_u64 {
        let mut join = Join::new().version(3).request;
        join.random = uuid::Uuid::from_u128(u128::from(number));
        group.join(join, Ticket(number), 0, &mut effects);
    }
    group.tick(60_000, &mut effects);
    group.tick(10_000_000, &mut effects);
    group.tick(20_000_000, &mut effects);
    assert_eq!(group.state(), GroupState::Empty);
    assert_eq!(effects.answers.len(), 5_000);
    group.check();
}

/// Each record holds the whole group, so one for each member would be gigabytes.
#[test]
fn static_members_that_all_restart_at_once_take_two_records() {
    let mut bench = Bench::new();
    let names: Vec<String> = (0..200).map(|number| format!("instance {number}")).collect();
    let instances: Vec<&str> = names.iter().map(|name| &**name).collect();
    bench.stable_static(&instances);
    let join = |bench: &mut Bench, instance: &&str| bench.join(Join::new().instance(instance));
    let tickets: Vec<_> = instances
        .iter()
        .map(|instance| join(&mut bench, instance))
        .collect();
    for _ in 0..2 {
        assert_eq!(bench.records.len(), 1);
        bench.persisted(Ok(()));
    }
    assert!(bench.records.is_empty());
    assert!(tickets.iter().all(|ticket| bench.joined(*ticket).generation == 1));
}
