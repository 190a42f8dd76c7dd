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
use crate::group::write::bytes_of;
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
    let bytes = bytes_of(&deletion(&coordinator, group)?);
    coordinator.admit(shard, bytes).await?;
    coordinator.check()?;
    let end = delete_now(request, &coordinator, group)?;
    coordinator.durable_in_time(shard, end).await
}

/// What takes the group away, its own record last.
fn deletion<D: Disk>(coordinator: &Coordinator<D>, group: &GroupId) -> Result<Vec<OffsetsRecord>, ErrorCode> {
    let groups = coordinator.groups.borrow();
    let found = groups.get(group.as_str()).ok_or(ErrorCode::GroupIdNotFound)?;
    found.machine.validate_delete()?;
    let offsets = coordinator.offsets.borrow();
    let offsets = offsets.of_group(group);
    let mut records: Vec<_> = offsets
        .map(|(topic, partition, _)| tombstone(group, topic, partition))
        .collect();
    records.push(OffsetsRecord::Group {
        group: group.to_string(),
        value: None,
    });
    Ok(records)
}

/// Appends what takes the group away, and forgets it.
fn delete_now<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    coordinator: &Coordinator<D>,
    group: &GroupId,
) -> Result<i64, ErrorCode> {
    let shard = &request.shard;
    let records = deletion(coordinator, group)?;
    let end = coordinator.append_all(shard, &records)?;
    if let Some(mut removed) = coordinator.remove(group) {
        let now_ms = shard.groups.now_ms(shard.runtime.now());
        let mut effects = Effects::default();
        removed
            .machine
            .die(ErrorCode::GroupIdNotFound, now_ms, &mut effects);
        coordinator.answer(&mut effects);
    }
    tracing::info!(
        shard = shard.number,
        group = group.as_str(),
        offsets = records.len() - 1,
        "group deleted"
    );
    Ok(end)
}
