//! What the process asks of kernel and libc for itself: descriptors, and memory that goes back once it is free.
#![allow(unsafe_code)]

/// Raises the soft limit on descriptors to the hard one, as every broker wants it: a connection needs one, a segment
/// another. What cannot be raised stays; the configured caps follow what is there.
pub fn raise_open_files() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a local value of the type the call fills, alive across it.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0
        || limit.rlim_cur >= limit.rlim_max
    {
        return;
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the pointer is to a local value of the type the call reads, alive across it.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
        tracing::warn!(
            "the limit on open files cannot be raised: {}",
            std::io::Error::last_os_error()
        );
    }
}

/// From this size on memory comes from the kernel and goes back when it is freed. The usual buffers are smaller.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES_MIN: libc::c_int = 2 << 20;
/// Free memory at the end of a heap goes back from this size on.
#[cfg(target_env = "gnu")]
const TRIMMED_BYTES_MIN: libc::c_int = 4 << 20;

/// Fixes the allocator's thresholds. By default the GNU libc raises them with each large block that is freed: the buffers of
/// large requests then come from heaps that keep the holes, and a node holds a multiple of its memory budget.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        (libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN),
        (libc::M_TRIM_THRESHOLD, TRIMMED_BYTES_MIN),
    ] {
        // SAFETY: sets a number within the allocator; no memory of ours is involved.
        if unsafe { libc::mallopt(parameter, value) } == 0 {
            tracing::warn!("the allocator refuses parameter {parameter}");
        }
    }
}
