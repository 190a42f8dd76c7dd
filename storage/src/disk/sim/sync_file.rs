//! A file of the simulated disk for code that does not wait, with the same crash rules.

use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use super::SimDisk;
use super::faults::Operation;
use super::names::NodeId;
use super::node::{Change, ChangeId};
use super::state::State;

/// Reads and writes at any position, done when the call returns; durable after [`SyncFile::sync`].
///
/// This is what an embedded database stands on in a simulation: its storage backend (of redb, for one: `len`,
/// `read`, `set_len`, `sync_data`, `write`) is these five calls. A backend that must be `Send` is to check
/// that it stays on its thread.
#[derive(Clone)]
pub struct SyncFile {
    disk: SimDisk,
    node: NodeId,
    path: PathBuf,
    generation: u64,
}

impl SyncFile {
    pub(super) fn new(disk: SimDisk, node: NodeId, path: PathBuf) -> Self {
        let generation = disk.generation();
        Self {
            disk,
            node,
            path,
            generation,
        }
    }

    fn change(&self, operation: Operation, change: Change) -> io::Result<()> {
        self.disk.check_generation(self.generation)?;
        let submit = |state: &mut State| -> io::Result<ChangeId> { state.submit(self.node, change) };
        let id = submit(&mut self.disk.state_mut())?;
        self.disk.start(operation)?;
        self.disk.state_mut().complete(self.node, id)
    }

    /// The size, in bytes.
    ///
    /// # Errors
    /// Only after a power cut.
    pub fn len(&self) -> io::Result<u64> {
        self.disk.check_generation(self.generation)?;
        Ok(self.disk.state_mut().file(self.node)?.current.size())
    }

    /// Whether the size is zero.
    ///
    /// # Errors
    /// Only after a power cut.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts or extends.
    ///
    /// # Errors
    /// A failure on order, or a power cut.
    pub fn set_len(&self, size: u64) -> io::Result<()> {
        self.change(Operation::Resize, Change::Resize(size))
    }

    /// Fills `bytes` from `position` on.
    ///
    /// # Errors
    /// `UnexpectedEof` beyond the size; a failure on order; a power cut.
    pub fn read(&self, position: u64, bytes: &mut [u8]) -> io::Result<()> {
        if position + bytes.len() as u64 > self.len()? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.disk.start(Operation::Read)?;
        self.disk
            .state_mut()
            .file(self.node)?
            .current
            .read(position, bytes);
        Ok(())
    }

    /// Writes `bytes` at `position`; the size grows as needed.
    ///
    /// # Errors
    /// `StorageFull`; a failure on order; a power cut.
    pub fn write(&self, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.change(
            Operation::Write,
            Change::Write {
                position,
                bytes: Rc::from(bytes),
            },
        )
    }

    /// Makes all writes and the size durable.
    ///
    /// # Errors
    /// A failure on order; a power cut.
    pub fn sync(&self) -> io::Result<()> {
        self.disk.check_generation(self.generation)?;
        let covered = self.disk.state_mut().file(self.node)?.covered();
        let ordered = self.disk.start(Operation::Flush);
        self.disk
            .end_flush((self.node, &self.path), self.generation, &covered, ordered)
    }
}
