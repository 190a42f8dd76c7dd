//! The journal entry: header, piece directory (records, then control pieces), frames, padding to a page.
//!
//! The header's checksum covers header and directory, and the directory holds each frame's checksum: the
//! entry is whole exactly when both hold. So a bad frame indicts its log alone, a bad directory the shard.

use rkyv::{Archive, Deserialize, Serialize};

use super::checksum::{checksum, checksum_of_zeroed, entry_key};
use super::piece::{Control, KIND_CONTROL, KIND_FRAME, PIECE_RECORD_BYTES, PieceRecord};
use super::{FormatError, archive_fixed, round_up, unarchive_fixed};
use crate::disk::PAGE;
use crate::types::{LogId, Sequence};

/// Bytes of an entry's header.
pub const ENTRY_HEADER_BYTES: usize = 80;
/// "SLJE".
pub const ENTRY_MAGIC: u32 = 0x454a_4c53;
/// The format written.
pub const ENTRY_FORMAT: u32 = 1;

const WHAT: &str = "journal entry";

/// Where an entry stands in the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RingPosition {
    /// The file's number.
    pub file: u32,
    /// The position in the file.
    pub position: u64,
}

/// The header of an entry.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryHeader {
    /// XXH3-64 of header and directory, this field as zero, under [`entry_key`].
    pub checksum: u64,
    /// [`ENTRY_MAGIC`].
    pub magic: u32,
    /// [`ENTRY_FORMAT`].
    pub format: u32,
    /// The journal's random id.
    pub journal_id: u64,
    /// The open that wrote it.
    pub incarnation: u64,
    /// Its sequence; higher than those of all entries before it.
    pub sequence: u64,
    /// The checksum of the entry before it.
    pub previous: u64,
    /// The highest sequence known durable when it was written.
    pub durable: u64,
    /// Bytes of the entry, padding included.
    pub length: u32,
    /// Bytes from its start to the end of the directory.
    pub directory_end: u32,
    /// Records in the directory.
    pub piece_count: u32,
    /// Zero.
    pub reserved: u32,
    /// Zero.
    pub reserved_too: u64,
}

const _: () = assert!(size_of::<ArchivedEntryHeader>() == ENTRY_HEADER_BYTES);

impl EntryHeader {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; ENTRY_HEADER_BYTES] {
        archive_fixed(self)
    }

    /// Decodes the header at the start of `bytes`, checking bounds but no checksum.
    ///
    /// # Errors
    /// [`FormatError`] when there is no header here.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let header: Self = unarchive_fixed::<_, ENTRY_HEADER_BYTES>(WHAT, "header", bytes)?;
        if header.magic != ENTRY_MAGIC {
            return Err(FormatError::Magic { what: WHAT });
        }
        if header.format != ENTRY_FORMAT {
            return Err(FormatError::Version {
                what: WHAT,
                format: header.format,
            });
        }
        let records_end =
            ENTRY_HEADER_BYTES as u64 + u64::from(header.piece_count) * PIECE_RECORD_BYTES as u64;
        if u64::from(header.directory_end) < records_end || header.directory_end > header.length {
            return Err(FormatError::Field {
                what: WHAT,
                field: "directory",
            });
        }
        if header.length == 0 || !(header.length as usize).is_multiple_of(PAGE) {
            return Err(FormatError::Field {
                what: WHAT,
                field: "length",
            });
        }
        Ok(header)
    }
}

/// A piece of an entry as read back; frames are not verified yet, since their key is their log's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A frame.
    Frame {
        /// The log it belongs to.
        log: LogId,
        /// The checksum it must have.
        checksum: u64,
        /// Header, payload and padding.
        bytes: &'a [u8],
    },
    /// Another change of a log.
    Control {
        /// The log it belongs to.
        log: LogId,
        /// The change.
        control: Control,
    },
}

