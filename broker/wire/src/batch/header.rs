//! The 61 bytes before the records.
//!
//! | at | bytes | field |
//! |---|---|---|
//! | 0 | 8 | base offset |
//! | 8 | 4 | batch length: the bytes after this field |
//! | 12 | 4 | partition leader epoch |
//! | 16 | 1 | magic, 2 |
//! | 17 | 4 | CRC32C of everything after this field |
//! | 21 | 2 | attributes: bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon |
//! | 23 | 4 | last offset delta |
//! | 27 | 8 | base timestamp (with bit 6: the delete horizon) |
//! | 35 | 8 | maximum timestamp |
//! | 43 | 8 | producer id |
//! | 51 | 2 | producer epoch |
//! | 53 | 4 | base sequence |
//! | 57 | 4 | record count |
//!
//! Base offset and leader epoch stand before the CRC, so a broker sets them without computing it anew.

use super::{BatchError, BatchErrorKind, Codec};

/// Bytes of the header.
pub const HEADER_SIZE: usize = 61;
/// Bytes before those that the batch length counts: base offset and the length itself.
pub const LOG_OVERHEAD: usize = 12;
/// The magic of record batches; older message sets are not served.
pub const MAGIC: i8 = 2;
/// The producer id of a batch without one.
pub const NO_PRODUCER_ID: i64 = -1;
/// The producer epoch of a batch without one.
pub const NO_PRODUCER_EPOCH: i16 = -1;
/// The sequence of a batch without one.
pub const NO_SEQUENCE: i32 = -1;
/// The timestamp of a record without one.
pub const NO_TIMESTAMP: i64 = -1;
/// The leader epoch of a batch that no leader has appended.
pub const NO_LEADER_EPOCH: i32 = -1;

pub(crate) const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
const ATTRIBUTES_AT: usize = 21;

const CODEC_MASK: i16 = 0x07;
const LOG_APPEND_TIME: i16 = 0x08;
const TRANSACTIONAL: i16 = 0x10;
const CONTROL: i16 = 0x20;
const DELETE_HORIZON: i16 = 0x40;

/// Who sets the timestamps of a topic's records (`message.timestamp.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum TimestampType {
    /// The producer.
    #[default]
    CreateTime,
    /// The broker, at the append: one timestamp a batch, in its maximum.
    LogAppendTime,
}

/// The decoded header of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The offset of the first record. Producers send 0; the leader sets it.
    pub base_offset: i64,
    /// The bytes after this field.
    pub batch_length: i32,
    /// The epoch of the leader that appended it; -1 from producers.
    pub partition_leader_epoch: i32,
    /// The format, always 2 here.
    pub magic: i8,
    /// CRC32C of the bytes from the attributes on.
    pub crc: u32,
    /// Codec and flags, see the helpers.
    pub attributes: i16,
    /// The last record's offset less the base offset. Stays when compaction removes records.
    pub last_offset_delta: i32,
    /// The first record's timestamp, or the delete horizon when that bit is set.
    pub base_timestamp: i64,
    /// The largest timestamp, or the append time.
    pub max_timestamp: i64,
    /// The idempotent producer, or -1.
    pub producer_id: i64,
    /// Its epoch, or -1.
    pub producer_epoch: i16,
    /// The sequence of the first record, or -1.
    pub base_sequence: i32,
    /// The number of records.
    pub record_count: i32,
}

impl BatchHeader {
    /// Decodes the header at the start of `bytes`. Checks nothing but that the bytes are there and the magic is 2: the
    /// length may claim more than `bytes` holds.
    pub fn decode(bytes: &[u8]) -> Result<Self, BatchError> {
        let Some(header) = bytes.first_chunk::<HEADER_SIZE>() else {
            let message = format!(
                "a batch of {} bytes is shorter than its header of {HEADER_SIZE}",
                bytes.len()
            );
            return Err(BatchError::corrupt(message));
        };
        let magic = header[MAGIC_AT] as i8;
        if magic != MAGIC {
            let message = format!("record format {magic} is not supported, only {MAGIC}");
            return Err(BatchError::new(BatchErrorKind::UnsupportedMagic, message));
        }
        Ok(BatchHeader {
            base_offset: i64::from_be_bytes(field(header, 0)),
            batch_length: i32::from_be_bytes(field(header, 8)),
            partition_leader_epoch: i32::from_be_bytes(field(header, 12)),
            magic,
            crc: u32::from_be_bytes(field(header, CRC_AT)),
            attributes: i16::from_be_bytes(field(header, ATTRIBUTES_AT)),
            last_offset_delta: i32::from_be_bytes(field(header, 23)),
            base_timestamp: i64::from_be_bytes(field(header, 27)),
            max_timestamp: i64::from_be_bytes(field(header, 35)),
            producer_id: i64::from_be_bytes(field(header, 43)),
            producer_epoch: i16::from_be_bytes(field(header, 51)),
            base_sequence: i32::from_be_bytes(field(header, 53)),
            record_count: i32::from_be_bytes(field(header, 57)),
        })
    }

