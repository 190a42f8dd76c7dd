//! The Kafka wire format: frames and headers, record batches, Produce and Fetch, and everything else by the generated
//! codec of `kafka-protocol` behind a length guard.
//!
//! Map:
//! - [`frame`]: size prefix, request and response headers. [`api`]: keys, versions, flexible or not. [`ErrorCode`].
//! - [`batch`]: the record batch (magic 2): header, validation as Kafka does it, records, compression, building.
//! - [`produce`], [`fetch`]: both directions, hand-written, zero-copy.
//! - [`cold`]: every other API, decoded by `kafka-protocol` after [`guard`] has walked the bytes; [`offsets_by_id`]: two versions
//!   that it lacks.
//! - [`log_details`]: what DescribeLogDirs says here besides.
//! - [`murmur2`](mod@murmur2), [`topic_name`]: Kafka's partitioner hash and its rules for topic names.
//! - [`fuzz_entries`]: one function for each entry that takes bytes from outside.
//!
//! Invariants:
//! - Bytes from outside give typed errors. Decoding never panics.
//! - Decoding never allocates more than a small multiple of the bytes it was given; decompression has a cap.
//! - No allocation for a record, few for a request.
//!
//! This crate never does I/O, never reads a clock, never spawns, and has no `unsafe`.

pub mod api;
pub mod batch;
pub mod cold;
pub mod error_code;
pub mod fetch;
pub mod frame;
pub mod fuzz_entries;
pub mod grouped;
pub mod guard;
pub mod log_details;
pub mod murmur2;
pub mod offsets_by_id;
pub mod primitives;
pub mod produce;
pub mod topic_name;

mod leader;
mod topic_ref;
mod wire_error;

pub use api::{ADVERTISED, ApiKey, ApiVersionRange, is_flexible, supported_versions};
pub use cold::{decode_cold, decode_response, encode_request, encode_response};
pub use error_code::ErrorCode;
pub use frame::{RequestHeader, decode_request_header, encode_request_header};
pub use grouped::Grouped;
pub use kafka_protocol::{messages, protocol};
pub use uuid::Uuid;
pub use wire_error::WireError;
