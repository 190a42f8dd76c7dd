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
}
