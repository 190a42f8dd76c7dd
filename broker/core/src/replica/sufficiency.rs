//! Whether an in-sync set is large enough: the one test that acknowledgements, high watermark and ELR share.

use crate::metadata::BrokerId;

/// Whether `isr` has min(`min_insync_replicas`, replicas) members and, where that is two or more, spans two nodes unless
/// all replicas are on one. A replica that is being added counts only once it is in sync: a reassignment must not stop
/// writes before its newcomers have caught up.
pub fn suffices(
    isr: &[BrokerId],
    replicas: &[BrokerId],
    adding: &[BrokerId],
    min_insync_replicas: usize,
) -> bool {
    let counted = || {
        replicas
            .iter()
            .filter(|replica| !adding.contains(replica) || isr.contains(replica))
    };
    let required = min_insync_replicas.min(counted().count()).max(1);
    isr.len() >= required && (required < 2 || span_nodes(isr.iter()) || !span_nodes(counted()))
}

fn span_nodes<'a>(mut brokers: impl Iterator<Item = &'a BrokerId>) -> bool {
    let Some(first) = brokers.next() else { return false };
    brokers.any(|broker| broker.node() != first.node())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(isr: &[i32], replicas: &[i32], adding: &[i32], min: usize) -> bool {
        let brokers = |ids: &[i32]| -> Vec<BrokerId> { ids.iter().copied().map(BrokerId).collect() };
        suffices(&brokers(isr), &brokers(replicas), &brokers(adding), min)
    }

    #[test]
    fn members_are_counted_against_the_smaller_of_minimum_and_replicas() {
        assert!(of(&[1000], &[1000], &[], 1));
        assert!(of(&[1000], &[1000], &[], 3), "no more than there are");
        assert!(!of(&[], &[1000], &[], 1), "nobody is never enough");
        assert!(of(&[1000, 2000], &[1000, 2000, 3000], &[], 2));
        assert!(!of(&[1000], &[1000, 2000, 3000], &[], 2));
        assert!(of(&[1000], &[1000, 2000, 3000], &[], 1));
    }

    #[test]
    fn two_members_on_one_node_are_one_failure() {
        assert!(!of(&[1000, 1001], &[1000, 1001, 2000], &[], 2));
        assert!(of(&[1000, 2000], &[1000, 1001, 2000], &[], 2));
        assert!(
            of(&[1000, 1001], &[1000, 1001, 1002], &[], 2),
            "there is one node only"
        );
        assert!(of(&[1000, 1001], &[1000, 1001, 2000], &[], 1), "one is asked for");
    }

    #[test]
    fn a_replica_being_added_counts_once_it_is_in_sync() {
        assert!(
            of(&[1000], &[1000, 2000], &[2000], 2),
            "the newcomer is not asked for"
        );
        assert!(of(&[1000, 2000], &[1000, 2000], &[2000], 2));
        assert!(
            of(&[1000, 1001], &[1000, 1001, 2000], &[2000], 2),
            "and its node is none that the others must span"
        );
        assert!(!of(&[1000], &[1000, 1001, 2000], &[2000], 2));
    }
}
