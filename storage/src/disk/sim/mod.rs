//! A disk in memory that forgets, as real ones do, what was not flushed.
//!
//! Every write, size and name that no flush has covered is kept apart from what is durable, so that at any
//! moment each state that a power cut can leave may be built and looked at. Operations take virtual time and
//! overlap; a flush covers what had completed when it started, by whatever handle. Failures, a full disk and
//! rotten bits come on order. The same seed and the same calls give the same disk.

mod content;
mod crash;
mod faults;
mod file;
mod memory;
mod names;
mod node;
mod state;
mod sync_file;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell, RefMut};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use strandline_runtime::Runtime;
use strandline_runtime::sim::{SeededRandom, SimRuntime};

pub use crash::{CrashImages, Image};
pub use faults::{Latency, Operation};
pub use file::SimFile;
pub use memory::{SimBuffer, SimReadBuffer};
pub use sync_file::SyncFile;

use super::{DirectoryEntry, Disk, OpenMode, PAGE, Space};
use crash::{Crash, Outcome};
use faults::Faults;
use names::{NameChange, NodeId};
use node::ChangeId;
use state::State;

/// Size and speed of a simulated disk.
#[derive(Clone, Debug)]
pub struct SimDiskOptions {
    /// What it holds, in bytes.
    pub capacity_bytes: u64,
    /// Of writes.
    pub write: Latency,
    /// Of flushes of files and folders.
    pub flush: Latency,
    /// Of reads.
    pub read: Latency,
    /// Of everything else.
    pub other: Latency,
}

impl Default for SimDiskOptions {
    fn default() -> Self {
        Self {
            capacity_bytes: 1 << 40,
            write: Latency::micros(10, 400),
            flush: Latency::micros(50, 2_000),
            read: Latency::micros(10, 200),
            other: Latency::micros(1, 50),
        }
    }
}

/// A flush that is about to take effect; see [`SimDisk::on_flush`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlushPoint {
    /// What is flushed, by the path it was opened at.
    pub path: PathBuf,
    /// Whether it is a folder.
    pub is_directory: bool,
}

type FlushHook = Rc<dyn Fn(&SimDisk, &FlushPoint)>;

struct Device {
    state: RefCell<State>,
    /// Raised by each power cut; handles of an earlier one are dead.
    generation: Cell<u64>,
    faults: RefCell<Faults>,
    random: RefCell<SeededRandom>,
    hook: RefCell<Option<FlushHook>>,
    /// What a removal of a file takes besides its latency.
    removal: Cell<Duration>,
    options: SimDiskOptions,
}

/// A simulated disk, seen from one host's runtime. Clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    device: Rc<Device>,
    runtime: SimRuntime,
}

impl SimDisk {
    /// An empty disk; its seed is drawn from the runtime.
    pub fn new(runtime: SimRuntime, options: SimDiskOptions) -> Self {
        let state = State::empty(options.capacity_bytes);
        Self::with_state(state, runtime, options)
    }

    /// A disk as a power cut left it.
    pub fn from_image(image: &Image, runtime: SimRuntime, options: SimDiskOptions) -> Self {
        Self::with_state(image.0.clone(), runtime, options)
    }

    fn with_state(state: State, runtime: SimRuntime, options: SimDiskOptions) -> Self {
        let device = Device {
            state: RefCell::new(state),
            generation: Cell::new(0),
            faults: RefCell::default(),
            random: RefCell::new(SeededRandom::new(runtime.random_u64())),
            hook: RefCell::default(),
            removal: Cell::default(),
            options,
        };
        Self {
            device: Rc::new(device),
            runtime,
        }
    }

    /// The same disk on another runtime: that of a host which was started again.
    pub fn attach(&self, runtime: SimRuntime) -> Self {
        Self {
            device: self.device.clone(),
            runtime,
        }
    }

    /// Cuts the power: the disk becomes one of the images that can be left, every open file is dead, and what
    /// was in flight fails.
    pub fn crash(&self) {
        let crash = Crash::of(self.device.state.borrow().clone());
        let Image(state) = crash.sample(&mut self.device.random.borrow_mut());
        *self.device.state.borrow_mut() = state;
        self.device.generation.set(self.generation() + 1);
    }

    /// What `kill -9` leaves: nothing that completed is lost, unless its flush failed; each write in flight did
    /// its work, or a part of it, or nothing. Every open file is dead.
    pub fn kill_process(&self) {
        let mut random = self.device.random.borrow_mut();
        self.state_mut()
            .decide(|change| Outcome::draw(change, &mut random).remains(change));
        self.device.generation.set(self.generation() + 1);
    }

    /// The images that a power cut at this moment can leave: all when there are at most `limit`, else that
    /// many, drawn by the disk's seed.
    pub fn crash_images(&self, limit: u64) -> CrashImages {
        let random = self.device.random.borrow_mut().fork();
        CrashImages::new(self.device.state.borrow().clone(), limit, random)
    }

