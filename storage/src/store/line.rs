//! The line of appends that wait for room: who came first goes first, and only the first is woken when something moved.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use strandline_runtime::local::{Event, EventWait};

/// Who waits, by the number of their arrival.
#[derive(Default)]
pub(crate) struct Line {
    waiting: RefCell<BTreeMap<u64, Event>>,
    next: Cell<u64>,
}

/// A place in the line, until it is dropped.
pub(crate) struct Place<'a> {
    line: &'a Line,
    number: u64,
    turn: Event,
}

impl Line {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }

    pub(crate) fn enter(&self) -> Place<'_> {
        let number = self.next.replace(self.next.get() + 1);
        let turn = Event::new();
        self.waiting.borrow_mut().insert(number, turn.clone());
        Place {
            line: self,
            number,
            turn,
        }
    }
}

impl Place<'_> {
    pub(crate) fn is_first(&self) -> bool {
        let waiting = self.line.waiting.borrow();
        waiting.first_key_value().map(|(number, _)| *number) == Some(self.number)
    }

    /// Completes when this place becomes the first.
    pub(crate) fn turn(&self) -> EventWait {
        self.turn.wait()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let was_first = self.is_first();
        let first = {
            let mut waiting = self.line.waiting.borrow_mut();
            waiting.remove(&self.number);
            waiting.first_key_value().map(|(_, turn)| turn.clone())
        };
        if was_first && let Some(turn) = first {
            turn.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn the_next_one_is_woken_when_the_first_goes() {
        let line = Line::default();
        assert!(line.is_empty());
        let (first, second, third) = (line.enter(), line.enter(), line.enter());
        assert!(first.is_first() && !second.is_first());
        let (turn_of_second, turn_of_third) = (second.turn(), third.turn());
        drop(first);
        assert!(second.is_first());
        assert!(turn_of_second.now_or_never().is_some());
        let mut turn_of_third = Box::pin(turn_of_third);
        assert!(turn_of_third.as_mut().now_or_never().is_none());
        // One that gives up in the middle wakes nobody.
        let fourth = line.enter();
        let turn_of_fourth = fourth.turn();
        drop(third);
        assert!(turn_of_fourth.now_or_never().is_none());
        drop(second);
        assert!(fourth.is_first());
        drop(fourth);
        assert!(line.is_empty());
    }
}
