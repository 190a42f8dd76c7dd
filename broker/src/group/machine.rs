//! A group of either protocol, and what is asked of both.

use strandline_core::group::classic::{ClassicGroup, OffsetExpiry};
use strandline_core::group::consumer::ConsumerGroup;
use strandline_wire::ErrorCode;

/// The state machine of a group. Boxed: the nodes of the map of all groups are half empty, and most groups are many.
pub(super) enum Machine {
    Classic(Box<ClassicGroup>),
    Consumer(Box<ConsumerGroup>),
}

impl From<ClassicGroup> for Machine {
    fn from(group: ClassicGroup) -> Self {
        Self::Classic(Box::new(group))
    }
}

impl From<ConsumerGroup> for Machine {
    fn from(group: ConsumerGroup) -> Self {
        Self::Consumer(Box::new(group))
    }
}

impl Machine {
    pub(super) fn classic(&self) -> Option<&ClassicGroup> {
        match self {
            Self::Classic(machine) => Some(machine),
            Self::Consumer(_) => None,
        }
    }

    pub(super) fn consumer(&self) -> Option<&ConsumerGroup> {
        match self {
            Self::Classic(_) => None,
            Self::Consumer(machine) => Some(machine),
        }
    }

    /// The group's type, as ListGroups names it.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Classic(_) => "classic",
            Self::Consumer(_) => "consumer",
        }
    }

    /// The kind of members; empty if it has had none.
    pub(super) fn protocol_type(&self) -> &str {
        match self {
            Self::Classic(machine) => machine.protocol_type().map_or("", |kind| kind),
            Self::Consumer(_) => "consumer",
        }
    }

    pub(super) fn state_name(&self) -> &'static str {
        match self {
            Self::Classic(machine) => machine.state().name(),
            Self::Consumer(machine) => machine.state().name(),
        }
    }

    /// When it wants to be called.
    pub(super) fn deadline_ms(&self) -> Option<i64> {
        match self {
            Self::Classic(machine) => machine.deadline_ms(),
            Self::Consumer(machine) => machine.deadline_ms(),
        }
    }

    /// About what it takes with its members.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Classic(machine) => size_of::<ClassicGroup>() + machine.bytes(),
            Self::Consumer(machine) => size_of::<ConsumerGroup>() + machine.bytes(),
        }
    }

    /// Whether a member may be reading a topic.
    pub(super) fn is_subscribed_to(&self, topic: &str) -> bool {
        match self {
            Self::Classic(machine) => machine.is_subscribed_to(topic),
            Self::Consumer(machine) => machine.is_subscribed_to(topic),
        }
    }

    /// From when on the retention of its offsets counts.
    pub(super) fn offset_expiry(&self) -> OffsetExpiry {
        match self {
            Self::Classic(machine) => machine.offset_expiry(),
            Self::Consumer(_) => OffsetExpiry::SinceCommit,
        }
    }

    /// Whether nothing but offsets can keep it.
    pub(super) fn is_idle(&self) -> bool {
        match self {
            Self::Classic(machine) => machine.is_idle(),
            Self::Consumer(machine) => machine.is_empty(),
        }
    }

    /// Whether it may be deleted.
    pub(super) fn validate_delete(&self) -> Result<(), ErrorCode> {
        match self {
            Self::Classic(machine) => machine.validate_delete(),
            Self::Consumer(machine) if machine.is_empty() => Ok(()),
            Self::Consumer(_) => Err(ErrorCode::NonEmptyGroup),
        }
    }

    /// Whether offsets of topics that nobody in it reads may be deleted.
    pub(super) fn validate_offset_delete(&self) -> Result<(), ErrorCode> {
        match self {
            Self::Classic(machine) => machine.validate_offset_delete(),
            Self::Consumer(_) => Ok(()),
        }
    }
}
