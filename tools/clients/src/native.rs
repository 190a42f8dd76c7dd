//! The `rdkafka` crate: librdkafka in this process.

use crate::client::{Check, Client, Consume, Produce};
use crate::record::Record;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, DeliveryResult, Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(30);

/// librdkafka as this workspace builds it.
pub(crate) struct Native {
    bootstrap: String,
}

impl Native {
    /// A client of the broker at `bootstrap`.
    pub(crate) fn new(bootstrap: &str) -> Self {
        Self {
            bootstrap: bootstrap.to_owned(),
        }
    }
}

impl Native {
    /// What a group has committed for each partition of a topic, -1001 where nothing.
    pub(crate) fn committed(&self, group: &str, topic: &str, partitions: i32) -> Result<Vec<i64>, String> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap)
            .set("group.id", group)
            .create()
            .map_err(text)?;
        let mut asked = TopicPartitionList::new();
        asked.add_partition_range(topic, 0, partitions - 1);
        let found = consumer.committed_offsets(asked, TIMEOUT).map_err(text)?;
        let offset = |element: rdkafka::topic_partition_list::TopicPartitionListElem<'_>| {
            element.offset().to_raw().unwrap_or(-1)
        };
        Ok(found.elements().into_iter().map(offset).collect())
    }

    /// Commits an offset for a group without being a member of it.
    pub(crate) fn commit(&self, group: &str, topic: &str, partition: i32, offset: i64) -> Result<(), String> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap)
            .set("group.id", group)
            .create()
            .map_err(text)?;
        let mut offsets = TopicPartitionList::new();
        offsets
            .add_partition_offset(topic, partition, Offset::Offset(offset))
            .map_err(text)?;
        consumer.commit(&offsets, CommitMode::Sync).map_err(text)
    }
}

impl Native {
    /// Reads from the start up to `last`, with a pause after each record, and little ahead; where the log starts later by then,
    /// from there. The offsets read.
    pub(crate) fn follow(&self, topic: &str, last: i64, pause: Duration) -> Result<Vec<i64>, String> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap)
            .set("group.id", "unused")
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "earliest")
            .set("queued.min.messages", "1")
            .set("message.max.bytes", "1000")
            .set("fetch.max.bytes", "1000")
            .set("max.partition.fetch.bytes", "1")
            .create()
            .map_err(text)?;
        let mut assignment = TopicPartitionList::new();
        assignment
            .add_partition_offset(topic, 0, Offset::Beginning)
            .map_err(text)?;
        consumer.assign(&assignment).map_err(text)?;
        let mut offsets = Vec::new();
        let mut deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            match consumer.poll(Duration::from_secs(1)) {
                Some(Ok(message)) => {
                    offsets.push(message.offset());
                    if message.offset() >= last {
                        return Ok(offsets);
                    }
                    deadline = Instant::now() + TIMEOUT;
                    std::thread::sleep(pause);
                }
                Some(Err(error)) => return Err(text(error)),
                None => {}
            }
        }
        Err(format!("nothing came after {:?}", offsets.last()))
    }
}

impl Native {
    /// Reads a partition from each of `starts` up to the record at `end` - 1; the offsets read each time.
    pub(crate) fn tails(
        &self,
        topic: &str,
        partition: i32,
        end: i64,
        starts: std::ops::Range<i64>,
    ) -> Result<Vec<Vec<i64>>, String> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap)
            .set("group.id", "unused")
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "error")
            // A fetch that waits at the end would hold up the next start.
            .set("fetch.wait.max.ms", "10")
            .create()
            .map_err(text)?;
        let mut tails = Vec::new();
        for start in starts {
            let mut assignment = TopicPartitionList::new();
            assignment
                .add_partition_offset(topic, partition, Offset::Offset(start))
                .map_err(text)?;
            consumer.assign(&assignment).map_err(text)?;
            let (mut offsets, deadline) = (Vec::new(), Instant::now() + TIMEOUT);
            while offsets.last() != Some(&(end - 1)) && Instant::now() < deadline {
                match consumer.poll(Duration::from_secs(1)) {
                    Some(Ok(message)) => offsets.push(message.offset()),
                    Some(Err(error)) => return Err(text(error)),
                    None => {}
                }
            }
            tails.push(offsets);
        }
        Ok(tails)
    }
}

