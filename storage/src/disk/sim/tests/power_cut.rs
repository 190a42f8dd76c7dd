//! What a power cut leaves of data and sizes, and when it can be looked at.

use super::*;

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
