//! From what the threads measured to the report and the facts of the verdict.

use super::Run;
use crate::clock::{Nanos, SECOND};
use crate::fail_if::Metric;
use crate::histogram::Latencies;
use crate::machine::Machine;
use crate::pin;
use crate::report::{
    Curve, LatencyFacts, LeaderFacts, LoadFacts, PartitionFacts, Phase, RateText, Rates, RecordCounts,
    RunReport, SCHEMA_VERSION, TargetFacts, TimelineRow, ToolFacts,
};
use crate::sender::{LoadPlan, SAMPLE_EVERY, SenderReport};
use crate::series::{Interval, Series};
use crate::verdict::{LevelSample, RunFacts, Verdict};
use crate::verify::{Ledger, SequenceId};
use std::collections::{BTreeMap, HashMap};

/// A backlog counts by the rate of its moment, or by this part of the mean where that is more.
const QUIET: f64 = 10.0;

impl Run<'_> {
    pub(super) fn failed_conditions(&self, series: &Series) -> Vec<String> {
        let measured = series.measured();
        let distribution = |metric: Metric| match metric {
            Metric::Response => &measured.acks.response,
            Metric::Service => &measured.acks.service,
            Metric::Lag => &measured.acks.lag,
            Metric::EndToEnd => &measured.end_to_end,
        };
        self.args
            .fail_if
            .iter()
            .filter_map(|condition| condition.check(distribution(condition.metric)))
            .collect()
    }

    pub(super) fn report(
        &self,
        plan: &LoadPlan,
        machine: Machine,
        senders: &[SenderReport],
        series: &Series,
        hiccups: &Latencies,
        consumers: usize,
    ) -> RunReport {
        let measured = series.measured();
        let mut tool_lag = Latencies::default();
        let mut errors = BTreeMap::new();
        for sender in senders {
            tool_lag.merge(&sender.tool_lag);
            for (error, records) in &sender.errors {
                *errors.entry(error.clone()).or_default() += records;
            }
        }
        let sum = |count: fn(&SenderReport) -> u64| senders.iter().map(count).sum::<u64>();
        let mut records = RecordCounts {
            offered: 0,
            acknowledged: measured.acknowledged,
            acknowledged_in_time: sum(|sender| sender.acknowledged_in_time),
            not_acknowledged: sum(|sender| sender.not_acknowledged),
            never_submitted: sum(|sender| sender.never_submitted),
        };
        records.offered = records.acknowledged + records.not_acknowledged + records.never_submitted;
        // A broker that kept up answered everything within the grace; of one that fell behind, what it did answer meanwhile counts.
        let meanwhile = sum(|sender| sender.acknowledged_meanwhile);
        let achieved = records
            .acknowledged_in_time
            .max(meanwhile)
            .min(records.offered.max(1));
        let facts = run_facts(
            plan,
            senders,
            &records,
            measured,
            &tool_lag,
            self.progress.is_interrupted(),
        );
        let seconds = measured_seconds(plan, senders, self.progress.is_interrupted(), self.clock.now());
        let rate = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
        RunReport {
            schema_version: SCHEMA_VERSION,
            started_at_ms: self.clock.wall_ms(plan.start),
            git_revision: git_revision(),
            machine,
            target: TargetFacts {
                description: match &self.args.bootstrap_server {
                    Some(_) => "a broker that was running".to_owned(),
                    None => format!("{}, started for this run", self.args.broker.describe()),
                },
                bootstrap_servers: self.bootstrap.clone(),
                leaders: self.layout.leaders.len(),
                durability: self.durability.clone(),
                cpu_ns: None,
            },
            load: self.load_facts(plan, seconds, consumers),
            verdict: Verdict::of(&facts),
            records,
            rates: Rates {
                offered: plan.integrated.as_ref().and_then(|_| rate(records.offered)),
                achieved: rate(achieved),
            },
            latency: LatencyFacts {
                response: measured.acks.response.summary(),
                service: measured.acks.service.summary(),
                lag: measured.acks.lag.summary(),
                end_to_end: measured.end_to_end.summary(),
                tool_lag: tool_lag.summary(),
            },
            hiccups: hiccups.summary(),
            verification: None,
            verification_note: None,
            read_back: None,
            groups: Vec::new(),
            scenario: None,
            longest_ack_gap_ns: senders
                .iter()
                .map(|sender| sender.longest_ack_gap)
                .max()
                .unwrap_or(0),
            errors,
            tool: ToolFacts {
                requests: sum(|sender| sender.requests),
                batches: sum(|sender| sender.batches),
                records: sum(|sender| sender.ledgers.values().map(Ledger::sent).sum()),
                sender_cpu_ns: sum(|sender| sender.cpu_ns),
                sender_cores: senders.iter().filter_map(|sender| sender.core).collect(),
                spinning: pin::may_spin(),
                connections_lost: sum(|sender| sender.connections_lost),
            },
            failed_conditions: Vec::new(),
            name: self.args.name.clone(),
            preset: self.args.load.clone(),
            limits: None,
            calibration: None,
            partitions: self.partition_facts(senders),
            leaders: self.leader_facts(senders),
            curves: curves(measured, hiccups),
            timeline: timeline(series),
        }
    }

    fn partition_facts(&self, senders: &[SenderReport]) -> Vec<PartitionFacts> {
        let mut facts: Vec<PartitionFacts> = self
            .layout
            .leaders
            .iter()
            .flat_map(|(leader, partitions)| partitions.iter().map(move |partition| (leader, *partition)))
            .map(|(leader, partition)| PartitionFacts {
                partition,
                leader: leader.clone(),
                acknowledged: senders
                    .iter()
                    .filter_map(|sender| sender.by_partition.get(&partition))
                    .sum(),
            })
            .collect();
        facts.sort_unstable_by_key(|facts| facts.partition);
        facts
    }

    fn leader_facts(&self, senders: &[SenderReport]) -> Vec<LeaderFacts> {
        self.layout
            .leaders
            .iter()
            .map(|(address, partitions)| {
                let mut service = Latencies::default();
                for sender in senders {
                    if let Some(of_sender) = sender.by_leader.get(address) {
                        service.merge(of_sender);
                    }
                }
                LeaderFacts {
                    address: address.clone(),
                    partitions: partitions.len(),
                    acknowledged: senders
                        .iter()
                        .flat_map(|sender| partitions.iter().filter_map(|p| sender.by_partition.get(p)))
                        .sum(),
                    service: service.summary(),
                }
            })
            .collect()
    }

    fn load_facts(&self, plan: &LoadPlan, seconds: f64, consumers: usize) -> LoadFacts {
        LoadFacts {
            rate: match &plan.workload {
                Some((_, scale)) if *scale != 1.0 => {
                    format!("{}, {scale} times as fast", RateText(&plan.rate))
                }
                _ => RateText(&plan.rate).to_string(),
            },
            duration_seconds: seconds,
            warm_up_seconds: plan.phases.warm_up as f64 / SECOND as f64,
            record_bytes: plan.sizes.mean().round() as usize,
            record_sizes: plan.sizes.to_string(),
            compression: plan.codec.name().to_owned(),
            compressibility: plan.compressibility,
            keys: match &plan.workload {
                Some(_) => "as captured".to_owned(),
                None => self.args.keys.to_string(),
            },
            idempotent: plan.idempotent,
            topics: plan.topics.len(),
            topic: plan.topics[0].clone(),
            partitions: self.layout.partitions(),
            producers: plan.producers,
            consumers,
            acks: if plan.acks == -1 {
                "all".to_owned()
            } else {
                plan.acks.to_string()
            },
            linger_ns: plan.linger,
            batch_bytes: plan.batch_bytes,
            window: plan.window,
            seed: plan.seed,
        }
    }
}

