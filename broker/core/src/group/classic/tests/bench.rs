//! A group under test: drives time, answers for the disk, and checks what holds after every call.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use strandline_wire::ErrorCode;
use uuid::Uuid;

use super::super::*;

/// A request that a test sends, with the usual values.
pub(super) struct Join {
    pub(super) request: JoinRequest,
}

impl Join {
    pub(super) fn new() -> Self {
        Self {
            request: JoinRequest {
                version: 9,
                member_id: "".into(),
                instance_id: None,
                client_id: "client".into(),
                client_host: "/127.0.0.1".into(),
                session_timeout_ms: 10_000,
                rebalance_timeout_ms: 60_000,
                protocol_type: "consumer".into(),
                protocols: vec![protocol("range", "metadata")],
                reason: None,
                random: Uuid::nil(),
            },
        }
    }

    pub(super) fn version(mut self, version: i16) -> Self {
        self.request.version = version;
        self
    }

    pub(super) fn id(mut self, id: &str) -> Self {
        self.request.member_id = id.into();
        self
    }

    pub(super) fn instance(mut self, instance: &str) -> Self {
        self.request.instance_id = Some(instance.into());
        self
    }

    pub(super) fn session(mut self, timeout_ms: i32) -> Self {
        self.request.session_timeout_ms = timeout_ms;
        self
    }

    pub(super) fn rebalance(mut self, timeout_ms: i32) -> Self {
        self.request.rebalance_timeout_ms = timeout_ms;
        self
    }

    pub(super) fn protocols(mut self, protocols: &[(&str, &str)]) -> Self {
        let protocols = protocols.iter().map(|(name, metadata)| protocol(name, metadata));
        self.request.protocols = protocols.collect();
        self
    }

    pub(super) fn kind(mut self, protocol_type: &str) -> Self {
        self.request.protocol_type = protocol_type.into();
        self
    }
}

pub(super) fn protocol(name: &str, metadata: &str) -> Protocol {
    Protocol {
        name: name.into(),
        metadata: Bytes::copy_from_slice(metadata.as_bytes()),
    }
}

pub(super) fn identity(member_id: &str, generation: i32) -> Identity {
    Identity {
        member_id: member_id.into(),
        instance_id: None,
        generation,
    }
}

pub(super) fn static_identity(member_id: &str, instance: &str, generation: i32) -> Identity {
    Identity {
        instance_id: Some(instance.into()),
        ..identity(member_id, generation)
    }
}

pub(super) fn leaving(member_id: &str) -> LeavingMember {
    LeavingMember {
        member_id: member_id.into(),
        instance_id: None,
        reason: None,
    }
}

pub(super) fn leaving_static(member_id: &str, instance: &str) -> LeavingMember {
    LeavingMember {
        instance_id: Some(instance.into()),
        ..leaving(member_id)
    }
}

/// What a member knows after it has joined.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) id: String,
    pub(super) generation: i32,
}

