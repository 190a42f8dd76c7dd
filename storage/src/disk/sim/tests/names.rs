//! What a power cut leaves of names.

use super::*;

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
        let found: BTreeSet<_> = disk.crash_images(100).map(|image| names_in(&image)).collect();
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
