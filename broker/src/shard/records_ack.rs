//! What a task waits on whose records shall be durable before it goes on.

use std::cell::Cell;

use strandline_wire::ErrorCode;

use super::deadlines::Expire;
use super::signal::Signal;

/// The end of a wait for records: acknowledged as `acks=all`, refused, or out of time.
#[derive(Default)]
pub(crate) struct RecordsAck {
    outcome: Cell<Option<Result<(), ErrorCode>>>,
    news: Signal,
}

impl RecordsAck {
    /// Ends the wait; only the first end counts.
    pub(crate) fn end(&self, outcome: Result<(), ErrorCode>) {
        if self.outcome.get().is_none() {
            self.outcome.set(Some(outcome));
            self.news.set();
        }
    }

    /// Completes at the end. One task waits.
    pub(crate) async fn wait(&self) -> Result<(), ErrorCode> {
        loop {
            if let Some(outcome) = self.outcome.get() {
                return outcome;
            }
            self.news.wait().await;
        }
    }
}

impl Expire for RecordsAck {
    fn expire(&self) {
        self.end(Err(ErrorCode::RequestTimedOut));
    }
}
