//! The journal task: makes entries of what is pending, writes them, flushes, and tells who waits.
//!
//! A small entry is written through when nothing else is being committed: one operation, one wake-up. Otherwise there is one flush
//! at a time; writes go on beside it, so that one flush covers many.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::try_join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use strandline_runtime::{Monotonic, Runtime};

use super::pending::LogEnd;
use super::proof::{Durable, FlushTicket, WriteKind, Written};
use super::{IN_FLIGHT_MAX, Journal};
use crate::budget::Reservation;
use crate::disk::{Buffer, Disk, DiskFile};
use crate::format::entry::EntryIdentity;
use crate::log::Log;
use crate::log::state::LogInner;
use crate::shard::Shard;
use crate::types::{Offset, Sequence};

/// While a commit is in flight, a further entry is written beside it only from this size on: smaller ones
/// wait for the commit and share the next one, which costs fewer pages and flushes.
pub(super) const PIPELINE_BYTES: usize = 128 * 1024;
/// Half of the second within which an idle journal seals its last entry and flushes relaxed ones.
const IDLE_TICK: Duration = Duration::from_millis(500);
/// Page buffers kept for reuse.
const PAGES_KEPT: usize = IN_FLIGHT_MAX;
/// The largest page buffer kept for reuse.
const PAGE_BYTES_KEPT: usize = 1 << 20;

/// An entry between dispatch and durability.
pub(crate) struct Dispatched<D: Disk> {
    pub(crate) sequence: Sequence,
    first_at: Monotonic,
    ends: Vec<LogEnd<D>>,
    starts: Vec<(Rc<LogInner<D>>, Offset)>,
}

/// What became durable or written, and who must hear of it.
struct Moved<D: Disk> {
    ends: Vec<Log<D>>,
    starts: Vec<Log<D>>,
}

impl<D: Disk> Default for Moved<D> {
    fn default() -> Self {
        Self {
            ends: Vec::new(),
            starts: Vec::new(),
        }
    }
}

/// A page buffer and its share of the budget.
pub(crate) struct Page<D: Disk> {
    buffer: Rc<D::Buffer>,
    _reservation: Reservation,
}

type Running<T> = Pin<Box<dyn Future<Output = T>>>;
type FlushDone = (FlushTicket, Monotonic, io::Result<()>);

/// A write that ended.
struct WriteDone<D: Disk> {
    sequence: Sequence,
    kind: WriteKind,
    page: Page<D>,
    started: Monotonic,
    result: io::Result<()>,
}

/// Runs until the shard stops, or closes with nothing left to commit.
pub(crate) async fn run<R: Runtime, D: Disk>(runtime: R, shard: Rc<Shard<D>>) {
    let mut writes: FuturesUnordered<Running<WriteDone<D>>> = FuturesUnordered::new();
    let mut flush: Option<Running<FlushDone>> = None;
    let mut tick: Option<Running<()>> = None;
    let mut flush_relaxed = false;
    loop {
        let mut wake = shard.journal_wake.wait();
        if shard.is_stopped() {
            return;
        }
        while let Some(write) = dispatch(&shard) {
            writes.push(Box::pin(write));
        }
        if flush.is_none() {
            let (any, urgent) = shard.journal.borrow().in_flight.waiting_for_flush();
            if urgent || (any && (flush_relaxed || shard.closing.get())) {
                flush_relaxed = false;
                flush = Some(Box::pin(start_flush(&shard)));
            }
        }
        if shard.closing.get() && shard.direct_ended.get() && is_idle(&shard) {
            shard.journal_ended.set(true);
            shard.round_wake.notify_all();
            return;
        }
        if tick.is_none() && needs_tick(&shard) {
            tick = Some(Box::pin(runtime.sleep(IDLE_TICK)));
        }

        enum Happened<D: Disk> {
            Write(WriteDone<D>),
            Flush(FlushDone),
            Tick,
            Wake,
        }
        let happened: Happened<D> = poll_fn(|context| {
            if let Poll::Ready(Some(done)) = writes.poll_next_unpin(context) {
                return Poll::Ready(Happened::Write(done));
            }
            if let Some(running) = &mut flush
                && let Poll::Ready(done) = running.as_mut().poll(context)
            {
                return Poll::Ready(Happened::Flush(done));
            }
            if Pin::new(&mut wake).poll(context).is_ready() {
                return Poll::Ready(Happened::Wake);
            }
            if let Some(sleep) = &mut tick
                && sleep.as_mut().poll(context).is_ready()
            {
                return Poll::Ready(Happened::Tick);
            }
            Poll::Pending
        })
        .await;

        match happened {
            Happened::Write(done) => {
                let spent = (shard.clock.monotonic)().since(done.started).as_nanos() as u64;
                match done.kind {
                    WriteKind::Plain => shard.counters.write_ns.add(spent),
                    WriteKind::Through => shard.counters.flush_ns.add(spent),
                }
                match done.result {
                    Ok(()) => write_completed(&shard, done.sequence, done.kind, done.page),
                    Err(error) => {
                        return shard.stop(&format!(
                            "journal write of entry {} failed: {error}",
                            done.sequence
                        ));
                    }
                }
            }
            Happened::Flush((ticket, started, result)) => {
                flush = None;
                shard
                    .counters
                    .flush_ns
                    .add((shard.clock.monotonic)().since(started).as_nanos() as u64);
                match result {
                    Ok(()) => flush_completed(&shard, &ticket),
                    Err(error) => return shard.stop(&format!("journal flush failed: {error}")),
                }
            }
            Happened::Tick => {
                tick = None;
                flush_relaxed = shard.journal.borrow().in_flight.waiting_for_flush().0;
                seal_if_idle(&shard);
            }
            Happened::Wake => {}
        }
    }
}