/// Collects what was delivered, by the index of the record.
struct Deliveries(Mutex<Vec<Result<i64, String>>>);

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, index: usize) {
        let outcome = match result {
            Ok(message) => Ok(message.offset()),
            Err((error, _)) => Err(error.to_string()),
        };
        if let Ok(mut all) = self.0.lock() {
            all[index] = outcome;
        }
    }
}

impl Client for Native {
    fn name(&self) -> &str {
        "rdkafka"
    }

    fn produce(&mut self, how: &Produce<'_>, records: &[Record]) -> Result<Vec<i64>, String> {
        let pending = (0..records.len())
            .map(|_| Err("not delivered".to_owned()))
            .collect();
        let producer: BaseProducer<Deliveries> = ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap)
            .set("compression.type", how.codec)
            .set("acks", how.acks)
            .set("enable.idempotence", how.idempotent.to_string())
            .set("linger.ms", "20")
            .set("message.max.bytes", "10000000")
            .create_with_context(Deliveries(Mutex::new(pending)))
            .map_err(text)?;
        for (index, record) in records.iter().enumerate() {
            let partition = i32::try_from(record.place).map_err(|error| error.to_string())?;
            let mut out: BaseRecord<'_, [u8], [u8], usize> =
                BaseRecord::with_opaque_to(how.topic, index).partition(partition);
            (out.key, out.payload) = (record.key.as_deref(), record.value.as_deref());
            out.timestamp = (record.timestamp >= 0).then_some(record.timestamp);
            if !record.headers.is_empty() {
                let mut headers = OwnedHeaders::new();
                for (key, value) in &record.headers {
                    headers = headers.insert(Header {
                        key,
                        value: value.as_deref(),
                    });
                }
                out.headers = Some(headers);
            }
            producer.send(out).map_err(|(error, _)| text(error))?;
            producer.poll(Duration::ZERO);
        }
        producer.flush(TIMEOUT).map_err(text)?;
        let outcomes = producer.context().0.lock().map_err(|error| error.to_string())?;
        outcomes.iter().cloned().collect()
    }

    fn consume(&mut self, what: &Consume<'_>) -> Result<Vec<Record>, String> {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.bootstrap)
            .set("group.id", "unused");
        config
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "error");
        if let Some(bytes) = what.fetch_max {
            // librdkafka wants these two to be at least 1000 and in this order.
            config
                .set("message.max.bytes", "1000")
                .set("fetch.max.bytes", "1000");
            config.set("max.partition.fetch.bytes", bytes.to_string());
        }
        let consumer: BaseConsumer = config.create().map_err(text)?;
        let mut assignment = TopicPartitionList::new();
        assignment
            .add_partition_offset(what.topic, what.partition, Offset::Offset(what.from))
            .map_err(text)?;
        consumer.assign(&assignment).map_err(text)?;
        let (mut records, deadline) = (Vec::new(), Instant::now() + TIMEOUT);
        while records.len() < what.count && Instant::now() < deadline {
            match consumer.poll(Duration::from_secs(1)) {
                Some(Ok(message)) => records.push(record(&message)),
                Some(Err(error)) if is_passing(&error) => {}
                Some(Err(error)) => return Err(text(error)),
                None => {}
            }
        }
        Ok(records)
    }

    fn admin(&mut self, _topic: &str) -> Option<Result<Vec<Check>, String>> {
        None
    }
}

/// Whether a broker is away: the library tells it among the records, and goes on.
pub(crate) fn is_passing(error: &KafkaError) -> bool {
    matches!(
        error,
        KafkaError::MessageConsumption(
            RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::AllBrokersDown
        )
    )
}

fn text(error: KafkaError) -> String {
    error.to_string()
}

fn record(message: &BorrowedMessage<'_>) -> Record {
    let header = |header: Header<'_, &[u8]>| (header.key.to_owned(), header.value.map(<[u8]>::to_vec));
    Record {
        place: message.offset(),
        timestamp: message.timestamp().to_millis().unwrap_or(-1),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: message
            .headers()
            .map(|headers| headers.iter().map(header).collect())
            .unwrap_or_default(),
    }
}
