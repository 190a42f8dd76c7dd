//! Running groups of the classic protocol: each call, what it has done, and when a group of either kind wants to be called
//! next.

use std::rc::{Rc, Weak};
use std::time::Duration;

use strandline_core::group::classic::{Answer, ClassicGroup, Effects, PersistId, Ticket};
use strandline_core::group::offsets::OffsetsRecord;
use strandline_runtime::local::{OneshotReceiver, oneshot};
use strandline_runtime::{Monotonic, Queue, Runtime};
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;

use super::Coordinator;
use super::coordinator::{Group, State};
use super::machine::Machine;
use crate::shard::{Deadline, Expire, Shard};

/// The allocations of a group's name and its machine, and its deadline.
const GROUP_BYTES: usize = 160;
/// When a group is looked at again whose deadline came before its partition was loaded.
const WHILE_LOADING: Duration = Duration::from_secs(1);

impl<D: Disk> Coordinator<D> {
    /// Whether there is a group of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.groups.borrow().contains_key(name)
    }

    /// Whether there is a classic one.
    pub(super) fn has_classic(&self, name: &str) -> bool {
        let groups = self.groups.borrow();
        groups
            .get(name)
            .is_some_and(|group| group.machine.classic().is_some())
    }

    /// Whether there is one of the consumer protocol.
    pub(super) fn has_consumer(&self, name: &str) -> bool {
        let groups = self.groups.borrow();
        groups
            .get(name)
            .is_some_and(|group| group.machine.consumer().is_some())
    }

    /// Makes an empty classic group, if there is none of its name.
    pub(super) fn make<R: Runtime>(&self, shard: &Shard<R, D>, name: &str) {
        if self.has(name) {
            return;
        }
        let now_ms = shard.groups.now_ms(shard.runtime.now());
        let machine = ClassicGroup::new(shard.groups.classic.clone(), now_ms);
        let group = Group::new(name, machine.into(), shard.groups.next_life());
        self.memory.change(0, group.bytes);
        self.groups.borrow_mut().insert(name.into(), group);
    }

    /// Calls a classic group with the time, and does what it asks for; `None` without such a group.
    pub(super) fn call<R: Runtime, T>(
        self: &Rc<Self>,
        shard: &Rc<Shard<R, D>>,
        name: &str,
        call: impl FnOnce(&mut ClassicGroup, i64, &mut Effects) -> T,
    ) -> Option<T> {
        let mut groups = self.groups.borrow_mut();
        let group = groups.get_mut(name)?;
        let Machine::Classic(machine) = &mut group.machine else {
            return None;
        };
        let now_ms = shard.groups.now_ms(shard.runtime.now());
        let mut effects = Effects::default();
        let result = call(machine, now_ms, &mut effects);
        self.settle(shard, name, group, effects, now_ms);
        Some(result)
    }

    /// The same with a ticket: what the group answers to it, now or later. `Err` if the group will not, as the coordinator
    /// has ended; `None` without such a group.
    pub(super) fn ask<R: Runtime>(
        self: &Rc<Self>,
        shard: &Rc<Shard<R, D>>,
        name: &str,
        ask: impl FnOnce(&mut ClassicGroup, Ticket, i64, &mut Effects),
    ) -> Option<OneshotReceiver<Answer>> {
        if !self.has_classic(name) {
            return None;
        }
        let ticket = self.next_ticket();
        let (sender, receiver) = oneshot();
        self.tickets.borrow_mut().insert(ticket, sender);
        self.call(shard, name, |machine, now_ms, effects| {
            ask(machine, ticket, now_ms, effects);
        })?;
        Some(receiver)
    }

    /// Counts anew what a group takes.
    pub(super) fn measure(&self, name: &str, group: &mut Group) {
        let bytes = Group::bytes_of(name) + group.machine.bytes();
        self.memory.change(group.bytes, bytes);
        group.bytes = bytes;
    }

    /// Enters a classic group that was replayed.
    pub(super) fn enter<R: Runtime>(
        self: &Rc<Self>,
        shard: &Rc<Shard<R, D>>,
        name: Rc<str>,
        machine: ClassicGroup,
        effects: Effects,
        now_ms: i64,
    ) {
        let mut group = Group::new(&name, machine.into(), shard.groups.next_life());
        self.memory.change(0, group.bytes);
        self.settle(shard, &name, &mut group, effects, now_ms);
        self.groups.borrow_mut().insert(name, group);
    }

    /// Does what a classic group asks for.
    pub(super) fn settle<R: Runtime>(
        self: &Rc<Self>,
        shard: &Rc<Shard<R, D>>,
        name: &str,
        group: &mut Group,
        mut effects: Effects,
        now_ms: i64,
    ) {
        while !effects.persists.is_empty() {
            for persist in std::mem::take(&mut effects.persists) {
                let mut value = persist.record;
                let to_wall = |since_ms| shard.groups.to_wall_ms(&shard.runtime, since_ms);
                value.state_since_ms = value.state_since_ms.map(to_wall);
                let record = OffsetsRecord::Group {
                    group: name.to_owned(),
                    value: Some(value),
                };
                match self.append(shard, &[record]) {
                    Ok(end) => self.tell_when_durable(shard, name, group.life, persist.id, end),
                    Err(code) => {
                        if let Machine::Classic(machine) = &mut group.machine {
                            machine.persisted(persist.id, Err(code), now_ms, &mut effects);
                        }
                    }
                }
            }
        }
        self.measure(name, group);
        for transition in effects.transitions.drain(..) {
            tracing::info!(
                shard = shard.number,
                group = name,
                from = %transition.from,
                to = %transition.to,
                generation = transition.generation,
                "group: {}",
                transition.reason
            );
        }
        self.answer(&mut effects);
        self.set_deadline(shard, name, group, now_ms);
    }

    fn tell_when_durable<R: Runtime>(
        self: &Rc<Self>,
        shard: &Rc<Shard<R, D>>,
        name: &str,
        life: u64,
        id: PersistId,
        end: i64,
    ) {
        let (coordinator, shard, name) = (self.clone(), shard.clone(), Rc::<str>::from(name));
        let runtime = shard.runtime.clone();
        runtime.spawn(Queue::Latency, async move {
            let result = coordinator.durable(&shard, end).await;
            let is_same = |group: &Group| group.life == life;
            if coordinator.groups.borrow().get(&name).is_some_and(is_same) {
                coordinator.call(&shard, &name, |machine, now_ms, effects| {
                    machine.persisted(id, result, now_ms, effects);
                });
            }
        });
    }

    /// An entry in the shard's deadlines for a group whose time came while the others were still being loaded.
    fn look_again<R: Runtime>(self: &Rc<Self>, shard: &Rc<Shard<R, D>>, name: &Rc<str>, group: &mut Group) {
        let at = shard.runtime.now() + WHILE_LOADING;
        let at_ms = shard.groups.now_ms(at);
        group.deadline = Some((at_ms, self.register(shard, name, at)));
    }

    fn register<R: Runtime>(
        self: &Rc<Self>,
        shard: &Rc<Shard<R, D>>,
        name: &Rc<str>,
        at: Monotonic,
    ) -> Deadline {
        let timer: Rc<dyn Expire> = Rc::new(GroupTimer {
            shard: Rc::downgrade(shard),
            coordinator: Rc::downgrade(self),
            group: name.clone(),
        });
        shard.deadlines.register(at, timer)
    }

    /// An entry in the shard's deadlines, unless an earlier one is there, which will look again.
    pub(super) fn set_deadline<R: Runtime>(
        self: &Rc<Self>,
        shard: &Rc<Shard<R, D>>,
        name: &str,
        group: &mut Group,
        now_ms: i64,
    ) {
        let Some(wanted) = group.machine.deadline_ms() else {
            group.deadline = None;
            return;
        };
        if group.deadline.as_ref().is_some_and(|(at, _)| *at <= wanted) {
            return;
        }
        let left = Duration::from_millis(u64::try_from(wanted - now_ms).unwrap_or_default());
        let entry = self.register(shard, &name.into(), shard.runtime.now() + left);
        group.deadline = Some((wanted, entry));
    }
}

