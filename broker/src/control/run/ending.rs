//! How a node ends: its leaderships move, its shards close, and its last word says so.

use std::time::Duration;

use strandline_core::metadata::Command;
use strandline_runtime::Runtime;

use super::super::quorum::Quorum;
use super::{Phase, Purpose, State};

/// How long a node of several waits for its leaderships to move before it stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// The last word of a node that stopped, so that nobody waits for its session to end.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);

impl<R: Runtime, Q: Quorum> State<R, Q> {
    /// A node of several hands over first: its leaderships move while it still serves.
    pub(super) fn drain(&mut self) {
        let (false, Phase::Serving) = (self.quorum.is_alone(), &self.phase) else {
            if !matches!(self.phase, Phase::Draining { .. }) {
                self.stop();
            }
            return;
        };
        self.phase = Phase::Draining {
            until: None,
            deadline: self.runtime.now() + DRAIN_TIMEOUT,
        };
        let brokers = self.own_brokers();
        self.own
            .push_back((Purpose::Drain, vec![Command::StopBrokers { brokers }]));
    }

    /// The shards are closed: nobody needs to wait for their sessions to end.
    pub(super) async fn say_farewell(&self) {
        let brokers = self.own_brokers();
        if brokers.is_empty() {
            return;
        }
        let commit = self.quorum.commit(vec![Command::FenceBrokers { brokers }]);
        tokio::select! {
            biased;
            // Else the session ends by itself.
            _ = commit => {}
            () = self.runtime.sleep(FAREWELL_TIMEOUT) => {}
        }
    }

    /// Has the shards close, once.
    pub(super) fn stop(&mut self) {
        if !matches!(
            std::mem::replace(&mut self.phase, Phase::Stopping),
            Phase::Stopping
        ) {
            self.shards.stop();
        }
    }
}
