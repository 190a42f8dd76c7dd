//! What every library does: produce with each codec and each kind of acknowledgement, read it back from the
//! start and from the middle, large records, tiny fetch limits, and its admin scenario.

use super::{expect, fresh};
use crate::client::{Client, Consume, Produce};
use crate::record::Record;
use crate::report::Report;

/// Records of one produce; several batches in most libraries.
const RECORDS: usize = 500;
/// A record close to the default `max.message.bytes`.
const LARGE_BYTES: usize = 900_000;

/// Runs the suite of one library. Libraries that cannot read are read by `reader`.
pub(crate) fn run(report: &mut Report, client: &mut dyn Client, reader: &mut dyn Client) {
    report.begin(client.name());
    for codec in client.codecs().to_vec() {
        let outcome = round_trip(client, reader, codec);
        report.check(&format!("{codec}: written and read whole"), outcome);
    }
    for (acks, idempotent) in [("all", false), ("1", false), ("0", false)] {
        let outcome = acks_round_trip(client, reader, acks, idempotent);
        report.check(&format!("acks={acks}: written and read"), outcome);
    }
    let outcome = large(client, reader);
    report.check("large records come with any fetch limit (B09)", outcome);
    match client.admin(&fresh(&format!("admin-{}", client.name()))) {
        Some(Ok(checks)) => checks.into_iter().for_each(|(name, outcome)| {
            report.check(&format!("admin: {name}"), outcome);
        }),
        Some(Err(error)) => {
            report.check("admin", Err(error));
        }
        None => {}
    }
    report.end();
}

/// Printable, of many lengths, so that every library can write it and codecs have something to do.
fn records() -> Vec<Record> {
    let record = |index: usize| {
        let value = format!("value {index} ").repeat(1 + index % 37);
        Record::new(
            Some(format!("key {}", index % 11).as_bytes()),
            Some(value.trim_end().as_bytes()),
        )
    };
    (0..RECORDS).map(record).collect()
}

fn reading<'a>(client: &'a mut dyn Client, reader: &'a mut dyn Client) -> &'a mut dyn Client {
    if client.can_consume() { client } else { reader }
}

/// Reads `written` back from offset 0 and compares record by record.
pub(crate) fn read_back(reader: &mut dyn Client, topic: &str, written: &[Record]) -> Result<(), String> {
    same(
        &reader.consume(&Consume::start_of(topic, written.len()))?,
        written,
        0,
    )
}

/// Compares what was read from offset `from` on with what was written.
pub(super) fn same(read: &[Record], written: &[Record], from: i64) -> Result<(), String> {
    expect(&read.len(), &written.len())?;
    for (at, (found, sent)) in read.iter().zip(written).enumerate() {
        expect(&found.place, &(from + at as i64)).map_err(|why| format!("offset of record {at}: {why}"))?;
        if !sent.carried_by(found) {
            let (found, sent) = (found.to_line(), sent.to_line());
            return Err(format!("record {at}: sent {sent:.200}, read {found:.200}"));
        }
    }
    Ok(())
}

/// Whether the offsets that the library reported are those of the log; -1 is "not told".
fn in_order(offsets: &[i64]) -> Result<(), String> {
    let wrong = offsets
        .iter()
        .enumerate()
        .find(|(at, offset)| **offset != -1 && **offset != *at as i64);
    wrong.map_or(Ok(()), |(at, offset)| {
        Err(format!("record {at} was acknowledged with offset {offset}"))
    })
}

fn round_trip(client: &mut dyn Client, reader: &mut dyn Client, codec: &str) -> Result<(), String> {
    let (topic, records) = (fresh(&format!("codec-{codec}")), records());
    in_order(&client.produce(
        &Produce {
            codec,
            ..Produce::to(&topic)
        },
        &records,
    )?)?;
    let reader = reading(client, reader);
    read_back(reader, &topic, &records)?;
    // From within a batch, and the last record alone.
    for from in [RECORDS / 3, RECORDS - 1] {
        let what = Consume {
            from: from as i64,
            ..Consume::start_of(&topic, RECORDS - from)
        };
        same(&reader.consume(&what)?, &records[from..], from as i64)
            .map_err(|why| format!("from {from}: {why}"))?;
    }
    Ok(())
}

fn acks_round_trip(
    client: &mut dyn Client,
    reader: &mut dyn Client,
    acks: &str,
    idempotent: bool,
) -> Result<(), String> {
    let (topic, records) = (fresh(&format!("acks-{acks}")), &records()[..50]);
    // With acks=0 nothing tells of a topic that is not there yet, so it is made first.
    client.produce(&Produce::to(&topic), &records[..1])?;
    client.produce(
        &Produce {
            acks,
            idempotent,
            ..Produce::to(&topic)
        },
        &records[1..],
    )?;
    read_back(reading(client, reader), &topic, records)
}

fn large(client: &mut dyn Client, reader: &mut dyn Client) -> Result<(), String> {
    let topic = fresh("large");
    let record = |letter: u8| Record::new(Some(b"large"), Some(&vec![letter; LARGE_BYTES]));
    let records = [record(b'a'), record(b'b'), record(b'c')];
    // One at a time: some libraries would put all of them into one batch above the limit.
    for record in &records {
        client.produce(&Produce::to(&topic), std::slice::from_ref(record))?;
    }
    let what = Consume {
        fetch_max: Some(1),
        ..Consume::start_of(&topic, records.len())
    };
    same(&reading(client, reader).consume(&what)?, &records, 0)
}
