//! What a power cut can leave: for every change that no flush covered, one of several outcomes.
//!
//! A write is lost, whole, or torn between two sectors (512 bytes) or pages (4096 bytes); a size or a name is
//! changed or not. Every combination is admissible, as a device reorders freely between flushes, except names
//! that make no sense (what was never added cannot be moved). Lost bytes of a file that grew read as zeros.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use strandline_runtime::sim::SeededRandom;

use super::super::PAGE;
use super::content::Content;
use super::names::{Entries, NodeId, ROOT, Tree};
use super::node::{Change, Pending};
use super::state::State;

/// The unit a device writes whole, in bytes.
const SECTOR: usize = 512;

/// What a power cut left, or a snapshot: a disk that can be started again with `SimDisk::from_image`.
#[derive(Clone, Debug)]
pub struct Image(pub(super) State);

/// What becomes of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing of it.
    Lost,
    /// All of it.
    Whole,
    /// These bytes of a write, by their offsets in it.
    Parts(Vec<Range<usize>>),
    /// The size that a write gave the file, and none of its bytes.
    SizeOnly,
}

impl Outcome {
    fn part(part: Range<usize>) -> Self {
        Self::Parts(std::iter::once(part).collect())
    }

    /// The likely and the nasty outcomes of a change, for taking all of them.
    fn candidates(change: &Change) -> Vec<Self> {
        let mut outcomes = vec![Self::Lost, Self::Whole];
        let Change::Write { position, bytes } = change else {
            return outcomes;
        };
        let length = bytes.len();
        let boundaries: BTreeSet<usize> = cuts(*position, length, PAGE).collect();
        let sectors: Vec<usize> = cuts(*position, length, SECTOR).collect();
        let ends = [sectors.first(), sectors.last()].into_iter().flatten().copied();
        for cut in boundaries.into_iter().chain(ends).collect::<BTreeSet<usize>>() {
            outcomes.push(Self::part(0..cut));
            outcomes.push(Self::part(cut..length));
        }
        outcomes.push(Self::SizeOnly);
        outcomes
    }

    /// One of all outcomes of a change.
    pub(super) fn draw(change: &Change, random: &mut SeededRandom) -> Self {
        let Change::Write { position, bytes } = change else {
            return if random.one_in(2) { Self::Lost } else { Self::Whole };
        };
        match random.below(8) {
            0..=2 => Self::Lost,
            3..=5 => Self::Whole,
            6 if random.one_in(4) => Self::SizeOnly,
            unit => {
                let unit = if unit == 6 { PAGE } else { SECTOR };
                let mut parts = Vec::new();
                let mut start = 0;
                for end in cuts(*position, bytes.len(), unit).chain([bytes.len()]) {
                    if random.one_in(2) {
                        parts.push(start..end);
                    }
                    start = end;
                }
                Self::Parts(parts)
            }
        }
    }

