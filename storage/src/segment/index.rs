//! Reading frames of a segment in order, and building its index where that was lost.

use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::io;
use std::ops::{Deref, Range};
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use futures_util::future::{FutureExt, LocalBoxFuture, MaybeDone, maybe_done};

use crate::budget::{MemoryBudget, Reservation};
use crate::disk::{Disk, DiskFile, PAGE};
use crate::format::FormatError;
use crate::format::checksum::file_key;
use crate::format::frame::{FRAME_HEADER_BYTES, FrameHeader, frame_bytes, verify_frame};
use crate::format::index::{self, Index};
use crate::format::names;
use crate::log::state::LogInner;
use crate::segment::large::{LARGE_BYTES, verify_frame_in_turns};
use crate::segment::write::read_file;
use crate::shard::Shard;

/// Bytes of one read of a segment.
pub(crate) const READ_BYTES: usize = 1 << 20;

/// Why a segment, or what belongs to it, was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SegmentError {
    /// The system refused, for now: nothing is known about the bytes.
    #[error("{0}")]
    Io(String),
    /// The bytes are not what was written, or are gone.
    #[error("{0}")]
    Damaged(String),
}

impl SegmentError {
    /// What an error of the system means: that a file which must be there is not there is damage.
    pub(crate) fn of(path: &Path, error: &io::Error) -> Self {
        let detail = format!("{}: {error}", path.display());
        match error.kind() {
            io::ErrorKind::NotFound => Self::Damaged(detail),
            _ => Self::Io(detail),
        }
    }

    /// Bytes that do not verify.
    pub(crate) fn damaged(path: &Path, error: impl Display) -> Self {
        Self::Damaged(format!("{}: {error}", path.display()))
    }
}

/// Memory that a read returned, with its share of the budget; clones share both.
pub(crate) struct ReadMemory<B>(Rc<(B, Option<Reservation>)>);

impl<B> ReadMemory<B> {
    fn new(memory: B, reservation: Option<Reservation>) -> Self {
        Self(Rc::new((memory, reservation)))
    }
}

impl<B> Clone for ReadMemory<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<B: Deref<Target = [u8]>> Deref for ReadMemory<B> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0.0
    }
}

/// A verified frame in memory that a read returned.
pub(crate) struct ReadFrame<F: DiskFile> {
    pub(crate) header: FrameHeader,
    pub(crate) memory: ReadMemory<F::ReadBuffer>,
    /// The payload in it.
    pub(crate) range: Range<usize>,
}

impl<F: DiskFile> ReadFrame<F> {
    /// The frame, padding included.
    pub(crate) fn frame(&self) -> &[u8] {
        let start = self.range.start - FRAME_HEADER_BYTES;
        &self.memory[start..start + self.header.frame_bytes()]
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.memory[self.range.clone()]
    }
}

/// Reads the frames of a segment in order, pads left out, each verified.
pub(crate) struct FrameReader<F: DiskFile> {
    file: F,
    key: u64,
    position: u64,
    end: u64,
    read_bytes: usize,
    chunk: Option<(u64, ReadMemory<F::ReadBuffer>)>,
    budget: Option<MemoryBudget>,
    goes_ahead: bool,
    /// The read behind the chunk, under way.
    coming: Option<Coming<F>>,
}

/// A read under way.
struct Coming<F: DiskFile> {
    start: u64,
    length: u64,
    read: Pin<Box<MaybeDone<LocalRead<F>>>>,
    reservation: Option<Reservation>,
}

type LocalRead<F> = LocalBoxFuture<'static, io::Result<<F as DiskFile>::ReadBuffer>>;

impl<F: DiskFile> FrameReader<F> {
    /// Reads `bytes` at a time, and the next while whoever asks is busy with these: for one who reads it all.
    pub(crate) fn ahead(mut self, bytes: usize) -> Self {
        self.read_bytes = bytes;
        self.goes_ahead = true;
        self
    }

    /// Reads `position..end`, where a frame starts and the valid length ends.
    pub(crate) fn new(file: F, key: u64, position: u64, end: u64) -> Self {
        Self {
            file,
            key,
            position,
            end,
            read_bytes: READ_BYTES,
            chunk: None,
            budget: None,
            goes_ahead: false,
            coming: None,
        }
    }

    /// Limits the first reads: for a search that needs few frames.
    pub(crate) fn with_read_bytes(mut self, bytes: usize) -> Self {
        self.read_bytes = bytes.clamp(PAGE, READ_BYTES).next_multiple_of(PAGE);
        self
    }

    /// Counts what is read, as long as anybody holds it.
    pub(crate) fn counted(mut self, budget: &MemoryBudget) -> Self {
        self.budget = Some(budget.clone());
        self
    }

    /// Begins with memory that was read before.
    pub(crate) fn with_chunk(mut self, chunk: Option<(u64, ReadMemory<F::ReadBuffer>)>) -> Self {
        self.chunk = chunk;
        self
    }

