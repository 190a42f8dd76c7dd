//! Fetch: sessions, long poll, and records served from where they lie.
//!
//! A fetch looks at its partitions, reads those with something to say, and parks when that is less than its minimum:
//! on the partitions themselves and on the shard's coarse deadlines, never on a timer of its own.

mod answer;
mod check;
mod read;

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::select;
use strandline_core::fetch_session::{
    FetchContext, NO_SESSION, PartitionFetch, PartitionKey, SessionError, SessionRequest, TopicKey,
};
use strandline_runtime::{Monotonic, Runtime};
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;
use strandline_wire::fetch::{FetchRequest, TopicRef, decode_request};

use self::read::Round;
use super::Request;
use crate::connection::{Answer, Close};
use crate::shard::{FetchWatch, Partition, Shard};

const READ_COMMITTED: i8 = 1;
/// The least replica id that names a follower; consumers have -1, debugging consumers -2.
const FOLLOWER_ID_MIN: i32 = 0;

/// A decoded fetch; owns what it needs, so that its frame can be dropped while it is parked.
pub(crate) struct Fetch<R: Runtime, D: Disk> {
    pub(super) session: Result<OpenContext<R, D>, SessionError>,
    pub(super) deadline: Monotonic,
    pub(super) min_bytes: u64,
    pub(super) max_bytes: usize,
    pub(super) read_committed: bool,
    /// Followers replicate over links, not by this API.
    pub(super) from_follower: bool,
}

/// The context of a fetch. If it is dropped without an answer (its client went away), its session goes too.
pub(super) struct OpenContext<R: Runtime, D: Disk> {
    shard: Rc<Shard<R, D>>,
    context: Option<FetchContext>,
}

impl<R: Runtime, D: Disk> OpenContext<R, D> {
    pub(super) fn get(&self) -> &FetchContext {
        self.context
            .as_ref()
            .expect("the context is taken by the answer alone")
    }

    pub(super) fn take(mut self) -> FetchContext {
        self.context
            .take()
            .expect("the context is taken by the answer alone")
    }
}

impl<R: Runtime, D: Disk> Drop for OpenContext<R, D> {
    fn drop(&mut self) {
        if let Some(context) = &self.context
            && context.session_id() != NO_SESSION
        {
            self.shard.sessions.borrow_mut().abandon(context.session_id());
        }
    }
}

/// Decodes a fetch and enters its session.
pub(crate) fn begin<R: Runtime, D: Disk>(request: &Request<R, D>, body: &[u8]) -> Result<Fetch<R, D>, Close> {
    let asked = decode_request(request.version, body)?;
    let shard = &request.shard;
    let session = SessionRequest {
        session_id: asked.session_id,
        epoch: asked.session_epoch,
        uses_topic_ids: request.version >= strandline_wire::fetch::FIRST_TOPIC_ID_VERSION,
    };
    let context = shard.sessions.borrow_mut().begin(
        session,
        named(&asked),
        forgotten(&asked),
        shard.runtime.wall_clock_ms(),
    );
    let session = context.map(|context| OpenContext {
        shard: shard.clone(),
        context: Some(context),
    });
    let wait = Duration::from_millis(u64::try_from(asked.max_wait_ms).unwrap_or_default());
    let max_bytes = usize::try_from(asked.max_bytes)
        .unwrap_or_default()
        .min(shard.config.fetch_max_bytes);
    let min_bytes = u64::try_from(asked.min_bytes).unwrap_or_default();
    Ok(Fetch {
        session,
        deadline: request.arrived + wait,
        // More than may be sent is not waited for.
        min_bytes: min_bytes.min(max_bytes as u64),
        max_bytes,
        read_committed: asked.isolation_level == READ_COMMITTED,
        from_follower: asked.replica_id >= FOLLOWER_ID_MIN,
    })
}

fn named<'a>(asked: &'a FetchRequest<'_>) -> impl Iterator<Item = (PartitionKey, PartitionFetch)> + 'a {
    asked.topics.iter().flat_map(|(topic, partitions)| {
        let topic = topic_key(topic);
        partitions.iter().map(move |partition| {
            let key = PartitionKey {
                topic: topic.clone(),
                partition: partition.index,
            };
            let fetch = PartitionFetch {
                fetch_offset: partition.fetch_offset,
                max_bytes: partition.max_bytes,
                current_leader_epoch: partition.current_leader_epoch,
                last_fetched_epoch: partition.last_fetched_epoch,
            };
            (key, fetch)
        })
    })
}

