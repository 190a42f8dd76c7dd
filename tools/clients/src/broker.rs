//! A broker as a child process.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tempfile::TempDir;

/// The longest that a start or a clean stop may take on a busy machine.
const LIFE_TIMEOUT: Duration = Duration::from_secs(60);
/// How much of the log a failure shows.
const LOG_TAIL_BYTES: usize = 4000;

/// What most suites want of a broker.
pub(crate) const USUAL: [&str; 5] = [
    // Some suites look for records of the year 2023 by their times: retention would delete them meanwhile.
    "log.initial.task.delay.ms=86400000",
    // Sessions of the consumer protocol are the broker's to say: short enough for a test that kills a member.
    "group.consumer.min.session.timeout.ms=6000",
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.min.heartbeat.interval.ms=500",
    "group.consumer.heartbeat.interval.ms=500",
];

/// A running broker on free ports of loopback, with a data folder of its own.
pub(crate) struct Broker {
    program: PathBuf,
    settings: Vec<String>,
    child: Option<Child>,
    process_id: u32,
    folder: TempDir,
    log: PathBuf,
    addresses: Vec<String>,
    http: String,
    /// The `ready:` line of a process that was just started.
    ready: Option<Receiver<String>>,
}

impl Broker {
    /// Starts `program` with `shards` shards and waits for its `ready:` line. The data folder is made inside
    /// `scratch`.
    pub(crate) fn start(program: &Path, scratch: &Path, shards: usize) -> Result<Self, String> {
        Self::start_set(program, scratch, shards, &USUAL)
    }

    /// The same, with these settings.
    pub(crate) fn start_set(
        program: &Path,
        scratch: &Path,
        shards: usize,
        settings: &[&str],
    ) -> Result<Self, String> {
        let mut broker = Self::prepare(program, scratch, settings)?;
        broker.launch("0", shards)?;
        Ok(broker)
    }

    /// One that is to be started.
    pub(crate) fn prepare(program: &Path, scratch: &Path, settings: &[&str]) -> Result<Self, String> {
        let folder = tempfile::Builder::new()
            .prefix("node-")
            .tempdir_in(scratch)
            .map_err(|error| error.to_string())?;
        let log = folder.path().join("log");
        Ok(Self {
            program: program.to_owned(),
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
            child: None,
            process_id: 0,
            folder,
            log,
            addresses: Vec::new(),
            http: String::new(),
            ready: None,
        })
    }

    fn launch(&mut self, port: &str, shards: usize) -> Result<(), String> {
        self.spawn(port, shards)?;
        self.wait_until_ready(shards)
    }

