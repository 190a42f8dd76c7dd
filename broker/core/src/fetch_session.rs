//! Incremental fetch sessions (KIP-227): what a client asked for is kept here, so that a fetch names only what
//! changed and its answer leaves out what did not.
//!
//! Pure: the shell passes the clock and random session ids. While a fetch runs (it may be parked for its wait
//! time), the partitions of its session are lent out in a [`FetchContext`] and given back by
//! [`FetchSessionCache::finish`]; a fetch that ends without an answer gives up its session by
//! [`FetchSessionCache::abandon`].

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use uuid::Uuid;

/// A session that nobody used for this long gives way to a new one.
pub const SESSION_EVICTION_MS: i64 = 120_000;
/// The session id of a request or answer without a session.
pub const NO_SESSION: i32 = 0;
/// The epoch that asks for a new session.
pub const INITIAL_EPOCH: i32 = 0;
/// The epoch that closes a session.
pub const FINAL_EPOCH: i32 = -1;

const NONE: u32 = u32::MAX;
/// What one partition of a session takes besides its topic's name: its slot, and its place in the index at the load that
/// a hash map has after it grew.
const PARTITION_BYTES: usize = 256;

/// How a request names a topic: by name below version 13 of Fetch, by id from then on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TopicKey {
    /// The name; an error in a name-based session is answered under it.
    Name(Rc<str>),
    /// The topic id.
    Id(Uuid),
}

/// A partition as a request names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PartitionKey {
    /// The topic.
    pub topic: TopicKey,
    /// The partition's number.
    pub partition: i32,
}

impl PartitionKey {
    fn bytes(&self) -> usize {
        PARTITION_BYTES
            + match &self.topic {
                TopicKey::Name(name) => name.len(),
                TopicKey::Id(_) => 0,
            }
    }
}

/// What a client wants of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionFetch {
    /// The first offset wanted.
    pub fetch_offset: i64,
    /// The size limit of this partition's records.
    pub max_bytes: i32,
    /// The leader epoch the client knows; -1 if none.
    pub current_leader_epoch: i32,
    /// The leader epoch of the last record the client has; -1 if none.
    pub last_fetched_epoch: i32,
}

/// What a partition's answer says, as far as a session cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionOutcome {
    /// The answered high watermark.
    pub high_watermark: i64,
    /// The answered log start offset.
    pub log_start_offset: i64,
    /// Whether records are in the answer.
    pub has_records: bool,
    /// Whether the answer must be seen whatever its offsets: an error or a diverging epoch.
    pub must_respond: bool,
    /// Whether it carries an error code; the partition is then sent again once the error goes.
    pub is_error: bool,
}

/// Why a session request is refused as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// FETCH_SESSION_ID_NOT_FOUND.
    IdNotFound,
    /// INVALID_FETCH_SESSION_EPOCH.
    InvalidEpoch,
    /// FETCH_SESSION_TOPIC_ID_ERROR.
    TopicIdMismatch,
}

struct Slot {
    key: PartitionKey,
    fetch: PartitionFetch,
    high_watermark: i64,
    log_start_offset: i64,
    previous: u32,
    next: u32,
}

/// The partitions of one fetch, in the order they are served.
///
/// A list threaded through a slab, since a partition that returned data moves to the end at every fetch.
pub struct FetchPartitions {
    slots: Vec<Slot>,
    index: HashMap<PartitionKey, u32>,
    free: Vec<u32>,
    first: u32,
    last: u32,
    /// Of every slot, free ones included: a slab does not shrink.
    bytes: usize,
}

impl Default for FetchPartitions {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            index: HashMap::new(),
            free: Vec::new(),
            first: NONE,
            last: NONE,
            bytes: 0,
        }
    }
}

