//! Which partition of `__consumer_offsets` a group belongs to: the broker that leads it is the group's coordinator.

/// The topic that keeps the groups and what they committed.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// The partition of a group, among `partitions`.
pub fn partition_of(group: &str, partitions: i32) -> i32 {
    // As Kafka's `Utils.abs`: the one number without a positive counterpart stands for 0.
    java_hash(group).checked_abs().unwrap_or_default() % partitions.max(1)
}

/// Java's `String.hashCode`, which counts UTF-16 units.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0_i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that `"…".hashCode()` gives in Java.
    #[test]
    fn hashes_are_javas() {
        for (text, hash) in [
            ("", 0),
            ("a", 97),
            ("group", 98_629_247),
            ("polygenelubricants", i32::MIN),
            ("ü", 252),
            // Outside the basic plane: two units.
            ("😀", 1_772_899),
        ] {
            assert_eq!(java_hash(text), hash, "{text}");
        }
    }

    #[test]
    fn every_group_has_a_partition() {
        assert_eq!(partition_of("polygenelubricants", 50), 0);
        assert_eq!(partition_of("group", 50), 47);
        // A negative hash counts by its distance from zero.
        assert_eq!(java_hash("consumers-0"), -858_380_896);
        assert_eq!(partition_of("consumers-0", 50), 46);
        assert_eq!(partition_of("group", 1), 0);
        assert_eq!(partition_of("group", 0), 0);
    }
}
