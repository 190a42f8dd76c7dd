//! Folders: what they list now, what a power cut leaves, and the changes in between.
//!
//! A rename is one change, as on every journaling file system; one from folder to folder is certain only once
//! both were flushed.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path};

/// A file or folder, never used twice on one disk.
pub(super) type NodeId = u64;
/// The folder that everything is in.
pub(super) const ROOT: NodeId = 0;

/// What a folder lists.
pub(super) type Entries = BTreeMap<String, NodeId>;
/// All folders.
pub(super) type Tree = BTreeMap<NodeId, Entries>;

/// A change of names that may or may not survive a power cut.
#[derive(Clone, Debug)]
pub(super) enum NameChange {
    /// A new name.
    Add {
        folder: NodeId,
        name: String,
        node: NodeId,
    },
    /// A name removed.
    Remove {
        folder: NodeId,
        name: String,
        node: NodeId,
    },
    /// A name moved, over another one if that was there.
    Move {
        from: NodeId,
        from_name: String,
        to: NodeId,
        to_name: String,
        node: NodeId,
    },
}

impl NameChange {
    /// Applies the change where it makes sense: what was never added cannot be moved.
    pub(super) fn apply(&self, tree: &mut Tree) {
        let lists = |tree: &Tree, folder, name: &String, node: &NodeId| {
            tree.get(folder).and_then(|entries: &Entries| entries.get(name)) == Some(node)
        };
        match self {
            Self::Add { folder, name, node } => {
                tree.entry(*folder).or_default().insert(name.clone(), *node);
            }
            Self::Remove { folder, name, node } => {
                if lists(tree, folder, name, node) {
                    tree.entry(*folder).or_default().remove(name);
                }
            }
            Self::Move {
                from,
                from_name,
                to,
                to_name,
                node,
            } => {
                if lists(tree, from, from_name, node) {
                    tree.entry(*from).or_default().remove(from_name);
                    tree.entry(*to).or_default().insert(to_name.clone(), *node);
                }
            }
        }
    }

    pub(super) fn node(&self) -> NodeId {
        match self {
            Self::Add { node, .. } | Self::Remove { node, .. } | Self::Move { node, .. } => *node,
        }
    }

    fn folders(&self) -> Vec<NodeId> {
        match self {
            Self::Add { folder, .. } | Self::Remove { folder, .. } => vec![*folder],
            Self::Move { from, to, .. } if from == to => vec![*from],
            Self::Move { from, to, .. } => vec![*from, *to],
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct PendingName {
    id: u64,
    pub(super) change: NameChange,
    /// Folders still to be flushed.
    unflushed: Vec<NodeId>,
    doomed: bool,
}

/// The names of a disk.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) current: Tree,
    pub(super) durable: Tree,
    pub(super) pending: Vec<PendingName>,
    next_change: u64,
}

impl Names {
    /// Names that are all durable.
    pub(super) fn settled(tree: Tree) -> Self {
        Self {
            current: tree.clone(),
            durable: tree,
            pending: Vec::new(),
            next_change: 0,
        }
    }

    /// The folder and the last name of a path; the folder must exist.
    pub(super) fn parent(&self, path: &Path) -> io::Result<(NodeId, String)> {
        let mut names: Vec<&str> = Vec::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => {
                    names.push(name.to_str().ok_or(io::ErrorKind::InvalidFilename)?);
                }
                Component::RootDir | Component::CurDir => {}
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(io::ErrorKind::InvalidFilename.into());
                }
            }
        }
        let last = names.pop().ok_or(io::ErrorKind::InvalidFilename)?;
        let mut folder = ROOT;
        for name in names {
            folder = *self.entries(folder)?.get(name).ok_or(io::ErrorKind::NotFound)?;
        }
        self.entries(folder)?;
        Ok((folder, last.to_owned()))
    }

    fn entries(&self, folder: NodeId) -> io::Result<&Entries> {
        self.current
            .get(&folder)
            .ok_or_else(|| io::ErrorKind::NotADirectory.into())
    }

    /// What a path leads to.
    pub(super) fn find(&self, path: &Path) -> io::Result<NodeId> {
        if path.components().all(|component| component == Component::RootDir) {
            return Ok(ROOT);
        }
        let (folder, name) = self.parent(path)?;
        Ok(*self.entries(folder)?.get(&name).ok_or(io::ErrorKind::NotFound)?)
    }

    pub(super) fn find_folder(&self, path: &Path) -> io::Result<NodeId> {
        let node = self.find(path)?;
        self.entries(node)?;
        Ok(node)
    }

    pub(super) fn is_folder(&self, node: NodeId) -> bool {
        self.current.contains_key(&node)
    }

    /// Makes a change for now.
    pub(super) fn change(&mut self, change: NameChange) {
        change.apply(&mut self.current);
        self.next_change += 1;
        let unflushed = change.folders();
        self.pending.push(PendingName {
            id: self.next_change,
            change,
            unflushed,
            doomed: false,
        });
    }

    /// The changes that a flush of `folder` which starts now covers.
    pub(super) fn covered(&self, folder: NodeId) -> Vec<u64> {
        let covered = |pending: &&PendingName| !pending.doomed && pending.unflushed.contains(&folder);
        self.pending
            .iter()
            .filter(covered)
            .map(|pending| pending.id)
            .collect()
    }

    /// A flush of `folder` has succeeded.
    pub(super) fn make_durable(&mut self, folder: NodeId, covered: &[u64]) {
        self.pending.retain_mut(|pending| {
            if pending.doomed || covered.binary_search(&pending.id).is_err() {
                return true;
            }
            pending.unflushed.retain(|unflushed| *unflushed != folder);
            if pending.unflushed.is_empty() {
                pending.change.apply(&mut self.durable);
            }
            !pending.unflushed.is_empty()
        });
    }

    /// A flush has failed.
    pub(super) fn doom(&mut self, covered: &[u64]) {
        for pending in &mut self.pending {
            pending.doomed |= covered.binary_search(&pending.id).is_ok();
        }
    }
}
