//! Any order of requests, of time, of the fates of records and of restarts, against what must always hold:
//! - no partition is owned twice in a generation, over restarts, too;
//! - every request is answered exactly once, at the latest when time has passed and its record's fate is known;
//! - generations never go back while the coordinator lives, and after a restart go on from the record;
//! - nobody believes in a generation that is over, once told anything;
//! - members that follow the protocol end up stable, owning everything.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::prelude::*;
use uuid::Uuid;

use super::bench::{Join, identity};
use crate::group::classic::*;

const CLIENTS: usize = 5;
const PARTITIONS: u8 = 7;

/// Two dynamic members, one of them without ids before its join, two static ones, and one of version 0.
const VERSIONS: [i16; CLIENTS] = [9, 3, 9, 5, 0];
const INSTANCES: [Option<&str>; CLIENTS] = [None, None, Some("one"), Some("two"), None];

#[derive(Clone, Debug)]
enum Step {
    Join {
        client: usize,
        metadata: u8,
    },
    /// The client lost all it knew.
    Restart {
        client: usize,
    },
    Sync {
        client: usize,
        nonce: u8,
    },
    Heartbeat {
        client: usize,
    },
    Commit {
        client: usize,
        is_transactional: bool,
    },
    Leave {
        clients: Vec<usize>,
    },
    RemoveInstance {
        client: usize,
    },
    Pass {
        ms: i64,
    },
    Persisted {
        written: bool,
        reported: bool,
    },
    /// The coordinator dies; so many of the records under way were written.
    Crash {
        written: usize,
    },
    /// The coordinator moves, all it wrote being durable.
    Move,
}

fn step() -> impl Strategy<Value = Step> {
    let client = || 0..CLIENTS;
    prop_oneof![
        6 => (client(), 0..2_u8).prop_map(|(client, metadata)| Step::Join { client, metadata }),
        1 => client().prop_map(|client| Step::Restart { client }),
        6 => (client(), any::<u8>()).prop_map(|(client, nonce)| Step::Sync { client, nonce }),
        3 => client().prop_map(|client| Step::Heartbeat { client }),
        2 => (client(), any::<bool>())
            .prop_map(|(client, is_transactional)| Step::Commit { client, is_transactional }),
        1 => proptest::collection::vec(client(), 1..3).prop_map(|clients| Step::Leave { clients }),
        1 => client().prop_map(|client| Step::RemoveInstance { client }),
        4 => prop_oneof![0..500_i64, Just(3_000), 5_000..12_000_i64, Just(30_000)]
            .prop_map(|ms| Step::Pass { ms }),
        5 => prop_oneof![4 => Just((true, true)), 1 => Just((false, false)), 1 => Just((true, false))]
            .prop_map(|(written, reported)| Step::Persisted { written, reported }),
        1 => (0..3_usize).prop_map(|written| Step::Crash { written }),
        1 => Just(Step::Move),
    ]
}

/// What a client knows.
#[derive(Clone, Debug, Default)]
struct Client {
    id: Option<String>,
    generation: Option<i32>,
    /// The members to assign to, if it leads.
    leads: Vec<String>,
    synced: bool,
    waits_for: Option<Ticket>,
}

struct World {
    group: ClassicGroup,
    now_ms: i64,
    clients: Vec<Client>,
    /// Who would own what each open ticket is answered: a static member under all of its ids, any other under one.
    open: BTreeMap<Ticket, String>,
    tickets: u64,
    in_flight: Vec<Persist>,
    durable: Option<GroupRecord>,
    /// Who owns each partition in each generation.
    owners: BTreeMap<(i32, u8), String>,
    generation: i32,
}

fn config() -> std::rc::Rc<ClassicConfig> {
    ClassicConfig::default().into()
}

impl World {
    fn new() -> Self {
        Self {
            group: ClassicGroup::new(config(), 0),
            now_ms: 0,
            clients: vec![Client::default(); CLIENTS],
            open: BTreeMap::new(),
            tickets: 0,
            in_flight: Vec::new(),
            durable: None,
            owners: BTreeMap::new(),
            generation: 0,
        }
    }

