//! Options of `run`.

use crate::clock::Nanos;
use crate::consumer::GroupProtocol;
use crate::exit;
use crate::fail_if::FailIf;
use crate::keys::Keys;
use crate::schedule::RateSpec;
use crate::series::Phases;
use crate::sizes::Sizes;
use crate::target::ChildKind;
use crate::units::{Quantity, parse_bytes, parse_duration, parse_quantity};
use crate::workload::Workload;
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use strandline_wire::batch::Codec;

/// The smallest and largest batch: a request must fit what brokers take by default.
const BATCH_BYTES: std::ops::RangeInclusive<usize> = 64..=64 << 20;

/// Batches of a producer id that a broker tells apart (KIP-98).
const IDEMPOTENT_WINDOW_MAX: u16 = 5;

/// How captured traffic may be stretched or pressed.
const SCALES: std::ops::RangeInclusive<f64> = 0.001..=1000.0;

/// How long runs last unless told.
const DURATION: Duration = Duration::from_secs(10);
/// How long they warm up unless told.
const WARM_UP: Duration = Duration::from_secs(2);
/// No run lasts longer: a month.
const DURATION_MAX: Duration = Duration::from_secs(31 * 86_400);

/// Options of `run`.
#[derive(Args, Clone, Debug)]
#[command(after_help = exit::HELP, args_override_self = true)]
pub struct RunArgs {
    /// A preset (see `list`), a FILE.toml with options of `run` as its keys, a workload of the OpenMessaging Benchmark (FILE.yaml), captured traffic (FILE.workload), or nothing.
    #[arg(value_name = "PRESET|FILE")]
    pub load: Option<String>,
    /// A running broker (HOST:PORT, several by commas); without it one is started for the run.
    #[arg(short = 'b', long, value_name = "HOST:PORT")]
    pub bootstrap_server: Option<String>,
    /// Client properties, as Kafka's tools read them: security.protocol, ssl.truststore.* (PEM), sasl.mechanism, sasl.jaas.config.
    #[arg(long, value_name = "FILE", requires = "bootstrap_server")]
    pub command_config: Option<PathBuf>,
    /// Which broker to start when none is named.
    #[arg(long, value_enum, default_value = "strandline")]
    pub broker: ChildKind,
    /// The strandline executable, when it is not beside this one.
    #[arg(long, value_name = "FILE")]
    pub broker_binary: Option<PathBuf>,
    /// An argument for the broker that is started; repeatable.
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub broker_arg: Vec<String>,
    /// The offered rate: 10k, 500MiB/s, 10k,50MiB/s (the lower one), poisson:10k, ramp:0..1M/5m, step:1k/10s..2k, 50% (of a peak measured first), or max (closed loop).
    #[arg(long, default_value = "10k", value_parser = RateSpec::parse)]
    pub rate: RateSpec,
    /// Captured traffic to replay, as `workload capture` wrote it: times, sizes, keys and partitions are its own.
    #[arg(long, value_name = "FILE")]
    pub workload: Option<PathBuf>,
    /// Replay it so many times as fast as it came.
    #[arg(long, value_name = "FACTOR")]
    pub scale: Option<f64>,
    /// The same in memory.
    #[arg(skip)]
    pub captured: Option<Arc<Workload>>,
    /// Begin the schedule then, so that several hosts begin together: 2026-12-31T12:00:00Z, or +30s.
    #[arg(long, value_name = "TIME", value_parser = parse_start)]
    pub start_at: Option<SystemTime>,
    /// How long to measure. [default: 10s; with --num-records, until they are sent]
    #[arg(long, value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// How long to send at the same rate before measuring. [default: 2s; with --num-records, 0]
    #[arg(long, value_parser = parse_duration)]
    pub warm_up: Option<Duration>,
    /// Stop after so many records.
    #[arg(long)]
    pub num_records: Option<u64>,
    /// Bytes of a record's value, at least 32: 1KiB, 100..10KiB (uniform), or 100:50,1KiB:40,64KiB:10 (size:weight).
    #[arg(long, default_value = "1KiB", value_parser = Sizes::parse)]
    pub record_size: Sizes,
    /// How much of a value a compressor can do without, 0 to 1.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    pub compressibility: f64,
    /// The codec of batches: none, gzip, snappy, lz4 or zstd.
    #[arg(long, default_value = "none", value_parser = parse_codec)]
    pub compression_type: Codec,
    /// Keys of records: none, round-robin:N, random:N, zipf:N or zipf:N:EXPONENT; they choose the partition as Kafka's producer does.
    #[arg(long, default_value = "none", value_parser = Keys::parse)]
    pub keys: Keys,
    /// Send with producer ids and sequences; --window is 5 at most then.
    #[arg(long)]
    pub idempotent: bool,
    /// So many topics, each with --partitions; their names end in -0, -1, … .
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub topics: u16,
    /// The topic; created when missing, and deleted at the end if it was created.
    #[arg(long)]
    pub topic: Option<String>,
    /// Keep the topic that was created.
    #[arg(long)]
    pub keep_topic: bool,
    /// A config for the topic that is created, KEY=VALUE; repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    pub topic_config: Vec<(String, String)>,
    /// Partitions of the topic that is created.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(i32).range(1..=100_000))]
    pub partitions: i32,
    /// Senders, each a pinned thread with a connection to every broker.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub producers: u32,
    /// Consumers that read along, outside of groups; 0 reads the topic back afterwards. [default: 1; 0 for --rate max or with --groups]
    #[arg(long)]
    pub consumers: Option<usize>,
    /// So many consumer groups, each of which reads everything; commits every second.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub groups: u16,
    /// Members of each group.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub group_members: u16,
    /// Consumers that share the partitions when the topic is read back.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub readers: u16,
    /// The protocol of the groups: classic, or consumer (KIP-848), whose members are assigned by the broker.
    #[arg(long, value_enum, default_value = "classic")]
    pub group_protocol: GroupProtocol,
    /// Consumers read nothing from then to then, in seconds of the schedule: 5s..15s. A backlog builds up and is drained.
    #[arg(long, value_name = "FROM..TO", value_parser = parse_window)]
    pub pause_consumers: Option<(Duration, Duration)>,
    /// Each consumer that reads along takes at most so many records a second.
    #[arg(long, value_name = "RATE", value_parser = parse_consumer_rate)]
    pub consumer_rate: Option<f64>,
    /// So often a member of each group leaves and joins again, each in its turn.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub rebalance_every: Option<Duration>,
    /// Kill the broker that was started (SIGKILL) at this time of the schedule, and start it again on its data.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "bootstrap_server")]
    pub kill_at: Option<Duration>,
    /// How long it stays dead.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0", requires = "kill_at")]
    pub restart_after: Duration,
    /// Do not read anything: no end-to-end latency, no verification.
    #[arg(long)]
    pub no_verify: bool,
    /// 0, 1 or all.
    #[arg(long, default_value = "all", value_parser = parse_acks)]
    pub acks: i16,
    /// How long a batch waits for more records; it counts as latency.
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    pub linger_ms: f64,
    /// Bytes at which a batch is sent.
    #[arg(long, default_value = "16KiB", value_parser = parse_batch)]
    pub batch: usize,
    /// Requests in flight on a connection.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub window: u16,
    /// Exit 99 if it holds, or has no samples: [response|service|lag|e2e.]p50|p90|p99|p999|p9999|max OP TIME; repeatable.
    #[arg(long, value_parser = FailIf::parse, value_name = "CONDITION")]
    pub fail_if: Vec<FailIf>,
    /// Measure first what this machine can do, and print broker ÷ limit.
    #[arg(long)]
    pub limits: bool,
    /// Measure afterwards what the tool can do (null broker) and the floor of a durable acknowledgement (reference broker).
    #[arg(long)]
    pub calibrate: bool,
    /// Print the result as JSON on stdout.
    #[arg(long)]
    pub json: bool,
    /// Plain lines of progress, also in a terminal.
    #[arg(long)]
    pub no_tui: bool,
    /// No progress at all.
    #[arg(long)]
    pub quiet: bool,
    /// Seed of payloads and Poisson arrivals.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The folder for the results. [default: results/TIME-NAME]
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// The name of the run, a part of its folder's name.
    #[arg(long, default_value = "run")]
    pub name: String,
}

