//! `group describe`: what groups have committed and how far behind they are, or who is in them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::ends::{Ends, lag};
use super::{split, unique};
use crate::cli::GroupDescribeArgs;
use crate::client::group::{Committed, ConsumerMember, GroupDescription, Member, Partitions, Position};
use crate::client::{Client, NamedResults};
use crate::client_config::ClientConfig;
use crate::commands::sum_up;
use crate::failure::Failure;
use crate::output::{Output, count, join, printable};

#[derive(Serialize)]
struct Described {
    group: String,
    r#type: &'static str,
    state: String,
    protocol_type: String,
    assignor: String,
    /// The next two are of groups of the consumer protocol alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    assignment_epoch: Option<i32>,
    /// How many.
    member_count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<Vec<PartitionRow>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<Vec<MemberRow>>,
}

#[derive(Serialize)]
struct PartitionRow {
    topic: String,
    partition: i32,
    /// Null where nothing is committed.
    committed: Option<i64>,
    /// Null, as the next two, where the partition is gone or has no leader.
    log_start: Option<i64>,
    log_end: Option<i64>,
    lag: Option<i64>,
    metadata: Option<String>,
    /// Who owns the partition; null, as the next two, where nobody does.
    member: Option<String>,
    client_id: Option<String>,
    host: Option<String>,
}

#[derive(Serialize)]
struct MemberRow {
    member: String,
    instance_id: Option<String>,
    client_id: String,
    host: String,
    /// Null where the protocol is not the consumers' own.
    assignment: Option<Partitions>,
    #[serde(flatten)]
    consumer: Option<ConsumerRow>,
}

/// What a group of the consumer protocol knows of a member.
#[derive(Serialize)]
struct ConsumerRow {
    epoch: i32,
    target_assignment: Partitions,
    subscribed_topics: Vec<String>,
    subscribed_pattern: Option<String>,
    /// Null where the broker does not tell.
    protocol: Option<&'static str>,
}

/// `strandctl group describe`
pub fn describe(
    config: &ClientConfig,
    arguments: &GroupDescribeArgs,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut client = Client::connect(config)?;
    let names = match arguments.groups.is_empty() {
        true => client
            .list_groups()?
            .into_iter()
            .map(|group| group.name)
            .collect(),
        false => unique(&arguments.groups),
    };
    let (mut groups, mut failed) = split(client.describe_groups(&names));
    if arguments.groups.is_empty() {
        // One that went since it was listed is no failure.
        failed.retain(|(_, result)| !is_gone(result));
    }
    let described = match (arguments.members, arguments.state) {
        (true, _) => groups.iter().map(with_members).collect(),
        (_, true) => groups.iter().map(heading).collect(),
        _ => with_offsets(&mut client, &mut groups, &mut failed)?,
    };
    if output.is_json() {
        output.json(&described)?;
    } else if arguments.state {
        print_states(&described, output)?;
    } else {
        for (position, group) in described.iter().enumerate() {
            if position > 0 {
                output.line("")?;
            }
            print(group, output)?;
        }
    }
    sum_up(with_total(failed, names.len()), output.is_json())
}

fn is_gone(result: &Result<(), crate::client::ClientError>) -> bool {
    matches!(result, Err(error) if error.code() == Some(strandline_wire::ErrorCode::GroupIdNotFound))
}

/// The failures among as many successes as there were.
fn with_total(mut failed: NamedResults<()>, total: usize) -> NamedResults<()> {
    failed.resize_with(total.max(failed.len()), || (String::new(), Ok(())));
    failed
}

fn heading(group: &GroupDescription) -> Described {
    Described {
        group: group.name.clone(),
        r#type: group.kind,
        state: group.state.clone(),
        protocol_type: group.protocol_type.clone(),
        assignor: group.assignor.clone(),
        epoch: group.epochs.map(|epochs| epochs.group),
        assignment_epoch: group.epochs.map(|epochs| epochs.assignment),
        member_count: group.members.len(),
        partitions: None,
        members: None,
    }
}

fn with_members(group: &GroupDescription) -> Described {
    let row = |member: &Member| MemberRow {
        member: member.id.clone(),
        instance_id: member.instance_id.clone(),
        client_id: member.client_id.clone(),
        host: member.host.clone(),
        assignment: member.assignment.clone(),
        consumer: member.consumer.as_ref().map(consumer_row),
    };
    Described {
        members: Some(group.members.iter().map(row).collect()),
        ..heading(group)
    }
}

fn consumer_row(member: &ConsumerMember) -> ConsumerRow {
    ConsumerRow {
        epoch: member.epoch,
        target_assignment: member.target.clone(),
        subscribed_topics: member.topics.clone(),
        subscribed_pattern: member.pattern.clone(),
        protocol: member.protocol,
    }
}

/// The groups with their offsets: first what is committed, then the ends, so that no end is older than a commit.
fn with_offsets(
    client: &mut Client,
    groups: &mut Vec<GroupDescription>,
    failed: &mut NamedResults<()>,
) -> Result<Vec<Described>, Failure> {
    let names: Vec<String> = groups.iter().map(|group| group.name.clone()).collect();
    let mut committed = BTreeMap::new();
    for (name, result) in client.committed(&names) {
        match result {
            Ok(offsets) => drop(committed.insert(name, offsets)),
            Err(error) => failed.push((name, Err(error))),
        }
    }
    groups.retain(|group| committed.contains_key(&group.name));
    let positions = |group: &GroupDescription| -> BTreeSet<Position> {
        let offsets = committed
            .get(&group.name)
            .into_iter()
            .flat_map(BTreeMap::keys)
            .cloned();
        offsets.chain(owners(group).into_keys()).collect()
    };
    let ends = Ends::of(client, groups.iter().flat_map(positions))?;
    let describe = |group: &GroupDescription| {
        let owners = owners(group);
        let rows = positions(group).into_iter().map(|at| {
            let committed = committed.get(&group.name).and_then(|offsets| offsets.get(&at));
            row(committed, ends.get(&at), owners.get(&at).copied(), at)
        });
        Described {
            partitions: Some(rows.collect()),
            ..heading(group)
        }
    };
    Ok(groups.iter().map(describe).collect())
}