    fn open_ticket(&mut self, client: usize) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let known = &self.clients[client];
        let owner = INSTANCES[client].map(Into::into).or(known.id.clone());
        self.open.insert(ticket, owner.unwrap_or_default());
        self.clients[client].waits_for = Some(ticket);
        ticket
    }

    fn take(&mut self, effects: Effects) {
        for (ticket, answer) in effects.answers {
            let owner = self.open.remove(&ticket).expect("answered twice, or never asked");
            self.note_owner(&answer, &owner);
            let waiting = self
                .clients
                .iter_mut()
                .find(|client| client.waits_for == Some(ticket));
            if let Some(client) = waiting {
                client.waits_for = None;
                client.learn(&answer);
            }
        }
        self.in_flight.extend(effects.persists);
        self.group.check();
        assert!(
            self.group.generation() >= self.generation,
            "a generation went back"
        );
        self.generation = self.group.generation();
    }

    /// Whatever is told as an assignment counts, even if its client is not there to hear it.
    fn note_owner(&mut self, answer: &Answer, owner: &str) {
        let Answer::Sync(answer) = answer else {
            return;
        };
        for &partition in answer.assignment.iter() {
            let key = (self.group.generation(), partition);
            let before = self.owners.entry(key).or_insert_with(|| owner.to_owned());
            assert_eq!(*before, owner, "{key:?} is owned twice");
        }
    }

    fn apply(&mut self, step: &Step) {
        let mut effects = Effects::default();
        match step {
            Step::Join { client, metadata } => self.join(*client, *metadata, &mut effects),
            Step::Restart { client } => self.clients[*client] = Client::default(),
            Step::Sync { client, nonce } => self.sync(*client, *nonce, &mut effects),
            Step::Heartbeat { client } => self.heartbeat(*client),
            Step::Commit {
                client,
                is_transactional,
            } => self.commit(*client, *is_transactional),
            Step::Leave { clients } => self.leave(clients, &mut effects),
            Step::RemoveInstance { client } => self.remove_instance(*client, &mut effects),
            Step::Pass { ms } => self.pass(*ms),
            Step::Persisted { written, reported } => self.persisted(*written, *reported, &mut effects),
            Step::Crash { written } => self.crash(*written, &mut effects),
            Step::Move => self.move_away(&mut effects),
        }
        self.take(effects);
    }

    fn join(&mut self, client: usize, metadata: u8, effects: &mut Effects) {
        self.clients[client].waits_for = None;
        let ticket = self.open_ticket(client);
        let known = &self.clients[client];
        let mut join = Join::new()
            .version(VERSIONS[client])
            .session(6_000)
            .rebalance(20_000);
        join = join.protocols(&[("range", ["a", "b"][usize::from(metadata)]), ("sticky", "")]);
        join = known.id.iter().fold(join, |join, id| join.id(id));
        join = INSTANCES[client]
            .iter()
            .fold(join, |join, instance| join.instance(instance));
        join.request.random = Uuid::from_u128(u128::from(ticket.0));
        self.group.join(join.request, ticket, self.now_ms, effects);
    }

    fn sync(&mut self, client: usize, nonce: u8, effects: &mut Effects) {
        let known = self.clients[client].clone();
        let (Some(id), Some(generation)) = (known.id, known.generation) else {
            return;
        };
        self.clients[client].waits_for = None;
        let ticket = self.open_ticket(client);
        let mut assignments: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
        for partition in (0..PARTITIONS).filter(|_| !known.leads.is_empty()) {
            let turn = (usize::from(partition) + usize::from(nonce)) % known.leads.len();
            assignments.entry(&known.leads[turn]).or_default().push(partition);
        }
        let request = SyncRequest {
            version: 5,
            identity: Identity {
                instance_id: INSTANCES[client].map(Into::into),
                ..identity(&id, generation)
            },
            protocol_type: Some("consumer".into()),
            protocol_name: Some("range".into()),
            assignments: assignments
                .into_iter()
                .map(|(id, of)| (id.into(), Bytes::from(of)))
                .collect(),
        };
        self.group.sync(request, ticket, self.now_ms, effects);
    }

    fn heartbeat(&mut self, client: usize) {
        let Some(known) = self.identity_of(client) else {
            return;
        };
        let error = self.group.heartbeat(&known, self.now_ms);
        self.group.check();
        if error == ErrorCode::None {
            assert_eq!(known.generation, self.group.generation());
            assert_ne!(
                self.group.state(),
                GroupState::PreparingRebalance,
                "not told of a rebalance"
            );
        }
        self.clients[client].hear(error);
    }

    fn commit(&mut self, client: usize, is_transactional: bool) {
        let Some(known) = self.identity_of(client) else {
            return;
        };
        let result = self.group.commit(&known, is_transactional, self.now_ms);
        self.group.check();
        if result.is_ok() {
            assert_eq!(
                known.generation,
                self.group.generation(),
                "a commit of a generation that is over"
            );
        }
    }

    fn identity_of(&self, client: usize) -> Option<Identity> {
        let known = &self.clients[client];
        Some(Identity {
            instance_id: INSTANCES[client].map(Into::into),
            ..identity(known.id.as_deref()?, known.generation?)
        })
    }

    fn leave(&mut self, clients: &[usize], effects: &mut Effects) {
        let known: BTreeSet<_> = clients
            .iter()
            .filter(|client| self.clients[**client].id.is_some())
            .collect();
        let members: Vec<_> = known
            .iter()
            .map(|client| LeavingMember {
                member_id: self.clients[**client].id.clone().unwrap_or_default().into(),
                instance_id: INSTANCES[**client].map(Into::into),
                reason: None,
            })
            .collect();
        self.tickets += 1;
        self.open.insert(Ticket(self.tickets), String::new());
        self.group
            .leave(members, Ticket(self.tickets), self.now_ms, effects);
        for client in known {
            self.clients[*client] = Client::default();
        }
    }

    fn remove_instance(&mut self, client: usize, effects: &mut Effects) {
        let Some(instance) = INSTANCES[client] else {
            return;
        };
        self.tickets += 1;
        self.open.insert(Ticket(self.tickets), String::new());
        let member = LeavingMember {
            member_id: "".into(),
            instance_id: Some(instance.into()),
            reason: None,
        };
        self.group
            .leave(vec![member], Ticket(self.tickets), self.now_ms, effects);
    }

    fn pass(&mut self, ms: i64) {
        let end_ms = self.now_ms + ms;
        while let Some(deadline_ms) = self.group.deadline_ms().filter(|&deadline| deadline <= end_ms) {
            self.now_ms = self.now_ms.max(deadline_ms);
            let mut effects = Effects::default();
            self.group.tick(self.now_ms, &mut effects);
            self.take(effects);
        }
        self.now_ms = end_ms;
    }

    /// The fate of the oldest record. One that was reported as lost may have been written all the same.
    fn persisted(&mut self, written: bool, reported: bool, effects: &mut Effects) {
        if self.in_flight.is_empty() {
            return;
        }
        let persist = self.in_flight.remove(0);
        if written {
            self.durable = Some(persist.record);
        }
        let result = if reported {
            Ok(())
        } else {
            Err(ErrorCode::NotEnoughReplicas)
        };
        self.group.persisted(persist.id, result, self.now_ms, effects);
    }

    fn crash(&mut self, written: usize, effects: &mut Effects) {
        let written = written.min(self.in_flight.len());
        for persist in self.in_flight.drain(..).take(written) {
            self.durable = Some(persist.record);
        }
        self.open.clear();
        self.clients.iter_mut().for_each(|client| client.waits_for = None);
        self.load(effects);
    }

    fn move_away(&mut self, effects: &mut Effects) {
        let mut last = Effects::default();
        self.group.die(ErrorCode::NotCoordinator, self.now_ms, &mut last);
        self.take(last);
        assert!(self.open.is_empty(), "{:?} are never answered", self.open);
        for persist in self.in_flight.drain(..) {
            self.durable = Some(persist.record);
        }
        self.load(effects);
    }

    fn load(&mut self, effects: &mut Effects) {
        self.group = match &self.durable {
            Some(record) => ClassicGroup::load(config(), record, self.now_ms, effects),
            None => ClassicGroup::new(config(), self.now_ms),
        };
        let generation = self.durable.as_ref().map_or(0, |record| record.generation);
        assert_eq!(self.group.generation(), generation);
        self.generation = generation;
    }

    /// Every client does what the protocol asks for, until all own their part.
    fn converge(&mut self) {
        for _ in 0..2_000 {
            for client in 0..CLIENTS {
                let known = &self.clients[client];
                if known.waits_for.is_some() {
                    continue;
                }
                let step = match (known.generation.is_some(), known.synced) {
                    (false, _) => Step::Join { client, metadata: 0 },
                    (true, false) => Step::Sync { client, nonce: 0 },
                    (true, true) => Step::Heartbeat { client },
                };
                self.apply(&step);
            }
            while !self.in_flight.is_empty() {
                self.apply(&Step::Persisted {
                    written: true,
                    reported: true,
                });
            }
            let generation = Some(self.group.generation());
            let settled = |known: &Client| known.synced && known.generation == generation;
            if self.group.state() == GroupState::Stable
                && self.group.len() == CLIENTS
                && self.clients.iter().all(settled)
            {
                let owned = (0..PARTITIONS).filter(|p| self.owners.contains_key(&(self.generation, *p)));
                assert_eq!(owned.count(), usize::from(PARTITIONS));
                return;
            }
            self.apply(&Step::Pass { ms: 500 });
        }
        panic!("the group does not settle: {:?}, {:?}", self.group, self.clients);
    }

    /// Nobody says anything any more.
    fn fall_silent(&mut self) {
        while self.group.deadline_ms().is_some() || !self.in_flight.is_empty() {
            self.apply(&Step::Pass { ms: 60_000 });
            self.apply(&Step::Persisted {
                written: true,
                reported: true,
            });
        }
        assert!(self.open.is_empty(), "{:?} are never answered", self.open);
        assert_eq!(self.group.state(), GroupState::Empty);
        assert!(self.group.is_idle());
    }
}

