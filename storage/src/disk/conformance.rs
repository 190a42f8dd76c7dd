//! What both disks must do alike: each case runs on the real one and on the simulated one.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use strandline_runtime::sim::Simulation;

use super::glommio::tests::on_disk as on_real_disk;
use super::{Buffer, DirectoryEntry, Disk, DiskFile, OpenMode, PAGE, SimDisk, SimDiskOptions};

/// A test of each name, on both disks, with an empty folder.
macro_rules! on_both_disks {
    ($($case:ident)*) => { $(mod $case {
        #[test]
        fn on_the_real_disk() {
            super::on_real_disk(|disk, folder| async move { super::$case(disk, folder).await });
        }

        #[test]
        fn on_the_simulated_disk() {
            let simulation = super::Simulation::new(1);
            let disk = super::SimDisk::new(simulation.runtime("host"), super::SimDiskOptions::default());
            let folder = super::PathBuf::from("/data");
            disk.make_durable_directories(&folder).unwrap();
            simulation.run_until(super::$case(disk, folder));
        }
    })* };
}

on_both_disks! {
    bytes_written_are_read_back_and_the_end_is_short
    what_is_written_through_is_read_back_by_every_handle
    sizes_change_as_asked
    prefixes_of_one_buffer_are_written_while_its_owner_fills_the_rest
    names_are_listed_renamed_and_removed
    an_open_file_outlives_its_name
    errors_have_their_kinds
}

fn filled<D: Disk>(disk: &D, pages: usize, byte: u8) -> Rc<D::Buffer> {
    let mut buffer = disk.allocate(pages * PAGE);
    assert_eq!(buffer.len(), pages * PAGE);
    buffer.as_mut_slice().fill(byte);
    assert!(buffer.as_slice().iter().all(|found| *found == byte));
    Rc::new(buffer)
}

/// Each page of a file by its first byte.
async fn pages(file: &impl DiskFile) -> Vec<u8> {
    let read = file.read_at(0, 64 * PAGE).await.unwrap();
    assert!(read.is_empty() || read.as_ptr().addr().is_multiple_of(PAGE));
    read.chunks(PAGE).map(|page| page[0]).collect()
}

async fn bytes_written_are_read_back_and_the_end_is_short<D: Disk>(disk: D, folder: PathBuf) {
    assert_eq!(
        (disk.allocate(0).len(), disk.allocate(PAGE + 1).len()),
        (PAGE, 2 * PAGE)
    );
    let path = folder.join("file");
    let file = disk.open(&path, OpenMode::CreateNew).await.unwrap();
    assert_eq!(file.path(), &path);
    assert_eq!(file.size().await.unwrap(), 0);
    file.write_at(filled(&disk, 3, 7), 3 * PAGE, PAGE as u64)
        .await
        .unwrap();
    file.write_at(filled(&disk, 1, 8), 0, 0).await.unwrap();
    file.flush().await.unwrap();
    disk.flush_directory(&folder).await.unwrap();
    assert_eq!(file.size().await.unwrap(), 4 * PAGE as u64);

    // Another handle sees it, and what is written through the first one later.
    let again = disk.open(&path, OpenMode::Read).await.unwrap();
    assert_eq!(pages(&again).await, [0, 7, 7, 7]);
    file.write_at(filled(&disk, 1, 9), PAGE, 2 * PAGE as u64)
        .await
        .unwrap();
    assert_eq!(pages(&again).await, [0, 7, 9, 7]);
    let kept = again.read_at(2 * PAGE as u64, PAGE).await.unwrap();
    let copy = kept.clone();
    drop(kept);
    assert_eq!(copy[..], [9; PAGE]);
    assert!(again.read_at(16 * PAGE as u64, PAGE).await.unwrap().is_empty());
}

