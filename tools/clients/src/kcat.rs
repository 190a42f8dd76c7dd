//! kcat of Debian: librdkafka 2.0.2, older than the fixes that newer clients hide behind.

use crate::client::{CODECS, Check, Client, Consume, Produce};
use crate::record::Record;
use std::io::Write;
use std::process::{Command, Stdio};

/// kcat takes a field of the line as null (with `-Z`) or as empty, never both in one run; and it sets no
/// timestamps.
pub(crate) struct Kcat {
    bootstrap: String,
}

/// What ends a record in kcat's output: no key, value or header of the suites holds it.
const END: char = '\u{1e}';

impl Kcat {
    /// A client of the broker at `bootstrap`.
    pub(crate) fn new(bootstrap: &str) -> Self {
        Self {
            bootstrap: bootstrap.to_owned(),
        }
    }

    fn command(&self, mode: &str, topic: &str, partition: i64) -> Command {
        let mut command = Command::new("timeout");
        command.args([
            "60",
            "kcat",
            "-q",
            mode,
            "-b",
            &self.bootstrap,
            "-t",
            topic,
            "-p",
            &partition.to_string(),
        ]);
        command
    }

    fn write(&self, how: &Produce<'_>, kind: &Kind, records: &[Record]) -> Result<(), String> {
        let mut command = self.command("-P", how.topic, records[0].place);
        command.args(["-z", how.codec, "-X", &format!("acks={}", how.acks)]);
        command.args([
            "-X",
            &format!("enable.idempotence={}", how.idempotent),
            "-X",
            "message.max.bytes=10000000",
        ]);
        if kind.keyed {
            command.args(["-K", "\t"]);
        }
        if kind.nulls {
            command.arg("-Z");
        }
        for (name, value) in &records[0].headers {
            let value = value
                .as_deref()
                .map(|value| format!("={}", String::from_utf8_lossy(value)));
            command
                .arg("-H")
                .arg(format!("{name}{}", value.unwrap_or_default()));
        }
        let mut input = Vec::new();
        for record in records {
            if kind.keyed {
                input.extend_from_slice(record.key.as_deref().unwrap_or_default());
                input.push(b'\t');
            }
            input.extend_from_slice(record.value.as_deref().unwrap_or_default());
            input.push(b'\n');
        }
        run(command, &input).map(drop)
    }
}

/// How a record must be handed to kcat.
#[derive(PartialEq, Eq)]
struct Kind {
    keyed: bool,
    nulls: bool,
}

/// `None` for what kcat cannot express.
fn kind(record: &Record) -> Option<Kind> {
    let null = |field: &Option<Vec<u8>>| field.is_none();
    let empty = |field: &Option<Vec<u8>>| field.as_ref().is_some_and(Vec::is_empty);
    let plain = |field: &Option<Vec<u8>>| field.iter().flatten().all(|byte| (b' '..0x7f).contains(byte));
    if record.timestamp >= 0 || !plain(&record.key) || !plain(&record.value) {
        return None;
    }
    match (null(&record.key), null(&record.value)) {
        (true, false) if !empty(&record.value) => Some(Kind {
            keyed: false,
            nulls: false,
        }),
        (false, false) => Some(Kind {
            keyed: true,
            nulls: false,
        }),
        (_, true) if !empty(&record.key) => Some(Kind {
            keyed: true,
            nulls: true,
        }),
        _ => None,
    }
}

fn run(mut command: Command, input: &[u8]) -> Result<Vec<u8>, String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input).map_err(|error| error.to_string())?;
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!("{}: {complaint}", output.status))
    }
}

impl Client for Kcat {
    fn name(&self) -> &str {
        "kcat"
    }

    fn codecs(&self) -> &[&'static str] {
        &CODECS
    }

    fn can_write(&self, record: &Record) -> bool {
        kind(record).is_some()
    }

    fn produce(&mut self, how: &Produce<'_>, records: &[Record]) -> Result<Vec<i64>, String> {
        // Records that need the same options go in one run.
        let same = |one: &Record, other: &Record| {
            kind(one) == kind(other) && (one.place, &one.headers) == (other.place, &other.headers)
        };
        for run in records.chunk_by(same) {
            let kind = kind(&run[0]).ok_or("kcat cannot write this record")?;
            self.write(how, &kind, run)?;
        }
        Ok(vec![-1; records.len()])
    }

    fn consume(&mut self, what: &Consume<'_>) -> Result<Vec<Record>, String> {
        let mut command = self.command("-C", what.topic, i64::from(what.partition));
        command.args(["-o", &what.from.to_string(), "-c", &what.count.to_string()]);
        if let Some(bytes) = what.fetch_max {
            command.args(["-X", "message.max.bytes=1000", "-X", "fetch.max.bytes=1000"]);
            command.args(["-X", &format!("max.partition.fetch.bytes={bytes}")]);
        }
        command.args(["-f", &format!("%o %T %K %S %h\n%k%s{END}")]);
        parse(&run(command, &[])?)
    }

    fn admin(&mut self, _topic: &str) -> Option<Result<Vec<Check>, String>> {
        let mut command = Command::new("timeout");
        command.args(["60", "kcat", "-b", &self.bootstrap, "-L", "-J"]);
        let listed = run(command, &[]).and_then(|text| {
            let good = text.starts_with(b"{") && String::from_utf8_lossy(&text).contains("\"brokers\"");
            if good {
                Ok(())
            } else {
                Err("no brokers listed".to_owned())
            }
        });
        Some(Ok(vec![("metadata listed".to_owned(), listed)]))
    }
}

/// Reads `offset timestamp key-length value-length headers`, a line end, the key, the value and [`END`].
fn parse(mut text: &[u8]) -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    while let Some(line_end) = text.iter().position(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(&text[..line_end]).into_owned();
        let bad = || format!("not kcat's output: {line:.100}");
        let words: Vec<&str> = line.splitn(5, ' ').collect();
        let [place, timestamp, key, value, headers] = words[..] else {
            return Err(bad());
        };
        let number = |word: &str| word.parse::<i64>().map_err(|_| bad());
        let mut rest = &text[line_end + 1..];
        let mut take = |length: i64| match usize::try_from(length) {
            Err(_) => Ok(None),
            Ok(length) => rest
                .split_at_checked(length)
                .ok_or_else(bad)
                .map(|(bytes, after)| {
                    rest = after;
                    Some(bytes.to_vec())
                }),
        };
        let (key, value) = (take(number(key)?)?, take(number(value)?)?);
        text = rest.strip_prefix(END.to_string().as_bytes()).ok_or_else(bad)?;
        let header = |word: &str| {
            let (name, value) = word.split_once('=')?;
            Some((
                name.to_owned(),
                (value != "NULL").then(|| value.as_bytes().to_vec()),
            ))
        };
        let headers = headers.split(',').filter_map(header).collect();
        records.push(Record {
            place: number(place)?,
            timestamp: number(timestamp)?,
            key,
            value,
            headers,
        });
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_parsed() {
        let text = "7 5 -1 2 a=NULL,b=,b=c\nv\n\u{1e}8 6 0 -1 \n\u{1e}";
        let first = Record::new(None, Some(b"v\n"))
            .header("a", None)
            .header("b", Some(b""))
            .header("b", Some(b"c"));
        assert_eq!(
            parse(text.as_bytes()).unwrap(),
            [
                first.partition(7).at(5),
                Record::new(Some(b""), None).partition(8).at(6)
            ]
        );
        assert!(parse(b"7 5 -1 9 \nv\x1e").is_err());
    }
}
