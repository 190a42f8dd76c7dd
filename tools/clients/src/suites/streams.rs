//! A word count on Kafka Streams, at least once: two instances, one killed in the middle and started again.
//!
//! Streams makes a repartition topic, which it purges by DeleteRecords, and a compacted changelog, which it reads back where a
//! task moves.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Buf;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{DescribeConfigsRequest, ListOffsetsRequest};
use kafka_protocol::protocol::StrBytes;

use super::{expect, fresh};
use crate::client::{Client, Consume, Produce};
use crate::native::Native;
use crate::raw::{Raw, topic_name};
use crate::record::Record;
use crate::report::Report;
use crate::script::Script;
use crate::tools::Tools;

const PARTITIONS: i32 = 4;
/// Lines of each part, and words of each line.
const LINES: i64 = 300;
/// A rebalance may wait for the session of an instance that died (12 s), and Streams pauses between tries.
const STEP_MAX: Duration = Duration::from_secs(90);
/// How long a look at a topic waits for more.
const LOOK_MS: i32 = 300;
/// From one part to the next, where parts have times: each goes to segments of its own.
const PART_MS: i64 = 60_000;
/// Parts of the changelog that is compacted.
const PARTS: usize = 5;
/// The special timestamp of the first offset.
const EARLIEST: i64 = -2;
/// Kafka's resource type of a topic.
const TOPIC: i8 = 2;

/// How often each word came.
type Counts = BTreeMap<String, i64>;
/// A part of the scenario, and what it shows.
type Step<'a> = (&'static str, fn(&mut WordCount<'a>) -> Result<(), String>);

/// Runs the suite; instances keep their state in `scratch`.
pub(crate) fn run(report: &mut Report, tools: &Tools, bootstrap: &str, scratch: &Path) {
    report.begin("kafka streams");
    let steps: [Step<'_>; 6] = [
        ("two instances count every word", WordCount::counted),
        ("one is killed, the other counts on", WordCount::killed),
        (
            "a new one joins, and counts are exact without another death",
            WordCount::exact,
        ),
        (
            "a task that moves brings its counts from the changelog",
            WordCount::moved,
        ),
        ("the changelog has what the output has", WordCount::logged),
        (
            "the repartition topic is purged, and topics are as Streams wants them",
            WordCount::purged,
        ),
    ];
    match WordCount::new(tools, bootstrap, scratch) {
        Err(why) => drop(report.check("topics are made", Err(why))),
        Ok(mut count) => {
            for (what, step) in steps {
                // What follows builds on it.
                if !report.check(what, step(&mut count)) {
                    break;
                }
            }
        }
    }
    report.end();
}

/// On a node whose cleaner comes by all the time: an instance that knows nothing reads its table from a changelog with gaps.
pub(crate) fn restores(report: &mut Report, tools: &Tools, bootstrap: &str, scratch: &Path) {
    report.begin("kafka streams restores");
    let restored = WordCount::new(tools, bootstrap, scratch).and_then(|mut count| {
        count.topics = " topic.segment.ms=1000 topic.min.cleanable.dirty.ratio=0.01";
        count.clock = Some(1_700_000_000_000);
        count.restored()
    });
    report.check("a table from a compacted changelog", restored);
    report.end();
}

struct WordCount<'a> {
    tools: &'a Tools,
    bootstrap: &'a str,
    scratch: &'a Path,
    application: String,
    writer: Native,
    instances: Vec<Script>,
    /// How many were ever started: each has a folder of its own.
    started: usize,
    /// The words that were written, and the last count of each that came out.
    right: Counts,
    table: Counts,
    /// Where the output is read next.
    next: i64,
    lines: i64,
    /// Settings of its own topics, as options.
    topics: &'static str,
    /// The time of the next part that is written; the client's own where there is none.
    clock: Option<i64>,
}

impl<'a> WordCount<'a> {
    fn new(tools: &'a Tools, bootstrap: &'a str, scratch: &'a Path) -> Result<Self, String> {
        let count = Self {
            tools,
            bootstrap,
            scratch,
            application: fresh("words"),
            writer: Native::new(bootstrap),
            instances: Vec::new(),
            started: 0,
            right: Counts::new(),
            table: Counts::new(),
            next: 0,
            lines: 0,
            topics: "",
            clock: None,
        };
        let mut raw = Raw::connect(bootstrap)?;
        expect(&raw.create_topic(&count.topic("input"), PARTITIONS, &[])?, &0)?;
        expect(&raw.create_topic(&count.topic("output"), 1, &[])?, &0)?;
        Ok(count)
    }

    fn topic(&self, part: &str) -> String {
        format!("{}-{part}", self.application)
    }