impl FetchPartitions {
    /// How many partitions there are.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Adds a partition at the end, or replaces what is wanted of it in its place.
    pub fn insert(&mut self, key: PartitionKey, fetch: PartitionFetch) {
        if let Some(&slot) = self.index.get(&key) {
            self.slots[slot as usize].fetch = fetch;
            return;
        }
        let entry = Slot {
            key: key.clone(),
            fetch,
            high_watermark: -1,
            log_start_offset: -1,
            previous: NONE,
            next: NONE,
        };
        self.bytes += key.bytes();
        let slot = match self.free.pop() {
            Some(slot) => {
                self.bytes -= self.slots[slot as usize].key.bytes();
                self.slots[slot as usize] = entry;
                slot
            }
            None => {
                self.slots.push(entry);
                (self.slots.len() - 1) as u32
            }
        };
        self.index.insert(key, slot);
        self.append(slot);
    }

    /// Removes a partition; whether it was there.
    pub fn remove(&mut self, key: &PartitionKey) -> bool {
        let Some(slot) = self.index.remove(key) else {
            return false;
        };
        self.unlink(slot);
        self.free.push(slot);
        true
    }

    /// The partitions in order, each with the number that [`Self::respond`] takes.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &PartitionKey, &PartitionFetch)> {
        let mut at = self.first;
        std::iter::from_fn(move || {
            let slot = self.slots.get(at as usize)?;
            let item = (at, &slot.key, &slot.fetch);
            at = slot.next;
            Some(item)
        })
    }

    /// The partition that [`Self::iter`] gave `slot` for.
    pub fn get(&self, slot: u32) -> (&PartitionKey, &PartitionFetch) {
        let slot = &self.slots[slot as usize];
        (&slot.key, &slot.fetch)
    }

    /// Notes what is answered for a partition; whether an incremental answer must hold it. One with records
    /// moves to the end, so that every partition gets its turn under the size limits.
    fn respond(&mut self, slot: u32, outcome: &PartitionOutcome) -> bool {
        let entry = &mut self.slots[slot as usize];
        let changed = entry.high_watermark != outcome.high_watermark
            || entry.log_start_offset != outcome.log_start_offset;
        entry.high_watermark = if outcome.is_error {
            -1
        } else {
            outcome.high_watermark
        };
        entry.log_start_offset = outcome.log_start_offset;
        if outcome.has_records {
            self.unlink(slot);
            self.append(slot);
        }
        changed || outcome.has_records || outcome.must_respond || outcome.is_error
    }

    fn append(&mut self, slot: u32) {
        let last = self.last;
        let entry = &mut self.slots[slot as usize];
        entry.previous = last;
        entry.next = NONE;
        match self.slots.get_mut(last as usize) {
            Some(before) => before.next = slot,
            None => self.first = slot,
        }
        self.last = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let (previous, next) = {
            let entry = &self.slots[slot as usize];
            (entry.previous, entry.next)
        };
        match self.slots.get_mut(previous as usize) {
            Some(before) => before.next = next,
            None => self.first = next,
        }
        match self.slots.get_mut(next as usize) {
            Some(after) => after.previous = previous,
            None => self.last = previous,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ContextKind {
    Sessionless,
    Full { uses_topic_ids: bool },
    Incremental { session_id: i32, epoch: i32 },
}

/// A fetch under way: its partitions and the session they belong to.
pub struct FetchContext {
    kind: ContextKind,
    /// What to serve, in order.
    pub partitions: FetchPartitions,
}

impl FetchContext {
    /// Whether the answer leaves out partitions without news.
    pub fn is_incremental(&self) -> bool {
        matches!(self.kind, ContextKind::Incremental { .. })
    }

    /// The session this fetch belongs to so far; [`NO_SESSION`] if none yet.
    pub fn session_id(&self) -> i32 {
        match self.kind {
            ContextKind::Incremental { session_id, .. } => session_id,
            _ => NO_SESSION,
        }
    }
}

struct Session {
    uses_topic_ids: bool,
    epoch: i32,
    created_ms: i64,
    last_used_ms: i64,
    size: usize,
    bytes: usize,
    /// `None` while a fetch has them.
    partitions: Option<FetchPartitions>,
}

/// A session request, as far as the cache looks at it.
#[derive(Clone, Copy, Debug)]
pub struct SessionRequest {
    /// The session named by the client.
    pub session_id: i32,
    /// The epoch named by the client.
    pub epoch: i32,
    /// Whether topics are named by id (version 13 and up).
    pub uses_topic_ids: bool,
}

/// The sessions of one shard, at most as many as it has slots, and of no more memory than it may have.
pub struct FetchSessionCache {
    slots: usize,
    bytes_max: usize,
    bytes: usize,
    sessions: HashMap<i32, Session>,
    /// By last use, for giving way to newer ones.
    by_use: BTreeMap<(i64, i32), ()>,
    /// By size, those old enough to give way to a larger one.
    by_size: BTreeMap<(usize, i32), ()>,
    evictions: u64,
}

impl FetchSessionCache {
    /// A cache of `slots` sessions (`max.incremental.fetch.session.cache.slots`), whose partitions take at most
    /// `bytes_max` together: the number of sessions alone bounds nothing, since clients choose how many partitions each has.
    pub fn new(slots: usize, bytes_max: usize) -> Self {
        Self {
            slots,
            bytes_max,
            bytes: 0,
            sessions: HashMap::new(),
            by_use: BTreeMap::new(),
            by_size: BTreeMap::new(),
            evictions: 0,
        }
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// What their partitions take, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many sessions gave way to others.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Starts a fetch: `named` is what the request asks for, `forgotten` what it drops from its session.
    ///
    /// # Errors
    /// [`SessionError`] refuses the whole request; the client then starts a new session.
    pub fn begin(
        &mut self,
        request: SessionRequest,
        named: impl Iterator<Item = (PartitionKey, PartitionFetch)>,
        forgotten: impl Iterator<Item = PartitionKey>,
        now_ms: i64,
    ) -> Result<FetchContext, SessionError> {
        if request.epoch == INITIAL_EPOCH || request.epoch == FINAL_EPOCH {
            self.remove(request.session_id);
            let mut partitions = FetchPartitions::default();
            named.for_each(|(key, fetch)| partitions.insert(key, fetch));
            let kind = if request.epoch == FINAL_EPOCH {
                ContextKind::Sessionless
            } else {
                ContextKind::Full {
                    uses_topic_ids: request.uses_topic_ids,
                }
            };
            return Ok(FetchContext { kind, partitions });
        }
        let session = self
            .sessions
            .get_mut(&request.session_id)
            .ok_or(SessionError::IdNotFound)?;
        if session.epoch != request.epoch {
            return Err(SessionError::InvalidEpoch);
        }
        if session.uses_topic_ids != request.uses_topic_ids {
            return Err(SessionError::TopicIdMismatch);
        }
        // Lent to a fetch that is still parked: its answer will carry the epoch that this request presumes.
        let mut partitions = session.partitions.take().ok_or(SessionError::InvalidEpoch)?;
        named.for_each(|(key, fetch)| partitions.insert(key, fetch));
        forgotten.for_each(|key| {
            partitions.remove(&key);
        });
        let others = self.bytes - session.bytes;
        // Beyond the memory of all sessions this one ends: its client gets its data, and asks for a new session.
        if partitions.is_empty() || others + partitions.bytes > self.bytes_max {
            self.remove(request.session_id);
            return Ok(FetchContext {
                kind: ContextKind::Sessionless,
                partitions,
            });
        }
        session.epoch = next_epoch(session.epoch);
        let epoch = session.epoch;
        self.bytes = others + partitions.bytes;
        session.bytes = partitions.bytes;
        self.touch(request.session_id, partitions.len(), now_ms);
        let kind = ContextKind::Incremental {
            session_id: request.session_id,
            epoch,
        };
        Ok(FetchContext { kind, partitions })
    }

    /// Ends a fetch. `answered` holds the slot and outcome of every partition of the context, in order, and
    /// learns which of them the answer must hold (all, unless incremental). Returns the session id to answer;
    /// `random_id` draws candidates for a new one.
    pub fn finish(
        &mut self,
        mut context: FetchContext,
        answered: &mut [(u32, PartitionOutcome, bool)],
        now_ms: i64,
        random_id: impl FnMut() -> i32,
    ) -> i32 {
        let incremental = context.is_incremental();
        for (slot, outcome, include) in answered.iter_mut() {
            let changed = context.partitions.respond(*slot, outcome);
            *include = changed || !incremental;
        }
        match context.kind {
            ContextKind::Sessionless => NO_SESSION,
            ContextKind::Full { uses_topic_ids } => {
                self.create(context.partitions, uses_topic_ids, now_ms, random_id)
            }
            ContextKind::Incremental { session_id, epoch } => {
                // Evicted or superseded meanwhile: this answer still stands, the next request learns of it.
                if let Some(session) = self.sessions.get_mut(&session_id)
                    && session.epoch == epoch
                {
                    session.partitions = Some(context.partitions);
                }
                session_id
            }
        }
    }

    /// Ends a fetch whose client is gone: its session goes with it.
    pub fn abandon(&mut self, session_id: i32) {
        self.remove(session_id);
    }

    fn create(
        &mut self,
        partitions: FetchPartitions,
        uses_topic_ids: bool,
        now_ms: i64,
        mut random_id: impl FnMut() -> i32,
    ) -> i32 {
        if partitions.bytes > self.bytes_max {
            return NO_SESSION;
        }
        while self.bytes + partitions.bytes > self.bytes_max {
            if !self.try_evict_stale(now_ms) {
                return NO_SESSION;
            }
        }
        if self.sessions.len() >= self.slots && !self.try_evict(partitions.len(), now_ms) {
            return NO_SESSION;
        }
        let id = loop {
            let id = random_id();
            if id > NO_SESSION && !self.sessions.contains_key(&id) {
                break id;
            }
        };
        let (size, bytes) = (partitions.len(), partitions.bytes);
        self.bytes += bytes;
        let session = Session {
            uses_topic_ids,
            epoch: next_epoch(INITIAL_EPOCH),
            created_ms: now_ms,
            last_used_ms: now_ms,
            size,
            bytes,
            partitions: Some(partitions),
        };
        self.sessions.insert(id, session);
        self.by_use.insert((now_ms, id), ());
        id
    }

    /// Makes room for a session of `size` partitions: the one unused longest if it is stale, else the smallest of
    /// those that have lived long enough and are smaller. Young busy sessions never give way, so that clients
    /// beyond the slots get data without a session rather than evict each other for ever (KAFKA-9137).
    fn try_evict(&mut self, size: usize, now_ms: i64) -> bool {
        if self.try_evict_stale(now_ms) {
            return true;
        }
        match self.by_size.keys().next() {
            Some(&(smallest, id)) if size > smallest => self.evict(id),
            _ => return false,
        }
        true
    }

    /// Ends the session that is unused for longest, if that is long enough.
    fn try_evict_stale(&mut self, now_ms: i64) -> bool {
        match self.by_use.keys().next() {
            Some(&(used_ms, id)) if now_ms - used_ms > SESSION_EVICTION_MS => self.evict(id),
            _ => return false,
        }
        true
    }

    fn evict(&mut self, id: i32) {
        self.remove(id);
        self.evictions += 1;
    }

    fn touch(&mut self, id: i32, size: usize, now_ms: i64) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        self.by_use.remove(&(session.last_used_ms, id));
        self.by_size.remove(&(session.size, id));
        session.last_used_ms = now_ms;
        session.size = size;
        self.by_use.insert((now_ms, id), ());
        if now_ms - session.created_ms > SESSION_EVICTION_MS {
            self.by_size.insert((size, id), ());
        }
    }

    fn remove(&mut self, id: i32) {
        if let Some(session) = self.sessions.remove(&id) {
            self.bytes -= session.bytes;
            self.by_use.remove(&(session.last_used_ms, id));
            self.by_size.remove(&(session.size, id));
        }
    }
}

/// The epoch after `epoch`; after the largest comes 1, since 0 asks for a new session.
fn next_epoch(epoch: i32) -> i32 {
    if epoch == i32::MAX { 1 } else { epoch + 1 }
}

#[cfg(test)]
#[path = "fetch_session_tests.rs"]
mod tests;
