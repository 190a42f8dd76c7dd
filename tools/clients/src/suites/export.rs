//! What `strandctl log export --kafka` writes, read by Kafka's own `kafka-dump-log`.

use super::{expect, fresh};
use crate::broker::Broker;
use crate::client::{CODECS, Client, Produce};
use crate::native::Native;
use crate::record::Record;
use crate::report::Report;
use crate::tools::Tools;
use std::path::{Path, PathBuf};
use std::process::Command;

const DUMP_LOG: &str = "kafka.tools.DumpLogSegments";
const RECORDS: usize = 200;

/// Writes every codec, stops the node, exports and dumps.
pub(crate) fn run(report: &mut Report, tools: &Tools, broker: &Path, strandctl: &Path, scratch: &Path) {
    report.begin("log export");
    report.check(
        "kafka-dump-log --deep-iteration accepts it",
        export(tools, broker, strandctl, scratch),
    );
    report.end();
}

fn export(tools: &Tools, broker: &Path, strandctl: &Path, scratch: &Path) -> Result<(), String> {
    let mut node = Broker::start(broker, scratch, 2)?;
    let mut client = Native::new(&node.bootstrap());
    let topic = fresh("exported");
    for codec in CODECS {
        let record =
            |at: usize| Record::new(Some(b"key"), Some(format!("{codec} {at}").as_bytes())).header("h", None);
        client.produce(
            &Produce {
                codec,
                ..Produce::to(&topic)
            },
            &(0..RECORDS).map(record).collect::<Vec<_>>(),
        )?;
    }
    let records = dumped(tools, &mut node, strandctl, scratch, &topic)?;
    expect(&records, &(RECORDS * CODECS.len()))
}

/// Stops the node, exports its logs, and has the segments of a topic dumped; the number of records in them.
pub(super) fn dumped(
    tools: &Tools,
    node: &mut Broker,
    strandctl: &Path,
    scratch: &Path,
    topic: &str,
) -> Result<usize, String> {
    node.stop()?;
    let out = tempfile::tempdir_in(scratch).map_err(|error| error.to_string())?;
    let output = Command::new("timeout")
        .arg("120")
        .arg(strandctl)
        .args(["log", "export", "--kafka"])
        .arg(out.path())
        .arg(node.data())
        .output()
        .map_err(|error| format!("cannot run {}: {error}", strandctl.display()))?;
    if !output.status.success() {
        return Err(format!(
            "strandctl log export: {} {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    let segments = segments(out.path(), topic);
    if segments.is_empty() {
        return Err("nothing was exported".to_owned());
    }
    let mut records = 0;
    for segment in segments {
        let text = dump(tools, &segment)?;
        records += text.lines().filter(|line| line.starts_with("| offset: ")).count();
    }
    Ok(records)
}

/// The dump of one segment, which must be whole and valid.
fn dump(tools: &Tools, segment: &Path) -> Result<String, String> {
    let text = tools.kafka_tool(
        DUMP_LOG,
        &["--deep-iteration", "--files", &segment.to_string_lossy()],
    )?;
    let batches = text
        .lines()
        .filter(|line| line.starts_with("baseOffset: "))
        .count();
    expect(&text.matches("isvalid: true").count(), &batches)
        .map_err(|why| format!("valid batches: {why}: {text:.800}"))?;
    match text
        .lines()
        .find(|line| line.contains("invalid") || line.starts_with("Found") || line.contains("mismatch"))
    {
        Some(complaint) => Err(complaint.to_owned()),
        None => Ok(text),
    }
}

/// The segment files of the folders that start with the topic's name.
fn segments(folder: &Path, topic: &str) -> Vec<PathBuf> {
    let entries = |path: &Path| {
        std::fs::read_dir(path)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .map(|entry| entry.path())
    };
    let of_topic = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(topic))
    };
    entries(folder)
        .filter(of_topic)
        .flat_map(|path| entries(&path).collect::<Vec<_>>())
        .filter(|path| path.extension().is_some_and(|ending| ending == "log"))
        .collect()
}