/// Who owns each partition.
fn owners(group: &GroupDescription) -> BTreeMap<Position, &Member> {
    let owned = group.members.iter().flat_map(|member| {
        let topics = member.assignment.iter().flatten();
        topics.flat_map(move |(topic, partitions)| {
            partitions
                .iter()
                .map(move |partition| ((topic.clone(), *partition), member))
        })
    });
    owned.collect()
}

fn row(
    committed: Option<&Committed>,
    ends: Option<(i64, i64)>,
    owner: Option<&Member>,
    at: Position,
) -> PartitionRow {
    let offset = committed.map(|committed| committed.offset);
    PartitionRow {
        topic: at.0,
        partition: at.1,
        committed: offset,
        log_start: ends.map(|(start, _)| start),
        log_end: ends.map(|(_, end)| end),
        lag: offset.zip(ends).map(|(offset, ends)| lag(offset, ends)),
        metadata: committed.map(|committed| committed.metadata.clone()),
        member: owner.map(|member| member.id.clone()),
        client_id: owner.map(|member| member.client_id.clone()),
        host: owner.map(|member| member.host.clone()),
    }
}

fn print(group: &Described, output: &mut Output) -> Result<(), Failure> {
    let mut line = format!(
        "group {}  {}  {}",
        printable(&group.group),
        group.r#type,
        group.state
    );
    if !group.assignor.is_empty() {
        line.push_str(&format!("  assignor {}", printable(&group.assignor)));
    }
    if let Some(epoch) = group.epoch {
        line.push_str(&format!("  epoch {epoch}"));
    }
    output.line(format_args!(
        "{line}  {}",
        count(group.member_count as u64, "member")
    ))?;
    if let Some(partitions) = &group.partitions {
        print_partitions(partitions, output)?;
    }
    group
        .members
        .as_ref()
        .map_or(Ok(()), |members| print_members(members, output))
}

fn print_partitions(partitions: &[PartitionRow], output: &mut Output) -> Result<(), Failure> {
    if partitions.is_empty() {
        return output.line("nothing is committed or assigned");
    }
    let number = |value: Option<i64>| value.map_or("-".to_owned(), |value| value.to_string());
    let text = |value: &Option<String>| {
        value
            .as_deref()
            .map_or("-".to_owned(), |value| printable(value).into_owned())
    };
    let row = |row: &PartitionRow| {
        [
            row.topic.clone(),
            row.partition.to_string(),
            number(row.committed),
            number(row.log_end),
            number(row.lag),
            text(&row.member),
            text(&row.host),
            text(&row.client_id),
        ]
    };
    let rows: Vec<_> = partitions.iter().map(row).collect();
    output.table(
        [
            "TOPIC",
            "PARTITION",
            "COMMITTED",
            "END",
            "LAG",
            "MEMBER",
            "HOST",
            "CLIENT",
        ],
        &rows,
    )
}

fn print_members(members: &[MemberRow], output: &mut Output) -> Result<(), Failure> {
    if members.is_empty() {
        return Ok(());
    }
    let row = |member: &MemberRow| {
        [
            printable(&member.member).into_owned(),
            member
                .instance_id
                .as_deref()
                .map_or("-".into(), printable)
                .into_owned(),
            printable(&member.host).into_owned(),
            printable(&member.client_id).into_owned(),
            member
                .consumer
                .as_ref()
                .map_or("-".to_owned(), |consumer| consumer.epoch.to_string()),
            assignment_text(member),
        ]
    };
    let rows: Vec<_> = members.iter().map(row).collect();
    output.table(
        ["MEMBER", "INSTANCE", "HOST", "CLIENT", "EPOCH", "ASSIGNMENT"],
        &rows,
    )
}

/// What a member owns; and what it shall own, while that is something else.
fn assignment_text(member: &MemberRow) -> String {
    let owned = member.assignment.as_ref().map_or("?".to_owned(), owned_text);
    let target = member
        .consumer
        .as_ref()
        .map(|consumer| owned_text(&consumer.target_assignment));
    match target {
        Some(target) if target != owned => format!("{owned}, to be {target}"),
        _ => owned,
    }
}

/// `topic:0,1 other:2`, in the form that `reset-offsets --topic` takes.
fn owned_text(assignment: &Partitions) -> String {
    let topics = assignment.iter().filter(|(_, partitions)| !partitions.is_empty());
    let topics: Vec<_> = topics
        .map(|(topic, partitions)| format!("{topic}:{}", join(partitions)))
        .collect();
    match topics.is_empty() {
        true => "-".to_owned(),
        false => topics.join(" "),
    }
}

fn print_states(groups: &[Described], output: &mut Output) -> Result<(), Failure> {
    let row = |group: &Described| {
        [
            printable(&group.group).into_owned(),
            group.r#type.to_owned(),
            group.state.clone(),
            match group.assignor.as_str() {
                "" => "-".to_owned(),
                assignor => printable(assignor).into_owned(),
            },
            group.member_count.to_string(),
        ]
    };
    let rows: Vec<_> = groups.iter().map(row).collect();
    output.table(["GROUP", "TYPE", "STATE", "ASSIGNOR", "MEMBERS"], &rows)
}
