//! What a node refuses: one clear line on stderr, exit 2, and nothing touched.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// One shard with as little memory as it may have, on free ports.
const SMALL: [&str; 10] = [
    "--data-dir",
    "data",
    "--shards",
    "1",
    "--port",
    "0",
    "--http-port",
    "0",
    "--set",
    "strandline.memory.bytes=33554432",
];

fn strandline(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strandline"));
    command
        .env_clear()
        .current_dir(directory)
        .args(arguments)
        .stdin(Stdio::null());
    command
}

fn run(directory: &Path, arguments: &[&str]) -> Output {
    strandline(directory, arguments).output().unwrap()
}

/// Starts a node that gets ready.
fn served(directory: &Path, arguments: &[&str]) -> Child {
    let mut child = strandline(directory, arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut seen = Vec::new();
    let mut byte = [0];
    while byte != *b"\n" && stdout.read(&mut byte).unwrap() == 1 {
        seen.extend(byte);
    }
    assert!(seen.starts_with(b"ready: "), "{}", String::from_utf8_lossy(&seen));
    child
}

fn stop(mut child: Child) {
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Exit code 2, nothing on stdout, and one line on stderr that tells an error, which is given back.
fn refused(directory: &Path, arguments: &[&str]) -> String {
    let output = run(directory, arguments);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(output.stdout.is_empty());
    assert!(!stderr.contains("ERROR"), "{stderr}");
    let lines: Vec<&str> = stderr
        .lines()
        .filter(|line| line.starts_with("strandline: "))
        .collect();
    assert_eq!(lines.len(), 1, "{stderr}");
    assert!(stderr.ends_with(&format!("{}\n", lines[0])), "{stderr}");
    lines[0].to_owned()
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn bad_keys_and_values() {
    let root = tempfile::tempdir().unwrap();
    for (arguments, text) in [
        (
            &["--set", "num.partition=1"][..],
            "did you mean 'num.partitions'?",
        ),
        (
            &["--set", "num.partitions=none"],
            "invalid value 'none' for 'num.partitions'",
        ),
        (&["--set", "num.partitions"], "write it as KEY=VALUE"),
        (
            &["--set", "authorizer.class.name=x.Y"],
            "access control is not served yet",
        ),
        (&["--set", "ssl.keystore.location=/k"], "TLS is not served yet"),
        (&["--set", "listeners=SASL_SSL://127.0.0.1:0"], "PLAINTEXT only"),
        (&["--host", "0.0.0.0"], "set 'advertised.listeners'"),
        (&["--host", "no-such-host.invalid"], "does not resolve"),
        (&["--node-id", "2147483"], "from 0 to 2147482"),
        (&["--shards", "0"], "from 1 to 999"),
        (&["--port", "65535", "--shards", "4"], "end at 65535"),
        (
            &["--set", "strandline.memory.bytes=1000000"],
            "raise 'strandline.memory.bytes'",
        ),
        (&["--config", "missing.properties"], "cannot be read"),
    ] {
        let line = refused(root.path(), arguments);
        assert!(line.contains(text), "{arguments:?}: {line}");
    }
    assert!(is_empty(root.path()), "nothing was touched");
    let unknown_flag = run(root.path(), &["--no-such-flag"]);
    assert_eq!(unknown_flag.status.code(), Some(2));
}

#[test]
fn a_file_names_itself_and_its_line() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("bad.toml"), "\"num.partitions\" = \n").unwrap();
    assert!(refused(root.path(), &["--config", "bad.toml"]).contains("bad.toml: "));
    fs::write(
        root.path().join("server.properties"),
        "zookeeper.connect=localhost:2181\n",
    )
    .unwrap();
    let line = refused(root.path(), &["--config", "server.properties"]);
    assert!(
        line.contains("server.properties: unknown key 'zookeeper.connect': ZooKeeper is not used"),
        "{line}"
    );
}

#[test]
fn a_port_in_use_is_named() {
    let root = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let small = [
        "--data-dir",
        "data",
        "--shards",
        "1",
        "--set",
        "strandline.memory.bytes=33554432",
    ];
    let line = refused(
        root.path(),
        &[&small[..], &["--port", &port, "--http-port", "0"]].concat(),
    );
    assert!(
        line.contains(&format!("127.0.0.1:{port}")) && line.contains("in use"),
        "{line}"
    );
    let line = refused(
        root.path(),
        &[&small[..], &["--port", "0", "--http-port", &port]].concat(),
    );
    assert!(line.contains("HTTP cannot listen"), "{line}");
    assert!(is_empty(root.path()), "nothing was left behind");

    // A check says so, too, and is none the less one of the configuration.
    let checked = run(
        root.path(),
        &[
            &small[..],
            &["--port", &port, "--http-port", "0", "--check-config"],
        ]
        .concat(),
    );
    assert_eq!(checked.status.code(), Some(0));
    let stderr = String::from_utf8(checked.stderr).unwrap();
    assert!(
        stderr.contains(&format!("127.0.0.1:{port}")) && stderr.contains("a start would fail now"),
        "{stderr}"
    );
    assert!(is_empty(root.path()));
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let root = tempfile::tempdir().unwrap();
    for (arguments, parts) in [
        (
            &["--set", "num.partitions=none", "--set", "num.partition=1"][..],
            ["did you mean 'num.partitions'?", "invalid value 'none'"],
        ),
        (
            &[
                "--set",
                "strandline.memory.bytes=1000000",
                "--set",
                "process.roles=broker",
            ],
            ["'process.roles' must be", "raise 'strandline.memory.bytes'"],
        ),
    ] {
        let output = run(root.path(), arguments);
        assert_eq!(output.status.code(), Some(2));
        let stderr = String::from_utf8(output.stderr).unwrap();
        let lines: Vec<&str> = stderr.lines().collect();
        assert_eq!(lines.len(), 2, "{stderr}");
        for (line, part) in lines.iter().zip(parts) {
            assert!(
                line.starts_with("strandline: ") && line.contains(part),
                "{stderr}"
            );
        }
    }
    assert!(is_empty(root.path()));
}

#[test]
fn a_directory_that_cannot_be_written_is_named_and_no_other_is_touched() {
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::write(root.path().join("file"), b"").unwrap();
    let both = [
        "--set",
        "log.dirs=first,file/second",
        "--port",
        "0",
        "--http-port",
        "0",
    ];
    for arguments in [&both[..], &[&both[..], &["--check-config"]].concat()] {
        let line = refused(root.path(), arguments);
        assert!(
            line.contains("file/second") && line.contains("not a directory"),
            "{line}"
        );
    }
    assert_eq!(
        fs::read_dir(root.path()).unwrap().count(),
        1,
        "the first one was not made"
    );
}

#[test]
fn directories_that_are_not_this_nodes() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("file"), b"").unwrap();
    assert!(refused(root.path(), &["--data-dir", "file"]).contains("not a directory"));
    fs::create_dir(root.path().join("newer")).unwrap();
    fs::write(root.path().join("newer/node.toml"), "format = 99\n").unwrap();
    assert!(refused(root.path(), &["--data-dir", "newer"]).contains("start the newer version again"));
    fs::create_dir_all(root.path().join("orphan/shard-0")).unwrap();
    assert!(refused(root.path(), &["--data-dir", "orphan"]).contains("its node.toml is gone"));
    assert_eq!(
        fs::read_dir(root.path().join("newer")).unwrap().count(),
        1,
        "nothing was touched"
    );
}

