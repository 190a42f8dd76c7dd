//! Read-only views over the bytes of a store's files, for tools: nothing here opens, writes or repairs.

use crate::disk::PAGE;
use crate::format::FormatError;
use crate::format::checksum::log_key;
use crate::format::entry::{EntryHeader, Piece, RingPosition, pieces, verify_directory};
use crate::format::frame::{FRAME_HEADER_BYTES, FrameHeader, verify_frame};
use crate::journal::scan;
use crate::types::{Sequence, TopicPartitionId};

pub use crate::format::checkpoint::Checkpoint;
pub use crate::format::{entry, frame, index, names, piece, snapshot};

/// A frame of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentFrame<'a> {
    /// Where it stands in the file.
    pub position: u64,
    /// Its header.
    pub header: FrameHeader,
    /// Its batch; of a pad, zeroes.
    pub payload: &'a [u8],
}

/// The frames of a segment, pads included, up to the first bytes that are none.
pub struct SegmentFrames<'a> {
    bytes: &'a [u8],
    key: u64,
    position: usize,
    failed: bool,
}

/// Lists the frames of a segment of `id`: give the file's content up to its valid length, or all of it.
pub fn segment_frames(bytes: &[u8], id: TopicPartitionId) -> SegmentFrames<'_> {
    SegmentFrames {
        bytes,
        key: log_key(id),
        position: 0,
        failed: false,
    }
}

impl<'a> Iterator for SegmentFrames<'a> {
    type Item = Result<SegmentFrame<'a>, (u64, FormatError)>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.bytes[self.position.min(self.bytes.len())..];
        if rest.is_empty() || self.failed {
            return None;
        }
        let position = self.position as u64;
        match verify_frame(rest, self.key) {
            Ok(header) => {
                self.position += header.frame_bytes();
                let payload = &rest[FRAME_HEADER_BYTES..header.unpadded_bytes()];
                Some(Ok(SegmentFrame {
                    position,
                    header,
                    payload,
                }))
            }
            Err(error) => {
                self.failed = true;
                Some(Err((position, error)))
            }
        }
    }
}

/// An entry of a journal file.
#[derive(Clone, Debug)]
pub struct JournalEntry<'a> {
    /// Where it stands in the file.
    pub position: u64,
    /// Its header.
    pub header: EntryHeader,
    /// Its pieces, or why they cannot be read.
    pub pieces: Result<Vec<Piece<'a>>, FormatError>,
}

/// Lists the entries of journal file number `file` whose header and directory are whole, in the order of
/// their positions: old ones that were not overwritten yet are among them. Journal id: the checkpoint's.
pub fn journal_entries(bytes: &[u8], file: u32, journal_id: u64) -> Vec<JournalEntry<'_>> {
    let mut entries = Vec::new();
    for position in (0..bytes.len()).step_by(PAGE) {
        let at = RingPosition {
            file,
            position: position as u64,
        };
        if let Ok(header) = verify_directory(&bytes[position..], journal_id, at) {
            entries.push(JournalEntry {
                position: at.position,
                header,
                pieces: pieces(&bytes[position..], &header),
            });
        }
    }
    entries
}

/// An entry that a start would apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayEntry {
    /// Where it stands.
    pub at: RingPosition,
    /// Its header.
    pub header: EntryHeader,
    /// An entry before it that was durable is missing.
    pub rot_before: bool,
}

/// What a start makes of the entries of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayPlan {
    /// The entries it applies, in order.
    pub entries: Vec<ReplayEntry>,
    /// Entries up to this sequence were durable: what is missing of them is damage, what is missing of later ones is torn.
    pub durable: Sequence,
    /// Entries stand there of an open that the checkpoint does not list: a newer checkpoint was lost.
    pub is_checkpoint_outdated: bool,
}

/// Says which of the whole entries of a ring, found in any order, a start after `checkpoint` applies: by the rules of the
/// start itself.
pub fn replay_plan(
    entries: impl IntoIterator<Item = (RingPosition, EntryHeader)>,
    checkpoint: &Checkpoint,
) -> ReplayPlan {
    let found = entries.into_iter().map(|(at, header)| scan::Found { at, header });
    let plan = scan::plan(
        found.collect(),
        &checkpoint.replay_start,
        &checkpoint.incarnations,
    );
    let entries = plan.entries.iter().map(|planned| ReplayEntry {
        at: planned.found.at,
        header: planned.found.header,
        rot_before: planned.rot_before,
    });
    ReplayPlan {
        entries: entries.collect(),
        durable: plan.durable,
        is_checkpoint_outdated: plan.unknown_incarnation,
    }
}

/// Reads a checkpoint slot.
///
/// # Errors
/// [`FormatError`] when it is torn, rotten or of another format.
pub fn checkpoint(bytes: &[u8]) -> Result<Checkpoint, FormatError> {
    Checkpoint::decode(bytes)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::format::frame::{FRAME_FORMAT, FRAME_MAGIC, frame_bytes, pad_bytes, seal_frame, seal_pad};

    #[test]
    fn frames_are_listed_up_to_the_first_bad_byte() {
        let id = TopicPartitionId {
            topic_id: Uuid::from_u128(1),
            partition: 0,
        };
        let key = log_key(id);
        let mut bytes = Vec::new();
        for offset in 0..3 {
            let mut frame = vec![7; frame_bytes(100)];
            let header = FrameHeader {
                base_offset: offset,
                payload_length: 100,
                magic: FRAME_MAGIC,
                format: FRAME_FORMAT,
                ..FrameHeader::default()
            };
            seal_frame(&mut frame, &header, key);
            bytes.extend_from_slice(&frame);
        }
        let mut pad = vec![0; pad_bytes(bytes.len())];
        seal_pad(&mut pad, 3, key);
        bytes.extend_from_slice(&pad);
        let frames: Vec<_> = segment_frames(&bytes, id)
            .collect::<Result<_, _>>()
            .expect("whole");
        assert_eq!(frames.len(), 4);
        assert!(frames[3].header.is_pad());
        assert_eq!(frames[2].payload, [7; 100]);
        bytes[frame_bytes(100) + 70] ^= 1;
        let second = segment_frames(&bytes, id).nth(1).expect("listed");
        assert_eq!(
            second,
            Err((frame_bytes(100) as u64, FormatError::Checksum { what: "frame" }))
        );
        assert_eq!(segment_frames(&bytes, id).count(), 2);
    }
}