impl RunArgs {
    /// How many consumers read along.
    pub fn consumers(&self) -> usize {
        if self.no_verify {
            0
        } else {
            // Groups read along; what they deliver at least once is read back once more to be verified.
            self.consumers
                .unwrap_or(usize::from(self.rate != RateSpec::Max && self.groups == 0))
        }
    }

    /// The linger in nanoseconds.
    pub fn linger(&self) -> Nanos {
        (self.linger_ms.max(0.0) * 1e6) as Nanos
    }

    /// Warm-up and end of the schedule.
    pub fn phases(&self) -> Phases {
        let warm_up = self.warm_up.unwrap_or(if self.num_records.is_some() {
            Duration::ZERO
        } else {
            WARM_UP
        });
        let warm_up = warm_up.as_nanos() as Nanos;
        let measured = match (self.duration, self.num_records) {
            (Some(duration), _) => duration.as_nanos() as Nanos,
            (None, None) => DURATION.as_nanos() as Nanos,
            // One nanosecond after the last of them; the closed loop ends by their number alone.
            (None, Some(records)) => match self.rate.integrated(self.record_size.mean()) {
                Some(rate) => (rate.time_of(self.latest_arrival(records)) + 1)
                    .saturating_sub(warm_up)
                    .max(1),
                None => DURATION_MAX.as_nanos() as Nanos,
            },
        };
        Phases {
            warm_up,
            end: warm_up + measured.min(DURATION_MAX.as_nanos() as Nanos),
        }
    }

