//! Row B05 of the field reports: the topic's `compression.type` decides what is stored, whatever was sent.

use super::library::read_back;
use super::{expect, fresh};
use crate::client::{CODECS, Client, Produce};
use crate::raw::Raw;
use crate::record::Record;
use crate::report::Report;
use std::collections::BTreeSet;

/// Where the attributes stand in a record batch, and how many bytes come before the batch length counts.
const ATTRIBUTES_AT: usize = 21;
const LENGTH_AT: usize = 8;
const BEFORE_LENGTH: usize = 12;

/// Writes three codecs to a topic of each type, looks at the stored bits and reads with every library.
pub(crate) fn run(
    report: &mut Report,
    bootstrap: &str,
    writer: &mut dyn Client,
    readers: &mut [Box<dyn Client>],
) {
    report.begin("topic compression");
    for kind in ["producer", "uncompressed", "gzip", "lz4", "snappy", "zstd"] {
        let topic = fresh(&format!("compression-{kind}"));
        let outcome = stored_codecs(bootstrap, writer, &topic, kind);
        report.check(
            &format!("{kind}: codec bits (B05)"),
            outcome.as_ref().map(drop).map_err(Clone::clone),
        );
        let Ok(written) = outcome else { continue };
        for reader in readers.iter_mut().filter(|reader| reader.can_consume()) {
            let read = read_back(reader.as_mut(), &topic, &written);
            report.check(&format!("{kind}: read by {}", reader.name()), read);
        }
    }
    let outcome = grown_batch(bootstrap, writer);
    report.check("a batch that grows over the limit is refused (B05)", outcome);
    report.end();
}

fn stored_codecs(
    bootstrap: &str,
    writer: &mut dyn Client,
    topic: &str,
    kind: &str,
) -> Result<Vec<Record>, String> {
    expect(
        &Raw::connect(bootstrap)?.create_topic(topic, 1, &[("compression.type", kind)])?,
        &0,
    )?;
    let mut written = Vec::new();
    for sent in ["none", "gzip", "zstd"] {
        let from = written.len() as i64;
        let record = |at: i64| Record::new(Some(b"key"), Some(format!("{sent} {at} ").repeat(50).as_bytes()));
        let records: Vec<Record> = (0..10).map(record).collect();
        writer.produce(
            &Produce {
                codec: sent,
                ..Produce::to(topic)
            },
            &records,
        )?;
        written.extend(records);
        let right = match kind {
            "producer" => sent,
            "uncompressed" => "none",
            _ => kind,
        };
        let fetched = Raw::leader(bootstrap, topic, 0)?.fetch(topic, 0, from, 10_000)?;
        expect(
            &codecs(&fetched.records.unwrap_or_default()),
            &BTreeSet::from([right]),
        )
        .map_err(|why| format!("sent {sent}: {why}"))?;
    }
    Ok(written)
}

/// The codecs of the batches in `records`.
fn codecs(mut records: &[u8]) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    while let Some(bits) = records.get(ATTRIBUTES_AT + 1) {
        found.insert(CODECS.get(usize::from(bits & 7)).copied().unwrap_or("unknown"));
        let length = records[LENGTH_AT..BEFORE_LENGTH]
            .iter()
            .fold(0, |length, byte| length << 8 | usize::from(*byte));
        records = records.get(BEFORE_LENGTH + length..).unwrap_or_default();
    }
    found
}

fn grown_batch(bootstrap: &str, writer: &mut dyn Client) -> Result<(), String> {
    let topic = fresh("compression-grown");
    let configs = [
        ("compression.type", "uncompressed"),
        ("max.message.bytes", "10000"),
    ];
    expect(&Raw::connect(bootstrap)?.create_topic(&topic, 1, &configs)?, &0)?;
    let records = [Record::new(None, Some(&[b'a'; 100_000]))];
    match writer.produce(
        &Produce {
            codec: "gzip",
            ..Produce::to(&topic)
        },
        &records,
    ) {
        Err(why) if why.contains("size too large") || why.contains("MessageSizeTooLarge") => Ok(()),
        other => Err(format!("expected a refusal for its size, found {other:?}")),
    }
}