    /// What is left of the change, as changes that are whole.
    pub(super) fn remains(&self, change: &Change) -> Vec<Change> {
        match (self, change) {
            (Self::Whole, _) => vec![change.clone()],
            (Self::Parts(parts), Change::Write { position, bytes }) => parts
                .iter()
                .filter(|part| !part.is_empty())
                .map(|part| Change::Write {
                    position: position + part.start as u64,
                    bytes: Rc::from(&bytes[part.clone()]),
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    fn apply(&self, change: &Change, content: &mut Content) {
        match (self, change) {
            (Self::Lost, _) => {}
            (Self::Whole, _) => change.apply(content),
            (Self::Parts(parts), _) => {
                parts
                    .iter()
                    .for_each(|part| change.apply_part(part.clone(), content));
            }
            (Self::SizeOnly, Change::Write { position, bytes }) => {
                content.resize(content.size().max(position + bytes.len() as u64));
            }
            (Self::SizeOnly, _) => {}
        }
    }
}

/// The offsets inside a write at which a multiple of `unit` lies in the file.
fn cuts(position: u64, length: usize, unit: usize) -> impl Iterator<Item = usize> {
    let first = unit - (position % unit as u64) as usize;
    (first..length).step_by(unit)
}

/// Something that a power cut decides on.
enum Slot {
    File(NodeId, Pending),
    Name(usize),
}

impl Slot {
    fn candidates(&self) -> Vec<Outcome> {
        match self {
            Self::File(_, pending) => Outcome::candidates(&pending.change),
            Self::Name(_) => vec![Outcome::Lost, Outcome::Whole],
        }
    }

    fn draw(&self, random: &mut SeededRandom) -> Outcome {
        match self {
            Self::File(_, pending) => Outcome::draw(&pending.change, random),
            Self::Name(_) if random.one_in(2) => Outcome::Lost,
            Self::Name(_) => Outcome::Whole,
        }
    }
}

/// The images of one moment.
pub(super) struct Crash {
    state: State,
    slots: Vec<Slot>,
}

impl Crash {
    pub(super) fn of(state: State) -> Self {
        let mut reachable: BTreeSet<NodeId> = state
            .names
            .durable
            .values()
            .flat_map(|entries| entries.values().copied())
            .collect();
        reachable.extend(state.names.pending.iter().map(|pending| pending.change.node()));
        let files = state.files.iter().filter(|(node, _)| reachable.contains(node));
        let mut slots: Vec<Slot> = files
            .flat_map(|(node, file)| {
                file.pending
                    .iter()
                    .map(|pending| Slot::File(*node, pending.clone()))
            })
            .collect();
        slots.extend((0..state.names.pending.len()).map(Slot::Name));
        Self { state, slots }
    }

    pub(super) fn sample(&self, random: &mut SeededRandom) -> Image {
        self.image(self.slots.iter().map(|slot| slot.draw(random)))
    }

    fn image(&self, outcomes: impl Iterator<Item = Outcome>) -> Image {
        let mut contents: BTreeMap<NodeId, Content> = self
            .state
            .files
            .iter()
            .map(|(node, file)| (*node, file.durable.clone()))
            .collect();
        let mut tree = self.state.names.durable.clone();
        for (slot, outcome) in self.slots.iter().zip(outcomes) {
            match slot {
                Slot::File(node, pending) => {
                    if let Some(content) = contents.get_mut(node) {
                        outcome.apply(&pending.change, content);
                    }
                }
                Slot::Name(index) if outcome == Outcome::Whole => {
                    self.state.names.pending[*index].change.apply(&mut tree);
                }
                Slot::Name(_) => {}
            }
        }
        let mut reached = Tree::new();
        let mut kept = BTreeMap::new();
        let mut waiting = vec![ROOT];
        while let Some(folder) = waiting.pop() {
            let entries: Entries = tree.remove(&folder).unwrap_or_default();
            for node in entries.values() {
                match contents.remove(node) {
                    Some(content) => drop(kept.insert(*node, content)),
                    None if !kept.contains_key(node) => waiting.push(*node),
                    None => {}
                }
            }
            reached.insert(folder, entries);
        }
        Image(State::settled(self.state.capacity_bytes, reached, kept))
    }
}

/// The images that a power cut can leave at one moment: all of them when they are few, a seeded choice otherwise.
pub struct CrashImages {
    crash: Crash,
    candidates: Vec<Vec<Outcome>>,
    count: u64,
    next: u64,
    /// `None` when all are taken.
    random: Option<SeededRandom>,
}

impl CrashImages {
    pub(super) fn new(state: State, limit: u64, random: SeededRandom) -> Self {
        let crash = Crash::of(state);
        let candidates: Vec<Vec<Outcome>> = crash.slots.iter().map(Slot::candidates).collect();
        let all = candidates
            .iter()
            .try_fold(1_u64, |all, one| all.checked_mul(one.len() as u64));
        let exhaustive = all.is_some_and(|all| all <= limit);
        Self {
            crash,
            candidates,
            count: all.unwrap_or(u64::MAX).min(limit),
            next: 0,
            random: (!exhaustive).then_some(random),
        }
    }

    /// Whether every combination of outcomes is taken.
    pub fn is_exhaustive(&self) -> bool {
        self.random.is_none()
    }

    /// How many there are in all.
    pub fn count_all(&self) -> u64 {
        self.count
    }
}

impl Iterator for CrashImages {
    type Item = Image;

    fn next(&mut self) -> Option<Image> {
        if self.next == self.count {
            return None;
        }
        let number = self.next;
        self.next += 1;
        let slots = self.crash.slots.len();
        let image = match (&mut self.random, number) {
            (None, number) => {
                let mut rest = number;
                self.crash.image(self.candidates.iter().map(|candidates| {
                    let choice = (rest % candidates.len() as u64) as usize;
                    rest /= candidates.len() as u64;
                    candidates[choice].clone()
                }))
            }
            // The two extremes always, then what the seed says.
            (Some(_), 0) => self.crash.image(std::iter::repeat_n(Outcome::Lost, slots)),
            (Some(_), 1) => self.crash.image(std::iter::repeat_n(Outcome::Whole, slots)),
            (Some(random), _) => self.crash.sample(random),
        };
        Some(image)
    }
}
