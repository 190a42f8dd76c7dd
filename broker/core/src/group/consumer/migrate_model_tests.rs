//! Members of both protocols in one group, in any order of events: no partition has two owners, and in the end everyone
//! has its target.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use strandline_wire::{ErrorCode, Uuid};

use super::migrate_tests::{leaving, rejoin, two};
use super::request::HeartbeatRequest;
use super::testing::{Rig, beat, join};
use super::{Assignment, ConsumerGroupState};

const CLIENTS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Speaks the consumer protocol.
    New,
    /// Classic, gives up everything before it joins.
    Eager,
    /// Classic, gives up only what it must.
    Cooperative,
}

#[derive(Clone, Debug)]
struct Client {
    kind: Kind,
    id: String,
    /// Its epoch or generation; 0 when it is not a member.
    epoch: i32,
    owned: Assignment,
    /// What it does next, as a classic member.
    next: Next,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Join,
    Sync,
    Beat,
    /// It left.
    Nothing,
}

struct Model {
    rig: Rig,
    t: Uuid,
    clients: Vec<Client>,
    processes: usize,
}

impl Model {
    /// Two classic members, one of each kind, whose group just went over.
    fn new() -> Self {
        let (rig, t) = two();
        let client = |kind, id: &str, next| Client {
            kind,
            id: id.to_owned(),
            epoch: if next == Next::Beat { 5 } else { 0 },
            owned: rig
                .group
                .members
                .get(id)
                .map(|member| member.current.assigned.clone())
                .unwrap_or_default(),
            next,
        };
        let clients = vec![
            client(Kind::Eager, "a", Next::Beat),
            client(Kind::Cooperative, "b", Next::Beat),
            client(Kind::New, "", Next::Nothing),
            client(Kind::New, "", Next::Nothing),
        ];
        Self {
            rig,
            t,
            clients,
            processes: 0,
        }
    }

    fn start(&mut self, who: usize, kind: Kind) {
        if self.clients[who].next == Next::Nothing {
            self.processes += 1;
            self.clients[who] = Client {
                kind,
                id: format!("m{}", self.processes),
                epoch: 0,
                owned: Assignment::default(),
                next: Next::Join,
            };
        }
    }

    fn leave(&mut self, who: usize) {
        let client = self.clients[who].clone();
        if client.next == Next::Nothing || client.epoch == 0 {
            return;
        }
        self.clients[who].next = Next::Nothing;
        self.clients[who].owned = Assignment::default();
        if client.kind == Kind::New {
            drop(self.rig.send(&beat(&client.id, -1)));
        } else {
            self.rig.classic_leave(&[leaving(&client.id)]);
        }
    }

    /// The client does what is next.
    fn act(&mut self, who: usize) {
        let client = &self.clients[who];
        match (client.kind, client.next) {
            (_, Next::Nothing) => {}
            (Kind::New, _) => self.act_new(who),
            (_, Next::Join) => self.act_join(who),
            (_, Next::Sync) => {
                let answer = self.rig.sync(&client.id.clone(), client.epoch);
                self.hear_sync(who, answer);
            }
            (_, Next::Beat) => match self.rig.classic_beat(&client.id.clone(), client.epoch) {
                ErrorCode::None => {}
                ErrorCode::RebalanceInProgress => self.clients[who].next = Next::Join,
                error => self.lose(who, error),
            },
        }
    }

    fn act_new(&mut self, who: usize) {
        let client = &self.clients[who];
        let request = HeartbeatRequest {
            member_epoch: client.epoch,
            owned: Some(client.owned.clone()),
            ..join(&client.id, &["t"])
        };
        match self.rig.send(&request) {
            Err(error) => self.lose(who, error.code),
            Ok(answer) => {
                let client = &mut self.clients[who];
                assert!(answer.member_epoch >= client.epoch);
                client.epoch = answer.member_epoch;
                client.owned = answer.assignment.unwrap();
                client.next = Next::Beat;
            }
        }
    }

