//! Captured traffic: when records came, how large they were, which keys were the same, and to which partitions they went. No payloads and no
//! keys: of a key only its number and its length are kept.

mod capture;
mod format;

pub use capture::{execute as capture, show};
pub use format::{Header, Section, WorkloadError};

use crate::clock::{Nanos, SECOND};
use crate::payload::HEADER_BYTES;
use crate::schedule::IntegratedRate;
use crate::sizes::Sizes;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The steps in which the rate of captured traffic is known.
const BIN: Nanos = SECOND / 10;

/// Captured traffic in memory, checked.
pub struct Workload {
    header: Header,
    /// The bytes of each section of the header.
    sections: Vec<Vec<u8>>,
    /// Of each section, how many records came before the end of each [`BIN`].
    cumulated: Vec<Vec<u64>>,
    largest_value: usize,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    /// When it came, in microseconds since the capture began.
    pub at_us: u64,
    /// Bytes of its value.
    pub value_bytes: usize,
    /// Its key, if it had one.
    pub key: Option<CapturedKey>,
}

/// A key without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedKey {
    /// The same for the same key.
    pub number: u64,
    /// Its length in bytes.
    pub bytes: usize,
}

impl CapturedKey {
    /// A key of that length, made from the number: the low bytes are told apart where it has fewer than eight.
    pub fn fill(&self, out: &mut Vec<u8>) {
        out.clear();
        let number = self.number.to_le_bytes();
        out.extend(number.iter().cycle().take(self.bytes));
    }
}

/// The options of `run` that replay the file.
pub fn options(path: &Path) -> Result<Vec<String>, WorkloadError> {
    let header = format::header_of(path)?;
    let name = path
        .file_stem()
        .map_or_else(|| "workload".into(), |stem| stem.to_string_lossy());
    Ok(vec![
        format!("--workload={}", path.display()),
        "--rate=captured".to_owned(),
        format!("--partitions={}", header.partitions),
        format!("--compression-type={}", header.codec),
        format!("--compressibility={}", header.compressibility),
        format!("--name={name}"),
    ])
}

impl Workload {
    /// Reads a file and checks all of it.
    pub fn load(path: &Path) -> Result<Arc<Self>, WorkloadError> {
        let (header, sections) = format::read(path)?;
        let mut cumulated = Vec::with_capacity(sections.len());
        let mut largest_value = HEADER_BYTES;
        for (section, bytes) in header.sections.iter().zip(&sections) {
            let mut bins: Vec<u64> = Vec::new();
            let mut rest = &bytes[..];
            let mut before = 0;
            for count in 1..=section.records {
                let record = format::next_record(&mut rest, before).ok_or(WorkloadError::Damaged)?;
                before = record.at_us;
                largest_value = largest_value.max(record.value_bytes);
                let bin = (record.at_us * 1000 / BIN) as usize;
                let filled = count - 1;
                if bin >= bins.len() {
                    bins.resize(bin + 1, filled);
                }
                bins[bin] = count;
            }
            if !rest.is_empty() {
                return Err(WorkloadError::Damaged);
            }
            cumulated.push(bins);
        }
        Ok(Arc::new(Self {
            header,
            sections,
            cumulated,
            largest_value,
        }))
    }

    /// What the file says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The sizes as reports name them: each record has its own.
    pub fn sizes(&self) -> Sizes {
        let mean = if self.header.records == 0 {
            HEADER_BYTES as f64
        } else {
            self.header.value_bytes as f64 / self.header.records as f64
        };
        Sizes::Captured {
            mean: mean.max(HEADER_BYTES as f64),
            max: self.largest_value,
        }
    }

    /// The rate over time, `scale` times as fast as it was.
    pub fn rate(&self, scale: f64) -> IntegratedRate {
        let bins = (self.header.duration_us * 1000).div_ceil(BIN) as usize;
        let mut counts = vec![0_u64; bins.max(1)];
        for cumulated in &self.cumulated {
            let mut before = 0;
            for (bin, &count) in cumulated.iter().enumerate() {
                let last = counts.len() - 1;
                counts[bin.min(last)] += count - before;
                before = count;
            }
        }
        IntegratedRate::from_counts(BIN as f64 / SECOND as f64 / scale, &counts)
    }

    /// How long it lasts, `scale` times as fast as it was.
    pub fn duration(&self, scale: f64) -> std::time::Duration {
        std::time::Duration::from_secs_f64(self.header.duration_us as f64 / 1e6 / scale)
    }
}

impl fmt::Debug for Workload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Workload")
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

/// One sender's records of one partition, in their order.
#[derive(Clone, Debug)]
pub struct Cursor {
    workload: Arc<Workload>,
    section: Option<usize>,
    scale: f64,
    /// Of every `of` records the one at `index` is this sender's.
    index: u64,
    of: u64,
    /// Where in the section's bytes the record after `next` begins.
    at: usize,
    /// Its number.
    number: u64,
    next: Option<Captured>,
    /// The time of the record before, whose difference is stored.
    before_us: u64,
}

impl Cursor {
    /// The records of `partition` that fall to sender `index` of `of`.
    pub fn new(workload: &Arc<Workload>, partition: i32, (index, of): (u32, u32), scale: f64) -> Self {
        let section = workload
            .header
            .sections
            .iter()
            .position(|section| section.partition == partition);
        let mut cursor = Self {
            workload: Arc::clone(workload),
            section,
            scale,
            index: u64::from(index),
            of: u64::from(of),
            at: 0,
            number: 0,
            next: None,
            before_us: 0,
        };
        cursor.advance();
        cursor
    }

