//! The members of a group, and all that is counted over them, kept so that no event walks over every member only to
//! learn one number.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use bytes::Bytes;
use strandline_wire::ErrorCode;

use super::effects::Ticket;
use super::memory;
use super::request::Protocol;

/// Names a member for as long as it is one, over changes of its id; the lower, the longer it has been a member.
pub(super) type Seat = u64;

/// What a member says of itself.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    pub(super) client_id: Rc<str>,
    pub(super) client_host: Rc<str>,
    pub(super) session_timeout_ms: i32,
    pub(super) rebalance_timeout_ms: i32,
    pub(super) protocols: Vec<Protocol>,
}

/// A member of the group.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: Rc<str>,
    pub(super) instance_id: Option<Rc<str>>,
    pub(super) profile: Profile,
    assignment: Bytes,
    /// Whether it has not been in a generation yet: it may be dropped while its join waits.
    pub(super) is_new: bool,
    join: Option<Ticket>,
    sync: Option<Ticket>,
    owes_sync: bool,
    expires_ms: Option<i64>,
}

impl Member {
    pub(super) fn new(
        id: Rc<str>,
        instance_id: Option<Rc<str>>,
        profile: Profile,
        assignment: Bytes,
    ) -> Self {
        Self {
            id,
            instance_id,
            profile,
            assignment,
            is_new: false,
            join: None,
            sync: None,
            owes_sync: false,
            expires_ms: None,
        }
    }

    pub(super) fn assignment(&self) -> &Bytes {
        &self.assignment
    }

    pub(super) fn awaits_join(&self) -> bool {
        self.join.is_some()
    }

    /// Whether its silence is no failure: it waits for us.
    pub(super) fn may_be_silent(&self) -> bool {
        !self.is_new && (self.join.is_some() || self.sync.is_some())
    }

    /// Its metadata for a protocol; empty if it does not have it.
    pub(super) fn metadata(&self, protocol: &str) -> Bytes {
        let found = self.profile.protocols.iter().find(|own| &*own.name == protocol);
        found.map_or_else(Bytes::new, |own| own.metadata.clone())
    }

    fn vote<'a>(&'a self, candidates: &BTreeSet<&str>) -> Option<&'a Rc<str>> {
        let mut names = self.profile.protocols.iter().map(|protocol| &protocol.name);
        names.find(|name| candidates.contains(&***name))
    }
}

/// The members of a group, in the order in which they joined.
#[derive(Debug, Default)]
pub(super) struct Members {
    seats: BTreeMap<Seat, Member>,
    by_id: HashMap<Rc<str>, Seat>,
    by_instance: HashMap<Rc<str>, Seat>,
    next_seat: Seat,
    leader: Option<Seat>,
    awaiting_join: usize,
    owing_sync: usize,
    /// How many members have each protocol.
    protocols: BTreeMap<Rc<str>, usize>,
    /// How many members have each rebalance timeout.
    rebalance_timeouts: BTreeMap<i32, usize>,
    expirations: BTreeSet<(i64, Seat)>,
    bytes: usize,
}

