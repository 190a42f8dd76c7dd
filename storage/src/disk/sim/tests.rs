//! The promises and the treacheries of the simulated disk.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{join, join3};
use strandline_runtime::Queue;
use strandline_runtime::sim::Simulation;

use super::super::{Buffer, DiskFile};
use super::*;

const FOLDER: &str = "/data";

fn path(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// Runs `test` with an empty disk that has a durable folder.
fn on_disk<T: 'static, F: Future<Output = T> + 'static>(seed: u64, test: impl FnOnce(SimDisk) -> F) -> T {
    let simulation = Simulation::new(seed);
    let disk = SimDisk::new(simulation.runtime("host"), SimDiskOptions::default());
    disk.make_durable_directories(Path::new(FOLDER)).unwrap();
    simulation.run_until(test(disk))
}

fn filled(disk: &SimDisk, pages: usize, byte: u8) -> Rc<SimBuffer> {
    let mut buffer = disk.allocate(pages * PAGE);
    buffer.as_mut_slice().fill(byte);
    Rc::new(buffer)
}

/// A file whose name is durable.
async fn new_file(disk: &SimDisk, name: &str) -> SimFile {
    let file = disk.open(&path(name), OpenMode::CreateNew).await.unwrap();
    disk.flush_directory(Path::new(FOLDER)).await.unwrap();
    file
}

/// The sectors of a file in an image, each by its first byte; `None` without the file.
fn sectors(image: &Image, name: &str) -> Option<Vec<u8>> {
    let state = &image.0;
    let content = &state.files[&state.names.find(&path(name)).ok()?].durable;
    let mut bytes = vec![0; content.size() as usize];
    content.read(0, &mut bytes);
    Some(bytes.chunks(512).map(|sector| sector[0]).collect())
}

fn names(image: &Image) -> Vec<String> {
    let folder = image.0.names.find_folder(Path::new(FOLDER)).unwrap();
    image.0.names.current[&folder].keys().cloned().collect()
}

#[test]
fn an_unflushed_write_is_lost_whole_or_torn_and_a_flushed_one_is_there() {
    on_disk(1, |disk| async move {
        let file = new_file(&disk, "file").await;
        file.write_at(filled(&disk, 2, 1), 2 * PAGE, 0).await.unwrap();
        let images = disk.crash_images(1000);
        assert!(images.is_exhaustive());
        let found: BTreeSet<Vec<u8>> = images.map(|image| sectors(&image, "file").unwrap()).collect();
        let torn = |from: usize, to: usize, size: usize| {
            (0..size)
                .map(|sector| u8::from((from..to).contains(&sector)))
                .collect::<Vec<u8>>()
        };
        let expected = BTreeSet::from([
            vec![],
            torn(0, 16, 16),
            torn(0, 8, 8),
            torn(8, 16, 16),
            torn(0, 1, 1),
            torn(1, 16, 16),
            torn(0, 15, 15),
            torn(15, 16, 16),
            torn(0, 0, 16),
        ]);
        assert_eq!(found, expected);

        file.flush().await.unwrap();
        let images: Vec<Image> = disk.crash_images(1000).collect();
        assert_eq!(images.len(), 1);
        assert_eq!(sectors(&images[0], "file").unwrap(), vec![1; 16]);
    });
}

#[test]
fn writes_of_one_flush_interval_survive_in_any_combination() {
    on_disk(2, |disk| async move {
        let (one, two) = (new_file(&disk, "one").await, new_file(&disk, "two").await);
        one.allocate_to(PAGE as u64).await.unwrap();
        one.flush().await.unwrap();
        one.write_at(filled(&disk, 1, 1), PAGE, 0).await.unwrap();
        two.write_at(filled(&disk, 1, 2), PAGE, 0).await.unwrap();
        let found: BTreeSet<(Vec<u8>, Vec<u8>)> = disk
            .crash_images(1000)
            .map(|image| (sectors(&image, "one").unwrap(), sectors(&image, "two").unwrap()))
            .collect();
        // The later one may be there without the earlier.
        assert!(found.contains(&(vec![0; 8], vec![2; 8])));
        assert!(found.contains(&(vec![1; 8], vec![])));
        let sampled = disk.crash_images(20);
        assert!(!sampled.is_exhaustive());
        assert_eq!(sampled.count_all(), 20);
        let sampled: Vec<Image> = sampled.collect();
        assert_eq!(sampled.len(), 20);
        assert_eq!(sectors(&sampled[0], "one").unwrap(), vec![0; 8]);
        assert_eq!(sectors(&sampled[1], "two").unwrap(), vec![2; 8]);
    });
}

#[test]
fn a_flush_covers_what_had_completed_when_it_started_by_any_handle() {
    let simulation = Simulation::new(3);
    let slow = Latency::micros(5_000, 5_000);
    let options = SimDiskOptions {
        write: slow,
        flush: slow,
        ..SimDiskOptions::default()
    };
    let runtime = simulation.runtime("host");
    let disk = SimDisk::new(runtime.clone(), options);
    disk.make_durable_directories(Path::new(FOLDER)).unwrap();
    simulation.run_until(async move {
        let file = new_file(&disk, "file").await;
        file.write_at(filled(&disk, 1, 1), PAGE, 0).await.unwrap();
        let other = disk.open(&path("file"), OpenMode::Read).await.unwrap();
        let in_flight = file.write_at(filled(&disk, 1, 2), PAGE, PAGE as u64);
        let flush = async {
            // The write is submitted, completes while the flush runs, and is not covered.
            runtime.sleep(Duration::from_micros(1_000)).await;
            other.flush().await.unwrap();
        };
        let (written, ()) = join(in_flight, flush).await;
        written.unwrap();
        let lost = disk.crash_images(1000).next().unwrap();
        assert_eq!(sectors(&lost, "file").unwrap(), vec![1; 8]);
        other.flush().await.unwrap();
        let kept = disk.crash_images(1000).next().unwrap();
        assert_eq!(sectors(&kept, "file").unwrap(), [[1; 8], [2; 8]].concat());
    });
}

#[test]
fn names_wait_for_the_flush_of_their_folder_and_a_rename_is_one_change() {
    on_disk(4, |disk| async move {
        let file = disk.open(&path("new"), OpenMode::CreateNew).await.unwrap();
        file.write_at(filled(&disk, 1, 1), PAGE, 0).await.unwrap();
        file.flush().await.unwrap();
        let found: BTreeSet<_> = disk
            .crash_images(100)
            .map(|image| sectors(&image, "new"))
            .collect();
        assert_eq!(found, BTreeSet::from([None, Some(vec![1; 8])]));

        disk.flush_directory(Path::new(FOLDER)).await.unwrap();
        new_file(&disk, "old").await;
        disk.rename(&path("new"), &path("old")).await.unwrap();
        let found: BTreeSet<_> = disk.crash_images(100).map(|image| names(&image)).collect();
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(found, BTreeSet::from([list(&["new", "old"]), list(&["old"])]));

        disk.flush_directory(Path::new(FOLDER)).await.unwrap();
        disk.remove_file(&path("old")).await.unwrap();
        let found: BTreeSet<_> = disk
            .crash_images(100)
            .map(|image| sectors(&image, "old"))
            .collect();
        assert_eq!(found, BTreeSet::from([None, Some(vec![1; 8])]));
    });
}

#[test]
fn a_rename_between_folders_needs_both_flushed_and_is_never_half_done() {
    on_disk(5, |disk| async move {
        disk.create_directory(&path("log")).await.unwrap();
        disk.create_directory(&path("stray")).await.unwrap();
        disk.flush_directory(Path::new(FOLDER)).await.unwrap();
        disk.open(&path("log/a"), OpenMode::CreateNew).await.unwrap();
        // Not even created for certain: neither, or the old place, or the new one.
        disk.rename(&path("log/a"), &path("stray/a")).await.unwrap();
        let places = |disk: &SimDisk| -> BTreeSet<(bool, bool)> {
            disk.crash_images(100)
                .map(|image| {
                    (
                        sectors(&image, "log/a").is_some(),
                        sectors(&image, "stray/a").is_some(),
                    )
                })
                .collect()
        };
        assert_eq!(
            places(&disk),
            BTreeSet::from([(false, false), (true, false), (false, true)])
        );
        disk.flush_directory(&path("log")).await.unwrap();
        assert_eq!(places(&disk), BTreeSet::from([(true, false), (false, true)]));
        disk.flush_directory(&path("stray")).await.unwrap();
        assert_eq!(places(&disk), BTreeSet::from([(false, true)]));
    });
}

#[test]
fn a_failed_flush_is_not_healed_by_the_next_one() {
    on_disk(6, |disk| async move {
        let file = new_file(&disk, "file").await;
        file.write_at(filled(&disk, 1, 1), PAGE, 0).await.unwrap();
        disk.fail(Operation::Flush, 1);
        assert!(file.flush().await.is_err());
        file.flush().await.unwrap();
        assert_eq!(disk.count(Operation::Flush), 2);
        assert_eq!(file.read_at(0, PAGE).await.unwrap()[0], 1);
        let found: BTreeSet<_> = disk
            .crash_images(100)
            .map(|image| sectors(&image, "file"))
            .collect();
        assert!(found.contains(&Some(vec![])), "{found:?}");

        // What is written over it later counts.
        file.write_at(filled(&disk, 1, 2), PAGE, 0).await.unwrap();
        file.flush().await.unwrap();
        let found: BTreeSet<_> = disk
            .crash_images(100)
            .map(|image| sectors(&image, "file"))
            .collect();
        assert_eq!(found, BTreeSet::from([Some(vec![2; 8])]));
    });
}

#[test]
fn failures_come_on_order_and_a_failed_write_is_open() {
    on_disk(7, |disk| async move {
        let file = new_file(&disk, "file").await;
        disk.fail(Operation::Write, 2);
        file.write_at(filled(&disk, 1, 1), PAGE, 0).await.unwrap();
        assert!(file.write_at(filled(&disk, 1, 2), PAGE, 0).await.is_err());
        file.flush().await.unwrap();
        let found: BTreeSet<_> = disk
            .crash_images(100)
            .map(|image| sectors(&image, "file").unwrap())
            .collect();
        assert!(found.contains(&vec![1; 8]) && found.contains(&vec![2; 8]));

        disk.fail(Operation::Read, 1);
        assert!(file.read_at(0, PAGE).await.is_err());
        disk.fail(Operation::Name, 1);
        assert!(disk.exists(&path("file")).await.is_err());
        disk.fail(Operation::Resize, 1);
        assert!(file.truncate(0).await.is_err());
        assert_eq!(file.size().await.unwrap(), PAGE as u64);
        let read_only = disk.open(&path("file"), OpenMode::Read).await.unwrap();
        assert!(read_only.write_at(filled(&disk, 1, 1), PAGE, 0).await.is_err());
    });
}

#[test]
fn a_full_disk_refuses_new_pages_takes_overwrites_and_heals() {
    on_disk(8, |disk| async move {
        let (file, other) = (new_file(&disk, "file").await, new_file(&disk, "other").await);
        other.allocate_to(4 * PAGE as u64).await.unwrap();
        disk.set_free_bytes(2 * PAGE as u64);
        file.write_at(filled(&disk, 2, 1), 2 * PAGE, 0).await.unwrap();
        let full = file
            .write_at(filled(&disk, 1, 1), PAGE, 2 * PAGE as u64)
            .await
            .unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        assert!(file.allocate_to(3 * PAGE as u64).await.is_err());
        file.write_at(filled(&disk, 1, 2), PAGE, 0).await.unwrap();
        assert_eq!(disk.space(Path::new(FOLDER)).await.unwrap().free_bytes, 0);
        disk.remove_file(&path("other")).await.unwrap();
        assert_eq!(
            disk.space(Path::new(FOLDER)).await.unwrap().free_bytes,
            4 * PAGE as u64
        );
        file.write_at(filled(&disk, 1, 1), PAGE, 2 * PAGE as u64)
            .await
            .unwrap();
    });
}

#[test]
fn sizes_are_as_uncertain_as_data() {
    on_disk(9, |disk| async move {
        let file = new_file(&disk, "file").await;
        file.write_at(filled(&disk, 2, 1), 2 * PAGE, 0).await.unwrap();
        file.flush().await.unwrap();
        file.truncate(PAGE as u64).await.unwrap();
        file.allocate_to(3 * PAGE as u64).await.unwrap();
        let found: BTreeSet<_> = disk
            .crash_images(100)
            .map(|image| sectors(&image, "file").unwrap())
            .collect();
        let pages = |pages: &[u8]| pages.iter().flat_map(|page| [*page; 8]).collect::<Vec<u8>>();
        let expected = [pages(&[1]), pages(&[1, 1]), pages(&[1, 0, 0]), pages(&[1, 1, 0])];
        assert_eq!(found, BTreeSet::from(expected));
    });
}

#[test]
fn rot_is_seen_by_readers_and_survives() {
    on_disk(10, |disk| async move {
        let file = new_file(&disk, "file").await;
        file.write_at(filled(&disk, 1, 1), PAGE, 0).await.unwrap();
        file.flush().await.unwrap();
        disk.rot(&path("file"), 0, 0x80).unwrap();
        assert_eq!(file.read_at(0, PAGE).await.unwrap()[0], 0x81);
        let image = disk.crash_images(1).next().unwrap();
        assert_eq!(sectors(&image, "file").unwrap()[0], 0x81);
        assert!(disk.rot(&path("missing"), 0, 1).is_err());
    });
}

#[test]
fn operations_overlap_and_complete_out_of_order() {
    let orders: BTreeSet<Vec<u8>> = (0..20)
        .map(|seed| {
            on_disk(seed, |disk| async move {
                let file = new_file(&disk, "file").await;
                let order = Rc::new(RefCell::new(Vec::new()));
                let write = |byte: u8| {
                    let (file, order, buffer) = (file.clone(), order.clone(), filled(&disk, 1, byte));
                    async move {
                        file.write_at(buffer, PAGE, u64::from(byte) * PAGE as u64)
                            .await
                            .unwrap();
                        order.borrow_mut().push(byte);
                    }
                };
                join3(write(0), write(1), write(2)).await;
                order.take()
            })
        })
        .collect();
    assert!(orders.len() >= 4, "{orders:?}");
}

#[test]
fn the_hook_sees_each_flush_before_it_counts() {
    on_disk(12, |disk| async move {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let file = new_file(&disk, "file").await;
        let log = seen.clone();
        disk.on_flush(move |disk, point| {
            let lost = disk.crash_images(1000).next().unwrap();
            log.borrow_mut()
                .push((point.clone(), sectors(&lost, "file").unwrap().len()));
        });
        file.write_at(filled(&disk, 1, 1), PAGE, 0).await.unwrap();
        file.flush().await.unwrap();
        disk.flush_directory(Path::new(FOLDER)).await.unwrap();
        let point = |path: &Path, is_directory| FlushPoint {
            path: path.to_owned(),
            is_directory,
        };
        let expected = [
            (point(&path("file"), false), 0),
            (point(Path::new(FOLDER), true), 8),
        ];
        assert_eq!(seen.take(), expected);
    });
}

#[test]
#[should_panic(expected = "changed it below a write in flight")]
#[allow(unsafe_code)]
fn an_owner_that_fills_below_a_write_in_flight_is_caught() {
    on_disk(13, |disk| async move {
        let file = new_file(&disk, "file").await;
        let buffer = filled(&disk, 2, 1);
        let write = file.write_at(buffer.clone(), PAGE, 0);
        let fill = async {
            // SAFETY: inside the buffer, to which no reference exists; it breaks the rule under test only.
            unsafe { buffer.base().write(2) };
        };
        join(write, fill).await.0.unwrap();
    });
}

#[test]
fn the_owner_may_fill_beyond_a_write_in_flight() {
    on_disk(14, |disk| async move {
        let file = new_file(&disk, "file").await;
        let buffer = filled(&disk, 2, 1);
        let write = file.write_at(buffer.clone(), PAGE, 0);
        let fill = async {
            #[allow(unsafe_code)]
            // SAFETY: inside the buffer, beyond the written prefix, and no reference to it exists.
            unsafe {
                buffer.base().add(PAGE).write(2);
            }
        };
        join(write, fill).await.0.unwrap();
        file.write_at(buffer, 2 * PAGE, 4 * PAGE as u64).await.unwrap();
        let read = file.read_at(0, 8 * PAGE).await.unwrap();
        assert_eq!((read.len(), read[4 * PAGE], read[5 * PAGE]), (6 * PAGE, 1, 2));
        assert!(read.as_ptr().addr().is_multiple_of(PAGE));
    });
}

#[test]
fn a_power_cut_kills_open_files_and_what_is_in_flight() {
    let simulation = Rc::new(Simulation::new(15));
    let runtime = simulation.runtime("host");
    let disk = SimDisk::new(runtime.clone(), SimDiskOptions::default());
    disk.make_durable_directories(Path::new(FOLDER)).unwrap();
    let world = simulation.clone();
    simulation.run_until(async move {
        let file = new_file(&disk, "file").await;
        file.write_at(filled(&disk, 1, 1), PAGE, 0).await.unwrap();
        file.flush().await.unwrap();
        let (in_flight, buffer) = (file.clone(), filled(&disk, 1, 2));
        runtime.spawn(Queue::Latency, async move {
            assert!(in_flight.write_at(buffer, PAGE, 0).await.is_err());
        });
        runtime.yield_now().await;
        disk.crash();
        assert!(file.flush().await.is_err() && file.read_at(0, PAGE).await.is_err());
        world.kill_host("host");
        let disk = disk.attach(world.runtime("host"));
        let file = disk.open(&path("file"), OpenMode::Read).await.unwrap();
        assert!([1, 2].contains(&file.read_at(0, PAGE).await.unwrap()[0]));
        assert_eq!(disk.crash_images(100).count(), 1);
    });
}

#[test]
fn the_death_of_a_process_loses_nothing_that_completed() {
    for seed in 0..50 {
        on_disk(seed, |disk| async move {
            let file = new_file(&disk, "file").await;
            file.write_at(filled(&disk, 1, 1), PAGE, 0).await.unwrap();
            let mut in_flight = Box::pin(file.write_at(filled(&disk, 1, 2), PAGE, PAGE as u64));
            assert!(futures_util::poll!(&mut in_flight).is_pending());
            drop(in_flight);
            disk.kill_process();
            assert!(file.flush().await.is_err());
            let file = disk.open(&path("file"), OpenMode::Read).await.unwrap();
            assert_eq!(file.read_at(0, PAGE).await.unwrap()[..], [1; PAGE]);
            // It still takes a flush to keep it through a power cut.
            let lost = disk.crash_images(100_000).next().unwrap();
            assert_eq!(sectors(&lost, "file").unwrap(), []);
            file.flush().await.unwrap();
            assert_eq!(disk.crash_images(100).count(), 1);
        });
    }
}

#[test]
fn a_synchronous_file_follows_the_same_rules() {
    on_disk(17, |disk| async move {
        let file = disk.sync_file(&path("quorum")).unwrap();
        disk.flush_directory(Path::new(FOLDER)).await.unwrap();
        assert!(file.is_empty().unwrap());
        file.write(100, b"abc").unwrap();
        file.sync().unwrap();
        file.write(510, b"defg").unwrap();
        file.set_len(2000).unwrap();
        let mut bytes = [0; 4];
        file.read(510, &mut bytes).unwrap();
        assert_eq!((&bytes, file.len().unwrap()), (b"defg", 2000));
        assert!(file.read(1998, &mut bytes).is_err());
        // Torn where the file has a sector's end, wherever the write began.
        let content = |image: &Image| {
            let content = &image.0.files[&image.0.names.find(&path("quorum")).unwrap()].durable;
            let mut bytes = [0; 4];
            content.read(510, &mut bytes);
            (bytes, content.size())
        };
        let found: BTreeSet<_> = disk.crash_images(100).map(|image| content(&image)).collect();
        assert!(found.contains(&(*b"de\0\0", 512)) && found.contains(&(*b"\0\0fg", 2000)));
        assert!(found.contains(&([0; 4], 103)) && found.contains(&(*b"defg", 514)));
        let again = disk.sync_file(&path("quorum")).unwrap();
        again.sync().unwrap();
        assert_eq!(disk.crash_images(100).count(), 1);
    });
}

#[test]
fn an_image_starts_as_a_disk_of_its_own() {
    let simulation = Simulation::new(18);
    let runtime = simulation.runtime("host");
    let disk = SimDisk::new(runtime.clone(), SimDiskOptions::default());
    disk.make_durable_directories(&path("logs")).unwrap();
    simulation.run_until(async move {
        let file = disk.open(&path("logs/a"), OpenMode::CreateNew).await.unwrap();
        file.write_at(filled(&disk, 3, 1), 3 * PAGE, 0).await.unwrap();
        file.flush().await.unwrap();
        disk.flush_directory(&path("logs")).await.unwrap();
        for image in disk.crash_images(10) {
            let copy = SimDisk::from_image(&image, runtime.clone(), SimDiskOptions::default());
            let entry = |name: &str, is_directory| DirectoryEntry {
                name: name.to_owned(),
                is_directory,
            };
            assert_eq!(copy.list(Path::new("/")).await.unwrap(), [entry("data", true)]);
            assert_eq!(copy.list(&path("logs")).await.unwrap(), [entry("a", false)]);
            copy.remove_file(&path("logs/a")).await.unwrap();
            assert!(copy.remove_directory(Path::new(FOLDER)).await.is_err());
            copy.remove_directory(&path("logs")).await.unwrap();
            assert!(!copy.exists(&path("logs")).await.unwrap());
        }
        assert!(disk.exists(&path("logs/a")).await.unwrap());
    });
}

#[test]
fn one_seed_gives_one_disk() {
    let history = |seed| {
        on_disk(seed, |disk| async move {
            let file = new_file(&disk, "file").await;
            for round in 0..5_u64 {
                file.write_at(
                    filled(&disk, 4, round as u8 + 1),
                    4 * PAGE,
                    round * 2 * PAGE as u64,
                )
                .await
                .unwrap();
            }
            let images: Vec<_> = disk
                .crash_images(50)
                .map(|image| sectors(&image, "file"))
                .collect();
            disk.crash();
            let file = disk.open(&path("file"), OpenMode::Read).await.unwrap();
            (images, file.read_at(0, 12 * PAGE).await.unwrap().to_vec())
        })
    };
    assert_eq!(history(1), history(1));
    assert_ne!(history(1), history(2));
}
