//! A file as its device knows it: what is durable, what was changed since, and what reads see.

use std::ops::Range;
use std::rc::Rc;

use super::content::Content;

/// Names one change of one disk, in the order of submission.
pub(super) type ChangeId = u64;

/// A change of a file that may or may not survive a power cut.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Bytes at a position.
    Write {
        /// Where, in bytes.
        position: u64,
        /// What; taken when the write was submitted.
        bytes: Rc<[u8]>,
    },
    /// A new size, shorter or longer.
    Resize(u64),
    /// At least this size, with space.
    AllocateTo(u64),
}

impl Change {
    pub(super) fn apply(&self, content: &mut Content) {
        match self {
            Self::Write { position, bytes } => content.write(*position, bytes),
            Self::Resize(size) => content.resize(*size),
            Self::AllocateTo(size) => content.allocate_to(*size),
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Write {
                    position: a,
                    bytes: of_a,
                },
                Self::Write {
                    position: b,
                    bytes: of_b,
                },
            ) => *a < b + of_b.len() as u64 && *b < a + of_a.len() as u64,
            _ => false,
        }
    }

    /// Applies some bytes of a write, by their offsets in it.
    pub(super) fn apply_part(&self, part: Range<usize>, content: &mut Content) {
        match self {
            Self::Write { position, bytes } if !part.is_empty() => {
                content.write(*position + part.start as u64, &bytes[part]);
            }
            _ => {}
        }
    }
}

/// A change that no flush has covered.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) id: ChangeId,
    pub(super) change: Change,
    /// Its completion was told. Before that no flush covers it.
    pub(super) completed: bool,
    /// A flush that covered it failed: reads go on seeing it, and no later flush makes it durable.
    pub(super) doomed: bool,
}

/// A file.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// What reads see: every completed change.
    pub(super) current: Content,
    /// What a power cut leaves for certain.
    pub(super) durable: Content,
    /// The rest, in the order of submission.
    pub(super) pending: Vec<Pending>,
    /// Whether a folder lists it now.
    pub(super) linked: bool,
}

impl Node {
    /// A file of a disk without power: everything in it is durable.
    pub(super) fn settled(content: Content) -> Self {
        Self {
            current: content.clone(),
            durable: content,
            pending: Vec::new(),
            linked: true,
        }
    }

    pub(super) fn submit(&mut self, id: ChangeId, change: Change) {
        self.pending.push(Pending {
            id,
            change,
            completed: false,
            doomed: false,
        });
    }

    pub(super) fn complete(&mut self, id: ChangeId) {
        if let Some(pending) = self.pending.iter_mut().find(|pending| pending.id == id) {
            pending.completed = true;
            pending.change.apply(&mut self.current);
        }
    }

    /// The changes that a flush which starts now covers, by whatever handle.
    pub(super) fn covered(&self) -> Vec<ChangeId> {
        let covered = |pending: &&Pending| pending.completed && !pending.doomed;
        self.pending
            .iter()
            .filter(covered)
            .map(|pending| pending.id)
            .collect()
    }

    /// A flush has succeeded.
    pub(super) fn make_durable(&mut self, covered: &[ChangeId]) {
        let durable: Vec<Pending> = self
            .pending
            // Another flush may have failed for it meanwhile.
            .extract_if(.., |pending| {
                !pending.doomed && covered.binary_search(&pending.id).is_ok()
            })
            .collect();
        for done in &durable {
            done.change.apply(&mut self.durable);
            // What a failed flush left undecided is decided where a later change lies over it.
            self.pending
                .retain(|old| !(old.doomed && old.id < done.id && old.change.overlaps(&done.change)));
        }
    }

    /// A flush has failed.
    pub(super) fn doom(&mut self, covered: &[ChangeId]) {
        for pending in &mut self.pending {
            pending.doomed |= covered.binary_search(&pending.id).is_ok();
        }
    }

    /// Decides what is open, as `remains` says, when the process that used the file died: the writes in
    /// flight, and what a failed flush may have lost. What remains is complete.
    pub(super) fn decide(&mut self, mut remains: impl FnMut(&Change) -> Vec<Change>) {
        let open = std::mem::take(&mut self.pending);
        self.current = self.durable.clone();
        for pending in open {
            let changes = match pending.completed && !pending.doomed {
                true => vec![pending.change],
                false => remains(&pending.change),
            };
            for change in changes {
                change.apply(&mut self.current);
                self.pending.push(Pending {
                    id: pending.id,
                    change,
                    completed: true,
                    doomed: false,
                });
            }
        }
    }
}