impl Members {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.seats.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Seat, &Member)> {
        self.seats.iter().map(|(&seat, member)| (seat, member))
    }

    /// Every member's seat, for changes to each.
    pub(super) fn all_seats(&self) -> Vec<Seat> {
        self.seats.keys().copied().collect()
    }

    /// The member in a seat that is known to be taken.
    pub(super) fn get(&self, seat: Seat) -> &Member {
        &self.seats[&seat]
    }

    /// The member has been in a generation.
    pub(super) fn set_established(&mut self, seat: Seat) {
        if let Some(member) = self.seats.get_mut(&seat) {
            member.is_new = false;
        }
    }

    pub(super) fn seat_of(&self, member_id: &str) -> Option<Seat> {
        self.by_id.get(member_id).copied()
    }

    pub(super) fn seat_of_instance(&self, instance_id: &str) -> Option<Seat> {
        self.by_instance.get(instance_id).copied()
    }

    /// The seat of who calls itself so (KIP-345: an instance belongs to the member id that joined with it last).
    pub(super) fn validate(&self, member_id: &str, instance_id: Option<&str>) -> Result<Seat, ErrorCode> {
        if let Some(instance_id) = instance_id {
            let seat = self
                .seat_of_instance(instance_id)
                .ok_or(ErrorCode::UnknownMemberId)?;
            if &*self.get(seat).id != member_id {
                return Err(ErrorCode::FencedInstanceId);
            }
        }
        self.seat_of(member_id).ok_or(ErrorCode::UnknownMemberId)
    }

    /// Takes in a member whose ids are not taken; the first one leads.
    pub(super) fn insert(&mut self, member: Member) -> Seat {
        let seat = self.next_seat;
        self.next_seat += 1;
        assert!(
            self.by_id.insert(member.id.clone(), seat).is_none(),
            "a member id is taken"
        );
        if let Some(instance_id) = &member.instance_id {
            let before = self.by_instance.insert(instance_id.clone(), seat);
            assert!(before.is_none(), "an instance id is taken");
        }
        self.count_profile(&member.profile);
        self.awaiting_join += usize::from(member.join.is_some());
        self.owing_sync += usize::from(member.owes_sync);
        self.expirations
            .extend(member.expires_ms.map(|expires| (expires, seat)));
        self.bytes += memory::of_member(&member);
        self.seats.insert(seat, member);
        self.leader.get_or_insert(seat);
        seat
    }

    /// Takes out a member; the longest standing one then leads if it led. Its tickets are to be taken before.
    pub(super) fn remove(&mut self, seat: Seat) -> Option<Member> {
        let member = self.seats.remove(&seat)?;
        assert!(
            member.join.is_none() && member.sync.is_none(),
            "a member goes without its answers"
        );
        self.bytes -= memory::of_member(&member);
        self.by_id.remove(&member.id);
        if let Some(instance_id) = &member.instance_id {
            self.by_instance.remove(instance_id);
        }
        self.discount_profile(&member.profile);
        self.owing_sync -= usize::from(member.owes_sync);
        if let Some(expires) = member.expires_ms {
            self.expirations.remove(&(expires, seat));
        }
        if self.leader == Some(seat) {
            self.leader = self.seats.keys().next().copied();
        }
        Some(member)
    }

    /// Gives a static member a new id and a new profile, and returns the old ones.
    pub(super) fn replace(
        &mut self,
        seat: Seat,
        id: Rc<str>,
        profile: Profile,
    ) -> Option<(Rc<str>, Profile)> {
        let old_profile = self.update(seat, profile)?;
        let new_id = id.clone();
        let old_id = self.change(seat, |member| {
            member.is_new = false;
            std::mem::replace(&mut member.id, new_id)
        })?;
        self.by_id.remove(&old_id);
        self.by_id.insert(id, seat);
        Some((old_id, old_profile))
    }

    /// Gives a member a new profile, and returns the old one.
    pub(super) fn update(&mut self, seat: Seat, profile: Profile) -> Option<Profile> {
        self.count_profile(&profile);
        let old = self.change(seat, |member| std::mem::replace(&mut member.profile, profile))?;
        self.discount_profile(&old);
        Some(old)
    }

    /// Gives a member an assignment.
    pub(super) fn assign(&mut self, seat: Seat, assignment: Bytes) {
        self.change(seat, |member| member.assignment = assignment);
    }

    /// A change of what a member takes in memory.
    fn change<T>(&mut self, seat: Seat, change: impl FnOnce(&mut Member) -> T) -> Option<T> {
        let member = self.seats.get_mut(&seat)?;
        self.bytes -= memory::of_member(member);
        let result = change(member);
        self.bytes += memory::of_member(member);
        Some(result)
    }

    fn count_profile(&mut self, profile: &Profile) {
        for protocol in &profile.protocols {
            *self.protocols.entry(protocol.name.clone()).or_default() += 1;
        }
        let timeouts = &mut self.rebalance_timeouts;
        *timeouts.entry(profile.rebalance_timeout_ms).or_default() += 1;
    }

    fn discount_profile(&mut self, profile: &Profile) {
        fn less_one<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
            if let Some(count) = counts.get_mut(key) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(key);
                }
            }
        }
        for protocol in &profile.protocols {
            less_one(&mut self.protocols, &protocol.name);
        }
        less_one(&mut self.rebalance_timeouts, &profile.rebalance_timeout_ms);
    }

    /// Lets a member's join wait; the ticket that it replaces, if there was one.
    pub(super) fn await_join(&mut self, seat: Seat, ticket: Ticket) -> Option<Ticket> {
        let member = self.seats.get_mut(&seat)?;
        let before = member.join.replace(ticket);
        self.awaiting_join += usize::from(before.is_none());
        before
    }

    /// Takes the ticket of a waiting join, to answer it.
    pub(super) fn take_join(&mut self, seat: Seat) -> Option<Ticket> {
        let ticket = self.seats.get_mut(&seat)?.join.take();
        self.awaiting_join -= usize::from(ticket.is_some());
        ticket
    }

    /// Lets a member's sync wait; the ticket that it replaces, if there was one.
    pub(super) fn await_sync(&mut self, seat: Seat, ticket: Ticket) -> Option<Ticket> {
        self.seats.get_mut(&seat)?.sync.replace(ticket)
    }

    /// Takes the ticket of a waiting sync, to answer it.
    pub(super) fn take_sync(&mut self, seat: Seat) -> Option<Ticket> {
        self.seats.get_mut(&seat)?.sync.take()
    }

    /// Whether a member has still to send its SyncGroup of this generation.
    pub(super) fn set_owes_sync(&mut self, seat: Seat, owes_sync: bool) {
        if let Some(member) = self.seats.get_mut(&seat) {
            self.owing_sync -= usize::from(member.owes_sync);
            member.owes_sync = owes_sync;
            self.owing_sync += usize::from(owes_sync);
        }
    }

    pub(super) fn anyone_owes_sync(&self) -> bool {
        self.owing_sync > 0
    }

    pub(super) fn who_owes_sync(&self) -> Vec<Seat> {
        let owing = self.iter().filter(|(_, member)| member.owes_sync);
        owing.map(|(seat, _)| seat).collect()
    }

    pub(super) fn awaiting_join(&self) -> usize {
        self.awaiting_join
    }

    /// Gives a member its session timeout from now on.
    pub(super) fn renew_session(&mut self, seat: Seat, now_ms: i64) {
        if let Some(member) = self.seats.get(&seat) {
            let timeout_ms = i64::from(member.profile.session_timeout_ms);
            self.set_expiration(seat, Some(now_ms.saturating_add(timeout_ms)));
        }
    }

    pub(super) fn set_expiration(&mut self, seat: Seat, expires_ms: Option<i64>) {
        if let Some(member) = self.seats.get_mut(&seat) {
            if let Some(before) = std::mem::replace(&mut member.expires_ms, expires_ms) {
                self.expirations.remove(&(before, seat));
            }
            self.expirations.extend(expires_ms.map(|expires| (expires, seat)));
        }
    }

    /// Who is to be heard of first, and by when.
    pub(super) fn first_expiration(&self) -> Option<(i64, Seat)> {
        self.expirations.first().copied()
    }

    /// The longest that a member may take to rejoin.
    pub(super) fn rebalance_timeout_ms(&self) -> i64 {
        let longest = self.rebalance_timeouts.last_key_value();
        longest.map_or(0, |(&timeout_ms, _)| i64::from(timeout_ms.max(0)))
    }

    /// Whether every member has one of these protocols.
    pub(super) fn share_one_of(&self, protocols: &[Protocol]) -> bool {
        let count = |name| self.protocols.get(name).copied().unwrap_or(0);
        protocols
            .iter()
            .any(|protocol| count(&protocol.name) == self.seats.len())
    }

    /// The protocol that every member has and most members prefer; between equals the longest standing member's
    /// preference decides. `None` without members.
    pub(super) fn select_protocol(&self) -> Option<Rc<str>> {
        let shared = self
            .protocols
            .iter()
            .filter(|(_, count)| **count == self.seats.len());
        let candidates: BTreeSet<&str> = shared.map(|(name, _)| &**name).collect();
        let first = self.seats.values().next()?;
        if candidates.len() == 1 {
            return first.vote(&candidates).cloned();
        }
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for name in self.seats.values().filter_map(|member| member.vote(&candidates)) {
            *votes.entry(name).or_default() += 1;
        }
        let most = votes.values().max().copied()?;
        let winners = votes.iter().filter(|(_, count)| **count == most);
        let winners: BTreeSet<&str> = winners.map(|(name, _)| *name).collect();
        first.vote(&winners).cloned()
    }

    pub(super) fn leader(&self) -> Option<Seat> {
        self.leader
    }

    pub(super) fn leader_id(&self) -> Option<&Rc<str>> {
        self.leader.map(|seat| &self.get(seat).id)
    }

    /// Makes a member lead, if it is one.
    pub(super) fn set_leader(&mut self, member_id: &str) {
        self.leader = self.seat_of(member_id).or(self.leader);
    }

    /// Makes sure that the leader is one who has rejoined; whether there is one.
    pub(super) fn elect_joined_leader(&mut self) -> bool {
        let leads = |seat: Seat| self.get(seat).awaits_join();
        if self.leader.is_some_and(leads) {
            return true;
        }
        let joined = self.iter().find(|(_, member)| member.awaits_join());
        let joined = joined.map(|(seat, _)| seat);
        self.leader = joined.or(self.leader);
        joined.is_some()
    }

    /// Checks the counts against the members.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let count = |holds: fn(&Member) -> bool| self.seats.values().filter(|member| holds(member)).count();
        let bytes: usize = self.seats.values().map(memory::of_member).sum();
        assert_eq!(self.bytes, bytes);
        assert_eq!(self.awaiting_join, count(|member| member.join.is_some()));
        assert_eq!(self.owing_sync, count(|member| member.owes_sync));
        assert_eq!(
            self.expirations.len(),
            count(|member| member.expires_ms.is_some())
        );
        assert_eq!(self.by_id.len(), self.seats.len());
        assert_eq!(
            self.by_instance.len(),
            count(|member| member.instance_id.is_some())
        );
        assert_eq!(self.leader.is_some(), !self.seats.is_empty());
        assert_eq!(self.rebalance_timeouts.values().sum::<usize>(), self.seats.len());
        let mut protocols = BTreeMap::new();
        for protocol in self.seats.values().flat_map(|member| &member.profile.protocols) {
            *protocols.entry(protocol.name.clone()).or_insert(0) += 1;
        }
        assert_eq!(self.protocols, protocols);
        for (seat, member) in self.iter() {
            assert_eq!(self.by_id.get(&member.id), Some(&seat));
            let expires = member.expires_ms.map(|expires| (expires, seat));
            assert!(expires.is_none_or(|expires| self.expirations.contains(&expires)));
            assert!(
                expires.is_some() || member.may_be_silent(),
                "nothing would ever expire {}",
                member.id
            );
        }
    }
}
