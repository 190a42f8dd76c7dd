//! The advertised version ranges against those of Apache Kafka 4.2.

use super::expect;
use crate::raw::Raw;
use crate::report::Report;

/// Key, name, first and last version that Kafka 4.2 advertises to clients.
const KAFKA: &[(i16, &str, i16, i16)] = &[
    (0, "Produce", 0, 13),
    (1, "Fetch", 4, 18),
    (2, "ListOffsets", 1, 11),
    (3, "Metadata", 0, 13),
    (8, "OffsetCommit", 2, 10),
    (9, "OffsetFetch", 1, 10),
    (10, "FindCoordinator", 0, 6),
    (11, "JoinGroup", 0, 9),
    (12, "Heartbeat", 0, 4),
    (13, "LeaveGroup", 0, 5),
    (14, "SyncGroup", 0, 5),
    (15, "DescribeGroups", 0, 6),
    (16, "ListGroups", 0, 5),
    (17, "SaslHandshake", 0, 1),
    (18, "ApiVersions", 0, 4),
    (19, "CreateTopics", 2, 7),
    (20, "DeleteTopics", 1, 6),
    (21, "DeleteRecords", 0, 2),
    (22, "InitProducerId", 0, 5),
    (23, "OffsetForLeaderEpoch", 2, 4),
    (24, "AddPartitionsToTxn", 0, 5),
    (25, "AddOffsetsToTxn", 0, 4),
    (26, "EndTxn", 0, 5),
    (27, "WriteTxnMarkers", 1, 2),
    (28, "TxnOffsetCommit", 0, 5),
    (29, "DescribeAcls", 1, 3),
    (30, "CreateAcls", 1, 3),
    (31, "DeleteAcls", 1, 3),
    (32, "DescribeConfigs", 1, 4),
    (33, "AlterConfigs", 0, 2),
    (34, "AlterReplicaLogDirs", 1, 2),
    (35, "DescribeLogDirs", 1, 4),
    (36, "SaslAuthenticate", 0, 2),
    (37, "CreatePartitions", 0, 3),
    (38, "CreateDelegationToken", 1, 3),
    (39, "RenewDelegationToken", 1, 2),
    (40, "ExpireDelegationToken", 1, 2),
    (41, "DescribeDelegationToken", 1, 3),
    (42, "DeleteGroups", 0, 2),
    (43, "ElectLeaders", 0, 2),
    (44, "IncrementalAlterConfigs", 0, 1),
    (45, "AlterPartitionReassignments", 0, 1),
    (46, "ListPartitionReassignments", 0, 0),
    (47, "OffsetDelete", 0, 0),
    (48, "DescribeClientQuotas", 0, 1),
    (49, "AlterClientQuotas", 0, 1),
    (50, "DescribeUserScramCredentials", 0, 0),
    (51, "AlterUserScramCredentials", 0, 0),
    (55, "DescribeQuorum", 0, 2),
    (57, "UpdateFeatures", 0, 2),
    (60, "DescribeCluster", 0, 2),
    (61, "DescribeProducers", 0, 0),
    (64, "UnregisterBroker", 0, 0),
    (65, "DescribeTransactions", 0, 0),
    (66, "ListTransactions", 0, 2),
    (68, "ConsumerGroupHeartbeat", 0, 1),
    (69, "ConsumerGroupDescribe", 0, 1),
    (74, "ListConfigResources", 0, 1),
    (75, "DescribeTopicPartitions", 0, 0),
    (76, "ShareGroupHeartbeat", 1, 1),
    (77, "ShareGroupDescribe", 1, 1),
    (78, "ShareFetch", 1, 2),
    (79, "ShareAcknowledge", 1, 2),
    (80, "AddRaftVoter", 0, 1),
    (81, "RemoveRaftVoter", 0, 0),
    (88, "StreamsGroupHeartbeat", 0, 0),
    (89, "StreamsGroupDescribe", 0, 0),
    (90, "DescribeShareGroupOffsets", 0, 1),
    (91, "AlterShareGroupOffsets", 0, 0),
    (92, "DeleteShareGroupOffsets", 0, 0),
];

/// Served, but in another range than Kafka's: key, our range, why.
const DIFFERENCES: &[(i16, i16, i16, &str)] = &[
    (10, 0, 5, "version 6 adds share groups, which are not served"),
    (
        80,
        0,
        0,
        "version 1 asks to be answered before the voters know, which is not done",
    ),
];

/// Not served yet: the first key and the last, why. An API that joins must leave this table.
const NOT_SERVED: &[(&[i16], &str)] = &[
    (&[24, 25, 26, 27, 28, 61, 65, 66], "transactions"),
    (
        &[17, 36, 29, 30, 31, 38, 39, 40, 41, 50, 51],
        "authentication and authorization",
    ),
    (&[34, 57], "the cluster: replication"),
    (&[48, 49], "client quotas"),
    (&[76, 77, 78, 79, 90, 91, 92], "share groups"),
    (&[88, 89], "streams groups"),
];

/// Compares the whole answer; `peer` is a real Kafka, which has no differences and may have more APIs.
pub(crate) fn run(report: &mut Report, bootstrap: &str, peer: bool) {
    report.begin("advertised api ranges");
    match Raw::connect(bootstrap).and_then(|mut raw| raw.api_ranges()) {
        Ok(ranges) => compare(report, &ranges, peer),
        Err(why) => {
            report.check("ApiVersions answers", Err(why));
        }
    }
    report.end();
}

fn compare(report: &mut Report, ranges: &[(i16, i16, i16)], peer: bool) {
    for (key, name, first, last) in KAFKA {
        let found = ranges
            .iter()
            .find(|range| range.0 == *key)
            .map(|range| (range.1, range.2));
        let right = if peer {
            Some((*first, *last))
        } else {
            ours(*key, *first, *last)
        };
        report.check(name, expect(&found, &right));
    }
    let unknown: Vec<i16> = ranges
        .iter()
        .map(|range| range.0)
        .filter(|key| !KAFKA.iter().any(|row| row.0 == *key))
        .collect();
    if peer {
        report.note(&format!("keys outside of the table: {unknown:?}"));
        return;
    }
    report.check("no api outside of the table", expect(&unknown, &Vec::new()));
    for (keys, why) in NOT_SERVED {
        report.note(&format!("{} apis not served: {why}", keys.len()));
    }
    for (key, first, last, why) in DIFFERENCES {
        report.note(&format!("key {key} in {first}-{last}: {why}"));
    }
}

/// The range that Strandline is to advertise.
fn ours(key: i16, first: i16, last: i16) -> Option<(i16, i16)> {
    if NOT_SERVED.iter().any(|(keys, _)| keys.contains(&key)) {
        return None;
    }
    let different = DIFFERENCES.iter().find(|row| row.0 == key);
    Some(different.map_or((first, last), |row| (row.1, row.2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_agree_with_each_other() {
        let known = |key: &i16| KAFKA.iter().any(|row| row.0 == *key);
        assert!(KAFKA.is_sorted_by(|one, next| one.0 < next.0));
        assert!(NOT_SERVED.iter().flat_map(|(keys, _)| keys.iter()).all(known));
        assert!(
            DIFFERENCES
                .iter()
                .all(|row| known(&row.0) && ours(row.0, 0, 0).is_some())
        );
    }
}
