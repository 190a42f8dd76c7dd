//! The frames of a segment, one after the other.

use std::fs::File;
use std::path::{Path, PathBuf};

use strandline_storage::TopicPartitionId;
use strandline_storage::format::checksum::log_key;
use strandline_storage::format::frame::{FRAME_HEADER_BYTES, FrameHeader, verify_frame};

use super::{Damage, read_at, unreadable};
use crate::failure::Failure;

/// A verified frame.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Where it stands in its file.
    pub position: u64,
    /// Its header.
    pub header: FrameHeader,
    bytes: Vec<u8>,
}

impl Frame {
    /// The Kafka batch; of a pad, its zeros.
    pub fn batch(&self) -> &[u8] {
        &self.bytes[FRAME_HEADER_BYTES..self.header.unpadded_bytes()]
    }
}

/// What stands next in a segment.
#[derive(Debug)]
pub enum Next {
    /// A frame, or a pad.
    Frame(Frame),
    /// No frame; what follows was never written, or is damaged.
    Nothing(Damage),
    /// The end of the file, or of what was asked for.
    End,
}

/// Reads a segment from its start.
#[derive(Debug)]
pub struct FrameReader {
    file: File,
    path: PathBuf,
    key: u64,
    position: u64,
    end: u64,
}

impl FrameReader {
    /// Opens a segment of a partition. Reads `length` bytes of it, or all.
    pub fn open(path: &Path, id: TopicPartitionId, length: Option<u64>) -> Result<Self, Failure> {
        let file = File::open(path).map_err(|source| unreadable(path, source))?;
        let size = file.metadata().map_err(|source| unreadable(path, source))?.len();
        let end = length.map_or(size, |length| length.min(size));
        Ok(Self {
            file,
            path: path.to_owned(),
            key: log_key(id),
            position: 0,
            end,
        })
    }

    /// Starts at `position`, a frame's or a page's.
    pub fn starting_at(self, position: u64) -> Self {
        Self { position, ..self }
    }

    /// Where the reader stands.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Damage of this file.
    pub fn damage_at(&self, position: u64, reason: String) -> Damage {
        Damage {
            path: self.path.clone(),
            position,
            reason,
        }
    }

    /// The frame at the reader's position, which moves behind it.
    pub fn read_next(&mut self) -> Result<Next, Failure> {
        let rest = self.end.saturating_sub(self.position);
        if rest == 0 {
            return Ok(Next::End);
        }
        if rest < FRAME_HEADER_BYTES as u64 {
            return Ok(self.nothing(format!("{rest} bytes are too few for a frame")));
        }
        let head = read_at(&self.file, &self.path, self.position, FRAME_HEADER_BYTES)?;
        let header = match FrameHeader::decode(&head) {
            Ok(header) => header,
            Err(error) => return Ok(self.nothing(error.to_string())),
        };
        // Before the checksum a length is only a claim: it is believed as far as the file reaches.
        let length = header.frame_bytes();
        if length as u64 > rest {
            return Ok(self.nothing(format!(
                "a frame of {length} bytes does not fit the {rest} that remain"
            )));
        }
        let bytes = read_at(&self.file, &self.path, self.position, length)?;
        if let Err(error) = verify_frame(&bytes, self.key) {
            return Ok(self.nothing(error.to_string()));
        }
        let frame = Frame {
            position: self.position,
            header,
            bytes,
        };
        self.position += length as u64;
        Ok(Next::Frame(frame))
    }

    fn nothing(&self, reason: String) -> Next {
        Next::Nothing(Damage {
            path: self.path.clone(),
            position: self.position,
            reason,
        })
    }
}