    /// Position and payload bytes of the next frame, not verified yet, where its header is in memory.
    pub(crate) fn peek(&self) -> Option<(u64, usize)> {
        let (start, memory) = self.chunk.as_ref()?;
        let at = usize::try_from(self.position.checked_sub(*start)?).ok()?;
        let header = FrameHeader::decode(memory.get(at..)?).ok()?;
        let is_there = self.position < self.end && !header.is_pad();
        is_there.then_some((self.position, header.payload_length as usize))
    }

    /// Brings `bytes` from the position on into memory, as far as the segment goes; in one read, unless they are there.
    pub(crate) async fn load(&mut self, bytes: usize) -> Result<(), SegmentError> {
        let wanted = self.end.min(self.position + bytes as u64);
        let is_there = self
            .chunk
            .as_ref()
            .is_some_and(|(start, memory)| *start <= self.position && wanted <= start + memory.len() as u64);
        if is_there || self.position >= self.end {
            return Ok(());
        }
        self.read((wanted - self.position) as usize).await
    }

    /// The memory of the last read, and where it stands.
    pub(crate) fn into_chunk(self) -> Option<(u64, ReadMemory<F::ReadBuffer>)> {
        self.chunk
    }

    /// The next frame and its position; `None` at the end. An error says what is wrong at the position.
    pub(crate) async fn next(&mut self) -> Result<Option<(u64, ReadFrame<F>)>, SegmentError> {
        let mut want = FRAME_HEADER_BYTES;
        while self.position < self.end {
            if self.position + want as u64 > self.end {
                return Err(self.damaged("a frame crosses the valid length"));
            }
            let Some((start, memory)) = self.chunk.as_ref().filter(|(start, memory)| {
                *start <= self.position && self.position + want as u64 <= start + memory.len() as u64
            }) else {
                self.read(want).await?;
                continue;
            };
            let at = (self.position - start) as usize;
            let within = ((self.end - start) as usize).min(memory.len());
            let verified = match want < LARGE_BYTES {
                true => verify_frame(&memory[at..within], self.key),
                false => verify_frame_in_turns(&memory[at..within], self.key).await,
            };
            match verified {
                Ok(header) => {
                    let position = self.position;
                    self.position += header.frame_bytes() as u64;
                    want = FRAME_HEADER_BYTES;
                    if !header.is_pad() {
                        let range = at + FRAME_HEADER_BYTES..at + header.unpadded_bytes();
                        let memory = memory.clone();
                        if header.frame_bytes() > READ_BYTES {
                            // Its memory goes with the frame.
                            self.chunk = None;
                        }
                        let frame = ReadFrame {
                            header,
                            memory,
                            range,
                        };
                        return Ok(Some((position, frame)));
                    }
                }
                Err(FormatError::Short { want: more, .. }) if more > want => {
                    // A length that nothing has verified yet shall not size a large read.
                    want = match batch_bytes(&memory[at..within]) {
                        _ if more <= READ_BYTES => more,
                        None => want.max(FRAME_HEADER_BYTES + BATCH_LENGTH_END),
                        Some(batch) if frame_bytes(batch) == more => more,
                        Some(_) => return Err(self.damaged("a frame's length is not that of its batch")),
                    };
                }
                Err(error) => return Err(self.damaged(error)),
            }
        }
        Ok(None)
    }

    fn damaged(&self, error: impl Display) -> SegmentError {
        SegmentError::damaged(
            self.file.path(),
            format_args!("position {}: {error}", self.position),
        )
    }

    async fn read(&mut self, want: usize) -> Result<(), SegmentError> {
        let start = self.position / PAGE as u64 * PAGE as u64;
        // The memory of the read before goes first where nobody else holds it.
        self.chunk = None;
        if self.goes_ahead {
            return self.read_ahead(start, want).await;
        }
        let length = ((self.position - start) as usize + want).max(self.read_bytes);
        let coming = self.begin(start, length);
        self.end_read(coming, want).await?;
        self.read_bytes = (self.read_bytes * 2).min(READ_BYTES);
        Ok(())
    }

    /// Takes what is coming if the position is in it, and has the next come. A frame that crosses its end is read alone.
    async fn read_ahead(&mut self, start: u64, want: usize) -> Result<(), SegmentError> {
        let has = |coming: &mut Coming<F>| (coming.start..coming.start + coming.length).contains(&start);
        let (position, wanted_end) = (self.position, self.position + want as u64);
        let coming = match self.coming.take_if(has) {
            Some(coming) if wanted_end <= coming.start + coming.length => coming,
            // The frame behind is in what comes after it.
            Some(coming) => {
                let next = coming.start + coming.length;
                self.coming = self.begin_next(next).await;
                drop(coming);
                self.begin(start, (position - start) as usize + want)
            }
            None if self.coming.is_some() => self.begin(start, (position - start) as usize + want),
            None => self.begin(start, ((position - start) as usize + want).max(self.read_bytes)),
        };
        let next = coming.start + coming.length;
        if self.coming.is_none() {
            self.coming = self.begin_next(next).await;
        }
        self.end_read(coming, want).await
    }

