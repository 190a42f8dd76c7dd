//! Clients of a node on virtual time: what they sent is served, what they wait for ends, and a stop answers what it took.

#![allow(clippy::unwrap_used)]

#[path = "support/simulated.rs"]
mod simulated;
mod support;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    ApiVersionsRequest, DeleteRecordsRequest, FetchRequest, MetadataRequest, ProduceRequest,
};
use simulated::{
    FETCH_VERSION, PRODUCE_VERSION, SimClient, batch_of, config, config_of, fetch_request, name,
    produce_request, since, with_node,
};
use strandline_core::metadata::{Answer, BrokerId, Command, NodeId, NodeRegistration, ShardRegistration};
use strandline_runtime::sim::SimRuntime;
use strandline_runtime::{Queue, Runtime, WriteHalf};
use strandline_storage::disk::SimDiskOptions;
use strandline_storage::disk::sim::Latency;
use uuid::Uuid;

const METADATA_VERSION: i16 = 8;
const DELETE_RECORDS_VERSION: i16 = 1;
const MIB: usize = 1 << 20;
/// Longer than any network delay of the simulation, shorter than anything that is measured here.
const MOMENT: Duration = Duration::from_millis(50);
const FLUSH: Duration = Duration::from_millis(300);

fn slow_flushes() -> SimDiskOptions {
    let flush = FLUSH.as_micros() as u64;
    SimDiskOptions {
        flush: Latency::micros(flush, flush),
        ..SimDiskOptions::default()
    }
}

/// Two shards open their stores at different times.
fn uneven_flushes() -> SimDiskOptions {
    SimDiskOptions {
        flush: Latency::micros(1_000, 2 * FLUSH.as_micros() as u64),
        ..SimDiskOptions::default()
    }
}

fn metadata_request(topics: usize) -> MetadataRequest {
    let topics = (0..topics)
        .map(|number| MetadataRequestTopic::default().with_name(Some(name(&format!("t{number}")))));
    MetadataRequest::default()
        .with_topics(Some(topics.collect()))
        .with_allow_auto_topic_creation(false)
}

/// A frame of `announced` bytes, of which `sent` are sent.
async fn send_part(client: &mut SimClient, announced: usize, sent: usize) {
    let mut bytes = vec![0; 4 + sent];
    bytes[..4].copy_from_slice(&(announced as u32).to_be_bytes());
    client.write.write_all(&bytes).await.unwrap();
}

/// The first bytes of a request were read while an earlier one was parked, waited for a buffer, and were dropped when the
/// earlier one was answered: the rest of the stream was nonsense.
#[test]
fn what_comes_while_a_request_is_parked_is_not_lost() {
    with_node(
        1,
        SimDiskOptions::default(),
        config(&[]),
        |runtime, node| async move {
            node.ready.await.unwrap();
            let mut client = SimClient::connect(&runtime).await;
            client.create("t", 1, &[]).await;
            // More than half of the receive memory (a quarter of 64 MiB) is taken: buffers go back as soon as they are empty.
            let mut others: Vec<SimClient> = Vec::new();
            for _ in 0..140 {
                let mut other = SimClient::connect(&runtime).await;
                send_part(&mut other, 65_000, 64_000).await;
                others.push(other);
            }
            client.send(FETCH_VERSION, &fetch_request("t", 1000, 5_000)).await;
            runtime.sleep(MOMENT).await;
            // All of it and more is wanted now: the next request waits for a buffer.
            for _ in 0..160 {
                let mut other = SimClient::connect(&runtime).await;
                send_part(&mut other, 65_000, 64_000).await;
                others.push(other);
            }
            runtime.sleep(MOMENT).await;
            client.send(METADATA_VERSION, &metadata_request(10)).await;
            client.receive::<FetchRequest>(FETCH_VERSION).await;
            runtime.sleep(MOMENT).await;
            drop(others);
            let answer = client.receive::<MetadataRequest>(METADATA_VERSION).await;
            assert_eq!(answer.topics.len(), 10);
        },
    );
}

/// A request that came slowly behind a parked one was counted as incomplete until its turn, and its connection cut off.
#[test]
fn a_whole_request_waits_its_turn_however_long() {
    with_node(
        2,
        SimDiskOptions::default(),
        config(&[]),
        |runtime, node| async move {
            node.ready.await.unwrap();
            let mut client = SimClient::connect(&runtime).await;
            client.create("t", 1, &[]).await;
            client
                .send(FETCH_VERSION, &fetch_request("t", 1000, 50_000))
                .await;
            let request = metadata_request(2000);
            let frame = support::client::frame(METADATA_VERSION, 9, &request);
            assert!(frame.len() > 8192, "more than one read");
            for part in frame.chunks(2000) {
                client.write.write_all(part).await.unwrap();
                runtime.sleep(MOMENT).await;
            }
            client.receive::<FetchRequest>(FETCH_VERSION).await;
            let answer = client.receive::<MetadataRequest>(METADATA_VERSION).await;
            assert_eq!(answer.topics.len(), 2000);
        },
    );
}

