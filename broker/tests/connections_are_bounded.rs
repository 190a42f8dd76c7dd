//! Caps on connections, idle ones closed, clients that do not read held at bounded memory.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::{ErrorKind, Write};
use std::time::Duration;

use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{FetchRequest, MetadataRequest, ProduceRequest};
use support::client::frame;
use support::topic::{FETCH_VERSION, PRODUCE_VERSION, name};
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

/// What a node of one shard may take: the budget, 64 MiB, and 2 MiB a shard.
const MEMORY_MAX: u64 = (64 << 20) + (64 << 20) + (2 << 20);

/// Records were counted once they were read, and those that came from segments nowhere: every reader that began while
/// another waited for the disk saw the same room.
#[test]
fn readers_that_do_not_read_hold_bounded_memory() {
    const BATCHES: usize = 24;
    let mut broker = Broker::start();
    let mut writer = Partition::create(&broker, "slow", &[("max.message.bytes", "2000000")]);
    for _ in 0..BATCHES {
        writer.append(&Batch::of_values([vec![b'x'; 1_000_000]]));
    }
    // Read from segments from here on.
    assert!(broker.stop().success());
    broker.launch();
    let mut slow: Vec<Partition> = (0..24).map(|_| Partition::find(&broker, "slow", 0)).collect();
    for reader in &mut slow {
        let mut request = reader.fetch_request(0).with_max_wait_ms(600_000);
        request.topics[0].partitions[0].partition_max_bytes = 50 << 20;
        request.max_bytes = 50 << 20;
        reader.client.send(FETCH_VERSION, &request).unwrap();
    }
    // The broker serves others meanwhile.
    let mut writer = Partition::find(&broker, "slow", 0);
    assert_eq!(writer.append(&Batch::of_values(["news"])), BATCHES as i64);
    // Whoever reads at last gets what was asked.
    let readers: Vec<_> = slow
        .into_iter()
        .map(|mut reader| std::thread::spawn(move || reader.client.receive_frame().unwrap().len()))
        .collect();
    for reader in readers {
        assert!(reader.join().unwrap() > 1_000_000);
    }
    let peak = broker.peak_resident_bytes();
    assert!(peak < MEMORY_MAX, "{peak} bytes");
}

/// A produce of one topic that does not exist.
fn large_produce(partitions: i32) -> Vec<u8> {
    let partitions = (0..partitions).map(|index| PartitionProduceData::default().with_index(index));
    let topic = TopicProduceData::default()
        .with_name(name("unknown"))
        .with_partition_data(partitions.collect());
    let request = ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(1000)
        .with_topic_data(vec![topic]);
    frame(PRODUCE_VERSION, 1, &request)
}

/// Writes for as long as the broker takes it, and reads nothing; how much it took.
fn write_until_stuck(client: &mut Client, bytes: &[u8]) -> usize {
    client
        .stream
        .set_write_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    let mut sent = 0;
    while sent < bytes.len() {
        match client.stream.write(&bytes[sent..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // A test that was stopped for a moment goes on.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("{error}"),
        }
    }
    sent
}

/// Answers that wait were bounded in number, and one may take twenty times what its request does.
#[test]
fn answers_that_nobody_reads_hold_bounded_memory() {
    // Few large ones, and many small ones; both far more than the socket's buffers hold.
    for (partitions, requests) in [(40_000, 70), (1000, 1000)] {
        let broker = Broker::start();
        let mut client = broker.client();
        let bytes = large_produce(partitions).repeat(requests);
        let sent = write_until_stuck(&mut client, &bytes);
        let mut other = broker.client();
        assert!(ask(&mut other), "others are served");
        if partitions == 1000 {
            // Also with a large answer: the small ones of one connection do not take what all have.
            other.send_raw(&large_produce(40_000)).unwrap();
            assert!(other.receive_frame().unwrap().len() > 20 * 40_000);
        }
        let mut stream = client.stream.try_clone().unwrap();
        let rest = std::thread::spawn(move || {
            stream.set_write_timeout(None).unwrap();
            stream.write_all(&bytes[sent..]).unwrap();
        });
        for _ in 0..requests {
            assert!(client.receive_frame().unwrap().len() > 20 * partitions as usize);
        }
        rest.join().unwrap();
        let peak = broker.peak_resident_bytes();
        assert!(peak < MEMORY_MAX, "{partitions} partitions: {peak} bytes");
    }
}

/// Answers of many connections that are begun at one time.
#[test]
fn large_answers_begun_together_hold_bounded_memory() {
    const PARTITIONS: i32 = 131_000;
    let broker = Broker::start();
    let request = large_produce(PARTITIONS);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            let mut client = broker.client();
            let request = &request;
            scope.spawn(move || {
                client.send_raw(request).unwrap();
                assert!(client.receive_frame().unwrap().len() > 20 * PARTITIONS as usize);
            });
        }
    });
    let peak = broker.peak_resident_bytes();
    assert!(peak < MEMORY_MAX, "{peak} bytes");
}