    /// Writes the header over the first [`HEADER_SIZE`] bytes of `bytes`, the CRC as it stands in `self`.
    ///
    /// # Panics
    /// When `bytes` is shorter than the header.
    pub fn encode_into(&self, bytes: &mut [u8]) {
        let header = &mut bytes[..HEADER_SIZE];
        header[0..8].copy_from_slice(&self.base_offset.to_be_bytes());
        header[8..12].copy_from_slice(&self.batch_length.to_be_bytes());
        header[12..16].copy_from_slice(&self.partition_leader_epoch.to_be_bytes());
        header[MAGIC_AT] = self.magic as u8;
        header[17..21].copy_from_slice(&self.crc.to_be_bytes());
        header[21..23].copy_from_slice(&self.attributes.to_be_bytes());
        header[23..27].copy_from_slice(&self.last_offset_delta.to_be_bytes());
        header[27..35].copy_from_slice(&self.base_timestamp.to_be_bytes());
        header[35..43].copy_from_slice(&self.max_timestamp.to_be_bytes());
        header[43..51].copy_from_slice(&self.producer_id.to_be_bytes());
        header[51..53].copy_from_slice(&self.producer_epoch.to_be_bytes());
        header[53..57].copy_from_slice(&self.base_sequence.to_be_bytes());
        header[57..61].copy_from_slice(&self.record_count.to_be_bytes());
    }

    /// The bytes of the whole batch, header included. `None` when the length is below a header's rest.
    pub fn size(&self) -> Option<usize> {
        let size = usize::try_from(self.batch_length)
            .ok()?
            .checked_add(LOG_OVERHEAD)?;
        (size >= HEADER_SIZE).then_some(size)
    }

    /// The offset of the last record.
    pub fn last_offset(&self) -> i64 {
        self.base_offset.wrapping_add(i64::from(self.last_offset_delta))
    }

    /// The sequence of the last record: sequences wrap to 0 after `i32::MAX`. -1 without a producer.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence == NO_SEQUENCE {
            return NO_SEQUENCE;
        }
        ((i64::from(self.base_sequence) + i64::from(self.last_offset_delta)) & i64::from(i32::MAX)) as i32
    }

    /// The codec of the records, `None` when the number is none of Kafka's.
    pub fn codec(&self) -> Option<Codec> {
        Codec::from_id((self.attributes & CODEC_MASK) as u8)
    }

    /// Sets the codec bits.
    pub fn set_codec(&mut self, codec: Codec) {
        self.attributes = (self.attributes & !CODEC_MASK) | i16::from(codec.id());
    }

    /// True when the broker set the timestamp: [`BatchHeader::max_timestamp`] is then every record's.
    pub fn is_log_append_time(&self) -> bool {
        self.attributes & LOG_APPEND_TIME != 0
    }

    /// The timestamp type bit.
    pub fn timestamp_type(&self) -> TimestampType {
        if self.is_log_append_time() {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        }
    }

    /// The timestamp of a record with this delta.
    pub fn timestamp_of(&self, timestamp_delta: i64) -> i64 {
        if self.is_log_append_time() {
            self.max_timestamp
        } else {
            self.base_timestamp.wrapping_add(timestamp_delta)
        }
    }

    /// Sets the timestamp type bit.
    pub fn set_timestamp_type(&mut self, timestamp_type: TimestampType) {
        match timestamp_type {
            TimestampType::CreateTime => self.attributes &= !LOG_APPEND_TIME,
            TimestampType::LogAppendTime => self.attributes |= LOG_APPEND_TIME,
        }
    }

    /// True for a batch inside a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    /// Sets the transactional bit.
    pub fn set_transactional(&mut self, transactional: bool) {
        self.attributes = (self.attributes & !TRANSACTIONAL) | if transactional { TRANSACTIONAL } else { 0 };
    }

    /// True for a batch that the broker wrote for itself (transaction markers).
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    /// Sets the control bit.
    pub fn set_control(&mut self, control: bool) {
        self.attributes = (self.attributes & !CONTROL) | if control { CONTROL } else { 0 };
    }

    /// True when compaction has stamped the delete horizon into the base timestamp (KIP-534).
    pub fn has_delete_horizon(&self) -> bool {
        self.attributes & DELETE_HORIZON != 0
    }

    /// From when on compaction may drop the batch's tombstones; `None` before it has met them.
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        self.has_delete_horizon().then_some(self.base_timestamp)
    }

    /// Stamps the delete horizon; the records' timestamps are relative to it from then on.
    pub fn set_delete_horizon(&mut self, horizon_ms: i64) {
        self.attributes |= DELETE_HORIZON;
        self.base_timestamp = horizon_ms;
    }

    pub(crate) fn clear_delete_horizon(&mut self) {
        self.attributes &= !DELETE_HORIZON;
    }

    /// True for a batch of an idempotent or transactional producer.
    pub fn has_producer_id(&self) -> bool {
        self.producer_id > NO_PRODUCER_ID
    }
}

