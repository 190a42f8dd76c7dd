//! Receive memory: one buffer a connection that has bytes, and the bound over all of them.
//!
//! An idle connection holds no buffer. A frame's buffer grows with the bytes that came, never with the size that the
//! client announced. All buffers together take at most the pool's limit; beyond it one connection at a time goes on, the
//! one whose frame has been incomplete for the longest, until that frame is served: so one always gets through. A part of it
//! is kept for small buffers, so that fetches and small produces do not wait for large requests that come slowly.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use bytes::Bytes;
use send_wrapper::SendWrapper;
use strandline_runtime::Monotonic;
use strandline_runtime::local::Event;
use strandline_storage::{MemoryBudget, Reservation};

/// The first buffer of a connection.
const INITIAL_BYTES: usize = 4096;
/// A buffer grows by this factor: what is reserved stays within a small multiple of what was received.
const GROWTH: usize = 4;
/// From this size on it grows by half: four times what came of a large request is more than the others can spare.
const SLOW_GROWTH_BYTES: usize = 1 << 20;
/// A connection whose small frames fill its buffer gets up to this much, to read many frames at once.
const BATCH_READ_BYTES: usize = 64 << 10;
/// Buffers above `BATCH_READ_BYTES` leave this part of the limit to the others.
const SMALL_PART: usize = 4;

/// The receive memory of one shard.
pub(crate) struct ReceivePool {
    /// The shard's memory, of which this is a part.
    budget: MemoryBudget,
    limit: usize,
    used: Cell<usize>,
    /// The connection that may grow beyond the limit, until its frame is served.
    beyond: Cell<Option<u64>>,
    /// What it took beyond: nobody waits for that.
    beyond_bytes: Cell<usize>,
    /// Connections that wait to grow, the oldest incomplete frame first.
    growing: RefCell<BTreeSet<(Monotonic, u64)>>,
    freed: Event,
}

impl ReceivePool {
    pub(crate) fn new(budget: MemoryBudget, limit: usize) -> Rc<Self> {
        Rc::new(Self {
            budget,
            limit,
            used: Cell::new(0),
            beyond: Cell::new(None),
            beyond_bytes: Cell::new(0),
            growing: RefCell::default(),
            freed: Event::new(),
        })
    }

    /// Whether more than half is in use: connections then give their buffers back as soon as they are empty.
    fn is_tight(&self) -> bool {
        self.used.get() > self.limit / 2
    }

    /// Reserves for the connection `id`, whose frame is incomplete since `since`, what its buffer lacks `from` one size `to`
    /// another.
    async fn reserve(&self, (from, to): (usize, usize), since: Monotonic, id: u64) -> Reservation {
        let bytes = to - from;
        let limit = if to > BATCH_READ_BYTES {
            self.limit - self.limit / SMALL_PART
        } else {
            self.limit
        };
        let within = || self.used.get() - self.beyond_bytes.get() + bytes <= limit;
        let may_grow = || within() || self.beyond.get() == Some(id);
        if !may_grow() {
            let key = (since, id);
            let _place = Place { pool: self, key };
            self.growing.borrow_mut().insert(key);
            loop {
                let freed = self.freed.wait();
                if may_grow() {
                    break;
                }
                let is_oldest = self.growing.borrow().first() == Some(&key);
                if is_oldest && self.beyond.get().is_none() {
                    self.beyond.set(Some(id));
                    break;
                }
                freed.await;
            }
        }
        self.used.set(self.used.get() + bytes);
        if self.beyond.get() == Some(id) {
            self.beyond_bytes.set(self.beyond_bytes.get() + bytes);
        }
        let bytes = bytes as u64;
        // Makes cached frames give way; what is dirty never does, and then appends wait.
        self.budget
            .try_reserve(bytes)
            .unwrap_or_else(|| self.budget.charge(bytes))
    }

    /// A copy of a request's body, counted here until its last reference is dropped: a request that waits for something
    /// keeps only what it still refers to.
    pub(crate) fn hold(self: &Rc<Self>, body: &[u8]) -> Bytes {
        self.used.set(self.used.get() + body.len());
        Bytes::from_owner(Held(SendWrapper::new(HeldBody {
            pool: self.clone(),
            reservation: self.budget.charge(body.len() as u64),
            bytes: body.into(),
        })))
    }

    fn is_beyond(&self, id: u64) -> bool {
        self.beyond.get() == Some(id)
    }

    fn release(&self, bytes: usize, id: u64) {
        if self.is_beyond(id) {
            self.beyond.set(None);
            self.beyond_bytes.set(0);
        }
        self.give_back(bytes);
    }

    fn give_back(&self, bytes: usize) {
        self.used.set(self.used.get() - bytes);
        if !self.growing.borrow().is_empty() {
            self.freed.notify_all();
        }
    }
}

/// A request's bytes outside of its connection's buffer: receive memory like those in it. They stay on their shard, which
/// [`Bytes`] cannot know.
struct Held(SendWrapper<HeldBody>);

