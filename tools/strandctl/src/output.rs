//! Printing: JSON or aligned text on stdout.

use std::borrow::Cow;
use std::io::{self, BufWriter, StdoutLock, Write};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::Serialize;
use uuid::Uuid;

use crate::failure::Failure;

/// Where a command's answer goes.
pub struct Output {
    json: bool,
    out: BufWriter<StdoutLock<'static>>,
}

impl Output {
    /// Locks stdout for the life of the command.
    pub fn stdout(json: bool) -> Self {
        Self {
            json,
            out: BufWriter::with_capacity(64 * 1024, io::stdout().lock()),
        }
    }

    /// True when the user asked for JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Prints one JSON value on a line of its own.
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.out, value).map_err(|error| Failure::stdout(error.into()))?;
        self.raw(|out| out.write_all(b"\n"))
    }

    /// Prints a line of text.
    pub fn line(&mut self, text: impl std::fmt::Display) -> Result<(), Failure> {
        self.raw(|out| writeln!(out, "{text}"))
    }

    /// Writes bytes as they are.
    pub fn raw(
        &mut self,
        write: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>,
    ) -> Result<(), Failure> {
        write(&mut self.out).map_err(Failure::stdout)
    }

    /// Prints rows in aligned columns under a heading.
    pub fn table<const N: usize>(&mut self, heading: [&str; N], rows: &[[String; N]]) -> Result<(), Failure> {
        let text = render_table(heading, rows);
        self.raw(|out| out.write_all(text.as_bytes()))
    }

    /// Sends everything printed so far.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::stdout)
    }
}

fn render_table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = heading.map(|title| title.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let mut push = |cells: [&str; N]| {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(cells) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    };
    push(heading);
    for row in rows {
        push(row.each_ref().map(String::as_str));
    }
    text
}

/// The text of a field, or its Base64 form where it is not UTF-8.
pub fn text_or_base64(bytes: Option<&[u8]>) -> Result<Option<&str>, String> {
    match bytes {
        None => Ok(None),
        Some(bytes) => std::str::from_utf8(bytes)
            .map(Some)
            .map_err(|_| STANDARD.encode(bytes)),
    }
}

/// A topic id in the form of Kafka's tools: 22 characters of URL-safe Base64.
pub fn topic_id_text(id: Uuid) -> String {
    URL_SAFE_NO_PAD.encode(id.as_bytes())
}

/// A name that others chose, as it may be printed: quoted where it is empty, or has control characters or blanks at its ends.
pub fn printable(name: &str) -> Cow<'_, str> {
    if name.is_empty() || name.trim() != name || name.chars().any(char::is_control) {
        Cow::Owned(format!("{name:?}"))
    } else {
        Cow::Borrowed(name)
    }
}

/// Numbers separated by commas.
pub fn join(ids: &[i32]) -> String {
    ids.iter().map(i32::to_string).collect::<Vec<_>>().join(",")
}

/// `1 record`, `2 records`.
pub fn count(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_trailing_blanks() {
        let rows = [
            ["a".to_owned(), "1".to_owned()],
            ["longer".to_owned(), String::new()],
        ];
        assert_eq!(
            render_table(["NAME", "N"], &rows),
            "NAME    N\na       1\nlonger\n"
        );
    }

    #[test]
    fn a_name_cannot_break_a_line() {
        assert_eq!(printable("a name"), "a name");
        assert_eq!(printable("a\nb\u{1b}[2J"), "\"a\\nb\\u{1b}[2J\"");
        assert_eq!(printable(""), "\"\"");
        assert_eq!(printable(" a"), "\" a\"");
    }

    #[test]
    fn topic_ids_look_as_in_kafkas_tools() {
        assert_eq!(topic_id_text(Uuid::from_u128(0)), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(
            topic_id_text(Uuid::from_u128(u128::MAX)),
            "_____________________w"
        );
    }
}