/// Decodes and verifies header and directory of the entry at the start of `bytes`, which stands at `at`. The
/// frames may be missing from `bytes`.
///
/// # Errors
/// [`FormatError`] when no whole header and directory of this journal stand here.
pub fn verify_directory(bytes: &[u8], journal_id: u64, at: RingPosition) -> Result<EntryHeader, FormatError> {
    let header = EntryHeader::decode(bytes)?;
    if header.journal_id != journal_id {
        return Err(FormatError::Field {
            what: WHAT,
            field: "journal id",
        });
    }
    let end = header.directory_end as usize;
    if bytes.len() < end {
        return Err(FormatError::Short {
            what: WHAT,
            have: bytes.len(),
            want: end,
        });
    }
    let key = entry_key(journal_id, header.incarnation, at.file, at.position);
    if checksum(&bytes[..end], key) != header.checksum {
        return Err(FormatError::Checksum { what: WHAT });
    }
    Ok(header)
}

/// The pieces of an entry whose directory was verified. `bytes` is the whole entry.
///
/// # Errors
/// [`FormatError`] when a record points outside of the entry.
pub fn pieces<'a>(bytes: &'a [u8], header: &EntryHeader) -> Result<Vec<Piece<'a>>, FormatError> {
    if bytes.len() < header.length as usize {
        return Err(FormatError::Short {
            what: WHAT,
            have: bytes.len(),
            want: header.length as usize,
        });
    }
    let mut pieces = Vec::with_capacity(header.piece_count as usize);
    for index in 0..header.piece_count as usize {
        let record = PieceRecord::decode(&bytes[ENTRY_HEADER_BYTES + index * PIECE_RECORD_BYTES..])?;
        let end = record.position as usize + record.length as usize;
        let within = match record.kind {
            KIND_CONTROL => header.directory_end as usize,
            _ => header.length as usize,
        };
        if end > within {
            return Err(FormatError::Field {
                what: WHAT,
                field: "piece",
            });
        }
        let piece = &bytes[record.position as usize..end];
        pieces.push(match record.kind {
            KIND_FRAME => Piece::Frame {
                log: record.log(),
                checksum: record.checksum,
                bytes: piece,
            },
            KIND_CONTROL => Piece::Control {
                log: record.log(),
                control: Control::decode(piece)?,
            },
            _ => {
                return Err(FormatError::Field {
                    what: WHAT,
                    field: "piece kind",
                });
            }
        });
    }
    Ok(pieces)
}

/// Bytes of an entry of so many pieces, control bytes (each piece rounded up to 8) and frame bytes.
pub const fn entry_bytes(piece_count: usize, control_bytes: usize, frame_bytes: usize) -> usize {
    round_up(
        ENTRY_HEADER_BYTES + piece_count * PIECE_RECORD_BYTES + control_bytes + frame_bytes,
        PAGE,
    )
}

/// What an entry says of itself, besides its pieces.
#[derive(Clone, Copy, Debug)]
pub struct EntryIdentity {
    /// The journal's random id.
    pub journal_id: u64,
    /// This open.
    pub incarnation: u64,
    /// The entry's sequence.
    pub sequence: Sequence,
    /// The checksum of the entry before it.
    pub previous: u64,
    /// The highest sequence known durable.
    pub durable: Sequence,
    /// Where it will stand.
    pub at: RingPosition,
}

/// Writes an entry into a page buffer, piece by piece.
pub struct EntryWriter<'a> {
    bytes: &'a mut [u8],
    records: usize,
    control_at: usize,
    control_end: usize,
    frames_at: usize,
}

impl<'a> EntryWriter<'a> {
    /// Starts an entry of exactly these pieces; `bytes` is [`entry_bytes`] of them.
    pub fn new(bytes: &'a mut [u8], piece_count: usize, control_bytes: usize, frame_bytes: usize) -> Self {
        assert_eq!(
            bytes.len(),
            entry_bytes(piece_count, control_bytes, frame_bytes),
            "the slice is the entry"
        );
        let control_at = ENTRY_HEADER_BYTES + piece_count * PIECE_RECORD_BYTES;
        let frames_at = control_at + control_bytes;
        Self {
            bytes,
            records: 0,
            control_at,
            control_end: frames_at,
            frames_at,
        }
    }

    /// Adds a frame: the second and last copy of the batch's bytes.
    pub fn frame(&mut self, log: LogId, checksum: u64, frame: &[u8]) {
        let position = self.frames_at;
        self.bytes[position..position + frame.len()].copy_from_slice(frame);
        self.frames_at += frame.len();
        self.record(log, checksum, position, frame.len(), KIND_FRAME);
    }

