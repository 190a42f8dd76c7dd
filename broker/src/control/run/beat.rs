//! The node's shards are watched over: by the quorum's leader, or by the node itself if it is alone.

use strandline_core::metadata::{ClusterImage, MetadataVersion};
use strandline_core::sessions::{SessionEvent, Sessions};
use strandline_runtime::{Monotonic, Queue, Runtime};

use super::super::beats::Beats;
use super::super::quorum::Quorum;
use super::{Phase, Purpose, State};

impl<R: Runtime, Q: Quorum> State<R, Q> {
    /// A node that is alone watches over its shards once others can take over from one that hangs.
    pub(super) fn watch_if_replicated(&mut self, image: &ClusterImage) {
        let nobody_takes_over =
            self.shards.len() < 2 || image.metadata_version() == MetadataVersion::ONE_REPLICA;
        if self.beats.is_some() || nobody_takes_over {
            return;
        }
        let now = self.runtime.now();
        let now_ms = now.millis();
        let mut sessions = Sessions::new(self.session_timeout.as_millis() as i64, now_ms);
        sessions.step(&SessionEvent::Elected, image, now_ms);
        self.sessions = Some(sessions);
        self.beats = Some(Beats::new(self.heartbeat_interval, self.shards.len(), now));
    }

    /// Pings the shards and tells of them, where that is due.
    pub(super) fn beat(&mut self, now: Monotonic) {
        let stopping = matches!(self.phase, Phase::Draining { .. } | Phase::Stopping);
        let Some(beats) = &mut self.beats else { return };
        let heartbeat = beats.turn(now, &self.shards, self.registered, stopping);
        let Some(sessions) = &mut self.sessions else {
            if let Some((shards, under_way)) = heartbeat {
                let quorum = self.quorum.clone();
                self.runtime.spawn(Queue::Latency, async move {
                    if let Err(error) = quorum.heartbeat(shards).await {
                        tracing::warn!("no heartbeat: {error}");
                    }
                    drop(under_way);
                });
            }
            return;
        };
        // Until then the control loop itself unfences, and nobody takes over from a node that stops as a whole.
        if !matches!(self.phase, Phase::Serving) {
            return;
        }
        let event = heartbeat.map_or(SessionEvent::Tick, |(shards, _)| SessionEvent::Heartbeat(shards));
        let commands = sessions.step(&event, &self.quorum.image(), now.millis());
        let elections = self.balance.turn(&self.quorum.image(), now.millis());
        let commands: Vec<_> = commands.into_iter().chain(elections).collect();
        if !commands.is_empty() {
            self.own.push_back((Purpose::Watch, commands));
        }
    }
}
