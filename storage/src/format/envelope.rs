//! The envelope of files that are read whole: checkpoint slots, producer snapshots, indexes. A 64-byte
//! header, an rkyv archive, padding to a page.

use rkyv::{Archive, Deserialize, Serialize};

use super::checksum::{checksum, checksum_of_zeroed};
use super::{FormatError, archive_fixed, round_up, unarchive_fixed};
use crate::disk::PAGE;

/// Bytes of the header.
pub const ENVELOPE_HEADER_BYTES: usize = 64;
/// "SLEN".
pub const ENVELOPE_MAGIC: u32 = 0x4e45_4c53;

/// What the envelope holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvelopeKind {
    /// A checkpoint.
    Checkpoint,
    /// A producer snapshot.
    Snapshot,
    /// A segment's index.
    Index,
}

impl EnvelopeKind {
    const fn code(self) -> u32 {
        match self {
            Self::Checkpoint => 1,
            Self::Snapshot => 2,
            Self::Index => 3,
        }
    }

    /// The newest format, which is written; older ones are read.
    const fn format(self) -> u32 {
        match self {
            Self::Checkpoint => 2,
            Self::Snapshot | Self::Index => 1,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Checkpoint => "checkpoint",
            Self::Snapshot => "snapshot",
            Self::Index => "index",
        }
    }
}

#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
struct EnvelopeHeader {
    checksum: u64,
    magic: u32,
    kind: u32,
    format: u32,
    reserved: u32,
    length: u64,
    generation: u64,
    reserved_too: [u64; 3],
}

const _: () = assert!(size_of::<ArchivedEnvelopeHeader>() == ENVELOPE_HEADER_BYTES);

/// Wraps `body`. The result is a multiple of a page.
pub fn wrap(kind: EnvelopeKind, key: u64, generation: u64, body: &[u8]) -> Vec<u8> {
    let header = EnvelopeHeader {
        checksum: 0,
        magic: ENVELOPE_MAGIC,
        kind: kind.code(),
        format: kind.format(),
        reserved: 0,
        length: body.len() as u64,
        generation,
        reserved_too: [0; 3],
    };
    let end = ENVELOPE_HEADER_BYTES + body.len();
    let mut bytes = Vec::with_capacity(round_up(end, PAGE));
    bytes.extend_from_slice(&archive_fixed::<_, ENVELOPE_HEADER_BYTES>(&header));
    bytes.extend_from_slice(body);
    let sum = checksum_of_zeroed(&bytes, key);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    bytes.resize(round_up(end, PAGE), 0);
    bytes
}

/// What an envelope held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwrapped<'a> {
    /// The format of the body: the newest or an older one.
    pub format: u32,
    /// What was wrapped with it.
    pub generation: u64,
    /// The archive.
    pub body: &'a [u8],
}

/// Checks an envelope.
///
/// # Errors
/// [`FormatError`] when it is not whole, of another kind, or of a format unknown here.
pub fn unwrap(kind: EnvelopeKind, key: u64, bytes: &[u8]) -> Result<Unwrapped<'_>, FormatError> {
    let what = kind.name();
    let header: EnvelopeHeader = unarchive_fixed::<_, ENVELOPE_HEADER_BYTES>(what, "header", bytes)?;
    if header.magic != ENVELOPE_MAGIC || header.kind != kind.code() {
        return Err(FormatError::Magic { what });
    }
    if header.length > (bytes.len() - ENVELOPE_HEADER_BYTES) as u64 {
        return Err(FormatError::Short {
            what,
            have: bytes.len(),
            want: usize::MAX,
        });
    }
    let end = ENVELOPE_HEADER_BYTES + header.length as usize;
    if checksum(&bytes[..end], key) != header.checksum {
        return Err(FormatError::Checksum { what });
    }
    // After the checksum: a torn slot is torn, not "of a newer format".
    if !(1..=kind.format()).contains(&header.format) {
        return Err(FormatError::Version {
            what,
            format: header.format,
        });
    }
    Ok(Unwrapped {
        format: header.format,
        generation: header.generation,
        body: &bytes[ENVELOPE_HEADER_BYTES..end],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_opens_only_as_what_it_is() {
        let bytes = wrap(EnvelopeKind::Snapshot, 5, 9, b"body");
        crate::golden::check("envelope-1.bin", &bytes);
        assert_eq!(bytes.len(), PAGE);
        let whole = Unwrapped {
            format: 1,
            generation: 9,
            body: b"body",
        };
        assert_eq!(unwrap(EnvelopeKind::Snapshot, 5, &bytes), Ok(whole));
        assert!(unwrap(EnvelopeKind::Index, 5, &bytes).is_err());
        assert!(unwrap(EnvelopeKind::Snapshot, 6, &bytes).is_err());
        let mut bad = bytes.clone();
        for bit in 0..68 * 8 {
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(unwrap(EnvelopeKind::Snapshot, 5, &bad).is_err(), "bit {bit}");
            bad[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(unwrap(EnvelopeKind::Snapshot, 5, &[]).is_err());
    }
}
