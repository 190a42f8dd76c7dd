//! Authorized operations, as bit fields: without an authorizer everyone may do everything.

/// Read, write, create, delete, alter, describe, and both of configurations: bits by Kafka's operation codes.
pub(super) const TOPIC: i32 = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 11;

/// Create, alter, describe, cluster action, both of configurations, idempotent write.
pub(super) const CLUSTER: i32 = 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12;

/// Not asked for.
pub(super) const OMITTED: i32 = i32::MIN;
