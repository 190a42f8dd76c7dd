//! Row B07 of the field reports: null and empty keys, values and header values, names of headers that repeat,
//! and a thousand headers, written by each library and read by every other.

use super::fresh;
use super::library::read_back;
use crate::client::{Client, Produce};
use crate::record::Record;
use crate::report::Report;

/// Nobody reads the meaning of a thousand headers; what breaks on them is a length in too few bits.
const MANY_HEADERS: usize = 1000;

/// Runs the matrix over every pair.
pub(crate) fn run(report: &mut Report, clients: &mut [Box<dyn Client>]) {
    report.begin("record matrix");
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
        let wrote = client
            .produce(
                &Produce {
                    codec,
                    ..Produce::to(&topic)
                },
                &records,
            )
            .map(drop);
        if !report.check(&format!("{name} writes"), wrote) {
            continue;
        }
        for reader in clients.iter_mut().filter(|reader| reader.can_consume()) {
            let outcome = read_back(reader.as_mut(), &topic, &records);
            report.check(&format!("{name} to {}", reader.name()), outcome);
        }
    }
    report.end();
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
