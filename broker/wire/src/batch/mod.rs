//! The record batch, magic 2: the only form in which records travel and are stored.
//!
//! A batch is a 61-byte header ([`header`]) and the records, compressed or not. Four things are done with one:
//! a produced batch is validated and made storable ([`mod@validate`]); a stored one is read ([`mod@records`], [`search`]);
//! compaction takes records out of it ([`filter`]); a client builds one ([`builder`]). [`compress`] and [`decompress`] stream,
//! the latter with a cap on the output.
//!
//! Validation and search only walk the records (`walk.rs`): nothing is collected. An uncompressed batch that needs no change
//! passes without an allocation.

pub mod builder;
pub mod compress;
pub mod compression;
pub mod decompress;
mod error;
pub mod filter;
pub mod header;
pub mod records;
mod rewrite;
pub mod search;
mod stream;
pub mod validate;
mod varint;
mod walk;

pub use builder::BatchBuilder;
pub use compression::{Codec, Compression, TopicCompression};
pub use error::{BatchError, BatchErrorKind, RecordError};
pub use filter::{Filter, FilterRules, Filtered, RecordHead, emptied};
pub use header::{
    BatchHeader, HEADER_SIZE, LOG_OVERHEAD, TimestampType, check_crc, patch_and_recrc, set_base_offset,
    set_leader_epoch,
};
pub use records::{Batch, Batches, Record, RecordHeaders, Records, batches, for_each_record, records};
pub use search::{RecordPosition, find_timestamp, max_timestamp_record};
pub use validate::{ValidatedBatch, Validation, ValidationRules, validate};
