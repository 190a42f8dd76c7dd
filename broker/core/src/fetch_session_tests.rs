//! Rules of KIP-227 and of the field reports on sessions.

use std::rc::Rc;

use super::*;

fn key(partition: i32) -> PartitionKey {
    PartitionKey {
        topic: TopicKey::Name(Rc::from("t")),
        partition,
    }
}

fn fetch(offset: i64) -> PartitionFetch {
    PartitionFetch {
        fetch_offset: offset,
        max_bytes: 1024,
        current_leader_epoch: -1,
        last_fetched_epoch: -1,
    }
}

fn request(session_id: i32, epoch: i32) -> SessionRequest {
    SessionRequest {
        session_id,
        epoch,
        uses_topic_ids: false,
    }
}

fn quiet(high_watermark: i64) -> PartitionOutcome {
    PartitionOutcome {
        high_watermark,
        log_start_offset: 0,
        has_records: false,
        must_respond: false,
        is_error: false,
    }
}

fn with_records(high_watermark: i64) -> PartitionOutcome {
    PartitionOutcome {
        has_records: true,
        ..quiet(high_watermark)
    }
}

fn begin(
    cache: &mut FetchSessionCache,
    r: SessionRequest,
    named: &[i32],
    now: i64,
) -> Result<FetchContext, SessionError> {
    cache.begin(
        r,
        named.iter().map(|&p| (key(p), fetch(0))),
        std::iter::empty(),
        now,
    )
}

/// Answers every partition with what `outcome` gives; the session id and the partitions in the answer.
fn answer(
    cache: &mut FetchSessionCache,
    context: FetchContext,
    now: i64,
    outcome: impl Fn(i32) -> PartitionOutcome,
) -> (i32, Vec<i32>) {
    let numbers: Vec<i32> = context
        .partitions
        .iter()
        .map(|(_, key, _)| key.partition)
        .collect();
    let mut answered: Vec<_> = context
        .partitions
        .iter()
        .map(|(slot, key, _)| (slot, outcome(key.partition), false))
        .collect();
    let mut candidate = 0;
    let existing: Vec<i32> = cache.sessions.keys().copied().collect();
    let id = cache.finish(context, &mut answered, now, || {
        candidate += 1;
        while existing.contains(&candidate) {
            candidate += 1;
        }
        candidate
    });
    let included = answered
        .iter()
        .zip(numbers)
        .filter(|((_, _, include), _)| *include)
        .map(|(_, n)| n)
        .collect();
    (id, included)
}

fn open(cache: &mut FetchSessionCache, named: &[i32], now: i64) -> i32 {
    let context = begin(cache, request(0, 0), named, now).ok().unwrap();
    answer(cache, context, now, |_| quiet(5)).0
}

#[test]
fn an_incremental_answer_holds_only_news() {
    let mut cache = FetchSessionCache::new(10, usize::MAX);
    let id = open(&mut cache, &[0, 1, 2], 0);
    assert_ne!(id, NO_SESSION);
    let context = begin(&mut cache, request(id, 1), &[], 1).ok().unwrap();
    assert_eq!(answer(&mut cache, context, 1, |_| quiet(5)), (id, vec![]));
    let context = begin(&mut cache, request(id, 2), &[], 2).ok().unwrap();
    assert_eq!(
        answer(&mut cache, context, 2, |p| quiet(if p == 1 { 6 } else { 5 })),
        (id, vec![1])
    );
}

#[test]
fn a_partition_that_returned_data_moves_to_the_end() {
    let mut cache = FetchSessionCache::new(10, usize::MAX);
    let id = open(&mut cache, &[0, 1, 2], 0);
    let context = begin(&mut cache, request(id, 1), &[], 0).ok().unwrap();
    answer(&mut cache, context, 0, |p| {
        if p == 0 { with_records(5) } else { quiet(5) }
    });
    let context = begin(&mut cache, request(id, 2), &[], 0).ok().unwrap();
    let order: Vec<i32> = context
        .partitions
        .iter()
        .map(|(_, key, _)| key.partition)
        .collect();
    assert_eq!(order, [1, 2, 0]);
}

#[test]
fn a_partition_is_sent_again_once_its_error_goes() {
    let mut cache = FetchSessionCache::new(10, usize::MAX);
    let id = open(&mut cache, &[0], 0);
    let failed = PartitionOutcome {
        is_error: true,
        must_respond: true,
        ..quiet(-1)
    };
    let context = begin(&mut cache, request(id, 1), &[], 0).ok().unwrap();
    assert_eq!(answer(&mut cache, context, 0, |_| failed).1, [0]);
    let context = begin(&mut cache, request(id, 2), &[], 0).ok().unwrap();
    assert_eq!(answer(&mut cache, context, 0, |_| quiet(5)).1, [0]);
    let context = begin(&mut cache, request(id, 3), &[], 0).ok().unwrap();
    assert_eq!(answer(&mut cache, context, 0, |_| quiet(5)).1, [0; 0]);
}

