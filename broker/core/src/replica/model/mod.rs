//! Several replicas of one partition, their links and the quorum's own `apply`, driven by a seed: messages are lost,
//! delayed and swapped, shards crash and lose what they had not flushed, fencings and elections come at any time.
//!
//! After every step: what was committed is flushed on everyone who is in sync or eligible, and no two replicas differ
//! below a high watermark. At the end, once everything works again, all replicas are in sync and equal.

mod log;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use uuid::Uuid;

use self::log::Log;
use super::message::{Ack, FrameInfo, FramesHead, Open, OpenAnswer, Opened};
use super::*;
use crate::metadata::*;

const LAG_MS: i64 = 10_000;
const TOPIC: Uuid = Uuid::from_u128(5);
const P: PartitionReference = PartitionReference {
    topic: TOPIC,
    partition: 0,
};
const NODES: i32 = 4;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

enum Role {
    None,
    Leader {
        machine: Box<LeaderReplica>,
        /// For each follower: its open, and the next offset to send.
        cursors: BTreeMap<BrokerId, (u32, i64)>,
        /// Appends with acks=all that wait: end, chain value.
        waiting: Vec<(i64, u64)>,
    },
    Follower {
        machine: Box<FollowerReplica>,
        leader: BrokerId,
    },
}

struct Shard {
    id: BrokerId,
    alive: bool,
    epoch: BrokerEpoch,
    image: ClusterImage,
    log: Log,
    high_watermark: i64,
    role: Role,
}

#[derive(Clone, Debug)]
enum Message {
    Open(Open),
    Opened(Opened),
    Frames(FramesHead, Vec<FrameInfo>),
    Ack(Ack),
}

type Outcome = Result<AlteredPartition, strandline_wire::ErrorCode>;

struct World {
    random: Random,
    now_ms: i64,
    quorum: ClusterImage,
    shards: BTreeMap<BrokerId, Shard>,
    links: BTreeMap<(BrokerId, BrokerId), VecDeque<Message>>,
    proposals: Vec<(BrokerId, BrokerEpoch, AlterPartition)>,
    answers: Vec<(BrokerId, BrokerEpoch, LeaderEpoch, u64, Outcome)>,
    /// Every frame that was below a leader's high watermark, by its base offset.
    committed: BTreeMap<i64, FrameInfo>,
    acknowledged: BTreeSet<u64>,
    next_chain: u64,
    seen: Seen,
}

