//! The server's Fetch response, written in pieces so that record sets stay where they are.

use std::ops::Deref;

use bytes::BytesMut;

use super::{FetchPartitionHeader, FetchResponseHeader, NodeEndpoint, TopicRef};
use crate::WireError;

/// Writes a whole response frame (size, header, body). Call [`FetchResponseEncoder::begin_topic`] and
/// [`FetchResponseEncoder::partition`] in the order and number promised, then [`FetchResponseEncoder::finish`].
///
/// `R` is a piece of a record set that dereferences to its bytes: a slice, `Bytes`, or a pinned piece of the cache.
#[derive(Debug)]
pub struct FetchResponseEncoder<R> {
    out: BytesMut,
    records: Vec<(usize, R)>,
}

impl<R: Deref<Target = [u8]>> FetchResponseEncoder<R> {
    /// Starts a response with `topic_count` topics. `out` is cleared and reused.
    pub fn new(
        out: BytesMut,
        version: i16,
        correlation_id: i32,
        header: &FetchResponseHeader,
        topic_count: usize,
    ) -> Self {
        let _ = (version, correlation_id, header, topic_count);
        FetchResponseEncoder {
            out,
            records: Vec::new(),
        }
    }

    /// Starts a topic with `partition_count` partitions.
    pub fn begin_topic(&mut self, topic: TopicRef<'_>, partition_count: usize) {
        let _ = (topic, partition_count);
        todo!()
    }

    /// Adds a partition; its record set is the pieces one after the other.
    pub fn partition(&mut self, header: &FetchPartitionHeader, records: impl IntoIterator<Item = R>) {
        let _ = (header, records);
        todo!()
    }

    /// Ends the response. `node_endpoints` are written from version 16 on.
    pub fn finish(self, node_endpoints: &[NodeEndpoint<'_>]) -> Result<FetchFrame<R>, WireError> {
        let _ = node_endpoints;
        Ok(FetchFrame {
            head: self.out,
            records: self.records,
        })
    }
}

/// A whole response frame: encoded bytes with record sets between them.
#[derive(Debug)]
pub struct FetchFrame<R> {
    head: BytesMut,
    records: Vec<(usize, R)>,
}

/// A piece of a [`FetchFrame`], in the order in which the pieces go to the socket.
#[derive(Debug)]
pub enum Piece<'a, R> {
    /// Encoded bytes.
    Encoded(&'a [u8]),
    /// A piece of a record set.
    Records(&'a R),
}

impl<R: Deref<Target = [u8]>> FetchFrame<R> {
    /// The pieces in order. None is empty.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_, R>> {
        std::iter::empty()
    }

    /// The bytes of the whole frame, size prefix included.
    pub fn size(&self) -> usize {
        let _ = (&self.head, &self.records);
        0
    }

    /// The whole frame in one buffer, for answers too small to be worth pieces.
    pub fn copy_into(&self, out: &mut BytesMut) {
        let _ = out;
    }

    /// The encoded bytes' buffer, to be used again.
    pub fn into_buffer(self) -> BytesMut {
        self.head
    }
}
