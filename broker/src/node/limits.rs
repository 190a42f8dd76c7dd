//! The limit on open descriptors.
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
