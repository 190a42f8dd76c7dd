//! `group reset-offsets`: which offsets a group shall go on from, shown, and committed only with `--execute`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use strandline_wire::ErrorCode;

use super::ends::Ends;
use super::{plan_file, scope};
use crate::cli::{GroupResetArgs, ResetTarget};
use crate::client::group::{Position, subject};
use crate::client::{Client, ClientError, NamedResults};
use crate::client_config::ClientConfig;
use crate::commands::sum_up;
use crate::failure::Failure;
use crate::offset_spec::now_ms;
use crate::output::{Output, count, printable};

/// The states in which a group has no members.
const STATES_WITHOUT_MEMBERS: [&str; 2] = ["Empty", "Dead"];

/// Where the group shall go on.
enum Target {
    Earliest,
    Latest,
    Current,
    Offset(i64),
    Shift(i64),
    /// Milliseconds since 1970.
    Time(i64),
    /// Each where the file says.
    File(BTreeMap<Position, i64>),
}

/// What becomes of a partition.
#[derive(Serialize)]
struct Row {
    topic: String,
    partition: i32,
    /// What was committed before.
    committed: Option<i64>,
    new: i64,
    /// Why it is not what was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

#[derive(Serialize)]
struct Reset<'a> {
    group: &'a str,
    executed: bool,
    partitions: Vec<Row>,
}

/// `strandctl group reset-offsets`
pub fn reset(config: &ClientConfig, arguments: &GroupResetArgs, output: &mut Output) -> Result<(), Failure> {
    let group = &arguments.group;
    let target = target(arguments)?;
    let mut client = Client::connect(config)?;
    refuse_with_members(&mut client, group, "offsets are not reset under members")?;
    let committed = committed(&mut client, group)?;
    let wanted: BTreeSet<Position> = match &target {
        Target::File(offsets) => {
            scope::check(&mut client, offsets.keys())?;
            offsets.keys().cloned().collect()
        }
        _ if arguments.scope.all_topics => committed.keys().cloned().collect(),
        _ => scope::named(&mut client, &arguments.scope.topics)?
            .into_iter()
            .collect(),
    };
    if wanted.is_empty() {
        let what = subject(group);
        return Err(Failure::Failed(format!(
            "{what} has committed nothing: name topics by --topic"
        )));
    }
    let rows = plan(&mut client, group, &target, &wanted, &committed)?;
    let (rows, results) = match arguments.execute {
        true => execute(&mut client, group, rows),
        false => (rows, Vec::new()),
    };
    print(arguments, rows, output)?;
    sum_up(results, output.is_json())
}

fn target(arguments: &GroupResetArgs) -> Result<Target, Failure> {
    if let Some(path) = &arguments.scope.from_file {
        return plan_file::read(path, &arguments.group).map(Target::File);
    }
    let ResetTarget {
        to_earliest,
        to_latest,
        to_current,
        to_offset,
        shift_by,
        by_duration,
        to_datetime,
    } = arguments.target;
    let flag = |is_set: bool, target| is_set.then_some(target);
    let target = flag(to_earliest, Target::Earliest)
        .or(flag(to_latest, Target::Latest))
        .or(flag(to_current, Target::Current))
        .or(to_offset.map(Target::Offset))
        .or(shift_by.map(Target::Shift))
        .or(by_duration.map(|ago_ms| Target::Time(now_ms().saturating_sub(ago_ms).max(0))))
        .or(to_datetime.map(Target::Time));
    target.ok_or_else(|| {
        Failure::usage(
            "say which offsets: --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --by-duration, \
             --to-datetime or --from-file",
        )
    })
}

/// A group with members would only go on from where its members are, and commit that again. One that does not exist may be
/// given offsets.
pub(in crate::commands) fn refuse_with_members(
    client: &mut Client,
    group: &str,
    why: &str,
) -> Result<(), ClientError> {
    let described = client.describe_groups(&[group.to_owned()]).into_iter().next();
    match described.map(|(_, result)| result) {
        Some(Ok(described)) if !STATES_WITHOUT_MEMBERS.contains(&described.state.as_str()) => {
            let members = count(described.members.len() as u64, "member");
            let text = format!("it has {members} and is {}: {why}", described.state);
            Err(ClientError::broker(
                subject(group),
                ErrorCode::NonEmptyGroup,
                Some(text),
            ))
        }
        Some(Err(error)) if error.code() != Some(ErrorCode::GroupIdNotFound) => Err(error),
        _ => Ok(()),
    }
}

fn committed(client: &mut Client, group: &str) -> Result<BTreeMap<Position, i64>, ClientError> {
    let found = client.committed(&[group.to_owned()]).into_iter().next();
    let offsets = found.map_or(Ok(BTreeMap::new()), |(_, result)| result);
    match offsets {
        Ok(offsets) => Ok(offsets
            .into_iter()
            .map(|(at, committed)| (at, committed.offset))
            .collect()),
        Err(error) if error.code() == Some(ErrorCode::GroupIdNotFound) => Ok(BTreeMap::new()),
        Err(error) => Err(error),
    }
}