impl Group {
    /// A group, with what it takes.
    pub(super) fn new(name: &str, machine: Machine, life: u64) -> Self {
        Self {
            bytes: Self::bytes_of(name) + machine.bytes(),
            machine,
            life,
            deadline: None,
            appended_end: 0,
            target_end: 0,
        }
    }

    /// What a group takes beside its machine.
    fn bytes_of(name: &str) -> usize {
        2 * size_of::<(Rc<str>, Self)>() + name.len() + GROUP_BYTES
    }
}

/// The deadline of a group.
struct GroupTimer<R: Runtime, D: Disk> {
    shard: Weak<Shard<R, D>>,
    coordinator: Weak<Coordinator<D>>,
    group: Rc<str>,
}

impl<R: Runtime, D: Disk> Expire for GroupTimer<R, D> {
    fn expire(&self) {
        let (Some(shard), Some(coordinator)) = (self.shard.upgrade(), self.coordinator.upgrade()) else {
            return;
        };
        // At a stop every deadline is over, the groups' with them.
        if shard.is_stopping() || coordinator.state() == State::Ended {
            return;
        }
        if let Some(group) = coordinator.groups.borrow_mut().get_mut(&self.group) {
            group.deadline = None;
            if coordinator.state() == State::Loading {
                // Nobody could reach its group yet: it has not been silent.
                coordinator.look_again(&shard, &self.group, group);
                return;
            }
        }
        if coordinator.has_consumer(&self.group) {
            coordinator.tick(&shard, &self.group);
            return;
        }
        coordinator.call(&shard, &self.group, |machine, now_ms, effects| {
            if machine.deadline_ms().is_some_and(|deadline| deadline <= now_ms) {
                machine.tick(now_ms, effects);
            }
        });
    }
}

/// What an answer of another kind than was asked for stands for: the machine has answered wrongly.
pub(super) fn unexpected() -> ErrorCode {
    ErrorCode::UnknownServerError
}
