//! What the tests of this module share.

use strandline_wire::Uuid;

use super::assignment::Assignment;

pub(crate) fn assignment(topics: &[(Uuid, &[i32])]) -> Assignment {
    topics
        .iter()
        .flat_map(|(topic, partitions)| partitions.iter().map(move |partition| (*topic, *partition)))
        .collect()
}
