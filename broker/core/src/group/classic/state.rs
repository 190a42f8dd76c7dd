//! The states of a classic group, and which may follow which.

use std::fmt;

/// The state of a classic group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupState {
    /// No members; offsets may be left. A group that only commits offsets is always in it.
    Empty,
    /// Members are asked to rejoin.
    PreparingRebalance,
    /// All have joined; the leader's assignment is awaited.
    CompletingRebalance,
    /// Every member has, or may ask for, its assignment.
    Stable,
    /// Deleted, or no longer coordinated here; the shell drops it.
    Dead,
}

impl GroupState {
    /// Kafka's name, as ListGroups and DescribeGroups tell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
            Self::Dead => "Dead",
        }
    }

    /// Whether a group may go from here to `next`.
    pub(super) const fn may_become(self, next: Self) -> bool {
        match next {
            Self::Empty | Self::CompletingRebalance => matches!(self, Self::PreparingRebalance),
            Self::PreparingRebalance => self.may_rebalance(),
            Self::Stable => matches!(self, Self::CompletingRebalance),
            Self::Dead => true,
        }
    }

    /// Whether a rebalance may start in it.
    pub(super) const fn may_rebalance(self) -> bool {
        matches!(self, Self::Stable | Self::CompletingRebalance | Self::Empty)
    }
}

impl fmt::Display for GroupState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
