//! The server's Fetch response, written in pieces so that record sets stay where they are.

use std::ops::Deref;

use bytes::{BufMut, BytesMut};

use super::{
    CURRENT_LEADER_TAG, DIVERGING_EPOCH_TAG, FIRST_NODE_ENDPOINTS_VERSION, FIRST_SESSION_VERSION,
    FIRST_TOPIC_ID_VERSION, FetchPartitionHeader, FetchResponseHeader, KEY, NODE_ENDPOINTS_TAG, NodeEndpoint,
    SNAPSHOT_ID_TAG, TopicRef, check_version,
};
use crate::frame::{OpenFrame, begin_frame, encode_response_header, end_frame};
use crate::leader::write_node_endpoints;
use crate::primitives::WriteExt;
use crate::{WireError, is_flexible};

/// Writes a whole response frame (size, header, body): [`FetchResponseEncoder::begin_topic`], then
/// [`FetchResponseEncoder::partition`] for each of its partitions, and so on, then [`FetchResponseEncoder::finish`].
///
/// `R` is a piece of a record set that dereferences to its bytes: a slice, `Bytes`, or a pinned piece of the cache.
#[derive(Debug)]
pub struct FetchResponseEncoder<R> {
    version: i16,
    flexible: bool,
    frame: OpenFrame,
    encoded: BytesMut,
    records: Vec<Insertion<R>>,
    records_bytes: usize,
    topics_left: usize,
    partitions_left: usize,
    error: Option<WireError>,
}

/// A piece of a record set, and before which of the encoded bytes it belongs.
#[derive(Debug)]
struct Insertion<R> {
    at: usize,
    records: R,
}

impl<R: Deref<Target = [u8]>> FetchResponseEncoder<R> {
    /// Starts a response with `topic_count` topics. `buffer` is cleared and used again.
    pub fn new(
        mut buffer: BytesMut,
        version: i16,
        correlation_id: i32,
        header: &FetchResponseHeader,
        topic_count: usize,
    ) -> Self {
        buffer.clear();
        let flexible = is_flexible(KEY, version);
        let frame = begin_frame(&mut buffer);
        encode_response_header(&mut buffer, KEY, version, correlation_id);
        buffer.put_i32(header.throttle_time_ms);
        if version >= FIRST_SESSION_VERSION {
            buffer.put_i16(header.error_code.code());
            buffer.put_i32(header.session_id);
        }
        buffer.put_length(flexible, Some(topic_count));
        FetchResponseEncoder {
            version,
            flexible,
            frame,
            encoded: buffer,
            records: Vec::new(),
            records_bytes: 0,
            topics_left: topic_count,
            partitions_left: 0,
            error: check_version(version).err(),
        }
    }

    /// Starts a topic with `partition_count` partitions.
    pub fn begin_topic(&mut self, topic: TopicRef<'_>, partition_count: usize) {
        if self.partitions_left > 0 || self.topics_left == 0 {
            self.fail("a topic begins before the one before it ended, or is one too many");
            return;
        }
        self.topics_left -= 1;
        self.partitions_left = partition_count;
        let by_id = self.version >= FIRST_TOPIC_ID_VERSION;
        if let Err(error) = topic.write(&mut self.encoded, by_id, self.flexible) {
            self.error.get_or_insert(error);
        }
        self.encoded.put_length(self.flexible, Some(partition_count));
        if partition_count == 0 {
            self.encoded.put_no_tagged_fields(self.flexible);
        }
    }

    /// Adds a partition; its record set is the pieces one after the other.
    pub fn partition(&mut self, header: &FetchPartitionHeader, records: impl IntoIterator<Item = R>) {
        if self.partitions_left == 0 {
            self.fail("a topic has more partitions than were announced");
            return;
        }
        self.partitions_left -= 1;
        encode_partition_header(&mut self.encoded, self.version, self.flexible, header);
        self.insert_records(records);
        if self.flexible {
            encode_partition_tags(&mut self.encoded, header);
        }
        if self.partitions_left == 0 {
            self.encoded.put_no_tagged_fields(self.flexible);
        }
    }

    /// The records' length, and the pieces to be sent after it.
    fn insert_records(&mut self, records: impl IntoIterator<Item = R>) {
        let first = self.records.len();
        let mut length = 0;
        for records in records {
            length += records.len();
            if !records.is_empty() {
                self.records.push(Insertion { at: 0, records });
            }
        }
        // Empty, never null: clients before Kafka 2.8 do not expect null.
        self.encoded.put_length(self.flexible, Some(length));
        let at = self.encoded.len();
        self.records[first..]
            .iter_mut()
            .for_each(|insertion| insertion.at = at);
        self.records_bytes += length;
    }

