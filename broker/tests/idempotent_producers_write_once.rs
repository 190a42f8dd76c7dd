//! A batch sent again is stored once and answered as the first time; gaps and old epochs are refused.

mod support;

use kafka_protocol::messages::InitProducerIdRequest;
use support::topic::PRODUCE_VERSION;
use support::{Batch, Broker, Client, Partition};

const INVALID_REQUEST: i16 = 42;
const OUT_OF_ORDER_SEQUENCE_NUMBER: i16 = 45;
const INVALID_PRODUCER_EPOCH: i16 = 47;
const TRANSACTIONAL_ID_AUTHORIZATION_FAILED: i16 = 53;

fn new_producer(client: &mut Client) -> (i64, i16) {
    let request = InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_producer_id((-1).into())
        .with_producer_epoch(-1);
    let answer = client.call(4, &request);
    assert_eq!(answer.error_code, 0);
    (answer.producer_id.0, answer.producer_epoch)
}

fn batch(producer: (i64, i16), sequence: i32) -> Batch {
    Batch::of_values([format!("{sequence}")]).by_producer(producer.0, producer.1, sequence)
}

#[test]
fn producer_ids_are_never_given_twice() {
    let mut broker = Broker::start_with(&["--shards", "2"]);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3 {
        for broker_id in [1000, 1001] {
            let mut client = broker.client_of(broker_id);
            for _ in 0..50 {
                let (id, epoch) = new_producer(&mut client);
                assert_eq!(epoch, 0);
                assert!(seen.insert(id), "{id} was given twice");
            }
        }
        broker.kill();
        broker.launch();
    }
}

/// B04: redpanda #3039, #3038, #22670: a batch retried over a crash was stored twice.
#[test]
fn the_last_five_batches_are_known_also_after_a_crash() {
    let mut broker = Broker::start();
    let mut partition = Partition::create(&broker, "retries", &[]);
    let producer = new_producer(&mut partition.client);
    for sequence in 0..6 {
        assert_eq!(partition.append(&batch(producer, sequence)), i64::from(sequence));
    }
    for sequence in 1..6 {
        assert_eq!(
            partition.append(&batch(producer, sequence)),
            i64::from(sequence),
            "the copy of {sequence}"
        );
    }
    assert_eq!(
        partition.produce(&batch(producer, 0)).error_code,
        OUT_OF_ORDER_SEQUENCE_NUMBER
    );
    broker.kill();
    broker.launch();
    let mut partition = Partition::find(&broker, "retries", 0);
    assert_eq!(partition.append(&batch(producer, 5)), 5);
    assert_eq!(partition.end_offset(), 6);
    assert_eq!(partition.append(&batch(producer, 6)), 6);
}