    /// Adds an encoded control piece.
    pub fn control(&mut self, log: LogId, piece: &[u8]) {
        let position = self.control_at;
        self.bytes[position..position + piece.len()].copy_from_slice(piece);
        let padded = round_up(piece.len(), 8);
        self.bytes[position + piece.len()..position + padded].fill(0);
        self.control_at += padded;
        self.record(log, 0, position, piece.len(), KIND_CONTROL);
    }

    fn record(&mut self, log: LogId, checksum: u64, position: usize, length: usize, kind: u32) {
        let record = PieceRecord {
            log_id: log.0,
            checksum,
            position: position as u32,
            length: length as u32,
            kind,
            reserved: 0,
        };
        let at = ENTRY_HEADER_BYTES + self.records * PIECE_RECORD_BYTES;
        self.bytes[at..at + PIECE_RECORD_BYTES].copy_from_slice(&record.encode());
        self.records += 1;
    }

    /// Writes header and padding; returns the entry's checksum.
    pub fn finish(self, identity: &EntryIdentity) -> u64 {
        assert_eq!(self.control_at, self.control_end, "all control pieces were added");
        let header = EntryHeader {
            checksum: 0,
            magic: ENTRY_MAGIC,
            format: ENTRY_FORMAT,
            journal_id: identity.journal_id,
            incarnation: identity.incarnation,
            sequence: identity.sequence.0,
            previous: identity.previous,
            durable: identity.durable.0,
            length: self.bytes.len() as u32,
            directory_end: self.control_end as u32,
            piece_count: self.records as u32,
            reserved: 0,
            reserved_too: 0,
        };
        self.bytes[..ENTRY_HEADER_BYTES].copy_from_slice(&header.encode());
        self.bytes[self.frames_at..].fill(0);
        let at = identity.at;
        let key = entry_key(identity.journal_id, identity.incarnation, at.file, at.position);
        let checksum = checksum_of_zeroed(&self.bytes[..self.control_end], key);
        self.bytes[..8].copy_from_slice(&checksum.to_le_bytes());
        checksum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: RingPosition = RingPosition {
        file: 2,
        position: 8192,
    };

    fn sample() -> Vec<u8> {
        let control = Control::Truncate { offset: 77 }.encode();
        let padded = round_up(control.len(), 8);
        let mut bytes = vec![0xee; entry_bytes(3, padded, 128 + 64)];
        let mut writer = EntryWriter::new(&mut bytes, 3, padded, 128 + 64);
        writer.frame(LogId(1), 11, &[1; 128]);
        writer.control(LogId(2), &control);
        writer.frame(LogId(3), 33, &[3; 64]);
        writer.finish(&EntryIdentity {
            journal_id: 5,
            incarnation: 6,
            sequence: Sequence(7),
            previous: 8,
            durable: Sequence(4),
            at: AT,
        });
        bytes
    }

    #[test]
    fn the_format_is_pinned_and_round_trips() {
        let bytes = sample();
        crate::golden::check("entry-1.bin", &bytes);
        let header = verify_directory(&bytes, 5, AT).expect("whole");
        assert_eq!((header.sequence, header.previous, header.durable), (7, 8, 4));
        let pieces = pieces(&bytes, &header).expect("whole");
        assert_eq!(
            pieces,
            [
                Piece::Frame {
                    log: LogId(1),
                    checksum: 11,
                    bytes: &[1; 128]
                },
                Piece::Control {
                    log: LogId(2),
                    control: Control::Truncate { offset: 77 }
                },
                Piece::Frame {
                    log: LogId(3),
                    checksum: 33,
                    bytes: &[3; 64]
                },
            ]
        );
    }

    #[test]
    fn an_entry_is_valid_in_its_journal_and_place_alone() {
        let bytes = sample();
        assert!(verify_directory(&bytes, 4, AT).is_err());
        assert!(verify_directory(&bytes, 5, RingPosition { file: 3, ..AT }).is_err());
        assert!(verify_directory(&bytes, 5, RingPosition { position: 4096, ..AT }).is_err());
    }

    #[test]
    fn a_flipped_bit_of_header_or_directory_is_found() {
        let mut bytes = sample();
        let end = EntryHeader::decode(&bytes).expect("whole").directory_end as usize;
        for bit in 0..end * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(verify_directory(&bytes, 5, AT).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_decode_or_fail(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            let _ = verify_directory(&bytes, 5, AT);
        }
    }
}
