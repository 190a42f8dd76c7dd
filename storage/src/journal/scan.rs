//! Finding the entries of the ring again, and which of them count. Pure: bytes and headers in, a plan out.

use crate::disk::PAGE;
use crate::format::checkpoint::{Incarnation, ReplayStart};
use crate::format::entry::{EntryHeader, RingPosition, verify_directory};
use crate::types::Sequence;

/// An entry whose header and directory are whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) at: RingPosition,
    pub(crate) header: EntryHeader,
}

impl Found {
    pub(crate) fn sequence(&self) -> Sequence {
        Sequence(self.header.sequence)
    }

    /// Where the ring continues behind it.
    pub(crate) fn end(&self) -> RingPosition {
        RingPosition {
            file: self.at.file,
            position: self.at.position + u64::from(self.header.length),
        }
    }
}

/// The entries of a file, at every page boundary: bytes of clients never pass, since entries are keyed by
/// the journal's random id and by their place.
pub(crate) fn entries_in_file(bytes: &[u8], file: u32, journal_id: u64) -> Vec<Found> {
    let mut found = Vec::new();
    for position in (0..bytes.len()).step_by(PAGE) {
        let at = RingPosition {
            file,
            position: position as u64,
        };
        if let Ok(header) = verify_directory(&bytes[position..], journal_id, at)
            && position + header.length as usize <= bytes.len()
        {
            found.push(Found { at, header });
        }
    }
    found
}

/// What a replay does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The entries to apply, in order.
    pub(crate) entries: Vec<Planned>,
    /// Everything up to here was acknowledged, or may have been: what is missing of it is rot.
    pub(crate) durable: Sequence,
    /// Acknowledged entries are missing at the end too.
    pub(crate) rot_at_end: bool,
    /// Whole entries were left out, since one before them is missing and was never durable.
    pub(crate) torn: bool,
    /// The highest sequence of any whole entry: the next open continues above.
    pub(crate) highest: Sequence,
    /// Entries of an open that the checkpoint does not know: the slot is not the newest.
    pub(crate) unknown_incarnation: bool,
}

/// An entry to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) found: Found,
    /// An acknowledged entry before it is missing.
    pub(crate) rot_before: bool,
}

/// Decides which entries count.
pub(crate) fn plan(mut found: Vec<Found>, start: &ReplayStart, incarnations: &[Incarnation]) -> Plan {
    let newest = incarnations
        .last()
        .map_or(0, |incarnation| incarnation.incarnation);
    let mut plan = Plan {
        highest: start.sequence(),
        durable: start.sequence(),
        ..Plan::default()
    };
    for entry in &found {
        plan.highest = plan.highest.max(entry.sequence());
        plan.unknown_incarnation |= entry.header.incarnation > newest;
    }
    found.retain(|entry| entry.sequence() > start.sequence() && !is_stale(&entry.header, incarnations));
    found.sort_by_key(Found::sequence);
    for entry in &found {
        plan.durable = plan.durable.max(Sequence(entry.header.durable));
    }
    // An open flushed what it replayed before a checkpoint named it: what it follows was durable, though no entry says so yet.
    for incarnation in incarnations {
        plan.durable = plan.durable.max(Sequence(incarnation.follows));
    }

    let mut last = start.sequence();
    let mut last_checksum = start.previous;
    for entry in found {
        let chained = entry.header.previous == last_checksum;
        // Without the chain an entry counts only where what is missing before it was acknowledged: then it is
        // rot, not a torn tail. An entry missing that never was durable ends the replay in any case.
        let rot_before = !chained && plan.durable > last;
        if !chained && (!rot_before || sequence_before(&entry.header, incarnations) > plan.durable) {
            plan.torn = true;
            break;
        }
        last = entry.sequence();
        last_checksum = entry.header.checksum;
        plan.entries.push(Planned {
            found: entry,
            rot_before,
        });
    }
    plan.rot_at_end = plan.durable > last;
    plan
}

/// Whether an entry was left behind by a crash: of an open not listed, or beyond what the next open accepted.
fn is_stale(header: &EntryHeader, incarnations: &[Incarnation]) -> bool {
    let Some(index) = incarnations
        .iter()
        .position(|known| known.incarnation == header.incarnation)
    else {
        return true;
    };
    let next = incarnations.get(index + 1);
    header.sequence < incarnations[index].first_sequence
        || next.is_some_and(|next| header.sequence > next.follows)
}