fn forgotten<'a>(asked: &'a FetchRequest<'_>) -> impl Iterator<Item = PartitionKey> + 'a {
    asked.forgotten_topics.iter().flat_map(|(topic, partitions)| {
        let topic = topic_key(topic);
        partitions.iter().map(move |partition| PartitionKey {
            topic: topic.clone(),
            partition: *partition,
        })
    })
}

fn topic_key(topic: &TopicRef<'_>) -> TopicKey {
    match topic {
        TopicRef::Name(name) => TopicKey::Name(Rc::from(*name)),
        TopicRef::Id(id) => TopicKey::Id(*id),
    }
}

/// Serves a fetch, parked for its wait time if need be.
pub(crate) async fn serve<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    fetch: Fetch<R, D>,
) -> Result<Answer<D>, Close> {
    let context = match &fetch.session {
        Ok(open) => open.get(),
        Err(error) => return answer::session_error(request, *error),
    };
    let shard = &request.shard;
    let mut parked: Option<Parked> = None;
    let round = loop {
        let round = Round::read(request, &fetch, context).await;
        // Waiting with what was read would take the room that it waits for.
        let cut_short = round.is_blocked() && round.bytes() > 0;
        let enough = round.bytes_to_limits() >= fetch.min_bytes || round.must_answer() || cut_short;
        if enough || shard.runtime.now() >= fetch.deadline || shard.is_stopping() {
            break round;
        }
        let missing = fetch.min_bytes - round.bytes_to_limits();
        let seen = round.partitions();
        let freed = round.is_blocked().then(|| shard.outgoing.freed());
        // What was read is not kept while parked: it would pin memory for nothing.
        drop(round);
        let parked = parked.get_or_insert_with(|| Parked::new(shard, fetch.deadline));
        parked.wait(shard, &seen, missing, freed).await;
    };
    drop(parked);
    answer::encode(request, fetch, round)
}

/// A partition of a fetch that parks, and how much was readable when it was read.
pub(super) type Seen<D> = (Rc<Partition<D>>, u64);

/// What keeps a parked fetch alive in the shard's deadlines.
struct Parked {
    watch: Rc<FetchWatch>,
    _deadline: crate::shard::Deadline,
}

impl Parked {
    fn new<R: Runtime, D: Disk>(shard: &Shard<R, D>, deadline: Monotonic) -> Self {
        let watch = Rc::new(FetchWatch::default());
        let deadline = shard.deadlines.register(deadline, watch.clone());
        Self {
            watch,
            _deadline: deadline,
        }
    }

    /// Waits until `missing` bytes more are readable in what was seen, or something else is to be said.
    /// `freed` is given when memory for answers is what is missing.
    async fn wait<R: Runtime, D: Disk>(
        &self,
        shard: &Shard<R, D>,
        seen: &[Seen<D>],
        missing: u64,
        freed: Option<impl Future<Output = ()>>,
    ) {
        self.watch.arm(missing);
        let watching: Vec<_> = seen
            .iter()
            .map(|(partition, _)| partition.watch(&self.watch))
            .collect();
        // Reading may have waited for the disk: look at what came meanwhile before the wait begins.
        let moved = seen.iter().any(|(partition, readable)| {
            partition.readable_bytes() != *readable || partition.lost().is_some()
        });
        if shard.is_stopping() {
            return;
        }
        match freed {
            Some(freed) => {
                select(pin!(freed), pin!(self.watch.wait())).await;
            }
            None if !moved => self.watch.wait().await,
            None => {}
        }
        drop(watching);
    }
}

/// The code of a refused session request.
fn session_code(error: SessionError) -> ErrorCode {
    match error {
        SessionError::IdNotFound => ErrorCode::FetchSessionIdNotFound,
        SessionError::InvalidEpoch => ErrorCode::InvalidFetchSessionEpoch,
        SessionError::TopicIdMismatch => ErrorCode::FetchSessionTopicIdError,
    }
}
