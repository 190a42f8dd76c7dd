//! One request or answer.
//!
//! ```text
//! head length u32 · body length u32 · sequence u64 · XXH3-64 of lengths, sequence, head and body u64 · head · body
//! ```
//!
//! The head is JSON with named fields: an unknown field is skipped, a missing one takes its default. The sequence counts the
//! frames of a direction from 0, so that an answer belongs to its request.

use thiserror::Error;
use xxhash_rust::xxh3::Xxh3Default;

/// Bytes before the head.
pub const FRAME_ENVELOPE_BYTES: usize = 24;
/// The largest head: the entries of one append.
pub const HEAD_BYTES_MAX: u32 = 64 << 20;
/// The largest body: a snapshot of the cluster's metadata.
pub const BODY_BYTES_MAX: u32 = 1 << 30;

const SUMMED_BYTES: usize = FRAME_ENVELOPE_BYTES - 8;

/// What stands before a request or answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameEnvelope {
    /// Bytes of the head.
    pub head_bytes: u32,
    /// Bytes behind it.
    pub body_bytes: u32,
    checksum: u64,
    summed: [u8; SUMMED_BYTES],
}

/// What is wrong with bytes of another controller; the connection is closed for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The head is larger than any.
    #[error("a head of {0} bytes is larger than any")]
    HeadTooLarge(u32),
    /// The body is larger than any.
    #[error("a body of {0} bytes is larger than any")]
    BodyTooLarge(u32),
    /// A frame was lost, or came twice.
    #[error("frame {found} came where {expected} was due")]
    Sequence {
        /// The one due.
        expected: u64,
        /// The one that came.
        found: u64,
    },
    /// Bits changed on the way.
    #[error("a frame's checksum is wrong")]
    Checksum,
}

/// The envelope of a frame; head and body are sent behind it.
///
/// # Errors
/// [`FrameError`] for what a receiver would not take.
pub fn encode_frame(
    sequence: u64,
    head: &[u8],
    body: &[u8],
) -> Result<[u8; FRAME_ENVELOPE_BYTES], FrameError> {
    let head_bytes = u32::try_from(head.len()).unwrap_or(u32::MAX);
    let body_bytes = u32::try_from(body.len()).unwrap_or(u32::MAX);
    check(head_bytes, body_bytes)?;
    let mut out = [0; FRAME_ENVELOPE_BYTES];
    out[..4].copy_from_slice(&head_bytes.to_le_bytes());
    out[4..8].copy_from_slice(&body_bytes.to_le_bytes());
    out[8..SUMMED_BYTES].copy_from_slice(&sequence.to_le_bytes());
    let sum = checksum(&out[..SUMMED_BYTES], head, body);
    out[SUMMED_BYTES..].copy_from_slice(&sum.to_le_bytes());
    Ok(out)
}

fn check(head_bytes: u32, body_bytes: u32) -> Result<(), FrameError> {
    if head_bytes > HEAD_BYTES_MAX {
        return Err(FrameError::HeadTooLarge(head_bytes));
    }
    if body_bytes > BODY_BYTES_MAX {
        return Err(FrameError::BodyTooLarge(body_bytes));
    }
    Ok(())
}

fn checksum(envelope: &[u8], head: &[u8], body: &[u8]) -> u64 {
    let mut sum = Xxh3Default::new();
    sum.update(envelope);
    sum.update(head);
    sum.update(body);
    sum.digest()
}

impl FrameEnvelope {
    /// Reads the envelope of the frame that is to have the number `sequence`.
    ///
    /// # Errors
    /// [`FrameError`].
    pub fn decode(bytes: &[u8; FRAME_ENVELOPE_BYTES], sequence: u64) -> Result<Self, FrameError> {
        let [a, b, c, d, e, f, g, h, rest @ ..] = *bytes;
        let (head_bytes, body_bytes) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        check(head_bytes, body_bytes)?;
        let (found, sum) = rest.split_at(8);
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let found = number(found);
        if found != sequence {
            return Err(FrameError::Sequence {
                expected: sequence,
                found,
            });
        }
        let mut summed = [0; SUMMED_BYTES];
        summed.copy_from_slice(&bytes[..SUMMED_BYTES]);
        Ok(Self {
            head_bytes,
            body_bytes,
            checksum: number(sum),
            summed,
        })
    }

    /// Checks what came behind the envelope.
    ///
    /// # Errors
    /// [`FrameError::Checksum`].
    pub fn check(&self, head: &[u8], body: &[u8]) -> Result<(), FrameError> {
        match checksum(&self.summed, head, body) == self.checksum {
            true => Ok(()),
            false => Err(FrameError::Checksum),
        }
    }
}