/// What happened, so that a run which proves nothing is noticed.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    acknowledged: usize,
    shrinks: usize,
    expands: usize,
    elections: usize,
    eligible_elections: usize,
    truncations: usize,
    restarts: usize,
    lost_frames: usize,
    completed_moves: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            random: Random(seed),
            now_ms: 0,
            quorum: ClusterImage::default(),
            shards: BTreeMap::new(),
            links: BTreeMap::new(),
            proposals: Vec::new(),
            answers: Vec::new(),
            committed: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            next_chain: 1,
            seen: Seen::default(),
        };
        let cluster_id = Uuid::from_u128(1);
        world.apply(&Command::InitializeCluster { cluster_id });
        world.apply(&Command::FinalizeMetadataVersion {
            version: MetadataVersion::REPLICATION,
        });
        for node in 1..=NODES {
            let shard = Shard {
                id: NodeId(node).broker(0),
                alive: false,
                epoch: BrokerEpoch(-1),
                image: ClusterImage::default(),
                log: Log::default(),
                high_watermark: 0,
                role: Role::None,
            };
            let id = shard.id;
            world.shards.insert(id, shard);
            world.start(id);
            world.unfence(id);
        }
        let minimum = 1 + world.random.below(2);
        let topic = NewTopic {
            name: "t".into(),
            id: TOPIC,
            layout: PartitionLayout::Manual(vec![vec![BrokerId(1000), BrokerId(2000), BrokerId(3000)]]),
            configs: [("min.insync.replicas".to_owned(), minimum.to_string())].into(),
        };
        world.apply(&Command::CreateTopics { topics: vec![topic] });
        world.ids().into_iter().for_each(|id| world.deliver_image(id));
        world
    }

    fn ids(&self) -> Vec<BrokerId> {
        self.shards.keys().copied().collect()
    }

    fn partition(&self) -> Option<&Partition> {
        self.quorum.partition(TOPIC, 0)
    }

    fn apply(&mut self, command: &Command) -> Answer {
        let before = self.partition().cloned();
        let answer = self.quorum.apply(command);
        if let (Some(before), Some(after)) = (before, self.partition().cloned()) {
            self.seen.shrinks += usize::from(after.isr.len() < before.isr.len());
            self.seen.expands += usize::from(after.isr.len() > before.isr.len());
            self.seen.completed_moves += usize::from(before.is_reassigning() && !after.is_reassigning());
            if after.leader != before.leader && after.leader != BrokerId::NONE {
                self.seen.elections += 1;
                self.seen.eligible_elections += usize::from(before.elr.contains(&after.leader));
            }
        }
        answer
    }

    /// The shard starts and registers; it is fenced until it says that it serves.
    fn start(&mut self, id: BrokerId) {
        let registration = Command::RegisterNode(NodeRegistration {
            node: id.node(),
            directory_id: Uuid::from_u128(id.0 as u128),
            boot_id: String::new(),
            rack: format!("{id}"),
            shards: vec![ShardRegistration {
                shard: 0,
                directory_id: Uuid::from_u128(id.0 as u128),
                endpoints: Vec::new(),
                link: None,
                damaged: Vec::new(),
            }],
        });
        let Answer::Registered(Ok(epoch)) = self.apply(&registration) else {
            panic!("refused")
        };
        let shard = self.shards.get_mut(&id).unwrap();
        shard.alive = true;
        shard.epoch = epoch;
    }

    fn unfence(&mut self, id: BrokerId) {
        let brokers = vec![(id, self.shards[&id].epoch)];
        self.apply(&Command::UnfenceBrokers { brokers });
    }

    fn fence(&mut self, id: BrokerId) {
        let brokers = vec![(id, self.quorum.broker(id).unwrap().epoch)];
        self.apply(&Command::FenceBrokers { brokers });
    }

    fn crash(&mut self, id: BrokerId) {
        let forgets = self.random.below(2) == 0;
        let shard = self.shards.get_mut(&id).unwrap();
        shard.alive = false;
        shard.role = Role::None;
        self.seen.lost_frames += shard.log.frames.len() - shard.log.flushed;
        shard.log.frames.truncate(shard.log.flushed);
        if forgets {
            shard.high_watermark = shard.log.start;
        }
        shard.high_watermark = shard.high_watermark.min(shard.log.end());
        self.links.retain(|(from, to), _| *from != id && *to != id);
        self.reconnect(id);
    }

    /// Followers of `id` find their link closed and connect again.
    fn reconnect(&mut self, id: BrokerId) {
        for other in self.ids() {
            if matches!(self.shards[&other].role, Role::Follower { leader, .. } if leader == id) {
                self.follower_step(other, FollowerEvent::Connected, &[]);
            }
        }
    }

    fn deliver_image(&mut self, id: BrokerId) {
        let image = self.quorum.clone();
        let now_ms = self.now_ms;
        let shard = self.shards.get_mut(&id).unwrap();
        if !shard.alive || image.broker(id).is_none_or(|broker| broker.epoch != shard.epoch) {
            return;
        }
        shard.image = image.clone();
        let Some(topic) = image.topic(TOPIC) else { return };
        let partition = &topic.partitions[0];
        if partition.leader == id {
            let assignment = Assignment::of(&image, topic, partition);
            if let Role::Leader { machine, .. } = &shard.role
                && machine.leader_epoch() == partition.leader_epoch
            {
                self.leader_step(id, LeaderEvent::Assigned(assignment));
                return;
            }
            let ends = shard.log.ends();
            let machine = LeaderReplica::lead(id, assignment, ends, shard.high_watermark, LAG_MS, now_ms);
            shard.high_watermark = machine.high_watermark();
            shard.role = Role::Leader {
                machine: Box::new(machine),
                cursors: BTreeMap::new(),
                waiting: Vec::new(),
            };
            self.note_committed(id);
        } else if !partition.replicas.contains(&id) {
            shard.role = Role::None;
            shard.log = Log::default();
            shard.high_watermark = 0;
        } else if let Some(leader) = image.broker(partition.leader) {
            if let Role::Follower { machine, .. } = &shard.role
                && machine.state().leader_epoch == partition.leader_epoch
            {
                return;
            }
            let state = FollowerState {
                broker: id,
                broker_epoch: shard.epoch,
                leader_epoch: partition.leader_epoch,
                leader_broker_epoch: leader.epoch,
                lossy_epoch: partition.lossy_epoch,
            };
            let machine = FollowerReplica::follow(state, shard.log.position(), shard.high_watermark);
            shard.role = Role::Follower {
                machine: Box::new(machine),
                leader: partition.leader,
            };
            self.follower_step(id, FollowerEvent::Connected, &[]);
        } else {
            shard.role = Role::None;
        }
    }

    fn send(&mut self, from: BrokerId, to: BrokerId, message: Message) {
        self.links.entry((from, to)).or_default().push_back(message);
    }

    fn leader_step(&mut self, id: BrokerId, event: LeaderEvent) {
        let now_ms = self.now_ms;
        let shard = self.shards.get_mut(&id).unwrap();
        let Role::Leader { machine, .. } = &mut shard.role else {
            return;
        };
        let effects = machine.step(event, now_ms);
        if let Some(request) = effects.alter_partition {
            self.proposals.push((id, shard.epoch, request));
        }
        if let Some(high_watermark) = effects.high_watermark {
            shard.high_watermark = high_watermark;
            self.note_committed(id);
        }
        self.note_acknowledged(id);
    }

    fn note_acknowledged(&mut self, id: BrokerId) {
        let Role::Leader { machine, waiting, .. } = &mut self.shards.get_mut(&id).unwrap().role else {
            return;
        };
        let acknowledged = &mut self.acknowledged;
        waiting.retain(|(end, chain)| match machine.acknowledgement(Acks::All, *end) {
            Acknowledgement::Given => !acknowledged.insert(*chain),
            _ => true,
        });
        self.seen.acknowledged = self.acknowledged.len();
    }

    fn note_committed(&mut self, id: BrokerId) {
        let shard = &self.shards[&id];
        for frame in shard
            .log
            .frames
            .iter()
            .take_while(|frame| frame.end_offset <= shard.high_watermark)
        {
            let known = self.committed.entry(frame.base_offset).or_insert(*frame);
            assert_eq!(known, frame, "two logs were committed");
        }
    }

    fn follower_step(&mut self, id: BrokerId, event: FollowerEvent<'_>, frames: &[FrameInfo]) {
        let now_ms = self.now_ms;
        let mut effects = Vec::new();
        let shard = self.shards.get_mut(&id).unwrap();
        let Role::Follower { machine, leader } = &mut shard.role else {
            return;
        };
        let leader = *leader;
        machine.step(event, now_ms, &mut effects);
        let mut cut = false;
        for effect in effects {
            let shard = self.shards.get_mut(&id).unwrap();
            match effect {
                FollowerEffect::Open(open) => self.send(id, leader, Message::Open(open)),
                FollowerEffect::Ack(ack) => self.send(id, leader, Message::Ack(ack)),
                FollowerEffect::Append(count) => shard.log.frames.extend(&frames[..count]),
                FollowerEffect::HighWatermark(offset) => shard.high_watermark = offset,
                FollowerEffect::RaiseStart(offset) => shard.log.raise_start(offset),
                FollowerEffect::Truncate(to) => {
                    shard.log.truncate(to);
                    self.seen.truncations += 1;
                    cut = true;
                }
                FollowerEffect::Restart(start) => {
                    shard.log = Log {
                        start,
                        ..Log::default()
                    };
                    shard.high_watermark = start;
                    self.seen.restarts += 1;
                    cut = true;
                }
                FollowerEffect::Quarantine(reason) => {
                    panic!(
                        "{id}: {reason}: {:?} after {:?}",
                        self.shards[&id].log, self.shards[&leader].log
                    )
                }
            }
        }
        if cut {
            let position = self.shards[&id].log.position();
            self.follower_step(id, FollowerEvent::Cut(position), &[]);
        }
    }

    fn receive(&mut self, from: BrokerId, to: BrokerId, message: Message) {
        match message {
            Message::Open(open) => {
                let shard = self.shards.get_mut(&to).unwrap();
                let known = shard.log.end_of_epoch(open.last_epoch);
                let Role::Leader { machine, cursors, .. } = &mut shard.role else {
                    return;
                };
                let Some(opened) = machine.open(&open, known) else {
                    return;
                };
                match opened.answer {
                    OpenAnswer::Stream => cursors.insert(from, (open.open, open.end)),
                    _ => cursors.remove(&from),
                };
                self.send(to, from, Message::Opened(opened));
            }
            Message::Opened(opened) => {
                let local = match opened.answer {
                    OpenAnswer::Diverging { epoch, .. } => self.shards[&to].log.end_of_epoch(epoch),
                    _ => None,
                };
                self.follower_step(to, FollowerEvent::Opened { opened, local }, &[]);
            }
            Message::Frames(head, frames) => {
                let event = FollowerEvent::Frames {
                    head,
                    frames: &frames,
                };
                self.follower_step(to, event, &frames);
            }
            Message::Ack(ack) => self.leader_step(to, LeaderEvent::Ack(ack)),
        }
    }

    fn produce(&mut self, id: BrokerId) {
        let length = 1 + self.random.below(3) as i64;
        let shard = self.shards.get_mut(&id).unwrap();
        let Role::Leader { machine, waiting, .. } = &mut shard.role else {
            return;
        };
        if machine.may_append(Acks::All).is_err() {
            return;
        }
        let frame = FrameInfo {
            base_offset: shard.log.end(),
            end_offset: shard.log.end() + length,
            leader_epoch: machine.leader_epoch().0,
            previous: shard.log.last().map_or(0, |frame| frame.chain),
            chain: self.next_chain,
            gap: false,
        };
        self.next_chain += 1;
        shard.log.frames.push(frame);
        waiting.push((frame.end_offset, frame.chain));
        self.log_moved(id);
    }

    fn log_moved(&mut self, id: BrokerId) {
        let ends = self.shards[&id].log.ends();
        self.leader_step(id, LeaderEvent::Log(ends));
        self.follower_step(id, FollowerEvent::Flushed(ends.own_end), &[]);
    }

    fn flush(&mut self, id: BrokerId) {
        let shard = self.shards.get_mut(&id).unwrap();
        if shard.alive {
            shard.log.flushed = shard.log.frames.len();
            self.log_moved(id);
        }
    }

    /// A leader sends what its followers lack.
    fn pump(&mut self, id: BrokerId) {
        let shard = self.shards.get_mut(&id).unwrap();
        let Role::Leader { machine, cursors, .. } = &mut shard.role else {
            return;
        };
        let (mut messages, mut closed) = (Vec::new(), Vec::new());
        for (follower, (open, next)) in cursors.iter_mut() {
            if *next < shard.log.start {
                closed.push(*follower);
                continue;
            }
            let head = FramesHead {
                broker_epoch: shard.epoch,
                leader_epoch: machine.leader_epoch(),
                open: *open,
                high_watermark: machine.high_watermark(),
                log_start: shard.log.start,
            };
            let frames = shard.log.frames.iter().filter(|frame| frame.end_offset > *next);
            let frames: Vec<FrameInfo> = frames.take(3).copied().collect();
            *next = frames.last().map_or(*next, |frame| frame.end_offset);
            messages.push((*follower, Message::Frames(head, frames)));
        }
        cursors.retain(|follower, _| !closed.contains(follower));
        messages
            .into_iter()
            .for_each(|(follower, message)| self.send(id, follower, message));
        for follower in closed {
            self.follower_step(follower, FollowerEvent::Connected, &[]);
        }
    }

    fn delete_records(&mut self, id: BrokerId) {
        let pick = self.random.below(4);
        let shard = self.shards.get_mut(&id).unwrap();
        let high_watermark = shard.high_watermark;
        if let Role::Leader { .. } = shard.role {
            let below = shard
                .log
                .frames
                .iter()
                .filter(|frame| frame.end_offset <= high_watermark);
            if let Some(start) = below.map(|frame| frame.end_offset).nth(pick) {
                shard.log.raise_start(start);
                self.log_moved(id);
            }
        }
    }

    fn decide(&mut self, at: usize, keep: bool) {
        let (id, epoch, request) = match keep {
            true => self.proposals[at].clone(),
            false => self.proposals.swap_remove(at),
        };
        let command = Command::AlterPartitions {
            leader: id,
            epoch,
            changes: vec![IsrChange {
                partition: P,
                leader_epoch: request.leader_epoch,
                partition_epoch: request.partition_epoch,
                isr: request.isr,
            }],
        };
        let Answer::PartitionsAltered(mut answers) = self.apply(&command) else {
            panic!("another answer")
        };
        let outcome = answers.remove(0).map_err(|error| error.code());
        self.answers
            .push((id, epoch, request.leader_epoch, request.attempt, outcome));
    }

    fn answer(&mut self, at: usize) {
        let (id, epoch, leader_epoch, attempt, outcome) = self.answers.swap_remove(at);
        let shard = &self.shards[&id];
        let same =
            matches!(&shard.role, Role::Leader { machine, .. } if machine.leader_epoch() == leader_epoch);
        if shard.epoch == epoch && same {
            self.leader_step(id, LeaderEvent::Altered { attempt, outcome });
        }
    }

    fn tick(&mut self, ms: i64) {
        self.now_ms += ms;
        for id in self.ids() {
            self.leader_step(id, LeaderEvent::Tick);
            self.follower_step(id, FollowerEvent::Tick, &[]);
        }
    }

    fn step(&mut self) {
        let ids = self.ids();
        let id = ids[self.random.below(ids.len())];
        let alive = self.shards[&id].alive;
        match self.random.below(100) {
            0..14 => ids.iter().for_each(|id| self.produce(*id)),
            14..26 => self.flush(id),
            26..38 => self.pump(id),
            38..66 => self.deliver_message(),
            66..69 => self.lose_message(),
            69..77 => self.deliver_image(id),
            77..82 => {
                let ms = [10, 400, 1_200, 6_000][self.random.below(4)];
                self.tick(ms);
            }
            82..86 if !self.proposals.is_empty() => {
                let at = self.random.below(self.proposals.len());
                let again = self.random.below(4) == 0;
                self.decide(at, again);
            }
            86..89 if !self.answers.is_empty() => {
                let at = self.random.below(self.answers.len());
                match self.random.below(4) {
                    0 => drop(self.answers.swap_remove(at)),
                    _ => self.answer(at),
                }
            }
            89..91 if alive => self.crash(id),
            89..92 if !alive => self.start(id),
            92..95 if alive && self.quorum.broker(id).is_some_and(|broker| broker.fenced) => {
                self.deliver_image(id);
                self.unfence(id);
            }
            95 => self.fence(id),
            96 => self.delete_records(id),
            97 => {
                let election = Command::ElectLeaders {
                    election: Election::Preferred,
                    partitions: vec![P],
                };
                self.apply(&election);
            }
            98 => self.reassign(),
            99 => {
                let minimum = (1 + self.random.below(3)).to_string();
                let operations = vec![("min.insync.replicas".to_owned(), ConfigOperation::Set(minimum))];
                let change = ConfigChange {
                    resource: ConfigResource::Topic("t".into()),
                    replace: false,
                    operations,
                };
                self.apply(&Command::AlterConfigs {
                    changes: vec![change],
                });
            }
            _ => {}
        }
    }

    fn reassign(&mut self) {
        let mut target = self.ids();
        target.remove(self.random.below(target.len()));
        let first = self.random.below(target.len());
        target.rotate_left(first);
        let replicas = (self.random.below(4) > 0).then_some(target);
        let reassignment = Reassignment {
            partition: P,
            replicas,
            allow_factor_change: true,
        };
        self.apply(&Command::AlterReassignments {
            reassignments: vec![reassignment],
        });
    }

    fn busy_link(&mut self) -> Option<(BrokerId, BrokerId)> {
        let busy = self.links.iter().filter(|(_, queue)| !queue.is_empty());
        let busy: Vec<(BrokerId, BrokerId)> = busy.map(|(link, _)| *link).collect();
        (!busy.is_empty()).then(|| busy[self.random.below(busy.len())])
    }

    fn deliver_message(&mut self) {
        let Some((from, to)) = self.busy_link() else {
            return;
        };
        let swap = self.random.below(10) == 0;
        let queue = self.links.get_mut(&(from, to)).unwrap();
        if swap && queue.len() > 1 {
            queue.swap(0, 1);
        }
        let message = queue.pop_front().unwrap();
        if self.shards[&to].alive {
            self.receive(from, to, message);
        }
    }

    /// One message, or all of a link and the link with them.
    fn lose_message(&mut self) {
        let Some((from, to)) = self.busy_link() else {
            return;
        };
        if self.random.below(2) == 0 {
            self.links.get_mut(&(from, to)).unwrap().pop_front();
            return;
        }
        self.links.remove(&(from, to));
        self.links.remove(&(to, from));
        self.reconnect(from);
        self.reconnect(to);
    }

    fn check(&self) {
        let partition = self.partition().unwrap();
        for member in partition.isr.iter().chain(&partition.elr) {
            let log = &self.shards[member].log;
            let held = &log.frames[..log.flushed];
            for frame in self
                .committed
                .values()
                .filter(|frame| frame.end_offset > log.start)
            {
                let at = held.partition_point(|other| other.base_offset < frame.base_offset);
                assert_eq!(
                    held.get(at),
                    Some(frame),
                    "{member} is in ISR or ELR and lacks it: {partition:?}"
                );
            }
        }
        for shard in self.shards.values() {
            for frame in shard
                .log
                .frames
                .iter()
                .take_while(|frame| frame.end_offset <= shard.high_watermark)
            {
                let known = self.committed.get(&frame.base_offset);
                assert_eq!(known, Some(frame), "{} may be read and differs", shard.id);
            }
            assert!(shard.high_watermark <= shard.log.end().max(shard.log.start));
        }
        let chains: BTreeSet<u64> = self.committed.values().map(|frame| frame.chain).collect();
        assert!(
            self.acknowledged.is_subset(&chains),
            "acknowledged and not committed"
        );
    }

    /// Everything works from here on: all replicas come into sync.
    fn heal(&mut self) {
        for id in self.ids() {
            if !self.shards[&id].alive {
                self.start(id);
            }
            // A link that lost a message is found out and closed.
            self.reconnect(id);
        }
        for _ in 0..200 {
            for id in self.ids() {
                self.deliver_image(id);
                self.unfence(id);
                self.flush(id);
                self.pump(id);
            }
            while let Some((from, to)) = self.busy_link() {
                let message = self.links.get_mut(&(from, to)).unwrap().pop_front().unwrap();
                self.receive(from, to, message);
            }
            while !self.proposals.is_empty() {
                self.decide(0, false);
            }
            while !self.answers.is_empty() {
                self.answer(0);
            }
            self.check();
            self.tick(600);
            if self.is_whole() {
                return;
            }
        }
        let logs = self
            .shards
            .values()
            .map(|shard| (shard.id, &shard.log, shard.high_watermark));
        let logs: Vec<_> = logs.collect();
        panic!("it does not heal: {:?} {logs:?}", self.partition());
    }

    fn is_whole(&self) -> bool {
        let partition = self.partition().unwrap();
        let Some(leader) = self.shards.get(&partition.leader) else {
            return false;
        };
        // A replica may know of a deletion that its new leader does not.
        let from = |log: &Log, start: i64| -> Vec<FrameInfo> {
            let kept = log.frames.iter().filter(|frame| frame.base_offset >= start);
            kept.copied().collect()
        };
        let same = |member: &BrokerId| {
            let (shard, end) = (&self.shards[member], leader.log.end());
            let start = shard.log.start.max(leader.log.start);
            from(&shard.log, start) == from(&leader.log, start)
                && shard.high_watermark == end
                && shard.log.flushed_end() == end
        };
        !partition.is_reassigning()
            && partition.isr.len() == partition.replicas.len()
            && partition.replicas.iter().all(same)
    }
}

fn run(seed: u64, steps: usize) -> Seen {
    let mut world = World::new(seed);
    for _ in 0..steps {
        world.step();
        world.check();
    }
    world.heal();
    world.seen
}

#[test]
fn nothing_committed_is_lost_and_replicas_agree() {
    let mut all = Seen::default();
    for seed in 0..400 {
        let seen = std::panic::catch_unwind(|| run(seed, 1_000));
        let seen = seen.unwrap_or_else(|panic| {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic)
        });
        all.acknowledged += seen.acknowledged;
        all.shrinks += seen.shrinks;
        all.expands += seen.expands;
        all.elections += seen.elections;
        all.eligible_elections += seen.eligible_elections;
        all.truncations += seen.truncations;
        all.restarts += seen.restarts;
        all.lost_frames += seen.lost_frames;
        all.completed_moves += seen.completed_moves;
    }
    println!("{all:?}");
    let counts = [
        all.acknowledged,
        all.shrinks,
        all.expands,
        all.elections,
        all.eligible_elections,
        all.truncations,
        all.restarts,
        all.lost_frames,
        all.completed_moves,
    ];
    assert!(
        counts.iter().all(|count| *count >= 100),
        "too little happened: {all:?}"
    );
}
