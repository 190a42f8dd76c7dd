//! What a parked fetch waits on.

use std::cell::Cell;
use std::rc::Rc;

use super::deadlines::Expire;
use super::signal::Signal;

/// A parked fetch: woken once enough bytes became readable, at once by an error, or by its deadline.
#[derive(Default)]
pub(crate) struct FetchWatch {
    missing_bytes: Cell<u64>,
    expired: Cell<bool>,
    news: Signal,
}

impl FetchWatch {
    /// Starts to wait for `missing_bytes` more.
    pub(crate) fn arm(&self, missing_bytes: u64) {
        self.missing_bytes.set(missing_bytes.max(1));
        self.news.clear();
    }

    /// `bytes` more became readable in a partition that is watched.
    pub(crate) fn more(&self, bytes: u64) {
        let missing = self.missing_bytes.get().saturating_sub(bytes);
        self.missing_bytes.set(missing);
        if missing == 0 {
            self.news.set();
        }
    }

    /// A partition that is watched has something to say besides bytes.
    pub(crate) fn interrupt(&self) {
        self.news.set();
    }

    /// Completes at the first of these.
    pub(crate) async fn wait(&self) {
        if !self.expired.get() {
            self.news.wait().await;
        }
    }
}

impl Expire for FetchWatch {
    fn expire(&self) {
        self.expired.set(true);
        self.news.set();
    }
}

/// A watch entered in a list; leaving the scope takes it out.
pub(crate) struct Watching<'a> {
    pub(super) list: &'a std::cell::RefCell<Vec<Rc<FetchWatch>>>,
    pub(super) watch: Rc<FetchWatch>,
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        let mut list = self.list.borrow_mut();
        if let Some(at) = list.iter().position(|other| Rc::ptr_eq(other, &self.watch)) {
            list.swap_remove(at);
        }
    }
}
