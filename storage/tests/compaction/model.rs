//! What a test knows of a compacted log: everything that was appended, and what a reader of any offset must find of it.

use std::collections::{BTreeMap, HashMap};

use strandline_storage::disk::Disk;
use strandline_storage::{Log, ReadError, ReadRequest};
use strandline_wire::batch::{BatchHeader, check_crc, for_each_record};

/// A record as it was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub timestamp: i64,
}

/// A record as it was read.
#[derive(Clone, Debug)]
pub struct Found {
    pub offset: i64,
    pub record: Written,
    pub horizon: Option<i64>,
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    /// By offset.
    pub records: Vec<Written>,
    /// Everything below was acknowledged.
    pub acknowledged: i64,
    /// From when on a tombstone may go, once a cleaning has said so.
    pub horizons: BTreeMap<i64, i64>,
    /// Each producer's last acknowledged batch: first sequence, count, base offset.
    pub producers: BTreeMap<i64, (i32, i32, i64)>,
    /// Where the log was asked to start, and the start that readers were told of: no crash takes that back.
    pub start: i64,
    pub start_durable: i64,
    /// Readers saw the log clean up to there: no crash takes that back.
    pub cleaned_to: i64,
}

/// Every record from `from` on, each batch looked at.
pub async fn read<D: Disk>(log: &Log<D>, from: i64, max_bytes: usize) -> Vec<Found> {
    try_read(log, from, max_bytes).await.unwrap()
}

/// The same where the start may move over the reader.
pub async fn try_read<D: Disk>(log: &Log<D>, from: i64, max_bytes: usize) -> Result<Vec<Found>, ReadError> {
    let mut found = Vec::new();
    let mut next = from;
    loop {
        let end = log.end_offset();
        let request = ReadRequest {
            offset: next,
            max_bytes,
            upper_bound: end,
            at_least_one: true,
        };
        let result = log.read(request).await?;
        if result.batches.is_empty() {
            return Ok(found);
        }
        for batch in &result.batches {
            let header = BatchHeader::decode(batch).unwrap();
            assert!(check_crc(batch), "batch at {}", header.base_offset);
            assert_eq!(header.size(), Some(batch.len()));
            assert!(header.last_offset() >= next, "a batch that nobody asked for");
            for_each_record(batch, usize::MAX, |record| {
                let offset = record.offset(&header);
                if offset >= from {
                    found.push(Found {
                        offset,
                        horizon: header.delete_horizon_ms(),
                        record: Written {
                            key: record.key.map(<[u8]>::to_vec),
                            value: record.value.map(<[u8]>::to_vec),
                            timestamp: record.timestamp,
                        },
                    });
                }
                std::ops::ControlFlow::<()>::Continue(())
            })
            .unwrap();
            next = header.last_offset() + 1;
        }
    }
}

impl Model {
    /// What was read from `from` up to `end` is right, at `now_ms`.
    pub fn check(&self, found: &[Found], from: i64, end: i64, now_ms: i64) -> Result<(), String> {
        for pair in found.windows(2) {
            if pair[0].offset >= pair[1].offset {
                return Err(format!(
                    "offset {} comes before {}",
                    pair[0].offset, pair[1].offset
                ));
            }
        }
        for record in found {
            match self.records.get(record.offset as usize) {
                Some(written) if *written == record.record => {}
                written => return Err(format!("{record:?} where {written:?} was appended")),
            }
        }
        let mut newest: HashMap<&[u8], i64> = HashMap::new();
        let below = self.records.len().min(end as usize);
        for (offset, record) in self.records[..below].iter().enumerate() {
            if let Some(key) = &record.key {
                newest.insert(key, offset as i64);
            }
        }
        for (key, newest) in newest {
            if newest < from {
                continue;
            }
            let of_key = |found: &&Found| found.record.key.as_deref() == Some(key);
            if found.iter().any(|record| record.offset == newest) {
                continue;
            }
            if self.records[newest as usize].value.is_some() {
                return Err(format!("the newest record of {key:?}, at {newest}, is missing"));
            }
            if let Some(old) = found.iter().find(of_key) {
                return Err(format!(
                    "{key:?} is back at {} though it was deleted at {newest}",
                    old.offset
                ));
            }
            if self.horizons.get(&newest).is_none_or(|horizon| *horizon > now_ms) {
                return Err(format!(
                    "the tombstone of {key:?} at {newest} went before its time {:?}, at {now_ms}",
                    self.horizons.get(&newest)
                ));
            }
        }
        Ok(())
    }

    /// After a cleaning up to `to`, that began and ended at these times: nothing old is left, and horizons are as they were.
    pub fn check_cleaned(
        &mut self,
        found: &[Found],
        to: i64,
        (began, ended): (i64, i64),
        retention_ms: i64,
    ) -> Result<(), String> {
        let mut newest: HashMap<&[u8], i64> = HashMap::new();
        for (offset, record) in self.records[..to as usize].iter().enumerate() {
            if let Some(key) = &record.key {
                newest.insert(key, offset as i64);
            }
        }
        for record in found.iter().filter(|record| record.offset < to) {
            let Some(key) = &record.record.key else {
                return Err(format!("a record without a key stays at {}", record.offset));
            };
            if newest[&key[..]] != record.offset {
                return Err(format!(
                    "an old record of {key:?} stays at {}, below {to}",
                    record.offset
                ));
            }
            if record.record.value.is_some() {
                continue;
            }
            let Some(horizon) = record.horizon else {
                return Err(format!("the tombstone at {} has no horizon", record.offset));
            };
            match self.horizons.get(&record.offset) {
                Some(known) if *known != horizon => {
                    return Err(format!("the horizon at {} moved", record.offset));
                }
                Some(known) if *known <= began => {
                    return Err(format!("the tombstone at {} outlives its horizon", record.offset));
                }
                Some(_) => {}
                None => {
                    // Its batch may have met an earlier cleaning, up to another of its records.
                    if horizon > ended + retention_ms {
                        return Err(format!("horizon {horizon} at {} is too late", record.offset));
                    }
                    self.horizons.insert(record.offset, horizon);
                }
            }
        }
        // The map may have ended inside a batch: what stands behind has the batch's horizon too.
        for record in found.iter().filter(|record| record.record.value.is_none()) {
            if let Some(horizon) = record.horizon {
                self.horizons.entry(record.offset).or_insert(horizon);
            }
        }
        Ok(())
    }
}
