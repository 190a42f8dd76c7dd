//! The record batch, magic 2: the only form in which records travel and are stored.
//!
//! A batch is a 61-byte header ([`header`]) and the records, compressed or not. Three things are done with one:
//! a produced batch is validated and made storable ([`validate`]); a stored one is read ([`records`], [`search`]);
//! a client builds one ([`builder`]). [`compression`] streams in both directions, with a cap on the output.

pub mod builder;
pub mod compression;
mod error;
pub mod header;
pub mod records;
pub mod search;
pub mod validate;

pub use builder::BatchBuilder;
pub use compression::{Codec, Compression, TopicCompression};
pub use error::{BatchError, BatchErrorKind, RecordError};
pub use header::{
    BatchHeader, HEADER_SIZE, LOG_OVERHEAD, TimestampType, check_crc, patch_and_recrc, set_base_offset,
    set_leader_epoch,
};
pub use records::{Batch, Batches, Record, RecordHeaders, Records, batches, for_each_record, records};
pub use search::{RecordPosition, find_timestamp, max_timestamp_record};
pub use validate::{ValidatedBatch, ValidationRules, validate};
