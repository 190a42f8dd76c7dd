use proptest::prelude::*;
use std::collections::BTreeMap;
use strandline_wire::Uuid;

use super::store::{CommittedOffset, ExpiryBase, OffsetStore};

fn offset(offset: i64, committed_ms: i64) -> CommittedOffset {
    CommittedOffset {
        offset,
        leader_epoch: -1,
        metadata: "".into(),
        commit_timestamp_ms: committed_ms,
        expire_timestamp_ms: None,
        topic_id: Uuid::nil(),
    }
}

proptest! {
    /// Whatever is put and removed, the store holds what a plain map holds, and nothing is left behind at the end.
    #[test]
    fn the_store_is_a_map(steps in prop::collection::vec((any::<bool>(), 0..3, 0..3, 0..3, 0_i64..100), 0..60)) {
        let mut store = OffsetStore::default();
        let mut model = BTreeMap::new();
        let names = ["a", "b", "c"];
        for (puts, group, topic, partition, value) in steps {
            let key = (names[group as usize], names[topic as usize], partition);
            if puts {
                store.put(key.0, key.1, key.2, offset(value, 0));
                model.insert(key, value);
            } else {
                let removed = store.remove(key.0, key.1, key.2).map(|removed| removed.offset);
                prop_assert_eq!(removed, model.remove(&key));
            }
            prop_assert_eq!(store.len(), model.len());
            for name in names {
                prop_assert_eq!(store.knows_topic(name), model.keys().any(|key| key.1 == name));
                let held: Vec<_> = store.of_group(name).map(|(topic, partition, held)| (topic, partition, held.offset)).collect();
                let expected: Vec<_> = model
                    .iter()
                    .filter(|(key, _)| key.0 == name)
                    .map(|(key, value)| (key.1, key.2, *value))
                    .collect();
                prop_assert_eq!(held, expected);
                prop_assert_eq!(store.has_group(name), model.keys().any(|key| key.0 == name));
            }
        }
        for key in model.into_keys() {
            store.remove(key.0, key.1, key.2);
        }
        prop_assert_eq!(store.bytes(), 0);
        prop_assert!(store.is_empty());
    }
}

#[test]
fn offsets_expire_from_the_moment_that_counts() {
    let mut store = OffsetStore::default();
    store.put("g", "x", 0, offset(1, 1_000));
    store.put("g", "y", 0, offset(2, 5_000));
    let expired = |base, now_ms| store.expired("g", base, |_| false, now_ms, 100);
    assert_eq!(expired(ExpiryBase::Commit, 1_099), (vec![], false));
    assert_eq!(
        expired(ExpiryBase::Commit, 1_100),
        (vec![("x".to_owned(), 0)], false)
    );
    // The group became empty later than either commit.
    assert_eq!(expired(ExpiryBase::Moment(9_000), 9_099), (vec![], false));
    let (both, all) = expired(ExpiryBase::Moment(9_000), 9_100);
    assert_eq!((both.len(), all), (2, true));
    assert_eq!(expired(ExpiryBase::Never, i64::MAX), (vec![], false));
    // A topic that members read keeps its offsets.
    let read = store.expired("g", ExpiryBase::Commit, |topic| topic == "x", 99_999, 100);
    assert_eq!(read, (vec![("y".to_owned(), 0)], false));
    assert_eq!(
        store.expired("unknown", ExpiryBase::Commit, |_| false, 0, 100),
        (vec![], true)
    );
}

#[test]
fn an_expiry_of_its_own_comes_before_the_retention() {
    let mut store = OffsetStore::default();
    let own = CommittedOffset {
        expire_timestamp_ms: Some(50),
        ..offset(1, 0)
    };
    store.put("g", "x", 0, own);
    let expired = |now_ms| {
        store
            .expired("g", ExpiryBase::Moment(40), |_| false, now_ms, 1_000)
            .1
    };
    assert!(!expired(49));
    assert!(expired(50));
}

/// A topic that was deleted and created again under its name has no offsets of the old one.
#[test]
fn offsets_belong_to_a_topic_not_to_its_name() {
    let (old, new) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let mut held = offset(1, 0);
    assert!(
        !held.is_of_other_topic(new),
        "a record without an id is the name's"
    );
    held.topic_id = old;
    assert!(held.is_of_other_topic(new));
    assert!(!held.is_of_other_topic(old));
}

/// What the store says it takes is what the coordinator counts against its memory: it must be near the truth, in whatever
/// shape the offsets come.
#[test]
fn the_store_takes_what_it_says() {
    let note = "n".repeat(100);
    for (groups, topics, partitions, note) in [
        (10_000, 1, 1, ""),
        (10_000, 1, 1, &*note),
        (2_000, 5, 3, ""),
        (100, 1, 300, ""),
        (3, 1, 5_000, ""),
    ] {
        let mut store = OffsetStore::default();
        let taken = allocation_counter::measure(|| {
            for group in 0..groups {
                for topic in 0..topics {
                    for partition in 0..partitions {
                        let value = CommittedOffset {
                            metadata: note.into(),
                            ..offset(1, 0)
                        };
                        store.put(
                            &format!("group-{group}"),
                            &format!("topic-{topic}"),
                            partition,
                            value,
                        );
                    }
                }
            }
        });
        let (taken, said) = (taken.bytes_current as f64, store.bytes() as f64);
        let shape = (groups, topics, partitions);
        assert!(
            (taken..1.6 * taken).contains(&said),
            "{shape:?}: {taken} bytes taken, {said} said"
        );
    }
}
