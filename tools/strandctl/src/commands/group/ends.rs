//! Where partitions begin and end, of whatever topics groups have committed offsets of.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::group::Position;
use crate::client::metadata::Topics;
use crate::client::offsets::{EARLIEST, LATEST};
use crate::client::{Client, ClientError};

/// First offset and end of partitions.
#[derive(Debug, Default)]
pub(super) struct Ends(BTreeMap<Position, (i64, i64)>);

impl Ends {
    /// Asks for partitions. Those that are gone or have no leader have no ends, and hide nothing of the others.
    pub(super) fn of(
        client: &mut Client,
        wanted: impl Iterator<Item = Position>,
    ) -> Result<Self, ClientError> {
        let mut by_topic: BTreeMap<String, BTreeSet<i32>> = BTreeMap::new();
        for (topic, partition) in wanted {
            by_topic.entry(topic).or_default().insert(partition);
        }
        let mut ends = Self::default();
        if by_topic.is_empty() {
            return Ok(ends);
        }
        let names: Vec<String> = by_topic.keys().cloned().collect();
        for topic in client.metadata(Topics::Named(&names))?.topics {
            let leaders = topic.leaders();
            let led = by_topic.get(&topic.name).into_iter().flatten();
            let led: Vec<i32> = led
                .copied()
                .filter(|partition| leaders.contains_key(partition))
                .collect();
            let mut ask = |time| {
                let wanted = led.iter().map(|partition| (*partition, time)).collect();
                client.list_offsets(&topic.name, &wanted)
            };
            let (starts, ends_now) = (ask(EARLIEST)?, ask(LATEST)?);
            for partition in led {
                let of = |offsets: &BTreeMap<i32, Option<i64>>| offsets.get(&partition).copied().flatten();
                if let (Some(start), Some(end)) = (of(&starts), of(&ends_now)) {
                    ends.0.insert((topic.name.clone(), partition), (start, end));
                }
            }
        }
        Ok(ends)
    }

    /// First offset and end of a partition.
    pub(super) fn get(&self, at: &Position) -> Option<(i64, i64)> {
        self.0.get(at).copied()
    }
}

/// How many records are still to be read: what retention took away is not among them.
pub(super) fn lag(committed: i64, (start, end): (i64, i64)) -> i64 {
    end.saturating_sub(committed.max(start)).max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_counts_what_can_still_be_read() {
        assert_eq!(lag(7, (0, 10)), 3);
        assert_eq!(lag(2, (5, 10)), 5, "retention passed the group");
        assert_eq!(lag(12, (0, 10)), 0, "the end went back");
    }
}
