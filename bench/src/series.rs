//! Measurements second by second of the schedule, the warm-up apart.
//!
//! A record belongs to the second in which it was *intended*, however late its answer came: so the cut between warm-up and measurement
//! is exact, the seconds add up to the whole, and a stall shows where it hit.

use crate::clock::{Nanos, SECOND};
use crate::histogram::{AckLatencies, Latencies, PackedLatencies};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::mpsc;

/// Seconds that a recorder keeps open; the oldest is handed on when another is needed.
const OPEN_INTERVALS: usize = 8;

/// Seconds that the collector keeps ready for more; older ones are packed.
const GROWING_INTERVALS: usize = 16;

/// The two parts of the schedule. Times count from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phases {
    /// The measured part starts here.
    pub warm_up: Nanos,
    /// The schedule ends here.
    pub end: Nanos,
}

impl Phases {
    /// Which interval a record intended at `at` belongs to: seconds of the warm-up, its last one cut short, then seconds of the measured
    /// part.
    #[inline]
    pub fn interval(&self, at: Nanos) -> u32 {
        if at < self.warm_up {
            (at / SECOND) as u32
        } else {
            self.warm_up_intervals() + ((at - self.warm_up) / SECOND) as u32
        }
    }

    /// How many intervals the warm-up has.
    pub fn warm_up_intervals(&self) -> u32 {
        self.warm_up.div_ceil(SECOND) as u32
    }

    /// When `interval` starts and ends.
    pub fn bounds(&self, interval: u32) -> (Nanos, Nanos) {
        let warm = self.warm_up_intervals();
        if interval < warm {
            let start = u64::from(interval) * SECOND;
            (start, (start + SECOND).min(self.warm_up))
        } else {
            let start = self.warm_up + u64::from(interval - warm) * SECOND;
            // What comes after the end is counted in whole seconds again.
            let end = if start < self.end { self.end } else { Nanos::MAX };
            (start, (start + SECOND).min(end))
        }
    }

    /// Whether a record intended at `at` is measured.
    #[inline]
    pub fn is_measured(&self, at: Nanos) -> bool {
        at >= self.warm_up
    }

    /// How long the measured part is.
    pub fn measured(&self) -> Nanos {
        self.end - self.warm_up
    }
}

/// What was measured of the records of one interval.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// The way to the acknowledgement.
    pub acks: AckLatencies,
    /// Receipt by a consumer minus intended time.
    pub end_to_end: Latencies,
    /// Records acknowledged.
    pub acknowledged: u64,
    /// Records received by consumers.
    pub received: u64,
    /// What was acknowledged while the interval lasted, whenever it was intended: the throughput over time.
    pub completed: Throughput,
    /// What was received while the interval lasted.
    pub delivered: Throughput,
}

/// Records and the bytes of their values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throughput {
    /// Records.
    pub records: u64,
    /// Bytes of values.
    pub bytes: u64,
}

impl Throughput {
    /// Adds `records` with values of `bytes` together.
    #[inline]
    pub fn add(&mut self, records: u64, bytes: u64) {
        self.records += records;
        self.bytes += bytes;
    }
}

impl Interval {
    /// Adds the samples of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.acks.merge(&other.acks);
        self.end_to_end.merge(&other.end_to_end);
        self.acknowledged += other.acknowledged;
        self.received += other.received;
        self.completed.add(other.completed.records, other.completed.bytes);
        self.delivered.add(other.delivered.records, other.delivered.bytes);
    }
}

/// An interval that is over: a few kilobytes, so that a run of a day fits in memory.
#[derive(Debug)]
struct PackedInterval {
    distributions: [PackedLatencies; 4],
    acknowledged: u64,
    received: u64,
    completed: Throughput,
    delivered: Throughput,
}

impl Interval {
    fn pack(&self) -> PackedInterval {
        PackedInterval {
            distributions: [
                &self.acks.response,
                &self.acks.service,
                &self.acks.lag,
                &self.end_to_end,
            ]
            .map(Latencies::pack),
            acknowledged: self.acknowledged,
            received: self.received,
            completed: self.completed,
            delivered: self.delivered,
        }
    }
}

impl PackedInterval {
    fn unpack(&self) -> Interval {
        let [response, service, lag, end_to_end] = &self.distributions;
        Interval {
            acks: AckLatencies {
                response: response.unpack(),
                service: service.unpack(),
                lag: lag.unpack(),
            },
            end_to_end: end_to_end.unpack(),
            acknowledged: self.acknowledged,
            received: self.received,
            completed: self.completed,
            delivered: self.delivered,
        }
    }
}

/// A part of an interval on its way to the collector.
pub type IntervalPart = (u32, Box<Interval>);

/// One thread's side: the intervals it is recording into.
#[derive(Debug)]
pub struct Recorder {
    phases: Phases,
    open: Vec<IntervalPart>,
    done: mpsc::Sender<IntervalPart>,
}

impl Recorder {
    /// A recorder that hands finished parts to `done`.
    pub fn new(phases: Phases, done: mpsc::Sender<IntervalPart>) -> Self {
        Self {
            phases,
            open: Vec::with_capacity(OPEN_INTERVALS),
            done,
        }
    }

