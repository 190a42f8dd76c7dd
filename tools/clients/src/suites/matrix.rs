//! Row B07 of the field reports: null and empty keys, values and header values, names of headers that repeat,
//! and a thousand headers, written by each library and read by every other.

use super::library::{read_back, same};
use super::{expect, fresh};
use crate::client::{Client, Produce};
use crate::record::Record;
use crate::report::Report;
use crate::tools::Tools;

/// Nobody reads the meaning of a thousand headers; what breaks on them is a length in too few bits.
const MANY_HEADERS: usize = 1000;

/// Runs the matrix over every pair.
pub(crate) fn run(report: &mut Report, tools: &Tools, bootstrap: &str, clients: &mut [Box<dyn Client>]) {
    report.begin("record matrix");
    let mut for_kafkajs = Vec::new();
    for writer in 0..clients.len() {
        let client = &mut clients[writer];
        let (name, topic) = (
            client.name().to_owned(),
            fresh(&format!("matrix-{}", client.name())),
        );
        let records: Vec<Record> = records()
            .into_iter()
            .filter(|record| client.can_write(record))
            .collect();
        report.note(&format!(
            "{name} writes {} of {} kinds of record",
            records.len(),
            self::records().len()
        ));
        let codec = if client.codecs().contains(&"zstd") {
            "zstd"
        } else {
            "gzip"
        };
        // kafkajs decompresses gzip alone.
        let gzipped = fresh(&format!("matrix-gzip-{name}"));
        let wrote = [(&topic, codec), (&gzipped, "gzip")]
            .iter()
            .try_for_each(|(topic, codec)| {
                let how = Produce {
                    codec,
                    ..Produce::to(topic)
                };
                client.produce(&how, &records).map(drop)
            });
        if !report.check(&format!("{name} writes"), wrote) {
            continue;
        }
        for_kafkajs.push((name.clone(), gzipped, records.clone()));
        for reader in clients.iter_mut().filter(|reader| reader.can_consume()) {
            let outcome = read_back(reader.as_mut(), &topic, &records);
            report.check(&format!("{name} to {}", reader.name()), outcome);
        }
    }
    let read = read_by_kafkajs(tools, bootstrap, &for_kafkajs);
    for (at, (writer, _, written)) in for_kafkajs.iter().enumerate() {
        let outcome = read.as_ref().map_err(Clone::clone).and_then(|read| {
            // It keeps headers in an object, which forgets how names took turns.
            let written: Vec<Record> = written.iter().map(Record::grouped).collect();
            same(&read[at], &written, 0)
        });
        report.check(&format!("{writer} to kafkajs"), outcome);
    }
    report.end();
}

/// What came of each topic to a group of kafkajs, which reads in no other way: all topics at once, since a group takes time.
fn read_by_kafkajs(
    tools: &Tools,
    bootstrap: &str,
    topics: &[(String, String, Vec<Record>)],
) -> Result<Vec<Vec<Record>>, String> {
    let names: Vec<&str> = topics.iter().map(|(_, topic, _)| topic.as_str()).collect();
    let count: usize = topics.iter().map(|(.., records)| records.len()).sum();
    let head = format!("drain topics={} records={count}", names.join(","));
    let lines = tools.member("kafkajs", bootstrap)?.request(&head, &[])?;
    expect(&lines.len(), &count)?;
    let mut read = vec![Vec::new(); topics.len()];
    for line in lines {
        let (topic, record) = line.split_once(' ').ok_or("no record line")?;
        let topic: usize = topic.parse().map_err(|_| "no topic")?;
        read.get_mut(topic)
            .ok_or("an unknown topic")?
            .push(Record::parse(record)?);
    }
    Ok(read)
}

fn records() -> Vec<Record> {
    let kinds: [Option<&[u8]>; 3] = [None, Some(b""), Some(b"data")];
    let mut records: Vec<Record> = kinds
        .iter()
        .flat_map(|key| kinds.map(|value| Record::new(*key, value)))
        .collect();
    let plain = || Record::new(Some(b"key"), Some(b"value"));
    records.extend(kinds.map(|value| plain().header("name", value)));
    records.push(
        plain()
            .header("name", Some(b"1"))
            .header("name", Some(b"2"))
            .header("name", Some(b"3")),
    );
    records.push(
        plain()
            .header("a", Some(b"1"))
            .header("b", Some(b"2"))
            .header("a", Some(b"3")),
    );
    records.push(plain().header("empty", Some(b"")).header("data", Some(b"d")));
    let many = (0..MANY_HEADERS)
        .map(|at| (format!("h{at}"), Some(at.to_string().into_bytes())))
        .collect();
    records.push(Record {
        headers: many,
        ..plain()
    });
    records.push(Record::new(
        Some(b"\x00\xff\n\t"),
        Some(&(0..=255).collect::<Vec<u8>>()),
    ));
    records.push(plain().at(1_700_000_000_123));
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_there_once() {
        let records = records();
        assert_eq!(records.len(), 18);
        for (at, record) in records.iter().enumerate() {
            assert!(!records[..at].contains(record), "{}", record.to_line());
        }
    }
}
