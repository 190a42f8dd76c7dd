//! The limits and delays of classic groups.

/// How long a new member's join waits for the rebalance to complete before the member is dropped. Its client cannot
/// send heartbeats yet, and its going away is not noticed; without this a client that retries would leave one ghost a try.
pub(super) const NEW_MEMBER_JOIN_TIMEOUT_MS: i64 = 5 * 60 * 1000;

/// The configuration of classic groups, the same for every group of a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassicConfig {
    /// `group.min.session.timeout.ms`.
    pub session_timeout_min_ms: i32,
    /// `group.max.session.timeout.ms`.
    pub session_timeout_max_ms: i32,
    /// `group.initial.rebalance.delay.ms`.
    pub initial_rebalance_delay_ms: i32,
    /// `group.max.size`.
    pub size_max: usize,
}

impl Default for ClassicConfig {
    fn default() -> Self {
        Self {
            session_timeout_min_ms: 6_000,
            session_timeout_max_ms: 1_800_000,
            initial_rebalance_delay_ms: 3_000,
            size_max: i32::MAX as usize,
        }
    }
}
