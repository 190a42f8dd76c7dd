//! The writing side: every answer that is ready goes out with one write; large records go from the cache uncopied.

use std::pin::pin;
use std::rc::Rc;

use bytes::BytesMut;
use futures_util::future::{Either, select};
use strandline_runtime::{Monotonic, Runtime, WriteHalf};
use strandline_storage::BatchSlice;
use strandline_storage::disk::Disk;
use strandline_wire::fetch::{FetchFrame, Piece};

use super::{Answer, Close, Connection, Stage};
use crate::handlers::produce::PendingProduce;
use crate::shard::{Loan, Shard, add};

/// A fetch answer from this size on is written from the cache; copying a smaller one costs less than more pieces.
const UNCOPIED_BYTES_MIN: usize = 16 << 10;
/// A piece of a large answer below this is copied next to its neighbours all the same.
const PIECE_BYTES_MIN: usize = 2 << 10;
/// Answers gathered into one write stop here.
const GATHER_BYTES: usize = 256 << 10;
/// No write is larger, so that a slow client that reads is told from one that does not.
pub(super) const WRITE_BYTES: usize = 512 << 10;
/// Pieces of one vectored write; the kernel takes at most 1,024.
const PIECES_MAX: usize = 512;

/// Writes the answers of a connection until it ends.
pub(super) async fn run<R, D, W>(shard: Rc<Shard<R, D>>, connection: Rc<Connection<D>>, half: W)
where
    R: Runtime,
    D: Disk,
    W: WriteHalf,
{
    let mut writer = Writer {
        shard,
        connection,
        half,
        out: BytesMut::new(),
        produced: Vec::new(),
        loans: Vec::new(),
    };
    let ended = writer.write_answers().await;
    if ended.is_err() {
        writer.connection.abort();
    }
    writer.half.shutdown();
    // The reader may still be about to wait.
    writer.connection.stage.set(Stage::Aborted);
    writer.connection.wake.set();
}

struct Writer<R: Runtime, D: Disk, W: WriteHalf> {
    shard: Rc<Shard<R, D>>,
    connection: Rc<Connection<D>>,
    half: W,
    out: BytesMut,
    /// Produce answers in `out`, for their latencies.
    produced: Vec<Rc<PendingProduce>>,
    /// Of the other answers in `out`.
    loans: Vec<Loan>,
}

impl<R: Runtime, D: Disk, W: WriteHalf> Writer<R, D, W> {
    async fn write_answers(&mut self) -> Result<(), Close> {
        loop {
            let connection = self.connection.clone();
            if connection.is_aborted() {
                return Err(Close::Asked);
            }
            let Some(answer) = connection.outbox.pop_ready() else {
                connection.outbox.written();
                self.release();
                self.tell_reader();
                if connection.stage.get() == Stage::Finishing
                    && connection.outbox.len() == 0
                    && !connection.busy.get()
                {
                    return Ok(());
                }
                connection.outbox.news.wait().await;
                continue;
            };
            self.gather(answer).await?;
        }
    }

    /// Encodes `answer` and every one after it that is ready, and writes them.
    async fn gather(&mut self, first: Answer<D>) -> Result<(), Close> {
        let mut next = Some(first);
        while let Some(answer) = next {
            match answer {
                Answer::Frame(frame, loan) => {
                    match self.out.is_empty() {
                        true => self.out = frame,
                        false => self.out.extend_from_slice(&frame),
                    }
                    self.loans.push(loan);
                }
                Answer::Produce(pending) => {
                    pending.encode(&self.shard, &self.connection.listener, &mut self.out)?;
                    self.produced.push(pending);
                }
                Answer::Fetch(frame, _loan) if frame.size() < UNCOPIED_BYTES_MIN => {
                    frame.copy_into(&mut self.out);
                }
                Answer::Fetch(frame, _loan) => self.write_fetch(&frame).await?,
            }
            if self.out.len() >= GATHER_BYTES {
                break;
            }
            next = self.connection.outbox.pop_ready();
        }
        self.flush_out().await
    }