/// Makes an entry of the oldest pending one when its turn has come, and gives its write.
fn dispatch<D: Disk>(shard: &Rc<Shard<D>>) -> Option<impl Future<Output = WriteDone<D>> + 'static> {
    let mut journal = shard.journal.borrow_mut();
    let journal = &mut *journal;
    let front = journal.pending.front()?;
    let committing = journal.in_flight.committing();
    let large = front.closed || front.bytes() >= PIPELINE_BYTES;
    if committing >= IN_FLIGHT_MAX || (committing > 0 && !large) {
        return None;
    }
    let length = front.bytes();
    let Some(at) = journal.ring.place(length as u32) else {
        // Nothing fits until a checkpoint has freed a file, or the next one is filled.
        shard.request_round();
        return None;
    };
    let entry = journal.pending.pop().expect("there is a front");
    let durable = journal.in_flight.durable();
    let identity = EntryIdentity {
        journal_id: journal.journal_id,
        incarnation: journal.incarnation,
        sequence: entry.sequence,
        previous: journal.ring.last_checksum(),
        durable,
        at,
    };
    let mut page = take_page(shard, &mut journal.pages, length);
    let memory = Rc::get_mut(&mut page.buffer).expect("a free page buffer has one owner");
    let checksum = entry.write_into(memory, &identity);
    journal.ring.placed(entry.sequence, at, length as u32, checksum);
    let kind = journal
        .in_flight
        .dispatched(entry.sequence, at.file, entry.needs_flush, !large);
    journal.stated_durable = durable;
    if !entry.is_empty() {
        journal.last_content = entry.sequence;
    }
    shard.counters.entries.add(1);
    shard.counters.entry_bytes.add(length as u64);
    let sequence = entry.sequence;
    journal.dispatched.push_back(Dispatched {
        sequence,
        first_at: entry.first_at,
        ends: entry.ends,
        starts: entry.starts,
    });
    let file = journal.files[at.file as usize].clone();
    let started = (shard.clock.monotonic)();
    if journal.ring.used_bytes() * 2 > journal.ring.total_bytes() {
        shard.request_round();
    }
    Some(async move {
        let buffer = page.buffer.clone();
        let result = match kind {
            WriteKind::Plain => file.write_at(buffer, length, at.position).await,
            WriteKind::Through => file.write_through_at(buffer, length, at.position).await,
        };
        WriteDone {
            sequence,
            kind,
            page,
            started,
            result,
        }
    })
}

fn take_page<D: Disk>(shard: &Shard<D>, pages: &mut Vec<Page<D>>, length: usize) -> Page<D> {
    if let Some(at) = pages.iter().position(|page| page.buffer.len() >= length) {
        return pages.swap_remove(at);
    }
    let capacity = length.next_power_of_two();
    let reservation = shard.budget.charge(capacity as u64);
    Page {
        buffer: Rc::new(shard.disk.allocate(capacity)),
        _reservation: reservation,
    }
}

fn start_flush<D: Disk>(shard: &Rc<Shard<D>>) -> impl Future<Output = FlushDone> + 'static {
    let journal = shard.journal.borrow();
    let ticket = journal.in_flight.flush_starts();
    let files: Vec<D::File> = ticket
        .files
        .iter()
        .map(|file| journal.files[*file as usize].clone())
        .collect();
    let started = (shard.clock.monotonic)();
    async move {
        let result = match &files[..] {
            [file] => file.flush().await,
            files => try_join_all(files.iter().map(DiskFile::flush)).await.map(|_| ()),
        };
        (ticket, started, result)
    }
}

