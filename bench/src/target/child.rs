//! A broker as a child process, with its data under the run's folder: never in memory, never outliving the run.

use crate::direct_io::in_memory_file_system;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a broker may take until it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// How long it may take to stop in order before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// How often to look whether it has stopped.
const STOP_POLL: Duration = Duration::from_millis(5);

/// The start of the line on stdout that says the broker serves, and where.
const READY: &str = "ready:";

/// Lines of its log to show when it does not start.
const LOG_LINES_SHOWN: usize = 10;

/// Which broker to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ChildKind {
    /// The project's broker.
    Strandline,
    /// The reference broker without a journal: what client and network can do.
    Null,
    /// The reference broker with its journal: the floor of a durable acknowledgement.
    NullDurable,
}

impl ChildKind {
    /// What reports call it.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Strandline => "Strandline",
            Self::Null => "the reference broker without a journal",
            Self::NullDurable => "the reference broker with its journal",
        }
    }
}

/// How to start it.
#[derive(Clone, Debug)]
pub struct ChildOptions {
    /// Which.
    pub kind: ChildKind,
    /// The `strandline` executable, when it is not beside this one.
    pub binary: Option<PathBuf>,
    /// More arguments for it.
    pub arguments: Vec<String>,
    /// The folder for its data and its log.
    pub directory: PathBuf,
}

/// The children that run, for [`terminate_children`].
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Asks every child of this process to stop, for an exit that unwinds nothing.
pub fn terminate_children() {
    for pid in RUNNING.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // One that is gone needs nothing.
        let _ = terminate(pid);
    }
}

fn terminate(pid: u32) -> io::Result<()> {
    match Pid::from_raw(pid as i32) {
        Some(pid) => Ok(kill_process(pid, Signal::TERM)?),
        None => Ok(()),
    }
}

/// A running child; dropping it stops it.
#[derive(Debug)]
pub struct ChildBroker {
    child: Child,
    addresses: Vec<String>,
    data: PathBuf,
}

impl ChildBroker {
    /// Starts a broker and waits until it is ready. The error is a sentence to print.
    pub fn start(options: &ChildOptions) -> Result<Self, String> {
        let data = options.directory.join("data");
        fs::create_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
        match in_memory_file_system(&data) {
            Ok(None) => {}
            Ok(Some(kind)) => {
                return Err(format!(
                    "{} is on {kind}: a durable broker has nothing to flush there; choose a folder on a disk with --output",
                    data.display()
                ));
            }
            Err(error) => return Err(format!("{}: {error}", data.display())),
        }
        let log_path = options.directory.join("broker.log");
        let log = File::create(&log_path).map_err(|error| format!("{}: {error}", log_path.display()))?;
        let mut command = command(options, &data)?;
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            // A group of its own: Ctrl-C in the terminal ends the run, and the run ends the broker.
            .process_group(0)
            .args(&options.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        RUNNING
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(child.id());
        let stdout = child.stdout.take();
        // From here on the child is stopped whatever happens.
        let mut broker = Self {
            child,
            addresses: Vec::new(),
            data,
        };
        let lines = stdout.map(read_lines).ok_or("the child has no stdout")?;
        broker.addresses = broker.wait_until_ready(&lines).map_err(|error| {
            let log = fs::read_to_string(&log_path).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n  ");
            format!("{program}: {error}; its log ends:\n  {last}")
        })?;
        Ok(broker)
    }

    fn wait_until_ready(&mut self, lines: &mpsc::Receiver<String>) -> Result<Vec<String>, String> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if let Some(rest) = line.strip_prefix(READY) {
                        let addresses = addresses(rest);
                        let none = || format!("`{line}` names no address");
                        return if addresses.is_empty() {
                            Err(none())
                        } else {
                            Ok(addresses)
                        };
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Err("not ready after 60 s".to_owned()),
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self
                        .child
                        .wait()
                        .map_or_else(|error| error.to_string(), |status| status.to_string());
                    return Err(format!("ended before it was ready ({status})"));
                }
            }
        }
    }

    /// Its addresses, as a list of bootstrap servers.
    pub fn bootstrap(&self) -> String {
        self.addresses.join(",")
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops it in order and removes its data.
    pub fn stop(mut self) -> io::Result<()> {
        self.terminate()?;
        fs::remove_dir_all(&self.data)
    }

    fn terminate(&mut self) -> io::Result<()> {
        // From here on its id may be given to another process: it is not one of ours any more.
        RUNNING
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|pid| *pid != self.child.id());
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        terminate(self.child.id())?;
        let deadline = Instant::now() + STOP_TIMEOUT;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                eprintln!("the broker did not stop within 30 s and is killed");
                self.child.kill()?;
                self.child.wait()?;
                break;
            }
            std::thread::sleep(STOP_POLL);
        }
        Ok(())
    }
}

