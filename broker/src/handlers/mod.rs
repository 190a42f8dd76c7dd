//! The handlers: one file an API. Produce and Fetch are the data path; the others decode with the generated codec.

pub(crate) mod admin;
pub(crate) mod api_versions;
pub(crate) mod delete_records;
pub(crate) mod describe_log_dirs;
pub(crate) mod fetch;
pub(crate) mod init_producer_id;
pub(crate) mod list_offsets;
pub(crate) mod lookup;
pub(crate) mod offset_for_leader_epoch;
pub(crate) mod produce;

use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use strandline_runtime::{Monotonic, Runtime};
use strandline_storage::disk::Disk;
use strandline_wire::protocol::{Decodable, Encodable};
use strandline_wire::{ApiKey, ErrorCode, decode_cold, encode_response};

use crate::connection::{Answer, Close, Connection};
use crate::group::handlers as groups;
use crate::shard::Shard;

/// A request: who asked, what, and in which form the answer goes.
pub(crate) struct Request<R: Runtime, D: Disk> {
    pub(crate) shard: Rc<Shard<R, D>>,
    pub(crate) connection: Rc<Connection<D>>,
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    /// When its last byte was in.
    pub(crate) arrived: Monotonic,
}

/// The client id that Kafka lets write to internal topics.
const ADMIN_CLIENT_ID: &str = "__admin_client";

impl<R: Runtime, D: Disk> Request<R, D> {
    /// Whether its client may write to the topics of the cluster's own.
    pub(crate) fn may_write_internal_topics(&self) -> bool {
        self.connection.client_id().as_deref() == Some(ADMIN_CLIENT_ID)
    }

    /// Decodes the body with the generated codec.
    pub(crate) fn decode<T: Decodable>(&self, body: Bytes) -> Result<T, Close> {
        Ok(decode_cold(self.api.key(), self.version, body)?)
    }

    /// Encodes an answer whose codes are `codes`, and counts it.
    pub(crate) fn encode<T: Encodable>(
        &self,
        answer: &T,
        codes: impl Iterator<Item = ErrorCode>,
    ) -> Result<Answer<D>, Close> {
        let mut out = BytesMut::new();
        encode_response(
            &mut out,
            self.api.key(),
            self.version,
            self.correlation_id,
            answer,
        )?;
        self.shard.metrics.answered_with(self.api.key(), codes);
        let loan = self.shard.answers.lend_counted(out.len());
        Ok(Answer::Frame(out, loan))
    }

    /// A log line for a refused partition.
    pub(crate) fn refused(
        &self,
        code: ErrorCode,
        topic: &dyn std::fmt::Display,
        partition: i32,
        reason: &str,
    ) {
        self.shard
            .refusals
            .log(self.shard.runtime.now(), self.api, code, topic, partition, reason);
    }
}

/// Serves a request off the data path.
pub(crate) async fn serve<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    body: Bytes,
) -> Result<Answer<D>, Close> {
    match request.api {
        ApiKey::ApiVersions => api_versions::serve(request, body),
        ApiKey::ListOffsets => list_offsets::serve(request, body).await,
        ApiKey::OffsetForLeaderEpoch => offset_for_leader_epoch::serve(request, body).await,
        ApiKey::InitProducerId => init_producer_id::serve(request, body).await,
        ApiKey::DeleteRecords => delete_records::serve(request, body).await,
        ApiKey::DescribeLogDirs => describe_log_dirs::serve(request, body).await,
        ApiKey::JoinGroup => groups::join::serve(request, body).await,
        ApiKey::SyncGroup => groups::sync::serve(request, body).await,
        ApiKey::Heartbeat => groups::heartbeat::serve(request, body),
        ApiKey::LeaveGroup => groups::leave::serve(request, body).await,
        ApiKey::OffsetCommit => groups::offset_commit::serve(request, body).await,
        ApiKey::OffsetFetch => groups::offset_fetch::serve(request, body).await,
        ApiKey::OffsetDelete => groups::offset_delete::serve(request, body).await,
        ApiKey::DescribeGroups => groups::describe::serve(request, body).await,
        ApiKey::ListGroups => groups::list::serve(request, body).await,
        ApiKey::ConsumerGroupHeartbeat => groups::consumer_heartbeat::serve(request, body).await,
        ApiKey::ConsumerGroupDescribe => groups::consumer_describe::serve(request, body).await,
        ApiKey::DeleteGroups => groups::delete::serve(request, body).await,
        _ => admin::serve(request, body).await,
    }
}
