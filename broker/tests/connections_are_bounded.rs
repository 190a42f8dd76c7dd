//! Caps on connections, idle ones closed, clients that do not read held at bounded memory.

mod support;

use std::io::Read;

use kafka_protocol::messages::{FetchRequest, MetadataRequest};
use support::topic::FETCH_VERSION;
use support::{Batch, Broker, Client, Partition};

fn ask(client: &mut Client) -> bool {
    client
        .try_call(1, &MetadataRequest::default().with_topics(Some(Vec::new())))
        .is_ok()
}

#[test]
fn the_nodes_cap_holds_over_all_shards() {
    let broker = Broker::start_with(&["--shards", "2", "--set", "max.connections=3"]);
    let mut held: Vec<Client> = (0..3).map(|n| broker.client_of(1000 + n % 2)).collect();
    assert!(held.iter_mut().all(ask));
    for shard in [1000, 1001] {
        assert!(
            !ask(&mut broker.client_of(shard)),
            "a fourth connection was served"
        );
    }
    held.pop();
    // The place comes back once the broker has seen the end.
    while !ask(&mut broker.client()) {
        std::thread::yield_now();
    }
}

#[test]
fn the_cap_of_an_address_holds() {
    let broker = Broker::start_set(&["max.connections.per.ip=2"]);
    let mut held: Vec<Client> = (0..2).map(|_| broker.client()).collect();
    assert!(held.iter_mut().all(ask));
    assert!(!ask(&mut broker.client()));
}

#[test]
fn idle_connections_are_closed_and_parked_ones_are_not() {
    let broker = Broker::start_set(&["connections.max.idle.ms=1500"]);
    let mut reader = Partition::create(&broker, "idle", &[]);
    reader
        .client
        .send(FETCH_VERSION, &reader.fetch_request(0).with_max_wait_ms(5000))
        .unwrap();
    let mut idle = broker.client();
    assert!(ask(&mut idle));
    idle.expect_close();
    assert!(reader.client.receive::<FetchRequest>(FETCH_VERSION).is_ok());
}

#[test]
fn readers_that_do_not_read_hold_bounded_memory() {
    let broker = Broker::start();
    let mut writer = Partition::create(&broker, "slow", &[("max.message.bytes", "2000000")]);
    for _ in 0..40 {
        writer.append(&Batch::of_values([vec![b'x'; 1_000_000]]));
    }
    let before = broker.resident_bytes();
    let mut slow: Vec<Partition> = (0..40).map(|_| Partition::find(&broker, "slow", 0)).collect();
    for reader in &mut slow {
        let topics = reader.fetch_request(0).topics;
        let mut request = reader
            .fetch_request(0)
            .with_topics(topics)
            .with_max_wait_ms(600_000);
        request.topics[0].partitions[0].partition_max_bytes = 50 << 20;
        reader.client.send(FETCH_VERSION, &request).unwrap();
    }
    // The broker serves others meanwhile, with memory as before: the cache may fill, and no more than its budget.
    let end = writer.end_offset();
    assert_eq!(writer.append(&Batch::of_values(["news"])), end);
    let resident = broker.resident_bytes();
    assert!(
        resident < (64 << 20) + (64 << 20) + (2 << 20),
        "{before} bytes before, {resident} bytes now"
    );
    // Whoever reads at last gets what was asked.
    let mut first = [0; 4];
    slow[0].client.stream.read_exact(&mut first).unwrap();
    assert!(i32::from_be_bytes(first) > 1_000_000);
}
