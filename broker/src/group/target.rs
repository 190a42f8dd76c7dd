//! Heartbeats that change a group of the consumer protocol wait for its next target, and share it.
//!
//! A target is computed from all members, so that one for each of thousands that join at once would be work by the square of
//! their number. One target of a group is on its way to the disk at a time: the next one is computed once that is durable,
//! for all who came meanwhile, as the journal does with commits. Who comes when none is on its way waits for nothing.

use std::rc::Rc;

use strandline_core::group::consumer::{
    GroupError, Heartbeat, HeartbeatAnswer, HeartbeatRequest, PendingHeartbeat,
};
use strandline_runtime::local::Event;
use strandline_runtime::{Queue, Runtime};
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;

use super::Coordinator;
use super::consumer::{Stepped, refused};
use crate::shard::Shard;

impl<D: Disk> Coordinator<D> {
    /// A ConsumerGroupHeartbeat, whatever there is of its group so far.
    ///
    /// # Errors
    /// The code for the client: what it changed could not be written, or the coordinator ended meanwhile.
    pub(super) async fn consumer_heartbeat<R: Runtime>(
        self: &Rc<Self>,
        shard: &Rc<Shard<R, D>>,
        name: &Rc<str>,
        request: &HeartbeatRequest<'_>,
    ) -> Result<Stepped<Result<HeartbeatAnswer, GroupError>>, ErrorCode> {
        let begun = self.step(shard, name, |machine, around| {
            machine.begin_heartbeat(around.now_ms, around.config, request, around.image)
        });
        let Some(begun) = begun else {
            return self.found(shard, name, request);
        };
        let Stepped { answer, end } = begun?;
        match answer {
            Err(error) => Ok(Stepped {
                answer: Err(error),
                end,
            }),
            Ok(Heartbeat::Answered(answer)) => Ok(Stepped {
                answer: Ok(answer),
                end,
            }),
            Ok(Heartbeat::Awaits(pending)) => self.with_next_target(shard, name, &pending).await,
        }
    }

    async fn with_next_target<R: Runtime>(
        self: &Rc<Self>,
        shard: &Rc<Shard<R, D>>,
        name: &Rc<str>,
        pending: &PendingHeartbeat,
    ) -> Result<Stepped<Result<HeartbeatAnswer, GroupError>>, ErrorCode> {
        self.next_target(shard, name).await;
        self.check()?;
        let finished = self.step(shard, name, |machine, around| {
            machine.finish_heartbeat(around.now_ms, around.config, pending, around.image)
        });
        finished.unwrap_or_else(|| {
            Ok(refused(GroupError {
                code: ErrorCode::UnknownMemberId,
                message: format!("Group {name} has become another one."),
            }))
        })
    }

    /// Completes once the group has a target for what it is now, as far as that could be written.
    async fn next_target<R: Runtime>(self: &Rc<Self>, shard: &Rc<Shard<R, D>>, name: &Rc<str>) {
        let awaited = self.awaited.borrow().get(name).map(Event::wait);
        let awaited = awaited.unwrap_or_else(|| {
            let event = Event::new();
            let wait = event.wait();
            self.awaited.borrow_mut().insert(name.clone(), event);
            let (coordinator, shard, name) = (self.clone(), shard.clone(), name.clone());
            let runtime = shard.runtime.clone();
            runtime.spawn(Queue::Latency, async move {
                let on_its_way = coordinator
                    .groups
                    .borrow()
                    .get(&name)
                    .map(|group| group.target_end);
                if let Some(end) = on_its_way {
                    // If it will not be durable, who waits for it is told so.
                    let _ = coordinator.durable_in_time(&shard, end).await;
                }
                // Who waits finds out by itself whether it was written, or computes it.
                let _ = coordinator.step(&shard, &name, |machine, around| {
                    machine.assign(around.config, around.image)
                });
                let event = coordinator.awaited.borrow_mut().remove(&name);
                event.unwrap_or_default().notify_all();
            });
            wait
        });
        awaited.await;
    }
}