fn curves(measured: &Interval, hiccups: &Latencies) -> Vec<Curve> {
    [
        ("response", &measured.acks.response),
        ("service", &measured.acks.service),
        ("lag", &measured.acks.lag),
        ("e2e", &measured.end_to_end),
        ("hiccups", hiccups),
    ]
    .into_iter()
    .filter(|(_, latencies)| !latencies.is_empty())
    .map(|(name, latencies)| Curve {
        name: name.to_owned(),
        points: latencies.curve(),
    })
    .collect()
}

fn timeline(series: &Series) -> Vec<TimelineRow> {
    let phases = series.phases();
    series
        .intervals()
        .map(|(index, interval)| {
            let (start, end) = phases.bounds(index);
            TimelineRow {
                start_seconds: start as f64 / SECOND as f64,
                end_seconds: end as f64 / SECOND as f64,
                phase: if start < phases.warm_up {
                    Phase::WarmUp
                } else if start < phases.end {
                    Phase::Measured
                } else {
                    Phase::Drain
                },
                acknowledged: interval.acknowledged,
                received: interval.received,
                completed: interval.completed,
                delivered: interval.delivered,
                response: interval.acks.response.summary(),
                service: interval.acks.service.summary(),
                lag: interval.acks.lag.summary(),
                end_to_end: interval.end_to_end.summary(),
            }
        })
        .collect()
}

