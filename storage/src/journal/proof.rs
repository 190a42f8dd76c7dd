//! Proofs that an entry is flushed or written. Only this module makes them, from the path that flushes and
//! writes; every acknowledgement needs one.

use std::collections::VecDeque;

use crate::types::Sequence;

/// This entry and all below are flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Durable(Sequence);

/// This entry and all below are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written(Sequence);

impl Durable {
    pub(crate) fn sequence(self) -> Sequence {
        self.0
    }

    /// Recovery's proof: the entries were read back, and then each file they stand in was flushed.
    pub(crate) fn replayed_and_flushed(sequence: Sequence) -> Self {
        Self(sequence)
    }
}

impl Written {
    pub(crate) fn sequence(self) -> Sequence {
        self.0
    }
}

/// How an entry is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteKind {
    /// A flush has to follow.
    Plain,
    /// The write makes it durable: [`crate::disk::DiskFile::write_through_at`].
    Through,
}

/// How far one dispatched entry has come.
#[derive(Clone, Copy, Debug)]
struct Progress {
    sequence: Sequence,
    file: u32,
    needs_flush: bool,
    /// Its write makes it durable by itself.
    through: bool,
    written: bool,
    flushed: bool,
}

/// What a flush covers: the entries whose writes had completed when it started.
#[derive(Debug)]
pub(crate) struct FlushTicket {
    covered: Vec<Sequence>,
    /// The files to flush, each once.
    pub(crate) files: Vec<u32>,
}

/// The entries between dispatch and durability, in order. The one place that applies the rule "a flush
/// covers only writes that had completed when it started".
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    entries: VecDeque<Progress>,
    written: Sequence,
    durable: Sequence,
}

impl InFlight {
    /// After a replay: everything up to `durable` is.
    pub(crate) fn new(durable: Durable) -> Self {
        Self {
            entries: VecDeque::new(),
            written: durable.0,
            durable: durable.0,
        }
    }

    pub(crate) fn durable(&self) -> Sequence {
        self.durable
    }