    /// Starts another instance.
    fn start(&mut self) -> Result<(), String> {
        self.started += 1;
        let mut instance = self.tools.streams(self.bootstrap)?;
        let state = self
            .scratch
            .join(format!("{}-{}", self.application, self.started));
        let (input, output) = (self.topic("input"), self.topic("output"));
        let head = format!(
            "start application={} input={input} output={output} state={}{}",
            self.application,
            state.display(),
            self.topics
        );
        instance.request(&head, &[])?;
        self.instances.push(instance);
        Ok(())
    }

    /// Writes lines of words that begin so.
    fn write(&mut self, kind: &str) -> Result<(), String> {
        let mut records = Vec::new();
        for number in self.lines..self.lines + LINES {
            let words = [7, 11, 13].map(|modulus| format!("{kind}{}", number % modulus));
            let mut record = Record::new(None, Some(words.join(" ").as_bytes()));
            record.timestamp = self.clock.unwrap_or(record.timestamp);
            record.place = number % i64::from(PARTITIONS);
            records.push(record);
            for word in words {
                *self.right.entry(word).or_default() += 1;
            }
        }
        self.lines += LINES;
        self.clock = self.clock.map(|clock| clock + PART_MS);
        let topic = self.topic("input");
        self.writer.produce(&Produce::to(&topic), &records).map(drop)
    }

    /// Reads the output until it is as it should be.
    fn until(&mut self, what: &str, is_right: impl Fn(&Self) -> bool) -> Result<(), String> {
        let (topic, began) = (self.topic("output"), Instant::now());
        while !is_right(self) {
            if began.elapsed() > STEP_MAX {
                let of = |counts: &Counts| format!("{counts:.600?}");
                return Err(format!("not {what}: {} for {}", of(&self.table), of(&self.right)));
            }
            let end = look(self.bootstrap, &topic, 0, self.next)?.high_watermark;
            if end > self.next {
                let records = self.writer.consume(&Consume {
                    from: self.next,
                    ..Consume::start_of(&topic, (end - self.next) as usize)
                })?;
                for record in records {
                    let text = |bytes: Option<Vec<u8>>| {
                        String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
                    };
                    let count = text(record.value.clone())
                        .parse()
                        .map_err(|_| format!("no count: {record:?}"))?;
                    self.table.insert(text(record.key), count);
                }
                self.next = end;
            }
        }
        Ok(())
    }

    /// Words that begin so have come as often as they were written, or more often.
    fn has_all_of(&self, kind: &str) -> bool {
        let mut of_kind = self.right.iter().filter(|(word, _)| word.starts_with(kind));
        of_kind.all(|(word, count)| self.table.get(word).is_some_and(|counted| counted >= count))
    }

    /// Words that begin so were counted exactly.
    fn exactly(&self, kind: &str) -> Result<(), String> {
        let of_kind = |counts: &Counts| -> Counts {
            let of_kind = counts.iter().filter(|(word, _)| word.starts_with(kind));
            of_kind.map(|(word, count)| (word.clone(), *count)).collect()
        };
        expect(&of_kind(&self.table), &of_kind(&self.right))
    }

    fn counted(&mut self) -> Result<(), String> {
        self.start()?;
        self.start()?;
        self.write("a")?;
        self.until("every word", |count| count.has_all_of("a"))?;
        self.exactly("a")
    }

    /// Counts, waits until the changelog has gaps, and counts on in an instance that has nothing else.
    fn restored(&mut self) -> Result<(), String> {
        self.start()?;
        for _ in 0..PARTS {
            self.write("a")?;
            self.until("every word", |count| count.has_all_of("a"))?;
        }
        self.exactly("a")?;
        let mut first = self.instances.remove(0);
        expect(&first.request("close", &[])?, &vec!["true".to_owned()])?;
        let topic = self.topic("counts-changelog");
        let began = Instant::now();
        loop {
            let (mut found, mut all) = (0, 0);
            for partition in 0..PARTITIONS {
                let end = look(self.bootstrap, &topic, partition, 0)?.high_watermark;
                let starts = 0..end.min(1);
                let tails = self.writer.tails(&topic, partition, end, starts)?;
                found += tails.concat().len();
                all += end as usize;
            }
            // Each part updates each word some times; what is left is the last one's, and the newest before.
            if found * 2 < all {
                break;
            }
            if began.elapsed() > STEP_MAX {
                return Err(format!("{found} of {all} records are still in the changelog"));
            }
        }
        self.start()?;
        self.write("a")?;
        self.until("every word", |count| count.has_all_of("a"))?;
        self.exactly("a")
    }

    fn killed(&mut self) -> Result<(), String> {
        self.write("b")?;
        // In the middle: some of it is counted.
        let before = self.next;
        self.until("more output", |count| count.next > before)?;
        drop(self.instances.pop());
        self.until("every word, some perhaps counted twice", |count| {
            count.has_all_of("b")
        })
    }

