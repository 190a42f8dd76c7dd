//! Credit: frames are sent only into memory that their receiver has reserved.
//!
//! Both sides count bytes since the link opened, so that the newest grant says everything. A window always admits one whole
//! frame: one that is larger than the window goes alone, when nothing else is on the way.

use thiserror::Error;

/// The sender's side of one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreditSender {
    /// The first grant.
    window: u64,
    granted: u64,
    sent: u64,
}

/// The receiver's side of one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditReceiver {
    window: u64,
    granted: u64,
    received: u64,
    released: u64,
}

/// The peer does not keep to the credit; the link is closed for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CreditError {
    /// Frames beyond the credit.
    #[error("{bytes} bytes came with a credit of {credit}")]
    Exceeded {
        /// Their bytes.
        bytes: u64,
        /// What was left.
        credit: u64,
    },
    /// A grant that takes credit back.
    #[error("the credit fell from {known} to {told}")]
    Fell {
        /// Before.
        known: u64,
        /// Told.
        told: u64,
    },
}

impl CreditSender {
    /// The receiver granted `bytes` in all.
    ///
    /// # Errors
    /// [`CreditError::Fell`].
    pub fn granted(&mut self, bytes: u64) -> Result<(), CreditError> {
        if bytes < self.granted {
            return Err(CreditError::Fell {
                known: self.granted,
                told: bytes,
            });
        }
        if self.granted == 0 {
            self.window = bytes;
        }
        self.granted = bytes;
        Ok(())
    }

    /// What may be sent at once.
    pub fn available(&self) -> u64 {
        self.granted.saturating_sub(self.sent)
    }

    /// Whether a frame of `bytes` may be sent now.
    pub fn admits(&self, bytes: u64) -> bool {
        let available = self.available();
        // With the whole window free nothing is on the way.
        bytes <= available || (self.window > 0 && available == self.window)
    }

    /// A frame was sent that [`CreditSender::admits`] had admitted.
    pub fn sent(&mut self, bytes: u64) {
        assert!(self.admits(bytes), "sent without credit");
        self.sent = self.sent.saturating_add(bytes);
    }
}

impl CreditReceiver {
    /// A window of `window` reserved bytes, at least one.
    pub fn new(window: u64) -> Self {
        Self {
            window: window.max(1),
            granted: 0,
            received: 0,
            released: 0,
        }
    }

    /// The same window, of which nothing was granted yet.
    pub fn anew(&self) -> Self {
        Self::new(self.window)
    }

    /// The grant that opens the window.
    pub fn open(&mut self) -> u64 {
        self.granted = self.window;
        self.granted
    }

    /// The newest grant.
    pub fn granted(&self) -> u64 {
        self.granted
    }

    /// Bytes that came and are not released.
    pub fn outstanding(&self) -> u64 {
        self.received - self.released
    }

    /// A frame came.
    ///
    /// # Errors
    /// [`CreditError::Exceeded`].
    pub fn received(&mut self, bytes: u64) -> Result<(), CreditError> {
        let credit = self.granted.saturating_sub(self.received);
        let alone = credit == self.window;
        match self.received.checked_add(bytes) {
            Some(received) if bytes <= credit || alone => {
                self.received = received;
                Ok(())
            }
            _ => Err(CreditError::Exceeded { bytes, credit }),
        }
    }

    /// `bytes` of what came have left the reserved memory; the next grant, if it is worth a message: with half of the window
    /// free, or all of it.
    pub fn released(&mut self, bytes: u64) -> Option<u64> {
        assert!(bytes <= self.outstanding(), "released more than came");
        self.released += bytes;
        let possible = self.released + self.window;
        let gain = possible - self.granted;
        let worth = gain > 0 && (gain >= self.window.div_ceil(2) || self.outstanding() == 0);
        worth.then(|| {
            self.granted = possible;
            possible
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_oversized_frame_goes_alone() {
        let (mut sender, mut receiver) = (CreditSender::default(), CreditReceiver::new(100));
        assert!(!sender.admits(1), "nothing was granted yet");
        sender.granted(receiver.open()).unwrap();
        sender.sent(10);
        assert!(sender.admits(90) && !sender.admits(91) && !sender.admits(1_000));
        receiver.received(10).unwrap();
        sender.granted(receiver.released(10).unwrap()).unwrap();
        assert!(sender.admits(1_000));
        sender.sent(1_000);
        receiver.received(1_000).unwrap();
        assert!(!sender.admits(1));
        sender.granted(receiver.released(400).unwrap()).unwrap();
        assert!(!sender.admits(1), "the rest of it is still there");
        sender.granted(receiver.released(600).unwrap()).unwrap();
        assert!(sender.admits(1_000));
    }

    #[test]
    fn a_peer_that_breaks_the_rules_is_found_out() {
        let mut receiver = CreditReceiver::new(100);
        receiver.open();
        receiver.received(60).unwrap();
        assert_eq!(
            receiver.received(41),
            Err(CreditError::Exceeded {
                bytes: 41,
                credit: 40
            })
        );
        let mut sender = CreditSender::default();
        sender.granted(100).unwrap();
        assert_eq!(
            sender.granted(99),
            Err(CreditError::Fell { known: 100, told: 99 })
        );
    }

    proptest! {
        /// Whatever the sizes and the delays: the receiver's memory is bounded, and every frame gets through.
        #[test]
        fn memory_is_bounded_and_nothing_waits_for_ever(
            window in 1_u64..200,
            frames in prop::collection::vec(1_u64..300, 1..100),
            turns in prop::collection::vec(0_u8..4, 0..400),
        ) {
            let (mut sender, mut receiver) = (CreditSender::default(), CreditReceiver::new(window));
            let mut grants = VecDeque::from([receiver.open()]);
            let (mut waiting, mut wire, mut held) = (VecDeque::from(frames), VecDeque::new(), VecDeque::new());
            // After the given turns, everybody goes on in a round.
            for turn in turns.into_iter().chain((0..4).cycle().take(2_000)) {
                match turn {
                    0 => if let Some(grant) = grants.pop_front() {
                        sender.granted(grant).unwrap();
                    },
                    1 => if waiting.front().is_some_and(|frame| sender.admits(*frame)) {
                        let frame = waiting.pop_front().unwrap();
                        sender.sent(frame);
                        wire.push_back(frame);
                    },
                    2 => if let Some(frame) = wire.pop_front() {
                        receiver.received(frame).unwrap();
                        held.push_back(frame);
                        let alone = held.len() == 1;
                        prop_assert!(receiver.outstanding() <= window || alone);
                    },
                    _ => if let Some(frame) = held.pop_front() {
                        grants.extend(receiver.released(frame));
                    },
                }
            }
            prop_assert!(waiting.is_empty() && wire.is_empty() && held.is_empty());
        }
    }
}
