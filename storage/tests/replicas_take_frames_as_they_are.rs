//! A replica takes its leader's frames byte for byte, refuses what does not follow, gives way, and has all of it again after a
//! power cut.

#![allow(clippy::unwrap_used)]

mod common;

use common::{append_as, formatted, id, put, quiet, read_all, simulated_options, validated};
use strandline_runtime::sim::{SimRuntime, Simulation};
use strandline_storage::disk::{SimDisk, SimDiskOptions};
use strandline_storage::{
    AppendError, FrameError, Log, LogSettings, ReadRequest, ReplicaPosition, Store, StoreError,
};

type TestStore = Store<SimRuntime, SimDisk>;

/// Larger than what goes through the journal.
const LARGE: usize = 70_000;

async fn open(runtime: &SimRuntime, disk: &SimDisk) -> TestStore {
    let (store, report) = Store::open(runtime.clone(), disk.clone(), simulated_options(), quiet())
        .await
        .unwrap();
    assert!(report.damaged.is_empty(), "{report:?}");
    store
}

async fn new_store(runtime: &SimRuntime) -> (TestStore, SimDisk) {
    let disk = formatted(runtime, SimDiskOptions::default(), &simulated_options()).await;
    (open(runtime, &disk).await, disk)
}

/// The frames from `from` to the log's end.
async fn frames(log: &Log<SimDisk>, from: i64) -> Vec<Vec<u8>> {
    let (mut all, mut next) = (Vec::new(), from);
    while next < log.end_offset() {
        let request = ReadRequest {
            offset: next,
            max_bytes: 1,
            upper_bound: log.end_offset(),
            at_least_one: true,
        };
        let read = log.read_frames(request).await.unwrap();
        assert_eq!(read.batches.len(), 1, "one is larger than the limit");
        let frame = read.batches[0].to_vec();
        let header = strandline_storage::format::frame::FrameHeader::decode(&frame).unwrap();
        assert_eq!(header.frame_bytes(), frame.len());
        next = header.end_offset();
        all.push(frame);
    }
    all
}

fn take(log: &Log<SimDisk>, frames: &[Vec<u8>]) {
    for frame in frames {
        log.append_frame(frame).unwrap();
    }
}

/// A leader's log: three epochs, an idempotent producer, small and large batches.
async fn lead(store: &TestStore) -> Log<SimDisk> {
    let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
    let mut sequence = 0;
    for epoch in [1, 3, 4] {
        log.begin_epoch(epoch).await.unwrap();
        for bytes in [10, LARGE, 20, 30] {
            append_as(&log, &vec![b'a'; bytes], (9, 0, sequence)).unwrap();
            sequence += 1;
        }
    }
    log.acknowledged(12).await.unwrap();
    log
}

#[test]
fn a_follower_has_its_leaders_bytes_epochs_and_producers_also_after_a_power_cut() {
    for seed in 1..=20 {
        let simulation = Simulation::new(seed);
        let (leader, follower) = (simulation.runtime("leader"), simulation.runtime("follower"));
        let (disk, sent, position) = simulation.run_until(async move {
            let (store, _) = new_store(&leader).await;
            let log = lead(&store).await;
            let from_memory = frames(&log, 0).await;
            store.checkpoint().await.unwrap();
            assert_eq!(frames(&log, 0).await, from_memory);
            let (copy, disk) = new_store(&follower).await;
            let replica = copy.create_log(id(1, 0), LogSettings::default()).unwrap();
            take(&replica, &from_memory);
            assert_eq!(replica.position().end, 12);
            replica.acknowledged(12).await.unwrap();
            let position = log.position();
            assert_eq!(replica.position(), position);
            (disk, from_memory, position)
        });
        disk.crash();
        simulation.kill_host("follower");
        let runtime = simulation.runtime("follower");
        let disk = disk.attach(runtime.clone());
        simulation.run_until(async move {
            let store = open(&runtime, &disk).await;
            let replica = store.log(id(1, 0)).unwrap();
            assert_eq!(replica.position(), position, "seed {seed}");
            assert_eq!(frames(&replica, 0).await, sent);
            for (epoch, end) in [(1, 4), (3, 8), (4, 12)] {
                assert_eq!(replica.end_offset_for_epoch(epoch), Some((epoch, end)));
            }
            let again = append_as(&replica, b"a", (9, 0, 11));
            assert!(matches!(
                again,
                Err(AppendError::Duplicate { base_offset: 11, .. })
            ));
            // It leads now, from where the other ended.
            replica.begin_epoch(5).await.unwrap();
            append_as(&replica, b"b", (9, 0, 12)).unwrap();
            replica.acknowledged(13).await.unwrap();
        });
    }
}

#[test]
fn what_does_not_follow_is_refused_and_changes_nothing() {
    let simulation = Simulation::new(1);
    let (runtime, elsewhere) = (simulation.runtime("node"), simulation.runtime("other"));
    simulation.run_until(async move {
        let (store, _) = new_store(&runtime).await;
        let log = lead(&store).await;
        let sent = frames(&log, 0).await;
        let other = store.create_log(id(1, 1), LogSettings::default()).unwrap();
        assert!(
            matches!(other.append_frame(&sent[0]), Err(FrameError::Invalid(_))),
            "a frame of another partition"
        );
        let (copy, _) = new_store(&elsewhere).await;
        let replica = copy.create_log(id(1, 0), LogSettings::default()).unwrap();
        assert!(matches!(
            replica.append_frame(&sent[1]),
            Err(FrameError::OutOfPlace(_))
        ));
        take(&replica, &sent[..2]);
        let position = replica.position();
        for at in [0, 1, 3] {
            let refused = replica.append_frame(&sent[at]);
            assert!(matches!(refused, Err(FrameError::OutOfPlace(_))), "frame {at}");
        }
        let mut flipped = sent[2].clone();
        *flipped.last_mut().unwrap() ^= 1;
        let mut longer = sent[2].clone();
        longer.extend([0; 8]);
        for bytes in [&sent[2][..40], &sent[2][..100], &longer, &[]] {
            assert!(matches!(replica.append_frame(bytes), Err(FrameError::Invalid(_))));
        }
        assert_eq!(replica.position(), position);
        take(&replica, &sent[2..]);
        replica.acknowledged(12).await.unwrap();
    });
}

