//! The file of captured traffic: a line that names the format, a line of JSON (the header), and a section of bytes for each partition.
//!
//! A record is three or four numbers, each a varint (seven bits a byte, the lowest first): microseconds since the record before it in the
//! partition, bytes of the value, the number of the key plus one (0 for none), and with a key its length.

use super::{Captured, CapturedKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

/// The first line.
const MAGIC: &str = "strandline-workload 1";

/// No header is longer: a hundred thousand partitions have room in it.
const HEADER_BYTES_MAX: u64 = 16 << 20;

/// What a capture keeps at most: ten minutes of 300,000 records a second.
pub(super) const BYTES_MAX: usize = 1 << 30;

/// What a workload says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Where it was captured.
    pub topic: String,
    /// When, in ms since 1970.
    pub captured_at_ms: i64,
    /// For how long.
    pub duration_us: u64,
    /// Partitions of the topic.
    pub partitions: i32,
    /// Records of all partitions.
    pub records: u64,
    /// Bytes of their values together.
    pub value_bytes: u64,
    /// Records without a key.
    pub without_key: u64,
    /// Keys that were told apart.
    pub keys: u64,
    /// The codec of most batches.
    pub codec: String,
    /// How much of the values compression saved, 0 to 1; 0 when nothing was compressed.
    pub compressibility: f64,
    /// Records whose own time was far from now, which count from when they were received.
    pub received_times: u64,
    /// The partitions that had records.
    pub sections: Vec<Section>,
    /// XXH3-64 of all sections, in hexadecimal.
    pub checksum: String,
}

/// The records of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// Its number.
    pub partition: i32,
    /// How many records it has.
    pub records: u64,
    /// How many bytes they take in the file.
    pub bytes: u64,
}

/// Why a file is no workload.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The file could not be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("this is no captured workload: its first line is not `{MAGIC}`")]
    Foreign,
    /// Its second line is not understood.
    #[error("the header of the workload is not understood: {0}")]
    Header(String),
    /// It was cut or changed.
    #[error("the workload is damaged: its records do not match its header")]
    Damaged,
}

/// Collects records by partition.
#[derive(Debug, Default)]
pub(super) struct Writer {
    sections: BTreeMap<i32, (Section, Vec<u8>, u64)>,
    bytes: usize,
    value_bytes: u64,
    without_key: u64,
}

impl Writer {
    /// Adds a record of `partition`. One that is earlier than the one before it counts as of the same time.
    pub(super) fn record(&mut self, partition: i32, record: &Captured) {
        let (section, bytes, last_us) = self.sections.entry(partition).or_insert_with(|| {
            let section = Section {
                partition,
                ..Section::default()
            };
            (section, Vec::new(), 0)
        });
        let before = bytes.len();
        put_varint(bytes, record.at_us.saturating_sub(*last_us));
        *last_us = record.at_us.max(*last_us);
        put_varint(bytes, record.value_bytes as u64);
        match record.key {
            None => {
                put_varint(bytes, 0);
                self.without_key += 1;
            }
            Some(key) => {
                put_varint(bytes, key.number + 1);
                put_varint(bytes, key.bytes as u64);
            }
        }
        section.records += 1;
        self.bytes += bytes.len() - before;
        self.value_bytes += record.value_bytes as u64;
    }

    /// Whether nothing more fits.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= BYTES_MAX
    }

    /// How many records there are.
    pub(super) fn records(&self) -> u64 {
        self.sections.values().map(|(section, ..)| section.records).sum()
    }

    /// Writes the file; what `header` says of records is filled in here.
    pub(super) fn write(&self, path: &Path, mut header: Header) -> Result<Header, WorkloadError> {
        let mut checksum = Xxh3::new();
        for (section, bytes, _) in self.sections.values() {
            checksum.update(bytes);
            header.sections.push(Section {
                bytes: bytes.len() as u64,
                ..section.clone()
            });
        }
        // A record that bears the last millisecond may lie a moment after the end of the capture.
        let last_us = self.sections.values().map(|(_, _, last_us)| last_us + 1).max();
        header.duration_us = header.duration_us.max(last_us.unwrap_or(0));
        header.records = self.records();
        header.value_bytes = self.value_bytes;
        header.without_key = self.without_key;
        header.checksum = format!("{:016x}", checksum.digest());
        let mut out = BufWriter::new(File::create(path)?);
        writeln!(out, "{MAGIC}")?;
        serde_json::to_writer(&mut out, &header).map_err(io::Error::from)?;
        writeln!(out)?;
        for (_, bytes, _) in self.sections.values() {
            out.write_all(bytes)?;
        }
        out.flush()?;
        Ok(header)
    }
}

