//! The data directories of a node: whose they are, which format they have, who has them open.
//!
//! Everything is looked at before anything is touched: a directory that is refused is left as it was found. Only the
//! first entry of `log.dirs` holds `quorum.redb`; every entry holds a `node.toml` and a `lock`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::Access;
use serde::{Deserialize, Serialize};
use strandline_core::metadata::{NodeId, SHARDS_PER_NODE_MAX};
use thiserror::Error;
use uuid::Uuid;

use super::file_system;
use super::shard_folder::ShardFolder;

/// Raised when older versions could not use what this one writes.
const FORMAT: u32 = 1;
const NODE_FILE: &str = "node.toml";
const LOCK_FILE: &str = "lock";
const QUORUM_FILE: &str = "quorum.redb";
const SHARD_PREFIX: &str = "shard-";
const PROBE_FILE: &str = ".strandline-probe";
const NEW_NODE_FILE: &str = "node.toml.new";
/// In every data directory of Apache Kafka.
const KAFKA_FILE: &str = "meta.properties";
/// What a directory may hold that is formatted: what a start leaves that got no further, and what file systems put there.
const MAY_BE_THERE: [&str; 4] = [LOCK_FILE, PROBE_FILE, NEW_NODE_FILE, "lost+found"];

/// Why a directory is refused.
#[derive(Debug, Error)]
#[error("the data directory {path}: {reason}", path = path.display())]
pub struct DirectoryError {
    path: PathBuf,
    reason: String,
}

/// `node.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct NodeFile {
    format: u32,
    cluster_id: Uuid,
    node_id: NodeId,
    /// This directory's own id.
    directory_id: Uuid,
    /// The ids of all entries of `log.dirs`, in order.
    directories: Vec<Uuid>,
    /// How many shards the node has; shard s lives in entry s mod the number of entries.
    shards: u32,
    /// Shards below this number have started once: their folders hold a whole store.
    formatted: u32,
    /// The node has taken part in a quorum of several, and may have voted: it does not start without that log.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    member: bool,
}

/// Data directories that were looked at, and are fit.
pub struct Inspected {
    paths: Vec<PathBuf>,
    found: Option<Vec<NodeFile>>,
    node_id: NodeId,
    shards: u32,
}

/// The open data directories of a node.
pub struct Directories {
    paths: Vec<PathBuf>,
    files: Vec<NodeFile>,
    locks: DirectoryLocks,
}

/// Keeps other processes out of the data directories until the last clone is dropped: the node holds one as long as
/// any of its threads may write.
#[derive(Clone)]
pub struct DirectoryLocks {
    _files: Arc<Vec<File>>,
}

impl Inspected {
    /// Looks at the entries of `log.dirs` without touching them.
    ///
    /// # Errors
    /// [`DirectoryError`] names the directory, what is wrong with it, and what to do.
    pub fn look(
        paths: &[PathBuf],
        node_id: NodeId,
        shards_asked: Option<u32>,
        shards_default: u32,
    ) -> Result<Self, DirectoryError> {
        let mut found = Vec::new();
        for path in paths {
            let file = read_node_file(path)?;
            check_usable(path, file.is_some())?;
            found.push(file);
        }
        let formatted = found.iter().flatten().count();
        let found: Option<Vec<NodeFile>> = match formatted {
            0 => None,
            _ if formatted < paths.len() => {
                let missing = found.iter().position(Option::is_none).unwrap_or_default();
                return Err(refuse(
                    &paths[missing],
                    "it holds no node.toml, and other entries of 'log.dirs' do: it is not of this node; a lost disk \
                     cannot be replaced by an empty one here, a new entry cannot be added to a formatted node",
                ));
            }
            _ => Some(found.into_iter().flatten().collect()),
        };
        let shards = match &found {
            Some(files) => check_formatted(paths, files, node_id, shards_asked)?,
            None => shards_asked.unwrap_or(shards_default),
        };
        if !(1..=SHARDS_PER_NODE_MAX).contains(&shards) {
            return Err(refuse(
                &paths[0],
                &format!("{shards} shards: a node has 1 to {SHARDS_PER_NODE_MAX}"),
            ));
        }
        Ok(Self {
            paths: paths.to_vec(),
            found,
            node_id,
            shards,
        })
    }

    /// How many shards the node runs.
    pub fn shards(&self) -> u32 {
        self.shards
    }

