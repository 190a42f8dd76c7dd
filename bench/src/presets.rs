//! Loads with names: those that others published, so that a figure can be held against theirs, and files of options.
//!
//! A preset is nothing but options of `run`; what is typed after it counts more.

use crate::{openmessaging, workload};
use std::path::Path;

/// A load with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub summary: &'static str,
    /// Who made it, and where it is described.
    pub source: &'static str,
    /// What was published for it.
    pub published: &'static str,
    /// On what.
    pub hardware: &'static str,
    /// The options that it stands for.
    pub options: &'static [&'static str],
}

const OMB: &str = "OpenMessaging Benchmark, github.com/openmessaging/benchmark";
const OMB_PUBLISHED: &str = "no figure comes with the workload";
const OMB_HARDWARE: &str = "none named; its Kafka driver deploys 3 x i3en.6xlarge brokers";

const OURS: &str = "this project";
const OURS_PUBLISHED: &str = "no figure comes with it: what counts is the difference between its stretches";
const OURS_HARDWARE: &str = "any";

/// All presets.
pub const PRESETS: [Preset; 19] = [
    Preset {
        name: "default",
        summary: "half of the measured peak, with limits and calibration: what runs without arguments",
        source: "this project",
        published: "perf/ of this repository",
        hardware: "perf/machine.md",
        options: &[
            "--rate=50%",
            "--duration=10s",
            "--warm-up=2s",
            "--limits",
            "--calibrate",
            "--name=default",
        ],
    },
    Preset {
        name: "omb-simple",
        summary: "1 topic, 10 partitions, 1 KiB, 10k/s, 1 producer, 1 consumer",
        source: OMB,
        published: OMB_PUBLISHED,
        hardware: OMB_HARDWARE,
        options: &[
            "--partitions=10",
            "--record-size=1KiB",
            "--rate=10k",
            "--name=omb-simple",
        ],
    },
    Preset {
        name: "omb-1x16-1kb",
        summary: "1 topic, 16 partitions, 1 KiB, 50k/s",
        source: OMB,
        published: OMB_PUBLISHED,
        hardware: OMB_HARDWARE,
        options: &[
            "--partitions=16",
            "--record-size=1KiB",
            "--rate=50k",
            "--name=omb-1x16-1kb",
        ],
    },
    Preset {
        name: "omb-max-100b",
        summary: "1 topic, 16 partitions, 100 B, as fast as it goes (closed loop)",
        source: OMB,
        published: OMB_PUBLISHED,
        hardware: OMB_HARDWARE,
        options: &[
            "--partitions=16",
            "--record-size=100",
            "--rate=max",
            "--batch=128KiB",
            "--name=omb-max-100b",
        ],
    },
    Preset {
        name: "omb-max-1kb",
        summary: "1 topic, 16 partitions, 1 KiB, as fast as it goes (closed loop)",
        source: OMB,
        published: OMB_PUBLISHED,
        hardware: OMB_HARDWARE,
        options: &[
            "--partitions=16",
            "--record-size=1KiB",
            "--rate=max",
            "--batch=128KiB",
            "--name=omb-max-1kb",
        ],
    },
    Preset {
        name: "omb-max-64kb",
        summary: "1 topic, 16 partitions, 64 KiB, as fast as it goes (closed loop)",
        source: OMB,
        published: OMB_PUBLISHED,
        hardware: OMB_HARDWARE,
        options: &[
            "--partitions=16",
            "--record-size=64KiB",
            "--rate=max",
            "--batch=1MiB",
            "--name=omb-max-64kb",
        ],
    },
    Preset {
        name: "omb-backlog",
        summary: "1 topic, 1 partition, 1 KiB, 100k/s, read back when all is written: the backlog and its drain",
        source: OMB,
        published: OMB_PUBLISHED,
        hardware: OMB_HARDWARE,
        options: &[
            "--partitions=1",
            "--record-size=1KiB",
            "--rate=100k",
            "--batch=128KiB",
            "--linger-ms=1",
            "--consumers=0",
            "--name=omb-backlog",
        ],
    },
    Preset {
        name: "confluent-2020",
        summary: "100 partitions, 1 KiB, 4 producers, 4 consumers, 200k/s, batch 1 MiB, linger 10 ms",
        source: "Confluent, `Benchmarking Apache Kafka, Apache Pulsar, and RabbitMQ`, 2020, confluent.io/blog/kafka-fastest-messaging-system",
        published: "Kafka: peak 605 MB/s; end to end p99 5 ms at 200 MB/s; not flushed before the acknowledgement",
        hardware: "3 brokers i3en.2xlarge, replication factor 3",
        options: &[
            "--partitions=100",
            "--record-size=1KiB",
            "--producers=4",
            "--consumers=4",
            "--rate=200k",
            "--batch=1MiB",
            "--linger-ms=10",
            "--name=confluent-2020",
        ],
    },
    Preset {
        name: "redpanda-625k",
        summary: "100 partitions, 1 KiB, 16 producers, 8 consumers, 625k/s, batch 128 KiB, linger 1 ms",
        source: "Redpanda, `The Kafka API is great; now let's make it fast!`, 2021, redpanda.com/blog/redpanda-faster-safer-than-kafka",
        published: "18 workloads of up to 1,250k records/s of 1 KB, acks=all, flushed after every batch, against Kafka 2.7; the charts are in the post",
        hardware: "3 brokers, as the post lists them, replication factor 3",
        options: &[
            "--partitions=100",
            "--record-size=1KiB",
            "--producers=16",
            "--consumers=8",
            "--rate=625k",
            "--batch=128KiB",
            "--linger-ms=1",
            "--name=redpanda-625k",
        ],
    },
    Preset {
        name: "redpanda-1gbs",
        summary: "288 partitions, 1 KiB, 4 producers, 4 consumers, 1 GB/s",
        source: "Redpanda, `Redpanda vs. Kafka: A performance comparison`, 2022, redpanda.com/blog/redpanda-vs-kafka-performance-benchmark; examined by J. Vanlightly, 2023",
        published: "at least 10x lower tail latencies than Kafka 3.2 at up to 1 GB/s",
        hardware: "3 brokers i3en.6xlarge and more, replication factor 3",
        options: &[
            "--partitions=288",
            "--record-size=1KiB",
            "--producers=4",
            "--consumers=4",
            "--rate=1GB/s",
            "--batch=128KiB",
            "--linger-ms=1",
            "--name=redpanda-1gbs",
        ],
    },
    Preset {
        name: "redpanda-small-batch",
        summary: "100 B, one record a batch, 16 partitions, 10k/s",
        source: "after Redpanda's tests of small batches (`batch.size=1`)",
        published: "none",
        hardware: "none named",
        options: &[
            "--partitions=16",
            "--record-size=100",
            "--rate=10k",
            "--batch=128",
            "--name=redpanda-small-batch",
        ],
    },
    Preset {
        name: "linkedin-2014",
        summary: "6 partitions, 100 B, one producer, acks 1, as fast as it goes (closed loop)",
        source: "J. Kreps, `Benchmarking Apache Kafka: 2 Million Writes Per Second (On Three Cheap Machines)`, LinkedIn, 2014",
        published: "one producer: 821,557 records/s (78.3 MB/s) without replication, 786,980 (75.1 MB/s) with three asynchronous replicas",
        hardware: "3 x six cores at 2.5 GHz, six 7200 rpm disks, 32 GB, 1 Gbit/s",
        options: &[
            "--partitions=6",
            "--record-size=100",
            "--rate=max",
            "--acks=1",
            "--batch=8KiB",
            "--window=64",
            "--name=linkedin-2014",
        ],
    },
    Preset {
        name: "linkedin-2014-all",
        summary: "the same with acks all",
        source: "J. Kreps, LinkedIn, 2014, as linkedin-2014",
        published: "421,823 records/s (40.2 MB/s) with three synchronous replicas",
        hardware: "as linkedin-2014",
        options: &[
            "--partitions=6",
            "--record-size=100",
            "--rate=max",
            "--acks=all",
            "--batch=8KiB",
            "--window=64",
            "--name=linkedin-2014-all",
        ],
    },
    Preset {
        name: "iggy-std",
        summary: "8 producers, 1 kB, 1000 records a batch, as fast as it goes (closed loop)",
        source: "Apache Iggy, iggy-bench's standard suite, github.com/apache/iggy; results at benchmarks.iggy.apache.org",
        published: "on its dashboard, by machine and version",
        hardware: "as the dashboard lists it",
        options: &[
            "--producers=8",
            "--partitions=8",
            "--record-size=1000",
            "--rate=max",
            "--batch=1MiB",
            "--window=1",
            "--name=iggy-std",
        ],
    },
    Preset {
        name: "scenario-backlog",
        summary: "consumers stop reading for ten seconds while the load goes on: the backlog, its drain, and what it costs producers",
        source: OURS,
        published: OURS_PUBLISHED,
        hardware: OURS_HARDWARE,
        options: &[
            "--rate=20k",
            "--duration=28s",
            "--pause-consumers=6s..16s",
            "--name=scenario-backlog",
        ],
    },
    Preset {
        name: "scenario-slow-consumer",
        summary: "a consumer that takes three quarters of what is sent: does it slow anybody else down",
        source: OURS,
        published: OURS_PUBLISHED,
        hardware: OURS_HARDWARE,
        options: &[
            "--rate=20k",
            "--duration=18s",
            "--consumer-rate=15k",
            "--name=scenario-slow-consumer",
        ],
    },
    Preset {
        name: "scenario-rebalance",
        summary: "a group of four, one of whose members leaves and joins again every four seconds under load",
        source: OURS,
        published: OURS_PUBLISHED,
        hardware: OURS_HARDWARE,
        options: &[
            "--rate=10k",
            "--duration=18s",
            "--groups=1",
            "--group-members=4",
            "--rebalance-every=4s",
            "--name=scenario-rebalance",
        ],
    },
    Preset {
        name: "scenario-kill",
        summary: "the broker is killed under load and comes back on its data: how long nothing is acknowledged, and is anything lost",
        source: OURS,
        published: OURS_PUBLISHED,
        hardware: OURS_HARDWARE,
        options: &[
            "--rate=5k",
            "--duration=18s",
            "--kill-at=8s",
            "--name=scenario-kill",
        ],
    },
    Preset {
        name: "scenario-partitions",
        summary: "1,000 partitions that are all busy at 10k/s",
        source: OURS,
        published: "perf/partitions.md of this repository",
        hardware: OURS_HARDWARE,
        options: &[
            "--partitions=1000",
            "--rate=10k",
            "--duration=18s",
            "--name=scenario-partitions",
        ],
    },
];

