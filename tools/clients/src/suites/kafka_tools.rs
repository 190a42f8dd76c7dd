//! Kafka's own command-line tools, as an operator would type them.

use super::{expect, fresh};
use crate::report::Report;
use crate::tools::Tools;

const TOPICS: &str = "org.apache.kafka.tools.TopicCommand";
const CONFIGS: &str = "kafka.admin.ConfigCommand";
const OFFSETS: &str = "org.apache.kafka.tools.GetOffsetShell";
const DELETE_RECORDS: &str = "org.apache.kafka.tools.DeleteRecordsCommand";
const LOG_DIRS: &str = "org.apache.kafka.tools.LogDirsCommand";
const PRODUCER_PERFORMANCE: &str = "org.apache.kafka.tools.ProducerPerformance";
const END_TO_END_LATENCY: &str = "org.apache.kafka.tools.EndToEndLatency";

const RECORDS: i64 = 20_000;
const RECORD_BYTES: i64 = 100;

/// Keys that every tool and user interface asks a broker for (B28).
const BROKER_KEYS: [&str; 6] = [
    "num.partitions",
    "default.replication.factor",
    "auto.create.topics.enable",
    "log.retention.ms",
    "min.insync.replicas",
    "message.max.bytes",
];

/// The topic keys of Kafka 4.2 (B28).
const TOPIC_KEYS: [&str; 30] = [
    "cleanup.policy",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "follower.replication.throttled.replicas",
    "index.interval.bytes",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "preallocate",
    "remote.storage.enable",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
];

/// One run of the tools against one topic.
struct Shell<'a> {
    tools: &'a Tools,
    bootstrap: &'a str,
    topic: String,
}

/// Runs the suite.
pub(crate) fn run(report: &mut Report, tools: &Tools, bootstrap: &str) {
    report.begin("kafka's tools");
    let shell = Shell {
        tools,
        bootstrap,
        topic: fresh("tools"),
    };
    report.check(
        "kafka-topics creates, lists, describes and alters",
        shell.topics(),
    );
    report.check("kafka-producer-perf-test", shell.producer_performance());
    report.check("kafka-get-offsets by special times and by time", shell.offsets());
    report.check("kafka-configs on a topic", shell.topic_configs());
    report.check(
        "kafka-configs --describe --all knows every topic key (B28)",
        shell.topic_keys(),
    );
    report.check(
        "kafka-configs on brokers and their default (B28)",
        shell.broker_configs(),
    );
    report.check("kafka-delete-records", shell.delete_records());
    report.check("kafka-log-dirs shows each partition once (B31)", shell.log_dirs());
    report.check("kafka-e2e-latency", shell.end_to_end());
    report.check("kafka-topics deletes", shell.delete());
    report.end();
}

/// Passes when `text` holds all of `parts`.
fn holds(text: &str, parts: &[&str]) -> Result<(), String> {
    match parts.iter().find(|part| !text.contains(**part)) {
        Some(part) => Err(format!("no `{part}` in {text:.600}")),
        None => Ok(()),
    }
}

