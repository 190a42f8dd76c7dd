//! Members in any order of joining, heartbeats, lost answers, leaving, silence, new and deleted topics, and crashes: no
//! partition has two owners at any time, epochs never go back, and whoever cooperates gets its target in the end.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use strandline_wire::{ErrorCode, Uuid};

use super::request::{GroupError, HeartbeatRequest, JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH};
use super::state::ConsumerGroupState;
use super::testing::{Rig, beat, compacted};
use super::{Assignment, Heartbeat, HeartbeatAnswer, PendingHeartbeat, TopicImage};

const CLIENTS: usize = 5;
/// Subscriptions to choose from: names, and a regular expression.
const SUBSCRIPTIONS: [(&[&str], &str); 6] = [
    (&["t0"], ""),
    (&["t0", "t1", "t2"], ""),
    (&["t1", "t2"], ""),
    (&[], "t.*"),
    (&["t0"], "t[12]"),
    (&[], ""),
];

/// How a client reports what it owns.
#[derive(Clone, Copy, Debug)]
enum Report {
    /// Not at all.
    Silent,
    /// It took what it was given, and still has what it is to give up.
    Slow,
    /// It owns exactly what it was told.
    Done,
}

#[derive(Clone, Debug)]
enum Step {
    Start(Index, usize, bool),
    Beat(Index, Report, bool),
    Subscribe(Index, usize),
    Leave(Index, bool),
    /// Stops without a word; a new process may start in its place.
    Die(Index),
    Pass(i64),
    Create(usize, i32),
    Grow(usize),
    Delete(usize),
    Restart(bool),
    /// A heartbeat that may wait for the group's next target, others coming in between.
    Begin(Index, Report),
    /// That target.
    Assign,
    /// One of those who wait for it goes on.
    Finish(Index),
    /// Only some of the last heartbeat's records were stored.
    Crash(Index, Index),
    /// The same, and the broker goes on.
    Refuse(Index, Index),
}

fn step() -> impl Strategy<Value = Step> {
    let who = any::<Index>;
    let any_report = || prop_oneof![Just(Report::Silent), Just(Report::Slow), Just(Report::Done)];
    let report = any_report();
    let lost = prop::bool::weighted(0.15);
    prop_oneof![
        6 => (who(), 0..SUBSCRIPTIONS.len(), prop::bool::weighted(0.3)).prop_map(|(c, s, f)| Step::Start(c, s, f)),
        20 => (who(), report, lost).prop_map(|(c, report, lost)| Step::Beat(c, report, lost)),
        2 => (who(), 0..SUBSCRIPTIONS.len()).prop_map(|(c, s)| Step::Subscribe(c, s)),
        2 => (who(), any::<bool>()).prop_map(|(c, for_a_while)| Step::Leave(c, for_a_while)),
        1 => who().prop_map(Step::Die),
        3 => prop_oneof![Just(1_000), Just(11_000), Just(46_000)].prop_map(Step::Pass),
        2 => (0usize..3, 1..6i32).prop_map(|(topic, partitions)| Step::Create(topic, partitions)),
        1 => (0usize..3).prop_map(Step::Grow),
        1 => (0usize..3).prop_map(Step::Delete),
        1 => any::<bool>().prop_map(Step::Restart),
        6 => (who(), any_report()).prop_map(|(c, report)| Step::Begin(c, report)),
        2 => Just(Step::Assign),
        6 => any::<Index>().prop_map(Step::Finish),
        2 => (who(), any::<Index>()).prop_map(|(c, cut)| Step::Crash(c, cut)),
        2 => (who(), any::<Index>()).prop_map(|(c, cut)| Step::Refuse(c, cut)),
    ]
}

/// A consumer, as real ones behave.
#[derive(Clone, Debug, Default)]
struct Client {
    id: String,
    instance_id: Option<String>,
    epoch: i32,
    owned: Assignment,
    /// What it was told and has not acted on.
    told: Option<Assignment>,
    /// An answer was lost: the next heartbeat says everything, and is told everything.
    in_doubt: bool,
    subscription: usize,
    runs: bool,
    /// The last heartbeat's answer is still to come.
    waits: bool,
}

