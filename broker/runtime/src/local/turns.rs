//! Long loops in turns: between the items of a large request other tasks run.

use std::future::poll_fn;
use std::task::Poll;

/// Items of one turn: together they take far less than a millisecond.
const ITEMS: u32 = 64;

/// Counts the items of a loop. For loops off the data path; on it, [`crate::Runtime::yield_if_needed`] costs less.
#[derive(Debug, Default)]
pub struct Turns {
    items: u32,
}

impl Turns {
    /// Counts one more item; after enough of them every other ready task runs once.
    pub async fn item(&mut self) {
        self.items += 1;
        if self.items >= ITEMS {
            self.items = 0;
            yield_once().await;
        }
    }
}

/// Collects in turns.
pub async fn collect_in_turns<C, T>(items: impl IntoIterator<Item = T>) -> C
where
    C: Default + Extend<T>,
{
    let mut turns = Turns::default();
    let mut collected = C::default();
    for item in items {
        collected.extend(Some(item));
        turns.item().await;
    }
    collected
}

async fn yield_once() {
    let mut yielded = false;
    poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn a_turn_ends_after_its_items() {
        let mut collecting = pin!(collect_in_turns::<Vec<u32>, _>(0..3 * ITEMS + 1));
        let mut context = Context::from_waker(Waker::noop());
        let mut turns = 1;
        let collected = loop {
            match collecting.as_mut().poll(&mut context) {
                Poll::Ready(collected) => break collected,
                Poll::Pending => turns += 1,
            }
        };
        assert_eq!(turns, 4);
        assert!(collected.into_iter().eq(0..3 * ITEMS + 1));
    }
}