    fn exact(&mut self) -> Result<(), String> {
        self.start()?;
        let began = Instant::now();
        while self.states()?.iter().any(|state| state != "RUNNING") {
            if began.elapsed() > STEP_MAX {
                return Err(format!("states {:?}", self.states()?));
            }
            // A pause that takes what comes meanwhile.
            look(self.bootstrap, &self.topic("output"), 0, self.next)?;
        }
        self.write("c")?;
        self.until("every word", |count| count.has_all_of("c"))?;
        self.exactly("c")
    }

    fn states(&mut self) -> Result<Vec<String>, String> {
        let states = self
            .instances
            .iter_mut()
            .map(|instance| instance.request("state", &[]));
        states.map(|state| state.map(|lines| lines.concat())).collect()
    }

    /// The first instance, which has been there all the time, leaves; who is new knows the counts from the changelog alone.
    fn moved(&mut self) -> Result<(), String> {
        let mut first = self.instances.remove(0);
        expect(&first.request("close", &[])?, &vec!["true".to_owned()])?;
        self.write("c")?;
        self.until("every word", |count| count.has_all_of("c"))?;
        self.exactly("c")
    }

    fn logged(&mut self) -> Result<(), String> {
        let mut last = self.instances.remove(0);
        expect(&last.request("close", &[])?, &vec!["true".to_owned()])?;
        let topic = self.topic("counts-changelog");
        let mut logged = Counts::new();
        for partition in 0..PARTITIONS {
            let end = look(self.bootstrap, &topic, partition, 0)?.high_watermark;
            let what = Consume {
                partition,
                ..Consume::start_of(&topic, end as usize)
            };
            for record in self.writer.consume(&what)? {
                let word = String::from_utf8(record.key.unwrap_or_default()).unwrap_or_default();
                let value = record.value.unwrap_or_default();
                let count = value
                    .as_slice()
                    .try_get_i64()
                    .map_err(|_| format!("no count of {word}"))?;
                logged.insert(word, count);
            }
        }
        expect(&logged, &self.table)?;
        let input = self.topic("input");
        let committed = self.writer.committed(&self.application, &input, PARTITIONS)?;
        expect(
            &committed,
            &vec![self.lines / i64::from(PARTITIONS); PARTITIONS as usize],
        )
    }

    fn purged(&mut self) -> Result<(), String> {
        let (changelog, repartition) = (self.topic("counts-changelog"), self.topic("words-repartition"));
        expect(&policy(self.bootstrap, &changelog)?, &"compact".to_owned())?;
        expect(&policy(self.bootstrap, &repartition)?, &"delete".to_owned())?;
        let starts = (0..PARTITIONS).map(|partition| start_of(self.bootstrap, &repartition, partition));
        let starts: Vec<i64> = starts.collect::<Result<_, _>>()?;
        match starts.iter().any(|start| *start > 0) {
            true => Ok(()),
            false => Err(format!("nothing is purged: first offsets {starts:?}")),
        }
    }
}

/// What a fetch tells of a partition; waits a little for something at `offset`.
fn look(bootstrap: &str, topic: &str, partition: i32, offset: i64) -> Result<PartitionData, String> {
    let found = Raw::leader(bootstrap, topic, partition)?.fetch(topic, partition, offset, LOOK_MS)?;
    match found.error_code {
        0 => Ok(found),
        code => Err(format!("{topic}-{partition}: fetch at {offset} answers {code}")),
    }
}

/// The first offset of a partition.
fn start_of(bootstrap: &str, topic: &str, partition: i32) -> Result<i64, String> {
    let wanted = ListOffsetsPartition::default()
        .with_partition_index(partition)
        .with_timestamp(EARLIEST);
    let wanted = ListOffsetsTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(vec![wanted]);
    let request = ListOffsetsRequest::default()
        .with_replica_id((-1).into())
        .with_topics(vec![wanted]);
    let answer = Raw::leader(bootstrap, topic, partition)?.call(2, &request)?;
    let mut found = answer.topics.iter().flat_map(|topic| &topic.partitions);
    found
        .next()
        .map(|found| found.offset)
        .ok_or_else(|| format!("no offset of {topic}-{partition}"))
}

/// `cleanup.policy` of a topic.
fn policy(bootstrap: &str, topic: &str) -> Result<String, String> {
    let name = |text: &str| StrBytes::from_string(text.to_owned());
    let resource = DescribeConfigsResource::default()
        .with_resource_type(TOPIC)
        .with_resource_name(name(topic))
        .with_configuration_keys(Some(vec![name("cleanup.policy")]));
    let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
    let answer = Raw::connect(bootstrap)?.call(1, &request)?;
    let configs = answer.results.iter().flat_map(|result| &result.configs);
    let value = configs.filter_map(|config| config.value.as_ref()).next();
    value
        .map(|value| value.to_string())
        .ok_or_else(|| format!("{topic} has no cleanup.policy"))
}
