//! Deleting topics while they are written and read: everyone hears of it at once, and nothing comes back
//! (B30: redpanda #264, librdkafka #1582, akhq #49; B37: pebble #864, rocksdb #12403).

#![allow(clippy::unwrap_used)]

mod support;

use std::thread;

use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::{DeleteTopicsRequest, FetchRequest};
use support::topic::{FETCH_VERSION, PRODUCE_VERSION, create, name};
use support::{Batch, Broker, Client, Partition};

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;

/// So many that no deletion takes longer.
const WRITES_MAX: u32 = 1_000_000;

fn delete(client: &mut Client, topic: &str) -> i16 {
    let state = DeleteTopicState::default().with_name(Some(name(topic)));
    let request = DeleteTopicsRequest::default()
        .with_topics(vec![state])
        .with_timeout_ms(30_000);
    client.call(6, &request).responses[0].error_code
}

#[test]
fn writers_and_parked_readers_hear_of_it_at_once() {
    let broker = Broker::start_with(&["--shards", "2"]);
    create(&mut broker.client(), "busy", 4, &[]);
    thread::scope(|scope| {
        for index in 0..4 {
            let mut writer = Partition::find(&broker, "busy", index);
            scope.spawn(move || {
                for _ in 0..WRITES_MAX {
                    let request = writer.produce_request(-1, Batch::of_values(["v"]).encode());
                    let answer = writer.client.call(PRODUCE_VERSION, &request);
                    let code = answer.responses[0].partition_responses[0].error_code;
                    if code != 0 {
                        assert_eq!(code, UNKNOWN_TOPIC_OR_PARTITION);
                        return;
                    }
                }
                panic!("the topic never went");
            });
            let mut reader = Partition::find(&broker, "busy", index);
            // Nothing comes from so far out: it stays parked.
            let far = reader
                .fetch_request(0)
                .with_max_wait_ms(600_000)
                .with_min_bytes(i32::MAX);
            reader.client.send(FETCH_VERSION, &far).unwrap();
            scope.spawn(move || {
                let (_, answer) = reader.client.receive::<FetchRequest>(FETCH_VERSION).unwrap();
                assert_eq!(
                    answer.responses[0].partitions[0].error_code,
                    UNKNOWN_TOPIC_OR_PARTITION
                );
            });
        }
        let deleters: Vec<_> = (0..2)
            .map(|shard| {
                let mut client = broker.client_of(1000 + shard);
                scope.spawn(move || delete(&mut client, "busy"))
            })
            .collect();
        let mut codes: Vec<i16> = deleters
            .into_iter()
            .map(|deleter| deleter.join().unwrap())
            .collect();
        codes.sort_unstable();
        assert!(
            codes == [0, 0] || codes == [0, UNKNOWN_TOPIC_OR_PARTITION],
            "{codes:?}"
        );
    });
}