/// Reads a file: its header, and the bytes of its sections.
pub(super) fn read(path: &Path) -> Result<(Header, Vec<Vec<u8>>), WorkloadError> {
    let mut file = BufReader::new(File::open(path)?);
    let header = read_header(&mut file)?;
    let mut checksum = Xxh3::new();
    let mut sections = Vec::with_capacity(header.sections.len());
    let mut records = 0_u64;
    for section in &header.sections {
        let mut bytes = Vec::new();
        // Not allocated ahead: what a damaged header promises may not be there.
        (&mut file).take(section.bytes).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != section.bytes {
            return Err(WorkloadError::Damaged);
        }
        checksum.update(&bytes);
        records = records.saturating_add(section.records);
        sections.push(bytes);
    }
    let known = format!("{:016x}", checksum.digest()) == header.checksum;
    if !known || records != header.records || !file.fill_buf()?.is_empty() {
        return Err(WorkloadError::Damaged);
    }
    Ok((header, sections))
}

/// Reads the header of a file alone.
pub(super) fn header_of(path: &Path) -> Result<Header, WorkloadError> {
    read_header(&mut BufReader::new(File::open(path)?))
}

fn read_header(file: &mut impl BufRead) -> Result<Header, WorkloadError> {
    let mut line = Vec::new();
    file.take(MAGIC.len() as u64 + 1).read_until(b'\n', &mut line)?;
    if line.strip_suffix(b"\n") != Some(MAGIC.as_bytes()) {
        return Err(WorkloadError::Foreign);
    }
    line.clear();
    file.take(HEADER_BYTES_MAX).read_until(b'\n', &mut line)?;
    let header: Header =
        serde_json::from_slice(&line).map_err(|error| WorkloadError::Header(error.to_string()))?;
    if header.partitions < 1
        || header
            .sections
            .iter()
            .any(|section| !(0..header.partitions).contains(&section.partition))
    {
        return Err(WorkloadError::Header("its partitions are impossible".to_owned()));
    }
    Ok(header)
}

/// Takes the next record off `bytes`; `None` at the end, and where there is none.
#[inline]
pub(super) fn next_record(bytes: &mut &[u8], before_us: u64) -> Option<Captured> {
    let at_us = before_us.checked_add(take_varint(bytes)?)?;
    let value_bytes = usize::try_from(take_varint(bytes)?).ok()?;
    let key = match take_varint(bytes)? {
        0 => None,
        number => Some(CapturedKey {
            number: number - 1,
            bytes: usize::try_from(take_varint(bytes)?).ok()?,
        }),
    };
    let possible = at_us < u64::MAX / 1_000_000
        && value_bytes <= crate::sizes::RECORD_BYTES_MAX
        && key.is_none_or(|key| key.bytes <= crate::sizes::RECORD_BYTES_MAX);
    possible.then_some(Captured {
        at_us,
        value_bytes,
        key,
    })
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_read_back_and_endless_ones_are_none() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut rest = &bytes[..];
            assert_eq!((take_varint(&mut rest), rest.len()), (Some(value), 0));
        }
        assert_eq!(take_varint(&mut &[0x80; 11][..]), None);
        assert_eq!(take_varint(&mut &[0x80][..]), None);
    }

    #[test]
    fn what_is_no_workload_or_was_changed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.workload");
        let mut writer = Writer::default();
        for n in 0..50 {
            let record = Captured {
                at_us: n * 1000,
                value_bytes: 200,
                key: Some(CapturedKey { number: n, bytes: 5 }),
            };
            writer.record((n % 3) as i32, &record);
        }
        let header = Header {
            partitions: 3,
            duration_us: 50_000,
            ..Header::default()
        };
        let written = writer.write(&path, header).unwrap();
        assert_eq!(
            (written.records, written.value_bytes, written.without_key),
            (50, 10_000, 0)
        );
        assert_eq!(read(&path).unwrap().0, written);
        assert_eq!(header_of(&path).unwrap(), written);

        let good = std::fs::read(&path).unwrap();
        let refused = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            super::super::Workload::load(&path).unwrap_err()
        };
        assert!(matches!(refused(b"rate = 5"), WorkloadError::Foreign));
        assert!(matches!(refused(b""), WorkloadError::Foreign));
        assert!(matches!(
            refused(&good[..MAGIC.len() + 10]),
            WorkloadError::Header(_)
        ));
        assert!(matches!(refused(&good[..good.len() - 1]), WorkloadError::Damaged));
        assert!(matches!(
            refused(&[&good[..], b"x"].concat()),
            WorkloadError::Damaged
        ));
        let mut changed = good.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert!(matches!(refused(&changed), WorkloadError::Damaged));
        let text = String::from_utf8_lossy(&good).replace("\"partitions\":3", "\"partitions\":2");
        assert!(matches!(refused(text.as_bytes()), WorkloadError::Header(_)));
    }
}