fn plan(
    client: &mut Client,
    group: &str,
    target: &Target,
    wanted: &BTreeSet<Position>,
    committed: &BTreeMap<Position, i64>,
) -> Result<Vec<Row>, Failure> {
    let times = match target {
        Target::Time(time_ms) => at_time(client, wanted, *time_ms)?,
        _ => BTreeMap::new(),
    };
    let ends = Ends::of(client, wanted.iter().cloned())?;
    let mut rows = Vec::new();
    for at in wanted {
        let (topic, partition) = at;
        let now = committed.get(at).copied();
        let (start, end) = ends.get(at).ok_or_else(|| ClientError::NoLeader {
            topic: topic.clone(),
            partition: *partition,
        })?;
        let (new, note) = match target {
            Target::Earliest => (start, None),
            Target::Latest => (end, None),
            Target::Current => now.map_or((end, Some("nothing is committed: the end")), |now| (now, None)),
            Target::Offset(offset) => within(*offset, start, end),
            Target::Shift(by) => {
                let now = now.ok_or_else(|| {
                    let what = subject(group);
                    Failure::Failed(format!(
                        "{what}, {topic}-{partition}: nothing is committed that could be shifted"
                    ))
                })?;
                within(now.saturating_add(*by), start, end)
            }
            Target::Time(_) => match times.get(at) {
                Some(Some(offset)) => (*offset, None),
                _ => (end, Some("no record is that late: the end")),
            },
            Target::File(offsets) => within(offsets.get(at).copied().unwrap_or(end), start, end),
        };
        rows.push(Row {
            topic: topic.clone(),
            partition: *partition,
            committed: now,
            new,
            note,
        });
    }
    Ok(rows)
}

/// An offset that the partition has.
fn within(offset: i64, start: i64, end: i64) -> (i64, Option<&'static str>) {
    if offset > end {
        (end, Some("beyond the end: the end"))
    } else if offset < start {
        (start, Some("before the first: the first"))
    } else {
        (offset, None)
    }
}

/// The first record of each partition at or after a time.
fn at_time(
    client: &mut Client,
    wanted: &BTreeSet<Position>,
    time_ms: i64,
) -> Result<BTreeMap<Position, Option<i64>>, ClientError> {
    let mut by_topic: BTreeMap<&str, BTreeMap<i32, i64>> = BTreeMap::new();
    for (topic, partition) in wanted {
        by_topic.entry(topic).or_default().insert(*partition, time_ms);
    }
    let mut found = BTreeMap::new();
    for (topic, partitions) in by_topic {
        let offsets = client.list_offsets(topic, &partitions)?;
        found.extend(
            offsets
                .into_iter()
                .map(|(partition, offset)| ((topic.to_owned(), partition), offset)),
        );
    }
    Ok(found)
}

/// Commits; the rows of what is committed, and what became of each.
fn execute(client: &mut Client, group: &str, rows: Vec<Row>) -> (Vec<Row>, NamedResults<()>) {
    let position = |row: &Row| (row.topic.clone(), row.partition);
    let offsets = rows.iter().map(|row| (position(row), row.new)).collect();
    let mut results: BTreeMap<Position, _> = client.commit_offsets(group, &offsets).into_iter().collect();
    let failed = |row: &Row| results.get(&position(row)).is_some_and(Result::is_err);
    let rows = rows.into_iter().filter(|row| !failed(row)).collect();
    let names = std::mem::take(&mut results).into_iter();
    (
        rows,
        names
            .map(|((topic, partition), result)| (format!("{topic}-{partition}"), result))
            .collect(),
    )
}

fn print(arguments: &GroupResetArgs, partitions: Vec<Row>, output: &mut Output) -> Result<(), Failure> {
    let (group, executed) = (arguments.group.as_str(), arguments.execute);
    if output.is_json() {
        return output.json(&Reset {
            group,
            executed,
            partitions,
        });
    }
    if arguments.export {
        for row in &partitions {
            output.line(format_args!("{},{},{}", row.topic, row.partition, row.new))?;
        }
    } else {
        let row = |row: &Row| {
            [
                row.topic.clone(),
                row.partition.to_string(),
                row.committed.map_or("-".to_owned(), |offset| offset.to_string()),
                row.new.to_string(),
                row.note.unwrap_or_default().to_owned(),
            ]
        };
        let rows: Vec<_> = partitions.iter().map(row).collect();
        output.table(["TOPIC", "PARTITION", "COMMITTED", "NEW", ""], &rows)?;
    }
    output.flush()?;
    match executed {
        true => eprintln!(
            "strandctl: committed {} of group {}",
            count(partitions.len() as u64, "offset"),
            printable(group)
        ),
        false => eprintln!("strandctl: nothing was changed: say --execute to commit these offsets"),
    }
    Ok(())
}