    /// By which number of arrivals every stream has had its share of so many records: independent and uneven ones may be late.
    fn latest_arrival(&self, records: u64) -> f64 {
        let streams = f64::from(self.producers) * f64::from(self.partitions) * f64::from(self.topics);
        match self.rate {
            RateSpec::Poisson(_) => 2.0 * records as f64 + 64.0 * streams,
            // Streams of other weights have their last one up to a gap later.
            _ if self.keys != Keys::None => 2.0 * records as f64 + streams,
            _ => records as f64,
        }
    }

    /// What cannot be judged option by option; the error is a sentence.
    pub fn check(&self) -> Result<(), String> {
        if self.duration.is_some_and(|duration| duration.is_zero()) {
            return Err("--duration 0 measures nothing".to_owned());
        }
        if !(0.0..=1.0).contains(&self.compressibility) {
            return Err("--compressibility is a share, 0 to 1".to_owned());
        }
        if self.idempotent && self.window > IDEMPOTENT_WINDOW_MAX {
            return Err(format!(
                "--idempotent: brokers know the last {IDEMPOTENT_WINDOW_MAX} batches of a producer, so --window is at most {IDEMPOTENT_WINDOW_MAX}"
            ));
        }
        if self.idempotent && self.acks != -1 {
            return Err("--idempotent needs --acks all".to_owned());
        }
        if !self.linger_ms.is_finite() || self.linger_ms < 0.0 {
            return Err("--linger-ms is a time, 0 or more".to_owned());
        }
        if (self.rate == RateSpec::Captured) != self.workload.is_some() {
            return Err(
                "a captured workload has its own times: leave --rate out, and change them by --scale"
                    .to_owned(),
            );
        }
        if self.workload.is_some()
            && (self.num_records.is_some() || self.topics > 1 || self.keys != Keys::None)
        {
            return Err(
                "a captured workload has its own records, keys and topic: --num-records, --keys and --topics are not for it"
                    .to_owned(),
            );
        }
        self.check_scenario()?;
        if self.scale.is_some() && self.workload.is_none() {
            return Err("--scale is for a captured workload".to_owned());
        }
        if self.scale.is_some_and(|scale| !SCALES.contains(&scale)) {
            return Err("--scale is a factor, 0.001 to 1000".to_owned());
        }
        Ok(())
    }

    fn check_scenario(&self) -> Result<(), String> {
        let end = Duration::from_nanos(self.phases().end);
        if let Some((from, to)) = self.pause_consumers
            && (from >= to || to > end)
        {
            return Err(
                "--pause-consumers is a stretch of the schedule, FROM before TO and TO before its end"
                    .to_owned(),
            );
        }
        if (self.pause_consumers.is_some() || self.consumer_rate.is_some()) && self.consumers() == 0 {
            return Err("--pause-consumers and --consumer-rate need --consumers that read along".to_owned());
        }
        if let Some(every) = self.rebalance_every {
            if self.groups == 0 || self.group_members < 2 {
                return Err("--rebalance-every needs --groups with two --group-members or more".to_owned());
            }
            if every.is_zero() {
                return Err("--rebalance-every 0 is never and always".to_owned());
            }
        }
        if let Some(at) = self.kill_at {
            if self.broker != ChildKind::Strandline {
                return Err(
                    "--kill-at: the reference broker keeps nothing that it could come back with".to_owned(),
                );
            }
            if at + self.restart_after >= end {
                return Err("--kill-at: the broker is to be back before the schedule ends".to_owned());
            }
        }
        Ok(())
    }

