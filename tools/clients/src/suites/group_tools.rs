//! Kafka's own command-line tools on groups, and its formatters on the records that keep them.

use super::{create, expect, fresh, in_turn};
use crate::client::{Client, Produce};
use crate::native::Native;
use crate::record::Record;
use crate::report::Job;
use crate::tools::Tools;

const GROUPS: &str = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";
const CONSOLE: &str = "org.apache.kafka.tools.consumer.ConsoleConsumer";
const PERFORMANCE: &str = "org.apache.kafka.tools.ConsumerPerformance";
const VERIFIABLE: &str = "org.apache.kafka.tools.VerifiableConsumer";
const OFFSETS_FORMATTER: &str = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter";
const GROUPS_FORMATTER: &str = "org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter";

const RECORDS: i64 = 500;

/// One run of the tools on one topic and its group.
struct Shell<'a> {
    tools: &'a Tools,
    bootstrap: &'a str,
    topic: String,
    group: String,
}

/// One suite.
pub(crate) fn jobs<'a>(tools: &'a Tools, bootstrap: &'a str) -> Vec<Job<'a>> {
    let judge = move || {
        let topic = fresh("group-tools");
        let mut shell = Shell {
            tools,
            bootstrap,
            group: format!("{topic}-group"),
            topic,
        };
        in_turn(
            &mut shell,
            &[
                ("records are written", &|shell| shell.write()),
                ("kafka-console-consumer reads in a group", &|shell| {
                    shell.console()
                }),
                ("kafka-consumer-groups lists and describes", &|shell| {
                    shell.describe()
                }),
                (
                    "kafka-consumer-groups resets, deletes offsets and groups",
                    &|shell| shell.change(),
                ),
                ("kafka-consumer-perf-test", &|shell| shell.performance()),
                ("kafka-verifiable-consumer", &|shell| shell.verifiable()),
                ("Kafka's formatter reads the records of offsets", &|shell| {
                    shell.offsets()
                }),
                ("Kafka's formatter reads the records of groups", &|shell| {
                    shell.groups()
                }),
            ],
        )
    };
    vec![Job::new("kafka's group tools".to_owned(), judge)]
}

fn holds(text: &str, parts: &[&str]) -> Result<(), String> {
    match parts.iter().find(|part| !text.contains(**part)) {
        Some(part) => Err(format!("no `{part}` in {text:.900}")),
        None => Ok(()),
    }
}