impl Drop for ChildBroker {
    fn drop(&mut self) {
        if let Err(error) = self.terminate() {
            eprintln!("stopping the broker (pid {}): {error}", self.child.id());
        }
    }
}

fn command(options: &ChildOptions, data: &Path) -> Result<Command, String> {
    let own = std::env::current_exe().map_err(|error| format!("where this program lies: {error}"))?;
    let mut command = match options.kind {
        ChildKind::Strandline => {
            let binary = match &options.binary {
                Some(binary) => binary.clone(),
                None => {
                    build_beside(&own)?;
                    own.with_file_name("strandline")
                }
            };
            if !binary.is_file() {
                return Err(format!(
                    "no broker at {}: build it with `cargo build --release`, or name one with --broker-binary or a running one with --bootstrap-server",
                    binary.display()
                ));
            }
            let mut command = Command::new(binary);
            command.args(["--host", "127.0.0.1", "--http-port", "0"]);
            command
        }
        ChildKind::Null | ChildKind::NullDurable => {
            let mut command = Command::new(own);
            command.arg("null-broker");
            if options.kind == ChildKind::NullDurable {
                command.arg("--durable");
            }
            command
        }
    };
    command.args(["--port", "0"]).arg("--data-dir").arg(data);
    Ok(command)
}

/// Builds the broker when this program was started by `cargo run` in its own tree, which builds only this one.
fn build_beside(own: &Path) -> Result<(), String> {
    let this = Path::new(env!("CARGO_MANIFEST_DIR"));
    let by_cargo = std::env::var_os("CARGO_MANIFEST_DIR").is_some_and(|folder| Path::new(&folder) == this);
    let (Some(cargo), true, Some(profile)) = (std::env::var_os("CARGO"), by_cargo, own.parent()) else {
        return Ok(());
    };
    let (Some(target), Some(name)) = (profile.parent(), profile.file_name()) else {
        return Ok(());
    };
    let mut command = Command::new(cargo);
    command
        .args([
            "build",
            "--quiet",
            "--package",
            "strandline",
            "--bin",
            "strandline",
        ])
        .arg("--manifest-path")
        .arg(this.with_file_name("Cargo.toml"))
        .arg("--target-dir")
        .arg(target);
    match name.to_str() {
        Some("debug") => {}
        Some(release) => {
            command.args(["--profile", release]);
        }
        None => return Ok(()),
    }
    if !profile.join("strandline").is_file() {
        eprintln!("building the broker; this takes some minutes, once");
    }
    let status = command.status().map_err(|error| format!("cargo: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("cargo could not build the broker ({status})"))
    }
}

/// Reads on to the end, so that the child never blocks on a full pipe.
fn read_lines(stdout: std::process::ChildStdout) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // Once ready nobody listens any more; reading goes on all the same.
            let _ = sender.send(line);
        }
    });
    lines
}

/// The `host:port` words of a ready line, up to the first word that says it speaks of something else (the HTTP endpoint).
fn addresses(rest: &str) -> Vec<String> {
    rest.split([' ', ',', ';'])
        .take_while(|word| !word.to_ascii_lowercase().starts_with("http"))
        .map(|word| word.trim_matches(|c: char| matches!(c, '(' | ')' | '.')))
        .filter(|word| {
            word.rsplit_once(':')
                .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        })
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_whatever_stands_around_them() {
        assert_eq!(
            addresses(" 127.0.0.1:9092 127.0.0.1:9093"),
            ["127.0.0.1:9092", "127.0.0.1:9093"]
        );
        assert_eq!(
            addresses(" node 1 serves 127.0.0.1:1, [::1]:2; http 127.0.0.1:9091"),
            ["127.0.0.1:1", "[::1]:2"]
        );
        assert!(addresses(" soon").is_empty());
    }
}