struct HeldBody {
    pool: Rc<ReceivePool>,
    reservation: Reservation,
    bytes: Box<[u8]>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl Drop for HeldBody {
    fn drop(&mut self) {
        self.pool.give_back(self.reservation.bytes() as usize);
    }
}

/// A place in the queue of growing connections.
struct Place<'a> {
    pool: &'a ReceivePool,
    key: (Monotonic, u64),
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.pool.growing.borrow_mut().remove(&self.key);
        self.pool.freed.notify_all();
    }
}

/// The bytes of one connection that are received and not yet served.
pub(crate) struct ReceiveBuffer {
    pool: Rc<ReceivePool>,
    id: u64,
    bytes: Vec<u8>,
    /// What `bytes` takes of the shard's memory.
    reserved: Vec<Reservation>,
    start: usize,
    end: usize,
}

impl ReceiveBuffer {
    pub(crate) fn new(pool: Rc<ReceivePool>, id: u64) -> Self {
        Self {
            pool,
            id,
            bytes: Vec::new(),
            reserved: Vec::new(),
            start: 0,
            end: 0,
        }
    }

    /// What was received and not consumed.
    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Whether nothing waits in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether it holds memory.
    pub(crate) fn holds_memory(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Drops the first `count` bytes.
    pub(crate) fn consume(&mut self, count: usize) {
        assert!(count <= self.end - self.start, "consumed more than was received");
        self.start += count;
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
            // The frame that might go beyond the limit is served: the next one's turn.
            if self.pool.is_tight() || self.pool.is_beyond(self.id) {
                self.release();
            }
        } else if self.pool.is_beyond(self.id) {
            self.shrink();
        }
    }

    /// Gives back what the rest does not need: the next one waits for it.
    fn shrink(&mut self) {
        let rest = self.filled().to_vec();
        self.consume(rest.len());
        if self.holds_memory() {
            self.release();
        }
        let size = rest.len().max(INITIAL_BYTES);
        self.pool.used.set(self.pool.used.get() + size);
        self.reserved.push(self.pool.budget.charge(size as u64));
        self.bytes = rest;
        self.end = self.bytes.len();
        self.bytes.resize(size, 0);
    }

    /// Gives the memory back; only when empty.
    pub(crate) fn release(&mut self) {
        assert!(self.is_empty(), "released a buffer with bytes in it");
        self.pool.release(self.bytes.len(), self.id);
        self.bytes = Vec::new();
        self.reserved.clear();
        (self.start, self.end) = (0, 0);
    }

    /// Makes room to read on. `wanted` is the size of the incomplete frame with its prefix, 0 if not yet known.
    pub(crate) async fn make_room(&mut self, wanted: usize, since: Monotonic) {
        let size = self.bytes.len();
        if self.start > 0 && (self.end == size || self.start + wanted > size) {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end < size {
            return;
        }
        let ceiling = wanted.max(BATCH_READ_BYTES);
        let grown = if size == 0 {
            INITIAL_BYTES
        } else {
            let grown = if size < SLOW_GROWTH_BYTES {
                size * GROWTH
            } else {
                size + size / 2
            };
            grown.min(ceiling).max(size + 1)
        };
        let reserved = self.pool.reserve((size, grown), since, self.id).await;
        self.reserved.push(reserved);
        self.bytes.resize(grown, 0);
    }

    /// The room to read into.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.end..]
    }

    /// `count` bytes were read into the room.
    pub(crate) fn received(&mut self, count: usize) {
        self.end += count;
        debug_assert!(self.end <= self.bytes.len());
    }

    /// Puts bytes in that were read elsewhere; there must be room.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.room()[..bytes.len()].copy_from_slice(bytes);
        self.received(bytes.len());
    }
}

