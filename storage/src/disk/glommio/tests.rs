//! Against a real file system with O_DIRECT: the temporary folder, or where that has none, the build's.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use strandline_runtime::glommio_runtime::{ShardExecutorOptions, spawn_shard};

use super::super::{Buffer, DirectoryEntry, Disk, DiskFile, OpenMode, PAGE};
use super::{GlommioBuffer, GlommioDisk, open_direct};

fn has_direct_io(folder: &Path) -> bool {
    open_direct(&folder.join("probe"), OpenMode::CreateNew).is_ok()
}

/// Runs `test` on a shard with an empty folder that has direct I/O.
fn on_disk<F: Future<Output = ()> + 'static>(test: impl FnOnce(GlommioDisk, PathBuf) -> F + Send + 'static) {
    let temporary = tempfile::tempdir().unwrap();
    let folder = if has_direct_io(temporary.path()) {
        temporary
    } else {
        let built = std::env::current_exe().unwrap();
        tempfile::tempdir_in(built.parent().unwrap()).unwrap()
    };
    let path = folder.path().join("disk");
    std::fs::create_dir(&path).unwrap();
    spawn_shard(ShardExecutorOptions::default(), move |_| {
        test(GlommioDisk::new(), path)
    })
    .unwrap()
    .join()
    .unwrap();
}

fn filled(disk: &GlommioDisk, pages: usize, byte: u8) -> Rc<GlommioBuffer> {
    let mut buffer = disk.allocate(pages * PAGE);
    buffer.as_mut_slice().fill(byte);
    Rc::new(buffer)
}

#[test]
fn bytes_written_are_read_back_and_the_end_is_short() {
    on_disk(|disk, folder| async move {
        let path = folder.join("file");
        let file = disk.open(&path, OpenMode::CreateNew).await.unwrap();
        assert_eq!(file.path(), &path);
        assert_eq!(file.size().await.unwrap(), 0);
        file.write_at(filled(&disk, 3, 7), 3 * PAGE, PAGE as u64)
            .await
            .unwrap();
        file.flush().await.unwrap();
        disk.flush_directory(&folder).await.unwrap();
        assert_eq!(file.size().await.unwrap(), 4 * PAGE as u64);

        let again = disk.open(&path, OpenMode::Read).await.unwrap();
        let read = again.read_at(0, 8 * PAGE).await.unwrap();
        assert_eq!(read.len(), 4 * PAGE);
        assert!(read.as_ptr().addr().is_multiple_of(PAGE));
        assert!(read[..PAGE].iter().all(|byte| *byte == 0));
        assert!(read[PAGE..].iter().all(|byte| *byte == 7));
        assert!(again.read_at(16 * PAGE as u64, PAGE).await.unwrap().is_empty());
    });
}

#[test]
fn prefixes_of_one_buffer_are_written_while_its_owner_fills_the_rest() {
    on_disk(|disk, folder| async move {
        let file = disk
            .open(&folder.join("file"), OpenMode::CreateNew)
            .await
            .unwrap();
        let buffer = filled(&disk, 4, 1);
        let first = file.write_at(buffer.clone(), PAGE, 0);
        let second = file.write_at(buffer.clone(), 2 * PAGE, 8 * PAGE as u64);
        let fill = async { buffer.fill_from(2 * PAGE, 2) };
        let (first, second, ()) = futures_util::future::join3(first, second, fill).await;
        first.unwrap();
        second.unwrap();
        file.write_at(buffer.clone(), 4 * PAGE, 16 * PAGE as u64)
            .await
            .unwrap();
        assert_eq!(buffer.len(), 4 * PAGE);

        let read = file.read_at(0, 20 * PAGE).await.unwrap();
        let pages: Vec<u8> = read.chunks(PAGE).map(|page| page[0]).collect();
        let expected = [vec![1], vec![0; 7], vec![1, 1], vec![0; 6], vec![1, 1, 2, 2]].concat();
        assert_eq!(pages, expected);
    });
}

