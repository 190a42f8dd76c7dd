//! Kafka's rules for topic names.

/// The longest topic name, in characters: with a dash, a ten-digit partition and Kafka's deletion suffix it must stay a
/// file name.
pub const MAX_LENGTH: usize = 249;

/// Why a topic name is refused (INVALID_TOPIC_EXCEPTION). The texts say what Kafka's say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTopicName {
    /// An empty name.
    #[error("the topic name is illegal, it can't be empty")]
    Empty,
    /// `.` or `..`.
    #[error("the topic name cannot be \".\" or \"..\"")]
    Dots,
    /// More than [`MAX_LENGTH`] characters.
    #[error("the topic name is longer than {MAX_LENGTH} characters")]
    TooLong,
    /// A character outside the permitted ones.
    #[error("the topic name contains a character other than ASCII alphanumerics, '.', '_' and '-'")]
    Character,
}

/// Checks a topic name.
pub fn validate(name: &str) -> Result<(), InvalidTopicName> {
    let permitted = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    match name {
        "" => Err(InvalidTopicName::Empty),
        "." | ".." => Err(InvalidTopicName::Dots),
        _ if name.chars().count() > MAX_LENGTH => Err(InvalidTopicName::TooLong),
        _ if !name.bytes().all(permitted) => Err(InvalidTopicName::Character),
        _ => Ok(()),
    }
}

/// True when the name has a character that Kafka's metric names cannot tell apart: `.` and `_`.
pub fn has_collision_chars(name: &str) -> bool {
    name.contains(['.', '_'])
}

/// True when two names differ only in `.` and `_`. Kafka refuses to create the second.
pub fn collides(one: &str, other: &str) -> bool {
    let same = |(left, right): (u8, u8)| {
        let unify = |byte| if byte == b'.' { b'_' } else { byte };
        unify(left) == unify(right)
    };
    one.len() == other.len() && one.bytes().zip(other.bytes()).all(same)
}

/// The topics that Kafka marks as its own.
const INTERNAL: [&str; 3] = ["__consumer_offsets", "__transaction_state", "__share_group_state"];

/// Whether a topic is the cluster's own: clients read it, but do not write to it.
pub fn is_internal(name: &str) -> bool {
    INTERNAL.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_permitted_and_the_refused() {
        for name in ["a", "...", "a.b_c-D9", &"x".repeat(249)] {
            assert_eq!(validate(name), Ok(()), "{name}");
        }
        assert_eq!(validate(""), Err(InvalidTopicName::Empty));
        assert_eq!(validate("."), Err(InvalidTopicName::Dots));
        assert_eq!(validate(".."), Err(InvalidTopicName::Dots));
        assert_eq!(validate(&"x".repeat(250)), Err(InvalidTopicName::TooLong));
        for name in ["a b", "a/b", "a\0", "é", "a:b", "a\n"] {
            assert_eq!(validate(name), Err(InvalidTopicName::Character), "{name:?}");
        }
    }

    #[test]
    fn dots_and_underscores_collide() {
        assert!(collides("a.b", "a_b"));
        assert!(collides("a.b", "a.b"));
        assert!(!collides("a.b", "a-b"));
        assert!(!collides("a.b", "a_bc"));
        assert!(has_collision_chars("a.b") && !has_collision_chars("a-b"));
    }
}