    pub(crate) fn written(&self) -> Sequence {
        self.written
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries that hold up others: not written, or written and waiting for a flush.
    pub(crate) fn committing(&self) -> usize {
        self.entries
            .iter()
            .filter(|entry| !entry.written || (entry.needs_flush && !entry.flushed))
            .count()
    }

    /// Written entries that wait for a flush: whether any, and whether one wants it at once.
    pub(crate) fn waiting_for_flush(&self) -> (bool, bool) {
        let waiting = self
            .entries
            .iter()
            .filter(|entry| entry.written && !entry.flushed);
        let (any, urgent) = waiting.fold((false, false), |(_, urgent), entry| {
            (true, urgent || entry.needs_flush)
        });
        (any, urgent)
    }

    /// An entry's write is dispatched; the answer says how.
    ///
    /// A small entry that somebody waits for is written through, one at a time: that saves a wake-up. Where much is written, one flush
    /// covers many entries; and above an entry that waits for a flush, a write-through would prove nothing.
    pub(crate) fn dispatched(
        &mut self,
        sequence: Sequence,
        file: u32,
        needs_flush: bool,
        small: bool,
    ) -> WriteKind {
        assert!(
            self.entries.back().is_none_or(|last| last.sequence < sequence),
            "entries are dispatched in order"
        );
        assert!(sequence > self.durable, "a sequence is used once");
        let through = needs_flush && small && self.entries.iter().all(|entry| entry.flushed);
        self.entries.push_back(Progress {
            sequence,
            file,
            needs_flush,
            through,
            written: false,
            flushed: false,
        });
        match through {
            true => WriteKind::Through,
            false => WriteKind::Plain,
        }
    }

    /// An entry's write completed. Returns the proof when the written sequence moved.
    pub(crate) fn write_completed(&mut self, sequence: Sequence) -> Option<Written> {
        let entry = self.entries.iter_mut().find(|entry| entry.sequence == sequence);
        let entry = entry.expect("a write completes once, before its flush");
        entry.written = true;
        entry.flushed = entry.through;
        let reached = self
            .entries
            .iter()
            .take_while(|entry| entry.written)
            .last()?
            .sequence;
        if reached <= self.written {
            return None;
        }
        self.written = reached;
        Some(Written(reached))
    }

    /// A flush starts now.
    pub(crate) fn flush_starts(&self) -> FlushTicket {
        let mut ticket = FlushTicket {
            covered: Vec::new(),
            files: Vec::new(),
        };
        for entry in self
            .entries
            .iter()
            .filter(|entry| entry.written && !entry.flushed)
        {
            ticket.covered.push(entry.sequence);
            if !ticket.files.contains(&entry.file) {
                ticket.files.push(entry.file);
            }
        }
        ticket
    }

    /// The flush of all of the ticket's files completed. Returns the proof when the durable sequence moved.
    pub(crate) fn flush_completed(&mut self, ticket: &FlushTicket) -> Option<Durable> {
        for entry in &mut self.entries {
            entry.flushed |= ticket.covered.contains(&entry.sequence);
        }
        self.settle()
    }

    /// Takes out what is durable. Returns the proof when the durable sequence moved.
    pub(crate) fn settle(&mut self) -> Option<Durable> {
        let before = self.durable;
        while let Some(first) = self.entries.front()
            && first.flushed
        {
            self.durable = first.sequence;
            self.entries.pop_front();
        }
        (self.durable > before).then_some(Durable(self.durable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> InFlight {
        let mut in_flight = InFlight::new(Durable(Sequence(10)));
        for at in 11..=13 {
            assert_eq!(
                in_flight.dispatched(Sequence(at), 0, true, false),
                WriteKind::Plain
            );
        }
        in_flight
    }

    #[test]
    fn a_small_entry_alone_is_durable_by_its_write() {
        let mut in_flight = InFlight::new(Durable(Sequence(10)));
        assert_eq!(
            in_flight.dispatched(Sequence(11), 0, true, true),
            WriteKind::Through
        );
        // Those beside it wait for a flush, which need not cover it.
        assert_eq!(
            in_flight.dispatched(Sequence(12), 0, true, true),
            WriteKind::Plain
        );
        assert_eq!(in_flight.write_completed(Sequence(12)), None);
        assert_eq!(in_flight.settle(), None);
        let ticket = in_flight.flush_starts();
        assert_eq!(in_flight.flush_completed(&ticket), None);
        assert_eq!(
            in_flight.write_completed(Sequence(11)),
            Some(Written(Sequence(12)))
        );
        assert_eq!(in_flight.settle(), Some(Durable(Sequence(12))));
        assert_eq!(in_flight.waiting_for_flush(), (false, false));
        assert!(in_flight.is_empty());
    }

    #[test]
    fn nothing_is_written_through_above_an_entry_that_has_no_flush_yet() {
        let mut in_flight = InFlight::new(Durable(Sequence(10)));
        assert_eq!(
            in_flight.dispatched(Sequence(11), 0, false, true),
            WriteKind::Plain
        );
        assert!(in_flight.write_completed(Sequence(11)).is_some());
        assert_eq!(
            in_flight.dispatched(Sequence(12), 0, true, true),
            WriteKind::Plain
        );
        assert!(in_flight.write_completed(Sequence(12)).is_some());
        assert_eq!(in_flight.settle(), None);
        let ticket = in_flight.flush_starts();
        assert_eq!(in_flight.flush_completed(&ticket), Some(Durable(Sequence(12))));
        assert_eq!(
            in_flight.dispatched(Sequence(13), 0, true, true),
            WriteKind::Through
        );
    }

    #[test]
    fn a_flush_covers_only_writes_completed_at_its_start() {
        let mut in_flight = three();
        assert_eq!(
            in_flight.write_completed(Sequence(11)),
            Some(Written(Sequence(11)))
        );
        let ticket = in_flight.flush_starts();
        assert_eq!(
            in_flight.write_completed(Sequence(12)),
            Some(Written(Sequence(12)))
        );
        assert_eq!(in_flight.flush_completed(&ticket), Some(Durable(Sequence(11))));
        let ticket = in_flight.flush_starts();
        assert_eq!(in_flight.flush_completed(&ticket), Some(Durable(Sequence(12))));
    }

    #[test]
    fn an_entry_is_durable_only_with_all_below() {
        let mut in_flight = three();
        assert_eq!(in_flight.write_completed(Sequence(13)), None);
        assert_eq!(in_flight.write_completed(Sequence(12)), None);
        let ticket = in_flight.flush_starts();
        assert_eq!(in_flight.flush_completed(&ticket), None);
        assert_eq!(
            in_flight.write_completed(Sequence(11)),
            Some(Written(Sequence(13)))
        );
        let ticket = in_flight.flush_starts();
        assert_eq!(in_flight.flush_completed(&ticket), Some(Durable(Sequence(13))));
        assert!(in_flight.is_empty());
    }
}