    /// How many times as fast as it came captured traffic is replayed.
    pub fn scale(&self) -> f64 {
        self.scale.unwrap_or(1.0)
    }

    /// The same with its captured traffic in memory, whose length and sizes it takes. The error is a sentence.
    pub fn resolved(&self) -> Result<Self, String> {
        let (Some(path), None) = (&self.workload, &self.captured) else {
            return Ok(self.clone());
        };
        let workload = Workload::load(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let all = workload.duration(self.scale());
        if all.is_zero() || workload.header().records == 0 {
            return Err(format!("{}: there is nothing in it to replay", path.display()));
        }
        if self.partitions != workload.header().partitions {
            return Err(format!(
                "{}: it is of {} partitions, and --partitions says {}",
                path.display(),
                workload.header().partitions,
                self.partitions
            ));
        }
        Ok(Self {
            duration: Some(self.duration.map_or(all, |asked| asked.min(all))),
            warm_up: Some(self.warm_up.unwrap_or(Duration::ZERO)),
            record_size: workload.sizes(),
            captured: Some(workload),
            ..self.clone()
        })
    }
}

fn parse_codec(text: &str) -> Result<Codec, String> {
    Codec::from_name(text).ok_or_else(|| "the codecs are none, gzip, snappy, lz4 and zstd".to_owned())
}

fn parse_start(text: &str) -> Result<SystemTime, String> {
    if let Some(after) = text.strip_prefix('+') {
        return Ok(SystemTime::now() + parse_duration(after)?);
    }
    humantime::parse_rfc3339_weak(text)
        .map_err(|error| format!("`{text}`: {error}; a time is written 2026-12-31T12:00:00Z, or +30s"))
}

fn parse_batch(text: &str) -> Result<usize, String> {
    let bytes = parse_bytes(text)?;
    if BATCH_BYTES.contains(&bytes) {
        Ok(bytes)
    } else {
        Err("a batch has between 64 bytes and 64 MiB".to_owned())
    }
}

fn parse_acks(text: &str) -> Result<i16, String> {
    match text {
        "0" => Ok(0),
        "1" => Ok(1),
        "all" | "-1" => Ok(-1),
        _ => Err("acks is 0, 1 or all".to_owned()),
    }
}

fn parse_window(text: &str) -> Result<(Duration, Duration), String> {
    let (from, to) = text
        .split_once("..")
        .ok_or_else(|| format!("`{text}`: a stretch of time is written FROM..TO, as in 5s..15s"))?;
    Ok((parse_duration(from)?, parse_duration(to)?))
}

fn parse_consumer_rate(text: &str) -> Result<f64, String> {
    match parse_quantity(text)? {
        Quantity::Records(rate) if rate > 0.0 => Ok(rate),
        _ => Err(format!(
            "`{text}`: a consumer takes so many records a second, more than 0"
        )),
    }
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("a config is written KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::{CommandFactory, Parser};

    fn run(arguments: &[&str]) -> Result<RunArgs, String> {
        let all = ["strandline-bench", "run"].iter().chain(arguments);
        match Cli::try_parse_from(all)
            .map_err(|error| error.to_string())?
            .command
        {
            Command::Run(arguments) => Ok(*arguments),
            _ => Err("not a run".to_owned()),
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn impossible_loads_are_refused() {
        assert!(run(&["--rate", "0"]).unwrap_err().contains("rate of 0"));
        assert!(run(&["--record-size", "10"]).unwrap_err().contains("32 bytes"));
        assert!(run(&["--acks", "2"]).unwrap_err().contains("0, 1 or all"));
        assert!(
            run(&["--fail-if", "p77>1ms"])
                .unwrap_err()
                .contains("unknown percentile")
        );
        assert!(run(&["--duration", "0"]).unwrap().check().is_err());
    }

    #[test]
    fn a_closed_loop_reads_back_afterwards() {
        assert_eq!(run(&[]).unwrap().consumers(), 1);
        assert_eq!(run(&["--rate", "max"]).unwrap().consumers(), 0);
        assert_eq!(
            run(&["--rate", "max", "--consumers", "2"]).unwrap().consumers(),
            2
        );
        assert_eq!(run(&["--no-verify"]).unwrap().consumers(), 0);
    }
}
