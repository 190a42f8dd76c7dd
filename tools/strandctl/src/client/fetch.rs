//! Fetching: one lane a broker, so that a broker with nothing to say never holds up another.

use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use strandline_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use strandline_wire::messages::fetch_response::FetchResponse;
use strandline_wire::messages::{BrokerId as WireBrokerId, FetchRequest, TopicName};
use strandline_wire::protocol::StrBytes;

use super::{BrokerId, ClientError, Connection, check};
use crate::client_config::{Address, ClientConfig};

/// The last version of Fetch that names topics by name: the name is what the user asked for.
const HIGHEST_VERSION: i16 = 12;

/// Which partitions to fetch, from which offsets.
#[derive(Debug)]
pub struct FetchPlan {
    /// The topic.
    pub topic: String,
    /// Partition and offset.
    pub positions: Vec<(i32, i64)>,
}

/// What a broker gave for one partition.
#[derive(Debug)]
pub struct Fetched {
    /// The partition.
    pub partition: i32,
    /// The records, or the broker's refusal.
    pub result: Result<FetchedRecords, ClientError>,
}

/// Records of one partition.
#[derive(Debug)]
pub struct FetchedRecords {
    /// Whole batches, the first of which may begin before the offset asked for.
    pub records: Bytes,
    /// Transactions aborted among them: producer id and first offset. Only under `read_committed`.
    pub aborted: Vec<(i64, i64)>,
}

/// What came of one plan.
#[derive(Debug)]
pub struct LaneResult {
    /// The lane's broker.
    pub broker: BrokerId,
    /// The partitions of the plan.
    pub partitions: Vec<i32>,
    /// The answer, or why there is none; the lane has ended then.
    pub outcome: Result<Vec<Fetched>, ClientError>,
}

/// A thread that fetches from one broker, one plan after the other. It ends when it is dropped or its connection fails.
#[derive(Debug)]
pub struct Lane {
    plans: SyncSender<FetchPlan>,
}

impl Lane {
    /// Starts a lane; its results go to `results`.
    pub fn start(
        broker: BrokerId,
        address: Address,
        config: ClientConfig,
        results: Sender<LaneResult>,
    ) -> Self {
        // One plan at a time: the next needs the offsets that this one's answer moves.
        let (plans, incoming) = sync_channel::<FetchPlan>(1);
        thread::spawn(move || {
            let mut connection = None;
            for plan in incoming {
                let partitions = plan.positions.iter().map(|&(partition, _)| partition).collect();
                let outcome = fetch(&mut connection, &address, &config, &plan);
                let failed = outcome.is_err();
                if results
                    .send(LaneResult {
                        broker,
                        partitions,
                        outcome,
                    })
                    .is_err()
                    || failed
                {
                    return;
                }
            }
        });
        Self { plans }
    }

    /// Hands the lane its next plan. Returns false when the lane has ended.
    pub fn fetch(&self, plan: FetchPlan) -> bool {
        self.plans.send(plan).is_ok()
    }
}

fn fetch(
    slot: &mut Option<Connection>,
    address: &Address,
    config: &ClientConfig,
    plan: &FetchPlan,
) -> Result<Vec<Fetched>, ClientError> {
    let connection = match slot {
        Some(connection) => connection,
        None => slot.insert(Connection::open(address, config)?),
    };
    let version = connection.version::<FetchRequest>(HIGHEST_VERSION)?;
    let response = connection.call(version, &request(config, plan))?;
    check(format!("fetch from {address}"), response.error_code, None)?;
    Ok(unpack(&plan.topic, response))
}

fn request(config: &ClientConfig, plan: &FetchPlan) -> FetchRequest {
    let partitions = plan
        .positions
        .iter()
        .map(|&(partition, offset)| {
            FetchPartition::default()
                .with_partition(partition)
                .with_current_leader_epoch(-1)
                .with_fetch_offset(offset)
                .with_log_start_offset(-1)
                .with_partition_max_bytes(config.partition_fetch_max_bytes)
        })
        .collect();
    let topic = FetchTopic::default()
        .with_topic(TopicName(StrBytes::from_string(plan.topic.clone())))
        .with_partitions(partitions);
    // No session: the few partitions of one command are not worth the broker's memory.
    FetchRequest::default()
        .with_replica_id(WireBrokerId(-1))
        .with_max_wait_ms(max_wait(config).as_millis() as i32)
        .with_min_bytes(config.fetch_min_bytes)
        .with_max_bytes(config.fetch_max_bytes)
        .with_isolation_level(i8::from(config.read_committed))
        .with_session_epoch(-1)
        .with_topics(vec![topic])
}

/// A long poll must end before the wait for its answer does.
fn max_wait(config: &ClientConfig) -> Duration {
    config.fetch_max_wait.min(config.request_timeout / 2)
}

fn unpack(topic: &str, response: FetchResponse) -> Vec<Fetched> {
    let partitions = response.responses.into_iter().flat_map(|topic| topic.partitions);
    partitions
        .map(|answer| {
            let partition = answer.partition_index;
            let aborted = answer.aborted_transactions.unwrap_or_default();
            let result =
                check(format!("{topic}-{partition}"), answer.error_code, None).map(|()| FetchedRecords {
                    records: answer.records.unwrap_or_default(),
                    aborted: aborted
                        .iter()
                        .map(|aborted| (aborted.producer_id.0, aborted.first_offset))
                        .collect(),
                });
            Fetched { partition, result }
        })
        .collect()
}