impl Drop for ReceiveBuffer {
    fn drop(&mut self) {
        self.pool.release(self.bytes.len(), self.id);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn fill(buffer: &mut ReceiveBuffer, wanted: usize, since: u64) -> bool {
        if buffer
            .make_room(wanted, Monotonic(since))
            .now_or_never()
            .is_none()
        {
            return false;
        }
        let room = buffer.room().len();
        buffer.received(room);
        true
    }

    #[test]
    fn grows_with_what_came_and_not_with_what_was_announced() {
        let pool = ReceivePool::new(MemoryBudget::new(1 << 30), 1 << 30);
        let mut buffer = ReceiveBuffer::new(pool.clone(), 1);
        assert!(fill(&mut buffer, 100 << 20, 0));
        assert_eq!(pool.used.get(), INITIAL_BYTES);
        assert!(fill(&mut buffer, 100 << 20, 0));
        assert_eq!(pool.used.get(), INITIAL_BYTES * GROWTH);
        let all = buffer.filled().len();
        buffer.consume(all);
        buffer.release();
        assert_eq!(pool.used.get(), 0);
    }

    /// A request of 100 MB of which a fifth had come held 64 MiB.
    #[test]
    fn a_large_frame_takes_little_more_than_what_came_of_it() {
        let pool = ReceivePool::new(MemoryBudget::new(1 << 30), 1 << 30);
        let mut buffer = ReceiveBuffer::new(pool.clone(), 1);
        while buffer.filled().len() < 20 << 20 {
            let came = buffer.filled().len();
            assert!(fill(&mut buffer, 100 << 20, 0));
            assert!(came < SLOW_GROWTH_BYTES || pool.used.get() <= came + came / 2);
        }
    }

    #[test]
    fn ends_exactly_at_a_large_frame() {
        let pool = ReceivePool::new(MemoryBudget::new(1 << 30), 1 << 30);
        let mut buffer = ReceiveBuffer::new(pool, 1);
        while buffer.filled().len() < 200_000 {
            assert!(fill(&mut buffer, 200_000, 0));
        }
        assert_eq!(buffer.filled().len(), 200_000);
    }

    #[test]
    fn beyond_the_limit_one_at_a_time_goes_on_the_oldest_first() {
        let pool = ReceivePool::new(MemoryBudget::new(1 << 30), 2 * INITIAL_BYTES);
        let mut buffers: Vec<_> = (0..3).map(|id| ReceiveBuffer::new(pool.clone(), id)).collect();
        let [first, second, third] = &mut buffers[..] else {
            unreachable!()
        };
        assert!(fill(first, 1 << 20, 10));
        assert!(fill(second, 1 << 20, 20));
        // Alone in the queue, it goes on; then the others wait until its frame is served.
        assert!(fill(second, 1 << 20, 20));
        assert!(fill(second, 1 << 20, 20));
        let mut old = Box::pin(first.make_room(1 << 20, Monotonic(10)));
        let mut young = Box::pin(third.make_room(0, Monotonic(30)));
        assert!((&mut young).now_or_never().is_none());
        assert!((&mut old).now_or_never().is_none());
        let length = second.filled().len();
        second.consume(length);
        assert!((&mut young).now_or_never().is_none() || pool.used.get() <= 2 * INITIAL_BYTES);
        assert!((&mut old).now_or_never().is_some());
        drop((old, young));
        drop(buffers);
        assert_eq!(pool.used.get(), 0);
        assert_eq!(pool.beyond.get(), None);
    }

    /// A few connections with half a large frame each kept everybody else waiting for as long as they liked, up to 30 s.
    #[test]
    fn small_frames_do_not_wait_for_large_ones() {
        let pool = ReceivePool::new(MemoryBudget::new(1 << 30), 1 << 20);
        let mut large: Vec<_> = (0..9).map(|id| ReceiveBuffer::new(pool.clone(), id)).collect();
        for buffer in &mut large {
            while fill(buffer, 100 << 20, 1) && pool.beyond.get().is_none() {}
        }
        assert!(pool.beyond.get().is_some());
        let mut small = ReceiveBuffer::new(pool.clone(), 10);
        while small.filled().len() < 20_000 {
            assert!(fill(&mut small, 20_000, 2));
        }
    }

    /// It kept the turn while the pool was not tight, and nobody else could go beyond the limit again.
    #[test]
    fn the_turn_beyond_the_limit_ends_with_its_frame() {
        let pool = ReceivePool::new(MemoryBudget::new(1 << 30), 32 * INITIAL_BYTES);
        let mut large = ReceiveBuffer::new(pool.clone(), 1);
        let mut others: Vec<_> = (2..30).map(|id| ReceiveBuffer::new(pool.clone(), id)).collect();
        for other in &mut others {
            assert!(fill(other, 1 << 20, 5));
        }
        for _ in 0..3 {
            assert!(fill(&mut large, 1 << 20, 1));
        }
        assert_eq!(pool.beyond.get(), Some(1));
        drop(others);
        assert!(!pool.is_tight());
        let length = large.filled().len();
        large.consume(length);
        assert_eq!((pool.beyond.get(), pool.used.get()), (None, 0));
    }

    #[test]
    fn what_left_a_buffer_still_counts() {
        let pool = ReceivePool::new(MemoryBudget::new(1 << 30), 2 * INITIAL_BYTES);
        let held = pool.hold(&[7; 2 * INITIAL_BYTES]);
        let part = held.slice(1..2);
        drop(held);
        let mut first = ReceiveBuffer::new(pool.clone(), 1);
        // One goes on beyond the limit; the next waits for what is held.
        assert!(fill(&mut first, 100, 1));
        let mut second = ReceiveBuffer::new(pool.clone(), 2);
        assert!(!fill(&mut second, 100, 2));
        assert_eq!(part, [7][..]);
        drop(part);
        assert_eq!(pool.used.get(), INITIAL_BYTES);
        assert!(fill(&mut second, 100, 2));
    }

    #[test]
    fn what_follows_a_frame_beyond_the_limit_is_kept() {
        let pool = ReceivePool::new(MemoryBudget::new(1 << 30), INITIAL_BYTES);
        let mut buffer = ReceiveBuffer::new(pool.clone(), 1);
        for _ in 0..2 {
            assert!(fill(&mut buffer, 1 << 20, 1));
        }
        let length = buffer.filled().len();
        buffer.bytes[length - 3..].copy_from_slice(b"end");
        buffer.consume(length - 3);
        assert_eq!(buffer.filled(), b"end");
        assert_eq!(pool.used.get(), INITIAL_BYTES);
        assert_eq!(pool.beyond.get(), None);
    }
}