    /// The phases of the schedule.
    pub fn phases(&self) -> &Phases {
        &self.phases
    }

    /// Where to record a record of `interval`.
    #[inline]
    pub fn interval(&mut self, interval: u32) -> &mut Interval {
        let found = self.open.iter().position(|(open, _)| *open == interval);
        let at = found.unwrap_or_else(|| self.open_interval(interval));
        &mut self.open[at].1
    }

    fn open_interval(&mut self, interval: u32) -> usize {
        if self.open.len() == OPEN_INTERVALS {
            let oldest = (0..self.open.len())
                .min_by_key(|&at| self.open[at].0)
                .unwrap_or(0);
            let part = self.open.swap_remove(oldest);
            // The collector lives as long as the run; without one nobody wants the figures.
            let _ = self.done.send(part);
        }
        self.open.push((interval, Box::default()));
        self.open.len() - 1
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        for part in self.open.drain(..) {
            let _ = self.done.send(part);
        }
    }
}

/// The collector's side: all intervals of all threads.
#[derive(Debug)]
pub struct Series {
    phases: Phases,
    /// The newest, still growing.
    growing: BTreeMap<u32, Interval>,
    /// The older ones; a late part unpacks its interval for a moment.
    packed: BTreeMap<u32, PackedInterval>,
    measured: Interval,
}

impl Series {
    /// Takes parts until every recorder is gone.
    pub fn collect(phases: Phases, parts: &mpsc::Receiver<IntervalPart>) -> Self {
        let mut series = Self {
            phases,
            growing: BTreeMap::new(),
            packed: BTreeMap::new(),
            measured: Interval::default(),
        };
        for (index, part) in parts {
            series.add(index, &part);
        }
        series
    }

    fn add(&mut self, index: u32, part: &Interval) {
        if index >= self.phases.warm_up_intervals() {
            self.measured.merge(part);
        }
        if let Some(packed) = self.packed.get_mut(&index) {
            let mut interval = packed.unpack();
            interval.merge(part);
            *packed = interval.pack();
            return;
        }
        self.growing.entry(index).or_default().merge(part);
        while self.growing.len() > GROWING_INTERVALS {
            let Some((index, oldest)) = self.growing.pop_first() else {
                break;
            };
            self.packed.insert(index, oldest.pack());
        }
    }

    /// The phases of the schedule.
    pub fn phases(&self) -> &Phases {
        &self.phases
    }

    /// Every interval that has samples, the warm-up included, in order.
    pub fn intervals(&self) -> impl Iterator<Item = (u32, Cow<'_, Interval>)> {
        let mut indices: Vec<u32> = self.packed.keys().chain(self.growing.keys()).copied().collect();
        indices.sort_unstable();
        indices.into_iter().filter_map(|index| {
            let growing = self.growing.get(&index).map(Cow::Borrowed);
            Some((
                index,
                growing.or_else(|| Some(Cow::Owned(self.packed.get(&index)?.unpack())))?,
            ))
        })
    }

    /// The merged distributions of the measured part.
    pub fn measured(&self) -> &Interval {
        &self.measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHASES: Phases = Phases {
        warm_up: 3 * SECOND / 2,
        end: 4 * SECOND,
    };

    #[test]
    fn the_warm_up_is_cut_to_the_nanosecond() {
        assert_eq!(PHASES.warm_up_intervals(), 2);
        assert_eq!(PHASES.interval(0), 0);
        assert_eq!(PHASES.interval(PHASES.warm_up - 1), 1);
        assert_eq!(PHASES.interval(PHASES.warm_up), 2);
        assert_eq!(PHASES.interval(PHASES.end - 1), 4);
        assert_eq!(PHASES.bounds(1), (SECOND, PHASES.warm_up));
        assert_eq!(PHASES.bounds(4), (PHASES.warm_up + 2 * SECOND, PHASES.end));
    }

    #[test]
    fn intervals_add_up_to_the_whole_in_any_order_of_arrival() {
        let (sender, parts) = mpsc::channel();
        let mut recorder = Recorder::new(
            Phases {
                warm_up: SECOND,
                end: 20 * SECOND,
            },
            sender,
        );
        let mut expected = Latencies::default();
        for round in 0..3_u64 {
            for second in (0..20_u64).rev() {
                let interval = recorder.phases().interval(second * SECOND);
                let slot = recorder.interval(interval);
                slot.acks.response.record_between(0, second * 1000 + round);
                slot.acknowledged += 1;
                if second >= 1 {
                    expected.record_between(0, second * 1000 + round);
                }
            }
        }
        drop(recorder);
        let series = Series::collect(
            Phases {
                warm_up: SECOND,
                end: 20 * SECOND,
            },
            &parts,
        );
        let measured = series.measured();
        assert_eq!(measured.acks.response.summary(), expected.summary());
        assert_eq!((measured.acknowledged, series.intervals().count()), (57, 20));
        let mut merged = Latencies::default();
        for (index, interval) in series.intervals().filter(|(index, _)| *index >= 1) {
            assert_eq!(interval.acknowledged, 3, "second {index}");
            merged.merge(&interval.acks.response);
        }
        assert_eq!(merged.summary(), expected.summary());
    }
}