/// The sequence of the entry that must stand before this one.
fn sequence_before(header: &EntryHeader, incarnations: &[Incarnation]) -> Sequence {
    let first = incarnations
        .iter()
        .find(|known| known.incarnation == header.incarnation && known.first_sequence == header.sequence);
    first.map_or(Sequence(header.sequence - 1), |first| Sequence(first.follows))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: ReplayStart = ReplayStart {
        file: 0,
        position: 0,
        sequence: 0,
        previous: 0,
    };
    const FIRST: Incarnation = Incarnation {
        incarnation: 1,
        first_sequence: 1,
        follows: 0,
    };

    /// Entries of one open, chained; each is (sequence, durable).
    fn chain(incarnation: u64, mut previous: u64, entries: &[(u64, u64)]) -> Vec<Found> {
        let mut found = Vec::new();
        for (sequence, durable) in entries {
            let checksum = incarnation * 1000 + sequence;
            let header = EntryHeader {
                checksum,
                incarnation,
                sequence: *sequence,
                durable: *durable,
                previous,
                length: 4096,
                ..EntryHeader::default()
            };
            found.push(Found {
                at: RingPosition {
                    file: 0,
                    position: sequence * 4096,
                },
                header,
            });
            previous = checksum;
        }
        found
    }

    fn sequences(plan: &Plan) -> Vec<u64> {
        plan.entries
            .iter()
            .map(|planned| planned.found.header.sequence)
            .collect()
    }

    #[test]
    fn a_missing_entry_that_was_not_durable_ends_the_replay() {
        let mut found = chain(1, 0, &[(1, 0), (2, 1), (3, 1), (4, 1)]);
        found.remove(1);
        let plan = plan(found, &START, &[FIRST]);
        assert_eq!(sequences(&plan), [1]);
        assert!(plan.torn && !plan.rot_at_end);
        assert_eq!(plan.highest, Sequence(4));
    }

    #[test]
    fn a_missing_entry_that_was_durable_is_rot_and_the_replay_goes_on() {
        let mut found = chain(1, 0, &[(1, 0), (2, 1), (3, 2), (4, 2)]);
        found.remove(1);
        let plan = plan(found, &START, &[FIRST]);
        assert_eq!(sequences(&plan), [1, 3, 4]);
        assert!(plan.entries[1].rot_before && !plan.entries[2].rot_before);
    }

    #[test]
    fn behind_rot_a_torn_tail_is_still_torn() {
        // 2 rotted, 3 was torn in flight, 4 was whole but never durable.
        let mut found = chain(1, 0, &[(1, 0), (2, 1), (3, 1), (4, 2)]);
        found.drain(1..3);
        let plan = plan(found, &START, &[FIRST]);
        assert_eq!(sequences(&plan), [1]);
        assert!(plan.torn && plan.rot_at_end);
    }

    #[test]
    fn a_stale_entry_of_an_earlier_open_never_joins() {
        // Open 1: entry 2 torn, 3 whole, neither acknowledged. Open 2 follows 1, starts at 4, and 4 rots.
        let mut found = chain(1, 0, &[(1, 0), (2, 1), (3, 1)]);
        found.remove(1);
        let checksum = found[0].header.checksum;
        let mut second = chain(2, checksum, &[(4, 1), (5, 4), (6, 5)]);
        second.remove(0);
        found.extend(second);
        let incarnations = [
            FIRST,
            Incarnation {
                incarnation: 2,
                first_sequence: 4,
                follows: 1,
            },
        ];
        let plan = plan(found, &START, &incarnations);
        assert_eq!(sequences(&plan), [1, 5, 6]);
        assert!(plan.entries[1].rot_before);
    }

    #[test]
    fn the_chain_crosses_opens_and_skips_their_unused_sequences() {
        let mut found = chain(1, 0, &[(1, 0)]);
        let checksum = found[0].header.checksum;
        found.extend(chain(2, checksum, &[(4, 1), (5, 4)]));
        let incarnations = [
            FIRST,
            Incarnation {
                incarnation: 2,
                first_sequence: 4,
                follows: 1,
            },
        ];
        assert_eq!(sequences(&plan(found, &START, &incarnations)), [1, 4, 5]);
    }

    #[test]
    fn an_entry_of_an_open_unknown_to_the_checkpoint_shows() {
        let plan = plan(chain(2, 0, &[(1, 0)]), &START, &[FIRST]);
        assert!(plan.unknown_incarnation && plan.entries.is_empty());
    }

    #[test]
    fn what_an_open_follows_was_durable_though_no_entry_says_so() {
        // 3 was the last entry of open 1, and is not stated durable; open 2 replayed it and wrote nothing yet.
        let mut found = chain(1, 0, &[(1, 0), (2, 1), (3, 1)]);
        found.pop();
        let second = Incarnation {
            incarnation: 2,
            first_sequence: 4,
            follows: 3,
        };
        let plan = plan(found, &START, &[FIRST, second]);
        assert_eq!(sequences(&plan), [1, 2]);
        assert!(plan.rot_at_end && !plan.torn);
    }

    /// One open of a store: how many entries it wrote, how far each one's `durable` lags behind, how many of the
    /// last ones were not durable when the power was cut, and which of those survived all the same.
    type Open = (usize, Vec<u64>, usize, u64);

    fn opens() -> impl Strategy<Value = Vec<Open>> {
        let lags = proptest::collection::vec(0u64..3, 8);
        proptest::collection::vec((0usize..8, lags, 0usize..4, any::<u64>()), 1..5)
    }

    /// What a disk holds after these opens and power cuts, what of it counts, and the opens as a checkpoint lists them.
    #[derive(Default)]
    struct Disk {
        found: Vec<Found>,
        counts: Vec<u64>,
        torn: bool,
        incarnations: Vec<Incarnation>,
    }

    fn after(opens: &[Open]) -> Disk {
        let mut disk = Disk::default();
        let (mut last, mut last_checksum, mut highest) = (0, 0, 0);
        for (number, (count, lags, undurable, survives)) in opens.iter().enumerate() {
            let incarnation = number as u64 + 1;
            let first = highest + 1;
            disk.incarnations.push(Incarnation {
                incarnation,
                first_sequence: first,
                follows: last,
            });
            let (mut durable, follows) = (last, last);
            let entries: Vec<(u64, u64)> = (0..*count as u64)
                .map(|at| {
                    let lagging = (first + at).saturating_sub(1 + lags[at as usize]);
                    // Before the open's own entries comes the one that it follows.
                    durable = durable.max(if lagging < first { follows } else { lagging });
                    (first + at, durable)
                })
                .collect();
            let reached = (first + *count as u64)
                .saturating_sub(1 + *undurable as u64)
                .max(durable);
            let mut whole = true;
            for entry in chain(incarnation, last_checksum, &entries) {
                let sequence = entry.header.sequence;
                let there = sequence <= reached || survives >> (sequence - first) & 1 == 1;
                whole &= there;
                if !there {
                    continue;
                }
                highest = sequence;
                disk.found.push(entry);
                if whole {
                    disk.counts.push(sequence);
                    (last, last_checksum) = (sequence, entry.header.checksum);
                }
            }
            disk.torn = !whole && highest > last && highest >= first;
        }
        disk
    }

    proptest! {
        #[test]
        fn after_power_cuts_exactly_the_unbroken_entries_count(opens in opens(), order: prop::sample::Index) {
            let mut disk = after(&opens);
            let length = disk.found.len().max(1);
            // The ring is read in the order of its files.
            disk.found.rotate_left(order.index(length) % length);
            let plan = plan(disk.found, &START, &disk.incarnations);
            prop_assert_eq!(sequences(&plan), disk.counts);
            prop_assert!(!plan.rot_at_end && plan.entries.iter().all(|planned| !planned.rot_before));
            prop_assert_eq!(plan.torn, disk.torn);
        }

        #[test]
        fn a_lost_entry_is_rot_exactly_where_it_is_known_to_have_been_durable(opens in opens(), pick: prop::sample::Index) {
            let Disk { mut found, counts, incarnations, .. } = after(&opens);
            prop_assume!(!counts.is_empty());
            let lost = counts[pick.index(counts.len())];
            found.retain(|entry| entry.header.sequence != lost);
            let plan = plan(found, &START, &incarnations);
            if lost <= plan.durable.0 {
                let others: Vec<u64> = counts.iter().copied().filter(|one| *one != lost).collect();
                prop_assert_eq!(sequences(&plan), others, "nothing but the lost one is missing");
                let behind = plan.entries.iter().find(|planned| planned.found.header.sequence > lost);
                prop_assert_eq!(behind.map_or(plan.rot_at_end, |planned| planned.rot_before), true);
            } else {
                let before: Vec<u64> = counts.iter().copied().filter(|one| *one < lost).collect();
                prop_assert_eq!(sequences(&plan), before, "what was acknowledged at most in part is cut");
                prop_assert!(!plan.rot_at_end && plan.entries.iter().all(|planned| !planned.rot_before));
            }
        }
    }
}
