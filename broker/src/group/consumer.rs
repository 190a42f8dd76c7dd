//! Running groups of the consumer protocol (KIP-848): a step changes a group and appends its records; what it answers is
//! told once these are durable. And what changes when a group goes from one protocol to the other.

use std::rc::Rc;

use strandline_core::group::classic::{self, ClassicGroup};
use strandline_core::group::consumer::record::ConsumerRecord;
use strandline_core::group::consumer::{
    ConsumerGroup, ConsumerGroupConfig, ConsumerGroupState, Effects, FenceReason, GroupError,
    HeartbeatAnswer, HeartbeatRequest, JOIN_EPOCH,
};
use strandline_core::group::offsets::OffsetsRecord;
use strandline_core::metadata::ClusterImage;
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;

use super::Coordinator;
use super::coordinator::Group;
use super::machine::Machine;
use crate::shard::Shard;

/// What a step sees beside its group.
pub(super) struct Around<'a> {
    pub(super) now_ms: i64,
    pub(super) config: &'a ConsumerGroupConfig,
    pub(super) image: &'a ClusterImage,
}

/// What a step came to.
pub(super) struct Stepped<A> {
    pub(super) answer: A,
    /// It may be told once what is before this offset is durable.
    pub(super) end: i64,
}

impl<D: Disk> Coordinator<D> {
    /// Changes a group of the consumer protocol and appends its records; `None` without such a group.
    pub(super) fn step<R: Runtime, A>(
        self: &Rc<Self>,
        shard: &Rc<Shard<R, D>>,
        name: &str,
        step: impl FnOnce(&mut ConsumerGroup, &Around<'_>) -> Effects<A>,
    ) -> Option<Result<Stepped<A>, ErrorCode>> {
        let image = shard.image();
        let config = shard.groups.consumer_config(&image, name);
        let around = Around {
            now_ms: shard.groups.now_ms(shard.runtime.now()),
            config: &config,
            image: &image,
        };
        let mut groups = self.groups.borrow_mut();
        let group = groups.get_mut(name)?;
        let Machine::Consumer(machine) = &mut group.machine else {
            return None;
        };
        let before = (machine.target_epoch(), machine.is_empty());
        let effects = step(machine, &around);
        let mut records = of_group(machine.id(), effects.records);
        let classic = downgraded(shard, machine, &around, &mut records);
        let (appended, result) = self.append_some(shard, &records);
        if result.is_err() {
            machine.take_back(appended, around.now_ms, &config);
        } else {
            if (machine.target_epoch(), machine.is_empty()) != before {
                group.target_end = self.appended_end.get();
                log_target(shard, machine);
            }
            if let Some(classic) = classic {
                group.machine = classic.into();
            }
        }
        if appended > 0 {
            group.appended_end = self.appended_end.get();
        }
        let end = group.appended_end;
        match &mut group.machine {
            Machine::Consumer(_) => self.settle_consumer(shard, name, group, around.now_ms),
            Machine::Classic(classic) => {
                tracing::info!(shard = shard.number, group = name, "group became a classic one");
                let mut effects = classic::Effects::default();
                classic.rebalance_after_downgrade(around.now_ms, &mut effects);
                group.life = shard.groups.next_life();
                self.settle(shard, name, group, effects, around.now_ms);
            }
        }
        Some(result.map(|()| Stepped {
            answer: effects.answer,
            end,
        }))
    }

    /// The same for a member of the classic protocol, which a group without members does not take as it is.
    pub(super) fn step_unless_empty<R: Runtime, A>(
        self: &Rc<Self>,
        shard: &Rc<Shard<R, D>>,
        name: &str,
        step: impl FnOnce(&mut ConsumerGroup, &Around<'_>) -> Effects<A>,
    ) -> Option<Result<Stepped<A>, ErrorCode>> {
        let has_members = |group: &Group| {
            let machine = group.machine.consumer();
            machine.is_some_and(|machine| !machine.is_empty())
        };
        let is_theirs = self.groups.borrow().get(name).is_some_and(has_members);
        is_theirs.then(|| self.step(shard, name, step)).flatten()
    }

    fn settle_consumer<R: Runtime>(
        self: &Rc<Self>,
        shard: &Rc<Shard<R, D>>,
        name: &str,
        group: &mut Group,
        now_ms: i64,
    ) {
        self.measure(name, group);
        self.set_deadline(shard, name, group, now_ms);
    }

    /// The heartbeat to a group that is none of the consumer protocol: one that joins makes it.
    pub(super) fn found<R: Runtime>(
        self: &Rc<Self>,
        shard: &Rc<Shard<R, D>>,
        name: &Rc<str>,
        request: &HeartbeatRequest<'_>,
    ) -> Result<Stepped<Result<HeartbeatAnswer, GroupError>>, ErrorCode> {
        let image = shard.image();
        let config = shard.groups.consumer_config(&image, name);
        let around = Around {
            now_ms: shard.groups.now_ms(shard.runtime.now()),
            config: &config,
            image: &image,
        };
        let mut groups = self.groups.borrow_mut();
        let classic = groups.get(name).and_then(|group| group.machine.classic());
        let (mut machine, mut records) = match begun(shard, name, classic, request, &around) {
            Ok(begun) => begun,
            Err(error) => return Ok(refused(error)),
        };
        let effects = machine.heartbeat(around.now_ms, around.config, request, around.image);
        if let Err(error) = effects.answer {
            return Ok(refused(error));
        }
        records.extend(of_group(name, effects.records));
        let (appended, result) = self.append_some(shard, &records);
        if let Err(code) = result {
            if appended == 0 {
                return Err(code);
            }
            machine = replayed(name, &records[..appended], &around);
        }
        let group = groups.entry(name.clone()).or_insert_with(|| {
            let group = Group::new(
                name,
                ConsumerGroup::new(name.clone()).into(),
                shard.groups.next_life(),
            );
            self.memory.change(0, group.bytes);
            group
        });
        log_target(shard, &machine);
        let before = std::mem::replace(&mut group.machine, machine.into());
        if let Machine::Classic(mut before) = before {
            if !before.is_empty() {
                let members = before.len();
                tracing::info!(
                    shard = shard.number,
                    group = &**name,
                    members,
                    "group became one of the consumer protocol"
                );
            }
            // Whoever waits in it joins again, and gets into this one.
            let mut effects = classic::Effects::default();
            before.die(ErrorCode::RebalanceInProgress, around.now_ms, &mut effects);
            self.answer(&mut effects);
            group.life = shard.groups.next_life();
            group.deadline = None;
        }
        group.appended_end = self.appended_end.get();
        group.target_end = group.appended_end;
        let end = group.appended_end;
        self.settle_consumer(shard, name, group, around.now_ms);
        result.map(|()| Stepped {
            answer: effects.answer,
            end,
        })
    }

    /// The time of a group has come: members that were silent for too long, or kept too long what they were to give up, are
    /// removed.
    pub(super) fn tick<R: Runtime>(self: &Rc<Self>, shard: &Rc<Shard<R, D>>, name: &str) {
        let stepped = self.step(shard, name, |machine, around| {
            machine.tick(around.now_ms, around.image)
        });
        let Some(Ok(stepped)) = stepped else {
            // What could not be written was taken back: those members have another session.
            return;
        };
        for fenced in stepped.answer {
            let reason = match fenced.reason {
                FenceReason::SessionExpired => "it has not been heard of",
                FenceReason::RebalanceTimedOut => "it did not give up partitions in time",
            };
            tracing::info!(
                shard = shard.number,
                group = name,
                member = &*fenced.id,
                "member removed: {reason}"
            );
        }
    }

    /// Makes an empty classic group for a JoinGroup; one of the consumer protocol that has no members makes room.
    ///
    /// # Errors
    /// The code for the client: the end of that one could not be written.
    pub(super) fn make_classic<R: Runtime>(&self, shard: &Shard<R, D>, name: &str) -> Result<(), ErrorCode> {
        if self.has(name) {
            self.end_group(shard, name, Vec::new())?;
            self.remove(name);
        }
        self.make(shard, name);
        Ok(())
    }

    /// Appends `first` and then what takes away a group that has no members; the group itself is still to be removed.
    ///
    /// # Errors
    /// The code for the client: not all was appended.
    pub(super) fn end_group<R: Runtime>(
        &self,
        shard: &Shard<R, D>,
        name: &str,
        first: Vec<OffsetsRecord>,
    ) -> Result<i64, ErrorCode> {
        let mut records = first;
        let mut groups = self.groups.borrow_mut();
        let before = records.len();
        let machine = match groups.get_mut(name).map(|group| &mut group.machine) {
            Some(Machine::Consumer(machine)) => machine,
            Some(Machine::Classic(machine)) if machine.has_record() => {
                records.push(OffsetsRecord::Group {
                    group: name.to_owned(),
                    value: None,
                });
                return self.append_all(shard, &records);
            }
            _ => return self.append_all(shard, &records),
        };
        let own = machine.delete().map_err(|error| error.code)?;
        records.extend(of_group(machine.id(), own));
        let (appended, result) = self.append_some(shard, &records);
        if result.is_err() {
            let now_ms = shard.groups.now_ms(shard.runtime.now());
            let config = shard.groups.consumer_config(&shard.image(), name);
            machine.take_back(appended.saturating_sub(before), now_ms, &config);
        }
        result.map(|()| self.appended_end.get())
    }

    /// Enters a group that was replayed.
    pub(super) fn enter_consumer<R: Runtime>(
        self: &Rc<Self>,
        shard: &Rc<Shard<R, D>>,
        name: Rc<str>,
        mut machine: ConsumerGroup,
    ) {
        let now_ms = shard.groups.now_ms(shard.runtime.now());
        machine.loaded(now_ms, &shard.groups.consumer_config(&shard.image(), &name));
        let mut group = Group::new(&name, machine.into(), shard.groups.next_life());
        group.appended_end = self.appended_end.get();
        self.memory.change(0, group.bytes);
        self.settle_consumer(shard, &name, &mut group, now_ms);
        self.groups.borrow_mut().insert(name, group);
    }
}

/// The records of a group's step.
fn of_group(group: &Rc<str>, records: Vec<ConsumerRecord>) -> Vec<OffsetsRecord> {
    let records = records.into_iter().map(|record| OffsetsRecord::Consumer {
        group: group.clone(),
        record,
    });
    records.collect()
}

pub(super) fn refused(error: GroupError) -> Stepped<Result<HeartbeatAnswer, GroupError>> {
    Stepped {
        answer: Err(error),
        end: 0,
    }
}

/// The group that a heartbeat is the first of, and the records before that heartbeat's own.
fn begun<R: Runtime, D: Disk>(
    shard: &Shard<R, D>,
    name: &Rc<str>,
    classic: Option<&ClassicGroup>,
    request: &HeartbeatRequest<'_>,
    around: &Around<'_>,
) -> Result<(ConsumerGroup, Vec<OffsetsRecord>), GroupError> {
    let Some(classic) = classic else {
        return Ok((ConsumerGroup::new(name.clone()), Vec::new()));
    };
    let mut records = Vec::new();
    if classic.has_record() {
        records.push(OffsetsRecord::Group {
            group: name.to_string(),
            value: None,
        });
    }
    let joins = request.member_epoch == JOIN_EPOCH;
    if joins && classic.state() == classic::GroupState::Empty {
        return Ok((ConsumerGroup::new(name.clone()), records));
    }
    if !joins || !shard.groups.consumer.migration.allows_upgrade() || !classic.is_of_consumers() {
        return Err(GroupError {
            code: ErrorCode::GroupIdNotFound,
            message: format!("Group {name} is not a consumer group."),
        });
    }
    let (machine, effects) = ConsumerGroup::upgraded(
        name,
        classic.generation(),
        &classic.migrating_members(),
        around.now_ms,
        around.config,
        around.image,
    )?;
    records.extend(of_group(name, effects.records));
    Ok((machine, records))
}

/// The classic group that takes the place of one that only members of the classic protocol are left in, its records behind
/// those of the step that left it so.
fn downgraded<R: Runtime, D: Disk>(
    shard: &Shard<R, D>,
    machine: &mut ConsumerGroup,
    around: &Around<'_>,
    records: &mut Vec<OffsetsRecord>,
) -> Option<ClassicGroup> {
    let groups = &shard.groups;
    if !groups.consumer.migration.allows_downgrade()
        || machine.len() > groups.classic.size_max
        || !machine.may_downgrade()
    {
        return None;
    }
    let members = machine.migrating_members(around.image);
    let classic = ClassicGroup::downgraded(groups.classic.clone(), machine.epoch(), members, around.now_ms);
    let (classic, mut record) = classic?;
    let to_wall = |since_ms| groups.to_wall_ms(&shard.runtime, since_ms);
    record.state_since_ms = record.state_since_ms.map(to_wall);
    records.extend(of_group(&machine.id().clone(), machine.dissolve()));
    records.push(OffsetsRecord::Group {
        group: machine.id().to_string(),
        value: Some(record),
    });
    Some(classic)
}

/// The group that the records make of which a first part was stored.
fn replayed(name: &Rc<str>, records: &[OffsetsRecord], around: &Around<'_>) -> ConsumerGroup {
    let mut machine = ConsumerGroup::new(name.clone());
    for record in records {
        if let OffsetsRecord::Consumer { record, .. } = record {
            machine.replay(record);
        }
    }
    machine.loaded(around.now_ms, around.config);
    machine
}

fn log_target<R: Runtime, D: Disk>(shard: &Shard<R, D>, machine: &ConsumerGroup) {
    let state = machine.state();
    tracing::info!(
        shard = shard.number,
        group = &**machine.id(),
        epoch = machine.epoch(),
        members = machine.len(),
        state = state.name(),
        "group: {}",
        match state {
            ConsumerGroupState::Empty => "has no members any more",
            _ => "has another target assignment",
        }
    );
}
