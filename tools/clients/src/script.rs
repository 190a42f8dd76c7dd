//! A client library behind the line protocol (`python/driver.py` describes it), in a process of its own.

use crate::client::{CODECS, Check, Client, Consume, Produce};
use crate::record::Record;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The longest that one request may take, retries of the library included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(180);

/// A running driver.
pub(crate) struct Script {
    name: String,
    bootstrap: String,
    abilities: Abilities,
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

/// What a library lacks.
#[derive(Clone, Copy)]
pub(crate) struct Abilities {
    pub(crate) codecs: &'static [&'static str],
    pub(crate) null_headers: bool,
    /// Records of a null key and a null value.
    pub(crate) bare_records: bool,
    /// Headers in their order, also when a name repeats further on.
    pub(crate) header_order: bool,
    pub(crate) consumes: bool,
}

impl Abilities {
    /// A library that lacks nothing.
    pub(crate) const ALL: Self = Self {
        codecs: &CODECS,
        null_headers: true,
        bare_records: true,
        header_order: true,
        consumes: true,
    };
}

impl Script {
    /// Starts the driver; what it logs goes to this process's stderr.
    pub(crate) fn start(
        name: &str,
        bootstrap: &str,
        abilities: Abilities,
        mut command: Command,
    ) -> Result<Self, String> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{name}: cannot start {command:?}: {error}"))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{name}: no pipes to the driver"));
        };
        let (sender, lines) = channel();
        // Ends with the driver's stdout, or with the receiver.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            name: name.to_owned(),
            bootstrap: bootstrap.to_owned(),
            abilities,
            child,
            stdin,
            lines,
        })
    }

    /// The process that runs the library.
    pub(crate) fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Sends one request and returns the lines of its answer.
    pub(crate) fn request(&mut self, head: &str, records: &[Record]) -> Result<Vec<String>, String> {
        self.ask(head, records)?;
        self.answer()
    }

    /// Sends one request; its answer comes behind those that were asked for before.
    pub(crate) fn ask(&mut self, head: &str, records: &[Record]) -> Result<(), String> {
        let mut text = format!("{head} bootstrap={} count={}\n", self.bootstrap, records.len());
        if records.is_empty() {
            text = format!("{head} bootstrap={}\n", self.bootstrap);
        }
        for record in records {
            text.push_str(&record.to_line());
            text.push('\n');
        }
        self.stdin
            .write_all(text.as_bytes())
            .map_err(|error| format!("{}: {error}", self.name))
    }

    /// The lines of the next answer.
    pub(crate) fn answer(&mut self) -> Result<Vec<String>, String> {
        let first = self.line()?;
        let count = match first.split_once(' ') {
            Some(("ok", count)) => count.parse::<usize>().map_err(|error| error.to_string())?,
            Some(("error", text)) => return Err(format!("{}: {text}", self.name)),
            _ => return Err(format!("{} answered {first:.100}", self.name)),
        };
        (0..count).map(|_| self.line()).collect()
    }

    fn line(&self) -> Result<String, String> {
        self.lines
            .recv_timeout(REQUEST_TIMEOUT)
            .map_err(|error| format!("{} did not answer: {error}", self.name))
    }
}

impl Client for Script {
    fn name(&self) -> &str {
        &self.name
    }

    fn codecs(&self) -> &[&'static str] {
        self.abilities.codecs
    }

    fn can_write(&self, record: &Record) -> bool {
        let nulls = record.headers.iter().any(|(_, value)| value.is_none());
        let bare = record.key.is_none() && record.value.is_none();
        // An object of JavaScript keeps headers by name.
        (self.abilities.null_headers || !nulls)
            && (self.abilities.bare_records || !bare)
            && (self.abilities.header_order || record.grouped() == *record)
    }

    fn can_consume(&self) -> bool {
        self.abilities.consumes
    }

    fn produce(&mut self, how: &Produce<'_>, records: &[Record]) -> Result<Vec<i64>, String> {
        let Produce {
            topic,
            codec,
            acks,
            idempotent,
        } = how;
        let head = format!("produce topic={topic} codec={codec} acks={acks} idempotent={idempotent}");
        let offsets = self.request(&head, records)?;
        offsets
            .iter()
            .map(|line| line.parse().map_err(|_| format!("not an offset: {line}")))
            .collect()
    }

    fn consume(&mut self, what: &Consume<'_>) -> Result<Vec<Record>, String> {
        let Consume {
            topic,
            partition,
            from,
            count,
            fetch_max,
        } = what;
        let mut head = format!("consume topic={topic} partition={partition} from={from} count={count}");
        if let Some(bytes) = fetch_max {
            head.push_str(&format!(" fetch_max={bytes}"));
        }
        self.request(&head, &[])?
            .iter()
            .map(|line| Record::parse(line))
            .collect()
    }

    fn admin(&mut self, topic: &str) -> Option<Result<Vec<Check>, String>> {
        let lines = match self.request(&format!("admin topic={topic}"), &[]) {
            Ok(lines) => lines,
            Err(error) => return Some(Err(error)),
        };
        let check = |line: &String| match line.split_once(' ') {
            Some(("pass", name)) => (name.to_owned(), Ok(())),
            _ => (
                line.trim_start_matches("fail ").to_owned(),
                Err("failed".to_owned()),
            ),
        };
        Some(Ok(lines.iter().map(check).collect()))
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // Already gone is as good; and the drivers hold nothing that a kill could harm.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