fn run_facts(
    plan: &LoadPlan,
    senders: &[SenderReport],
    records: &RecordCounts,
    measured: &Interval,
    tool_lag: &Latencies,
    interrupted: bool,
) -> RunFacts {
    let (backlog, tool) = levels(plan, senders);
    RunFacts {
        closed_loop: plan.integrated.is_none(),
        offered: records.offered,
        acknowledged_in_time: records.acknowledged_in_time,
        acknowledged: records.acknowledged,
        not_acknowledged: records.not_acknowledged,
        never_submitted: records.never_submitted,
        backlog,
        tool_lag: tool,
        tool_lag_p99: tool_lag.at(0.99),
        response_p99: measured.acks.response.at(0.99),
        negative_latencies: measured.acks.response.negatives()
            + measured.acks.service.negatives()
            + measured.acks.lag.negatives()
            + measured.end_to_end.negatives(),
        interrupted,
    }
}

/// The samples of all senders as seconds behind the schedule: backlogs add up, of the tool's lateness the worst sender counts.
fn levels(plan: &LoadPlan, senders: &[SenderReport]) -> (Vec<LevelSample>, Vec<LevelSample>) {
    let Some(rate) = &plan.integrated else {
        return (Vec::new(), Vec::new());
    };
    let mut merged: BTreeMap<u64, (u64, Nanos)> = BTreeMap::new();
    for sample in senders.iter().flat_map(|sender| &sender.samples) {
        let at = sample.index * SAMPLE_EVERY;
        if plan.phases.is_measured(at) && at < plan.phases.end {
            let slot = merged.entry(sample.index).or_default();
            slot.0 += sample.backlog;
            slot.1 = slot.1.max(sample.tool_lag);
        }
    }
    // Where next to nothing is due a handful of records is not seconds behind.
    let end = plan.phases.end.max(1);
    let least = (rate.count_at(end) * SECOND as f64 / end as f64 / QUIET).max(1.0);
    let level = |index: u64, behind_seconds: f64| LevelSample {
        at: index * SAMPLE_EVERY,
        behind_seconds,
    };
    let backlog = merged.iter().map(|(&index, &(records, _))| {
        level(
            index,
            records as f64 / rate.rate_at(index * SAMPLE_EVERY).max(least),
        )
    });
    let tool = merged
        .iter()
        .map(|(&index, &(_, lag))| level(index, lag as f64 / SECOND as f64));
    (backlog.collect(), tool.collect())
}

/// How long the measured part really was: a limit of records or an interruption ends it early.
fn measured_seconds(plan: &LoadPlan, senders: &[SenderReport], interrupted: bool, now: Nanos) -> f64 {
    let mut end = plan.phases.end;
    match (plan.records, &plan.integrated) {
        (Some(records), Some(rate)) => end = end.min(rate.time_of(records as f64)),
        (Some(_), None) => {
            let last = senders.iter().map(|sender| sender.last_ack).max().unwrap_or(0);
            end = end.min(last.saturating_sub(plan.start));
        }
        (None, _) => {}
    }
    if interrupted {
        end = end.min(now.saturating_sub(plan.start));
    }
    end.saturating_sub(plan.phases.warm_up) as f64 / SECOND as f64
}

pub(super) fn all_ledgers(senders: &[SenderReport]) -> HashMap<SequenceId, Ledger> {
    senders
        .iter()
        .flat_map(|sender| &sender.ledgers)
        .map(|(id, ledger)| (*id, ledger.clone()))
        .collect()
}

fn git_revision() -> Option<String> {
    let output = std::process::Command::new("git")
        .args(["rev-parse", "HEAD"])
        .output()
        .ok()?;
    let revision = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !revision.is_empty()).then_some(revision)
}