impl Shell<'_> {
    fn write(&self) -> Result<(), String> {
        create(self.tools, self.bootstrap, &self.topic, 2)?;
        let record = |number: i64| {
            let mut record = Record::new(Some(b"key"), Some(format!("value-{number}").as_bytes()));
            record.place = number % 2;
            record
        };
        let records: Vec<Record> = (0..RECORDS).map(record).collect();
        Native::new(self.bootstrap)
            .produce(&Produce::to(&self.topic), &records)
            .map(drop)
    }

    fn run(&self, class: &str, arguments: &[&str]) -> Result<String, String> {
        let mut all = vec!["--bootstrap-server", self.bootstrap];
        all.extend(arguments);
        self.tools.kafka_tool(class, &all)
    }

    fn groups_tool(&self, arguments: &[&str]) -> Result<String, String> {
        self.run(GROUPS, &[&["--group", self.group.as_str()], arguments].concat())
    }

    fn console(&self) -> Result<(), String> {
        let count = RECORDS.to_string();
        let arguments = ["--topic", &self.topic, "--group", &self.group, "--from-beginning"];
        let limit = ["--max-messages", &count, "--timeout-ms", "60000"];
        let text = self.run(CONSOLE, &[&arguments[..], &limit].concat())?;
        let read = text.lines().filter(|line| line.starts_with("value-")).count();
        expect(&(read as i64), &RECORDS)
    }

    fn describe(&self) -> Result<(), String> {
        holds(&self.run(GROUPS, &["--list"])?, &[&self.group])?;
        let listed = self.run(GROUPS, &["--list", "--state", "Empty", "--type", "classic"])?;
        holds(&listed, &[&self.group])?;
        let described = self.groups_tool(&["--describe"])?;
        let each = RECORDS / 2;
        let row = |line: &&str| line.contains(&self.topic);
        let rows: Vec<Vec<&str>> = described
            .lines()
            .filter(row)
            .map(|line| line.split_whitespace().collect())
            .collect();
        expect(&rows.len(), &2).map_err(|why| format!("{why} in {described:.900}"))?;
        for row in rows {
            // Group, topic, partition, current offset, log end offset, lag.
            expect(&row[3..6].join(" "), &format!("{each} {each} 0"))?;
        }
        holds(&self.groups_tool(&["--describe", "--state"])?, &["Empty"])?;
        self.groups_tool(&["--describe", "--members"]).map(drop)
    }

    fn change(&self) -> Result<(), String> {
        let topic = ["--topic", self.topic.as_str()];
        let reset = [&["--reset-offsets", "--to-offset", "10"], &topic[..]].concat();
        self.groups_tool(&[&reset[..], &["--dry-run"]].concat())?;
        let unchanged = Native::new(self.bootstrap).committed(&self.group, &self.topic, 2)?;
        expect(&unchanged, &vec![RECORDS / 2; 2])?;
        self.groups_tool(&[&reset[..], &["--execute"]].concat())?;
        let committed = || Native::new(self.bootstrap).committed(&self.group, &self.topic, 2);
        expect(&committed()?, &vec![10, 10])?;
        let one = format!("{}:1", self.topic);
        self.groups_tool(&["--delete-offsets", "--topic", &one])?;
        expect(&committed()?, &vec![10, -1001])?;
        let deleted = self.groups_tool(&["--delete"])?;
        holds(&deleted, &["was successful"])?;
        expect(&committed()?, &vec![-1001, -1001])?;
        let listed = self.run(GROUPS, &["--list"])?;
        match listed.contains(&self.group) {
            true => Err("the deleted group is still listed".to_owned()),
            false => Ok(()),
        }
    }

    fn performance(&self) -> Result<(), String> {
        let count = RECORDS.to_string();
        let group = format!("{}-perf", self.group);
        let arguments = ["--topic", &self.topic, "--group", &group, "--num-records", &count];
        let text = self.run(PERFORMANCE, &[&arguments[..], &["--timeout", "60000"]].concat())?;
        holds(&text, &[&format!(" {RECORDS},")])
    }

    fn verifiable(&self) -> Result<(), String> {
        let count = RECORDS.to_string();
        let group = format!("{}-verifiable", self.group);
        let text = self.run(
            VERIFIABLE,
            &[
                "--topic",
                &self.topic,
                "--group-id",
                &group,
                "--max-messages",
                &count,
                "--reset-policy",
                "earliest",
            ],
        )?;
        holds(
            &text,
            &["partitions_assigned", "offsets_committed", "\"success\":true"],
        )?;
        let committed = Native::new(self.bootstrap).committed(&group, &self.topic, 2)?;
        expect(&committed, &vec![RECORDS / 2; 2])
    }

    fn formatted(&self, formatter: &str) -> Result<String, String> {
        self.run(
            CONSOLE,
            &[
                "--topic",
                "__consumer_offsets",
                "--formatter",
                formatter,
                "--from-beginning",
                "--timeout-ms",
                "8000",
            ],
        )
    }

    fn offsets(&self) -> Result<(), String> {
        let text = self.formatted(OFFSETS_FORMATTER)?;
        let group = format!("\"group\":\"{}\"", self.group);
        let line = text
            .lines()
            .find(|line| line.contains(&group) && line.contains("\"offset\":250"));
        let line = line.ok_or_else(|| format!("no commit of the group in {text:.900}"))?;
        holds(line, &[&self.topic, "\"version\":4", "\"topicId\":"])
    }

    fn groups(&self) -> Result<(), String> {
        let text = self.formatted(GROUPS_FORMATTER)?;
        let group = format!("\"group\":\"{}\"", self.group);
        let line = text
            .lines()
            .find(|line| line.contains(&group) && line.contains("\"generation\":1"));
        let line = line.ok_or_else(|| format!("no record of the group in {text:.900}"))?;
        holds(line, &["\"protocolType\":\"consumer\"", "\"protocol\":\"range\""])
    }
}
