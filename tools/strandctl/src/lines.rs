//! Lines of stdin, read on a thread of their own so that a batch can leave while no line comes.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// A longer line is refused: far above any broker's `message.max.bytes`, far below this machine's memory.
const LINE_MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Lines that are read ahead.
const LINES_AHEAD: usize = 128;

/// How a line becomes a record.
#[derive(Debug, Default)]
pub struct LineShape {
    /// What stands between key and value; a line without it is all value.
    pub key_separator: Option<Vec<u8>>,
    /// Empty keys and values become null.
    pub null_empty: bool,
}

/// A line as a record.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// What stands before the separator.
    pub key: Option<Vec<u8>>,
    /// The rest.
    pub value: Option<Vec<u8>>,
}

impl Line {
    /// Bytes of key and value.
    pub fn size(&self) -> usize {
        self.key.as_ref().map_or(0, Vec::len) + self.value.as_ref().map_or(0, Vec::len)
    }
}

impl LineShape {
    /// Splits a line, which has no newline any more.
    pub fn split(&self, mut line: Vec<u8>) -> Line {
        let not_empty = |bytes: &Vec<u8>| !(self.null_empty && bytes.is_empty());
        let separator = self.key_separator.as_deref().unwrap_or_default();
        let position = match separator {
            [] => None,
            separator => line
                .windows(separator.len())
                .position(|window| window == separator),
        };
        let (key, value) = match position {
            None => (None, line),
            Some(position) => {
                let value = line.split_off(position + separator.len());
                line.truncate(position);
                (Some(line), value)
            }
        };
        Line {
            key: key.filter(not_empty),
            value: Some(value).filter(not_empty),
        }
    }
}

/// Starts reading stdin. The channel ends with the input, after an error as its last item if there was one.
pub fn spawn_reader(shape: LineShape) -> Receiver<io::Result<Line>> {
    let (sender, receiver) = sync_channel(LINES_AHEAD);
    thread::spawn(move || {
        let input = BufReader::with_capacity(256 * 1024, io::stdin().lock());
        if let Err(error) = read_lines(input, LINE_MAX_BYTES, &shape, &sender) {
            // Nobody listens any more when this fails, and then nobody wants to know.
            let _ = sender.send(Err(error));
        }
    });
    receiver
}

fn read_lines(
    mut input: impl BufRead,
    line_max_bytes: u64,
    shape: &LineShape,
    sender: &SyncSender<io::Result<Line>>,
) -> io::Result<()> {
    loop {
        let mut line = Vec::new();
        (&mut input).take(line_max_bytes).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(());
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() as u64 == line_max_bytes {
            let text = format!("a line is longer than {line_max_bytes} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        if sender.send(Ok(shape.split(line))).is_err() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &[u8], line_max_bytes: u64, shape: &LineShape) -> (Vec<Line>, io::Result<()>) {
        let (sender, receiver) = sync_channel(100);
        let result = read_lines(input, line_max_bytes, shape, &sender);
        drop(sender);
        (receiver.into_iter().map(Result::unwrap).collect(), result)
    }

    fn line(key: Option<&str>, value: Option<&str>) -> Line {
        let bytes = |text: &str| text.as_bytes().to_vec();
        Line {
            key: key.map(bytes),
            value: value.map(bytes),
        }
    }

    #[test]
    fn lines_end_at_newlines_and_the_last_needs_none() {
        let (lines, result) = read(b"a\n\nb\r\nc", 100, &LineShape::default());
        assert!(result.is_ok());
        assert_eq!(
            lines,
            [
                line(None, Some("a")),
                line(None, Some("")),
                line(None, Some("b\r")),
                line(None, Some("c"))
            ]
        );
        assert_eq!(read(b"", 100, &LineShape::default()).0, []);
    }

    #[test]
    fn the_first_separator_splits_and_a_line_without_one_has_no_key() {
        let shape = LineShape {
            key_separator: Some(b"::".to_vec()),
            null_empty: false,
        };
        let (lines, _) = read(b"k::v::w\nplain\n::v\nk::\n", 100, &shape);
        assert_eq!(
            lines,
            [
                line(Some("k"), Some("v::w")),
                line(None, Some("plain")),
                line(Some(""), Some("v")),
                line(Some("k"), Some(""))
            ]
        );
    }

    #[test]
    fn empty_becomes_null_when_asked() {
        let shape = LineShape {
            key_separator: Some(b":".to_vec()),
            null_empty: true,
        };
        let (lines, _) = read(b"k:\n:v\n\n", 100, &shape);
        assert_eq!(
            lines,
            [line(Some("k"), None), line(None, Some("v")), line(None, None)]
        );
    }

    #[test]
    fn a_line_beyond_the_limit_is_an_error_after_those_before_it() {
        let (lines, result) = read(b"ab\nabcdef\n", 4, &LineShape::default());
        assert_eq!(lines, [line(None, Some("ab"))]);
        assert!(result.is_err());
    }
}
