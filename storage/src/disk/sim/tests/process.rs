//! What lives on when a host dies.

use super::*;

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
