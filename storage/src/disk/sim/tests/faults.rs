//! Failures on order, a full disk, rot.

use super::*;

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