/// The chain shows what offsets and epochs cannot.
#[test]
fn a_frame_behind_another_history_is_refused() {
    let simulation = Simulation::new(2);
    let (runtime, elsewhere) = (simulation.runtime("node"), simulation.runtime("other"));
    simulation.run_until(async move {
        let (store, _) = new_store(&runtime).await;
        let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
        log.begin_epoch(1).await.unwrap();
        put(&log, b"one").await;
        put(&log, b"two").await;
        let sent = frames(&log, 0).await;
        let (copy, _) = new_store(&elsewhere).await;
        let replica = copy.create_log(id(1, 0), LogSettings::default()).unwrap();
        replica.begin_epoch(1).await.unwrap();
        put(&replica, b"other").await;
        let refused = replica.append_frame(&sent[1]);
        assert_eq!(
            refused,
            Err(FrameError::OutOfPlace("a frame's chain does not follow"))
        );
        let cut = replica.truncate_to(0).await.unwrap();
        copy.durable(cut).await.unwrap();
        take(&replica, &sent);
        assert_eq!(read_all(&replica, 0).await, read_all(&log, 0).await);
    });
}

#[test]
fn an_epoch_without_a_record_gives_way_to_an_older_one_also_after_a_power_cut() {
    let simulation = Simulation::new(3);
    let (runtime, other) = (simulation.runtime("node"), simulation.runtime("other"));
    let (disk, end) = simulation.run_until(async move {
        let (store, _) = new_store(&other).await;
        let log = lead(&store).await;
        let sent = frames(&log, 0).await;
        let (copy, disk) = new_store(&runtime).await;
        let replica = copy.create_log(id(1, 0), LogSettings::default()).unwrap();
        take(&replica, &sent[..4]);
        // It led for a moment, and nothing came.
        replica.begin_epoch(8).await.unwrap();
        assert_eq!(replica.position().last_epoch, 1);
        assert!(matches!(
            replica.append_frame(&sent[4]),
            Err(FrameError::OutOfPlace(_))
        ));
        replica.forget_empty_epochs().await.unwrap();
        take(&replica, &sent[4..]);
        replica.acknowledged(12).await.unwrap();
        (disk, replica.position())
    });
    disk.crash();
    simulation.kill_host("node");
    let runtime = simulation.runtime("node");
    let disk = disk.attach(runtime.clone());
    simulation.run_until(async move {
        let store = open(&runtime, &disk).await;
        let replica = store.log(id(1, 0)).unwrap();
        assert_eq!(replica.position(), end);
        assert_eq!(replica.end_offset_for_epoch(8), Some((4, 12)));
    });
}

#[test]
fn a_restarted_log_begins_at_its_offset_with_the_frame_that_holds_it() {
    let simulation = Simulation::new(4);
    let (runtime, other) = (simulation.runtime("node"), simulation.runtime("other"));
    let (disk, sent) = simulation.run_until(async move {
        let (store, _) = new_store(&other).await;
        let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
        log.begin_epoch(2).await.unwrap();
        let three = common::batch(&[b"a".to_vec(), b"b".to_vec(), b"c".to_vec()], None, 1000);
        log.append(&validated(&three)).unwrap();
        log.append(&validated(&three)).unwrap();
        log.acknowledged(6).await.unwrap();
        let sent = frames(&log, 0).await;
        let (copy, disk) = new_store(&runtime).await;
        let old = copy.create_log(id(1, 0), LogSettings::default()).unwrap();
        old.begin_epoch(1).await.unwrap();
        put(&old, b"of another history").await;
        let replica = copy.restart_log(id(1, 0), 4).unwrap();
        assert!(old.is_deleted());
        let empty = ReplicaPosition {
            start: 4,
            end: 4,
            flushed_end: 4,
            last_epoch: -1,
            chain: None,
        };
        assert_eq!(replica.position(), empty);
        assert!(
            replica.append_frame(&sent[0]).is_err(),
            "it ends before the offset"
        );
        take(&replica, &sent[1..]);
        replica.acknowledged(6).await.unwrap();
        assert!(matches!(
            copy.restart_log(id(7, 7), 0),
            Err(StoreError::Unknown(_))
        ));
        (disk, sent)
    });
    disk.crash();
    simulation.kill_host("node");
    let runtime = simulation.runtime("node");
    let disk = disk.attach(runtime.clone());
    simulation.run_until(async move {
        let store = open(&runtime, &disk).await;
        let replica = store.log(id(1, 0)).unwrap();
        let position = replica.position();
        assert_eq!((position.start, position.end, position.last_epoch), (4, 6, 2));
        assert_eq!(frames(&replica, 4).await, sent[1..]);
        assert_eq!(
            read_all(&replica, 4).await,
            [(4, b"b".to_vec()), (5, b"c".to_vec())]
        );
    });
}
