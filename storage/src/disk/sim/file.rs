//! An open file of the simulated disk.

use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use super::super::{Buffer, DiskFile, OpenMode, PAGE};
use super::SimDisk;
use super::faults::Operation;
use super::memory::{SimBuffer, SimReadBuffer};
use super::names::NodeId;
use super::node::{Change, ChangeId};

/// An open file; it outlives its name, but not a power cut.
#[derive(Clone)]
pub struct SimFile {
    disk: SimDisk,
    node: NodeId,
    path: PathBuf,
    generation: u64,
    mode: OpenMode,
}

impl SimFile {
    pub(super) fn new(disk: SimDisk, node: NodeId, path: PathBuf, mode: OpenMode) -> Self {
        let generation = disk.generation();
        Self {
            disk,
            node,
            path,
            generation,
            mode,
        }
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.mode == OpenMode::Read {
            Err(io::ErrorKind::PermissionDenied.into())
        } else {
            Ok(())
        }
    }

    /// Submits a change, waits for as long as it takes, and completes it unless it is to fail; what became of a
    /// change that failed is for the next power cut to decide.
    async fn change(&self, operation: Operation, change: Change) -> io::Result<ChangeId> {
        self.check_writable()?;
        self.disk.check_generation(self.generation)?;
        let id = self.disk.state_mut().submit(self.node, change)?;
        let ordered = self.disk.start(operation);
        self.disk.wait(operation).await;
        self.disk.check_generation(self.generation)?;
        ordered?;
        self.disk.state_mut().complete(self.node, id)?;
        Ok(id)
    }

    async fn write(
        &self,
        buffer: Rc<SimBuffer>,
        length: usize,
        position: u64,
    ) -> io::Result<Option<ChangeId>> {
        assert_pages(position, length);
        assert!(length <= buffer.len(), "a write of more than its buffer");
        if length == 0 {
            return Ok(None);
        }
        let bytes: Rc<[u8]> = Rc::from(buffer.prefix(length));
        let change = Change::Write {
            position,
            bytes: bytes.clone(),
        };
        let id = self.change(Operation::Write, change).await?;
        // A device may read the memory at any time up to here.
        assert!(
            buffer.prefix(length) == &*bytes,
            "the owner of a buffer changed it below a write in flight"
        );
        Ok(Some(id))
    }

    /// Makes what is `covered` durable, in the time of a flush.
    async fn flush_of(&self, covered: &[ChangeId]) -> io::Result<()> {
        let ordered = self.disk.start(Operation::Flush);
        self.disk.wait(Operation::Flush).await;
        self.disk.check_generation(self.generation)?;
        self.disk
            .end_flush((self.node, &self.path), self.generation, covered, ordered)
    }
}

fn assert_pages(position: u64, length: usize) {
    assert!(
        position.is_multiple_of(PAGE as u64) && length.is_multiple_of(PAGE),
        "direct I/O of {length} bytes at {position} is not in whole pages"
    );
}

impl DiskFile for SimFile {
    type Buffer = SimBuffer;
    type ReadBuffer = SimReadBuffer;

    fn path(&self) -> &PathBuf {
        &self.path
    }

    async fn size(&self) -> io::Result<u64> {
        self.disk.check_generation(self.generation)?;
        Ok(self.disk.state_mut().file(self.node)?.current.size())
    }

    async fn write_at(&self, buffer: Rc<SimBuffer>, length: usize, position: u64) -> io::Result<()> {
        self.write(buffer, length, position).await.map(|_| ())
    }

    async fn write_through_at(&self, buffer: Rc<SimBuffer>, length: usize, position: u64) -> io::Result<()> {
        assert_eq!(
            self.mode,
            OpenMode::ReadWriteThrough,
            "the file was opened for it"
        );
        let written = self.write(buffer, length, position).await?;
        self.flush_of(written.as_slice()).await
    }

    async fn read_at(&self, position: u64, length: usize) -> io::Result<SimReadBuffer> {
        assert_pages(position, length);
        self.disk.check_generation(self.generation)?;
        let ordered = self.disk.start(Operation::Read);
        self.disk.wait(Operation::Read).await;
        self.disk.check_generation(self.generation)?;
        ordered?;
        let mut state = self.disk.state_mut();
        let content = &state.file(self.node)?.current;
        let length = content.size().saturating_sub(position).min(length as u64) as usize;
        Ok(SimReadBuffer::filled(length, |bytes| {
            content.read(position, bytes)
        }))
    }

    async fn flush(&self) -> io::Result<()> {
        self.disk.check_generation(self.generation)?;
        let covered = self.disk.state_mut().file(self.node)?.covered();
        self.flush_of(&covered).await
    }

    async fn allocate_to(&self, size: u64) -> io::Result<()> {
        let change = Change::AllocateTo(size);
        self.change(Operation::Resize, change).await.map(|_| ())
    }

    async fn truncate(&self, size: u64) -> io::Result<()> {
        let change = Change::Resize(size);
        self.change(Operation::Resize, change).await.map(|_| ())
    }
}