/// One write of a whole answer was timed: a client that took 16 MiB in more than 30 s was cut off although it read.
#[test]
fn a_slow_reader_is_served_and_one_that_does_not_read_is_cut_off() {
    let config = config(&[("message.max.bytes", "2000000")]);
    with_node(3, SimDiskOptions::default(), config, |runtime, node| async move {
        node.ready.await.unwrap();
        let mut slow = SimClient::connect(&runtime).await;
        let mut stuck = SimClient::connect(&runtime).await;
        slow.create("t", 1, &[]).await;
        for _ in 0..18 {
            let request = produce_request("t", batch_of(MIB));
            let answer = slow.ask(PRODUCE_VERSION, &request).await;
            assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
        }
        // Together they hold all the memory that answers may.
        let everything = fetch_request("t", 50 << 20, 100);
        slow.send(FETCH_VERSION, &everything).await;
        runtime.sleep(MOMENT).await;
        stuck.send(FETCH_VERSION, &everything).await;
        runtime.sleep(MOMENT).await;
        let start = runtime.now();
        let size = slow.exactly(4).await.unwrap();
        let size = u32::from_be_bytes(size.try_into().unwrap()) as usize;
        assert!(size > 4 * MIB, "{size}");
        // All of it within a minute: as long as two clients that do not read may stay.
        let pause = Duration::from_secs(60) * (64 << 10) / size as u32;
        let mut left = size;
        while left > 0 {
            let part = left.min(64 << 10);
            slow.exactly(part)
                .await
                .expect("a client that reads is not cut off");
            left -= part;
            runtime.sleep(pause).await;
        }
        assert!(since(&runtime, start) > Duration::from_secs(40));
        let of_the_stuck = stuck.try_receive::<FetchRequest>(FETCH_VERSION).await;
        assert!(of_the_stuck.is_none(), "a client that does not read is cut off");
    });
}

/// Fills the journal's backlog, so that the next append waits: produces that are all in flight.
async fn fill_backlog(client: &mut SimClient, count: usize) {
    for _ in 0..count {
        client
            .send(PRODUCE_VERSION, &produce_request("t", batch_of(100_000)))
            .await;
    }
}

/// Writes produces without reading answers, in a task of its own, since the node takes them no faster than it flushes.
fn fill_in_background(runtime: &SimRuntime, count: usize) -> Rc<RefCell<Option<SimClient>>> {
    let filled: Rc<RefCell<Option<SimClient>>> = Rc::default();
    let (place, task) = (filled.clone(), runtime.clone());
    runtime.spawn(Queue::Background, async move {
        let mut client = SimClient::connect(&task).await;
        fill_backlog(&mut client, count).await;
        *place.borrow_mut() = Some(client);
    });
    filled
}

/// A produce that waited for room was in no outbox: a stop closed its connection without an answer.
#[test]
fn a_stop_answers_a_produce_that_waits_for_room() {
    with_node(4, slow_flushes(), config(&[]), |runtime, node| async move {
        node.ready.await.unwrap();
        SimClient::connect(&runtime).await.create("t", 1, &[]).await;
        let _filling = fill_in_background(&runtime, 40);
        runtime.sleep(MOMENT * 2).await;
        let mut waiting = SimClient::connect(&runtime).await;
        waiting
            .send(PRODUCE_VERSION, &produce_request("t", batch_of(100_000)))
            .await;
        runtime.sleep(MOMENT).await;
        node.client.stop();
        let answer = waiting.receive::<ProduceRequest>(PRODUCE_VERSION).await;
        assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
        node.ended.await.unwrap().unwrap();
    });
}

/// One that was accepted in the poll of the stop was told by nobody, and the stop waited for its end in vain. Here the
/// first shard listens while the second one still opens its store: its first look for connections finds many.
#[test]
fn a_stop_does_not_wait_for_connections_that_came_with_it() {
    for seed in 10..20 {
        with_node(
            seed,
            uneven_flushes(),
            config_of(2, &[]),
            move |runtime, node| async move {
                let clients: Rc<RefCell<Vec<SimClient>>> = Rc::default();
                for _ in 0..200 {
                    let (task, clients) = (runtime.clone(), clients.clone());
                    runtime.spawn(Queue::Background, async move {
                        // Refused until the node listens; accepted once it serves.
                        loop {
                            match SimClient::try_connect(&task).await {
                                Ok(client) => return clients.borrow_mut().push(client),
                                Err(_) => task.sleep(MOMENT).await,
                            }
                        }
                    });
                }
                node.ready.await.unwrap();
                node.client.stop();
                let start = runtime.now();
                node.ended.await.unwrap().unwrap();
                assert!(since(&runtime, start) < Duration::from_secs(5), "seed {seed}");
            },
        );
    }
}