fn write_completed<D: Disk>(shard: &Rc<Shard<D>>, sequence: Sequence, kind: WriteKind, page: Page<D>) {
    let mut journal = shard.journal.borrow_mut();
    // The disk may still hold its share of the memory; then it is not reused.
    let free = Rc::strong_count(&page.buffer) == 1;
    if free && page.buffer.len() <= PAGE_BYTES_KEPT && journal.pages.len() < PAGES_KEPT {
        journal.pages.push(page);
    }
    if kind == WriteKind::Through {
        shard.counters.flushes.add(1);
    }
    let written = journal.in_flight.write_completed(sequence);
    let durable = journal.in_flight.settle();
    if written.is_none() && durable.is_none() {
        return;
    }
    let mut moved = Moved::default();
    if let Some(written) = written {
        for entry in journal
            .dispatched
            .iter()
            .filter(|entry| entry.sequence <= written.sequence())
        {
            apply_written(shard, entry, written, &mut moved.ends);
        }
    }
    if let Some(durable) = durable {
        make_durable(shard, &mut journal, durable, &mut moved);
    }
    drop(journal);
    report(shard, &moved);
}

fn apply_written<D: Disk>(
    shard: &Rc<Shard<D>>,
    entry: &Dispatched<D>,
    written: Written,
    moved: &mut Vec<Log<D>>,
) {
    for end in &entry.ends {
        let mut state = end.log.state.borrow_mut();
        if state.advance_written(end.end, end.generation, written) {
            moved.push(Log::new(end.log.clone(), shard.clone()));
        }
    }
}

fn flush_completed<D: Disk>(shard: &Rc<Shard<D>>, ticket: &FlushTicket) {
    shard.counters.flushes.add(1);
    let mut journal = shard.journal.borrow_mut();
    let Some(durable) = journal.in_flight.flush_completed(ticket) else {
        return;
    };
    let mut moved = Moved::default();
    make_durable(shard, &mut journal, durable, &mut moved);
    drop(journal);
    report(shard, &moved);
}

fn make_durable<D: Disk>(
    shard: &Rc<Shard<D>>,
    journal: &mut Journal<D>,
    durable: Durable,
    moved: &mut Moved<D>,
) {
    let now = (shard.clock.monotonic)();
    while journal
        .dispatched
        .front()
        .is_some_and(|entry| entry.sequence <= durable.sequence())
    {
        let entry = journal.dispatched.pop_front().expect("there is a front");
        shard
            .counters
            .commit_ns
            .add(now.since(entry.first_at).as_nanos() as u64);
        apply_durable(shard, &entry, durable, moved);
    }
}

fn apply_durable<D: Disk>(
    shard: &Rc<Shard<D>>,
    entry: &Dispatched<D>,
    durable: Durable,
    moved: &mut Moved<D>,
) {
    for end in &entry.ends {
        let mut state = end.log.state.borrow_mut();
        if state.advance_flushed(end.end, end.generation, durable) {
            moved.ends.push(Log::new(end.log.clone(), shard.clone()));
        }
    }
    for (log, start) in &entry.starts {
        if log.state.borrow_mut().advance_start(*start, durable) {
            moved.starts.push(Log::new(log.clone(), shard.clone()));
        }
    }
}

/// Tells the observer and everybody who waits, in the same poll.
fn report<D: Disk>(shard: &Rc<Shard<D>>, moved: &Moved<D>) {
    let durable = shard.journal.borrow().in_flight.durable();
    if !moved.ends.is_empty() {
        shard.observer.advanced(durable, &moved.ends);
    }
    for log in &moved.starts {
        shard.observer.start_moved(log);
    }
    shard.progress.notify_all();
}

/// Nothing pending, nothing in flight.
fn is_idle<D: Disk>(shard: &Shard<D>) -> bool {
    let journal = shard.journal.borrow();
    journal.pending.is_empty() && journal.in_flight.is_empty()
}

/// Whether the last non-empty entry is stated durable by no later one.
fn is_unsealed<D: Disk>(journal: &Journal<D>) -> bool {
    journal.last_content > journal.stated_durable
}

fn needs_tick<D: Disk>(shard: &Shard<D>) -> bool {
    let journal = shard.journal.borrow();
    let (waits_for_flush, _) = journal.in_flight.waiting_for_flush();
    waits_for_flush || is_unsealed(&journal)
}

fn seal_if_idle<D: Disk>(shard: &Rc<Shard<D>>) {
    if !is_idle(shard) {
        return;
    }
    let mut journal = shard.journal.borrow_mut();
    if is_unsealed(&journal) {
        let now = (shard.clock.monotonic)();
        journal.pending.push_seal(now);
    }
}
