//! The topics that a group of consumers is subscribed to, read from its members' metadata.
//!
//! The rest of the metadata stays the clients' own affair; only this prefix, the same in every version of the consumer
//! protocol, matters to the broker: offsets of subscribed topics neither expire nor may be deleted.

use std::collections::HashSet;
use std::rc::Rc;

/// The protocol type of consumers.
pub(super) const CONSUMER: &str = "consumer";

/// Adds the topics of each subscription. `None` if one is not a consumer's: then nothing is known of the topics.
pub(super) fn topics<'a>(subscriptions: impl Iterator<Item = &'a [u8]>) -> Option<HashSet<Rc<str>>> {
    let mut topics = HashSet::new();
    // Members of one group mostly subscribe to the same topics.
    let mut before: &[u8] = &[];
    for subscription in subscriptions {
        if !before.is_empty() && subscription.starts_with(before) {
            continue;
        }
        before = add_topics(subscription, &mut topics)?;
    }
    Some(topics)
}

/// Adds the topics of one subscription; the bytes that they were read from.
fn add_topics<'a>(subscription: &'a [u8], topics: &mut HashSet<Rc<str>>) -> Option<&'a [u8]> {
    let (version, rest) = split_i16(subscription)?;
    let (count, mut rest) = rest.split_first_chunk::<4>()?;
    let count = i32::from_be_bytes(*count);
    if version < 0 || count < 0 {
        return None;
    }
    for _ in 0..count {
        let (length, text) = split_i16(rest)?;
        let (name, after) = text.split_at_checked(usize::try_from(length).ok()?)?;
        let name = String::from_utf8_lossy(name);
        if !topics.contains(&*name) {
            topics.insert(name.into());
        }
        rest = after;
    }
    subscription.get(..subscription.len() - rest.len())
}

fn split_i16(bytes: &[u8]) -> Option<(i16, &[u8])> {
    let (value, rest) = bytes.split_first_chunk::<2>()?;
    Some((i16::from_be_bytes(*value), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(version: i16, names: &[&str], rest: &[u8]) -> Vec<u8> {
        let mut bytes = version.to_be_bytes().to_vec();
        bytes.extend((names.len() as i32).to_be_bytes());
        for name in names {
            bytes.extend((name.len() as i16).to_be_bytes());
            bytes.extend(name.as_bytes());
        }
        bytes.extend(rest);
        bytes
    }

    fn read(subscriptions: &[Vec<u8>]) -> Option<Vec<String>> {
        let found = topics(subscriptions.iter().map(Vec::as_slice))?;
        let mut found: Vec<String> = found.iter().map(|name| name.to_string()).collect();
        found.sort();
        Some(found)
    }

    #[test]
    fn topics_of_all_members_whatever_the_version() {
        let first = subscription(0, &["a", "b"], &[0xff; 4]);
        let same_topics_other_rest = subscription(0, &["a", "b"], b"user data");
        let second = subscription(3, &["b", "c"], &[]);
        assert_eq!(
            read(&[first, same_topics_other_rest, second]),
            Some(vec!["a".into(), "b".into(), "c".into()])
        );
        assert_eq!(read(&[]), Some(vec![]));
    }

    #[test]
    fn bytes_that_are_no_subscription_make_the_topics_unknown() {
        let whole = subscription(1, &["topic"], &[]);
        for length in 0..whole.len() {
            assert_eq!(read(&[whole[..length].to_vec()]), None, "{length} bytes");
        }
        assert_eq!(read(&[subscription(-1, &["topic"], &[])]), None);
        let mut huge = 0_i16.to_be_bytes().to_vec();
        huge.extend(i32::MAX.to_be_bytes());
        assert_eq!(read(&[huge]), None);
    }
}