impl Client {
    fn request(&self, owned: Option<Assignment>) -> HeartbeatRequest<'_> {
        let (names, regex) = SUBSCRIPTIONS[self.subscription];
        let joins = self.epoch == JOIN_EPOCH;
        HeartbeatRequest {
            instance_id: self.instance_id.as_deref(),
            rebalance_timeout_ms: if joins || self.in_doubt { 30_000 } else { -1 },
            topic_names: Some(names.to_vec()),
            topic_regex: Some(regex),
            owned,
            ..beat(&self.id, self.epoch)
        }
    }

    /// Acts on what it was told, and says what it reports.
    fn report(&mut self, report: Report) -> Option<Assignment> {
        if self.epoch == JOIN_EPOCH {
            return Some(Assignment::default());
        }
        match report {
            Report::Silent if !self.in_doubt => return None,
            Report::Silent | Report::Slow => {
                let told = self.told.iter().flat_map(Assignment::iter);
                self.owned = self.owned.iter().chain(told).collect();
            }
            Report::Done => {
                if let Some(told) = self.told.take() {
                    self.owned = told;
                }
            }
        }
        Some(self.owned.clone())
    }

    fn hear(&mut self, answer: Result<HeartbeatAnswer, GroupError>) {
        self.in_doubt = false;
        self.waits = false;
        match answer {
            Ok(answer) => {
                assert!(answer.member_epoch >= self.epoch, "{} went back", self.id);
                self.epoch = answer.member_epoch;
                if answer.assignment.is_some() {
                    self.told = answer.assignment;
                }
            }
            Err(error) => {
                let expected = [
                    ErrorCode::FencedMemberEpoch,
                    ErrorCode::UnknownMemberId,
                    ErrorCode::UnreleasedInstanceId,
                    ErrorCode::FencedInstanceId,
                    ErrorCode::GroupIdNotFound,
                ];
                assert!(expected.contains(&error.code), "{error:?}");
                self.abandon();
            }
        }
    }

    fn abandon(&mut self) {
        self.epoch = JOIN_EPOCH;
        self.owned = Assignment::default();
        self.told = None;
    }
}

struct Model {
    rig: Rig,
    clients: Vec<Client>,
    processes: usize,
    /// Heartbeats that wait for a target, and whose they are.
    pending: Vec<(String, PendingHeartbeat)>,
    /// The highest epochs that are stored.
    epochs: (i32, i32),
}

impl Model {
    fn new() -> Self {
        Self {
            rig: Rig::new(&[("t0", 3), ("t1", 2), ("other", 1)]),
            clients: vec![Client::default(); CLIENTS],
            processes: 0,
            pending: Vec::new(),
            epochs: (0, 0),
        }
    }

    fn play(&mut self, step: &Step) {
        let name = |topic: usize| format!("t{topic}");
        let exists = |model: &Self, topic| model.rig.topics.topic(&name(topic)).is_some();
        match step {
            Step::Start(who, subscription, fixed) => self.start(who.index(CLIENTS), *subscription, *fixed),
            Step::Beat(who, report, lost) => self.beat(who.index(CLIENTS), *report, *lost),
            Step::Subscribe(who, subscription) => {
                let who = who.index(CLIENTS);
                self.clients[who].subscription = *subscription;
                self.beat(who, Report::Silent, false);
            }
            Step::Leave(who, for_a_while) => self.leave(who.index(CLIENTS), *for_a_while),
            Step::Die(who) => self.clients[who.index(CLIENTS)].runs = false,
            Step::Pass(ms) => {
                self.rig.pass(*ms);
            }
            Step::Create(topic, partitions) if !exists(self, *topic) => {
                self.rig.topics.create(&name(*topic), *partitions);
            }
            Step::Grow(topic) if exists(self, *topic) => {
                let partitions = self.rig.topics.topic(&name(*topic)).unwrap().partitions;
                self.rig.topics.grow(&name(*topic), partitions + 2);
            }
            Step::Delete(topic) if exists(self, *topic) => self.rig.topics.delete(&name(*topic)),
            Step::Create(..) | Step::Grow(_) | Step::Delete(_) => {}
            Step::Restart(after_compaction) => {
                if *after_compaction {
                    self.rig.log = compacted(&self.rig.log);
                }
                self.rig.restart();
                self.pending.clear();
            }
            Step::Begin(who, report) => self.begin(who.index(CLIENTS), *report),
            Step::Assign => drop(self.rig.assign()),
            Step::Finish(which) if !self.pending.is_empty() => {
                let pending = self.pending.swap_remove(which.index(self.pending.len()));
                self.finish(&pending);
            }
            Step::Finish(_) => {}
            Step::Crash(who, cut) => self.crash(who.index(CLIENTS), cut),
            Step::Refuse(who, cut) => self.refuse(who.index(CLIENTS), cut),
        }
        self.check();
    }

