//! Validating a produced batch as Kafka does.
//!
//! The batch that needs no change costs one CRC and one walk, and no allocation. What differs from Kafka is stricter, where
//! Kafka would store what clients or the log later stumble over: bytes after the batch, an append-time bit set by a client,
//! a delete horizon, a transactional batch without a producer id; and wrong offset deltas of an *uncompressed* batch are
//! rewritten too, not only those of a compressed one.

use std::borrow::Cow;

use super::header::{HEADER_SIZE, LOG_OVERHEAD, MAGIC, MAGIC_AT, NO_TIMESTAMP, check_crc, patch_and_recrc};
use super::rewrite::Rewrite;
use super::walk::{RecordShape, Walk, codec};
use super::{
    BatchError, BatchErrorKind, BatchHeader, Codec, Compression, RecordError, TimestampType, TopicCompression,
};

/// What a topic (and the request) ask of a produced batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidationRules {
    /// The broker's clock, milliseconds.
    pub now_ms: i64,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`.
    pub before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub after_max_ms: i64,
    /// `max.message.bytes`: the batch as sent, and as stored.
    pub max_message_bytes: usize,
    /// `compression.type`.
    pub compression: TopicCompression,
    /// `cleanup.policy` includes `compact`: every record needs a key.
    pub compacted: bool,
    /// `strandline.decompressed.batch.max.bytes`.
    pub decompressed_max_bytes: usize,
    /// False for Produce below version 7.
    pub zstd_allowed: bool,
}

impl Default for ValidationRules {
    /// Kafka's topic defaults, at time 0.
    fn default() -> Self {
        ValidationRules {
            now_ms: 0,
            timestamp_type: TimestampType::CreateTime,
            before_max_ms: i64::MAX,
            after_max_ms: 3_600_000,
            max_message_bytes: 1_048_588,
            compression: TopicCompression::Producer,
            compacted: false,
            decompressed_max_bytes: 100 << 20,
            zstd_allowed: true,
        }
    }
}

/// A batch that may be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedBatch<'a> {
    /// The batch: as sent, or rewritten (then its header is already `header`, CRC included).
    pub bytes: Cow<'a, [u8]>,
    /// The header as it shall be stored; base offset and leader epoch are still as sent.
    pub header: BatchHeader,
    /// True when `header` differs from the one in `bytes`: after the copy, [`super::patch_and_recrc`] is needed. Until then
    /// `header.crc` is the one as sent.
    pub header_changed: bool,
    /// The offset delta of the first record with the largest timestamp (0 with append time).
    pub offset_of_max_timestamp: i32,
}

impl ValidatedBatch<'_> {
    /// Gives a batch of a topic with append time a later time of append than that of its validation.
    pub fn set_append_time(&mut self, now_ms: i64) {
        assert!(
            self.header.is_log_append_time(),
            "its records have times of their own"
        );
        self.header.max_timestamp = now_ms;
        match &mut self.bytes {
            Cow::Borrowed(_) => self.header_changed = true,
            Cow::Owned(bytes) => self.header.crc = patch_and_recrc(bytes, &self.header),
        }
    }
}

/// Validates a produced record set, which must be exactly one batch, and says how it shall be stored.
///
/// What Kafka checks, in its order: one whole batch of magic 2, base offset 0, size, CRC; counts, flags and producer
/// fields; then every record. The maximum timestamp as sent is never trusted.
pub fn validate<'a>(batch: &'a [u8], rules: &ValidationRules) -> Result<ValidatedBatch<'a>, BatchError> {
    let mut validation = Validation::new(batch, rules)?;
    loop {
        if let Some(validated) = validation.advance(usize::MAX)? {
            return Ok(validated);
        }
    }
}

/// A validation that goes a step at a time, so that a batch which unpacks to much holds nobody up.
pub struct Validation<'a> {
    batch: &'a [u8],
    rules: ValidationRules,
    header: BatchHeader,
    codec: Codec,
    findings: Findings,
    stage: Stage<'a>,
}

enum Stage<'a> {
    Walk(Walk<'a>),
    Rewrite(Box<Rewrite<'a>>),
    Done,
}

impl<'a> Validation<'a> {
    /// Looks at everything but the records; see [`validate`].
    pub fn new(batch: &'a [u8], rules: &ValidationRules) -> Result<Self, BatchError> {
        let header = check_bounds(batch, rules)?;
        let codec = check_header(&header, rules)?;
        let walk = Walk::new(&header, &batch[HEADER_SIZE..], rules.decompressed_max_bytes)?;
        Ok(Self {
            batch,
            rules: *rules,
            header,
            codec,
            findings: Findings::default(),
            stage: Stage::Walk(walk),
        })
    }

    /// Goes on for about `step_bytes` of unpacked records; the result, once there is one. Not to be called again after that.
    pub fn advance(&mut self, step_bytes: usize) -> Result<Option<ValidatedBatch<'a>>, BatchError> {
        match &mut self.stage {
            Stage::Walk(walk) => {
                let (findings, header, rules) = (&mut self.findings, &self.header, &self.rules);
                if walk.advance(step_bytes, |index, record| {
                    findings.add(header, rules, index, record)
                })? {
                    return self.walked();
                }
            }
            Stage::Rewrite(rewrite) => {
                if rewrite.advance(step_bytes)? {
                    return self.rewritten().map(Some);
                }
            }
            Stage::Done => {}
        }
        Ok(None)
    }

    /// All records are well formed: says how the batch shall be stored, or begins to write it anew.
    fn walked(&mut self) -> Result<Option<ValidatedBatch<'a>>, BatchError> {
        std::mem::take(&mut self.findings.refusal).into_result()?;
        let (rules, header) = (&self.rules, self.header);
        let mut stored = header;
        stored.set_timestamp_type(rules.timestamp_type);
        match rules.timestamp_type {
            TimestampType::CreateTime => stored.max_timestamp = self.findings.max_timestamp,
            TimestampType::LogAppendTime => {
                stored.max_timestamp = rules.now_ms;
                self.findings.offset_of_max_timestamp = 0;
            }
        }
        let target = match rules.compression {
            TopicCompression::Producer => Compression::from(self.codec),
            TopicCompression::Fixed(target) => target,
        };
        if target.codec == self.codec && self.findings.offsets_are_consecutive {
            self.stage = Stage::Done;
            return Ok(Some(ValidatedBatch {
                bytes: Cow::Borrowed(self.batch),
                header: stored,
                header_changed: stored != header,
                offset_of_max_timestamp: self.findings.offset_of_max_timestamp,
            }));
        }
        let data = &self.batch[HEADER_SIZE..];
        let (unpacked_max, size_max) = (rules.decompressed_max_bytes, rules.max_message_bytes);
        let rewrite = Rewrite::new(stored, data, target, unpacked_max, size_max)?;
        self.stage = Stage::Rewrite(Box::new(rewrite));
        Ok(None)
    }

    fn rewritten(&mut self) -> Result<ValidatedBatch<'a>, BatchError> {
        let Stage::Rewrite(rewrite) = std::mem::replace(&mut self.stage, Stage::Done) else {
            unreachable!("called while a batch is written anew");
        };
        let (bytes, header) = rewrite.finish()?;
        Ok(ValidatedBatch {
            bytes: Cow::Owned(bytes),
            header,
            header_changed: false,
            offset_of_max_timestamp: self.findings.offset_of_max_timestamp,
        })
    }
}

/// The least length that a message of the oldest format claims.
const LEGACY_LENGTH_MIN: i32 = 14;

/// The record set is one whole batch of magic 2, not too large and undamaged.
fn check_bounds(batch: &[u8], rules: &ValidationRules) -> Result<BatchHeader, BatchError> {
    if batch.is_empty() {
        return Err(BatchError::invalid(
            "the record set is empty: exactly one batch is needed",
        ));
    }
    if batch.len() < LOG_OVERHEAD {
        return Err(BatchError::invalid(
            "the record set is cut before its batch's length",
        ));
    }
    if let Some(length) = batch.get(8..LOG_OVERHEAD).and_then(|field| field.first_chunk()) {
        let length = i32::from_be_bytes(*length);
        if length < LEGACY_LENGTH_MIN {
            return Err(BatchError::corrupt(format!(
                "the batch claims a length of {length}, less than any format's"
            )));
        }
        // The magic stands at the same place in every format, so an old message set is told from a cut batch.
        match batch.get(MAGIC_AT).map(|magic| *magic as i8) {
            None => {
                return Err(BatchError::invalid(
                    "the record set is cut before its batch's magic",
                ));
            }
            Some(MAGIC) => {}
            Some(magic @ 0..MAGIC) => {
                let message = format!("the record set has format {magic}, only {MAGIC} is accepted");
                return Err(BatchError::new(BatchErrorKind::UnsupportedMagic, message));
            }
            Some(magic) => {
                return Err(BatchError::corrupt(format!(
                    "the record set has format {magic}, which does not exist"
                )));
            }
        }
        if length < (HEADER_SIZE - LOG_OVERHEAD) as i32 {
            return Err(BatchError::corrupt(format!(
                "the batch claims a length of {length}, less than its header's"
            )));
        }
        let size = length as usize + LOG_OVERHEAD;
        if size > batch.len() {
            let present = batch.len();
            return Err(BatchError::invalid(format!(
                "the batch claims {size} bytes, the record set has {present}"
            )));
        }
        if size > rules.max_message_bytes {
            let limit = rules.max_message_bytes;
            let message = format!("the batch has {size} bytes, more than max.message.bytes, {limit}");
            return Err(BatchError::new(BatchErrorKind::TooLarge, message));
        }
        if size < batch.len() {
            let extra = batch.len() - size;
            return Err(BatchError::invalid(format!(
                "{extra} bytes follow the batch: exactly one batch is needed"
            )));
        }
    }
    let header = BatchHeader::decode(batch)?;
    if !check_crc(batch) {
        return Err(BatchError::corrupt(format!(
            "the batch's CRC is not {:#010x} as it says",
            header.crc
        )));
    }
    Ok(header)
}

/// The header's fields fit together and claim nothing that a client may not.
fn check_header(header: &BatchHeader, rules: &ValidationRules) -> Result<Codec, BatchError> {
    let codec = codec(header)?;
    if codec == Codec::Zstd && !rules.zstd_allowed {
        let message = "zstd needs Produce version 7 or higher";
        return Err(BatchError::new(BatchErrorKind::UnsupportedCompression, message));
    }
    if header.base_offset != 0 {
        return Err(BatchError::invalid(format!(
            "the base offset is {}, not 0",
            header.base_offset
        )));
    }
    if header.record_count <= 0 {
        return Err(BatchError::invalid(format!(
            "the batch counts {} records",
            header.record_count
        )));
    }
    if header.last_offset_delta != header.record_count - 1 {
        let (delta, count) = (header.last_offset_delta, header.record_count);
        return Err(BatchError::invalid(format!(
            "the last offset delta is {delta}, but the batch counts {count} records"
        )));
    }
    if header.is_control() {
        return Err(BatchError::invalid("clients may not write control batches"));
    }
    if header.has_delete_horizon() {
        return Err(BatchError::invalid("clients may not set a delete horizon"));
    }
    if header.is_log_append_time() {
        let message = "producers may not set the timestamp type LogAppendTime";
        return Err(BatchError::new(BatchErrorKind::InvalidTimestamp, message));
    }
    check_producer(header)?;
    Ok(codec)
}

/// Producer id, epoch, sequence and the transactional bit go together.
fn check_producer(header: &BatchHeader) -> Result<(), BatchError> {
    if !header.has_producer_id() {
        if header.is_transactional() {
            return Err(BatchError::invalid("a transactional batch needs a producer id"));
        }
        return Ok(());
    }
    if header.base_sequence < 0 {
        let (sequence, producer_id) = (header.base_sequence, header.producer_id);
        return Err(BatchError::invalid(format!(
            "sequence {sequence} of producer {producer_id} is negative"
        )));
    }
    if header.producer_epoch < 0 {
        let (epoch, producer_id) = (header.producer_epoch, header.producer_id);
        return Err(BatchError::invalid(format!(
            "epoch {epoch} of producer {producer_id} is negative"
        )));
    }
    Ok(())
}

/// What the walk over the records found. All records that break a rule are named, up to a limit.
struct Findings {
    max_timestamp: i64,
    offset_of_max_timestamp: i32,
    offsets_are_consecutive: bool,
    refusal: Refusal,
}

impl Default for Findings {
    fn default() -> Self {
        Self {
            max_timestamp: NO_TIMESTAMP,
            offset_of_max_timestamp: 0,
            offsets_are_consecutive: true,
            refusal: Refusal::default(),
        }
    }
}

impl Findings {
    #[inline]
    fn add(&mut self, header: &BatchHeader, rules: &ValidationRules, index: i32, record: RecordShape) {
        let timestamp = header.timestamp_of(record.timestamp_delta);
        if rules.compacted && !record.has_key {
            self.refusal.add(index, BatchErrorKind::InvalidRecord, || {
                "a compacted topic needs a key in every record".into()
            });
        } else if !rules.allows(timestamp) {
            self.refusal.add(index, BatchErrorKind::InvalidTimestamp, || {
                let first = rules.now_ms.saturating_sub(rules.before_max_ms);
                let last = rules.now_ms.saturating_add(rules.after_max_ms);
                format!("timestamp {timestamp} is outside [{first}, {last}]")
            });
        }
        if timestamp > self.max_timestamp {
            self.max_timestamp = timestamp;
            self.offset_of_max_timestamp = index;
        }
        self.offsets_are_consecutive &= record.offset_delta == index;
    }
}

impl ValidationRules {
    /// True when a record may have this timestamp. None at all is allowed, and with append time any.
    fn allows(&self, timestamp: i64) -> bool {
        self.timestamp_type == TimestampType::LogAppendTime
            || timestamp == NO_TIMESTAMP
            || (self.now_ms.saturating_sub(timestamp) <= self.before_max_ms
                && timestamp.saturating_sub(self.now_ms) <= self.after_max_ms)
    }
}

/// The records that break a rule.
#[derive(Default)]
struct Refusal {
    count: usize,
    has_bad_timestamp: bool,
    record_errors: Vec<RecordError>,
}

impl Refusal {
    fn add(&mut self, batch_index: i32, kind: BatchErrorKind, message: impl FnOnce() -> String) {
        self.count += 1;
        self.has_bad_timestamp |= kind == BatchErrorKind::InvalidTimestamp;
        if self.record_errors.len() < BatchError::RECORD_ERRORS_MAX {
            self.record_errors.push(RecordError {
                batch_index,
                message: Some(message()),
            });
        }
    }

    /// One bad timestamp makes the whole refusal one about timestamps, as in Kafka.
    fn into_result(self) -> Result<(), BatchError> {
        let Some(first) = self.record_errors.first() else {
            return Ok(());
        };
        let kind = if self.has_bad_timestamp {
            BatchErrorKind::InvalidTimestamp
        } else {
            BatchErrorKind::InvalidRecord
        };
        let why = first.message.as_deref().unwrap_or_default();
        let message = format!(
            "{} records are refused, the first at index {}: {why}",
            self.count, first.batch_index
        );
        Err(BatchError {
            kind,
            message,
            record_errors: self.record_errors,
        })
    }
}
