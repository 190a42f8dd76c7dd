//! Against a real file system with O_DIRECT: the temporary folder, or where that has none, the build's.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use strandline_runtime::glommio_runtime::{ShardExecutorOptions, spawn_shard};

use super::super::{Buffer, Disk, DiskFile, OpenMode, PAGE};
use super::{GlommioBuffer, GlommioDisk, open_direct};

fn has_direct_io(folder: &Path) -> bool {
    open_direct(&folder.join("probe"), OpenMode::CreateNew).is_ok()
}

/// Runs `test` on a shard with an empty folder that has direct I/O.
pub(in super::super) fn on_disk<F: Future<Output = ()> + 'static>(
    test: impl FnOnce(GlommioDisk, PathBuf) -> F + Send + 'static,
) {
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
fn errors_name_the_path() {
    on_disk(|disk, folder| async move {
        let path = folder.join("missing");
        let error = disk.open(&path, OpenMode::Read).await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
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
