//! `cluster status | add | replace | remove`: the nodes that keep the cluster's metadata.

use std::time::{Duration, Instant};

use serde::Serialize;
use strandline_wire::ErrorCode;

use crate::cli::ReplaceArgs;
use crate::client::quorum::{Quorum, QuorumMember};
use crate::client::{Client, ClientError};
use crate::client_config::ClientConfig;
use crate::confirm::confirm;
use crate::failure::Failure;
use crate::output::Output;

/// Broker ids of one node; the first is its id times this.
const BROKERS_PER_NODE: i32 = 1_000;
/// How long a node that was let in has to show up.
const ARRIVAL_MAX: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(300);

#[derive(Serialize)]
struct Status {
    leader: i32,
    epoch: i32,
    high_watermark: i64,
    /// How many voters may be lost before nothing can be changed.
    may_lose: usize,
    nodes: Vec<NodeStatus>,
}

#[derive(Serialize)]
struct NodeStatus {
    node: i32,
    role: &'static str,
    controller: Option<String>,
    /// Where the shards of other nodes reach its own, by number.
    links: Vec<String>,
    directory: String,
    log_end: Option<i64>,
}

/// `strandctl cluster status`
pub fn status(config: &ClientConfig, output: &mut Output) -> Result<(), Failure> {
    let quorum = Client::connect(config)?.describe_quorum()?;
    let voters = quorum.members.iter().filter(|member| member.votes).count();
    let node = |member: &QuorumMember| NodeStatus {
        node: member.node,
        role: match member.votes {
            true if member.node == quorum.leader => "leader",
            true => "voter",
            false => "learner",
        },
        controller: member.address.clone(),
        links: member.links.clone(),
        directory: member.directory.to_string(),
        log_end: member.log_end,
    };
    let status = Status {
        leader: quorum.leader,
        epoch: quorum.epoch,
        high_watermark: quorum.high_watermark,
        may_lose: voters.saturating_sub(1) / 2,
        nodes: quorum.members.iter().map(node).collect(),
    };
    if output.is_json() {
        return output.json(&status);
    }
    output.line(format_args!(
        "leader {}  epoch {}  high watermark {}  voters {voters}, of which {} may be lost",
        status.leader, status.epoch, status.high_watermark, status.may_lose
    ))?;
    let row = |node: &NodeStatus| {
        let unknown = || "-".to_owned();
        [
            node.node.to_string(),
            node.role.to_owned(),
            node.controller.clone().unwrap_or_else(unknown),
            match node.links.is_empty() {
                true => unknown(),
                false => node.links.join(" "),
            },
            node.log_end.map_or_else(unknown, |end| end.to_string()),
            node.directory.clone(),
        ]
    };
    let rows: Vec<_> = status.nodes.iter().map(row).collect();
    output.table(
        ["NODE", "ROLE", "CONTROLLER", "LINKS", "LOG END", "DIRECTORY"],
        &rows,
    )
}

/// `strandctl cluster add ID`
pub fn add(config: &ClientConfig, node: i32, output: &mut Output) -> Result<(), Failure> {
    let mut client = Client::connect(config)?;
    let learner = arrived(&mut client, node, ARRIVAL_MAX)?;
    already(client.add_voter(&learner), ErrorCode::DuplicateVoter)?;
    output.line(format_args!("node {node} votes"))
}

/// `strandctl cluster remove ID`
pub fn remove(config: &ClientConfig, node: i32, output: &mut Output) -> Result<(), Failure> {
    let mut client = Client::connect(config)?;
    let known: Vec<_> = of_node(&client.describe_quorum()?, node);
    if known.is_empty() {
        return Err(Failure::Failed(format!("the quorum knows no node {node}")));
    }
    for member in &known {
        already(client.remove_voter(member), ErrorCode::VoterNotFound)?;
    }
    output.line(format_args!(
        "node {node} neither votes nor learns; its brokers stay registered"
    ))
}

/// `strandctl cluster replace ID`
pub fn replace(config: &ClientConfig, arguments: &ReplaceArgs, output: &mut Output) -> Result<(), Failure> {
    let node = arguments.of.node;
    let question = format!("Forget node {node}, and all that only its disks hold?");
    confirm(&question, arguments.yes)?;
    let mut client = Client::connect(config)?;
    // First of all: it refuses while the node lives.
    client.unregister_node(node * BROKERS_PER_NODE)?;
    let lost: Vec<_> = of_node(&client.describe_quorum()?, node);
    let voted = lost.iter().any(|member| member.votes);
    for member in &lost {
        already(client.remove_voter(member), ErrorCode::VoterNotFound)?;
    }
    output.line(format_args!(
        "node {node} is forgotten, its disks with it; waiting for the new one, with an empty data directory"
    ))?;
    output.flush()?;
    let learner = arrived(&mut client, node, ARRIVAL_MAX)?;
    if voted {
        already(client.add_voter(&learner), ErrorCode::DuplicateVoter)?;
    }
    output.line(format_args!("node {node} is replaced"))
}

/// What an earlier try has done is done.
fn already(result: Result<(), ClientError>, code: ErrorCode) -> Result<(), ClientError> {
    match result {
        Err(error) if error.code() == Some(code) => Ok(()),
        other => other,
    }
}

fn of_node(quorum: &Quorum, node: i32) -> Vec<QuorumMember> {
    let known = quorum.members.iter().filter(|member| member.node == node);
    known.cloned().collect()
}

/// The node, once it learns from the quorum.
fn arrived(client: &mut Client, node: i32, patience: Duration) -> Result<QuorumMember, Failure> {
    let start = Instant::now();
    loop {
        if let Some(member) = of_node(&client.describe_quorum()?, node).pop() {
            return Ok(member);
        }
        if start.elapsed() > patience {
            return Err(Failure::Failed(format!(
                "node {node} has not asked to be let in: start it with this cluster's 'controller.quorum.voters', and repeat \
                 with `strandctl cluster add {node}`"
            )));
        }
        std::thread::sleep(LOOK);
    }
}
