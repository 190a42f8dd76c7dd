//! Which shards live, by the clock of the quorum's leader, and what follows: fencing, unfencing, shutting down, damage.
//!
//! A node's heartbeat carries the state of each of its shards. A shard that is silent for a session is fenced alone; one that
//! says that it serves is unfenced; a process that is known to be dead is fenced at once. The commands that follow are
//! proposals: apply decides, and a command that comes out again because it was lost harms nobody.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::metadata::{
    BrokerEpoch, BrokerId, ClusterImage, Command, MetadataOffset, NodeId, PartitionReference,
};

/// How long between two ticks counts as time that the leader did not run (paused, or starved): no session ends by it.
const PAUSE_MS: i64 = 1_000;

/// What a shard says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShardHealth {
    /// It answers, and does not serve yet: it replays, or lacks an image.
    Starting,
    /// It has replayed, listens, and serves by the image of this offset.
    Serving(MetadataOffset),
    /// It is about to stop, and wants its leaderships moved.
    Stopping,
    /// It did not answer its node's last ping.
    Silent,
}

/// One shard in a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardHeartbeat {
    /// Which.
    pub broker: BrokerId,
    /// The registration that its node knows.
    pub epoch: BrokerEpoch,
    /// How it is.
    pub health: ShardHealth,
    /// Replicas that it found damaged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<PartitionReference>,
}

/// What the leader of the quorum hears of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// It was elected: every session starts anew, since nobody knows what the one before had heard.
    Elected,
    /// A node's heartbeat.
    Heartbeat(Vec<ShardHeartbeat>),
    /// Somebody saw the process of these shards dead: a closed link, and both ports refuse.
    Dead(Vec<(BrokerId, BrokerEpoch)>),
    /// Time passed; a few times a second.
    Tick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Session {
    epoch: BrokerEpoch,
    ends_ms: i64,
}

/// The sessions of every registered shard.
#[derive(Clone, Debug)]
pub struct Sessions {
    timeout_ms: i64,
    sessions: BTreeMap<BrokerId, Session>,
    now_ms: i64,
}

impl Sessions {
    /// Sessions of `timeout_ms` (`broker.session.timeout.ms`); none runs before [`SessionEvent::Elected`].
    pub fn new(timeout_ms: i64, now_ms: i64) -> Self {
        Self {
            timeout_ms,
            sessions: BTreeMap::new(),
            now_ms,
        }
    }

    /// Takes an event, by the newest image, at a time on one clock that never goes back. What is to be proposed.
    pub fn step(&mut self, event: &SessionEvent, image: &ClusterImage, now_ms: i64) -> Vec<Command> {
        self.leave_out_pause(now_ms);
        if *event == SessionEvent::Elected {
            self.sessions.clear();
        }
        self.follow(image, now_ms);
        match event {
            SessionEvent::Elected => Vec::new(),
            SessionEvent::Heartbeat(shards) => self.heartbeat(shards, image, now_ms),
            SessionEvent::Dead(brokers) => fence(brokers.clone(), image),
            SessionEvent::Tick => {
                let over = self
                    .sessions
                    .iter()
                    .filter(|(_, session)| session.ends_ms <= now_ms);
                let over = over.map(|(broker, session)| (*broker, session.epoch)).collect();
                fence(over, image)
            }
        }
    }

    /// How many shards of a node have a running session.
    pub fn alive(&self, node: NodeId, now_ms: i64) -> usize {
        let of_node = self.sessions.iter().filter(|(broker, _)| broker.node() == node);
        of_node.filter(|(_, session)| session.ends_ms > now_ms).count()
    }

    fn leave_out_pause(&mut self, now_ms: i64) {
        let pause_ms = now_ms - self.now_ms - PAUSE_MS;
        if pause_ms > 0 {
            for session in self.sessions.values_mut() {
                session.ends_ms += pause_ms;
            }
        }
        self.now_ms = now_ms;
    }

    /// A new registration is a new session.
    fn follow(&mut self, image: &ClusterImage, now_ms: i64) {
        self.sessions.retain(|broker, _| image.broker(*broker).is_some());
        for broker in image.brokers() {
            let known = self.sessions.get(&broker.id);
            if known.is_none_or(|known| known.epoch != broker.epoch) {
                let session = Session {
                    epoch: broker.epoch,
                    ends_ms: now_ms + self.timeout_ms,
                };
                self.sessions.insert(broker.id, session);
            }
        }
    }

    fn heartbeat(&mut self, shards: &[ShardHeartbeat], image: &ClusterImage, now_ms: i64) -> Vec<Command> {
        let (mut unfenced, mut stopping, mut commands) = (Vec::new(), Vec::new(), Vec::new());
        for shard in shards {
            let Some(broker) = image.broker(shard.broker) else {
                continue;
            };
            if broker.epoch != shard.epoch {
                continue;
            }
            let name = (shard.broker, shard.epoch);
            if shard.health != ShardHealth::Silent
                && let Some(session) = self.sessions.get_mut(&shard.broker)
            {
                session.ends_ms = now_ms + self.timeout_ms;
            }
            // The registration's epoch is the offset of its record.
            let knows_itself = |offset: MetadataOffset| offset.0 as i64 >= shard.epoch.0;
            match shard.health {
                ShardHealth::Serving(offset) if broker.fenced && knows_itself(offset) => unfenced.push(name),
                ShardHealth::Stopping if !broker.stopping => stopping.push(name),
                _ => {}
            }
            let stands = |damaged: &PartitionReference| {
                let partition = image.partition(damaged.topic, damaged.partition);
                partition.is_some_and(|partition| {
                    let others = partition
                        .isr
                        .iter()
                        .chain(&partition.elr)
                        .any(|other| *other != shard.broker);
                    let member =
                        partition.isr.contains(&shard.broker) || partition.elr.contains(&shard.broker);
                    member && others
                })
            };
            // The last member keeps its standing: to say it again and again would only raise epochs.
            let replicas: Vec<PartitionReference> = shard.damaged.iter().copied().filter(stands).collect();
            if !replicas.is_empty() {
                commands.push(Command::ReplicasDamaged {
                    broker: shard.broker,
                    epoch: shard.epoch,
                    replicas,
                });
            }
        }
        if !unfenced.is_empty() {
            commands.push(Command::UnfenceBrokers { brokers: unfenced });
        }
        if !stopping.is_empty() {
            commands.push(Command::StopBrokers { brokers: stopping });
        }
        commands
    }
}

/// Fences those that are not, in one record.
fn fence(mut brokers: Vec<(BrokerId, BrokerEpoch)>, image: &ClusterImage) -> Vec<Command> {
    brokers.retain(|(broker, epoch)| {
        let known = image.broker(*broker);
        known.is_some_and(|known| known.epoch == *epoch && !known.fenced)
    });
    match brokers.is_empty() {
        true => Vec::new(),
        false => vec![Command::FenceBrokers { brokers }],
    }
}