/// The time was taken before the wait for room: later offsets had earlier times.
#[test]
fn append_times_rise_with_the_offsets() {
    let config = config(&[]);
    with_node(5, slow_flushes(), config, |runtime, node| async move {
        node.ready.await.unwrap();
        let topic = [("message.timestamp.type", "LogAppendTime")];
        SimClient::connect(&runtime).await.create("t", 1, &topic).await;
        let answered: Rc<RefCell<Vec<(i64, i64)>>> = Rc::default();
        for _ in 0..30 {
            let (task, answered) = (runtime.clone(), answered.clone());
            runtime.spawn(Queue::Background, async move {
                let mut client = SimClient::connect(&task).await;
                for _ in 0..4 {
                    client
                        .send(PRODUCE_VERSION, &produce_request("t", batch_of(100_000)))
                        .await;
                }
                for _ in 0..4 {
                    let answer = client.receive::<ProduceRequest>(PRODUCE_VERSION).await;
                    let part = &answer.responses[0].partition_responses[0];
                    assert_eq!(part.error_code, 0);
                    answered
                        .borrow_mut()
                        .push((part.base_offset, part.log_append_time_ms));
                }
            });
        }
        while answered.borrow().len() < 120 {
            runtime.sleep(MOMENT).await;
        }
        let mut answered = answered.take();
        answered.sort_unstable();
        assert_eq!(answered[0].0, 0);
        let first = answered[0].1;
        assert!(answered[119].1 > first, "they had to wait");
        assert!(answered.is_sorted_by_key(|(_, time)| *time), "{answered:?}");
    });
}

/// Each partition had a timeout of its own, one after the other.
#[test]
fn delete_records_has_one_deadline_and_one_flush_for_all_its_partitions() {
    with_node(6, slow_flushes(), config(&[]), |runtime, node| async move {
        node.ready.await.unwrap();
        let mut client = SimClient::connect(&runtime).await;
        client.create("t", 20, &[]).await;
        let mut produce = produce_request("t", batch_of(10));
        let first = produce.topic_data[0].partition_data[0].clone();
        produce.topic_data[0].partition_data = (0..20).map(|index| first.clone().with_index(index)).collect();
        client.ask(PRODUCE_VERSION, &produce).await;

        let partitions = (0..20).map(|index| {
            DeleteRecordsPartition::default()
                .with_partition_index(index)
                .with_offset(-1)
        });
        let topic = DeleteRecordsTopic::default()
            .with_name(name("t"))
            .with_partitions(partitions.collect());
        let request = DeleteRecordsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(100);
        let start = runtime.now();
        let answer = client.ask(DELETE_RECORDS_VERSION, &request).await;
        assert!(since(&runtime, start) < Duration::from_millis(200));
        assert!(answer.topics[0].partitions.iter().all(|p| p.error_code == 7));

        let start = runtime.now();
        let answer = client
            .ask(DELETE_RECORDS_VERSION, &request.with_timeout_ms(60_000))
            .await;
        assert!(since(&runtime, start) < FLUSH * 4);
        assert!(
            answer.topics[0]
                .partitions
                .iter()
                .all(|p| (p.error_code, p.low_watermark) == (0, 1))
        );
    });
}

/// A partition that is led in a new epoch is a new one: whoever waited at the old one was forgotten.
#[test]
fn a_new_leader_epoch_ends_the_waits_of_the_old_one() {
    with_node(7, slow_flushes(), config(&[]), |runtime, node| async move {
        node.ready.await.unwrap();
        let mut parked = SimClient::connect(&runtime).await;
        let mut producer = SimClient::connect(&runtime).await;
        parked.create("t", 1, &[]).await;
        parked
            .send(FETCH_VERSION, &fetch_request("t", 1000, 600_000))
            .await;
        producer
            .send(PRODUCE_VERSION, &produce_request("t", batch_of(10)))
            .await;
        runtime.sleep(MOMENT).await;

        let start = runtime.now();
        let broker = node.images.latest().broker(BrokerId(1000)).unwrap().clone();
        let shard = ShardRegistration {
            shard: 0,
            directory_id: broker.directory_id,
            endpoints: broker.endpoints.clone(),
            link: broker.link.clone(),
            damaged: Vec::new(),
        };
        let registration = NodeRegistration {
            node: NodeId(1),
            directory_id: Uuid::from_u128(2),
            boot_id: "simulated".to_owned(),
            rack: broker.rack.clone(),
            shards: vec![shard],
        };
        let timeout = Duration::from_secs(10);
        let registered = node
            .client
            .propose(Command::RegisterNode(registration), timeout)
            .await;
        let Ok(Answer::Registered(Ok(epoch))) = registered else {
            panic!("not registered")
        };
        let brokers = vec![(BrokerId(1000), epoch)];
        node.client
            .propose(Command::UnfenceBrokers { brokers }, timeout)
            .await
            .unwrap();
        parked.receive::<FetchRequest>(FETCH_VERSION).await;
        producer.receive::<ProduceRequest>(PRODUCE_VERSION).await;
        assert!(since(&runtime, start) < Duration::from_secs(10));
        // And it is served in the new one.
        let answer = producer
            .ask(PRODUCE_VERSION, &produce_request("t", batch_of(10)))
            .await;
        assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
        producer.ask(0, &ApiVersionsRequest::default()).await;
    });
}