    /// Looks whether every directory can be written, or made, without touching it.
    ///
    /// # Errors
    /// [`DirectoryError`] for the first that cannot.
    pub fn check_writable(&self) -> Result<(), DirectoryError> {
        self.paths.iter().try_for_each(|path| {
            let existing = std::path::absolute(path).map_err(|error| refuse(path, &error.to_string()))?;
            let existing = existing.ancestors().find(|parent| parent.exists());
            let existing = existing.unwrap_or(Path::new("/"));
            if !existing.is_dir() {
                let reason = format!("it cannot be made: {} is not a directory", existing.display());
                return Err(refuse(path, &reason));
            }
            let wanted = Access::WRITE_OK | Access::EXEC_OK;
            rustix::fs::access(existing, wanted).map_err(|error| {
                let reason = format!(
                    "it is not writable: {} ({})",
                    std::io::Error::from(error),
                    existing.display()
                );
                refuse(path, &reason)
            })
        })
    }

    /// The first directory that another process has open, if there is one.
    pub fn in_use(&self) -> Option<&Path> {
        let is_locked = |path: &&PathBuf| {
            // Without a file there is no lock; what cannot be opened the start will name.
            File::open(path.join(LOCK_FILE))
                .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
        };
        self.paths.iter().find(is_locked).map(PathBuf::as_path)
    }

    /// Locks the directories, and formats them if they are new.
    ///
    /// # Errors
    /// [`DirectoryError`], also for a directory that another process has open.
    pub fn open(self) -> Result<Directories, DirectoryError> {
        let mut locks = Vec::new();
        for path in &self.paths {
            fs::create_dir_all(path).map_err(|error| refuse(path, &format!("it cannot be made: {error}")))?;
            locks.push(lock(path)?);
            probe_direct(path)?;
        }
        // Another process may have formatted them, run and ended since they were looked at.
        for (at, path) in self.paths.iter().enumerate() {
            if read_node_file(path)?.as_ref() != self.found.as_ref().map(|files| &files[at]) {
                return Err(refuse(
                    path,
                    "another process changed it during this start: start again",
                ));
            }
        }
        let files = match self.found {
            Some(mut files) => {
                for file in &mut files {
                    file.shards = self.shards;
                }
                files
            }
            None => {
                let directories: Vec<Uuid> = self.paths.iter().map(|_| Uuid::new_v4()).collect();
                let cluster_id = Uuid::new_v4();
                let file = |directory_id: &Uuid| NodeFile {
                    format: FORMAT,
                    cluster_id,
                    node_id: self.node_id,
                    directory_id: *directory_id,
                    directories: directories.clone(),
                    shards: self.shards,
                    formatted: 0,
                    member: false,
                };
                directories.iter().map(file).collect()
            }
        };
        let directories = Directories {
            paths: self.paths,
            files,
            locks: DirectoryLocks {
                _files: Arc::new(locks),
            },
        };
        directories.write()?;
        directories.make_shard_folders()?;
        Ok(directories)
    }
}

impl Directories {
    /// A hold on the locks that outlives this value.
    pub fn locks(&self) -> DirectoryLocks {
        self.locks.clone()
    }

    /// The cluster that the node was formatted for.
    pub fn cluster_id(&self) -> Uuid {
        self.files[0].cluster_id
    }

    /// The id of the first entry, which stands for the node.
    pub fn directory_id(&self) -> Uuid {
        self.files[0].directory_id
    }

    /// The id of the entry that holds a shard.
    pub fn directory_id_of_shard(&self, shard: u32) -> Uuid {
        self.files[shard as usize % self.files.len()].directory_id
    }

    /// The folder of a shard.
    pub fn shard_folder(&self, shard: u32) -> PathBuf {
        shard_folder(&self.paths, shard)
    }

    /// Whether the folder of a shard has never held a whole store.
    pub fn is_new(&self, shard: u32) -> bool {
        shard >= self.files[0].formatted
    }

    /// Where the quorum keeps its state.
    pub fn quorum_file(&self) -> PathBuf {
        self.paths[0].join(QUORUM_FILE)
    }

    /// Whether any shard has ever served: then the quorum's state must be there.
    pub fn has_served(&self) -> bool {
        self.files[0].formatted > 0
    }

    /// Whether the node has taken part in a quorum of several.
    pub fn is_member(&self) -> bool {
        self.files[0].member
    }

    /// Records that the node takes part in a quorum of several.
    ///
    /// # Errors
    /// [`DirectoryError`] if it cannot be written.
    pub fn mark_member(&mut self) -> Result<(), DirectoryError> {
        if self.is_member() {
            return Ok(());
        }
        for file in &mut self.files {
            file.member = true;
        }
        self.write()
    }