    fn start(&mut self, who: usize, subscription: usize, fixed: bool) {
        if self.clients[who].runs {
            return;
        }
        self.processes += 1;
        self.clients[who] = Client {
            id: format!("m{}", self.processes),
            instance_id: fixed.then(|| format!("i{who}")),
            subscription,
            runs: true,
            ..Client::default()
        };
        self.beat(who, Report::Silent, false);
    }

    fn beat(&mut self, who: usize, report: Report, lost: bool) {
        if !self.clients[who].runs {
            return;
        }
        let owned = self.clients[who].report(report);
        // Whoever sends the next one hears no more of the last.
        self.clients[who].waits = false;
        let client = self.clients[who].clone();
        let answer = self.rig.send(&client.request(owned));
        self.must_be_due(&client, &answer);
        if lost {
            self.clients[who].in_doubt = true;
        } else {
            self.clients[who].hear(answer);
        }
    }

    fn begin(&mut self, who: usize, report: Report) {
        if !self.clients[who].runs {
            return;
        }
        let owned = self.clients[who].report(report);
        let client = self.clients[who].clone();
        let rig = &mut self.rig;
        let request = client.request(owned);
        let effects = rig
            .group
            .begin_heartbeat(rig.now_ms, &rig.config, &request, &rig.topics);
        match rig.store(effects) {
            Ok(Heartbeat::Awaits(pending)) => {
                self.pending.push((client.id.clone(), pending));
                let client = &mut self.clients[who];
                (client.in_doubt, client.waits) = (true, true);
            }
            Ok(Heartbeat::Answered(answer)) => self.clients[who].hear(Ok(answer)),
            Err(error) => self.clients[who].hear(Err(error)),
        }
    }

    fn finish(&mut self, (id, pending): &(String, PendingHeartbeat)) {
        let answer = self.rig.finish(pending);
        let waits = |client: &&mut Client| client.runs && client.waits && client.id == *id;
        if let Some(client) = self.clients.iter_mut().find(waits) {
            client.hear(answer);
        }
    }

    /// An answer's assignment is what the group says.
    fn must_be_due(&self, client: &Client, answer: &Result<HeartbeatAnswer, GroupError>) {
        if let Ok(answer) = answer {
            let member = &self.rig.group.members[client.id.as_str()];
            assert_eq!(answer.member_epoch, member.current.epoch);
            if let Some(assignment) = &answer.assignment {
                assert_eq!(*assignment, member.current.assigned);
            }
        }
    }

    fn leave(&mut self, who: usize, for_a_while: bool) {
        let client = &mut self.clients[who];
        if !client.runs {
            return;
        }
        let for_a_while = for_a_while && client.instance_id.is_some();
        let epoch = if for_a_while {
            LEAVE_STATIC_EPOCH
        } else {
            LEAVE_EPOCH
        };
        // It stops to use its partitions first.
        client.runs = false;
        client.abandon();
        let client = client.clone();
        let request = HeartbeatRequest {
            instance_id: client.instance_id.as_deref(),
            ..beat(&client.id, epoch)
        };
        let answer = self.rig.send(&request);
        assert!(answer.is_err() || !for_a_while || answer.is_ok_and(|answer| answer.member_epoch == -2));
    }

    /// A heartbeat whose records were stored in part, and whose answer was never sent.
    fn crash(&mut self, who: usize, cut: &Index) {
        let before = self.rig.log.len();
        let epochs = self.epochs;
        self.beat(who, Report::Done, true);
        let stored = before + cut.index(self.rig.log.len() - before + 1);
        self.rig.log.truncate(stored);
        self.rig.restart();
        self.pending.clear();
        self.epochs = epochs;
    }

    /// A heartbeat whose records were stored in part: the group takes the others back, and whoever sent it is told nothing.
    fn refuse(&mut self, who: usize, cut: &Index) {
        if !self.clients[who].runs {
            return;
        }
        let before = self.rig.log.len();
        let epochs = self.epochs;
        self.beat(who, Report::Done, true);
        self.rig
            .refuse(cut.index(self.rig.log.len() - before + 1), before);
        self.epochs = epochs;
    }

