//! DeleteGroups (42): a group without members, and everything it committed.

use std::collections::HashSet;

use bytes::Bytes;
use strandline_core::group::classic::Effects;
use strandline_core::group::offsets::OffsetsRecord;
use strandline_runtime::Runtime;
use strandline_runtime::local::Turns;
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;
use strandline_wire::messages::GroupId;
use strandline_wire::messages::delete_groups_request::DeleteGroupsRequest;
use strandline_wire::messages::delete_groups_response::{DeletableGroupResult, DeleteGroupsResponse};

use crate::connection::{Answer, Close};
use crate::group::Coordinator;
use crate::group::expiry::tombstone;
use crate::group::machine::Machine;
use crate::group::write::{GROUP_END_BYTES, bytes_of};
use crate::handlers::Request;

pub(crate) async fn serve<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    body: Bytes,
) -> Result<Answer<D>, Close> {
    let asked: DeleteGroupsRequest = request.decode(body)?;
    let mut results: Vec<DeletableGroupResult> = Vec::with_capacity(asked.groups_names.len());
    let (mut named, mut turns) = (HashSet::new(), Turns::default());
    for group in asked.groups_names {
        turns.item().await;
        // Kafka's answer names each group once.
        if !named.insert(group.clone()) {
            continue;
        }
        let code = delete(request, &group).await.err().unwrap_or_default();
        let result = DeletableGroupResult::default().with_group_id(group);
        results.push(result.with_error_code(code.code()));
    }
    let response = DeleteGroupsResponse::default().with_results(results);
    let codes = response
        .results
        .iter()
        .map(|result| ErrorCode::from_code(result.error_code));
    request.encode(&response, codes)
}

async fn delete<R: Runtime, D: Disk>(request: &Request<R, D>, group: &GroupId) -> Result<(), ErrorCode> {
    let shard = &request.shard;
    let coordinator = shard.coordinator_of(group)?;
    let bytes = bytes_of(&deletion(&coordinator, group)?) + GROUP_END_BYTES;
    coordinator.admit(shard, bytes).await?;
    coordinator.check()?;
    let end = delete_now(request, &coordinator, group)?;
    coordinator.durable_in_time(shard, end).await
}

/// What takes the group's offsets away, if it may be deleted.
fn deletion<D: Disk>(coordinator: &Coordinator<D>, group: &GroupId) -> Result<Vec<OffsetsRecord>, ErrorCode> {
    let groups = coordinator.groups.borrow();
    let found = groups.get(group.as_str()).ok_or(ErrorCode::GroupIdNotFound)?;
    found.machine.validate_delete()?;
    let offsets = coordinator.offsets.borrow();
    let offsets = offsets.of_group(group);
    Ok(offsets
        .map(|(topic, partition, _)| tombstone(group, topic, partition))
        .collect())
}

/// Appends what takes the group away, its own records last, and forgets it.
fn delete_now<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    coordinator: &Coordinator<D>,
    group: &GroupId,
) -> Result<i64, ErrorCode> {
    let shard = &request.shard;
    let records = deletion(coordinator, group)?;
    let offsets = records.len();
    let end = coordinator.end_group(shard, group, records)?;
    if let Some(Machine::Classic(mut machine)) = coordinator.remove(group).map(|removed| removed.machine) {
        let now_ms = shard.groups.now_ms(shard.runtime.now());
        let mut effects = Effects::default();
        machine.die(ErrorCode::GroupIdNotFound, now_ms, &mut effects);
        coordinator.answer(&mut effects);
    }
    tracing::info!(
        shard = shard.number,
        group = group.as_str(),
        offsets,
        "group deleted"
    );
    Ok(end)
}