/// B37: bytes that look like what the log writes are values like any other, wherever they lie; and files that held a deleted
/// topic's records give none of them back.
#[test]
fn values_that_hold_frames_of_the_log_are_only_values() {
    let mut broker = Broker::start_set(&["strandline.direct.bytes=65536"]);
    let mut old = Partition::create(&broker, "old", &[("segment.bytes", "1048576")]);
    for n in 0..40 {
        old.append(&Batch::of_values([vec![b'A'; 3000 + n]]));
    }
    assert!(broker.stop().success());
    let shard = broker.data_directory().join("shard-0");
    let mut files: Vec<std::path::PathBuf> = std::fs::read_dir(shard.join("logs"))
        .unwrap()
        .flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap())
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    assert!(!files.is_empty(), "the stop wrote the segment");
    files.push(shard.join("journal-0"));
    let copied: Vec<Vec<u8>> = files
        .iter()
        .flat_map(|path| {
            let bytes = std::fs::read(path).unwrap();
            bytes[..bytes.len().min(48 << 10)]
                .chunks(8192)
                .map(<[u8]>::to_vec)
                .collect::<Vec<_>>()
        })
        .filter(|bytes| bytes.iter().any(|byte| *byte != 0))
        .collect();
    broker.launch();
    assert_eq!(delete(&mut broker.client(), "old"), 0);

    let mut new = Partition::create(&broker, "new", &[("segment.bytes", "1048576")]);
    let mut sent: Vec<Vec<u8>> = Vec::new();
    for round in 0..3 {
        for (at, bytes) in copied.iter().enumerate() {
            // At every alignment, alone and many together (which go straight to a segment), and zeros between.
            let mut value = vec![0; (round * 8 + at) % 64];
            value.extend_from_slice(bytes);
            let many = if at % 5 == 0 { 10 } else { 1 };
            let values = vec![value; many];
            new.append(&Batch::of_values(&values));
            new.append(&Batch::of_values([vec![0; 4096]]));
            sent.extend(values);
            sent.push(vec![0; 4096]);
        }
        broker.kill();
        broker.launch();
        new = Partition::find(&broker, "new", 0);
        let stored: Vec<Vec<u8>> = new.read_all(0).into_values().map(|r| r.value.unwrap()).collect();
        assert!(
            stored == sent,
            "round {round}: {} of {}",
            stored.len(),
            sent.len()
        );
    }
    assert_eq!(Partition::create(&broker, "old", &[]).end_offset(), 0);
}

#[test]
fn a_recreated_topic_starts_empty_also_after_a_crash() {
    let mut broker = Broker::start();
    for round in 0..20 {
        let mut p = Partition::create(&broker, "again", &[]);
        assert_eq!(p.end_offset(), 0, "round {round}");
        for n in 0..5 {
            assert_eq!(p.append(&Batch::of_values([format!("{round}-{n}")])), n);
        }
        if round % 5 == 4 {
            broker.kill();
            broker.launch();
            let stored = Partition::find(&broker, "again", 0).read_all(0);
            let expected: Vec<_> = (0..5).map(|n| format!("{round}-{n}").into_bytes()).collect();
            assert_eq!(
                stored.into_values().map(|r| r.value.unwrap()).collect::<Vec<_>>(),
                expected
            );
        }
        assert_eq!(delete(&mut broker.client(), "again"), 0);
    }
    assert!(broker.stop().success());
    broker.launch();
    assert!(broker.is_running());
    let logs = broker.data_directory().join("shard-0/logs");
    let left = std::fs::read_dir(&logs)
        .map(|entries| entries.count())
        .unwrap_or_default();
    assert_eq!(
        left,
        0,
        "folders of deleted topics are left in {}",
        logs.display()
    );
}

/// A topic is deleted while a shard is down, or dies before it has noted it: the files go when it starts, and none is set aside. A
/// shard's folder from before the deletion stands for that.
#[test]
fn a_deletion_that_a_shard_did_not_hear_of_is_finished_when_it_starts() {
    let mut broker = Broker::start();
    let mut client = broker.client();
    for topic in ["gone", "kept"] {
        create(&mut client, topic, 1, &[]);
        assert_eq!(
            Partition::find(&broker, topic, 0).append(&Batch::of_values(["v"])),
            0
        );
    }
    broker.stop();
    let shard = broker.data_directory().join("shard-0");
    let before = broker.data_directory().join("before");
    copy_folder(&shard, &before);
    broker.launch();
    assert_eq!(delete(&mut broker.client(), "gone"), 0);
    broker.kill();
    std::fs::remove_dir_all(&shard).unwrap();
    std::fs::rename(&before, &shard).unwrap();

    broker.launch();
    assert_eq!(Partition::find(&broker, "kept", 0).read_all(0).len(), 1);
    broker.stop();
    let names = |folder: &str| std::fs::read_dir(shard.join(folder)).unwrap().count();
    assert_eq!((names("logs"), names("stray")), (1, 0));
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}