    /// Ends the response. `node_endpoints` are written from version 16 on. An error when topics or partitions are not as
    /// many as announced, or named in a way that the version has not.
    pub fn finish(mut self, node_endpoints: &[NodeEndpoint<'_>]) -> Result<FetchFrame<R>, WireError> {
        if self.partitions_left > 0 || self.topics_left > 0 {
            self.fail("topics or partitions that were announced are missing");
        }
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.flexible {
            let endpoints = if self.version >= FIRST_NODE_ENDPOINTS_VERSION {
                node_endpoints
            } else {
                &[]
            };
            self.encoded.put_unsigned_varint(u32::from(!endpoints.is_empty()));
            if !endpoints.is_empty() {
                write_node_endpoints(&mut self.encoded, NODE_ENDPOINTS_TAG, endpoints);
            }
        }
        end_frame(&mut self.encoded, self.frame, self.records_bytes)?;
        Ok(FetchFrame {
            encoded: self.encoded,
            records: self.records,
            records_bytes: self.records_bytes,
        })
    }

    fn fail(&mut self, what: &'static str) {
        self.error
            .get_or_insert_with(|| WireError::Codec(what.to_owned()));
    }
}

fn encode_partition_header(out: &mut BytesMut, version: i16, flexible: bool, header: &FetchPartitionHeader) {
    out.put_i32(header.index);
    out.put_i16(header.error_code.code());
    out.put_i64(header.high_watermark);
    out.put_i64(header.last_stable_offset);
    if version >= 5 {
        out.put_i64(header.log_start_offset);
    }
    out.put_length(flexible, header.aborted_transactions.as_ref().map(Vec::len));
    for aborted in header.aborted_transactions.iter().flatten() {
        out.put_i64(aborted.producer_id);
        out.put_i64(aborted.first_offset);
        out.put_no_tagged_fields(flexible);
    }
    if version >= 11 {
        out.put_i32(header.preferred_read_replica);
    }
}

fn encode_partition_tags(out: &mut BytesMut, header: &FetchPartitionHeader) {
    let count = u32::from(header.diverging_epoch.is_some())
        + u32::from(header.current_leader.is_some())
        + u32::from(header.snapshot_id.is_some());
    out.put_unsigned_varint(count);
    if let Some(diverging) = header.diverging_epoch {
        out.put_unsigned_varint(DIVERGING_EPOCH_TAG);
        out.put_unsigned_varint(4 + 8 + 1);
        out.put_i32(diverging.epoch);
        out.put_i64(diverging.end_offset);
        out.put_no_tagged_fields(true);
    }
    if let Some(leader) = header.current_leader {
        leader.write_tagged(out, CURRENT_LEADER_TAG);
    }
    if let Some(snapshot) = header.snapshot_id {
        out.put_unsigned_varint(SNAPSHOT_ID_TAG);
        out.put_unsigned_varint(8 + 4 + 1);
        out.put_i64(snapshot.end_offset);
        out.put_i32(snapshot.epoch);
        out.put_no_tagged_fields(true);
    }
}

/// A whole response frame: encoded bytes with record sets between them.
#[derive(Debug)]
pub struct FetchFrame<R> {
    encoded: BytesMut,
    records: Vec<Insertion<R>>,
    records_bytes: usize,
}

/// A piece of a [`FetchFrame`], in the order in which the pieces go to the socket.
#[derive(Debug)]
pub enum Piece<'a, R> {
    /// Encoded bytes.
    Encoded(&'a [u8]),
    /// A piece of a record set.
    Records(&'a R),
}

impl<R: Deref<Target = [u8]>> Piece<'_, R> {
    /// The piece's bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Piece::Encoded(bytes) => bytes,
            Piece::Records(records) => records,
        }
    }
}

impl<R: Deref<Target = [u8]>> FetchFrame<R> {
    /// The pieces in order. None is empty.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_, R>> {
        let starts = std::iter::once(0).chain(self.records.iter().map(|insertion| insertion.at));
        let ends = self
            .records
            .iter()
            .map(|insertion| insertion.at)
            .chain([self.encoded.len()]);
        let records = self.records.iter().map(Some).chain([None]);
        starts
            .zip(ends)
            .zip(records)
            .flat_map(|((start, end), insertion)| {
                let encoded = (start < end).then(|| Piece::Encoded(&self.encoded[start..end]));
                let records = insertion.map(|insertion| Piece::Records(&insertion.records));
                encoded.into_iter().chain(records)
            })
    }

    /// The bytes of the whole frame, size prefix included.
    pub fn size(&self) -> usize {
        self.encoded.len() + self.records_bytes
    }

    /// The bytes of the record sets.
    pub fn records_bytes(&self) -> usize {
        self.records_bytes
    }

    /// Appends the whole frame to one buffer, for answers too small to be worth pieces.
    pub fn copy_into(&self, out: &mut BytesMut) {
        out.reserve(self.size());
        for piece in self.pieces() {
            out.put_slice(piece.bytes());
        }
    }

    /// The encoded bytes' buffer, to be used again.
    pub fn into_buffer(self) -> BytesMut {
        self.encoded
    }
}
