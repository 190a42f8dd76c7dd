//! `shard pause | stop | start` says one line to the node of a data directory, and tells its answer.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::thread;

use crate::support::strandctl;

/// Runs `shard <arguments>` against a node that answers with `answer`; what it was told, and what came of it.
fn told(arguments: &[&str], answer: &'static str) -> (String, crate::support::Run) {
    let directory = tempfile::tempdir().unwrap();
    let node = UnixListener::bind(directory.path().join("operations.sock")).unwrap();
    let node = thread::spawn(move || {
        let (mut stream, _) = node.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
        line
    });
    let path = directory.path().to_str().unwrap();
    let all = [&["shard"], arguments, &["--data-dir", path]].concat();
    let run = strandctl("127.0.0.1:1", &all, "");
    (node.join().unwrap(), run)
}

#[test]
fn a_shard_is_named_by_its_number_or_as_a_broker() {
    for (arguments, line, shown) in [
        (["stop", "2"], "shard stop 2\n", "shard 2 is stopped\n"),
        (["pause", "1001"], "shard pause 1\n", "shard 1 is paused\n"),
        (["start", "0"], "shard start 0\n", "shard 0 is serving\n"),
    ] {
        let (told, run) = told(&arguments, "ok\n");
        assert_eq!(told, line);
        assert_eq!(run.succeeded().stdout, shown);
    }
    let (_, run) = told(&["stop", "1", "--json"], "ok\n");
    assert_eq!(
        run.succeeded().json(),
        [serde_json::json!({"shard": 1, "state": "stopped"})]
    );
}

#[test]
fn a_refusal_is_told() {
    let (_, run) = told(&["stop", "7"], "error the node has no such shard\n");
    assert_eq!(run.code, 1);
    assert!(
        run.stderr.contains("shard 7: the node has no such shard"),
        "{}",
        run.stderr
    );
    let (_, run) = told(&["stop", "1"], "");
    assert_eq!(run.code, 1);
    assert!(
        run.stderr.contains("the node ended before it answered"),
        "{}",
        run.stderr
    );
    let empty = tempfile::tempdir().unwrap();
    let arguments = ["shard", "stop", "1", "--data-dir", empty.path().to_str().unwrap()];
    let run = strandctl("127.0.0.1:1", &arguments, "");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("no node runs on"), "{}", run.stderr);
}