#[test]
fn gaps_and_old_epochs_are_refused_and_an_unknown_producer_may_begin_anywhere() {
    let broker = Broker::start();
    let mut partition = Partition::create(&broker, "gaps", &[]);
    let producer = new_producer(&mut partition.client);
    partition.append(&batch(producer, 0));
    let answer = partition.produce(&batch(producer, 2));
    assert_eq!(answer.error_code, OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert!(answer.error_message.is_some());
    partition.append(&batch((producer.0, 1), 0));
    assert_eq!(
        partition.produce(&batch(producer, 1)).error_code,
        INVALID_PRODUCER_EPOCH
    );
    let unknown = new_producer(&mut partition.client);
    partition.append(&batch(unknown, 77));
    assert_eq!(partition.end_offset(), 3);
}

/// B04: a producer that was idle for longer than its id is remembered may go on, as from an unknown one.
#[test]
fn an_expired_producer_may_go_on_anywhere() {
    let broker = Broker::start_set(&["producer.id.expiration.ms=1000"]);
    let mut partition = Partition::create(&broker, "expired", &[]);
    let producer = new_producer(&mut partition.client);
    partition.append(&batch(producer, 0));
    loop {
        let code = partition.produce(&batch(producer, 7)).error_code;
        if code == 0 {
            break;
        }
        assert_eq!(code, OUT_OF_ORDER_SEQUENCE_NUMBER);
    }
    assert_eq!(partition.end_offset(), 2);
}

/// A producer id without its epoch, or the other way round, means nothing; both together ask for a new id.
#[test]
fn an_id_and_its_epoch_go_together() {
    let broker = Broker::start();
    let ask = |id: i64, epoch: i16| {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_producer_id(id.into())
            .with_producer_epoch(epoch);
        let answer = broker.client().call(4, &request);
        (
            answer.error_code,
            answer.producer_id.0 >= 0,
            answer.producer_epoch,
        )
    };
    assert_eq!(ask(7, -1), (INVALID_REQUEST, false, -1));
    assert_eq!(ask(-1, 3), (INVALID_REQUEST, false, -1));
    assert_eq!(ask(7, 3), (0, true, 0));
}

#[test]
fn sequences_wrap_after_the_largest() {
    let broker = Broker::start();
    let mut partition = Partition::create(&broker, "wrap", &[]);
    let (id, epoch) = new_producer(&mut partition.client);
    let first = Batch::of_values(["a", "b"]).by_producer(id, epoch, i32::MAX - 1);
    assert_eq!(partition.append(&first), 0);
    let second = Batch::of_values(["c", "d"]).by_producer(id, epoch, 0);
    assert_eq!(partition.append(&second), 2);
    assert_eq!(partition.append(&first), 0);
    assert_eq!(partition.append(&second), 2);
    // One batch across the wrap.
    let (id, epoch) = new_producer(&mut partition.client);
    let across = Batch::of_values(["e", "f", "g"]).by_producer(id, epoch, i32::MAX - 1);
    assert_eq!(partition.append(&across), 4);
    assert_eq!(
        partition.append(&Batch::of_values(["h"]).by_producer(id, epoch, 1)),
        7
    );
}

#[test]
fn five_in_flight_are_stored_in_order_and_their_copies_are_recognised() {
    let broker = Broker::start();
    let mut partition = Partition::create(&broker, "flight", &[]);
    let producer = new_producer(&mut partition.client);
    for copy in 0..2 {
        for sequence in 0..5 {
            let request = partition.produce_request(-1, batch(producer, sequence).encode());
            partition.client.send(PRODUCE_VERSION, &request).unwrap();
        }
        for sequence in 0..5 {
            let (_, answer) = partition
                .client
                .receive::<kafka_protocol::messages::ProduceRequest>(PRODUCE_VERSION)
                .unwrap();
            let answer = &answer.responses[0].partition_responses[0];
            assert_eq!(
                (answer.error_code, answer.base_offset),
                (0, sequence),
                "copy {copy}"
            );
        }
    }
    assert_eq!(partition.end_offset(), 5);
}

#[test]
fn transactional_ids_are_refused_for_good() {
    let broker = Broker::start();
    let request = InitProducerIdRequest::default()
        .with_transactional_id(Some(
            kafka_protocol::protocol::StrBytes::from_static_str("t").into(),
        ))
        .with_transaction_timeout_ms(1000);
    for version in 0..=5 {
        let answer = broker.client().call(version, &request);
        assert_eq!(answer.error_code, TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
        assert_eq!(answer.producer_id.0, -1);
    }
}

/// B04: redpanda #22670: a producer that comes back after its records are gone must not fail for ever.
#[test]
fn a_producer_goes_on_after_its_records_are_deleted() {
    let broker = Broker::start();
    let mut partition = Partition::create(&broker, "deleted", &[]);
    let producer = new_producer(&mut partition.client);
    for sequence in 0..3 {
        partition.append(&batch(producer, sequence));
    }
    let deleted = partition.delete_records(-1);
    assert_eq!((deleted.error_code, deleted.low_watermark), (0, 3));
    assert_eq!(partition.append(&batch(producer, 3)), 3);
}