    /// The next record.
    #[inline]
    pub fn peek(&self) -> Option<Captured> {
        self.next
    }

    /// When it is intended, from the start of the schedule.
    #[inline]
    pub fn due(&self) -> Option<Nanos> {
        self.next.map(|record| self.nanos(record.at_us))
    }

    fn nanos(&self, at_us: u64) -> Nanos {
        (at_us as f64 * 1000.0 / self.scale).round() as Nanos
    }

    /// Moves on to the next record of this sender.
    pub fn advance(&mut self) {
        self.next = None;
        let Some(section) = self.section else { return };
        loop {
            let mut rest = &self.workload.sections[section][self.at..];
            let Some(record) = format::next_record(&mut rest, self.before_us) else {
                return;
            };
            let mine = self.number % self.of == self.index;
            self.at = self.workload.sections[section].len() - rest.len();
            self.before_us = record.at_us;
            self.number += 1;
            if mine {
                self.next = Some(record);
                return;
            }
        }
    }

    /// About how many records of this sender are intended before `now`; exact at multiples of the steps in which the rate is known, and at
    /// the end.
    pub fn due_before(&self, now: Nanos) -> u64 {
        let Some(bins) = self.section.map(|section| &self.workload.cumulated[section]) else {
            return 0;
        };
        let at = now as f64 * self.scale / BIN as f64;
        let bin = at as usize;
        let all = bins.last().copied().unwrap_or(0);
        let until = |bin: Option<usize>| match bin {
            None => 0,
            Some(bin) => bins.get(bin).copied().unwrap_or(all),
        };
        let (from, to) = (until(bin.checked_sub(1)), until(Some(bin)));
        let count = from + ((to - from) as f64 * (at - bin as f64)) as u64;
        (count + self.of - 1).saturating_sub(self.index) / self.of
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::Writer;

    fn workload(records: &[(i32, Captured)]) -> Arc<Workload> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.workload");
        let mut writer = Writer::default();
        for (partition, record) in records {
            writer.record(*partition, record);
        }
        let header = Header {
            duration_us: 1_000_000,
            partitions: 2,
            ..Header::default()
        };
        writer.write(&path, header).unwrap();
        Workload::load(&path).unwrap()
    }

    fn record(at_us: u64, value_bytes: usize, number: u64) -> Captured {
        Captured {
            at_us,
            value_bytes,
            key: (number > 0).then_some(CapturedKey { number, bytes: 4 }),
        }
    }

    #[test]
    fn what_was_written_is_replayed_by_its_senders_in_order() {
        let of_one: Vec<Captured> = (0..100)
            .map(|n| record(n * 7_000, 100 + n as usize, n % 3))
            .collect();
        let mut all: Vec<(i32, Captured)> = of_one.iter().map(|record| (1, *record)).collect();
        all.push((0, record(500_000, 5_000, 1)));
        let workload = workload(&all);
        assert_eq!(workload.header().records, 101);
        assert_eq!(workload.header().value_bytes, 100 * 100 + 99 * 50 + 5_000);
        assert_eq!(workload.sizes().max(), 5_000);

        let mut seen = Vec::new();
        let mut cursors = [0, 1, 2].map(|index| Cursor::new(&workload, 1, (index, 3), 2.0));
        assert_eq!(cursors[1].due(), Some(7_000 * 1000 / 2), "twice as fast");
        for (index, cursor) in cursors.iter_mut().enumerate() {
            assert_eq!(cursor.due_before(SECOND), if index == 0 { 34 } else { 33 });
            while let Some(record) = cursor.peek() {
                seen.push(record);
                cursor.advance();
            }
        }
        seen.sort_by_key(|record| record.at_us);
        assert_eq!(seen, of_one);
        assert_eq!(Cursor::new(&workload, 7, (0, 1), 1.0).peek(), None);
    }

    #[test]
    fn the_rate_is_that_of_the_records() {
        let workload = workload(&[
            (0, record(0, 100, 0)),
            (0, record(99_000, 100, 0)),
            (1, record(250_000, 100, 0)),
            (0, record(999_999, 100, 0)),
        ]);
        let rate = workload.rate(1.0);
        assert_eq!(rate.count_at(SECOND / 10), 2.0);
        assert_eq!(rate.count_at(3 * SECOND / 10).round(), 3.0);
        assert_eq!(rate.count_at(SECOND).round(), 4.0);
        assert_eq!(workload.rate(4.0).count_at(SECOND / 4).round(), 4.0);
        let cursor = Cursor::new(&workload, 0, (0, 1), 1.0);
        assert_eq!((cursor.due_before(0), cursor.due_before(SECOND / 10)), (0, 2));
        assert_eq!((cursor.due_before(SECOND), cursor.due_before(9 * SECOND)), (3, 3));
    }

    #[test]
    fn keys_have_their_length_and_are_told_apart() {
        let mut key = Vec::new();
        CapturedKey {
            number: 258,
            bytes: 3,
        }
        .fill(&mut key);
        assert_eq!(key, [2, 1, 0]);
        CapturedKey { number: 1, bytes: 12 }.fill(&mut key);
        assert_eq!(key, [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        CapturedKey { number: 1, bytes: 0 }.fill(&mut key);
        assert!(key.is_empty());
    }
}
