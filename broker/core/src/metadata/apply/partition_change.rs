//! What one change makes of a partition: who is in sync, who is eligible, who leads, and which epochs rise.
//!
//! Every change of a partition goes through [`Change::finish`], so that the rules on ISR, ELR and leader hold together.

use std::collections::BTreeSet;

use super::super::ids::{BrokerId, LeaderEpoch, PartitionEpoch};
use super::super::image::{ClusterImage, Partition, Topic};
use crate::replica::suffices;

/// What a topic's configuration says about its replicas.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    min_insync_replicas: usize,
    unclean_elections: bool,
    /// Acknowledged when written: a power cut may take the tail.
    pub(super) relaxed: bool,
}

impl Policy {
    pub(super) fn of(image: &ClusterImage, topic: &Topic) -> Self {
        let internal = strandline_wire::topic_name::is_internal(&topic.name);
        image.layers(topic, |layers| Self {
            min_insync_replicas: layers.number("min.insync.replicas"),
            unclean_elections: layers.flag("unclean.leader.election.enable"),
            relaxed: !internal && layers.number::<i64>("flush.messages") != 1,
        })
    }

    pub(super) fn allows_unclean_elections(&self) -> bool {
        self.unclean_elections
    }
}

/// Which leader is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The one there is, as long as it may lead.
    Same,
    /// The first replica, if it may lead.
    Preferred,
    /// Anyone who lives, if nobody may lead.
    Unclean,
}

/// A change of one partition: the fields say what is asked for.
#[derive(Clone, Debug)]
pub(super) struct Change<'a> {
    pub(super) old: &'a Partition,
    pub(super) isr: Vec<BrokerId>,
    pub(super) replicas: Vec<BrokerId>,
    pub(super) adding: Vec<BrokerId>,
    pub(super) removing: Vec<BrokerId>,
    pub(super) wanted: Wanted,
    /// Replicas that may lack what they acknowledged.
    pub(super) unclean: BTreeSet<BrokerId>,
    /// Replicas that lost everything: their directory is another.
    pub(super) lost: BTreeSet<BrokerId>,
}

impl<'a> Change<'a> {
    pub(super) fn of(old: &'a Partition) -> Self {
        Self {
            old,
            isr: old.isr.clone(),
            replicas: old.replicas.clone(),
            adding: old.adding.clone(),
            removing: old.removing.clone(),
            wanted: Wanted::Same,
            unclean: BTreeSet::new(),
            lost: BTreeSet::new(),
        }
    }

    /// The partition after the change; `None` if that is how it was. Members of the ISR that are not `active` leave it.
    pub(super) fn finish(mut self, policy: &Policy, active: impl Fn(BrokerId) -> bool) -> Option<Partition> {
        let old = self.old;
        let lossy = self.take_standing();
        self.isr.retain(|member| active(*member));
        self.complete_reassignment();
        let enough = |change: &Self, isr: &[BrokerId]| {
            suffices(isr, &change.replicas, &change.adding, policy.min_insync_replicas)
        };
        let mut elr = Vec::new();
        if !enough(&self, &self.isr) {
            let had_all = |replica: &&BrokerId| old.isr.contains(replica) || old.elr.contains(replica);
            let eligible = self.replicas.iter().filter(had_all);
            let eligible = eligible
                .filter(|replica| !self.isr.contains(replica))
                .filter(|replica| !self.unclean.contains(replica) && !self.lost.contains(replica));
            elr = eligible.copied().collect();
        }
        let (leader, unclean) = self.elect(&elr, policy, &active);
        if leader != BrokerId::NONE && !self.isr.contains(&leader) {
            self.isr = vec![leader];
            elr.retain(|member| *member != leader);
            if unclean || enough(&self, &self.isr) {
                elr.clear();
            }
        }
        let dropped = old
            .replicas
            .iter()
            .any(|replica| !self.replicas.contains(replica));
        let new_epoch = leader != old.leader || dropped || lossy || unclean;
        let leader_epoch = LeaderEpoch(old.leader_epoch.0 + i32::from(new_epoch));
        let last_known_leader = match (leader, old.leader) {
            (BrokerId::NONE, BrokerId::NONE) => old.last_known_leader,
            (BrokerId::NONE, last) => last,
            _ => BrokerId::NONE,
        };
        let added_at = old.added_at.iter().copied();
        let mut next = Partition {
            leader,
            leader_epoch,
            partition_epoch: old.partition_epoch,
            isr: self.isr,
            elr,
            last_known_leader,
            adding: self.adding,
            removing: self.removing,
            lossy_epoch: if lossy || unclean {
                Some(leader_epoch)
            } else {
                old.lossy_epoch
            },
            assigned_at: old.assigned_at,
            added_at: added_at
                .filter(|(replica, _)| self.replicas.contains(replica))
                .collect(),
            replicas: self.replicas,
        };
        if next == *old {
            return None;
        }
        next.partition_epoch = PartitionEpoch(old.partition_epoch.0 + 1);
        Some(next)
    }

