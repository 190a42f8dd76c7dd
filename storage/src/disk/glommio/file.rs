//! An open file: every transfer through the ring, in whole pages.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use glommio::GlommioError;
use glommio::io::{DmaFile, OpenOptions};

use super::super::{Buffer, DiskFile, OpenMode, PAGE};
use super::probe::Probed;
use super::{GlommioBuffer, GlommioReadBuffer, blocking, named, system};

struct Opened {
    file: DmaFile,
    /// The same file opened with O_DSYNC, where that was asked for.
    through: Option<DmaFile>,
    path: PathBuf,
}

/// A file open for direct I/O.
#[derive(Clone)]
pub struct GlommioFile(Rc<Opened>);

impl GlommioFile {
    /// Opens the file itself first, then hands glommio the descriptor's name under /proc: glommio looks at
    /// the path a second time and panics when it was renamed or removed in between.
    pub(super) async fn open(probed: &Probed, path: &Path, mode: OpenMode) -> io::Result<Self> {
        let first = blocking("open", path, move |path| open_direct(path, mode)).await?;
        probed.probe(&first, path).await?;
        let again = async |flags| {
            open_again(&first, mode, flags)
                .await
                .map_err(|error| named(&error, "open", path))
        };
        let file = again(0).await?;
        let through = match mode {
            OpenMode::ReadWriteThrough => Some(again(libc::O_DSYNC).await?),
            _ => None,
        };
        if let Some(through) = &through
            && !system::writes_through(through.as_raw_fd())?
        {
            let unsupported = io::Error::new(
                io::ErrorKind::Unsupported,
                "the file system does not keep O_DSYNC",
            );
            return Err(named(&unsupported, "open", path));
        }
        Ok(Self(Rc::new(Opened {
            file,
            through,
            path: path.to_owned(),
        })))
    }

    async fn write_by(
        &self,
        file: &DmaFile,
        buffer: Rc<GlommioBuffer>,
        length: usize,
        position: u64,
    ) -> io::Result<()> {
        assert_pages(position, length);
        assert!(length <= buffer.len(), "a write of more than its buffer");
        if length == 0 {
            return Ok(());
        }
        let written = buffer
            .write_prefix(length, |memory| file.write_rc_at(memory, position))
            .await
            .map_err(|error| self.error(&cause(error), "write"))?;
        if written == length {
            Ok(())
        } else {
            let short = io::Error::new(
                io::ErrorKind::WriteZero,
                format!("short write: {written} of {length} bytes at {position}"),
            );
            Err(self.error(&short, "write"))
        }
    }

    fn error(&self, error: &io::Error, operation: &'static str) -> io::Error {
        named(error, operation, &self.0.path)
    }
}

/// Opens what `file` has open once more, for glommio, with further flags.
pub(super) async fn open_again(file: &std::fs::File, mode: OpenMode, flags: i32) -> io::Result<DmaFile> {
    let by_descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(mode != OpenMode::Read)
        .custom_flags(flags);
    options.dma_open(&by_descriptor).await.map_err(cause)
}

/// Opens with O_DIRECT and refuses what only pretends to have it.
pub(super) fn open_direct(path: &Path, mode: OpenMode) -> io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options
        .read(true)
        .write(mode != OpenMode::Read)
        .create_new(mode == OpenMode::CreateNew);
    let answer = options.custom_flags(libc::O_DIRECT).open(path);
    let refused = match &answer {
        Ok(file) => system::is_in_memory(file)?,
        Err(error) => error.raw_os_error() == Some(libc::EINVAL),
    };
    if !refused {
        return answer;
    }
    if mode == OpenMode::CreateNew {
        // The kernel makes the name before it looks at the flag. Failing to take it back changes nothing.
        let _ = std::fs::remove_file(path);
    }
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this file system has no direct I/O (O_DIRECT), as tmpfs has none: put the data on ext4 or XFS",
    ))
}

/// The operating system's error inside glommio's.
fn cause(error: GlommioError<()>) -> io::Error {
    match error {
        GlommioError::IoError(source) | GlommioError::EnhancedIoError { source, .. } => source,
        other => other.into(),
    }
}

fn assert_pages(position: u64, length: usize) {
    assert!(
        position.is_multiple_of(PAGE as u64) && length.is_multiple_of(PAGE),
        "direct I/O of {length} bytes at {position} is not in whole pages"
    );
}

impl DiskFile for GlommioFile {
    type Buffer = GlommioBuffer;
    type ReadBuffer = GlommioReadBuffer;

    fn path(&self) -> &PathBuf {
        &self.0.path
    }

    async fn size(&self) -> io::Result<u64> {
        // Not glommio's way, which looks at the path instead of the open file.
        system::size(self.0.file.as_raw_fd()).map_err(|error| self.error(&error, "measure"))
    }

    async fn write_at(&self, buffer: Rc<GlommioBuffer>, length: usize, position: u64) -> io::Result<()> {
        self.write_by(&self.0.file, buffer, length, position).await
    }

    async fn write_through_at(
        &self,
        buffer: Rc<GlommioBuffer>,
        length: usize,
        position: u64,
    ) -> io::Result<()> {
        let file = self.0.through.as_ref().expect("the file was opened for it");
        self.write_by(file, buffer, length, position).await
    }

    async fn read_at(&self, position: u64, length: usize) -> io::Result<GlommioReadBuffer> {
        assert_pages(position, length);
        let read = self
            .0
            .file
            .read_at_aligned(position, length)
            .await
            .map_err(|error| self.error(&cause(error), "read"))?;
        if read.len() < length && position + (read.len() as u64) < self.size().await? {
            let short = io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("short read: {} of {length} bytes at {position}", read.len()),
            );
            return Err(self.error(&short, "read"));
        }
        Ok(GlommioReadBuffer(read))
    }

    async fn flush(&self) -> io::Result<()> {
        self.0
            .file
            .fdatasync()
            .await
            .map_err(|error| self.error(&cause(error), "flush"))
    }

    async fn allocate_to(&self, size: u64) -> io::Result<()> {
        if size == 0 {
            return Ok(());
        }
        // Not KEEP_SIZE: with it every later write changes the size, and every flush writes the inode.
        let keep_size = false;
        let answer = self.0.file.pre_allocate(size, keep_size).await;
        answer.map_err(|error| self.error(&cause(error), "allocate blocks of"))
    }

    async fn truncate(&self, size: u64) -> io::Result<()> {
        self.0
            .file
            .truncate(size)
            .await
            .map_err(|error| self.error(&cause(error), "truncate"))
    }
}
