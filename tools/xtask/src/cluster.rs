//! `cargo xtask cluster`: a cluster of several nodes on this machine, to try things with.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use super::tree;

const NODES_MAX: u32 = 9;

struct Options {
    nodes: u32,
    shards: u32,
    release: bool,
    directory: PathBuf,
    sets: Vec<String>,
}

struct Node {
    number: u32,
    child: Child,
    output: BufReader<ChildStdout>,
}

/// Starts the nodes, prints where they are, and waits for their end: Ctrl-C stops them all.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let options = parse(words)?;
    build(options.release)?;
    let ports = free_ports(options.nodes)?;
    let voters: Vec<String> = (1..)
        .zip(&ports)
        .map(|(node, port)| format!("{node}@127.0.0.1:{port}"))
        .collect();
    let voters = voters.join(",");
    let mut nodes = Vec::new();
    for number in 1..=options.nodes {
        nodes.push(start(&options, number, &voters)?);
    }
    let mut addresses = Vec::new();
    for node in &mut nodes {
        addresses.extend(wait_until_ready(node)?);
    }
    println!(
        "the data is in {}; Ctrl-C stops all nodes",
        options.directory.display()
    );
    println!("bootstrap servers: {}", addresses.join(","));
    for mut node in nodes {
        let status = node
            .child
            .wait()
            .map_err(|error| format!("node {}: {error}", node.number))?;
        println!("node {} ended: {status}", node.number);
    }
    Ok(())
}

fn parse(words: &[&str]) -> Result<Options, String> {
    let mut options = Options {
        nodes: 3,
        shards: 1,
        release: false,
        directory: tree::root().join("target").join("cluster"),
        sets: Vec::new(),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: &str| text.parse::<u32>().map_err(|_| format!("'{text}' is no number"));
        match *word {
            "--nodes" => options.nodes = number(value()?)?,
            "--shards" => options.shards = number(value()?)?,
            "--dir" => options.directory = PathBuf::from(value()?),
            "--set" => options.sets.push((*value()?).to_owned()),
            "--release" => options.release = true,
            other => return Err(format!("unknown option {other}")),
        }
    }
    if !(2..=NODES_MAX).contains(&options.nodes) {
        return Err(format!("--nodes is from 2 to {NODES_MAX}"));
    }
    Ok(options)
}

fn build(release: bool) -> Result<(), String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "-p", "strandline"]);
    if release {
        cargo.arg("--release");
    }
    let status = cargo.status().map_err(|error| format!("cargo: {error}"))?;
    status
        .success()
        .then_some(())
        .ok_or_else(|| "the build failed".to_owned())
}

/// Ports that were free a moment ago. Voters are named before they run, so the system cannot choose later.
fn free_ports(count: u32) -> Result<Vec<u16>, String> {
    let listeners: Result<Vec<_>, _> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
    let listeners = listeners.map_err(|error| error.to_string())?;
    let ports = listeners
        .iter()
        .map(|listener| listener.local_addr().map(|address| address.port()));
    ports.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

fn start(options: &Options, number: u32, voters: &str) -> Result<Node, String> {
    let profile = if options.release { "release" } else { "debug" };
    let program = target_directory()?.join(profile).join("strandline");
    let directory = options.directory.join(format!("node-{number}"));
    std::fs::create_dir_all(&options.directory).map_err(|error| error.to_string())?;
    let log = options.directory.join(format!("node-{number}.log"));
    let log = std::fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let mut command = Command::new(&program);
    command
        .args([
            "--node-id",
            &number.to_string(),
            "--shards",
            &options.shards.to_string(),
        ])
        .args(["--port", "0", "--http-port", "0", "--data-dir"])
        .arg(&directory)
        .args(["--set", &format!("controller.quorum.voters={voters}")]);
    for set in &options.sets {
        command.args(["--set", set]);
    }
    let spawned = command.stdout(Stdio::piped()).stderr(log).spawn();
    let mut child = spawned.map_err(|error| format!("{}: {error}", program.display()))?;
    let output = child.stdout.take().ok_or("a node without output")?;
    Ok(Node {
        number,
        child,
        output: BufReader::new(output),
    })
}

fn target_directory() -> Result<PathBuf, String> {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => Ok(PathBuf::from(directory)),
        None => Ok(tree::root().join("target")),
    }
}

/// The addresses for clients of a node's ready line, which is printed as well.
fn wait_until_ready(node: &mut Node) -> Result<Vec<String>, String> {
    let mut line = String::new();
    while node
        .output
        .read_line(&mut line)
        .map_err(|error| error.to_string())?
        > 0
    {
        if let Some(rest) = line.trim_end().strip_prefix("ready: ") {
            println!("{rest}");
            return Ok(client_addresses(rest));
        }
        line.clear();
    }
    Err(format!(
        "node {} ended before it was ready: see its log",
        node.number
    ))
}

fn client_addresses(ready: &str) -> Vec<String> {
    let listener = ready.split(", ").find_map(|part| part.strip_prefix("PLAINTEXT "));
    listener
        .unwrap_or_default()
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_off_the_ready_line() {
        let line = "node 1, PLAINTEXT 127.0.0.1:1 127.0.0.1:2, HTTP 127.0.0.1:3";
        assert_eq!(client_addresses(line), ["127.0.0.1:1", "127.0.0.1:2"]);
    }

    #[test]
    fn options_are_checked() {
        assert_eq!(parse(&["--nodes", "5"]).map(|options| options.nodes), Ok(5));
        for words in [
            &["--nodes", "1"][..],
            &["--nodes"],
            &["--nodes", "x"],
            &["--what"],
        ] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
