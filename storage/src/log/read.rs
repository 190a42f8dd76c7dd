//! Reads: from memory where the log is in memory, from segments below. What comes from disk is verified.

use std::ops::{Deref, Range};
use std::rc::Rc;

use super::Log;
use super::append_buffer::AppendBuffer;
use super::state::LogState;
use crate::disk::{Disk, OpenMode};
use crate::error::ReadError;
use crate::format::frame::{FRAME_HEADER_BYTES, frame_bytes};
use crate::format::names;
use crate::segment::index::{FrameReader, ReadMemory, SegmentError, ensure_index};
use crate::types::Offset;

/// What to read.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest {
    /// The first record wanted; the batch that holds it is returned whole.
    pub offset: Offset,
    /// How many payload bytes at most.
    pub max_bytes: usize,
    /// No batch that reaches this offset: the high watermark, last stable offset or log end offset.
    pub upper_bound: Offset,
    /// The first batch is returned even if it is larger than `max_bytes`.
    pub at_least_one: bool,
}

/// What a read gave: whole batches, in order, without gaps in between.
pub struct ReadResult<D: Disk> {
    /// The batches.
    pub batches: Vec<BatchSlice<D>>,
    /// Where the next batch is on disk and did not fit: its offset, for [`Log::read_ahead`].
    pub behind: Option<Offset>,
}

impl<D: Disk> ReadResult<D> {
    /// Payload bytes of all batches.
    pub fn bytes(&self) -> usize {
        self.batches.iter().map(|batch| batch.len()).sum()
    }
}

/// The bytes of one batch as stored; pins the memory they are in.
pub struct BatchSlice<D: Disk>(Slice<D>);

enum Slice<D: Disk> {
    Memory(Rc<AppendBuffer<D::Buffer>>, Range<usize>),
    Read(ReadMemory<D::ReadBuffer>, Range<usize>),
}

impl<D: Disk> Deref for BatchSlice<D> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Slice::Memory(memory, range) => memory.bytes(range.clone()),
            Slice::Read(memory, range) => &memory[range.clone()],
        }
    }
}

impl<D: Disk> Clone for BatchSlice<D> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Slice::Memory(memory, range) => Slice::Memory(memory.clone(), range.clone()),
            Slice::Read(memory, range) => Slice::Read(memory.clone(), range.clone()),
        })
    }
}

impl<D: Disk> BatchSlice<D> {
    /// The memory that was read from disk for the batch, and perhaps for its neighbours, which the slice pins as a whole;
    /// `None` for a batch out of the append buffers, which the budget counts as long as they live.
    pub fn read_memory(&self) -> Option<&[u8]> {
        match &self.0 {
            Slice::Memory(..) => None,
            Slice::Read(memory, _) => Some(memory),
        }
    }
}

/// Where a read finds its first batch.
enum Source {
    Nothing,
    Memory,
    Segment(SegmentPart),
}

/// What of a segment counts.
struct SegmentPart {
    number: u64,
    base_offset: Offset,
    end_offset: Offset,
    valid_length: u64,
}

impl<D: Disk> Log<D> {
    /// Reads whole batches; an empty result when `offset` is at or above the upper bound.
    ///
    /// # Errors
    /// [`ReadError::OutOfRange`] below the start or above the end; [`ReadError::Damaged`] where the bytes are
    /// not what was written.
    pub async fn read(&self, request: ReadRequest) -> Result<ReadResult<D>, ReadError> {
        self.gather(request, Part::Batch).await
    }

