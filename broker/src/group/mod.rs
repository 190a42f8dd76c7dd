//! The group coordinator of a shard: the groups whose partition of `__consumer_offsets` the shard leads.
//!
//! A [`Coordinator`] is one such partition: its groups, their committed offsets, and the log that keeps both. What a
//! group does is decided in [`strandline_core::group`]; here it is given requests and time, and its records are
//! appended. Map: [`load`] replays a partition; [`drive`] runs groups and does what they ask for, [`consumer`] those of the
//! consumer protocol (KIP-848), and what changes from one protocol to the other; [`target`] lets members that come together
//! share a target; [`write`] appends and waits; [`expiry`] takes away what is old or whose topic is gone; `report` copies
//! what a scrape shows; `handlers`: one file an API.
//!
//! Invariants:
//! - Until a partition is replayed to the end it had when this shard began to lead it, nobody is told anything of it but
//!   COORDINATOR_LOAD_IN_PROGRESS.
//! - What an answer tells is durable: a commit is acknowledged, and an offset told, once its record is as with `acks=all`.
//! - Between looking at a group and appending its record nothing is awaited.

mod consumer;
mod coordinator;
mod drive;
mod expiry;
pub(crate) mod handlers;
mod load;
mod machine;
mod memory;
mod report;
mod target;
mod write;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use strandline_core::config::{ConsumerGroupSettings, GroupSettings, StaticConfig};
use strandline_core::group::classic::ClassicConfig;
use strandline_core::group::consumer::ConsumerGroupConfig;
use strandline_core::group::offsets::{OFFSETS_TOPIC, partition_of};
use strandline_core::metadata::ClusterImage;
use strandline_runtime::{Monotonic, Queue, Runtime};
use strandline_storage::MemoryBudget;
use strandline_storage::disk::Disk;
use strandline_wire::{ErrorCode, Uuid};

pub(crate) use coordinator::Coordinator;
pub(crate) use expiry::run as expire_offsets;
pub(crate) use report::report;

use self::coordinator::State;
use self::load::Loads;
use self::memory::GroupMemory;
use crate::shard::Shard;

/// The groups of one shard.
pub(crate) struct Groups<D: Disk> {
    pub(crate) settings: GroupSettings,
    pub(crate) classic: Rc<ClassicConfig>,
    pub(crate) consumer: ConsumerGroupSettings,
    /// By number of the partition of `__consumer_offsets`.
    coordinators: RefCell<BTreeMap<i32, Rc<Coordinator<D>>>>,
    memory: Rc<GroupMemory>,
    loads: Loads,
    /// The topic of the offsets that every shard of the node is known to serve.
    pub(crate) offsets_topic: Cell<Option<Uuid>>,
    /// Numbers for groups in memory, so that what one asked for is never told to a later one of its name.
    next_life: Cell<u64>,
    /// A reading of both clocks: groups count by the monotonic one, which nobody sets back.
    started: Monotonic,
    started_ms: i64,
}

impl<D: Disk> Groups<D> {
    /// No groups; they may take `bytes_max` of `budget`. `started` and `started_ms` are one reading of both clocks.
    pub(crate) fn new(
        node: &StaticConfig,
        budget: MemoryBudget,
        bytes_max: usize,
        started: Monotonic,
        started_ms: i64,
    ) -> Self {
        let settings = GroupSettings::new(node);
        Self {
            settings,
            classic: Rc::new(ClassicConfig {
                session_timeout_min_ms: settings.session_timeout_min_ms,
                session_timeout_max_ms: settings.session_timeout_max_ms,
                initial_rebalance_delay_ms: settings.initial_rebalance_delay_ms,
                size_max: settings.size_max,
            }),
            consumer: ConsumerGroupSettings::new(node),
            coordinators: RefCell::default(),
            memory: Rc::new(GroupMemory::new(budget, bytes_max)),
            loads: Loads::default(),
            offsets_topic: Cell::new(None),
            next_life: Cell::new(0),
            started,
            started_ms,
        }
    }

    /// What a group of the consumer protocol is configured with.
    pub(crate) fn consumer_config(&self, image: &ClusterImage, group: &str) -> Rc<ConsumerGroupConfig> {
        self.consumer.of_group(image.group_config(group))
    }

    /// The time as groups count it, in milliseconds since 1970.
    pub(crate) fn now_ms(&self, now: Monotonic) -> i64 {
        let passed = now.since(self.started).as_millis();
        self.started_ms
            .saturating_add(i64::try_from(passed).unwrap_or(i64::MAX))
    }

