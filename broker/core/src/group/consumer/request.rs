//! What a group is asked, and what it answers.

use strandline_wire::ErrorCode;

use super::assignment::Assignment;
use super::assignor::Assignor;
use super::record::{ConsumerRecord, MemberId};

/// The member epoch that joins a group.
pub const JOIN_EPOCH: i32 = 0;
/// The member epoch that leaves a group.
pub const LEAVE_EPOCH: i32 = -1;
/// The member epoch by which a static member leaves for a while: its partitions wait for it.
pub const LEAVE_STATIC_EPOCH: i32 = -2;
/// From this version of ConsumerGroupHeartbeat on, members make their ids themselves (KIP-1082).
const MEMBER_ID_BY_CLIENT_VERSION: i16 = 1;
/// No rebalance timeout in a request.
const NO_TIMEOUT: i32 = -1;

/// What a group of the consumer protocol is configured with: the broker's keys, with the group's own in their place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerGroupConfig {
    /// `group.consumer.max.size`.
    pub size_max: usize,
    /// `consumer.session.timeout.ms` of the group, else `group.consumer.session.timeout.ms`.
    pub session_timeout_ms: i64,
    /// `consumer.heartbeat.interval.ms` of the group, else `group.consumer.heartbeat.interval.ms`.
    pub heartbeat_interval_ms: i32,
    /// `group.consumer.regex.refresh.interval.ms`.
    pub regex_refresh_interval_ms: i64,
    /// `group.consumer.assignors`; the first is the default. Never empty.
    pub assignors: Vec<Assignor>,
}

impl Default for ConsumerGroupConfig {
    fn default() -> Self {
        Self {
            size_max: i32::MAX as usize,
            session_timeout_ms: 45_000,
            heartbeat_interval_ms: 5_000,
            regex_refresh_interval_ms: 600_000,
            assignors: vec![Assignor::Uniform, Assignor::Range],
        }
    }
}

impl ConsumerGroupConfig {
    /// This configuration with a group's own values, where it has them.
    #[must_use]
    pub fn with_group(mut self, session_timeout_ms: Option<i32>, heartbeat_interval_ms: Option<i32>) -> Self {
        self.session_timeout_ms = session_timeout_ms.map_or(self.session_timeout_ms, i64::from);
        self.heartbeat_interval_ms = heartbeat_interval_ms.unwrap_or(self.heartbeat_interval_ms);
        self
    }
}

/// A ConsumerGroupHeartbeat.
#[derive(Clone, Debug, Default)]
pub struct HeartbeatRequest<'a> {
    /// The version it came in.
    pub version: i16,
    /// The member's id; may be empty in version 0 when it joins.
    pub member_id: &'a str,
    /// A random id for a member that joins without one.
    pub new_member_id: &'a str,
    /// The member's epoch, or one of [`JOIN_EPOCH`], [`LEAVE_EPOCH`], [`LEAVE_STATIC_EPOCH`].
    pub member_epoch: i32,
    /// The instance id of a static member.
    pub instance_id: Option<&'a str>,
    /// The member's rack; `None` if unchanged.
    pub rack_id: Option<&'a str>,
    /// How long the member may take to give up partitions; -1 if unchanged.
    pub rebalance_timeout_ms: i32,
    /// The topics subscribed to by name; `None` if unchanged.
    pub topic_names: Option<Vec<&'a str>>,
    /// The regular expression subscribed by; `None` if unchanged, empty for none.
    pub topic_regex: Option<&'a str>,
    /// The assignor asked for; `None` if unchanged.
    pub server_assignor: Option<&'a str>,
    /// The partitions the member owns; `None` if unchanged.
    pub owned: Option<Assignment>,
    /// The client's id.
    pub client_id: &'a str,
    /// The client's address, with Java's leading slash.
    pub client_host: &'a str,
}