async fn what_is_written_through_is_read_back_by_every_handle<D: Disk>(disk: D, folder: PathBuf) {
    let path = folder.join("file");
    let file = disk.open(&path, OpenMode::CreateNew).await.unwrap();
    file.write_at(filled(&disk, 3, 0), 3 * PAGE, 0).await.unwrap();
    file.flush().await.unwrap();
    let through = disk.open(&path, OpenMode::ReadWriteThrough).await.unwrap();
    through
        .write_through_at(filled(&disk, 1, 5), PAGE, PAGE as u64)
        .await
        .unwrap();
    // Beside it, the file is as any other.
    through.write_at(filled(&disk, 1, 6), PAGE, 0).await.unwrap();
    through.flush().await.unwrap();
    assert_eq!(pages(&through).await, [6, 5, 0]);
    assert_eq!(pages(&file).await, [6, 5, 0]);
    through
        .write_through_at(filled(&disk, 1, 7), 0, PAGE as u64)
        .await
        .unwrap();
    assert_eq!(pages(&file).await, [6, 5, 0]);
}

async fn sizes_change_as_asked<D: Disk>(disk: D, folder: PathBuf) {
    let file = disk
        .open(&folder.join("file"), OpenMode::CreateNew)
        .await
        .unwrap();
    let before = disk.space(&folder).await.unwrap();
    assert!(before.free_bytes <= before.total_bytes && before.total_bytes > 0);
    file.allocate_to(0).await.unwrap();
    file.allocate_to(4 * PAGE as u64).await.unwrap();
    file.allocate_to(PAGE as u64).await.unwrap();
    assert_eq!(
        (file.size().await.unwrap(), pages(&file).await),
        (4 * PAGE as u64, vec![0; 4])
    );
    file.write_at(filled(&disk, 4, 1), 4 * PAGE, 0).await.unwrap();
    file.truncate(PAGE as u64).await.unwrap();
    file.truncate(3 * PAGE as u64).await.unwrap();
    assert_eq!(pages(&file).await, [1, 0, 0]);
}

async fn prefixes_of_one_buffer_are_written_while_its_owner_fills_the_rest<D: Disk>(disk: D, folder: PathBuf)
where
    D::Buffer: FillFrom,
{
    let file = disk
        .open(&folder.join("file"), OpenMode::CreateNew)
        .await
        .unwrap();
    let buffer = filled(&disk, 4, 1);
    let first = file.write_at(buffer.clone(), PAGE, 0);
    let second = file.write_at(buffer.clone(), 2 * PAGE, 4 * PAGE as u64);
    let fill = async { buffer.fill_from(2 * PAGE, 2) };
    let (first, second, ()) = futures_util::future::join3(first, second, fill).await;
    first.unwrap();
    second.unwrap();
    file.write_at(buffer.clone(), 4 * PAGE, 8 * PAGE as u64)
        .await
        .unwrap();
    assert_eq!(pages(&file).await, [1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 2, 2]);
}

/// What an owner does who fills a shared buffer from `offset` to its end.
pub(super) trait FillFrom: Buffer {
    fn fill_from(&self, offset: usize, byte: u8);
}

async fn names_are_listed_renamed_and_removed<D: Disk>(disk: D, folder: PathBuf) {
    let logs = folder.join("logs");
    disk.create_directory(&logs).await.unwrap();
    disk.create_directory(&logs).await.unwrap();
    for name in ["b", "c"] {
        let file = disk.open(&folder.join(name), OpenMode::CreateNew).await.unwrap();
        file.write_at(filled(&disk, 1, name.as_bytes()[0]), PAGE, 0)
            .await
            .unwrap();
    }
    let entry = |name: &str, is_directory| DirectoryEntry {
        name: name.to_owned(),
        is_directory,
    };
    let all = [entry("b", false), entry("c", false), entry("logs", true)];
    assert_eq!(disk.list(&folder).await.unwrap(), all);

    disk.rename(&folder.join("b"), &folder.join("c")).await.unwrap();
    disk.rename(&folder.join("c"), &logs.join("a")).await.unwrap();
    assert!(!disk.exists(&folder.join("b")).await.unwrap());
    assert!(disk.exists(&logs.join("a")).await.unwrap());
    disk.rename(&logs, &folder.join("stray")).await.unwrap();
    let moved = folder.join("stray").join("a");
    let file = disk.open(&moved, OpenMode::ReadWrite).await.unwrap();
    assert_eq!(pages(&file).await, [b'b']);
    disk.remove_file(&moved).await.unwrap();
    disk.flush_directory(&folder.join("stray")).await.unwrap();
    disk.remove_directory(&folder.join("stray")).await.unwrap();
    assert_eq!(disk.list(&folder).await.unwrap(), []);
}

