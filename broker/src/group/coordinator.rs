//! One partition of `__consumer_offsets`: its groups and what they committed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use strandline_core::group::classic::{Answer, Effects, Ticket};
use strandline_core::group::offsets::OffsetStore;
use strandline_runtime::local::{Event, OneshotSender};
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;

use super::machine::Machine;
use super::memory::GroupMemory;
use crate::shard::{Deadline, Partition, Topic};

/// How far a coordinator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The partition is being replayed.
    Loading,
    /// Its groups are served.
    Active,
    /// It is not led here any more, or could not be replayed.
    Ended,
}

/// The coordinator of the groups of one partition.
pub(crate) struct Coordinator<D: Disk> {
    pub(super) topic: Rc<Topic<D>>,
    pub(super) partition: Rc<Partition<D>>,
    state: Cell<State>,
    pub(super) offsets: RefCell<OffsetStore>,
    pub(super) groups: RefCell<BTreeMap<Rc<str>, Group>>,
    /// Groups whose next target is about to be computed, and who waits for it.
    pub(super) awaited: RefCell<BTreeMap<Rc<str>, Event>>,
    /// Requests that wait for a group's answer.
    pub(super) tickets: RefCell<BTreeMap<Ticket, OneshotSender<Answer>>>,
    next_ticket: Cell<u64>,
    /// Behind the last record that was appended: what is told of offsets waits until that is durable.
    pub(super) appended_end: Cell<i64>,
    pub(super) memory: Rc<GroupMemory>,
}

/// A group in memory.
pub(super) struct Group {
    pub(super) machine: Machine,
    /// Tells it from an earlier one of its name.
    pub(super) life: u64,
    /// When it wants to be called, and the entry that calls it.
    pub(super) deadline: Option<(i64, Deadline)>,
    /// About what it takes in memory.
    pub(super) bytes: usize,
    /// Behind its last record: what is told of a group of the consumer protocol waits until that is durable.
    pub(super) appended_end: i64,
    /// Behind its last target assignment: the next one is computed once that is durable.
    pub(super) target_end: i64,
}

impl<D: Disk> Coordinator<D> {
    pub(super) fn new(topic: Rc<Topic<D>>, partition: Rc<Partition<D>>, memory: Rc<GroupMemory>) -> Self {
        Self {
            topic,
            partition,
            state: Cell::new(State::Loading),
            offsets: RefCell::default(),
            groups: RefCell::default(),
            awaited: RefCell::default(),
            tickets: RefCell::default(),
            next_ticket: Cell::new(0),
            appended_end: Cell::new(0),
            memory,
        }
    }

    pub(super) fn set_state(&self, state: State) {
        self.state.set(state);
    }

    pub(super) fn state(&self) -> State {
        self.state.get()
    }

    /// Whether its groups are served.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS, or NOT_COORDINATOR.
    pub(crate) fn check(&self) -> Result<(), ErrorCode> {
        match self.state.get() {
            _ if self.partition.lost().is_some() => Err(ErrorCode::NotCoordinator),
            State::Loading => Err(ErrorCode::CoordinatorLoadInProgress),
            State::Active => Ok(()),
            State::Ended => Err(ErrorCode::NotCoordinator),
        }
    }

    pub(super) fn next_ticket(&self) -> Ticket {
        Ticket(self.next_ticket.replace(self.next_ticket.get() + 1))
    }

    /// Serves no more: every request that waits is told so.
    pub(super) fn end(&self) {
        self.state.set(State::Ended);
        let groups = std::mem::take(&mut *self.groups.borrow_mut());
        for mut group in groups.into_values() {
            self.memory.change(group.bytes, 0);
            let mut effects = Effects::default();
            // Those of the consumer protocol are answered at once; what waits is the handlers'.
            if let Machine::Classic(machine) = &mut group.machine {
                machine.die(ErrorCode::NotCoordinator, 0, &mut effects);
            }
            self.answer(&mut effects);
        }
        // Nobody is left to answer these: their requests see the sender go.
        drop(std::mem::take(&mut *self.tickets.borrow_mut()));
        let offsets = std::mem::take(&mut *self.offsets.borrow_mut());
        self.memory.change(offsets.bytes(), 0);
    }

    /// Takes a group out; its offsets stay.
    pub(super) fn remove(&self, name: &str) -> Option<Group> {
        let removed = self.groups.borrow_mut().remove(name)?;
        self.memory.change(removed.bytes, 0);
        Some(removed)
    }

    /// Hands out the answers that are due.
    pub(super) fn answer(&self, effects: &mut Effects) {
        for (ticket, answer) in effects.answers.drain(..) {
            let sender = self.tickets.borrow_mut().remove(&ticket);
            if let Some(sender) = sender {
                // One whose client went away is told to nobody.
                let _ = sender.send(answer);
            }
        }
    }
}