    /// The cluster that a node of several is of: a directory that has never served takes its id, any other has it already,
    /// or the other one is given back.
    ///
    /// # Errors
    /// [`DirectoryError`] if it cannot be written.
    pub fn adopt_cluster(&mut self, cluster_id: Uuid) -> Result<Result<(), Uuid>, DirectoryError> {
        if self.cluster_id() == cluster_id {
            return Ok(Ok(()));
        }
        if self.has_served() {
            return Ok(Err(self.cluster_id()));
        }
        for file in &mut self.files {
            file.cluster_id = cluster_id;
        }
        self.write().map(Ok)
    }

    /// Records that every shard has started: from now on their folders are never formatted again.
    ///
    /// # Errors
    /// [`DirectoryError`] if it cannot be written.
    pub fn mark_formatted(&mut self) -> Result<(), DirectoryError> {
        if self.files.iter().all(|file| file.formatted == file.shards) {
            return Ok(());
        }
        for file in &mut self.files {
            file.formatted = file.shards;
        }
        self.write()
    }

    fn write(&self) -> Result<(), DirectoryError> {
        // The first entry is last: until it is written, a node whose first start was interrupted is still new.
        for (path, file) in self.paths.iter().zip(&self.files).rev() {
            write_node_file(path, file).map_err(|error| refuse(path, &format!("node.toml: {error}")))?;
        }
        Ok(())
    }

    /// A folder left by a start that was interrupted holds nothing that was ever acknowledged: it is made anew.
    fn make_shard_folders(&self) -> Result<(), DirectoryError> {
        for shard in (0..self.files[0].shards).filter(|shard| self.is_new(*shard)) {
            let folder = self.shard_folder(shard);
            let made = match fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => fs::create_dir(&folder),
            };
            made.map_err(|error| refuse(&folder, &format!("it cannot be made: {error}")))?;
        }
        for shard in 0..self.files[0].shards {
            let folder = self.shard_folder(shard);
            let marked = mark_of(&self.files, shard).mark(&folder);
            marked.map_err(|error| refuse(&folder, &format!("it cannot be written: {error}")))?;
        }
        for path in &self.paths {
            flush_folder(path).map_err(|error| refuse(path, &error.to_string()))?;
        }
        Ok(())
    }
}

fn shard_folder(paths: &[PathBuf], shard: u32) -> PathBuf {
    paths[shard as usize % paths.len()].join(format!("{SHARD_PREFIX}{shard}"))
}

/// What the folder of a shard says of itself.
fn mark_of(files: &[NodeFile], shard: u32) -> ShardFolder {
    ShardFolder {
        directory_id: files[shard as usize % files.len()].directory_id,
        shard,
    }
}

fn refuse(path: &Path, reason: &str) -> DirectoryError {
    DirectoryError {
        path: path.to_owned(),
        reason: reason.to_owned(),
    }
}

fn read_node_file(directory: &Path) -> Result<Option<NodeFile>, DirectoryError> {
    #[derive(Deserialize)]
    struct Version {
        format: u32,
    }
    let text = match fs::read_to_string(directory.join(NODE_FILE)) {
        Ok(text) => text,
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(refuse(directory, &format!("node.toml cannot be read: {error}"))),
    };
    let unreadable = |error: toml::de::Error| {
        refuse(
            directory,
            &format!("node.toml does not read: {}", error.message()),
        )
    };
    let version: Version = toml::from_str(&text).map_err(unreadable)?;
    if version.format > FORMAT {
        return Err(refuse(
            directory,
            &format!(
                "it has format {}, and this version knows up to {FORMAT}: start the newer version again",
                version.format
            ),
        ));
    }
    toml::from_str(&text).map(Some).map_err(unreadable)
}

/// Checks that do not depend on other entries, and change nothing.
fn check_usable(path: &Path, formatted: bool) -> Result<(), DirectoryError> {
    if let Ok(metadata) = fs::metadata(path)
        && !metadata.is_dir()
    {
        return Err(refuse(path, "it is not a directory"));
    }
    if let Some(kind) = file_system::without_direct_io(path) {
        return Err(refuse(
            path,
            &format!(
                "its file system ({kind}) has no direct I/O (O_DIRECT): use a disk, for example with ext4 or xfs"
            ),
        ));
    }
    let names = fs::read_dir(path).into_iter().flatten().flatten();
    let names: Vec<String> = names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    let found = |wanted: &dyn Fn(&str) -> bool| names.iter().find(|name| wanted(name));
    if formatted {
        return Ok(());
    }
    if found(&|name| name == QUORUM_FILE || name.starts_with(SHARD_PREFIX)).is_some() {
        return Err(refuse(
            path,
            "it holds shards, but its node.toml is gone: restore that file",
        ));
    }
    if found(&|name| name == KAFKA_FILE).is_some() {
        return Err(refuse(
            path,
            "it is a data directory of Apache Kafka, whose logs are not read: name another one",
        ));
    }
    if let Some(name) = found(&|name| !MAY_BE_THERE.contains(&name)) {
        return Err(refuse(
            path,
            &format!(
                "it is not empty (it holds '{name}') and no data directory of strandline: name an empty one"
            ),
        ));
    }
    Ok(())
}

