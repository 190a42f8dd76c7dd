//! What the shard counts: plain cells of one thread, copied out for a scrape.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use strandline_wire::ErrorCode;

use crate::node::report::{PhaseLatencies, RequestCount};

/// More than any API key served; a success is counted without a map.
const API_KEYS: usize = 128;

/// The counters of one shard.
pub(crate) struct Metrics {
    succeeded: [Cell<u64>; API_KEYS],
    failed: RefCell<BTreeMap<(i16, i16), u64>>,
    phases: RefCell<PhaseLatencies>,
    pub(crate) received_bytes: Cell<u64>,
    pub(crate) sent_bytes: Cell<u64>,
    pub(crate) connections_refused: Cell<u64>,
    pub(crate) isr_expands: Cell<u64>,
    pub(crate) isr_shrinks: Cell<u64>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            succeeded: std::array::from_fn(|_| Cell::new(0)),
            failed: RefCell::default(),
            phases: RefCell::default(),
            received_bytes: Cell::new(0),
            sent_bytes: Cell::new(0),
            connections_refused: Cell::new(0),
            isr_expands: Cell::new(0),
            isr_shrinks: Cell::new(0),
        }
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &Cell<u64>, more: u64) {
    counter.set(counter.get().wrapping_add(more));
}

impl Metrics {
    /// Counts an answer that carries `code`.
    pub(crate) fn answered(&self, api_key: i16, code: ErrorCode) {
        match self.succeeded.get(api_key as usize) {
            Some(count) if code.is_none() => add(count, 1),
            _ => {
                *self
                    .failed
                    .borrow_mut()
                    .entry((api_key, code.code()))
                    .or_default() += 1
            }
        }
    }

    /// Counts an answer once for each different code in it.
    pub(crate) fn answered_with(&self, api_key: i16, codes: impl Iterator<Item = ErrorCode>) {
        let mut failed: Vec<ErrorCode> = Vec::new();
        let (mut succeeded, mut empty) = (false, true);
        for code in codes {
            empty = false;
            if code.is_none() {
                succeeded = true;
            } else if !failed.contains(&code) {
                failed.push(code);
            }
        }
        if succeeded || empty {
            self.answered(api_key, ErrorCode::None);
        }
        for code in failed {
            self.answered(api_key, code);
        }
    }

    /// Counts the phases of a produce: queue, append, flush, answer.
    pub(crate) fn produced(&self, queue: Duration, append: Duration, flush: Duration, answer: Duration) {
        let mut phases = self.phases.borrow_mut();
        phases.queue.record(queue);
        phases.append.record(append);
        phases.flush.record(flush);
        phases.answer.record(answer);
    }

    pub(crate) fn requests(&self) -> Vec<RequestCount> {
        let succeeded = self
            .succeeded
            .iter()
            .enumerate()
            .filter(|(_, count)| count.get() > 0);
        let succeeded = succeeded.map(|(key, count)| RequestCount {
            api_key: key as i16,
            code: ErrorCode::None,
            count: count.get(),
        });
        let failed = self.failed.borrow();
        let failed = failed.iter().map(|(&(api_key, code), &count)| RequestCount {
            api_key,
            code: ErrorCode::from_code(code),
            count,
        });
        succeeded.chain(failed).collect()
    }

    pub(crate) fn phases(&self) -> PhaseLatencies {
        self.phases.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_each_of_its_codes_once() {
        let metrics = Metrics::default();
        let codes = [
            ErrorCode::None,
            ErrorCode::MessageTooLarge,
            ErrorCode::MessageTooLarge,
            ErrorCode::None,
        ];
        metrics.answered_with(0, codes.into_iter());
        let counted: Vec<_> = metrics
            .requests()
            .iter()
            .map(|r| (r.api_key, r.code, r.count))
            .collect();
        assert_eq!(
            counted,
            [(0, ErrorCode::None, 1), (0, ErrorCode::MessageTooLarge, 1)]
        );
    }
}
