//! The APIs of Kafka 4.2: key, name, first flexible version, and the versions this broker serves.
//!
//! One table feeds everything that asks about versions: headers, the ApiVersions answer, the length guard. An API is
//! marked as served only once it is implemented; the ranges are those of Apache Kafka 4.2.

/// A version that no API reaches: the API has no flexible version.
const NEVER: i16 = i16::MAX;

macro_rules! served {
    (nothing) => {
        None
    };
    ($min:literal..=$max:literal) => {
        Some(($min, $max))
    };
}

macro_rules! api_table {
    ($($variant:ident = $key:literal, flexible from $flexible:expr, serves [$($served:tt)*];)*) => {
        /// A client-facing API of Kafka, served here or not.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ApiKey {
            $(
                #[doc = concat!("API key ", $key, ".")]
                $variant = $key,
            )*
        }

        impl ApiKey {
            /// Every API, in the order of the keys.
            pub const ALL: &'static [ApiKey] = &[$(ApiKey::$variant,)*];

            /// The API of a key from the wire, `None` for a key Kafka 4.2 does not have.
            pub const fn from_key(key: i16) -> Option<Self> {
                match key {
                    $($key => Some(ApiKey::$variant),)*
                    _ => None,
                }
            }

            /// Kafka's name, for example `OffsetForLeaderEpoch`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(ApiKey::$variant => stringify!($variant),)*
                }
            }

            /// The first version with the compact encoding and tagged fields (KIP-482).
            pub const fn first_flexible_version(self) -> i16 {
                match self {
                    $(ApiKey::$variant => $flexible,)*
                }
            }
        }

        /// The versions this broker serves, first and last, or `None` when it does not serve the API.
        pub const fn supported_versions(api: ApiKey) -> Option<(i16, i16)> {
            match api {
                $(ApiKey::$variant => served!($($served)*),)*
            }
        }
    };
}

api_table! {
    Produce = 0, flexible from 9, serves [0..=13];
    Fetch = 1, flexible from 12, serves [4..=18];
    ListOffsets = 2, flexible from 6, serves [1..=11];
    Metadata = 3, flexible from 9, serves [0..=13];
    OffsetCommit = 8, flexible from 8, serves [2..=10];
    OffsetFetch = 9, flexible from 6, serves [1..=10];
    FindCoordinator = 10, flexible from 3, serves [0..=5];
    JoinGroup = 11, flexible from 6, serves [0..=9];
    Heartbeat = 12, flexible from 4, serves [0..=4];
    LeaveGroup = 13, flexible from 4, serves [0..=5];
    SyncGroup = 14, flexible from 4, serves [0..=5];
    DescribeGroups = 15, flexible from 5, serves [0..=6];
    ListGroups = 16, flexible from 3, serves [0..=5];
    SaslHandshake = 17, flexible from NEVER, serves [nothing];
    ApiVersions = 18, flexible from 3, serves [0..=4];
    CreateTopics = 19, flexible from 5, serves [2..=7];
    DeleteTopics = 20, flexible from 4, serves [1..=6];
    DeleteRecords = 21, flexible from 2, serves [0..=2];
    InitProducerId = 22, flexible from 2, serves [0..=5];
    OffsetForLeaderEpoch = 23, flexible from 4, serves [2..=4];
    AddPartitionsToTxn = 24, flexible from 3, serves [nothing];
    AddOffsetsToTxn = 25, flexible from 3, serves [nothing];
    EndTxn = 26, flexible from 3, serves [nothing];
    WriteTxnMarkers = 27, flexible from 1, serves [nothing];
    TxnOffsetCommit = 28, flexible from 3, serves [nothing];
    DescribeAcls = 29, flexible from 2, serves [nothing];
    CreateAcls = 30, flexible from 2, serves [nothing];
    DeleteAcls = 31, flexible from 2, serves [nothing];
    DescribeConfigs = 32, flexible from 4, serves [1..=4];
    AlterConfigs = 33, flexible from 2, serves [0..=2];
    AlterReplicaLogDirs = 34, flexible from 2, serves [nothing];
    DescribeLogDirs = 35, flexible from 2, serves [1..=4];
    SaslAuthenticate = 36, flexible from 2, serves [nothing];
    CreatePartitions = 37, flexible from 2, serves [0..=3];
    CreateDelegationToken = 38, flexible from 2, serves [nothing];
    RenewDelegationToken = 39, flexible from 2, serves [nothing];
    ExpireDelegationToken = 40, flexible from 2, serves [nothing];
    DescribeDelegationToken = 41, flexible from 2, serves [nothing];
    DeleteGroups = 42, flexible from 2, serves [0..=2];
    ElectLeaders = 43, flexible from 2, serves [0..=2];
    IncrementalAlterConfigs = 44, flexible from 1, serves [0..=1];
    AlterPartitionReassignments = 45, flexible from 0, serves [0..=1];
    ListPartitionReassignments = 46, flexible from 0, serves [0..=0];
    OffsetDelete = 47, flexible from NEVER, serves [0..=0];
    DescribeClientQuotas = 48, flexible from 1, serves [nothing];
    AlterClientQuotas = 49, flexible from 1, serves [nothing];
    DescribeUserScramCredentials = 50, flexible from 0, serves [nothing];
    AlterUserScramCredentials = 51, flexible from 0, serves [nothing];
    DescribeQuorum = 55, flexible from 0, serves [0..=2];
    UpdateFeatures = 57, flexible from 0, serves [nothing];
    DescribeCluster = 60, flexible from 0, serves [0..=2];
    DescribeProducers = 61, flexible from 0, serves [nothing];
    UnregisterBroker = 64, flexible from 0, serves [0..=0];
    DescribeTransactions = 65, flexible from 0, serves [nothing];
    ListTransactions = 66, flexible from 0, serves [nothing];
    ConsumerGroupHeartbeat = 68, flexible from 0, serves [0..=1];
    ConsumerGroupDescribe = 69, flexible from 0, serves [0..=1];
    GetTelemetrySubscriptions = 71, flexible from 0, serves [nothing];
    PushTelemetry = 72, flexible from 0, serves [nothing];
    ListConfigResources = 74, flexible from 0, serves [0..=1];
    DescribeTopicPartitions = 75, flexible from 0, serves [0..=0];
    ShareGroupHeartbeat = 76, flexible from 0, serves [nothing];
    ShareGroupDescribe = 77, flexible from 0, serves [nothing];
    ShareFetch = 78, flexible from 0, serves [nothing];
    ShareAcknowledge = 79, flexible from 0, serves [nothing];
    AddRaftVoter = 80, flexible from 0, serves [0..=0];
    RemoveRaftVoter = 81, flexible from 0, serves [0..=0];
    InitializeShareGroupState = 83, flexible from 0, serves [nothing];
    ReadShareGroupState = 84, flexible from 0, serves [nothing];
    WriteShareGroupState = 85, flexible from 0, serves [nothing];
    DeleteShareGroupState = 86, flexible from 0, serves [nothing];
    ReadShareGroupStateSummary = 87, flexible from 0, serves [nothing];
    StreamsGroupHeartbeat = 88, flexible from 0, serves [nothing];
    StreamsGroupDescribe = 89, flexible from 0, serves [nothing];
    DescribeShareGroupOffsets = 90, flexible from 0, serves [nothing];
    AlterShareGroupOffsets = 91, flexible from 0, serves [nothing];
    DeleteShareGroupOffsets = 92, flexible from 0, serves [nothing];
}

