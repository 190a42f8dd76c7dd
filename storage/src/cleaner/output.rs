//! The segment that a cleaning writes. Nothing names it before the swap, and a crash leaves a file that the next open removes.

use std::future::{Future, poll_fn};
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use futures_util::future::{FutureExt, LocalBoxFuture, MaybeDone, maybe_done};

use strandline_wire::batch::BatchHeader;

use crate::budget::{MemoryBudget, Reservation};
use crate::disk::{Buffer, Disk, DiskFile, OpenMode, PAGE};
use crate::format::checkpoint::SegmentCheckpoint;
use crate::format::frame::{FLAG_GAP, FRAME_HEADER_BYTES, FrameHeader, pad_bytes, seal_frame, seal_pad};
use crate::format::names;
use crate::log::state::LogInner;
use crate::segment::Segment;
use crate::segment::index::ReadFrame;
use crate::segment::large::{LARGE_BYTES, copy_in_turns, fill_frame_in_turns};
use crate::segment::write::at;
use crate::shard::Shard;
use crate::types::Offset;

/// Bytes of one write.
const RUN_BYTES: usize = 1 << 20;

/// A write that was refused.
#[derive(Debug)]
pub(super) struct WriteError {
    pub(super) reason: String,
    /// For want of space: nothing else is wrong with the disk.
    pub(super) is_full: bool,
}

