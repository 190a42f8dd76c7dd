//! How the descriptors that the process may have are shared out: files, connections, and what a shard cannot do without.

use super::error::ConfigError;

/// Standard streams, HTTP, `quorum.redb`, locks, the control thread's own.
const OF_NODE: u64 = 64;
/// Rings, timers, the journal's files, listeners, and files that are opened for a moment: by write-back, extents, reads.
const OF_SHARD: u64 = 64;
/// Segments that a shard may keep open, at least and at most.
const SEGMENTS_MIN: u64 = 16;
const SEGMENTS_MAX: u64 = 4096;
/// Of what is left, this part goes to segments, the rest to connections.
const SEGMENTS_PART: u64 = 4;
/// Connections without which a node is of no use.
const CONNECTIONS_MIN: u64 = 16;

/// What each may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptors {
    /// Segments that one shard keeps open.
    pub(super) segments_of_shard: u64,
    /// Connections of the node.
    pub(super) connections: u64,
}

/// Shares out `limit` descriptors among `shards`.
///
/// # Errors
/// [`ConfigError`] when they are too few: a shard without descriptors could neither read nor write its files.
pub(super) fn share_out(limit: u64, shards: u32) -> Result<Descriptors, ConfigError> {
    let shards = u64::from(shards);
    let fixed = OF_NODE + shards * OF_SHARD;
    let needed = fixed + shards * SEGMENTS_MIN + CONNECTIONS_MIN;
    if limit < needed {
        return Err(ConfigError::Conflict(format!(
            "the process may open {limit} files and sockets, and {shards} shards need {needed}: raise it with \
             `ulimit -n`, LimitNOFILE= of the systemd unit, or --ulimit nofile= of the container"
        )));
    }
    let left = limit - fixed;
    let segments_of_shard = (left / SEGMENTS_PART / shards).clamp(SEGMENTS_MIN, SEGMENTS_MAX);
    Ok(Descriptors {
        segments_of_shard,
        connections: left - segments_of_shard * shards,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_given_than_there_is() {
        for shards in [1, 2, 8, 32, 999] {
            for limit in [0, 200, 1024, 4096, 20_000, 1 << 20, u64::MAX] {
                let Ok(given) = share_out(limit, shards) else {
                    continue;
                };
                let shards = u64::from(shards);
                let used = OF_NODE + shards * (OF_SHARD + given.segments_of_shard) + given.connections;
                assert!(used <= limit, "{shards} shards of {limit}: {given:?}");
                assert!(given.segments_of_shard >= SEGMENTS_MIN && given.connections >= CONNECTIONS_MIN);
            }
        }
    }

    #[test]
    fn usual_limits_leave_room_for_many_connections() {
        assert!(share_out(20_000, 2).unwrap().connections >= 14_000);
        assert_eq!(share_out(1 << 20, 8).unwrap().segments_of_shard, SEGMENTS_MAX);
        assert!(share_out(1024, 4).is_ok());
    }

    #[test]
    fn too_few_are_refused_with_the_remedy() {
        let error = share_out(64, 1).unwrap_err().to_string();
        assert!(error.contains("ulimit -n"), "{error}");
    }
}
