//! Members that were told their id and have not joined with it yet (KIP-394).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// What the ids of a group's pending members may take. A client that asks for ids and never joins costs memory until
/// its session timeout, half an hour at most; beyond this the oldest give way, and their clients ask for another id.
pub(super) const PENDING_BYTES_MAX: usize = 8 << 20;
/// What a pending member takes besides its id.
const PENDING_BYTES: usize = 160;

#[derive(Debug, Default)]
pub(super) struct PendingMembers {
    by_id: HashMap<Rc<str>, (u64, i64)>,
    by_age: BTreeMap<u64, Rc<str>>,
    expirations: BTreeSet<(i64, u64)>,
    next: u64,
    bytes: usize,
}

impl PendingMembers {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn contains(&self, member_id: &str) -> bool {
        self.by_id.contains_key(member_id)
    }

    /// Adds one, and takes out the oldest ones if all together take too much.
    pub(super) fn insert(&mut self, member_id: Rc<str>, expires_ms: i64) {
        self.remove(&member_id);
        let number = self.next;
        self.next += 1;
        self.bytes += member_id.len() + PENDING_BYTES;
        self.by_age.insert(number, member_id.clone());
        self.expirations.insert((expires_ms, number));
        self.by_id.insert(member_id, (number, expires_ms));
        while self.bytes > PENDING_BYTES_MAX && self.by_id.len() > 1 {
            let oldest = self.by_age.values().next().cloned();
            oldest.inspect(|oldest| {
                self.remove(oldest);
            });
        }
    }

    /// Takes one out; whether it was there.
    pub(super) fn remove(&mut self, member_id: &str) -> bool {
        let Some((number, expires_ms)) = self.by_id.remove(member_id) else {
            return false;
        };
        self.by_age.remove(&number);
        self.expirations.remove(&(expires_ms, number));
        self.bytes -= member_id.len() + PENDING_BYTES;
        true
    }

    /// When the first one expires, and its id.
    pub(super) fn first_expiration(&self) -> Option<(i64, Rc<str>)> {
        let &(expires_ms, number) = self.expirations.first()?;
        Some((expires_ms, self.by_age.get(&number)?.clone()))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }
}