    fn act_join(&mut self, who: usize) {
        let client = &mut self.clients[who];
        if client.kind == Kind::Eager {
            client.owned = Assignment::default();
        }
        let numbers: Vec<i32> = client.owned.iter().map(|(_, number)| number).collect();
        let answer = self.rig.classic_join(&rejoin(&client.id, &[("t", &numbers)]));
        if answer.error != ErrorCode::None {
            return self.lose(who, answer.error);
        }
        let client = &mut self.clients[who];
        assert!(answer.generation >= client.epoch);
        client.epoch = answer.generation;
        client.next = Next::Sync;
    }

    fn hear_sync(&mut self, who: usize, answer: Result<Assignment, ErrorCode>) {
        match answer {
            Ok(assignment) => {
                let client = &mut self.clients[who];
                // Whoever gave something up joins again to say so.
                let gave_up = !client.owned.is_subset(&assignment);
                client.owned = assignment;
                client.next = if gave_up { Next::Join } else { Next::Beat };
            }
            Err(ErrorCode::RebalanceInProgress) => self.clients[who].next = Next::Join,
            Err(error) => self.lose(who, error),
        }
    }

    fn lose(&mut self, who: usize, error: ErrorCode) {
        let expected = [
            ErrorCode::UnknownMemberId,
            ErrorCode::IllegalGeneration,
            ErrorCode::FencedMemberEpoch,
            ErrorCode::GroupIdNotFound,
        ];
        assert!(expected.contains(&error), "{error:?}");
        let client = &mut self.clients[who];
        client.owned = Assignment::default();
        client.epoch = 0;
        client.next = Next::Join;
    }

    fn check(&self) {
        let mut owners = BTreeMap::new();
        for client in &self.clients {
            let Some(member) = self.rig.group.members.get(client.id.as_str()) else {
                continue;
            };
            let (current, pending) = (&member.current.assigned, &member.current.pending_revocation);
            for (topic, number) in client.owned.iter() {
                assert!(current.contains(topic, number) || pending.contains(topic, number));
                assert_eq!(owners.insert((topic, number), &client.id), None);
            }
        }
    }

    fn settle(&mut self) {
        for _ in 0..25 {
            for who in 0..CLIENTS {
                self.act(who);
                self.check();
            }
            self.rig.pass(2_500);
        }
        let running: Vec<&Client> = self.clients.iter().filter(|c| c.next != Next::Nothing).collect();
        assert_eq!(self.rig.group.len(), running.len());
        if running.is_empty() {
            return;
        }
        assert_eq!(self.rig.group.state(), ConsumerGroupState::Stable);
        let owned: BTreeSet<(Uuid, i32)> = running.iter().flat_map(|client| client.owned.iter()).collect();
        assert_eq!(owned, (0..4).map(|number| (self.t, number)).collect());
        let classic = running.iter().all(|client| client.kind != Kind::New);
        assert_eq!(self.rig.group.may_downgrade(), classic);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Start(Index, Kind),
    Act(Index),
    Leave(Index),
    Pass(i64),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![Just(Kind::New), Just(Kind::Eager), Just(Kind::Cooperative)];
    prop_oneof![
        3 => (any::<Index>(), kind).prop_map(|(who, kind)| Step::Start(who, kind)),
        14 => any::<Index>().prop_map(Step::Act),
        2 => any::<Index>().prop_map(Step::Leave),
        2 => prop_oneof![Just(2_000), Just(11_000)].prop_map(Step::Pass),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn both_protocols_in_any_order(steps in vec(step(), 1..60)) {
        let mut model = Model::new();
        for step in steps {
            match step {
                Step::Start(who, kind) => model.start(who.index(CLIENTS), kind),
                Step::Act(who) => model.act(who.index(CLIENTS)),
                Step::Leave(who) => model.leave(who.index(CLIENTS)),
                Step::Pass(ms) => drop(model.rig.pass(ms)),
                Step::Restart => model.rig.restart(),
            }
            model.check();
        }
        model.settle();
    }
}