fn check_formatted(
    paths: &[PathBuf],
    files: &[NodeFile],
    node_id: NodeId,
    shards_asked: Option<u32>,
) -> Result<u32, DirectoryError> {
    let first = &files[0];
    for (index, (path, file)) in paths.iter().zip(files).enumerate() {
        if file.node_id != node_id {
            return Err(refuse(
                path,
                &format!("it belongs to node {}, and this is node {node_id}", file.node_id),
            ));
        }
        if file.cluster_id != first.cluster_id || file.directories != first.directories {
            return Err(refuse(
                path,
                &format!("it is not of the same node as {}", paths[0].display()),
            ));
        }
        if file.directories.get(index) != Some(&file.directory_id) {
            return Err(refuse(
                path,
                "it stands at another place of 'log.dirs' than when the node was formatted",
            ));
        }
    }
    if first.directories.len() != paths.len() {
        return Err(refuse(
            &paths[0],
            &format!(
                "the node was formatted with {} entries in 'log.dirs', not {}",
                first.directories.len(),
                paths.len()
            ),
        ));
    }
    if first.formatted > 0 && !paths[0].join(QUORUM_FILE).exists() {
        let lost = match first.member {
            true => format!(
                "; if it is lost, empty the data directory, start the node, and let `strandctl cluster replace {node_id}` \
                 admit it"
            ),
            false => String::new(),
        };
        return Err(refuse(
            &paths[0],
            &format!("it holds shards, but quorum.redb is gone: restore that file{lost}"),
        ));
    }
    for shard in 0..first.formatted {
        let folder = shard_folder(paths, shard);
        let checked = mark_of(files, shard).check(&folder);
        checked.map_err(|reason| refuse(&folder, &reason))?;
    }
    match shards_asked {
        None => Ok(first.shards),
        Some(asked) if asked < first.shards => Err(refuse(
            &paths[0],
            &format!(
                "it has {} shards, and {asked} are asked for: shards can be added, not taken away",
                first.shards
            ),
        )),
        Some(asked) => Ok(asked),
    }
}

fn lock(path: &Path) -> Result<File, DirectoryError> {
    let open = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path.join(LOCK_FILE));
    let file = open.map_err(|error| refuse(path, &format!("it is not writable: {error}")))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(refuse(
            path,
            "another process has it open (its lock is held): stop that one first",
        )),
        Err(TryLockError::Error(error)) => Err(refuse(path, &format!("it cannot be locked: {error}"))),
    }
}

/// A file opened with O_DIRECT, and removed.
fn probe_direct(path: &Path) -> Result<(), DirectoryError> {
    let probe = path.join(PROBE_FILE);
    let mut options = OpenOptions::new();
    let opened = options
        .create(true)
        .truncate(false)
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(&probe);
    let _ = fs::remove_file(&probe);
    opened.map(drop).map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => refuse(
            path,
            "its file system has no direct I/O (O_DIRECT): use a disk, for example with ext4 or xfs",
        ),
        _ => refuse(path, &format!("it is not writable: {error}")),
    })
}

fn write_node_file(directory: &Path, content: &NodeFile) -> std::io::Result<()> {
    let head = "# Written by strandline: whose directory this is. Do not edit.";
    write_toml((directory, NODE_FILE, NEW_NODE_FILE), head, content)
}

/// Writes a file whole, by way of another name in its folder; durable on return.
pub(super) fn write_toml(
    (folder, name, new_name): (&Path, &str, &str),
    head: &str,
    content: &impl Serialize,
) -> std::io::Result<()> {
    let text = toml::to_string(content).expect("numbers, ids and lists of ids are TOML");
    let new = folder.join(new_name);
    let mut file = File::create(&new)?;
    file.write_all(format!("{head}\n{text}").as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, folder.join(name))?;
    flush_folder(folder)
}

fn flush_folder(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
#[path = "directories_tests.rs"]
mod tests;