    /// Calls `hook` at each flush, at the worst moment: the flush has ended, and the images that can be left
    /// are still those without it. The caller of the flush has no answer yet.
    pub fn on_flush(&self, hook: impl Fn(&Self, &FlushPoint) + 'static) {
        *self.device.hook.borrow_mut() = Some(Rc::new(hook));
    }

    /// The `nth` such operation from now fails with an I/O error, 1 being the next. What a failed write left
    /// is open; what a failed flush covered is not made durable by a later one of the same process.
    pub fn fail(&self, operation: Operation, nth: u64) {
        self.device.faults.borrow_mut().fail(operation, nth);
    }

    /// Takes back the failures that were ordered and did not happen.
    pub fn fail_no_more(&self) {
        self.device.faults.borrow_mut().clear();
    }

    /// Lets the removal of a file take so much longer from now on, as that of a large one does.
    pub fn slow_removals(&self, span: Duration) {
        self.device.removal.set(span);
    }

    /// How many such operations were started.
    pub fn count(&self, operation: Operation) -> u64 {
        self.device.faults.borrow().count(operation)
    }

    /// Leaves exactly `bytes` free, rounded down to a page.
    pub fn set_free_bytes(&self, bytes: u64) {
        let mut state = self.device.state.borrow_mut();
        let used = state.capacity_bytes / PAGE as u64 - state.free_pages();
        state.capacity_bytes = (used + bytes / PAGE as u64) * PAGE as u64;
    }

    /// Flips the bits of `mask` in the byte at `position` of a file, on the medium and for every reader.
    ///
    /// # Errors
    /// `NotFound` without such a file.
    pub fn rot(&self, path: &Path, position: u64, mask: u8) -> io::Result<()> {
        let mut state = self.state_mut();
        let node = state.names.find(path)?;
        let file = state.file(node)?;
        file.current.flip(position, mask);
        file.durable.flip(position, mask);
        Ok(())
    }

    /// Makes a folder and those above it, durable at once: the ground that a test stands on.
    ///
    /// # Errors
    /// Where a file is in the way.
    pub fn make_durable_directories(&self, path: &Path) -> io::Result<()> {
        let mut above: Vec<&Path> = path
            .ancestors()
            .filter(|path| path.file_name().is_some())
            .collect();
        above.reverse();
        for path in above {
            let mut state = self.state_mut();
            let (folder, name) = state.names.parent(path)?;
            match state.names.find(path) {
                Ok(node) if !state.names.is_folder(node) => {
                    return Err(io::ErrorKind::NotADirectory.into());
                }
                Ok(_) => {}
                Err(_) => drop(state.add_folder(folder, name)),
            }
            let covered = state.names.covered(folder);
            state.names.make_durable(folder, &covered);
        }
        Ok(())
    }

    /// Opens a file for synchronous use; makes it if there is none.
    ///
    /// # Errors
    /// `NotFound` without its folder.
    pub fn sync_file(&self, path: &Path) -> io::Result<SyncFile> {
        let mut state = self.state_mut();
        let (folder, name) = state.names.parent(path)?;
        let node = match state.names.find(path) {
            Ok(node) => node,
            Err(_) => state.add_file(folder, name),
        };
        state.file(node)?;
        drop(state);
        Ok(SyncFile::new(self.clone(), node, path.to_owned()))
    }

    fn generation(&self) -> u64 {
        self.device.generation.get()
    }

    fn state_mut(&self) -> RefMut<'_, State> {
        self.device.state.borrow_mut()
    }

    fn check_generation(&self, generation: u64) -> io::Result<()> {
        match generation == self.generation() {
            true => Ok(()),
            false => Err(io::Error::other("the power of the simulated disk was cut")),
        }
    }

    fn start(&self, operation: Operation) -> io::Result<()> {
        self.device.faults.borrow_mut().start(operation)
    }

    async fn wait(&self, operation: Operation) {
        let options = &self.device.options;
        let latency = match operation {
            Operation::Write => options.write,
            Operation::Flush | Operation::FlushDirectory => options.flush,
            Operation::Read => options.read,
            Operation::Resize | Operation::Name => options.other,
        };
        let span = latency.draw(&mut self.device.random.borrow_mut());
        self.runtime.sleep(span).await;
    }

    fn at_flush(&self, point: &FlushPoint) {
        let hook = self.device.hook.borrow().clone();
        if let Some(hook) = hook {
            hook(self, point);
        }
    }

    /// The end of a file's flush, which began with `covered`: what it ordered happens, unless the hook cut the power.
    fn end_flush(
        &self,
        (node, path): (NodeId, &Path),
        generation: u64,
        covered: &[ChangeId],
        ordered: io::Result<()>,
    ) -> io::Result<()> {
        self.at_flush(&FlushPoint {
            path: path.to_owned(),
            is_directory: false,
        });
        self.check_generation(generation)?;
        let mut state = self.state_mut();
        let file = state.file(node)?;
        match ordered {
            Ok(()) => file.make_durable(covered),
            Err(_) => file.doom(covered),
        }
        ordered
    }

    /// An operation on names: takes its time, then happens at once.
    async fn on_names<T>(&self, operate: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let generation = self.generation();
        let ordered = self.start(Operation::Name);
        self.wait(Operation::Name).await;
        self.check_generation(generation)?;
        ordered?;
        operate(&mut self.state_mut())
    }
}