impl Shell<'_> {
    fn run(&self, class: &str, arguments: &[&str]) -> Result<String, String> {
        let mut all = vec!["--bootstrap-server", self.bootstrap];
        all.extend(arguments);
        self.tools.kafka_tool(class, &all)
    }

    fn topics(&self) -> Result<(), String> {
        let topic = self.topic.as_str();
        let created = self.run(
            TOPICS,
            &[
                "--create",
                "--topic",
                topic,
                "--partitions",
                "3",
                "--config",
                "segment.ms=3600000",
            ],
        )?;
        holds(&created, &[&format!("Created topic {topic}")])?;
        holds(&self.run(TOPICS, &["--list"])?, &[topic])?;
        self.run(TOPICS, &["--alter", "--topic", topic, "--partitions", "4"])?;
        let described = self.run(TOPICS, &["--describe", "--topic", topic])?;
        holds(
            &described,
            &[
                "PartitionCount: 4",
                "ReplicationFactor: 1",
                "segment.ms=3600000",
                "Partition: 3",
                "TopicId: ",
            ],
        )?;
        let unhealthy = self.run(
            TOPICS,
            &["--describe", "--unavailable-partitions", "--topic", topic],
        )?;
        expect(&unhealthy.trim(), &"")
    }

    fn producer_performance(&self) -> Result<(), String> {
        let (records, bytes) = (RECORDS.to_string(), RECORD_BYTES.to_string());
        let servers = format!("bootstrap.servers={}", self.bootstrap);
        let text = self.tools.kafka_tool(
            PRODUCER_PERFORMANCE,
            &[
                "--topic",
                &self.topic,
                "--num-records",
                &records,
                "--record-size",
                &bytes,
                "--throughput",
                "-1",
                "--producer-props",
                &servers,
                "acks=all",
            ],
        )?;
        holds(&text, &[&format!("{records} records sent"), "99.9th"])
    }

    /// The sum over the partitions of what `--time` gives.
    fn offset_sum(&self, time: &str) -> Result<i64, String> {
        let text = self.run(OFFSETS, &["--topic", &self.topic, "--time", time])?;
        let offset = |line: &str| {
            let number = line.strip_prefix(self.topic.as_str())?.rsplit(':').next()?;
            if number.is_empty() {
                Some(0)
            } else {
                number.parse::<i64>().ok()
            }
        };
        let offsets: Vec<i64> = text.lines().filter_map(offset).collect();
        expect(&offsets.len(), &4).map_err(|why| format!("{why} in {text:.300}"))?;
        Ok(offsets.iter().sum())
    }

    fn offsets(&self) -> Result<(), String> {
        expect(&self.offset_sum("latest")?, &RECORDS)?;
        expect(&self.offset_sum("-1")?, &RECORDS)?;
        expect(&self.offset_sum("-2")?, &0)?;
        // Every record of this topic is younger than the year 2000.
        expect(&self.offset_sum("946684800000")?, &0)?;
        let maximum = self.offset_sum("-3")?;
        if (0..RECORDS).contains(&maximum) {
            Ok(())
        } else {
            Err(format!("maximum timestamp at {maximum}"))
        }
    }

    fn topic_configs(&self) -> Result<(), String> {
        let entity = ["--entity-type", "topics", "--entity-name", self.topic.as_str()];
        let alter = |change: [&str; 2]| self.run(CONFIGS, &[&["--alter"], &change[..], &entity].concat());
        let describe = || self.run(CONFIGS, &[&["--describe"], &entity[..]].concat());
        alter(["--add-config", "retention.ms=1000000,max.message.bytes=2000000"])?;
        holds(
            &describe()?,
            &[
                "retention.ms=1000000",
                "max.message.bytes=2000000",
                "DYNAMIC_TOPIC_CONFIG",
                "segment.ms",
            ],
        )?;
        alter(["--delete-config", "retention.ms"])?;
        let after = describe()?;
        holds(&after, &["max.message.bytes=2000000"])?;
        if after.contains("retention.ms=1000000") {
            Err("the deleted key is still there".to_owned())
        } else {
            Ok(())
        }
    }

    fn topic_keys(&self) -> Result<(), String> {
        let text = self.run(
            CONFIGS,
            &[
                "--describe",
                "--all",
                "--entity-type",
                "topics",
                "--entity-name",
                &self.topic,
            ],
        )?;
        let keys: Vec<&str> = text
            .lines()
            .skip(1)
            .filter_map(|line| line.trim().split_once('='))
            .map(|(key, _)| key)
            .collect();
        let missing: Vec<&str> = TOPIC_KEYS.into_iter().filter(|key| !keys.contains(key)).collect();
        expect(&missing, &Vec::new()).map_err(|why| format!("missing keys: {why}"))?;
        let strangers = |key: &&str| {
            !TOPIC_KEYS.contains(key)
                && !key.starts_with("strandline.")
                && !key.starts_with("remote.")
                && !key.contains("unclean")
        };
        let invented: Vec<&str> = keys
            .into_iter()
            .filter(strangers)
            .filter(|key| *key != "errors.deadletterqueue.group.enable")
            .collect();
        expect(&invented, &Vec::new()).map_err(|why| format!("keys that Kafka lacks: {why}"))
    }

    fn broker_configs(&self) -> Result<(), String> {
        let brokers = self.broker_ids()?;
        for id in &brokers {
            let text = self.run(
                CONFIGS,
                &[
                    "--describe",
                    "--all",
                    "--entity-type",
                    "brokers",
                    "--entity-name",
                    id,
                ],
            )?;
            holds(
                &text,
                &BROKER_KEYS
                    .map(|key| format!("{key}="))
                    .each_ref()
                    .map(String::as_str),
            )?;
        }
        let cluster = ["--entity-type", "brokers", "--entity-default"];
        self.run(
            CONFIGS,
            &[
                &["--alter", "--add-config", "log.retention.ms=604800001"],
                &cluster[..],
            ]
            .concat(),
        )?;
        let text = self.run(CONFIGS, &[&["--describe"], &cluster[..]].concat())?;
        holds(&text, &["log.retention.ms=604800001"])?;
        self.run(
            CONFIGS,
            &[&["--alter", "--delete-config", "log.retention.ms"], &cluster[..]].concat(),
        )?;
        Ok(())
    }

    fn delete_records(&self) -> Result<(), String> {
        let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        let wanted = format!(
            "{{\"version\":1,\"partitions\":[{{\"topic\":\"{}\",\"partition\":0,\"offset\":-1}}]}}",
            self.topic
        );
        std::fs::write(file.path(), wanted).map_err(|error| error.to_string())?;
        let text = self.run(
            DELETE_RECORDS,
            &["--offset-json-file", &file.path().to_string_lossy()],
        )?;
        holds(&text, &["low_watermark: "])?;
        let text = self.run(
            OFFSETS,
            &["--topic-partitions", &format!("{}:0", self.topic), "--time", "-2"],
        )?;
        let latest = self.run(
            OFFSETS,
            &["--topic-partitions", &format!("{}:0", self.topic), "--time", "-1"],
        )?;
        expect(&text, &latest)
    }

    /// The ids of the brokers that the log directories come from.
    fn broker_ids(&self) -> Result<Vec<String>, String> {
        let text = self.run(LOG_DIRS, &["--describe"])?;
        let ids = text
            .lines()
            .find_map(|line| line.strip_prefix("Received log directory information from brokers "));
        Ok(ids
            .ok_or_else(|| format!("no brokers in {text:.300}"))?
            .split(',')
            .map(|id| id.trim().to_owned())
            .collect())
    }

    fn log_dirs(&self) -> Result<(), String> {
        let text = self.run(LOG_DIRS, &["--describe", "--topic-list", &self.topic])?;
        for partition in 0..4 {
            let found = text
                .matches(&format!("\"partition\":\"{}-{partition}\"", self.topic))
                .count();
            expect(&found, &1).map_err(|why| format!("partition {partition}: {why}"))?;
        }
        let size = |part: &str| {
            part.split([',', '}'])
                .next()
                .and_then(|number| number.parse::<i64>().ok())
        };
        let sizes: i64 = text.split("\"size\":").skip(1).filter_map(size).sum();
        // Batches add a header and lengths; a segment may keep what was deleted for a while.
        let produced = RECORDS * RECORD_BYTES;
        if text.contains("\"error\":null") && (produced / 4..produced * 2).contains(&sizes) {
            return Ok(());
        }
        Err(format!("{sizes} bytes for {produced} produced: {text:.500}"))
    }

    /// The tool reads by assignment, and at its very end commits the position of a group.
    fn end_to_end(&self) -> Result<(), String> {
        let topic = fresh("end-to-end");
        let arguments = [
            "--bootstrap-server",
            self.bootstrap,
            "--topic",
            &topic,
            "--num-records",
            "500",
            "--producer-acks",
            "all",
            "--record-size",
            "100",
        ];
        let text = self.tools.kafka_tool(END_TO_END_LATENCY, &arguments)?;
        holds(&text, &["Avg latency:", "Percentiles: 50th"])
    }

    fn delete(&self) -> Result<(), String> {
        self.run(TOPICS, &["--delete", "--topic", &self.topic])?;
        let listed = self.run(TOPICS, &["--list"])?;
        if listed.contains(&self.topic) {
            Err("still listed".to_owned())
        } else {
            Ok(())
        }
    }
}
