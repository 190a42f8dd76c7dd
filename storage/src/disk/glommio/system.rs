//! What the file system says about itself: its space, and whether it can do direct I/O.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::super::Space;

/// The space of the file system that holds `path`.
pub(super) fn space(path: &Path) -> io::Result<Space> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut answer = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero byte, and the structure is a local one of the type the call fills.
    if unsafe { libc::statvfs(path.as_ptr(), answer.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it filled the structure.
    let answer = unsafe { answer.assume_init() };
    Ok(Space {
        total_bytes: answer.f_blocks.saturating_mul(answer.f_frsize),
        // What an unprivileged process may fill: the reserve of root is not counted.
        free_bytes: answer.f_bavail.saturating_mul(answer.f_frsize),
    })
}

/// The size of an open file, in bytes. The kernel answers from memory, so a shard may ask.
pub(super) fn size(descriptor: RawFd) -> io::Result<u64> {
    let mut answer = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the structure is a local one of the type the call fills; a bad descriptor is an error.
    if unsafe { libc::fstat(descriptor, answer.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it filled the structure.
    Ok(unsafe { answer.assume_init() }.st_size as u64)
}

/// Whether every write to an open file is durable when it ends.
pub(super) fn writes_through(descriptor: RawFd) -> io::Result<bool> {
    // SAFETY: the call only reads the flags; a bad descriptor is an error.
    match unsafe { libc::fcntl(descriptor, libc::F_GETFL) } {
        -1 => Err(io::Error::last_os_error()),
        flags => Ok(flags & libc::O_DSYNC == libc::O_DSYNC),
    }
}

/// Whether the file lies in memory, where O_DIRECT is refused or silently does nothing.
pub(super) fn is_in_memory(file: &File) -> io::Result<bool> {
    let mut answer = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open, and the structure is a local one of the type the call fills.
    if unsafe { libc::fstatfs(file.as_raw_fd(), answer.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it filled the structure.
    let kind = unsafe { answer.assume_init() }.f_type as u64;
    const RAMFS_MAGIC: u64 = 0x8584_58f6;
    Ok(kind == libc::TMPFS_MAGIC as u64 || kind == RAMFS_MAGIC)
}