    async fn begin_next(&mut self, start: u64) -> Option<Coming<F>> {
        if start >= self.end {
            return None;
        }
        let mut next = self.begin(start, self.read_bytes);
        // It is under way once it was asked about.
        poll_fn(|context| {
            let _ = next.read.as_mut().poll(context);
            Poll::Ready(())
        })
        .await;
        Some(next)
    }

    fn begin(&self, start: u64, length: usize) -> Coming<F> {
        let left = (self.end - start) as usize;
        let length = length.min(left.next_multiple_of(PAGE)).next_multiple_of(PAGE);
        let file = self.file.clone();
        let read = async move { file.read_at(start, length).await }.boxed_local();
        Coming {
            start,
            length: length as u64,
            read: Box::pin(maybe_done(read)),
            reservation: self.budget.as_ref().map(|budget| budget.claim(length as u64)),
        }
    }

    async fn end_read(&mut self, mut coming: Coming<F>, want: usize) -> Result<(), SegmentError> {
        coming.read.as_mut().await;
        let read = coming
            .read
            .as_mut()
            .take_output()
            .expect("it ended, and is taken once");
        let memory =
            read.map_err(|error| SegmentError::Io(format!("{}: {error}", self.file.path().display())))?;
        if coming.start + (memory.len() as u64) < self.position + want as u64 {
            return Err(self.damaged("the file ends inside a frame"));
        }
        self.chunk = Some((coming.start, ReadMemory::new(memory, coming.reservation)));
        Ok(())
    }
}

/// Where the length of a batch ends in it: behind the base offset.
const BATCH_LENGTH_END: usize = 12;

/// The size of the batch behind a frame's header, as the batch itself has it; `None` while too little of it is there.
fn batch_bytes(frame: &[u8]) -> Option<usize> {
    let length = frame.get(FRAME_HEADER_BYTES + 8..)?.first_chunk::<4>()?;
    Some(BATCH_LENGTH_END + u32::from_be_bytes(*length) as usize)
}

/// Makes sure that the index of the segment with this number covers all of it, or all up to rot: from its file, and from the
/// segment where that ends.
pub(crate) async fn ensure_index<D: Disk>(
    shard: &Shard<D>,
    log: &LogInner<D>,
    number: u64,
) -> Result<(), SegmentError> {
    let folder = shard.log_folder(log.id, log.log_id);
    let Some((meta, mut index, on_disk, interval)) = ({
        let state = log.state.borrow();
        let interval = u64::from(state.settings.index_interval_bytes);
        let segment = state
            .segments
            .iter()
            .find(|segment| segment.meta.number == number);
        // Every read comes by here: an index is copied only where it is to be built further.
        let behind = segment.filter(|segment| segment.index.covered < segment.meta.valid_length);
        behind.map(|segment| {
            (
                segment.meta,
                segment.index.clone(),
                segment.index_on_disk,
                interval,
            )
        })
    }) else {
        return Ok(());
    };
    if index.covered == 0 && on_disk {
        let path = folder.join(names::index(meta.base_offset, number));
        if let Ok(content) = read_file(&shard.disk, &path).await
            && let Ok(known) = index::decode(file_key(log.log_id, number), &content)
            && known.covered <= meta.valid_length
        {
            index = known;
        }
    }
    let path = folder.join(names::segment(meta.base_offset, number));
    let file = shard
        .files
        .get(
            &shard.disk,
            &path,
            log.log_id,
            number,
            crate::disk::OpenMode::ReadWrite,
        )
        .await;
    let file = file.map_err(|error| SegmentError::of(&path, &error))?;
    let mut reader = FrameReader::new(file, log.key, index.covered, meta.valid_length).counted(&shard.budget);
    loop {
        match reader.next().await {
            Ok(Some((position, frame))) => {
                index.add(
                    frame.header.base_offset,
                    position,
                    frame.header.max_timestamp,
                    interval,
                );
                index.covered = position + frame.header.frame_bytes() as u64;
            }
            Ok(None) => {
                index.covered = meta.valid_length;
                break;
            }
            // The index ends where rot begins; whoever reads there meets it.
            Err(SegmentError::Damaged(_)) => break,
            Err(error) => return Err(error),
        }
    }
    store_index(log, number, index);
    Ok(())
}

/// Keeps an index that was built, unless the segment was cut or went further meanwhile.
fn store_index<D: Disk>(log: &LogInner<D>, number: u64, index: Index) {
    let mut state = log.state.borrow_mut();
    if let Some(segment) = state
        .segments
        .iter_mut()
        .find(|segment| segment.meta.number == number)
        && index.covered <= segment.meta.valid_length
        && index.covered > segment.index.covered
    {
        segment.index = index;
    }
}