impl HeartbeatRequest<'_> {
    /// Whether the request says everything, as a member's does that joins or is in doubt; it is told its assignment.
    pub(super) fn is_full(&self) -> bool {
        self.rebalance_timeout_ms != NO_TIMEOUT
            && (self.topic_names.is_some() || self.topic_regex.is_some())
            && self.owned.is_some()
    }

    pub(super) fn rebalance_timeout(&self) -> Option<i32> {
        Some(self.rebalance_timeout_ms).filter(|timeout_ms| *timeout_ms != NO_TIMEOUT)
    }

    /// What can be said against the request without knowing the group.
    pub fn validate(&self, group_id: &str, config: &ConsumerGroupConfig) -> Result<(), GroupError> {
        let invalid = |message: &str| Err(GroupError::new(ErrorCode::InvalidRequest, message));
        if self.member_id.is_empty()
            && (self.version >= MEMBER_ID_BY_CLIENT_VERSION
                || self.member_epoch > JOIN_EPOCH
                || self.member_epoch == LEAVE_EPOCH)
        {
            return invalid("MemberId can't be empty.");
        }
        if group_id.is_empty() {
            return invalid("GroupId can't be empty.");
        }
        if self.instance_id == Some("") {
            return invalid("InstanceId can't be empty.");
        }
        if self.rack_id == Some("") {
            return invalid("RackId can't be empty.");
        }
        if self.member_epoch == JOIN_EPOCH {
            if self.rebalance_timeout_ms == NO_TIMEOUT {
                return invalid("RebalanceTimeoutMs must be provided in first request.");
            }
            if !self.owned.as_ref().is_some_and(Assignment::is_empty) {
                return invalid("TopicPartitions must be empty when (re-)joining.");
            }
            if self.topic_names.is_none() && self.topic_regex.is_none() {
                return invalid(
                    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
                );
            }
        } else if self.member_epoch == LEAVE_STATIC_EPOCH {
            if self.instance_id.is_none() {
                return invalid("InstanceId can't be null.");
            }
        } else if self.member_epoch < LEAVE_STATIC_EPOCH {
            return invalid("MemberEpoch is invalid.");
        }
        match self.server_assignor {
            Some(name) if !config.assignors.iter().any(|assignor| assignor.name() == name) => {
                let names: Vec<&str> = config.assignors.iter().map(|assignor| assignor.name()).collect();
                let names = names.join(", ");
                Err(GroupError::new(
                    ErrorCode::UnsupportedAssignor,
                    format!("ServerAssignor {name} is not supported. Supported assignors: {names}."),
                ))
            }
            _ => Ok(()),
        }
    }
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupError {
    /// Kafka's code.
    pub code: ErrorCode,
    /// The text beside it.
    pub message: String,
}

impl GroupError {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// The answer to a heartbeat that is not refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatAnswer {
    /// The member's id.
    pub member_id: MemberId,
    /// Its epoch from now on; the epoch it left with, if it left.
    pub member_epoch: i32,
    /// When to send the next heartbeat; 0 to a member that left.
    pub heartbeat_interval_ms: i32,
    /// What it may own, if that is new or in doubt. It gives up the rest and says so in its next heartbeat.
    pub assignment: Option<Assignment>,
}

/// What a step of a group asks for: the records are to be appended, in order and in one batch, and the answer to be
/// sent once they are durable. The group already counts on them: when they cannot be written it takes them
/// [back](super::ConsumerGroup::take_back).
#[derive(Clone, Debug)]
pub struct Effects<A> {
    /// What to append.
    pub records: Vec<ConsumerRecord>,
    /// What to answer then.
    pub answer: A,
    /// When to call [`tick`](super::ConsumerGroup::tick), in milliseconds since 1970.
    pub deadline_ms: Option<i64>,
}

/// Why a member was removed without having asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceReason {
    /// No heartbeat for the session timeout.
    SessionExpired,
    /// It did not give up partitions within its rebalance timeout.
    RebalanceTimedOut,
}

/// A member that was removed without having asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FencedMember {
    /// Its id.
    pub id: MemberId,
    /// Why.
    pub reason: FenceReason,
}