#[test]
fn wrong_ids_epochs_and_kinds_are_refused() {
    let mut cache = FetchSessionCache::new(10, usize::MAX);
    let id = open(&mut cache, &[0], 0);
    assert_eq!(
        begin(&mut cache, request(id + 1, 1), &[], 0).err(),
        Some(SessionError::IdNotFound)
    );
    assert_eq!(
        begin(&mut cache, request(id, 2), &[], 0).err(),
        Some(SessionError::InvalidEpoch)
    );
    let by_id = SessionRequest {
        uses_topic_ids: true,
        ..request(id, 1)
    };
    assert_eq!(
        begin(&mut cache, by_id, &[], 0).err(),
        Some(SessionError::TopicIdMismatch)
    );
    let context = begin(&mut cache, request(id, 1), &[], 0).ok().unwrap();
    // The duplicate of a request that is still parked.
    assert_eq!(
        begin(&mut cache, request(id, 1), &[], 0).err(),
        Some(SessionError::InvalidEpoch)
    );
    answer(&mut cache, context, 0, |_| quiet(5));
    assert_eq!(
        begin(&mut cache, request(id, 1), &[], 0).err(),
        Some(SessionError::InvalidEpoch)
    );
}

#[test]
fn the_final_epoch_closes_the_session_and_still_serves() {
    let mut cache = FetchSessionCache::new(10, usize::MAX);
    let id = open(&mut cache, &[0], 0);
    let context = begin(&mut cache, request(id, FINAL_EPOCH), &[3], 0).ok().unwrap();
    assert_eq!(
        answer(&mut cache, context, 0, |_| quiet(5)),
        (NO_SESSION, vec![3])
    );
    assert_eq!(
        begin(&mut cache, request(id, 1), &[], 0).err(),
        Some(SessionError::IdNotFound)
    );
    assert!(cache.is_empty());
}

#[test]
fn forgetting_the_last_partition_ends_the_session() {
    let mut cache = FetchSessionCache::new(10, usize::MAX);
    let id = open(&mut cache, &[0, 1], 0);
    let gone = [key(0), key(1)];
    let context = cache
        .begin(request(id, 1), std::iter::empty(), gone.into_iter(), 0)
        .ok()
        .unwrap();
    assert_eq!(answer(&mut cache, context, 0, |_| quiet(5)), (NO_SESSION, vec![]));
    assert!(cache.is_empty());
}

/// KAFKA-9137: busy sessions were evicted by newcomers, and all clients looped on session errors.
#[test]
fn young_sessions_stay_and_newcomers_get_data_without_a_session() {
    let mut cache = FetchSessionCache::new(2, usize::MAX);
    let first = open(&mut cache, &[0], 0);
    open(&mut cache, &[0], 0);
    let context = begin(&mut cache, request(0, 0), &[0, 1, 2], 1000).ok().unwrap();
    assert_eq!(
        answer(&mut cache, context, 1000, |_| quiet(5)),
        (NO_SESSION, vec![0, 1, 2])
    );
    // The second goes unused; the first is kept busy.
    let context = begin(&mut cache, request(first, 1), &[], 100_000).ok().unwrap();
    answer(&mut cache, context, 100_000, |_| quiet(5));
    assert_ne!(open(&mut cache, &[0], SESSION_EVICTION_MS + 1), NO_SESSION);
    assert!(begin(&mut cache, request(first, 2), &[], SESSION_EVICTION_MS + 1).is_ok());
    assert_eq!(cache.evictions(), 1);
}

#[test]
fn an_old_small_session_gives_way_to_a_larger_one() {
    let mut cache = FetchSessionCache::new(1, usize::MAX);
    let small = open(&mut cache, &[0], 0);
    let later = SESSION_EVICTION_MS + 1;
    let context = begin(&mut cache, request(small, 1), &[], later).ok().unwrap();
    answer(&mut cache, context, later, |_| quiet(5));
    assert_eq!(open(&mut cache, &[0], later), NO_SESSION);
    assert_ne!(open(&mut cache, &[0, 1], later), NO_SESSION);
}

/// Sessions were bounded by number alone: a thousand fetches of 1 MiB kept gigabytes.
#[test]
fn the_partitions_of_all_sessions_are_bounded() {
    let per_partition = key(0).bytes();
    let mut cache = FetchSessionCache::new(1000, 10 * per_partition);
    let all: Vec<i32> = (0..11).collect();
    assert_eq!(
        open(&mut cache, &all, 0),
        NO_SESSION,
        "too large for an empty cache"
    );
    let first = open(&mut cache, &all[..6], 0);
    assert_ne!(first, NO_SESSION);
    assert_eq!(
        open(&mut cache, &all[..5], 1),
        NO_SESSION,
        "nobody young gives way"
    );
    let second = open(&mut cache, &all[..4], 1);
    assert_ne!(second, NO_SESSION);
    assert_eq!(cache.bytes(), 10 * per_partition);

    // One that grows beyond ends, and its client gets all that it asked for.
    let context = begin(&mut cache, request(second, 1), &[4], 2).ok().unwrap();
    assert_eq!(
        answer(&mut cache, context, 2, |_| quiet(5)),
        (NO_SESSION, vec![0, 1, 2, 3, 4])
    );
    assert_eq!(cache.bytes(), 6 * per_partition);

    // What a session forgot, its slab still holds.
    let gone: Vec<_> = (0..5).map(key).collect();
    let context = cache
        .begin(request(first, 1), std::iter::empty(), gone.into_iter(), 3)
        .ok()
        .unwrap();
    answer(&mut cache, context, 3, |_| quiet(5));
    assert_eq!(cache.bytes(), 6 * per_partition);

    // A stale one gives way.
    let later = SESSION_EVICTION_MS + 4;
    assert_ne!(open(&mut cache, &all[..10], later), NO_SESSION);
    assert_eq!((cache.len(), cache.bytes()), (1, 10 * per_partition));
}

#[test]
fn the_epoch_wraps_past_zero() {
    assert_eq!(next_epoch(i32::MAX), 1);
    assert_eq!(next_epoch(1), 2);
}