/// The options that `load` stands for: a preset's name, or a file. The error is a sentence.
pub fn options(load: &str) -> Result<Vec<String>, String> {
    if let Some(preset) = named(load) {
        return Ok(preset.options.iter().map(|&option| option.to_owned()).collect());
    }
    let path = Path::new(load);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => {
            let text = std::fs::read_to_string(path).map_err(|error| format!("{load}: {error}"))?;
            from_toml(&text).map_err(|error| format!("{load}: {error}"))
        }
        Some("yaml" | "yml") => {
            let text = std::fs::read_to_string(path).map_err(|error| format!("{load}: {error}"))?;
            openmessaging::options(&text).map_err(|error| format!("{load}: {error}"))
        }
        Some("workload") => workload::options(path).map_err(|error| format!("{load}: {error}")),
        _ => {
            let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
            Err(format!(
                "`{load}` is no preset, no FILE.toml, no FILE.yaml and no FILE.workload; the presets are {}",
                names.join(", ")
            ))
        }
    }
}

/// The preset of that name.
pub fn named(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// Every key is an option of `run` without its dashes; `preset` names one to start from.
fn from_toml(text: &str) -> Result<Vec<String>, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let mut options = Vec::new();
    if let Some(preset) = table.get("preset") {
        let name = preset.as_str().ok_or("`preset` is the name of one")?;
        let preset = named(name).ok_or_else(|| format!("there is no preset `{name}`"))?;
        options.extend(preset.options.iter().map(|&option| option.to_owned()));
    }
    for (key, value) in table.iter().filter(|(key, _)| *key != "preset") {
        match value {
            toml::Value::Boolean(true) => options.push(format!("--{key}")),
            toml::Value::Boolean(false) => {}
            toml::Value::Array(values) => {
                for value in values {
                    options.push(format!("--{key}={}", scalar(key, value)?));
                }
            }
            value => options.push(format!("--{key}={}", scalar(key, value)?)),
        }
    }
    Ok(options)
}

