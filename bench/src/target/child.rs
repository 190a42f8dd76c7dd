//! A broker as a child process, with its data under the run's folder: never in memory, never outliving the run.

use crate::direct_io::in_memory_file_system;
use crate::live::say;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
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

/// How often to look for ports when somebody else takes those that were free.
const PORT_ATTEMPTS: u32 = 5;

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
    /// Whether it will be killed and started again, on the same ports.
    pub comes_again: bool,
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
    /// `None` while it is dead.
    child: Option<Child>,
    addresses: Vec<String>,
    data: PathBuf,
    options: ChildOptions,
    /// The port of its first listener; 0 for any.
    port: u16,
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
        // From here on a child is stopped whatever happens.
        let mut broker = Self {
            child: None,
            addresses: Vec::new(),
            data,
            options: options.clone(),
            port: 0,
        };
        let log = broker.log_path();
        File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        if options.comes_again {
            broker.start_on_ports_of_its_own()?;
        } else {
            broker.spawn()?;
        }
        Ok(broker)
    }

    fn log_path(&self) -> PathBuf {
        self.options.directory.join("broker.log")
    }

    /// Starts on ports that were free a moment ago; other ones when somebody was faster.
    fn start_on_ports_of_its_own(&mut self) -> Result<(), String> {
        let mut last = String::new();
        for _ in 0..PORT_ATTEMPTS {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
            self.port = free.map_err(|error| format!("no free port: {error}"))?.port();
            match self.spawn() {
                Ok(()) => return Ok(()),
                Err(error) => last = error,
            }
            self.terminate().map_err(|error| error.to_string())?;
        }
        Err(last)
    }

    /// Starts the process on its data and waits until it is ready.
    fn spawn(&mut self) -> Result<(), String> {
        let log_path = self.log_path();
        let log = File::options()
            .append(true)
            .open(&log_path)
            .map_err(|error| format!("{}: {error}", log_path.display()))?;
        let mut command = command(&self.options, &self.data, self.port)?;
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            // A group of its own: Ctrl-C in the terminal ends the run, and the run ends the broker.
            .process_group(0)
            .args(&self.options.arguments)
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
        self.child = Some(child);
        let lines = stdout.map(read_lines).ok_or("the child has no stdout")?;
        self.addresses = self.wait_until_ready(&lines).map_err(|error| {
            let log = fs::read_to_string(&log_path).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n  ");
            format!("{program}: {error}; its log ends:\n  {last}")
        })?;
        Ok(())
    }

    /// Kills it, as a crash does: nothing is written any more.
    pub fn kill(&mut self) -> io::Result<()> {
        if let Some(mut child) = self.child.take() {
            forget(child.id());
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Starts it again after [`Self::kill`], on its data and its ports.
    pub fn start_again(&mut self) -> Result<(), String> {
        self.spawn()
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
                    let status = match &mut self.child {
                        Some(child) => child
                            .wait()
                            .map_or_else(|error| error.to_string(), |status| status.to_string()),
                        None => "gone".to_owned(),
                    };
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
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Stops it in order and removes its data.
    pub fn stop(&mut self) -> io::Result<()> {
        self.terminate()?;
        fs::remove_dir_all(&self.data)
    }

    fn terminate(&mut self) -> io::Result<()> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        forget(child.id());
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        terminate(child.id())?;
        let deadline = Instant::now() + STOP_TIMEOUT;
        while child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                say("the broker did not stop within 30 s and is killed");
                child.kill()?;
                child.wait()?;
                break;
            }
            std::thread::sleep(STOP_POLL);
        }
        Ok(())
    }
}

/// From here on its id may be given to another process: it is not one of ours any more.
fn forget(pid: u32) {
    RUNNING
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .retain(|running| *running != pid);
}

impl Drop for ChildBroker {
    fn drop(&mut self) {
        if let Err(error) = self.terminate() {
            say(format!("stopping the broker: {error}"));
        }
    }
}

fn command(options: &ChildOptions, data: &Path, port: u16) -> Result<Command, String> {
    let own = std::env::current_exe().map_err(|error| format!("where this program lies: {error}"))?;
    let mut command = match options.kind {
        ChildKind::Strandline => {
            let binary = match &options.binary {
                Some(binary) => binary.clone(),
                None => own.with_file_name("strandline"),
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
    command
        .args(["--port", &port.to_string()])
        .arg("--data-dir")
        .arg(data);
    Ok(command)
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