    /// Starts the process: a node of several is ready only once others run.
    pub(crate) fn spawn(&mut self, port: &str, shards: usize) -> Result<(), String> {
        let stderr = File::options().create(true).append(true).open(&self.log);
        let stderr = stderr.map_err(|error| error.to_string())?;
        let mut child = Command::new(&self.program)
            .arg("--data-dir")
            .arg(self.folder.path().join("data"))
            .args([
                "--port",
                port,
                "--http-port",
                "0",
                "--shards",
                &shards.to_string(),
            ])
            .args(
                self.settings
                    .iter()
                    .flat_map(|setting| ["--set", setting.as_str()]),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", self.program.display()))?;
        self.ready = child.stdout.take().map(ready_line);
        self.process_id = child.id();
        self.child = Some(child);
        Ok(())
    }

    /// Waits for the `ready:` line of the process that was started.
    pub(crate) fn wait_until_ready(&mut self, shards: usize) -> Result<(), String> {
        let ready = self.ready.take();
        let line = ready.and_then(|ready| ready.recv_timeout(LIFE_TIMEOUT).ok());
        let Some(line) = line else {
            return Err(format!("the broker did not become ready\n{}", self.log_tail()));
        };
        self.addresses = addresses(&line);
        self.http = http(&line).unwrap_or_default().to_owned();
        if self.addresses.len() != shards {
            return Err(format!("{shards} shards, but the broker printed `{line}`"));
        }
        Ok(())
    }

    /// kill -9, and another start at the same address; for a node of one shard, whose ports need not be in a row.
    pub(crate) fn die_and_return(&mut self) -> Result<(), String> {
        self.die()?;
        self.come_back()
    }

    /// kill -9.
    pub(crate) fn die(&mut self) -> Result<(), String> {
        if let Some(mut child) = self.child.take() {
            child.kill().map_err(|error| error.to_string())?;
            child.wait().map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Another start at the same address, of a node of one shard.
    pub(crate) fn come_back(&mut self) -> Result<(), String> {
        let port = match self.addresses.as_slice() {
            [address] => address.rsplit(':').next().unwrap_or_default().to_owned(),
            _ => return Err("only a node of one shard returns to its address".to_owned()),
        };
        self.launch(&port, 1)
    }

    /// Whether it was started and neither stopped nor killed.
    pub(crate) fn runs(&self) -> bool {
        self.child.is_some()
    }

    /// The addresses of its shards, `host:port`, as a bootstrap list.
    pub(crate) fn bootstrap(&self) -> String {
        self.addresses.join(",")
    }

    /// Where it serves HTTP, `host:port`.
    pub(crate) fn http(&self) -> &str {
        &self.http
    }

    /// Its process id.
    pub(crate) fn process_id(&self) -> u32 {
        self.process_id
    }

    /// The folder with its data.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Asks it to stop and expects exit code 0; its data stays until this value is dropped.
    pub(crate) fn stop(&mut self) -> Result<(), String> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Err(format!("the broker died: {status}\n{}", self.log_tail()));
        }
        let id = child.id();
        signal("-TERM", id)?;
        let (sender, ended) = channel();
        std::thread::spawn(move || sender.send(child.wait()));
        match ended.recv_timeout(LIFE_TIMEOUT) {
            Ok(Ok(status)) if status.code() == Some(0) => Ok(()),
            Ok(status) => Err(format!(
                "SIGTERM ended the broker with {status:?}\n{}",
                self.log_tail()
            )),
            Err(_) => {
                signal("-KILL", id)?;
                Err(format!("SIGTERM did not end the broker\n{}", self.log_tail()))
            }
        }
    }

    /// The end of its log.
    pub(crate) fn log_tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&text[text.len().saturating_sub(LOG_TAIL_BYTES)..]).into_owned()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Only after a failure; already gone is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Sends a signal, as `kill` names it.
pub(crate) fn signal(name: &str, process_id: u32) -> Result<(), String> {
    let status = Command::new("kill")
        .args([name, &process_id.to_string()])
        .status();
    status
        .map(drop)
        .map_err(|error| format!("cannot run kill: {error}"))
}

/// Waits for the `ready:` line on a thread of its own, which goes on draining the pipe.
fn ready_line(stdout: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if line.starts_with("ready:") {
                // Nobody waits any more after a timeout.
                let _ = sender.send(line);
            }
        }
    });
    receiver
}

/// The addresses of the shards in `ready: node N, LISTENER host:port ..., HTTP host:port`.
fn addresses(line: &str) -> Vec<String> {
    let line = line.split_once(", HTTP").map_or(line, |(shards, _)| shards);
    let words = line.split(|character: char| character.is_whitespace() || character == ',');
    let address = |word: &&str| word.parse::<std::net::SocketAddr>().is_ok();
    words.filter(address).map(str::to_owned).collect()
}

/// The address of HTTP in that line.
fn http(line: &str) -> Option<&str> {
    line.split_once(", HTTP ").map(|(_, address)| address.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_the_ready_line() {
        let line = "ready: node 1, PLAINTEXT 127.0.0.1:9092 [::1]:9093, HTTP 127.0.0.1:9091";
        assert_eq!(addresses(line), ["127.0.0.1:9092", "[::1]:9093"]);
        assert_eq!(http(line), Some("127.0.0.1:9091"));
    }
}