/// `N` bytes of the header from `at`.
fn field<const N: usize>(header: &[u8; HEADER_SIZE], at: usize) -> [u8; N] {
    std::array::from_fn(|position| header[at + position])
}

/// True when the CRC in the header is that of the bytes after it. `batch` is exactly one batch.
pub fn check_crc(batch: &[u8]) -> bool {
    match batch.get(CRC_AT..ATTRIBUTES_AT) {
        Some(stored) => stored == crc32c::crc32c(&batch[ATTRIBUTES_AT..]).to_be_bytes(),
        None => false,
    }
}

/// Sets the base offset; the CRC does not cover it.
///
/// # Panics
/// When `batch` is shorter than a header.
pub fn set_base_offset(batch: &mut [u8], base_offset: i64) {
    assert!(batch.len() >= HEADER_SIZE, "a batch has a header");
    batch[0..8].copy_from_slice(&base_offset.to_be_bytes());
}

/// Sets the leader epoch; the CRC does not cover it.
///
/// # Panics
/// When `batch` is shorter than a header.
pub fn set_leader_epoch(batch: &mut [u8], leader_epoch: i32) {
    assert!(batch.len() >= HEADER_SIZE, "a batch has a header");
    batch[12..16].copy_from_slice(&leader_epoch.to_be_bytes());
}

/// Writes a changed header, and computes the CRC of what then stands after it a part at a time: of a large batch it takes long.
pub(crate) struct Recrc {
    at: usize,
    crc: u32,
}

impl Recrc {
    /// # Panics
    /// When `batch` is shorter than a header.
    pub(crate) fn begin(batch: &mut [u8], header: &BatchHeader) -> Self {
        header.encode_into(batch);
        Self {
            at: ATTRIBUTES_AT,
            crc: 0,
        }
    }

    /// Goes over at most `bytes` more; the CRC, once it is written.
    pub(crate) fn advance(&mut self, batch: &mut [u8], bytes: usize) -> Option<u32> {
        let to = batch.len().min(self.at.saturating_add(bytes));
        self.crc = crc32c::crc32c_append(self.crc, &batch[self.at..to]);
        self.at = to;
        (to == batch.len()).then(|| {
            batch[CRC_AT..ATTRIBUTES_AT].copy_from_slice(&self.crc.to_be_bytes());
            self.crc
        })
    }
}

/// Writes a changed header and the CRC of what then stands after it. Returns the CRC.
///
/// # Panics
/// When `batch` is shorter than a header.
pub fn patch_and_recrc(batch: &mut [u8], header: &BatchHeader) -> u32 {
    header.encode_into(batch);
    let crc = crc32c::crc32c(&batch[ATTRIBUTES_AT..]);
    batch[CRC_AT..ATTRIBUTES_AT].copy_from_slice(&crc.to_be_bytes());
    crc
}