/// One row of the ApiVersions answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiVersionRange {
    /// The API.
    pub api: ApiKey,
    /// The first version served.
    pub min_version: i16,
    /// The last version served.
    pub max_version: i16,
}

const ADVERTISED_LEN: usize = {
    let mut count = 0;
    let mut at = 0;
    while at < ApiKey::ALL.len() {
        if supported_versions(ApiKey::ALL[at]).is_some() {
            count += 1;
        }
        at += 1;
    }
    count
};

/// What ApiVersions answers, in the order of the keys.
///
/// Produce reads 0 as its minimum although versions 0 to 2 are rejected: librdkafka before 2.11.1 turns compression off
/// otherwise (Kafka fakes the same, KIP-896).
pub const ADVERTISED: &[ApiVersionRange] = &{
    let mut rows = [ApiVersionRange {
        api: ApiKey::Produce,
        min_version: 0,
        max_version: 0,
    }; ADVERTISED_LEN];
    let mut row = 0;
    let mut at = 0;
    while at < ApiKey::ALL.len() {
        let api = ApiKey::ALL[at];
        if let Some((min_version, max_version)) = supported_versions(api) {
            rows[row] = ApiVersionRange {
                api,
                min_version,
                max_version,
            };
            row += 1;
        }
        at += 1;
    }
    rows
};

impl ApiKey {
    /// The key on the wire.
    pub const fn key(self) -> i16 {
        self as i16
    }

    /// True when this broker serves this version of the API.
    pub const fn is_supported(self, version: i16) -> bool {
        match supported_versions(self) {
            Some((min, max)) => min <= version && version <= max,
            None => false,
        }
    }
}

/// True when a version of an API uses the compact encoding and tagged fields. False for an unknown key.
pub const fn is_flexible(api_key: i16, version: i16) -> bool {
    match ApiKey::from_key(api_key) {
        Some(api) => version >= api.first_flexible_version(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_key_order_and_round_trips() {
        assert!(ApiKey::ALL.windows(2).all(|pair| pair[0] < pair[1]));
        for api in ApiKey::ALL {
            assert_eq!(ApiKey::from_key(api.key()), Some(*api));
        }
        assert_eq!(ApiKey::from_key(4), None);
        assert_eq!(ApiKey::from_key(-1), None);
    }

    #[test]
    fn advertised_rows_are_the_served_apis() {
        let served = ApiKey::ALL
            .iter()
            .filter(|api| supported_versions(**api).is_some());
        assert_eq!(ADVERTISED.len(), served.count());
        for row in ADVERTISED {
            assert_eq!(
                supported_versions(row.api),
                Some((row.min_version, row.max_version))
            );
        }
        assert_eq!(
            ADVERTISED[0],
            ApiVersionRange {
                api: ApiKey::Produce,
                min_version: 0,
                max_version: 13
            }
        );
    }

    #[test]
    fn kafka_protocol_agrees_on_where_flexible_versions_start() {
        for api in ApiKey::ALL {
            let Ok(theirs) = kafka_protocol::messages::ApiKey::try_from(api.key()) else {
                continue;
            };
            if *api == ApiKey::SaslHandshake || *api == ApiKey::OffsetDelete {
                continue; // no flexible version: their answer is about versions that do not exist
            }
            let range = theirs.valid_versions();
            for version in range.min..=range.max {
                let flexible = theirs.request_header_version(version) >= 2;
                assert_eq!(
                    is_flexible(api.key(), version),
                    flexible,
                    "{} v{version}",
                    api.name()
                );
            }
        }
    }
}