    /// The same with whole frames, for another replica: each slice is a frame as it is stored, its header before the batch and
    /// its padding behind it. Limits count frames.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub async fn read_frames(&self, request: ReadRequest) -> Result<ReadResult<D>, ReadError> {
        self.gather(request, Part::Frame).await
    }

    async fn gather(&self, request: ReadRequest, part: Part) -> Result<ReadResult<D>, ReadError> {
        let mut gathered = Gathered {
            request,
            part,
            next: request.offset,
            bytes: 0,
            batches: Vec::new(),
            behind: None,
        };
        loop {
            match self.source(&gathered)? {
                Source::Nothing => break,
                Source::Memory => {
                    self.shard.counters.memory_reads.add(1);
                    gather_memory(&self.inner.state.borrow(), &mut gathered);
                    break;
                }
                Source::Segment(part) => {
                    self.shard.counters.disk_reads.add(1);
                    let result = self.gather_segment(&mut gathered, &part).await;
                    // Cleaned or dropped while it was read: what took its place is looked for.
                    if !self.has_segment(part.number) && (result.is_err() || gathered.batches.is_empty()) {
                        continue;
                    }
                    let came_to_its_end = result?;
                    if gathered.is_full() || !came_to_its_end {
                        break;
                    }
                }
            }
        }
        Ok(ReadResult {
            batches: gathered.batches,
            behind: gathered.behind,
        })
    }

    fn source(&self, gathered: &Gathered<D>) -> Result<Source, ReadError> {
        if let Some(stopped) = &*self.shard.stopped.borrow() {
            return Err(stopped.clone().into());
        }
        let state = self.inner.state.borrow();
        if state.deleted {
            return Err(ReadError::Deleted);
        }
        let offset = gathered.next;
        let (start, end) = (state.durable_start(), state.end_offset);
        if offset < start || offset > end {
            return match gathered.batches.is_empty() {
                true => Err(ReadError::OutOfRange { offset, start, end }),
                // The start went past while what is there was read: what is missing in between is not passed over.
                false => Ok(Source::Nothing),
            };
        }
        if let Some(from) = state.damaged_from
            && offset >= from
        {
            return match gathered.batches.is_empty() {
                true => Err(ReadError::Damaged {
                    from,
                    detail: "found at the last open or read".into(),
                }),
                false => Ok(Source::Nothing),
            };
        }
        if offset >= gathered.request.upper_bound.min(state.end_offset) {
            return Ok(Source::Nothing);
        }
        if offset >= state.memory_start() {
            return Ok(Source::Memory);
        }
        let at = state
            .segments
            .partition_point(|segment| segment.meta.end_offset <= offset);
        Ok(match state.segments.get(at) {
            Some(segment) => Source::Segment(SegmentPart {
                number: segment.meta.number,
                base_offset: segment.meta.base_offset,
                end_offset: segment.meta.end_offset,
                valid_length: segment.meta.valid_length,
            }),
            None => Source::Nothing,
        })
    }

    pub(super) fn has_segment(&self, number: u64) -> bool {
        let state = self.inner.state.borrow();
        state.segments.iter().any(|segment| segment.meta.number == number)
    }

    /// Reads on in a segment; whether up to its end.
    async fn gather_segment(
        &self,
        gathered: &mut Gathered<D>,
        part: &SegmentPart,
    ) -> Result<bool, ReadError> {
        let shard = &self.shard;
        let number = part.number;
        let built = ensure_index(shard, &self.inner, number).await;
        built.map_err(|error| self.read_error(number, gathered.next, error))?;
        let position = {
            let state = self.inner.state.borrow();
            let segment = state
                .segments
                .iter()
                .find(|segment| segment.meta.number == number);
            segment.map_or(0, |segment| segment.index.position_for_offset(gathered.next))
        };
        let name = names::segment(part.base_offset, number);
        let path = shard.log_folder(self.inner.id, self.inner.log_id).join(name);
        let file = shard
            .files
            .get(&shard.disk, &path, self.inner.log_id, number, OpenMode::ReadWrite)
            .await;
        let file = file.map_err(|error| {
            let error = SegmentError::of(&path, &error);
            self.read_error(number, gathered.next, error)
        })?;
        let key = (self.inner.log_id, number);
        let known = self.left(number, gathered.next).await;
        let (position, chunk) = match known {
            Some((position, chunk)) => (position, Some(chunk)),
            None => (position, None),
        };
        let wanted = gathered.request.max_bytes - gathered.bytes.min(gathered.request.max_bytes);
        let mut reader = FrameReader::new(file, self.inner.key, position, part.valid_length)
            .counted(&shard.budget)
            .with_read_bytes(wanted + READ_MARGIN_BYTES)
            .with_chunk(chunk);
        let mut came_to_its_end = false;
        let full = loop {
            // A frame that does not fit is not read to the end only to learn that.
            if let Some((position, payload)) = reader.peek()
                && !gathered.batches.is_empty()
                && !gathered.has_room(gathered.part.bytes(payload))
            {
                break Some(position);
            }
            let (position, frame) = match reader.next().await {
                Ok(Some(next)) => next,
                Ok(None) => {
                    // Offsets at its end may be missing, where a truncation cut what a cleaner had written.
                    gathered.next = gathered.next.max(part.end_offset);
                    came_to_its_end = true;
                    break None;
                }
                Err(error) => {
                    let error = self.read_error(number, gathered.next, error);
                    // What was read before it is good.
                    return if gathered.batches.is_empty() {
                        Err(error)
                    } else {
                        Ok(false)
                    };
                }
            };
            if frame.header.end_offset() <= gathered.next {
                continue;
            }
            if frame.header.end_offset() > gathered.request.upper_bound {
                break None;
            }
            let range = gathered.part.of(frame.range, frame.header.frame_bytes());
            let batch = BatchSlice(Slice::Read(frame.memory, range));
            if !gathered.take(frame.header.end_offset(), batch) {
                break Some(position);
            }
        };
        if let Some(position) = full
            && let Some(chunk) = reader.into_chunk()
        {
            let mut read_ahead = shard.read_ahead.borrow_mut();
            read_ahead.put(key, gathered.next, position, chunk);
            gathered.behind = Some(gathered.next);
        }
        shard.counters.disk_read_bytes.add(gathered.bytes as u64);
        Ok(came_to_its_end)
    }

    /// A segment was not read at `from`. Only bytes that do not verify damage the log: what the system refuses now it may give
    /// the next time.
    pub(super) fn read_error(&self, number: u64, from: Offset, error: SegmentError) -> ReadError {
        match error {
            SegmentError::Damaged(_) if self.is_deleted() => ReadError::Deleted,
            // Of a segment that is no longer the log's its file may be gone.
            SegmentError::Damaged(detail) if !self.has_segment(number) => ReadError::Io(detail),
            SegmentError::Damaged(detail) => self.damaged(from, detail),
            SegmentError::Io(_) if self.is_deleted() => ReadError::Deleted,
            SegmentError::Io(detail) => {
                tracing::warn!(log = %self.inner.id, from, detail, "a segment could not be read");
                ReadError::Io(detail)
            }
        }
    }

    /// Bytes from disk are not what was written: the log is served up to there, and takes no appends.
    pub(super) fn damaged(&self, from: Offset, detail: String) -> ReadError {
        let mut state = self.inner.state.borrow_mut();
        // A segment that was dropped or cut while it was read is no damage.
        if state.deleted {
            return ReadError::Deleted;
        }
        if from < state.durable_start() || from >= state.end_offset {
            return ReadError::OutOfRange {
                offset: from,
                start: state.durable_start(),
                end: state.end_offset,
            };
        }
        tracing::error!(log = %self.inner.id, from, detail, "the log is damaged");
        state.damaged_from = Some(state.damaged_from.map_or(from, |known| known.min(from)));
        state.touched = true;
        ReadError::Damaged { from, detail }
    }
}

