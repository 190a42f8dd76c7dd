//! Where to go instead: the new leader and its endpoint, in answers of Produce and Fetch (KIP-951).

use bytes::{BufMut, BytesMut};

use crate::WireError;
use crate::primitives::{Reader, WriteExt};

/// The leader an answer points to when the broker asked is not it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderIdAndEpoch {
    /// The leader's broker id, -1 when unknown.
    pub leader_id: i32,
    /// Its epoch, -1 when unknown.
    pub leader_epoch: i32,
}

impl LeaderIdAndEpoch {
    /// Leader, epoch, and a count of no tagged fields.
    const SIZE: u32 = 4 + 4 + 1;

    pub(crate) fn read(field: &mut Reader<'_>) -> Result<Self, WireError> {
        let leader_id = field.i32("leader id")?;
        let leader_epoch = field.i32("leader epoch")?;
        field.skip_tagged_fields(true)?;
        Ok(LeaderIdAndEpoch {
            leader_id,
            leader_epoch,
        })
    }

    pub(crate) fn write_tagged(&self, out: &mut BytesMut, tag: u32) {
        out.put_unsigned_varint(tag);
        out.put_unsigned_varint(Self::SIZE);
        out.put_i32(self.leader_id);
        out.put_i32(self.leader_epoch);
        out.put_no_tagged_fields(true);
    }
}

/// Where a broker named by [`LeaderIdAndEpoch`] listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeEndpoint<'a> {
    /// The broker id.
    pub node_id: i32,
    /// Its host.
    pub host: &'a str,
    /// Its port.
    pub port: i32,
    /// Its rack.
    pub rack: Option<&'a str>,
}

impl NodeEndpoint<'_> {
    /// The bytes of the smallest endpoint.
    const MIN: usize = 4 + 1 + 4 + 1 + 1;
}

pub(crate) fn read_node_endpoints<'a>(field: &mut Reader<'a>) -> Result<Vec<NodeEndpoint<'a>>, WireError> {
    let count = field.array(true, NodeEndpoint::MIN, "node endpoints")?;
    let mut endpoints = Vec::with_capacity(count);
    for _ in 0..count {
        let node_id = field.i32("node id")?;
        let host = field.string(true, "host")?;
        let port = field.i32("port")?;
        let rack = field.nullable_string(true, "rack")?;
        field.skip_tagged_fields(true)?;
        endpoints.push(NodeEndpoint {
            node_id,
            host,
            port,
            rack,
        });
    }
    Ok(endpoints)
}

pub(crate) fn write_node_endpoints(out: &mut BytesMut, tag: u32, endpoints: &[NodeEndpoint<'_>]) {
    // A tagged field's size stands before it, so the field is written aside. This is the rare answer of a broker that is
    // not the leader.
    let mut field = BytesMut::new();
    field.put_length(true, Some(endpoints.len()));
    for endpoint in endpoints {
        field.put_i32(endpoint.node_id);
        field.put_string(true, endpoint.host);
        field.put_i32(endpoint.port);
        field.put_nullable_string(true, endpoint.rack);
        field.put_no_tagged_fields(true);
    }
    out.put_unsigned_varint(tag);
    out.put_unsigned_varint(field.len() as u32);
    out.put_slice(&field);
}
