//! A broker as a child process, in a directory of its own.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tempfile::TempDir;

use super::client::Client;

const READY_MAX: Duration = Duration::from_secs(60);
const EXIT_MAX: Duration = Duration::from_secs(60);

pub struct Broker {
    directory: TempDir,
    arguments: Vec<String>,
    /// The processor that it shall keep to.
    processor: Option<String>,
    port: u16,
    child: Option<Child>,
    addresses: Vec<SocketAddr>,
    /// Of a process that is not ready yet; tests share brokers among threads.
    lines: Mutex<Option<mpsc::Receiver<String>>>,
    ready_line: String,
}

/// A small node: little memory, so that its bounds are met in a test.
const SMALL: [&str; 4] = [
    "--set",
    "strandline.memory.bytes=67108864",
    "--set",
    "strandline.disk.free.min.bytes=1048576",
];

impl Broker {
    /// One shard, everything else at its default.
    pub fn start() -> Self {
        Self::start_with(&["--shards", "1"])
    }

    /// One shard, with settings.
    pub fn start_set(settings: &[&str]) -> Self {
        let mut arguments = vec!["--shards", "1"];
        for setting in settings {
            arguments.extend(["--set", setting]);
        }
        Self::start_with(&arguments)
    }

    pub fn start_with(arguments: &[&str]) -> Self {
        Self::start_where(arguments, None)
    }

    /// All its threads on one processor.
    pub fn start_on_one_core(arguments: &[&str]) -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let mask = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
            .unwrap();
        let first = mask.trim().split([',', '-']).next().unwrap();
        Self::start_where(arguments, Some(first.to_owned()))
    }

    /// A node that does not run yet, with a directory of its own.
    pub fn prepare(arguments: &[&str]) -> Self {
        Self::prepare_where(arguments, None)
    }

    fn start_where(arguments: &[&str], processor: Option<String>) -> Self {
        let mut broker = Self::prepare_where(arguments, processor);
        broker.launch();
        broker
    }

    fn prepare_where(arguments: &[&str], processor: Option<String>) -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let arguments = SMALL
            .iter()
            .chain(arguments)
            .map(|argument| (*argument).to_owned())
            .collect();
        Self {
            directory,
            arguments,
            processor,
            port: 0,
            child: None,
            addresses: Vec::new(),
            lines: Mutex::default(),
            ready_line: String::new(),
        }
    }

    /// Another value of a key, from the next launch on.
    pub fn set(&mut self, setting: &str) {
        self.arguments.extend(["--set".to_owned(), setting.to_owned()]);
    }

    /// Launches return to the port that a node of one shard has now.
    pub fn keep_port(&mut self) {
        self.port = self.address().port();
    }

    /// Starts the process and waits for its ready line.
    pub fn launch(&mut self) {
        self.spawn();
        self.wait_until_ready();
    }

    /// Starts the process.
    pub fn spawn(&mut self) {
        assert!(self.child.is_none(), "the broker runs already");
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_path())
            .unwrap();
        let program = env!("CARGO_BIN_EXE_strandline");
        let mut command = match &self.processor {
            None => Command::new(program),
            Some(processor) => {
                let mut command = Command::new("taskset");
                command.args(["-c", processor, program]);
                command
            }
        };
        let mut child = command
            .args(["--port", &self.port.to_string(), "--http-port", "0", "--data-dir"])
            .arg(self.data_directory())
            .args(&self.arguments)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        self.child = Some(child);
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        self.lines = Mutex::new(Some(lines));
    }

    /// Waits for the ready line of a process that was started.
    pub fn wait_until_ready(&mut self) {
        let lines = self.lines.get_mut().unwrap().take();
        let lines = lines.expect("the broker was started");
        let end = Instant::now() + READY_MAX;
        loop {
            match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with("ready:") => {
                    self.addresses = kafka_addresses(&line);
                    self.ready_line = line;
                    return;
                }
                Ok(_) => {}
                Err(_) => panic!("the broker did not get ready:\n{}", self.log()),
            }
        }
    }

    pub fn ready_line(&self) -> &str {
        &self.ready_line
    }

    pub fn data_directory(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// What it logged so far.
    pub fn log(&self) -> String {
        let mut log = String::new();
        if let Ok(mut file) = std::fs::File::open(self.log_path()) {
            let _ = file.read_to_string(&mut log);
        }
        log
    }

    /// The addresses of its shards, in order.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// A connection to the first shard.
    pub fn client(&self) -> Client {
        Client::connect(self.address())
    }

    /// A connection to the shard with this broker id (of node 1).
    pub fn client_of(&self, broker_id: i32) -> Client {
        Client::connect(self.addresses[(broker_id % 1000) as usize])
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the broker runs").id()
    }

    /// Resident memory, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.memory_bytes("VmRSS:")
    }

    /// The most that was ever resident, in bytes.
    pub fn peak_resident_bytes(&self) -> u64 {
        self.memory_bytes("VmHWM:")
    }

    fn memory_bytes(&self, row: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(row)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
    }

    /// kill -9.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("the broker runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Asks it to stop, and waits for that.
    pub fn stop(&mut self) -> ExitStatus {
        let child = self.child.as_mut().expect("the broker runs");
        terminate(child);
        let (ended, end) = mpsc::channel();
        let pid = Pid::from_child(child);
        std::thread::spawn(move || {
            // It is left for `wait` to take: until then its id is no other process's.
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let _ = ended.send(());
        });
        if end.recv_timeout(EXIT_MAX).is_err() {
            // Ended when this value is dropped.
            panic!("the broker did not stop:\n{}", self.log());
        }
        let status = child.wait().unwrap();
        self.child = None;
        status
    }

    /// Whether it was started, and neither killed nor stopped.
    pub fn runs(&self) -> bool {
        self.child.is_some()
    }

    /// Starts it, which it refuses: its exit code, and the last line it logs.
    pub fn refused(&mut self) -> (Option<i32>, String) {
        self.spawn();
        let status = self.child.take().expect("it was started").wait().unwrap();
        let log = self.log();
        (status.code(), log.lines().last().unwrap_or_default().to_owned())
    }

    /// Whether the process still runs.
    pub fn is_running(&mut self) -> bool {
        self.child
            .as_mut()
            .is_some_and(|child| child.try_wait().unwrap().is_none())
    }
}

/// SIGTERM.
pub fn terminate(child: &Child) {
    kill_process(Pid::from_child(child), Signal::TERM).unwrap();
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- log of the broker ---\n{}", self.log());
        }
    }
}

/// The addresses of the Kafka listeners: everything of the form `host:port` before the HTTP address.
fn kafka_addresses(line: &str) -> Vec<SocketAddr> {
    line.split(|c: char| c.is_whitespace() || c == ',')
        .take_while(|word| !word.contains("HTTP"))
        .filter_map(|word| word.trim_end_matches([';', ')']).parse().ok())
        .collect()
}
