//! In a terminal a run has a view that fills it; however the run ends, the terminal is as it was.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

use pty_process::blocking::{Command, open};
use rustix::termios::{LocalModes, Termios, tcgetattr};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use strandline_bench::cli::{self, Command as Cli};
use strandline_bench::live::Live;

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
const SHOW_CURSOR: &str = "\x1b[?25h";

/// What the program left on a terminal of its own.
struct Session {
    text: String,
    status: ExitStatus,
    before: Termios,
    after: Termios,
}

/// Runs the program in a terminal; types `keys` once `typed_at` has been shown.
fn in_a_terminal(arguments: &[&str], typed_at: &str, keys: &[u8]) -> Session {
    let command = Command::new(env!("CARGO_BIN_EXE_strandline-bench")).args(arguments);
    spawn_in_a_terminal(command, typed_at, keys)
}

fn spawn_in_a_terminal(command: Command, typed_at: &str, keys: &[u8]) -> Session {
    let (mut pty, pts) = open().unwrap();
    pty.resize(pty_process::Size::new(40, 120)).unwrap();
    let before = tcgetattr(&pty).unwrap();
    let mut child = command.env("TERM", "xterm").spawn(pts).unwrap();
    let mut text = Vec::new();
    let mut typed = keys.is_empty();
    let mut chunk = [0; 4096];
    // The read fails once the last process has closed the terminal.
    while let Ok(read) = pty.read(&mut chunk) {
        if read == 0 {
            break;
        }
        text.extend_from_slice(&chunk[..read]);
        if !typed && String::from_utf8_lossy(&text).contains(typed_at) {
            pty.write_all(keys).unwrap();
            typed = true;
        }
    }
    let status = child.wait().unwrap();
    let after = tcgetattr(&pty).unwrap();
    Session {
        text: String::from_utf8_lossy(&text).into_owned(),
        status,
        before,
        after,
    }
}

impl Session {
    /// Asserts that the view came and went, and that nothing is left of it; returns what stands on the screen below.
    #[track_caller]
    fn below(&self) -> &str {
        let (_, rest) = self.text.split_once(ENTER).expect("the view took the terminal");
        let (view, below) = rest.rsplit_once(LEAVE).expect("the view gave it back");
        assert!(!view.contains(LEAVE) && !below.contains(ENTER), "once");
        assert!(view.contains(SHOW_CURSOR), "the cursor is seen again");
        assert_eq!(
            format!("{:?}", self.after.local_modes),
            format!("{:?}", self.before.local_modes)
        );
        assert!(
            self.after
                .local_modes
                .contains(LocalModes::ECHO | LocalModes::ICANON)
        );
        assert_eq!(
            format!("{:?}", self.after.special_codes),
            format!("{:?}", self.before.special_codes)
        );
        below
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn path(folder: &Path) -> String {
    folder.join("run").display().to_string()
}

#[test]
fn after_a_run_the_report_stands_on_the_screen_before() {
    let folder = folder();
    let output = path(folder.path());
    let options = ["run", "--broker", "null", "--rate", "1k", "--warm-up", "0"];
    let rest = ["--duration", "1500ms", "--output", &output];
    let session = in_a_terminal(&[&options[..], &rest].concat(), "", b"");
    let below = session.below();
    assert!(
        below.contains("VALID") && below.contains("report.html"),
        "{below}"
    );
    // VALID, or a machine too busy for a thousand records a second.
    assert!(matches!(session.status.code(), Some(0 | 3)), "{}", session.text);
    // Cells are drawn one by one where little changes, so only what is drawn at once can be looked for.
    for shown in ["strandline-bench:", "target", "durable"] {
        assert!(session.text.contains(shown), "{shown}");
    }
}

#[test]
fn ctrl_c_ends_the_view_and_keeps_the_result() {
    let folder = folder();
    let output = path(folder.path());
    let options = ["run", "--broker", "null", "--rate", "1k", "--duration", "1h"];
    let session = in_a_terminal(
        &[&options[..], &["--output", &output]].concat(),
        "acknowledged",
        b"\x03",
    );
    let below = session.below();
    assert!(
        below.contains("INVALID") && below.contains("interrupted"),
        "{below}"
    );
    assert_eq!(session.status.code(), Some(3));
    assert!(folder.path().join("run/report.html").is_file());
}

#[test]
fn an_error_is_printed_on_the_screen_before() {
    let folder = folder();
    let output = path(folder.path());
    let missing = folder.path().join("no-such-broker").display().to_string();
    let session = in_a_terminal(
        &["run", "--broker-binary", &missing, "--output", &output],
        "",
        b"",
    );
    assert!(session.below().contains("no broker at"), "{}", session.text);
    assert_eq!(session.status.code(), Some(1));
}

/// Set in the process that panics while the view is on.
const PANICS: &str = "STRANDLINE_BENCH_TEST_PANICS";

/// A thread that panics in the middle of a run: its message is to be read, and on a terminal that works.
#[test]
fn a_panic_gives_the_terminal_back_first() {
    if std::env::var_os(PANICS).is_some() {
        let Cli::Run(args) = cli::parse(["strandline-bench", "run"]).unwrap().command else {
            unreachable!("the command is run")
        };
        let _live = Live::start(&args, &["the run"]);
        std::thread::spawn(|| panic!("a panic on purpose"))
            .join()
            .unwrap();
        return;
    }
    let command = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_panic_gives_the_terminal_back_first", "--nocapture"])
        .env(PANICS, "1");
    let session = spawn_in_a_terminal(command, "", b"");
    assert!(session.below().contains("a panic on purpose"), "{}", session.text);
    assert!(!session.status.success());
}

#[test]
fn without_a_terminal_or_when_told_lines_are_plain() {
    let folder = folder();
    let output = path(folder.path());
    let options = ["run", "--broker", "null", "--rate", "1k", "--warm-up", "0"];
    let rest = ["--duration", "2500ms", "--output", &output];
    let plain = std::process::Command::new(env!("CARGO_BIN_EXE_strandline-bench"))
        .args(options)
        .args(rest)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = in_a_terminal(&[&options[..], &rest, &["--no-tui"]].concat(), "", b"");
    let stderr = String::from_utf8(plain.stderr).unwrap();
    for text in [&stderr, &told.text] {
        assert!(!text.contains(ENTER), "{text}");
        assert!(
            text.contains("measuring") && text.contains("records/s acknowledged"),
            "{text}"
        );
    }
    assert!(!stderr.contains('\x1b'), "{stderr}");
}
