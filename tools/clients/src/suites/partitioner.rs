//! The partitioner of `strandctl` and of the load generator against Java's.

use super::expect;
use crate::record::Record;
use crate::report::Report;
use crate::script::Script;

const KEYS: usize = 10_000;
/// Even and odd counts, one partition, and more than fit a byte.
const PARTITIONS: [u32; 5] = [1, 3, 12, 100, 1001];

/// Compares the partition of every key.
pub(crate) fn run(report: &mut Report, java: &mut Script) {
    report.begin("partitioner");
    let keys: Vec<Record> = (0..KEYS).map(|at| Record::new(Some(&key(at)), None)).collect();
    for partitions in PARTITIONS {
        let outcome = compare(java, &keys, partitions);
        report.check(&format!("{KEYS} keys over {partitions} partitions"), outcome);
    }
    report.end();
}

/// Every length from 0 to 66, bytes of all values, most with a sign bit somewhere.
fn key(at: usize) -> Vec<u8> {
    let byte =
        |position: usize| ((at.wrapping_mul(2_654_435_761) >> (position % 24)) as u8) ^ (position as u8);
    (0..at % 67).map(byte).collect()
}

fn compare(java: &mut Script, keys: &[Record], partitions: u32) -> Result<(), String> {
    let theirs = java.request(&format!("partition partitions={partitions}"), keys)?;
    expect(&theirs.len(), &keys.len())?;
    for (theirs, record) in theirs.iter().zip(keys) {
        let key = record.key.as_deref().unwrap_or_default();
        let ours = strandline_wire::murmur2::partition_for_key(key, partitions).unwrap_or(u32::MAX);
        expect(&ours.to_string(), theirs).map_err(|why| format!("key {key:?}: {why}"))?;
    }
    Ok(())
}
