//! A running hash of everything that happened, so that two runs can be compared.

use super::random::mix;

/// The history of a run, as one number.
#[derive(Default)]
pub(super) struct Trace {
    hash: u64,
    events: u64,
}

impl Trace {
    pub(super) fn record(&mut self, words: &[u64]) {
        for word in words {
            self.hash = mix(self.hash.rotate_left(5) ^ *word);
        }
        self.events += 1;
    }

    pub(super) fn record_bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.hash = mix(self.hash.rotate_left(5) ^ u64::from_le_bytes(word));
        }
        self.record(&[bytes.len() as u64]);
    }

    pub(super) fn hash(&self) -> u64 {
        mix(self.hash ^ self.events)
    }
}
