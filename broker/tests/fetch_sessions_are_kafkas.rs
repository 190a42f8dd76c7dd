//! Fetch sessions over the wire (KIP-227); the rules themselves are tested beside `core::fetch_session`.

mod support;

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kafka_protocol::messages::{FetchRequest, FetchResponse};
use support::topic::{FETCH_VERSION, create, name};
use support::{Batch, Broker, Client, Partition};

const FETCH_SESSION_ID_NOT_FOUND: i16 = 70;
const INVALID_FETCH_SESSION_EPOCH: i16 = 71;
const FETCH_SESSION_TOPIC_ID_ERROR: i16 = 106;

fn request(session: (i32, i32), partitions: &[(i32, i64)]) -> FetchRequest {
    let partitions = partitions.iter().map(|(index, offset)| {
        FetchPartition::default()
            .with_partition(*index)
            .with_fetch_offset(*offset)
            .with_current_leader_epoch(-1)
            .with_last_fetched_epoch(-1)
            .with_partition_max_bytes(1 << 20)
    });
    let partitions: Vec<_> = partitions.collect();
    let topics = if partitions.is_empty() {
        Vec::new()
    } else {
        vec![
            FetchTopic::default()
                .with_topic(name("sessions"))
                .with_partitions(partitions),
        ]
    };
    FetchRequest::default()
        .with_replica_id((-1).into())
        .with_max_bytes(1 << 20)
        .with_session_id(session.0)
        .with_session_epoch(session.1)
        .with_topics(topics)
}

fn indexes(answer: &FetchResponse) -> Vec<i32> {
    answer
        .responses
        .iter()
        .flat_map(|topic| &topic.partitions)
        .map(|p| p.partition_index)
        .collect()
}

fn open(client: &mut Client, partitions: &[(i32, i64)]) -> i32 {
    client
        .call(FETCH_VERSION, &request((0, 0), partitions))
        .session_id
}

#[test]
fn an_incremental_fetch_tells_only_news() {
    let broker = Broker::start();
    create(&mut broker.client(), "sessions", 3, &[]);
    let mut p = Partition::find(&broker, "sessions", 1);
    let id = open(&mut p.client, &[(0, 0), (1, 0), (2, 0)]);
    assert!(id > 0);
    let answer = p.client.call(FETCH_VERSION, &request((id, 1), &[]));
    assert_eq!(
        (answer.error_code, answer.session_id, indexes(&answer)),
        (0, id, vec![])
    );
    p.append(&Batch::of_values(["a"]));
    let answer = p.client.call(FETCH_VERSION, &request((id, 2), &[]));
    assert_eq!(indexes(&answer), [1]);
    // Moved past the record, and partition 2 forgotten.
    let forget = ForgottenTopic::default()
        .with_topic(name("sessions"))
        .with_partitions(vec![2]);
    let next = request((id, 3), &[(1, 1)]).with_forgotten_topics_data(vec![forget]);
    assert_eq!(indexes(&p.client.call(FETCH_VERSION, &next)), [0; 0]);
    // A partition that does not exist is told every time.
    for epoch in 4..6 {
        let answer = p.client.call(FETCH_VERSION, &request((id, epoch), &[(9, 0)]));
        assert_eq!(indexes(&answer), [9]);
        assert_eq!(answer.responses[0].partitions[0].error_code, 3);
    }
}

/// B12.
#[test]
fn wrong_ids_and_epochs_are_told_and_the_final_epoch_closes() {
    let broker = Broker::start();
    create(&mut broker.client(), "sessions", 1, &[]);
    let mut client = broker.client();
    let id = open(&mut client, &[(0, 0)]);
    for (session, code) in [
        ((id.wrapping_add(1), 1), FETCH_SESSION_ID_NOT_FOUND),
        ((id, 2), INVALID_FETCH_SESSION_EPOCH),
        ((id, 1), 0),
        ((id, 1), INVALID_FETCH_SESSION_EPOCH),
    ] {
        let answer = client.call(FETCH_VERSION, &request(session, &[]));
        assert_eq!(answer.error_code, code, "{session:?}");
    }
    assert_eq!(
        client.call(13, &request((id, 2), &[])).error_code,
        FETCH_SESSION_TOPIC_ID_ERROR
    );
    let closed = client.call(FETCH_VERSION, &request((id, -1), &[(0, 0)]));
    assert_eq!(
        (closed.error_code, closed.session_id, indexes(&closed)),
        (0, 0, vec![0])
    );
    let gone = client.call(FETCH_VERSION, &request((id, 3), &[]));
    assert_eq!(gone.error_code, FETCH_SESSION_ID_NOT_FOUND);
}

/// B12: KAFKA-9137: with the cache full, sessions in use were evicted and every client looped on errors.
#[test]
fn beyond_the_slots_clients_get_data_without_a_session() {
    let broker = Broker::start_set(&["max.incremental.fetch.session.cache.slots=3"]);
    create(&mut broker.client(), "sessions", 1, &[]);
    let mut p = Partition::find(&broker, "sessions", 0);
    p.append(&Batch::of_values(["a"]));
    let mut clients: Vec<(Client, i32)> = (0..5)
        .map(|_| {
            let mut client = broker.client();
            let id = open(&mut client, &[(0, 0)]);
            (client, id)
        })
        .collect();
    assert_eq!(clients.iter().filter(|(_, id)| *id > 0).count(), 3);
    for (client, id) in &mut clients {
        let (session, named): ((i32, i32), &[(i32, i64)]) = if *id > 0 {
            ((*id, 1), &[])
        } else {
            ((0, 0), &[(0, 0)])
        };
        let answer = client.call(FETCH_VERSION, &request(session, named));
        assert_eq!(answer.error_code, 0);
        assert_eq!(indexes(&answer), [0]);
    }
}

/// B09: redpanda #3409: partitions at the front of a request starved those behind them.
#[test]
fn every_partition_of_a_session_gets_its_turn() {
    let broker = Broker::start();
    create(&mut broker.client(), "sessions", 16, &[]);
    let mut p = Partition::find(&broker, "sessions", 0);
    for index in 0..16 {
        p.index = index;
        for _ in 0..20 {
            p.append(&Batch::of_values([vec![b'x'; 10_000]]));
        }
    }
    let all: Vec<(i32, i64)> = (0..16).map(|index| (index, 0)).collect();
    let limited = |session, named: &[(i32, i64)]| request(session, named).with_max_bytes(1);
    let first = p.client.call(FETCH_VERSION, &limited((0, 0), &all));
    let id = first.session_id;
    let mut served = std::collections::BTreeSet::new();
    for epoch in 1..17 {
        let answer = p.client.call(FETCH_VERSION, &limited((id, epoch), &[]));
        let with_data = answer.responses.iter().flat_map(|topic| &topic.partitions);
        served.extend(
            with_data
                .filter(|p| p.records.as_ref().is_some_and(|r| !r.is_empty()))
                .map(|p| p.partition_index),
        );
    }
    assert_eq!(served.len(), 16);
}