fn refused(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WriteError {
    let path = path.to_path_buf();
    move |error| WriteError {
        is_full: error.kind() == io::ErrorKind::StorageFull,
        reason: at(action, &path)(error),
    }
}

/// A write of a run.
type Write = LocalBoxFuture<'static, io::Result<()>>;

/// A segment in the making.
pub(super) struct Output<D: Disk> {
    disk: D,
    file: D::File,
    key: u64,
    interval: u64,
    pub(super) segment: Segment,
    /// The run that takes frames, and how much of it is filled.
    run: Option<(D::Buffer, usize)>,
    /// The run's share of the budget.
    reserved: Option<Reservation>,
    budget: MemoryBudget,
    /// The run before it, on its way.
    writing: Option<Pin<Box<MaybeDone<Write>>>>,
    /// What is written of the segment, or on its way.
    position: u64,
    next_offset: Offset,
}

impl<D: Disk> Output<D> {
    /// Makes the file.
    pub(super) async fn create(
        shard: &Shard<D>,
        log: &LogInner<D>,
        meta: SegmentCheckpoint,
    ) -> Result<Self, WriteError> {
        let folder = shard.log_folder(log.id, log.log_id);
        let path = folder.join(names::segment(meta.base_offset, meta.number));
        let (files, disk) = (&shard.files, &shard.disk);
        let file = files
            .get(disk, &path, log.log_id, meta.number, OpenMode::CreateNew)
            .await;
        Ok(Self {
            disk: shard.disk.clone(),
            file: file.map_err(refused("create", &path))?,
            key: log.key,
            interval: u64::from(log.state.borrow().settings.index_interval_bytes),
            next_offset: meta.base_offset,
            segment: Segment::new(meta),
            run: None,
            writing: None,
            reserved: None,
            budget: shard.budget.clone(),
            position: 0,
        })
    }

    /// Takes a frame as it stands, or with the gap flag before it.
    pub(super) async fn copy<F: DiskFile>(
        &mut self,
        frame: &ReadFrame<F>,
        gap: bool,
    ) -> Result<(), WriteError> {
        let header = &frame.header;
        if gap && header.flags & FLAG_GAP == 0 {
            return self
                .put(
                    header,
                    header.flags | FLAG_GAP,
                    frame.payload(),
                    header.max_timestamp,
                )
                .await;
        }
        self.room(header.frame_bytes()).await?;
        if header.frame_bytes() < LARGE_BYTES {
            self.append(header, |bytes| bytes.copy_from_slice(frame.frame()));
        } else {
            self.append_large(header, async |bytes| copy_in_turns(bytes, frame.frame()).await)
                .await;
        }
        Ok(())
    }

    /// Takes a frame with another batch in place of its own.
    pub(super) async fn rewrite(
        &mut self,
        header: &FrameHeader,
        batch: &[u8],
        new: &BatchHeader,
        gap: bool,
    ) -> Result<(), WriteError> {
        let flags = header.flags | if gap { FLAG_GAP } else { 0 };
        // A batch without records has no timestamp to be found by.
        let max_timestamp = if new.record_count == 0 {
            -1
        } else {
            new.max_timestamp
        };
        self.put(header, flags, batch, max_timestamp).await
    }

    async fn put(
        &mut self,
        old: &FrameHeader,
        flags: u8,
        batch: &[u8],
        max_timestamp: i64,
    ) -> Result<(), WriteError> {
        let header = FrameHeader {
            checksum: 0,
            origin: old.chain(),
            payload_length: batch.len() as u32,
            max_timestamp,
            flags,
            ..*old
        };
        let key = self.key;
        self.room(header.frame_bytes()).await?;
        if header.frame_bytes() < LARGE_BYTES {
            self.append(&header, |bytes| {
                bytes[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + batch.len()].copy_from_slice(batch);
                seal_frame(bytes, &header, key);
            });
        } else {
            self.append_large(&header, async |bytes| {
                fill_frame_in_turns(bytes, &header, batch, key).await;
            })
            .await;
        }
        Ok(())
    }

    fn place(&mut self, length: usize) -> &mut [u8] {
        let (buffer, filled) = self.run.as_mut().expect("room was made");
        &mut buffer.as_mut_slice()[*filled..*filled + length]
    }

    fn append(&mut self, header: &FrameHeader, fill: impl FnOnce(&mut [u8])) {
        fill(self.place(header.frame_bytes()));
        self.note(header);
    }

    async fn append_large(&mut self, header: &FrameHeader, fill: impl AsyncFnOnce(&mut [u8])) {
        fill(self.place(header.frame_bytes())).await;
        self.note(header);
    }

    /// Takes note of a frame that stands in the run.
    fn note(&mut self, header: &FrameHeader) {
        let (_, filled) = self.run.as_mut().expect("the frame stands in it");
        let position = self.position + *filled as u64;
        *filled += header.frame_bytes();
        self.next_offset = header.end_offset();
        let segment = &mut self.segment;
        segment
            .index
            .add(header.base_offset, position, header.max_timestamp, self.interval);
        segment.meta.payload_bytes += u64::from(header.payload_length);
        if header.max_timestamp > segment.meta.max_timestamp {
            segment.meta.max_timestamp = header.max_timestamp;
            segment.meta.max_timestamp_offset = header.base_offset;
        }
    }

    async fn room(&mut self, length: usize) -> Result<(), WriteError> {
        let fits = |(buffer, filled): &(D::Buffer, usize)| {
            let end = filled + length;
            end + pad_bytes(end) <= buffer.len()
        };
        if self.run.as_ref().is_some_and(fits) {
            return Ok(());
        }
        self.write_run().await?;
        let capacity = (length + pad_bytes(length)).max(RUN_BYTES).next_multiple_of(PAGE);
        if capacity > RUN_BYTES {
            // One run of such a size in memory is enough.
            self.written().await?;
        }
        self.reserved = Some(self.budget.claim(capacity as u64));
        self.run = Some((self.disk.allocate(capacity), 0));
        Ok(())
    }

    async fn write_run(&mut self) -> Result<(), WriteError> {
        let Some((mut buffer, filled)) = self.run.take() else {
            return Ok(());
        };
        let length = filled + pad_bytes(filled);
        if length > filled {
            seal_pad(
                &mut buffer.as_mut_slice()[filled..length],
                self.next_offset,
                self.key,
            );
        }
        let (file, position) = (self.file.clone(), self.position);
        let reserved = self.reserved.take();
        let write = async move {
            let written = file.write_at(Rc::new(buffer), length, position).await;
            drop(reserved);
            written
        };
        let mut write = Box::pin(maybe_done(write.boxed_local()));
        // It is under way once it was asked about, and goes on while the next run is filled.
        poll_fn(|context| {
            let _ = write.as_mut().poll(context);
            Poll::Ready(())
        })
        .await;
        self.position += length as u64;
        self.written().await?;
        self.writing = Some(write);
        Ok(())
    }

    /// Completes when the write under way has ended.
    async fn written(&mut self) -> Result<(), WriteError> {
        let Some(mut write) = self.writing.take() else {
            return Ok(());
        };
        write.as_mut().await;
        let written = write.as_mut().take_output().expect("it ended, and is taken once");
        written.map_err(refused("write segment", self.file.path()))
    }

    /// Bytes of batches so far.
    pub(super) fn payload_bytes(&self) -> u64 {
        self.segment.meta.payload_bytes
    }

    /// Writes what is left, and flushes file and folder.
    pub(super) async fn finish(mut self) -> Result<Segment, WriteError> {
        self.write_run().await?;
        self.written().await?;
        let path = self.file.path();
        self.file.flush().await.map_err(refused("flush segment", path))?;
        if let Some(folder) = path.parent() {
            let flushed = self.disk.flush_directory(folder).await;
            flushed.map_err(refused("flush folder", folder))?;
        }
        let mut segment = self.segment;
        segment.meta.valid_length = self.position;
        segment.index.covered = self.position;
        Ok(segment)
    }
}