fn scalar(key: &str, value: &toml::Value) -> Result<String, String> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Float(number) => Ok(number.to_string()),
        _ => Err(format!(
            "`{key}` is a text, a number, true, false, or a list of texts"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Command, RunArgs, parse};
    use crate::schedule::RateSpec;
    use crate::sizes::Sizes;

    fn run(arguments: &[&str]) -> Result<RunArgs, String> {
        match parse(arguments).map_err(|error| error.to_string())?.command {
            Command::Run(args) => Ok(*args),
            _ => Err("not a run".to_owned()),
        }
    }

    #[test]
    fn every_preset_is_a_run_and_says_where_it_is_from() {
        for preset in PRESETS {
            let args = run(&["strandline-bench", "run", preset.name]).unwrap();
            assert_eq!(args.check(), Ok(()), "{}", preset.name);
            assert_eq!(args.load.as_deref(), Some(preset.name));
            assert_eq!(args.name, preset.name);
            for text in [preset.summary, preset.source, preset.published, preset.hardware] {
                assert!(!text.is_empty(), "{}", preset.name);
            }
        }
    }

    #[test]
    fn without_arguments_half_of_the_peak_is_measured() {
        let args = run(&["strandline-bench"]).unwrap();
        assert_eq!(args.rate, RateSpec::OfPeak(50.0));
        assert!(args.limits && args.calibrate);
    }

    #[test]
    fn what_is_typed_counts_more_than_a_preset() {
        let args = run(&[
            "strandline-bench",
            "run",
            "omb-simple",
            "--rate",
            "7k",
            "--partitions=3",
        ])
        .unwrap();
        assert_eq!(args.rate, RateSpec::parse("7k").unwrap());
        assert_eq!((args.partitions, args.record_size), (3, Sizes::Fixed(1024)));
        let error = run(&["strandline-bench", "run", "omb-simpel"]).unwrap_err();
        assert!(
            error.contains("no preset") && error.contains("omb-simple"),
            "{error}"
        );
    }

    #[test]
    fn a_file_holds_options_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name).display().to_string();
            std::fs::write(&path, text).unwrap();
            path
        };
        let path = write(
            "load.toml",
            "preset = 'omb-simple'\nrate = 'poisson:5k'\npartitions = 4\nlinger-ms = 0.5\nkeep-topic = true\njson = false\ntopic-config = ['retention.ms=1000', 'a=b']\n",
        );
        let args = run(&["strandline-bench", "run", &path, "--partitions", "5"]).unwrap();
        assert_eq!(args.rate, RateSpec::parse("poisson:5k").unwrap());
        assert_eq!((args.partitions, args.linger_ms, args.keep_topic), (5, 0.5, true));
        assert_eq!(args.topic_config.len(), 2);
        for (text, says) in [
            ("speed = 5", "--speed"),
            ("rate = '0'", "rate of 0"),
            ("rate = ", "TOML"),
            ("preset = 'x'", "no preset"),
            ("rate = { a = 1 }", "is a text"),
        ] {
            let path = write("wrong.toml", text);
            let error = run(&["strandline-bench", "run", &path]).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        let workload = write(
            "workload.yaml",
            "name: x\ntopics: 1\npartitionsPerTopic: 16\nmessageSize: 1024\nproducerRate: 50000\ntestDurationMinutes: 5\n",
        );
        let args = run(&["strandline-bench", "run", &workload, "--duration", "3s"]).unwrap();
        assert_eq!(args.rate, RateSpec::parse("50k").unwrap());
        assert_eq!((args.partitions, args.groups, args.consumers()), (16, 1, 0));
        assert_eq!(args.duration, Some(std::time::Duration::from_secs(3)));
        assert!(
            run(&["strandline-bench", "run", "missing.toml"])
                .unwrap_err()
                .contains("missing.toml")
        );
    }
}