    fn check(&mut self) {
        let group = &self.rig.group;
        let mut owners: BTreeMap<(Uuid, i32), &str> = BTreeMap::new();
        for (id, member) in &group.members {
            let current = &member.current;
            for partition in current.assigned.iter().chain(current.pending_revocation.iter()) {
                let other = owners.insert(partition, id);
                assert_eq!(other, None, "{partition:?} also of {id}");
            }
            assert!(
                current.epoch <= group.target_epoch.max(0),
                "{id} is ahead of the target"
            );
        }
        // Consumers own no more than the group knows, so no two of them own the same. One that was removed is a
        // zombie until it hears of it; the fencing of its commits covers it.
        for client in &self.clients {
            if group.members.contains_key(client.id.as_str()) {
                for partition in client.owned.iter() {
                    assert_eq!(owners.get(&partition), Some(&client.id.as_str()), "{partition:?}");
                }
            }
        }
        let epochs = (group.epoch(), group.target_epoch);
        assert!(
            epochs.0 >= self.epochs.0 && epochs.1 >= self.epochs.1,
            "{epochs:?} after {:?}",
            self.epochs
        );
        assert!(epochs.1 <= epochs.0);
        self.epochs = epochs;
        self.rig.check();
    }

    /// Everyone who runs cooperates; the others are given up.
    fn settle(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            self.finish(&pending);
            self.check();
        }
        for _ in 0..18 {
            for who in 0..CLIENTS {
                self.beat(who, Report::Done, false);
            }
            self.rig.pass(5_000);
            self.check();
        }
        let running: Vec<&Client> = self.clients.iter().filter(|client| client.runs).collect();
        let ids: BTreeSet<&str> = running.iter().map(|client| client.id.as_str()).collect();
        let members: BTreeSet<&str> = self.rig.group.members.keys().map(|id| &**id).collect();
        assert_eq!(members, ids);
        let state = self.rig.group.state();
        if running.is_empty() {
            assert_eq!(state, ConsumerGroupState::Empty);
            return;
        }
        assert_eq!(state, ConsumerGroupState::Stable);
        let mut owned = BTreeSet::new();
        let mut wanted = BTreeSet::new();
        for client in running {
            // A member without topics may have none.
            let target = self.rig.group.targets.get(client.id.as_str());
            assert_eq!(client.owned, target.cloned().unwrap_or_default());
            owned.extend(client.owned.iter());
            let (names, regex) = SUBSCRIPTIONS[client.subscription];
            for topic in ["t0", "t1", "t2"] {
                let matches = names.contains(&topic) || regex == "t.*" || (regex == "t[12]" && topic != "t0");
                if let Some(info) = self.rig.topics.topic(topic).filter(|_| matches) {
                    wanted.extend((0..info.partitions).map(|partition| (info.id, partition)));
                }
            }
        }
        assert_eq!(owned, wanted);
        // And nothing moves any more.
        let records = self.rig.log.len();
        for who in 0..CLIENTS {
            self.beat(who, Report::Done, false);
        }
        assert_eq!(self.rig.log.len(), records);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_events(steps in vec(step(), 1..80)) {
        let mut model = Model::new();
        for step in &steps {
            model.play(step);
        }
        model.settle();
    }
}

/// The cut between the records of each step, one by one, for a run with every kind of record.
#[test]
fn every_beginning_of_the_log_is_a_sound_group() {
    let mut model = Model::new();
    for (who, subscription) in [(0, 1), (1, 3), (2, 4), (3, 2)] {
        model.start(who, subscription, who % 2 == 0);
        model.beat(0, Report::Done, false);
        model.beat(1, Report::Done, false);
    }
    model.leave(0, true);
    model.start(0, 1, true);
    model.rig.topics.create("t2", 4);
    model.settle();
    model.leave(1, false);
    model.settle();
    let log = std::mem::take(&mut model.rig.log);
    for stored in 0..=log.len() {
        let mut rig = Rig::new(&[]);
        rig.log = log[..stored].to_vec();
        rig.topics = model.rig.topics.clone();
        rig.now_ms = model.rig.now_ms;
        let mut model = Model {
            rig,
            clients: model.clients.clone(),
            processes: 10,
            pending: Vec::new(),
            epochs: (0, 0),
        };
        // Nobody of before is there any more: what they left must not be in the way.
        for client in &mut model.clients {
            client.abandon();
            client.runs = false;
        }
        model.rig.restart();
        model.check();
        model.start(4, 1, false);
        model.start(3, 3, false);
        model.settle();
    }
}