#[test]
fn a_dropped_write_frees_its_buffer_only_once_the_kernel_has_let_go() {
    on_disk(|disk, folder| async move {
        let file = disk
            .open(&folder.join("file"), OpenMode::CreateNew)
            .await
            .unwrap();
        for _ in 0..50 {
            let mut write = Box::pin(file.write_at(filled(&disk, 64, 9), 64 * PAGE, 0));
            assert!(futures_util::poll!(&mut write).is_pending());
            drop(write);
        }
        file.write_at(filled(&disk, 64, 3), 64 * PAGE, 64 * PAGE as u64)
            .await
            .unwrap();
        let read = file.read_at(64 * PAGE as u64, 64 * PAGE).await.unwrap();
        assert!(read.iter().all(|byte| *byte == 3));
    });
}

#[test]
fn allocation_extends_the_size_and_never_shrinks() {
    on_disk(|disk, folder| async move {
        let file = disk
            .open(&folder.join("file"), OpenMode::CreateNew)
            .await
            .unwrap();
        file.allocate_to(64 * PAGE as u64).await.unwrap();
        assert_eq!(file.size().await.unwrap(), 64 * PAGE as u64);
        file.allocate_to(PAGE as u64).await.unwrap();
        assert_eq!(file.size().await.unwrap(), 64 * PAGE as u64);
        assert!(
            file.read_at(0, 64 * PAGE)
                .await
                .unwrap()
                .iter()
                .all(|byte| *byte == 0)
        );
        file.truncate(PAGE as u64).await.unwrap();
        assert_eq!(file.size().await.unwrap(), PAGE as u64);
    });
}

#[test]
fn names_are_listed_renamed_and_removed() {
    on_disk(|disk, folder| async move {
        let logs = folder.join("logs");
        disk.create_directory(&logs).await.unwrap();
        disk.create_directory(&logs).await.unwrap();
        disk.open(&folder.join("b"), OpenMode::CreateNew).await.unwrap();
        let entry = |name: &str, is_directory| DirectoryEntry {
            name: name.to_owned(),
            is_directory,
        };
        assert_eq!(
            disk.list(&folder).await.unwrap(),
            [entry("b", false), entry("logs", true)]
        );
        disk.rename(&folder.join("b"), &logs.join("a")).await.unwrap();
        assert!(!disk.exists(&folder.join("b")).await.unwrap());
        assert!(disk.exists(&logs.join("a")).await.unwrap());
        assert!(disk.remove_directory(&logs).await.is_err());
        disk.remove_file(&logs.join("a")).await.unwrap();
        disk.remove_directory(&logs).await.unwrap();
        assert_eq!(disk.list(&folder).await.unwrap(), []);
        let space = disk.space(&folder).await.unwrap();
        assert!(space.free_bytes <= space.total_bytes && space.total_bytes > 0);
    });
}

#[test]
fn an_open_file_outlives_its_name() {
    on_disk(|disk, folder| async move {
        let (old, new) = (folder.join("old"), folder.join("new"));
        let file = disk.open(&old, OpenMode::CreateNew).await.unwrap();
        disk.rename(&old, &new).await.unwrap();
        file.write_at(filled(&disk, 1, 5), PAGE, 0).await.unwrap();
        disk.remove_file(&new).await.unwrap();
        file.flush().await.unwrap();
        assert_eq!(file.read_at(0, PAGE).await.unwrap()[0], 5);
    });
}

#[test]
fn errors_name_the_path_and_keep_their_kind() {
    on_disk(|disk, folder| async move {
        let path = folder.join("missing");
        let error = disk.open(&path, OpenMode::Read).await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        let file = disk.open(&path, OpenMode::CreateNew).await.unwrap();
        let error = disk.open(&path, OpenMode::CreateNew).await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        let read_only = disk.open(&path, OpenMode::Read).await.unwrap();
        assert!(read_only.write_at(filled(&disk, 1, 1), PAGE, 0).await.is_err());
        assert!(disk.create_directory(&path).await.is_err());
        assert_eq!(file.size().await.unwrap(), 0);
    });
}

#[test]
fn a_file_system_in_memory_is_refused_and_nothing_is_left_behind() {
    let shm = Path::new("/dev/shm");
    let Ok(folder) = tempfile::tempdir_in(shm) else {
        // Not every container has one; then /proc stands in for a file system without direct I/O.
        let error = open_direct(Path::new("/proc/self/stat"), OpenMode::Read).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        return;
    };
    let path = folder.path().join("file");
    let error = open_direct(&path, OpenMode::CreateNew).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    assert!(error.to_string().contains("O_DIRECT"), "{error}");
    assert!(!path.exists());
}