impl Client {
    fn learn(&mut self, answer: &Answer) {
        match answer {
            Answer::Join(answer) if answer.error == ErrorCode::None => {
                self.id = Some(answer.member_id.to_string());
                self.generation = Some(answer.generation);
                self.synced = false;
                let leads = answer.leader == answer.member_id && !answer.skip_assignment;
                let members = answer.members.iter().filter(|_| leads);
                self.leads = members.map(|member| member.member_id.to_string()).collect();
            }
            Answer::Join(answer) if answer.error == ErrorCode::MemberIdRequired => {
                self.id = Some(answer.member_id.to_string());
            }
            Answer::Join(answer) => self.hear(answer.error),
            Answer::Sync(answer) => {
                self.synced = answer.error == ErrorCode::None;
                self.hear(answer.error);
            }
            Answer::Leave(_) => {}
        }
    }

    /// What a client does on an error: with its id it joins again, without one it starts anew.
    fn hear(&mut self, error: ErrorCode) {
        match error {
            ErrorCode::None => {}
            ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId | ErrorCode::IllegalGeneration => {
                *self = Self {
                    waits_for: self.waits_for,
                    ..Self::default()
                };
            }
            _ => self.generation = None,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_events_keeps_the_promises(
        steps in proptest::collection::vec(step(), 0..80),
        silent in any::<bool>(),
    ) {
        let mut world = World::new();
        for step in &steps {
            world.apply(step);
        }
        if !silent {
            world.converge();
        }
        world.fall_silent();
    }
}