/// Every shard but the first one that failed logged an error of its own before the last line.
/// The folders of two shards changed places, as after a careless restore.
#[test]
fn shard_folders_that_changed_places() {
    let root = tempfile::tempdir().unwrap();
    let arguments: Vec<&str> = SMALL
        .iter()
        .map(|argument| match *argument {
            "1" => "2",
            "strandline.memory.bytes=33554432" => "strandline.memory.bytes=67108864",
            other => other,
        })
        .collect();
    stop(served(root.path(), &arguments));
    let data = root.path().join("data");
    let swap = || {
        fs::rename(data.join("shard-0"), data.join("aside")).unwrap();
        fs::rename(data.join("shard-1"), data.join("shard-0")).unwrap();
        fs::rename(data.join("aside"), data.join("shard-1")).unwrap();
    };
    swap();
    let line = refused(root.path(), &arguments);
    assert!(line.contains("shard-0: it is the folder of shard 1"), "{line}");
    swap();
    stop(served(root.path(), &arguments));
}

#[test]
fn shards_that_cannot_start_are_told_in_one_line() {
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let three = [
        "--data-dir",
        "data",
        "--shards",
        "3",
        "--port",
        "0",
        "--http-port",
        "0",
        "--set",
        "strandline.memory.bytes=100663296",
    ];
    stop(served(root.path(), &three));
    for shard in 0..3 {
        for slot in 0..2 {
            fs::remove_file(root.path().join(format!("data/shard-{shard}/checkpoint-{slot}"))).unwrap();
        }
    }
    assert!(refused(root.path(), &three).contains("holds no store"));
}