    /// Replicas that lost bytes leave ISR and ELR, except the last member of both: unless it lost everything it stays, and
    /// will lead with what it has. Whether that happened.
    fn take_standing(&mut self) -> bool {
        if self.unclean.is_empty() && self.lost.is_empty() {
            return false;
        }
        let old = self.old;
        let leader = old.isr.iter().filter(|member| **member == old.leader);
        let standing: Vec<BrokerId> = leader.chain(&old.isr).chain(&old.elr).copied().collect();
        let gone = |member: &BrokerId| self.unclean.contains(member) || self.lost.contains(member);
        let mut kept = None;
        if !standing.is_empty() && standing.iter().all(gone) {
            kept = standing
                .iter()
                .find(|member| !self.lost.contains(member))
                .copied();
        }
        if let Some(kept) = kept {
            self.unclean.remove(&kept);
        }
        let (unclean, lost) = (&self.unclean, &self.lost);
        self.isr
            .retain(|member| !unclean.contains(member) && !lost.contains(member));
        kept.is_some()
    }

    /// A reassignment is complete once all that stay are in sync.
    fn complete_reassignment(&mut self) {
        if self.adding.is_empty() && self.removing.is_empty() {
            return;
        }
        let stays = |replica: &&BrokerId| !self.removing.contains(replica);
        let replicas: Vec<BrokerId> = self.replicas.iter().filter(stays).copied().collect();
        if replicas.is_empty() || !replicas.iter().all(|replica| self.isr.contains(replica)) {
            return;
        }
        self.isr.retain(|member| replicas.contains(member));
        self.replicas = replicas;
        self.adding.clear();
        self.removing.clear();
    }

    /// Who leads, and whether committed records may be missing there. From the ISR; from the ELR only when that is empty.
    fn elect(
        &self,
        elr: &[BrokerId],
        policy: &Policy,
        active: &impl Fn(BrokerId) -> bool,
    ) -> (BrokerId, bool) {
        let may_lead = |replica: &BrokerId| {
            let stands = self.isr.contains(replica) || (self.isr.is_empty() && elr.contains(replica));
            stands && active(*replica)
        };
        let preferred = self.replicas.first().filter(|replica| may_lead(replica));
        if let (Wanted::Preferred, Some(preferred)) = (self.wanted, preferred) {
            return (*preferred, false);
        }
        if may_lead(&self.old.leader) {
            return (self.old.leader, false);
        }
        if let Some(replica) = self.replicas.iter().find(|replica| may_lead(replica)) {
            return (*replica, false);
        }
        if policy.unclean_elections || self.wanted == Wanted::Unclean {
            let last = [self.old.last_known_leader, self.old.leader];
            let last = last.iter().filter(|last| self.replicas.contains(last));
            let mut candidates = last.chain(&self.replicas);
            let alive = candidates.find(|replica| active(**replica) && !self.lost.contains(replica));
            if let Some(replica) = alive {
                return (*replica, true);
            }
        }
        (BrokerId::NONE, false)
    }
}

impl ClusterImage {
    /// Passes the partitions that `concerns` picks through `change`, and then through the rules.
    pub(super) fn change_partitions(
        &mut self,
        concerns: impl Fn(&Topic, u32, &Partition) -> bool,
        change: impl for<'a> Fn(&Topic, u32, &Policy, &'a Partition) -> Change<'a>,
    ) {
        let mut changed = Vec::new();
        for topic in self.topics.values() {
            let mut policy = None;
            for (number, partition) in (0_u32..).zip(&topic.partitions) {
                if !concerns(topic, number, partition) {
                    continue;
                }
                let policy = policy.get_or_insert_with(|| Policy::of(self, topic));
                let change = change(topic, number, policy, partition);
                if let Some(next) = change.finish(policy, |broker| self.is_active(broker)) {
                    changed.push((topic.id, number as usize, next));
                }
            }
        }
        for (topic, number, next) in changed {
            self.edit_topic(topic, |topic| topic.partitions[number] = next);
        }
    }

    pub(super) fn is_active(&self, broker: BrokerId) -> bool {
        self.brokers.get(&broker).is_some_and(|broker| broker.is_active())
    }
}