/// What renaming `node` over `replaced` needs: nothing, or a file over a file.
fn check_replaceable(state: &State, node: NodeId, replaced: NodeId) -> io::Result<()> {
    match (state.names.is_folder(node), state.names.is_folder(replaced)) {
        (false, false) => Ok(()),
        (_, true) => Err(io::ErrorKind::IsADirectory.into()),
        (true, false) => Err(io::ErrorKind::NotADirectory.into()),
    }
}

impl Disk for SimDisk {
    type File = SimFile;
    type Buffer = SimBuffer;
    type ReadBuffer = SimReadBuffer;

    fn allocate(&self, length: usize) -> SimBuffer {
        SimBuffer::allocate(length.max(1).next_multiple_of(PAGE))
    }

    async fn open(&self, path: &Path, mode: OpenMode) -> io::Result<SimFile> {
        let node = self
            .on_names(|state| {
                let (folder, name) = state.names.parent(path)?;
                match (state.names.find(path), mode) {
                    (Ok(_), OpenMode::CreateNew) => Err(io::ErrorKind::AlreadyExists.into()),
                    (Ok(node), _) if state.names.is_folder(node) => Err(io::ErrorKind::IsADirectory.into()),
                    (Err(_), OpenMode::CreateNew) => Ok(state.add_file(folder, name)),
                    (found, _) => found,
                }
            })
            .await?;
        Ok(SimFile::new(self.clone(), node, path.to_owned(), mode))
    }

    async fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.on_names(|state| {
            let (folder, name) = state.names.parent(path)?;
            match state.names.find(path) {
                Ok(node) if state.names.is_folder(node) => Ok(()),
                Ok(_) => Err(io::ErrorKind::NotADirectory.into()),
                Err(_) => {
                    state.add_folder(folder, name);
                    Ok(())
                }
            }
        })
        .await
    }

    async fn flush_directory(&self, path: &Path) -> io::Result<()> {
        let generation = self.generation();
        let (folder, covered) = {
            let state = self.state_mut();
            let folder = state.names.find_folder(path)?;
            (folder, state.names.covered(folder))
        };
        let ordered = self.start(Operation::FlushDirectory);
        self.wait(Operation::FlushDirectory).await;
        self.check_generation(generation)?;
        self.at_flush(&FlushPoint {
            path: path.to_owned(),
            is_directory: true,
        });
        // The hook may have cut the power.
        self.check_generation(generation)?;
        let names = &mut self.state_mut().names;
        match ordered {
            Ok(()) => names.make_durable(folder, &covered),
            Err(_) => names.doom(&covered),
        }
        ordered
    }

    async fn list(&self, path: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.on_names(|state| {
            let folder = state.names.find_folder(path)?;
            let entries = state.names.current.get(&folder).into_iter().flatten();
            let entry = |(name, node): (&String, &NodeId)| DirectoryEntry {
                name: name.clone(),
                is_directory: state.names.is_folder(*node),
            };
            Ok(entries.map(entry).collect())
        })
        .await
    }

    async fn remove_file(&self, path: &Path) -> io::Result<()> {
        let generation = self.generation();
        self.runtime.sleep(self.device.removal.get()).await;
        self.check_generation(generation)?;
        self.on_names(|state| {
            let node = state.names.find(path)?;
            if state.names.is_folder(node) {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            let (folder, name) = state.names.parent(path)?;
            state.names.change(NameChange::Remove { folder, name, node });
            state.unlink(node);
            Ok(())
        })
        .await
    }

    async fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.on_names(|state| {
            let node = state.names.find_folder(path)?;
            if state
                .names
                .current
                .get(&node)
                .is_some_and(|entries| !entries.is_empty())
            {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            let (folder, name) = state.names.parent(path)?;
            state.names.change(NameChange::Remove { folder, name, node });
            Ok(())
        })
        .await
    }

    async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.on_names(|state| {
            let node = state.names.find(from)?;
            let (from, from_name) = state.names.parent(from)?;
            let (to_folder, to_name) = state.names.parent(to)?;
            if let Ok(replaced) = state.names.find(to) {
                if replaced == node {
                    return Ok(());
                }
                check_replaceable(state, node, replaced)?;
                state.unlink(replaced);
            }
            state.names.change(NameChange::Move {
                from,
                from_name,
                to: to_folder,
                to_name,
                node,
            });
            Ok(())
        })
        .await
    }

    async fn exists(&self, path: &Path) -> io::Result<bool> {
        self.on_names(|state| match state.names.find(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        })
        .await
    }

    async fn space(&self, path: &Path) -> io::Result<Space> {
        self.on_names(|state| {
            state.names.find(path)?;
            Ok(Space {
                total_bytes: state.capacity_bytes,
                free_bytes: state.free_pages() * PAGE as u64,
            })
        })
        .await
    }
}
