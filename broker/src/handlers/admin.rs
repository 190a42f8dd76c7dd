//! Hands admin requests to their handlers.

use bytes::Bytes;
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;

use super::Request;
use crate::admin::AdminContext;
use crate::connection::{Answer, Close};

pub(super) async fn serve<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    body: Bytes,
) -> Result<Answer<D>, Close> {
    let shard = &request.shard;
    let random = || shard.runtime.random_u64();
    let _context = AdminContext {
        broker_id: shard.broker_id,
        listener: &request.connection.listener,
        config: &shard.config,
        control: &shard.control,
        images: &shard.images,
        random: &random,
    };
    let _ = body;
    Err(Close::Refused("admin handlers are not linked yet".into()))
}
