//! What `/metrics` says of groups, whatever they are called (field report B49).

#![allow(clippy::unwrap_used)]

mod support;

use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::{DeleteGroupsRequest, DeleteTopicsRequest};
use support::group::{Member, commit, committed, coordinator, describe, group_id};
use support::http::{Labels, metrics};
use support::topic::{create, name};
use support::{Batch, Broker, Partition};

const QUICK: &str = "group.initial.rebalance.delay.ms=0";
const INVALID_GROUP_ID: i16 = 24;
const LAG: &str = "strandline_group_lag";
const COMMITTED: &str = "strandline_group_committed_offset";

/// Two shards, and `t` with four partitions, of which partition n has 10 + n records.
fn broker(settings: &[&str]) -> Broker {
    let mut arguments = vec!["--shards", "2"];
    for setting in settings {
        arguments.extend(["--set", setting]);
    }
    let broker = Broker::start_with(&arguments);
    create(&mut broker.client(), "t", 4, &[]);
    for number in 0..4 {
        let mut partition = Partition::find(&broker, "t", number);
        partition.append(&Batch::of_values((0..10 + number).map(|_| "value")));
    }
    broker
}

/// The series of a group of one metric: topic, partition, value.
fn told(broker: &Broker, metric: &str, group: &str) -> Vec<(String, i32, f64)> {
    let of_group = |labels: &Labels| labels.get("group").is_some_and(|name| name == group);
    let page = metrics(broker);
    let series = page
        .iter()
        .filter(|((name, labels), _)| name == metric && of_group(labels));
    series
        .map(|((_, labels), value)| {
            (
                labels["topic"].clone(),
                labels["partition"].parse().unwrap(),
                *value,
            )
        })
        .collect()
}

fn row(partition: i32, value: f64) -> (String, i32, f64) {
    ("t".to_owned(), partition, value)
}

fn delete_group(broker: &Broker, group: &str) {
    let request = DeleteGroupsRequest::default().with_groups_names(vec![group_id(group)]);
    let answer = coordinator(broker, group).call(2, &request);
    assert_eq!(answer.results[0].error_code, 0);
}

#[test]
fn lag_is_told_wherever_partition_and_coordinator_are() {
    let broker = broker(&[]);
    // Coordinators on both shards: each group reads all partitions.
    for group in ["a", "b", "c", "d"] {
        let mut client = coordinator(&broker, group);
        for partition in 0..4 {
            assert_eq!(commit(&mut client, group, "t", partition, 4), 0);
        }
    }
    for group in ["a", "b", "c", "d"] {
        assert_eq!(
            told(&broker, COMMITTED, group),
            (0..4).map(|number| row(number, 4.0)).collect::<Vec<_>>()
        );
        let right: Vec<_> = (0..4).map(|number| row(number, f64::from(6 + number))).collect();
        assert_eq!(told(&broker, LAG, group), right);
    }
    let page = metrics(&broker);
    let groups = page.iter().filter(|((name, _), _)| name == "strandline_groups");
    let brokers: Vec<_> = groups
        .map(|((_, labels), count)| {
            let kind = format!("{} {}", labels["type"], labels["state"]);
            (labels["broker"].as_str(), kind, *count)
        })
        .collect();
    assert_eq!(brokers.iter().map(|(_, _, count)| count).sum::<f64>(), 4.0);
    assert_eq!(brokers.len(), 2, "{brokers:?}");
    assert!(brokers.iter().all(|(_, state, _)| *state == "classic Empty"));

    // What goes on shows at the next scrape; what retention took away is no lag; none is below zero.
    Partition::find(&broker, "t", 0).append(&Batch::of_values(["more"]));
    assert_eq!(Partition::find(&broker, "t", 1).delete_records(9).error_code, 0);
    assert_eq!(commit(&mut coordinator(&broker, "a"), "a", "t", 2, 99), 0);
    assert_eq!(
        told(&broker, LAG, "a"),
        [row(0, 7.0), row(1, 2.0), row(2, 0.0), row(3, 9.0)]
    );

    // Groups and topics take their series with them.
    delete_group(&broker, "b");
    assert_eq!(told(&broker, LAG, "b"), []);
    assert_eq!(told(&broker, COMMITTED, "b"), []);
    let topic = DeleteTopicState::default().with_name(Some(name("t")));
    let request = DeleteTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(10_000);
    assert_eq!(broker.client().call(6, &request).responses[0].error_code, 0);
    for group in ["a", "c", "d"] {
        assert_eq!(told(&broker, LAG, group), []);
        assert_eq!(told(&broker, COMMITTED, group), []);
    }
}

#[test]
fn a_group_may_be_called_anything() {
    let broker = broker(&[QUICK]);
    let names = [
        "quo\"te".to_owned(),
        "back\\slash".to_owned(),
        "back\\".to_owned(),
        "new\nline".to_owned(),
        "\\n".to_owned(),
        "{group=\"x\",topic=\"y\"} 1".to_owned(),
        "# EOF\n# EOF".to_owned(),
        "ü".repeat(200),
        "a space".to_owned(),
        " ".to_owned(),
        "\r\t\u{1b}[2J\u{0}\u{2028}".to_owned(),
        "x".repeat(30_000),
    ];
    for name in &names {
        let mut member = Member::new(&broker, name);
        member.join_alone();
        assert_eq!(member.commit("t", 0, 3), 0, "{name:?}");
        assert_eq!(committed(&mut member.client, name, "t", 0), 3);
        let described = describe(&mut member.client, name);
        assert_eq!(
            (described.group_id.as_str(), described.members.len()),
            (name.as_str(), 1)
        );
        assert_eq!(member.leave(), 0);
    }
    // The empty name is no group to join, but offsets may be kept under it, as in Kafka.
    let mut nameless = Member::new(&broker, "");
    nameless.send_join(5);
    assert_eq!(nameless.receive_join(5).error_code, INVALID_GROUP_ID);
    let mut client = coordinator(&broker, "");
    assert_eq!(commit(&mut client, "", "t", 1, 5), 0);
    assert_eq!(committed(&mut client, "", "t", 1), 5);

    for name in &names {
        assert_eq!(told(&broker, LAG, name), [row(0, 7.0)], "{name:?}");
    }
    assert_eq!(told(&broker, LAG, ""), [row(1, 6.0)]);
    for name in &names {
        delete_group(&broker, name);
    }
    let of_groups = |labels: &Labels| labels.get("group").is_some_and(|group| !group.is_empty());
    assert_eq!(
        metrics(&broker)
            .keys()
            .filter(|(_, labels)| of_groups(labels))
            .count(),
        0
    );
}

#[test]
fn the_page_says_how_much_it_leaves_out() {
    for (max, shown, left_out) in [("5", 5, 3.0), ("0", 0, 8.0)] {
        let max = format!("strandline.metrics.group.partitions.max={max}");
        // One shard coordinates, so that its bound is the page's.
        let broker = Broker::start_set(&[&max]);
        create(&mut broker.client(), "t", 4, &[]);
        for group in ["a", "b"] {
            let mut client = coordinator(&broker, group);
            for partition in 0..4 {
                assert_eq!(commit(&mut client, group, "t", partition, 0), 0);
            }
        }
        let page = metrics(&broker);
        assert_eq!(page.keys().filter(|(name, _)| name == LAG).count(), shown);
        let key = ("strandline_group_offsets_left_out".to_owned(), Labels::new());
        assert_eq!(page[&key], left_out);
    }
}
