//! The verbs, a module each.

pub mod cluster;
pub mod config;
pub mod consume;
mod dump_item;
pub mod group;
pub mod log_dump;
pub mod log_export;
pub mod produce;
pub mod quorum;
pub mod shard;
pub mod topic;
pub mod topic_describe;
pub mod topic_partitions;

use crate::client::{ClientError, NamedResults};
use crate::failure::Failure;

/// Tells the failures among several results, and sums them up: one failure is returned as it is, of several each is
/// reported and the number returned.
fn sum_up<T>(results: NamedResults<T>, json: bool) -> Result<(), Failure> {
    let total = results.len();
    let mut errors: Vec<ClientError> = results
        .into_iter()
        .filter_map(|(_, result)| result.err())
        .collect();
    match (errors.pop(), errors.is_empty()) {
        (None, _) => Ok(()),
        (Some(error), true) => Err(error.into()),
        (Some(error), false) => {
            errors.push(error);
            let failed = errors.len();
            for error in errors {
                Failure::from(error).report(json);
            }
            Err(Failure::Failed(format!("{failed} of {total} failed")))
        }
    }
}