    /// A moment of groups' time by the wall clock of now: so is one kept that outlives the process.
    pub(crate) fn to_wall_ms<R: Runtime>(&self, runtime: &R, moment_ms: i64) -> i64 {
        moment_ms.saturating_add(self.behind_wall_ms(runtime))
    }

    /// The reverse, never before 1970: a wall clock that was set back does not make a moment unknown.
    pub(crate) fn of_wall_ms<R: Runtime>(&self, runtime: &R, wall_ms: i64) -> i64 {
        wall_ms.saturating_sub(self.behind_wall_ms(runtime)).max(0)
    }

    fn behind_wall_ms<R: Runtime>(&self, runtime: &R) -> i64 {
        runtime.wall_clock_ms().saturating_sub(self.now_ms(runtime.now()))
    }

    fn next_life(&self) -> u64 {
        self.next_life.replace(self.next_life.get() + 1)
    }

    /// Whether the groups hold all the memory that they may: no new member and no offset of another partition is taken.
    pub(crate) fn are_full(&self) -> bool {
        self.memory.is_full()
    }

    /// Whether the groups may hold `bytes` more.
    pub(crate) fn have_room_for(&self, bytes: usize) -> bool {
        self.memory.has_room_for(bytes)
    }

    /// Every coordinator, by number of its partition.
    pub(crate) fn all(&self) -> Vec<Rc<Coordinator<D>>> {
        self.coordinators.borrow().values().cloned().collect()
    }

    /// The shard stops: whoever waits for a group is told to look for another coordinator.
    pub(crate) fn stop(&self) {
        let all = std::mem::take(&mut *self.coordinators.borrow_mut());
        for coordinator in all.into_values() {
            coordinator.end();
        }
    }
}

impl<R: Runtime, D: Disk> Shard<R, D> {
    /// The coordinator of a group.
    ///
    /// # Errors
    /// NOT_COORDINATOR if another shard's, COORDINATOR_LOAD_IN_PROGRESS while it is not known what the group is.
    pub(crate) fn coordinator_of(&self, group: &str) -> Result<Rc<Coordinator<D>>, ErrorCode> {
        let image = self.image();
        let topic = image
            .topic_by_name(OFFSETS_TOPIC)
            .ok_or(ErrorCode::NotCoordinator)?;
        let number = partition_of(group, topic.partitions.len() as i32);
        let coordinators = self.groups.coordinators.borrow();
        let coordinator = coordinators.get(&number).ok_or(ErrorCode::NotCoordinator)?;
        coordinator.check()?;
        Ok(coordinator.clone())
    }
}

/// Begins to coordinate what the shard leads by a new image, ends what it no longer leads, and forgets the offsets of
/// topics that are gone.
pub(crate) fn image_changed<R: Runtime, D: Disk>(
    shard: &Rc<Shard<R, D>>,
    before: &ClusterImage,
    after: &ClusterImage,
) {
    let groups = &shard.groups;
    let topic = shard.topics.by_name(OFFSETS_TOPIC);
    let led = topic.as_ref().map_or_else(Vec::new, |topic| topic.led());
    let ended: Vec<_> = {
        let mut coordinators = groups.coordinators.borrow_mut();
        let is_led = |coordinator: &Rc<Coordinator<D>>| {
            led.iter()
                .any(|partition| Rc::ptr_eq(partition, &coordinator.partition))
        };
        coordinators
            .extract_if(.., |_, coordinator| !is_led(coordinator))
            .map(|(_, coordinator)| coordinator)
            .collect()
    };
    for coordinator in ended {
        coordinator.end();
    }
    if shard.is_stopping() {
        return;
    }
    let deleted: Rc<[String]> = before
        .topics()
        .filter(|topic| after.topic(topic.id).is_none())
        .map(|topic| topic.name.clone())
        .collect();
    if !deleted.is_empty() {
        for coordinator in groups.all() {
            expiry::forget_topics(shard, &coordinator, &deleted);
        }
    }
    let Some(topic) = topic else { return };
    for partition in led {
        let number = partition.number;
        if groups.coordinators.borrow().contains_key(&number) {
            continue;
        }
        let coordinator = Rc::new(Coordinator::new(topic.clone(), partition, groups.memory.clone()));
        groups
            .coordinators
            .borrow_mut()
            .insert(number, coordinator.clone());
        if coordinator.partition.log.end_offset() == coordinator.partition.log.start_offset() {
            // A new topic's groups can be used at once.
            coordinator.set_state(State::Active);
        } else {
            shard
                .runtime
                .spawn(Queue::Latency, load::run(shard.clone(), coordinator));
        }
    }
}