/// What the start would refuse for the configuration alone, `--check-config` refuses too.
#[test]
fn a_checked_configuration_starts() {
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let near = "listeners=PLAINTEXT://127.0.0.1:29092,B://127.0.0.1:29093";
    for (arguments, text) in [
        (
            &["--set", "strandline.journal.bytes=524287"][..],
            "'strandline.journal.bytes': it must be at least 524288",
        ),
        (
            &[
                "--shards",
                "2",
                "--set",
                near,
                "--set",
                "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,B:PLAINTEXT",
            ],
            "PLAINTEXT and B both need port 29093",
        ),
        (
            &["--shards", "2", "--port", "29092", "--http-port", "29093"],
            "PLAINTEXT and HTTP both need port 29093",
        ),
        (
            &[
                "--shards",
                "2",
                "--set",
                "advertised.listeners=PLAINTEXT://h:65535",
            ],
            "end at 65535",
        ),
    ] {
        let line = refused(root.path(), &[arguments, &["--check-config"]].concat());
        assert!(line.contains(text), "{arguments:?}: {line}");
    }
    let limits = [
        "--set",
        "strandline.journal.bytes=524288",
        "--set",
        "strandline.shard.io.memory.bytes=4194304",
        "--set",
        "strandline.shard.ring.depth=32",
    ];
    let least = [&SMALL[..], &limits].concat();
    let checked = run(root.path(), &[&least[..], &["--check-config"]].concat());
    assert_eq!(checked.status.code(), Some(0));
    stop(served(root.path(), &least));
}

/// Too few descriptors were found out by a panic, or once a shard could not open a segment.
#[test]
fn too_few_descriptors() {
    let root = tempfile::tempdir().unwrap();
    let shell = format!(
        "ulimit -n 64; exec {} --data-dir data",
        env!("CARGO_BIN_EXE_strandline")
    );
    let output = Command::new("sh")
        .args(["-c", &shell])
        .env_clear()
        .current_dir(root.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.starts_with("strandline: ") && stderr.contains("ulimit -n"),
        "{stderr}"
    );
    assert!(is_empty(root.path()), "nothing was touched");
}

#[test]
fn a_directory_without_direct_io() {
    let shm = Path::new("/dev/shm");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    if !mounts
        .lines()
        .any(|line| line.contains(" /dev/shm ") && line.contains(" - tmpfs "))
    {
        return;
    }
    let directory = shm.join(format!("strandline-test-{}", std::process::id()));
    let line = refused(shm, &["--data-dir", directory.to_str().unwrap()]);
    assert!(line.contains("no direct I/O"), "{line}");
    assert!(!directory.exists());
}

#[test]
fn checking_and_printing_touch_nothing() {
    let root = tempfile::tempdir().unwrap();
    let checked = run(root.path(), &["--check-config", "--set", "num.network.threads=9"]);
    assert_eq!(checked.status.code(), Some(0));
    assert_eq!(checked.stdout, b"the configuration is good\n");
    assert!(
        String::from_utf8(checked.stderr)
            .unwrap()
            .contains("'num.network.threads' has no effect")
    );

    let mut command = strandline(root.path(), &["--print-config"]);
    let printed = command
        .env("STRANDLINE_NUM_PARTITIONS", "7")
        .env("STRANDLINE_SERVICE_HOST", "10.0.0.1");
    let printed = printed.output().unwrap();
    assert_eq!(printed.status.code(), Some(0));
    let page = String::from_utf8(printed.stdout).unwrap();
    assert!(
        page.contains("# STRANDLINE_NUM_PARTITIONS\nnum.partitions=7\n"),
        "{page}"
    );
    assert!(
        page.contains("# default\nflush.messages=1\n") || page.contains("log.flush.interval.messages=1\n")
    );
    assert!(is_empty(root.path()));
    // What was printed is a configuration.
    fs::write(root.path().join("printed.properties"), page).unwrap();
    let again = run(root.path(), &["--config", "printed.properties", "--check-config"]);
    assert_eq!(
        again.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&again.stderr)
    );
}

#[test]
fn a_second_process_is_refused_and_the_first_stops_cleanly() {
    let root = tempfile::tempdir().unwrap();
    let first = served(root.path(), &SMALL);
    assert!(refused(root.path(), &SMALL).contains("another process has it open"));
    let other_node = [&SMALL[..], &["--node-id", "2"]].concat();
    assert!(refused(root.path(), &other_node).contains("it belongs to node 1"));
    stop(first);
}
