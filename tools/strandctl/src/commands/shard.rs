//! `shard pause | stop | start ID`: one broker of a node on this machine fails, or comes back, while its process lives.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::Serialize;

use crate::cli::{ShardArgs, ShardCommand};
use crate::failure::Failure;
use crate::output::Output;

/// Broker ids of one node; the first is its id times this.
const BROKERS_PER_NODE: u32 = 1_000;
/// The node's socket, in its first data directory.
const SOCKET: &str = "operations.sock";
/// The node itself gives up sooner.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Serialize)]
struct Done {
    shard: u32,
    state: &'static str,
}

/// `strandctl shard ...`
pub fn run(command: &ShardCommand, output: &mut Output) -> Result<(), Failure> {
    let (verb, state, args) = match command {
        ShardCommand::Pause(args) => ("pause", "paused", args),
        ShardCommand::Stop(args) => ("stop", "stopped", args),
        ShardCommand::Start(args) => ("start", "serving", args),
    };
    let shard = args.id % BROKERS_PER_NODE;
    let answer = ask(args, &format!("shard {verb} {shard}\n"))?;
    match answer.trim_end().split_once(' ') {
        None if answer == "ok\n" => {}
        Some(("error", reason)) => return Err(Failure::Failed(format!("shard {shard}: {reason}"))),
        _ => return Err(Failure::Failed("the node ended before it answered".to_owned())),
    }
    if output.is_json() {
        return output.json(&Done { shard, state });
    }
    output.line(format_args!("shard {shard} is {state}"))
}

fn ask(args: &ShardArgs, line: &str) -> Result<String, Failure> {
    let path = args.data_dir.join(SOCKET);
    let failed = |source| Failure::local(path.display().to_string(), source);
    let mut stream = match UnixStream::connect(&path) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            return Err(Failure::Failed(format!(
                "no node runs on {}: name its first data directory by --data-dir",
                args.data_dir.display()
            )));
        }
        Err(error) => return Err(failed(error)),
    };
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.write_all(line.as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(failed)?;
    Ok(answer)
}