/// The group and its surroundings.
pub(super) struct Bench {
    pub(super) group: ClassicGroup,
    pub(super) now_ms: i64,
    /// Records that were asked for, oldest first, and whose fate is open.
    pub(super) records: Vec<Persist>,
    pub(super) transitions: Vec<Transition>,
    config: Rc<ClassicConfig>,
    answers: BTreeMap<Ticket, Answer>,
    waiting: BTreeSet<Ticket>,
    tickets: u64,
    ids: u128,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with(ClassicConfig::default())
    }

    pub(super) fn with(config: ClassicConfig) -> Self {
        let config = Rc::new(config);
        Self {
            group: ClassicGroup::new(config.clone(), 1_000),
            now_ms: 1_000,
            records: Vec::new(),
            transitions: Vec::new(),
            config,
            answers: BTreeMap::new(),
            waiting: BTreeSet::new(),
            tickets: 0,
            ids: 0,
        }
    }

    /// A group that does not wait for more members at first.
    pub(super) fn without_delay() -> Self {
        Self::with(ClassicConfig {
            initial_rebalance_delay_ms: 0,
            ..ClassicConfig::default()
        })
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        self.waiting.insert(Ticket(self.tickets));
        Ticket(self.tickets)
    }

    fn take(&mut self, effects: Effects) {
        for (ticket, answer) in effects.answers {
            assert!(self.waiting.remove(&ticket), "{ticket:?} is answered twice");
            self.answers.insert(ticket, answer);
        }
        self.records.extend(effects.persists);
        self.transitions.extend(effects.transitions);
        self.group.check();
    }

    fn call(&mut self, call: impl FnOnce(&mut ClassicGroup, Ticket, i64, &mut Effects)) -> Ticket {
        let (ticket, mut effects) = (self.ticket(), Effects::default());
        call(&mut self.group, ticket, self.now_ms, &mut effects);
        self.take(effects);
        ticket
    }

    pub(super) fn join(&mut self, mut join: Join) -> Ticket {
        self.ids += 1;
        join.request.random = Uuid::from_u128(self.ids);
        self.call(|group, ticket, now_ms, effects| group.join(join.request, ticket, now_ms, effects))
    }

    pub(super) fn sync_request(&mut self, request: SyncRequest) -> Ticket {
        self.call(|group, ticket, now_ms, effects| group.sync(request, ticket, now_ms, effects))
    }

    /// A sync with assignments, as a leader sends it.
    pub(super) fn sync(&mut self, identity: Identity, assignments: &[(&str, &str)]) -> Ticket {
        let assignments = assignments
            .iter()
            .map(|(id, to)| ((*id).into(), Bytes::copy_from_slice(to.as_bytes())));
        self.sync_request(SyncRequest {
            version: 3,
            identity,
            protocol_type: None,
            protocol_name: None,
            assignments: assignments.collect(),
        })
    }

    pub(super) fn leave(&mut self, members: &[LeavingMember]) -> Ticket {
        self.call(|group, ticket, now_ms, effects| group.leave(members.to_vec(), ticket, now_ms, effects))
    }

    pub(super) fn heartbeat(&mut self, identity: &Identity) -> ErrorCode {
        let error = self.group.heartbeat(identity, self.now_ms);
        self.group.check();
        error
    }

    pub(super) fn die(&mut self, error: ErrorCode) {
        let mut effects = Effects::default();
        self.group.die(error, self.now_ms, &mut effects);
        self.take(effects);
    }

    /// Reports the fate of the oldest record.
    pub(super) fn persisted(&mut self, result: Result<(), ErrorCode>) -> GroupRecord {
        let persist = self.records.remove(0);
        let mut effects = Effects::default();
        self.group
            .persisted(persist.id, result, self.now_ms, &mut effects);
        self.take(effects);
        persist.record
    }

    pub(super) fn persist_all(&mut self) {
        while !self.records.is_empty() {
            self.persisted(Ok(()));
        }
    }

    /// Lets time pass, the group ticking whenever it asks to.
    pub(super) fn pass(&mut self, ms: i64) {
        let end_ms = self.now_ms + ms;
        while let Some(deadline_ms) = self.group.deadline_ms().filter(|&deadline| deadline <= end_ms) {
            self.now_ms = self.now_ms.max(deadline_ms);
            let mut effects = Effects::default();
            self.group.tick(self.now_ms, &mut effects);
            self.take(effects);
        }
        self.now_ms = end_ms;
    }

    /// Lets time pass while these members send heartbeats.
    pub(super) fn pass_alive(&mut self, ms: i64, alive: &[Known]) {
        let end_ms = self.now_ms + ms;
        while self.now_ms < end_ms {
            self.pass((end_ms - self.now_ms).min(1_000));
            for member in alive {
                self.heartbeat(&identity(&member.id, member.generation));
            }
        }
    }

    /// The coordinator restarts from a record.
    pub(super) fn restart(&mut self, record: &GroupRecord) {
        let mut effects = Effects::default();
        self.group = ClassicGroup::load(self.config.clone(), record, self.now_ms, &mut effects);
        self.records.clear();
        self.waiting.clear();
        self.take(effects);
    }

    pub(super) fn waits(&self, ticket: Ticket) -> bool {
        self.waiting.contains(&ticket)
    }

    pub(super) fn join_answer(&self, ticket: Ticket) -> &JoinAnswer {
        match self.answers.get(&ticket) {
            Some(Answer::Join(answer)) => answer,
            other => panic!("{ticket:?} was answered {other:?}"),
        }
    }

    pub(super) fn join_error(&self, ticket: Ticket) -> ErrorCode {
        self.join_answer(ticket).error
    }

    pub(super) fn joined(&self, ticket: Ticket) -> Known {
        let answer = self.join_answer(ticket);
        assert_eq!(answer.error, ErrorCode::None);
        Known {
            id: answer.member_id.to_string(),
            generation: answer.generation,
        }
    }

    pub(super) fn sync_answer(&self, ticket: Ticket) -> &SyncAnswer {
        match self.answers.get(&ticket) {
            Some(Answer::Sync(answer)) => answer,
            other => panic!("{ticket:?} was answered {other:?}"),
        }
    }

    /// The assignment, or the error.
    pub(super) fn synced(&self, ticket: Ticket) -> Result<&str, ErrorCode> {
        let answer = self.sync_answer(ticket);
        match answer.error {
            ErrorCode::None => Ok(std::str::from_utf8(&answer.assignment).unwrap()),
            error => Err(error),
        }
    }

    pub(super) fn left(&self, ticket: Ticket) -> (ErrorCode, Vec<ErrorCode>) {
        match self.answers.get(&ticket) {
            Some(Answer::Leave(answer)) => (
                answer.error,
                answer.members.iter().map(|member| member.error).collect(),
            ),
            other => panic!("{ticket:?} was answered {other:?}"),
        }
    }

    /// Joins as a dynamic member does: first for an id, then with it.
    pub(super) fn join_dynamic(&mut self, join: impl Fn() -> Join) -> (String, Ticket) {
        let ticket = self.join(join());
        assert_eq!(self.join_error(ticket), ErrorCode::MemberIdRequired);
        let id = self.join_answer(ticket).member_id.to_string();
        let ticket = self.join(join().id(&id));
        (id, ticket)
    }

    /// Brings a group of `count` dynamic members into Stable, each assigned its own id; the leader first.
    pub(super) fn stable(&mut self, count: usize) -> Vec<Known> {
        let tickets: Vec<_> = (0..count).map(|_| self.join_dynamic(Join::new).1).collect();
        self.wait_and_sync(tickets)
    }

    /// Brings a group of static members into Stable.
    pub(super) fn stable_static(&mut self, instances: &[&str]) -> Vec<Known> {
        let join = |bench: &mut Self, instance: &&str| bench.join(Join::new().instance(instance));
        let tickets: Vec<_> = instances.iter().map(|instance| join(self, instance)).collect();
        self.wait_and_sync(tickets)
    }

    fn wait_and_sync(&mut self, tickets: Vec<Ticket>) -> Vec<Known> {
        // The initial delay, and as much again if several joined.
        for _ in 0..2 {
            if self.waits(tickets[0]) {
                self.pass(3_000);
            }
        }
        let members: Vec<_> = tickets.into_iter().map(|ticket| self.joined(ticket)).collect();
        self.sync_all(&members);
        members
    }

    /// All members sync, the leader assigning to each its own id.
    pub(super) fn sync_all(&mut self, members: &[Known]) {
        let assignments: Vec<_> = members.iter().map(|member| (&*member.id, &*member.id)).collect();
        let mut tickets = Vec::new();
        for member in members {
            tickets.push(self.sync(identity(&member.id, member.generation), &assignments));
        }
        self.persist_all();
        for (member, ticket) in members.iter().zip(tickets) {
            assert_eq!(self.synced(ticket), Ok(&*member.id));
        }
        assert_eq!(self.group.state(), GroupState::Stable);
    }
}
