//! Everything a simulated disk holds; a clone is a snapshot and costs little.

use std::collections::BTreeMap;
use std::io;

use super::super::PAGE;
use super::content::Content;
use super::names::{NameChange, Names, NodeId, ROOT, Tree};
use super::node::{Change, ChangeId, Node};

/// Files, names and space.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) files: BTreeMap<NodeId, Node>,
    pub(super) names: Names,
    pub(super) capacity_bytes: u64,
    used_pages: u64,
    next_node: NodeId,
    next_change: ChangeId,
}

impl State {
    /// A disk without power that holds these files and folders.
    pub(super) fn settled(capacity_bytes: u64, tree: Tree, contents: BTreeMap<NodeId, Content>) -> Self {
        let used_pages = contents.values().map(Content::allocated_pages).sum();
        let folders = tree.keys().max().copied().unwrap_or(ROOT);
        let files = contents.keys().max().copied().unwrap_or(ROOT);
        Self {
            files: contents
                .into_iter()
                .map(|(node, content)| (node, Node::settled(content)))
                .collect(),
            names: Names::settled(tree),
            capacity_bytes,
            used_pages,
            next_node: folders.max(files) + 1,
            next_change: 0,
        }
    }

    /// An empty disk.
    pub(super) fn empty(capacity_bytes: u64) -> Self {
        Self::settled(
            capacity_bytes,
            Tree::from([(ROOT, BTreeMap::new())]),
            BTreeMap::new(),
        )
    }

    pub(super) fn free_pages(&self) -> u64 {
        (self.capacity_bytes / PAGE as u64).saturating_sub(self.used_pages)
    }

    pub(super) fn file(&mut self, node: NodeId) -> io::Result<&mut Node> {
        self.files
            .get_mut(&node)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn new_node(&mut self) -> NodeId {
        self.next_node += 1;
        self.next_node - 1
    }

    /// Makes an empty file.
    pub(super) fn add_file(&mut self, folder: NodeId, name: String) -> NodeId {
        let node = self.new_node();
        self.files.insert(
            node,
            Node {
                linked: true,
                ..Node::default()
            },
        );
        self.names.change(NameChange::Add { folder, name, node });
        node
    }

    /// Makes an empty folder.
    pub(super) fn add_folder(&mut self, folder: NodeId, name: String) -> NodeId {
        let node = self.new_node();
        self.names.current.insert(node, BTreeMap::new());
        self.names.change(NameChange::Add { folder, name, node });
        node
    }

    /// Gives the space of a file back whose name is gone.
    pub(super) fn unlink(&mut self, node: NodeId) {
        if let Some(file) = self.files.get_mut(&node)
            && std::mem::replace(&mut file.linked, false)
        {
            self.used_pages -= file.current.allocated_pages();
        }
    }

    /// Submits a change of a file.
    ///
    /// # Errors
    /// `StorageFull` when it needs more space than there is; nothing is submitted then.
    pub(super) fn submit(&mut self, node: NodeId, change: Change) -> io::Result<ChangeId> {
        let free = self.free_pages();
        let id = self.next_change;
        let file = self.file(node)?;
        let needed = match &change {
            Change::Write { position, bytes } => file.current.missing_pages(*position, bytes.len() as u64),
            Change::AllocateTo(size) => file.current.missing_pages(0, *size),
            Change::Resize(_) => 0,
        };
        if needed > free {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "the simulated disk is full",
            ));
        }
        file.submit(id, change);
        self.next_change += 1;
        Ok(id)
    }

    /// Completes a submitted change: from now on reads see it and a flush covers it.
    pub(super) fn complete(&mut self, node: NodeId, id: ChangeId) -> io::Result<()> {
        let file = self.file(node)?;
        let before = file.current.allocated_pages();
        file.complete(id);
        let (linked, after) = (file.linked, file.current.allocated_pages());
        if linked {
            self.used_pages = self.used_pages + after - before;
        }
        Ok(())
    }

    /// Decides everything open, as `remains` says, when the process that used the disk died.
    pub(super) fn decide(&mut self, mut remains: impl FnMut(&Change) -> Vec<Change>) {
        self.files.values_mut().for_each(|file| file.decide(&mut remains));
        let linked = self.files.values().filter(|file| file.linked);
        self.used_pages = linked.map(|file| file.current.allocated_pages()).sum();
    }
}
