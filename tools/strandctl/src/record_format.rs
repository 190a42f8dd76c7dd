//! How `consume -f` prints a record: kcat's format tokens.

use std::io::{self, Write};

use crate::record::Record;

/// A parsed format.
#[derive(Debug, PartialEq, Eq)]
pub struct RecordFormat {
    tokens: Vec<Token>,
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Literal(Vec<u8>),
    Topic,
    Partition,
    Offset,
    Key,
    KeyLength,
    Value,
    ValueLength,
    ValueLengthBinary,
    Timestamp,
    Headers,
}

impl RecordFormat {
    /// Parses kcat's tokens; an unknown one is an error, not printed as it stands.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut tokens = Vec::new();
        let mut literal = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['%', '\\']) {
            literal.extend_from_slice(&rest.as_bytes()[..at]);
            if rest.as_bytes()[at] == b'\\' {
                let (bytes, length) = escape(&rest[at..])?;
                literal.push(bytes);
                rest = &rest[at + length..];
                continue;
            }
            let mut letters = rest[at + 1..].chars();
            let token = match letters.next() {
                Some('%') => {
                    literal.push(b'%');
                    rest = letters.as_str();
                    continue;
                }
                Some('t') => Token::Topic,
                Some('p') => Token::Partition,
                Some('o') => Token::Offset,
                Some('k') => Token::Key,
                Some('K') => Token::KeyLength,
                Some('s') => Token::Value,
                Some('S') => Token::ValueLength,
                Some('R') => Token::ValueLengthBinary,
                Some('T') => Token::Timestamp,
                Some('h') => Token::Headers,
                Some(other) => return Err(format!("`%{other}` is no format token")),
                None => {
                    return Err("the format ends in a single `%`: write `%%` for a percent sign".to_owned());
                }
            };
            if !literal.is_empty() {
                tokens.push(Token::Literal(std::mem::take(&mut literal)));
            }
            tokens.push(token);
            rest = letters.as_str();
        }
        literal.extend_from_slice(rest.as_bytes());
        if !literal.is_empty() {
            tokens.push(Token::Literal(literal));
        }
        Ok(Self { tokens })
    }

    /// Writes one record. Null prints as nothing; its length is -1.
    pub fn write(&self, out: &mut impl Write, record: &Record<'_>) -> io::Result<()> {
        for token in &self.tokens {
            match token {
                Token::Literal(bytes) => out.write_all(bytes)?,
                Token::Topic => out.write_all(record.topic.as_bytes())?,
                Token::Partition => write!(out, "{}", record.partition)?,
                Token::Offset => write!(out, "{}", record.offset)?,
                Token::Key => out.write_all(record.key.unwrap_or_default())?,
                Token::KeyLength => write!(out, "{}", length(record.key))?,
                Token::Value => out.write_all(record.value.unwrap_or_default())?,
                Token::ValueLength => write!(out, "{}", length(record.value))?,
                Token::ValueLengthBinary => {
                    // A record is far below 2 GiB: the wire's lengths are i32.
                    out.write_all(&(length(record.value) as i32).to_be_bytes())?;
                }
                Token::Timestamp => write!(out, "{}", record.timestamp_ms)?,
                Token::Headers => write_headers(out, record)?,
            }
        }
        Ok(())
    }
}

fn length(bytes: Option<&[u8]>) -> i64 {
    bytes.map_or(-1, |bytes| bytes.len() as i64)
}

/// `key=value,key=value`; a null value prints as `NULL`, as kcat does.
fn write_headers(out: &mut impl Write, record: &Record<'_>) -> io::Result<()> {
    for (position, (key, value)) in record.headers.iter().enumerate() {
        if position > 0 {
            out.write_all(b",")?;
        }
        out.write_all(key)?;
        out.write_all(b"=")?;
        out.write_all(value.unwrap_or(b"NULL"))?;
    }
    Ok(())
}

/// Text with the escapes of formats, for separators given on the command line.
pub fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let (byte, length) = escape(&rest[at..])?;
        bytes.push(byte);
        rest = &rest[at + length..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

/// The byte that an escape stands for, and how long the escape is; `text` starts at the backslash.
fn escape(text: &str) -> Result<(u8, usize), String> {
    match text.as_bytes().get(1) {
        Some(b'n') => Ok((b'\n', 2)),
        Some(b'r') => Ok((b'\r', 2)),
        Some(b't') => Ok((b'\t', 2)),
        Some(b'0') => Ok((0, 2)),
        Some(b'\\') => Ok((b'\\', 2)),
        Some(b'x') => text
            .get(2..4)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            .map(|byte| (byte, 4))
            .ok_or_else(|| "`\\x` takes two hexadecimal digits".to_owned()),
        _ => Err(format!(
            "`{}` is no escape: \\n \\r \\t \\0 \\\\ \\xHH",
            text.chars().take(2).collect::<String>()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(format: &str, record: &Record<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        RecordFormat::parse(format)
            .unwrap()
            .write(&mut out, record)
            .unwrap();
        out
    }

    fn record() -> Record<'static> {
        Record {
            topic: "orders",
            partition: 3,
            offset: 42,
            timestamp_ms: 1_700_000_000_123,
            log_append_time: false,
            key: Some(b"k1"),
            value: Some(b"value"),
            headers: vec![(b"a", Some(b"1")), (b"a", Some(b"2")), (b"b", None)],
        }
    }

    #[test]
    fn every_token_prints() {
        let line = print(r"%t[%p]@%o %T %k(%K)=%s(%S) {%h} 100%%\t\x41\n", &record());
        assert_eq!(
            line,
            b"orders[3]@42 1700000000123 k1(2)=value(5) {a=1,a=2,b=NULL} 100%\tA\n"
        );
        assert_eq!(print("%R%s", &record()), b"\0\0\0\x05value");
    }

    #[test]
    fn null_is_empty_and_its_length_is_minus_one() {
        let record = Record {
            key: None,
            value: None,
            headers: Vec::new(),
            ..record()
        };
        assert_eq!(print("<%k|%K|%s|%S|%h>", &record), b"<|-1||-1|>");
        assert_eq!(print("%R", &record), [0xff; 4]);
    }

    #[test]
    fn bytes_pass_unchanged_and_text_may_be_unicode() {
        let record = Record {
            value: Some(b"\xff\x00\xfe"),
            ..record()
        };
        assert_eq!(print("→%s←", &record), b"\xe2\x86\x92\xff\x00\xfe\xe2\x86\x90");
    }

    #[test]
    fn mistakes_are_refused() {
        for format in ["%", "%q", "%é", r"\", r"\q", r"\x4", r"\xzz", r"\x4é"] {
            assert!(RecordFormat::parse(format).is_err(), "{format}");
        }
    }

    #[test]
    fn separators_take_the_same_escapes() {
        assert_eq!(unescape(r"\t").unwrap(), b"\t");
        assert_eq!(unescape(r"a\x3a\\").unwrap(), b"a:\\");
        assert!(unescape(r"\y").is_err());
    }
}