/// What a read takes besides the bytes wanted: frame headers, pads, the batch before.
pub(super) const READ_MARGIN_BYTES: usize = 64 * 1024;

/// What of a frame is read.
#[derive(Clone, Copy)]
enum Part {
    /// The batch in it.
    Batch,
    /// All of it.
    Frame,
}

impl Part {
    /// Where it lies, of a frame of `frame_bytes` whose batch lies in `batch`.
    fn of(self, batch: Range<usize>, frame_bytes: usize) -> Range<usize> {
        match self {
            Self::Batch => batch,
            Self::Frame => {
                let start = batch.start - FRAME_HEADER_BYTES;
                start..start + frame_bytes
            }
        }
    }

    /// Its bytes, of a batch of `payload`.
    fn bytes(self, payload: usize) -> usize {
        match self {
            Self::Batch => payload,
            Self::Frame => frame_bytes(payload),
        }
    }
}

/// A read in the making.
struct Gathered<D: Disk> {
    request: ReadRequest,
    part: Part,
    next: Offset,
    bytes: usize,
    batches: Vec<BatchSlice<D>>,
    behind: Option<Offset>,
}

impl<D: Disk> Gathered<D> {
    fn is_full(&self) -> bool {
        self.bytes >= self.request.max_bytes
    }

    /// Whether a batch of so many bytes fits. If not, no other is taken: nothing smaller behind it may overtake it.
    fn has_room(&mut self, bytes: usize) -> bool {
        let first = self.batches.is_empty() && self.request.at_least_one;
        let fits = first || self.bytes + bytes <= self.request.max_bytes;
        if !fits {
            self.request.max_bytes = self.bytes;
        }
        fits
    }

    /// Takes a batch if it fits; whether it did.
    fn take(&mut self, end_offset: Offset, batch: BatchSlice<D>) -> bool {
        if !self.has_room(batch.len()) {
            return false;
        }
        self.bytes += batch.len();
        self.next = end_offset;
        self.batches.push(batch);
        true
    }
}

fn gather_memory<D: Disk>(state: &LogState<D>, gathered: &mut Gathered<D>) {
    let bound = gathered
        .request
        .upper_bound
        .min(state.damaged_from.unwrap_or(Offset::MAX));
    let first = state.runs.partition_point(|run| run.end_offset <= gathered.next);
    for run in state.runs.iter().skip(first) {
        let from = run
            .frames
            .partition_point(|frame| frame.base_offset <= gathered.next)
            .saturating_sub(1);
        for (at, frame) in run.frames.iter().enumerate().skip(from) {
            let end_offset = run
                .frames
                .get(at + 1)
                .map_or(run.end_offset, |next| next.base_offset);
            if end_offset <= gathered.next {
                continue;
            }
            if end_offset > bound {
                return;
            }
            let start = frame.position as usize + FRAME_HEADER_BYTES;
            let payload = frame.payload as usize;
            let range = gathered.part.of(start..start + payload, frame_bytes(payload));
            if !gathered.take(end_offset, BatchSlice(Slice::Memory(run.memory.clone(), range))) {
                return;
            }
        }
    }
}
