//! A compressed batch's records as a stream: a fixed buffer, from which records are walked, copied or collected.

use std::io::{self, Read, Write};

use super::varint::{Body, ScanError};
use super::walk::{RecordShape, plain_body, shape};

const BUFFER: usize = 16 << 10;
const ENDS_EARLY: ScanError = ScanError::Malformed("the batch ends inside a record");

/// Reads records from a decompressor through one buffer of fixed size.
pub(crate) struct RecordStream<R> {
    input: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Bytes that came out of the decompressor so far.
    pub(crate) read_bytes: usize,
}

impl<R: Read> RecordStream<R> {
    pub(crate) fn new(input: R) -> Self {
        RecordStream {
            input,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            start: 0,
            end: 0,
            read_bytes: 0,
        }
    }

    /// The buffered bytes, filled when empty. Empty only at the end of the stream.
    fn buffered(&mut self) -> Result<&[u8], ScanError> {
        while self.start == self.end {
            match self.input.read(&mut self.buffer) {
                Ok(0) => return Ok(&[]),
                Ok(count) => {
                    (self.start, self.end) = (0, count);
                    self.read_bytes += count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ScanError::Read(error)),
            }
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// True when no byte is left. Only now a checksum at the end of the stream has been verified.
    pub(crate) fn at_end(&mut self) -> Result<bool, ScanError> {
        self.buffered().map(|bytes| bytes.is_empty())
    }

    /// Walks the next record: in the buffer when it lies there whole, else across refills.
    pub(crate) fn shape(&mut self) -> Result<RecordShape, ScanError> {
        let mut buffered = &self.buffer[self.start..self.end];
        if let Ok(mut body) = plain_body(&mut buffered) {
            let left = buffered.len();
            let shape = shape(&mut body)?;
            self.start = self.end - left;
            return Ok(shape);
        }
        shape(&mut self.record()?)
    }

    /// The rest of a record's body of which `left` bytes were not passed yet.
    pub(crate) fn body(&mut self, left: usize) -> StreamBody<'_, R> {
        StreamBody { stream: self, left }
    }

    /// The next record's length and its body.
    pub(crate) fn record(&mut self) -> Result<StreamBody<'_, R>, ScanError> {
        let length = StreamBody {
            stream: self,
            left: usize::MAX,
        }
        .varint()?;
        let Ok(left) = usize::try_from(length) else {
            return Err(ScanError::Malformed("a record has a negative length"));
        };
        Ok(StreamBody { stream: self, left })
    }
}

/// The body of the record at which a stream stands.
pub(crate) struct StreamBody<'s, R> {
    stream: &'s mut RecordStream<R>,
    left: usize,
}

impl<R: Read> StreamBody<'_, R> {
    /// Hands the next `count` bytes on, piece by piece.
    pub(crate) fn pass(
        &mut self,
        mut count: usize,
        mut piece: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), ScanError> {
        if count > self.left {
            return Err(ScanError::Malformed("a field is longer than its record"));
        }
        self.left -= count;
        while count > 0 {
            let bytes = self.stream.buffered()?;
            if bytes.is_empty() {
                return Err(ENDS_EARLY);
            }
            let now = bytes.len().min(count);
            piece(&bytes[..now]).map_err(ScanError::Read)?;
            self.stream.start += now;
            count -= now;
        }
        Ok(())
    }

    /// Writes the rest of the body to `out`.
    pub(crate) fn copy_rest(&mut self, out: &mut impl Write) -> Result<(), ScanError> {
        self.pass(self.left, |piece| out.write_all(piece))
    }

    /// Collects the rest of the body in `out`, which grows with the bytes that are there, not with those claimed.
    pub(crate) fn collect_rest(&mut self, out: &mut Vec<u8>) -> Result<(), ScanError> {
        self.collect(self.left, out)
    }

    /// The same with the next `count` bytes.
    pub(crate) fn collect(&mut self, count: usize, out: &mut Vec<u8>) -> Result<(), ScanError> {
        out.clear();
        self.pass(count, |piece| {
            out.extend_from_slice(piece);
            Ok(())
        })
    }
}

impl<R: Read> Body for StreamBody<'_, R> {
    fn remaining(&self) -> usize {
        self.left
    }

    fn byte(&mut self) -> Result<u8, ScanError> {
        if self.left == 0 {
            return Err(ScanError::Malformed("a record is shorter than its fields"));
        }
        match self.stream.buffered()? {
            [byte, ..] => {
                let byte = *byte;
                self.stream.start += 1;
                self.left -= 1;
                Ok(byte)
            }
            [] => Err(ENDS_EARLY),
        }
    }

    fn skip(&mut self, count: usize) -> Result<(), ScanError> {
        self.pass(count, |_| Ok(()))
    }
}