    async fn flush_out(&mut self) -> Result<(), Close> {
        if self.out.is_empty() {
            return Ok(());
        }
        for part in self.out.chunks(WRITE_BYTES) {
            let write = self.half.write_all(part);
            unless_aborted(&self.connection, self.shard.runtime.now(), write).await?;
        }
        self.wrote(self.out.len());
        Ok(())
    }

    /// Writes what is gathered and the pieces of a large answer, the large pieces from where they lie.
    async fn write_fetch(&mut self, frame: &FetchFrame<BatchSlice<D>>) -> Result<(), Close> {
        if self.out.len() >= WRITE_BYTES {
            self.flush_out().await?;
        }
        let mut pieces = frame.pieces();
        // What the last write left of its last piece.
        let mut rest: &[u8] = &[];
        loop {
            // Where `out` is cut, and what stands after the cut.
            let mut cuts: Vec<(usize, &[u8])> = Vec::new();
            let mut room = WRITE_BYTES - self.out.len();
            while cuts.len() < PIECES_MAX / 2 && room > 0 {
                if rest.is_empty() {
                    rest = match pieces.next() {
                        None => break,
                        Some(Piece::Encoded(bytes)) => bytes,
                        Some(Piece::Records(records)) => records,
                    };
                }
                let (bytes, later) = rest.split_at(rest.len().min(room));
                (rest, room) = (later, room - bytes.len());
                if bytes.len() < PIECE_BYTES_MIN {
                    self.out.extend_from_slice(bytes);
                } else {
                    cuts.push((self.out.len(), bytes));
                }
            }
            if cuts.is_empty() && self.out.is_empty() {
                return Ok(());
            }
            self.write_cut(&cuts).await?;
        }
    }

    async fn write_cut(&mut self, cuts: &[(usize, &[u8])]) -> Result<(), Close> {
        let mut slices: Vec<&[u8]> = Vec::with_capacity(cuts.len() * 2 + 1);
        let mut from = 0;
        for (at, bytes) in cuts {
            if *at > from {
                slices.push(&self.out[from..*at]);
            }
            from = *at;
            slices.push(bytes);
        }
        if self.out.len() > from {
            slices.push(&self.out[from..]);
        }
        let sum = slices.iter().map(|slice| slice.len()).sum();
        let write = self.half.write_all_vectored(&slices);
        unless_aborted(&self.connection, self.shard.runtime.now(), write).await?;
        self.wrote(sum);
        Ok(())
    }

    /// All of `out`, and what was written with it, is `bytes`.
    fn wrote(&mut self, bytes: usize) {
        let now = self.shard.runtime.now();
        self.connection.last_active.set(now);
        add(&self.shard.metrics.sent_bytes, bytes as u64);
        for pending in self.produced.drain(..) {
            pending.count_phases(&self.shard.metrics, now);
        }
        self.loans.clear();
        self.out.clear();
    }

    /// Nothing is left to write: a connection that rests holds no buffer of size.
    fn release(&mut self) {
        if self.out.capacity() > PIECE_BYTES_MIN {
            self.out = BytesMut::new();
        }
    }

    fn tell_reader(&self) {
        if self.connection.outbox.reader_waits.replace(false) {
            self.connection.wake.set();
        }
    }
}

/// Drives a write to its end, unless the connection is aborted. News of further answers must not cancel it.
async fn unless_aborted<D: Disk>(
    connection: &Connection<D>,
    now: Monotonic,
    write: impl Future<Output = std::io::Result<()>>,
) -> Result<(), Close> {
    connection.writing_since.set(Some(now));
    let mut write = pin!(write);
    let result = loop {
        let news = pin!(connection.outbox.news.wait());
        match select(write.as_mut(), news).await {
            Either::Left((written, _)) => break written.map_err(Close::from),
            Either::Right(_) if connection.is_aborted() => break Err(Close::Asked),
            Either::Right(_) => {}
        }
    };
    connection.writing_since.set(None);
    result
}