async fn an_open_file_outlives_its_name<D: Disk>(disk: D, folder: PathBuf) {
    let (old, new) = (folder.join("old"), folder.join("new"));
    let file = disk.open(&old, OpenMode::CreateNew).await.unwrap();
    disk.rename(&old, &new).await.unwrap();
    file.write_at(filled(&disk, 1, 5), PAGE, 0).await.unwrap();
    disk.remove_file(&new).await.unwrap();
    let other = disk.open(&new, OpenMode::CreateNew).await.unwrap();
    file.flush().await.unwrap();
    assert_eq!((pages(&file).await, pages(&other).await), (vec![5], vec![]));
}

async fn errors_have_their_kinds<D: Disk>(disk: D, folder: PathBuf) {
    fn kind<T>(answer: io::Result<T>) -> Option<io::ErrorKind> {
        answer.err().map(|error| error.kind())
    }
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, IsADirectory, NotADirectory, NotFound};
    let (file, missing) = (folder.join("file"), folder.join("missing"));
    let beyond = |path: &Path| path.join("beyond");

    assert_eq!(kind(disk.open(&missing, OpenMode::Read).await), Some(NotFound));
    assert_eq!(
        kind(disk.open(&missing, OpenMode::ReadWrite).await),
        Some(NotFound)
    );
    assert_eq!(
        kind(disk.open(&beyond(&missing), OpenMode::CreateNew).await),
        Some(NotFound)
    );
    disk.open(&file, OpenMode::CreateNew).await.unwrap();
    assert_eq!(
        kind(disk.open(&file, OpenMode::CreateNew).await),
        Some(AlreadyExists)
    );
    assert_eq!(
        kind(disk.open(&folder, OpenMode::ReadWrite).await),
        Some(IsADirectory)
    );
    let read_only = disk.open(&file, OpenMode::Read).await.unwrap();
    assert!(read_only.write_at(filled(&disk, 1, 1), PAGE, 0).await.is_err());

    assert_eq!(
        kind(disk.create_directory(&beyond(&missing)).await),
        Some(NotFound)
    );
    assert_eq!(kind(disk.create_directory(&file).await), Some(NotADirectory));
    assert_eq!(kind(disk.list(&missing).await), Some(NotFound));
    assert_eq!(kind(disk.flush_directory(&missing).await), Some(NotFound));
    assert_eq!(kind(disk.remove_file(&missing).await), Some(NotFound));
    assert_eq!(kind(disk.remove_file(&folder).await), Some(IsADirectory));
    assert_eq!(
        kind(disk.remove_directory(&folder).await),
        Some(DirectoryNotEmpty)
    );
    assert_eq!(kind(disk.remove_directory(&file).await), Some(NotADirectory));
    assert_eq!(kind(disk.rename(&missing, &file).await), Some(NotFound));
    disk.create_directory(&folder.join("folder")).await.unwrap();
    assert_eq!(
        kind(disk.rename(&file, &folder.join("folder")).await),
        Some(IsADirectory)
    );
    assert_eq!(
        kind(disk.rename(&folder.join("folder"), &file).await),
        Some(NotADirectory)
    );
    assert_eq!(kind(disk.exists(&beyond(&file)).await), Some(NotADirectory));
    assert_eq!(kind(disk.space(&missing).await), Some(NotFound));
    assert!(!disk.exists(&missing).await.unwrap());
}
