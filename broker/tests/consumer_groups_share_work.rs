//! The consumer protocol (KIP-848) over TCP: joins, assignments that move, epochs, patterns, static members, and what is
//! refused, each with Kafka's code.

#![allow(clippy::unwrap_used)]

mod support;

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, DeleteGroupsRequest, DescribeConfigsRequest,
    DescribeGroupsRequest, IncrementalAlterConfigsRequest, ListConfigResourcesRequest, ListGroupsRequest,
    OffsetDeleteRequest,
};
use support::consumer::{
    Consumer, FENCED_MEMBER_EPOCH, INVALID_REGULAR_EXPRESSION, INVALID_REQUEST, STALE_MEMBER_EPOCH,
    UNRELEASED_INSTANCE_ID, UNSUPPORTED_ASSIGNOR, UNSUPPORTED_VERSION, describe, owned, settle,
};
use support::group::{
    FENCED_INSTANCE_ID, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, commit, committed, coordinator, fetch_request,
    group_id, text,
};
use support::topic::{create, name};
use support::{Broker, Client};

/// The resource type of groups.
const GROUP: i8 = 32;

fn start(topics: &[(&str, i32)]) -> Broker {
    start_set(topics, &[])
}

fn start_set(topics: &[(&str, i32)], settings: &[&str]) -> Broker {
    let broker = Broker::start_set(settings);
    for (topic, partitions) in topics {
        create(&mut broker.client(), topic, *partitions, &[]);
    }
    broker
}

#[test]
fn a_member_alone_gets_everything_and_commits() {
    let broker = start(&[("t", 3), ("other", 1)]);
    let mut member = Consumer::new(&broker, "g", "m", &["t", "missing"]);
    let joined = member.beat();
    assert_eq!(joined.member_id.as_deref(), Some("m"));
    assert_eq!((joined.member_epoch, joined.heartbeat_interval_ms), (1, 5_000));
    assert_eq!(member.owned.len(), 3);
    // Nothing new: no assignment in the answer.
    let quiet = member.send(&member.bare(1));
    assert_eq!(
        (quiet.error_code, quiet.member_epoch, quiet.assignment),
        (0, 1, None)
    );
    assert_eq!(member.commit(9, 1, "t", 0, 42), 0);
    assert_eq!(committed(&mut member.client, "g", "t", 0), 42);

    let described = describe(&mut member.client, "g");
    assert_eq!(described.error_code, 0);
    assert_eq!(
        (
            described.group_state.as_str(),
            described.group_epoch,
            described.assignment_epoch
        ),
        ("Stable", 1, 1)
    );
    assert_eq!(described.assignor_name.as_str(), "uniform");
    let shown = &described.members[0];
    assert_eq!((shown.member_id.as_str(), shown.member_epoch), ("m", 1));
    assert_eq!((shown.member_type, shown.client_id.as_str()), (1, "test"));
    assert_eq!(shown.client_host.as_str(), "/127.0.0.1");
    assert_eq!(owned(shown), member.owned);
    let names: Vec<_> = shown.assignment.topic_partitions.iter().collect();
    assert_eq!((names.len(), names[0].topic_name.as_str()), (1, "t"));
    assert_eq!(shown.target_assignment, shown.assignment);

    assert_eq!(member.leave(-1), 0);
    assert_eq!(describe(&mut member.client, "g").group_state.as_str(), "Empty");
    assert_eq!(committed(&mut member.client, "g", "t", 0), 42);
}

#[test]
fn version_0_names_members_itself() {
    let broker = start(&[("t", 1)]);
    let mut member = Consumer::new(&broker, "g", "", &["t"]);
    let request = member.full();
    let joined = member.client.call(0, &request);
    assert_eq!(joined.error_code, 0);
    member.id = joined.member_id.unwrap().to_string();
    // A UUID as Kafka writes it.
    assert_eq!(member.id.len(), 22);
    member.epoch = joined.member_epoch;
    let quiet = member.client.call(0, &member.bare(1));
    assert_eq!((quiet.error_code, quiet.member_epoch), (0, 1));
}

#[test]
fn partitions_move_only_once_they_were_given_up() {
    let broker = start(&[("t", 4)]);
    let mut first = Consumer::new(&broker, "g", "a", &["t"]);
    first.beat();
    let all = first.owned.clone();
    let mut second = Consumer::new(&broker, "g", "b", &["t"]);
    let joined = second.beat();
    assert_eq!(joined.member_epoch, 2);
    assert!(second.owned.is_empty(), "the first one still has them all");
    // The first one is told to give up two, and keeps its epoch until it says that it did.
    let told = first.send(&first.bare(1));
    assert_eq!((told.error_code, told.member_epoch), (0, 1));
    assert_eq!(
        told.assignment.as_ref().unwrap().topic_partitions[0]
            .partitions
            .len(),
        2
    );
    assert_eq!(
        describe(&mut first.client, "g").group_state.as_str(),
        "Reconciling"
    );
    assert!(
        second
            .beat()
            .assignment
            .is_some_and(|a| a.topic_partitions.is_empty())
    );
    first.hear(&told);
    settle(&mut [&mut first, &mut second]);
    assert_eq!((first.owned.len(), second.owned.len()), (2, 2));
    assert_eq!(&first.owned | &second.owned, all);
    assert_eq!(describe(&mut first.client, "g").group_state.as_str(), "Stable");
    // The one who leaves hands over at once.
    assert_eq!(first.leave(-1), 0);
    settle(&mut [&mut second]);
    assert_eq!((second.owned.clone(), second.epoch), (all, 3));
}

#[test]
fn stale_epochs_are_fenced() {
    let broker = start(&[("t", 2)]);
    let mut member = Consumer::new(&broker, "g", "m", &["t"]);
    assert_eq!(member.send(&member.bare(1)).error_code, GROUP_ID_NOT_FOUND);
    member.beat();
    assert_eq!(member.send(&member.bare(5)).error_code, FENCED_MEMBER_EPOCH);
    let mut stranger = Consumer::new(&broker, "g", "x", &["t"]);
    assert_eq!(stranger.send(&stranger.bare(1)).error_code, UNKNOWN_MEMBER_ID);
    assert_eq!(stranger.leave(-1), UNKNOWN_MEMBER_ID);
    // The epoch goes on with another member.
    stranger.beat();
    settle(&mut [&mut member, &mut stranger]);
    assert_eq!(member.epoch, 2);
    // An older epoch than the one before is fenced, whatever it owns.
    member.epoch = 1;
    let everything = member.owned.iter().chain(&stranger.owned).copied().collect();
    let own = std::mem::replace(&mut member.owned, everything);
    assert_eq!(member.refused(), FENCED_MEMBER_EPOCH);
    (member.epoch, member.owned) = (2, own);

    // Commits and fetches by the same rule.
    assert_eq!(member.commit(9, 1, "t", 0, 1), STALE_MEMBER_EPOCH);
    assert_eq!(member.commit(8, 2, "t", 0, 1), UNSUPPORTED_VERSION);
    assert_eq!(member.commit(9, 2, "t", 0, 7), 0);
    let mut outsider = Consumer::new(&broker, "g", "unknown", &[]);
    assert_eq!(outsider.commit(9, 2, "t", 0, 1), UNKNOWN_MEMBER_ID);
    assert_eq!(
        commit(&mut outsider.client, "g", "t", 0, 1),
        UNKNOWN_MEMBER_ID,
        "no member, while there are some"
    );
    let mut fetch = |member_id: Option<&str>, epoch: i32| {
        let mut request = fetch_request("g", "t", &[0]);
        request.groups[0].member_id = member_id.map(text);
        request.groups[0].member_epoch = epoch;
        let answer = outsider.client.call(9, &request).groups.remove(0);
        let offset = answer
            .topics
            .first()
            .map(|topic| topic.partitions[0].committed_offset);
        (answer.error_code, offset)
    };
    assert_eq!(fetch(Some("m"), 2), (0, Some(7)));
    assert_eq!(fetch(None, -1), (0, Some(7)));
    assert_eq!(fetch(Some("m"), 1), (STALE_MEMBER_EPOCH, None));
    assert_eq!(fetch(Some("unknown"), 2), (UNKNOWN_MEMBER_ID, None));
}

#[test]
fn patterns_match_whole_names() {
    let broker = start(&[("topic", 1), ("topic-1", 2), ("other", 1)]);
    let mut member = Consumer::new(&broker, "g", "m", &[]);
    member.regex = Some("^topic*".to_owned());
    member.beat();
    assert_eq!(member.owned.len(), 1, "topic, not topic-1");
    member.regex = Some("^topic.*".to_owned());
    settle(&mut [&mut member]);
    assert_eq!(member.owned.len(), 3);
    let shown = &describe(&mut member.client, "g").members[0];
    assert_eq!(shown.subscribed_topic_regex.as_deref(), Some("^topic.*"));
    assert!(shown.subscribed_topic_names.is_empty());
    member.regex = Some("(".to_owned());
    assert_eq!(member.refused(), INVALID_REGULAR_EXPRESSION);
    // Without a pattern and without names nothing is left.
    member.regex = Some(String::new());
    settle(&mut [&mut member]);
    assert!(member.owned.is_empty());
    // Names and a pattern add up.
    (member.regex, member.topics) = (Some("topic".to_owned()), vec!["other".to_owned()]);
    settle(&mut [&mut member]);
    assert_eq!(member.owned.len(), 2);
    // A group whose first member is refused is none.
    let mut first = Consumer::new(&broker, "new", "m", &[]);
    first.regex = Some("[".to_owned());
    assert_eq!(first.refused(), INVALID_REGULAR_EXPRESSION);
    assert_eq!(describe(&mut first.client, "new").error_code, GROUP_ID_NOT_FOUND);
}

#[test]
fn a_static_member_comes_back_to_what_it_had() {
    let broker = start(&[("t", 4)]);
    let mut before = Consumer::named(&broker, "g", "a1", "a", &["t"]);
    let mut other = Consumer::new(&broker, "g", "b", &["t"]);
    before.beat();
    other.beat();
    settle(&mut [&mut before, &mut other]);
    let had = before.owned.clone();
    // While it is there its name is taken.
    let mut after = Consumer::named(&broker, "g", "a2", "a", &["t"]);
    assert_eq!(after.refused(), UNRELEASED_INSTANCE_ID);
    assert_eq!(before.leave(-2), 0);
    let epoch = other.epoch;
    other.beat();
    assert_eq!((other.epoch, other.owned.len()), (epoch, 2), "nothing moves");
    after.beat();
    assert_eq!((after.owned.clone(), after.epoch), (had, epoch));
    // The one before is fenced.
    before.epoch = epoch;
    assert_eq!(before.send(&before.bare(epoch)).error_code, FENCED_INSTANCE_ID);
    assert_eq!(before.leave(-1), FENCED_INSTANCE_ID);
    let mut unknown = Consumer::named(&broker, "g", "c", "c", &["t"]);
    assert_eq!(unknown.leave(-2), UNKNOWN_MEMBER_ID);
}

#[test]
fn the_silent_and_those_who_keep_everything_are_removed() {
    let settings = [
        "group.consumer.min.session.timeout.ms=1000",
        "group.consumer.session.timeout.ms=1000",
        "group.consumer.min.heartbeat.interval.ms=100",
        "group.consumer.heartbeat.interval.ms=100",
    ];
    let broker = start_set(&[("t", 2)], &settings);
    let mut silent = Consumer::new(&broker, "g", "silent", &["t"]);
    assert_eq!(silent.beat().heartbeat_interval_ms, 100);
    let mut other = Consumer::new(&broker, "g", "other", &["t"]);
    // Its partitions come free once it has been silent for its session timeout.
    while other.owned.len() < 2 {
        other.beat();
    }
    assert_eq!(silent.send(&silent.bare(1)).error_code, UNKNOWN_MEMBER_ID);
    // One that lives, but does not give up what it should.
    let mut third = Consumer::new(&broker, "g", "third", &["t"]);
    let stubborn = other.full().with_rebalance_timeout_ms(1_000);
    assert_eq!(other.send(&stubborn).error_code, 0);
    while third.owned.len() < 2 {
        third.beat();
        other.send(&other.bare(other.epoch));
    }
    assert_eq!(other.send(&other.bare(other.epoch)).error_code, UNKNOWN_MEMBER_ID);
}

#[test]
fn what_no_group_takes_is_refused() {
    let broker = start_set(&[("t", 1)], &["group.consumer.max.size=1"]);
    let mut member = Consumer::new(&broker, "g", "m", &["t"]);
    let full = member.full();
    type Change = fn(ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatRequest;
    let cases: [(&str, i16, Change); 10] = [
        ("no member id", INVALID_REQUEST, |r| r.with_member_id(text(""))),
        ("no group id", INVALID_REQUEST, |r| r.with_group_id(group_id(""))),
        ("empty instance", INVALID_REQUEST, |r| {
            r.with_instance_id(Some(text("")))
        }),
        ("empty rack", INVALID_REQUEST, |r| r.with_rack_id(Some(text("")))),
        ("no rebalance timeout", INVALID_REQUEST, |r| {
            r.with_rebalance_timeout_ms(-1)
        }),
        ("no partitions", INVALID_REQUEST, |r| {
            r.with_topic_partitions(None)
        }),
        ("no subscription", INVALID_REQUEST, |r| {
            r.with_subscribed_topic_names(None)
        }),
        ("epoch -3", INVALID_REQUEST, |r| r.with_member_epoch(-3)),
        ("away without a name", INVALID_REQUEST, |r| {
            r.with_member_epoch(-2)
        }),
        ("unknown assignor", UNSUPPORTED_ASSIGNOR, |r| {
            r.with_server_assignor(Some(text("mine")))
        }),
    ];
    for (what, code, change) in cases {
        let answer = member.send(&change(full.clone()));
        assert_eq!(answer.error_code, code, "{what}");
        assert!(answer.error_message.is_some(), "{what}");
    }
    assert_eq!(describe(&mut member.client, "g").error_code, GROUP_ID_NOT_FOUND);
    member.beat();
    let mut second = Consumer::new(&broker, "g", "n", &["t"]);
    assert_eq!(second.refused(), 81, "GROUP_MAX_SIZE_REACHED");
    let ranged = member.full().with_server_assignor(Some(text("range")));
    assert_eq!(member.send(&ranged).error_code, 0);
    assert_eq!(describe(&mut member.client, "g").assignor_name.as_str(), "range");
}

#[test]
fn other_apis_know_both_kinds_of_groups() {
    let broker = start(&[("t", 2), ("u", 1)]);
    let mut member = Consumer::new(&broker, "new", "m", &["t"]);
    member.beat();
    assert_eq!(member.commit(9, 1, "t", 0, 5), 0);
    assert_eq!(member.commit(9, 1, "u", 0, 6), 0);
    let mut client = coordinator(&broker, "old");
    assert_eq!(commit(&mut client, "old", "t", 0, 1), 0);

    let mut list = |types: &[&str], states: &[&str]| {
        let words = |words: &[&str]| words.iter().map(|word| text(word)).collect();
        let request = ListGroupsRequest::default()
            .with_types_filter(words(types))
            .with_states_filter(words(states));
        let answer = client.call(5, &request);
        assert_eq!(answer.error_code, 0);
        let rows = answer.groups.into_iter().map(|group| {
            let parts = [
                &group.group_id.0,
                &group.protocol_type,
                &group.group_type,
                &group.group_state,
            ];
            parts.map(|part| part.to_string()).join(" ")
        });
        rows.collect::<Vec<_>>()
    };
    let new = "new consumer consumer Stable";
    assert_eq!(list(&[], &[]), [new, "old  classic Empty"]);
    assert_eq!(list(&["Consumer"], &[]), [new]);
    assert_eq!(list(&["classic"], &[]), ["old  classic Empty"]);
    assert_eq!(list(&[], &["stable"]), [new]);
    assert!(list(&["share"], &[]).is_empty());

    for group in ["new", "missing"] {
        let request = DescribeGroupsRequest::default().with_groups(vec![group_id(group)]);
        let old = client.call(5, &request).groups.remove(0);
        assert_eq!((old.error_code, old.group_state.as_str()), (0, "Dead"), "{group}");
        let new = client.call(6, &request).groups.remove(0);
        assert_eq!(
            (new.error_code, new.group_state.as_str()),
            (GROUP_ID_NOT_FOUND, "Dead")
        );
        assert!(new.error_message.is_some());
    }
    for group in ["old", "missing"] {
        let described = describe(&mut client, group);
        assert_eq!(described.error_code, GROUP_ID_NOT_FOUND);
        assert!(described.error_message.unwrap().contains(group));
    }
    let request = ConsumerGroupDescribeRequest::default()
        .with_group_ids(vec![group_id("new")])
        .with_include_authorized_operations(true);
    assert_eq!(client.call(0, &request).groups[0].authorized_operations, 3_400);

    // A heartbeat to a classic group that says it is a member of it.
    let mut stranger = Consumer::new(&broker, "old", "m", &["t"]);
    assert_eq!(stranger.send(&stranger.bare(1)).error_code, GROUP_ID_NOT_FOUND);

    let mut delete_offset = |topic: &str| {
        let partition = OffsetDeleteRequestPartition::default().with_partition_index(0);
        let topic = OffsetDeleteRequestTopic::default()
            .with_name(name(topic))
            .with_partitions(vec![partition]);
        let request = OffsetDeleteRequest::default()
            .with_group_id(group_id("new"))
            .with_topics(vec![topic]);
        let answer = client.call(0, &request);
        (answer.error_code, answer.topics[0].partitions[0].error_code)
    };
    assert_eq!(delete_offset("t"), (0, 86), "GROUP_SUBSCRIBED_TO_TOPIC");
    assert_eq!(delete_offset("u"), (0, 0));
    assert_eq!(committed(&mut client, "new", "u", 0), -1);

    let delete = DeleteGroupsRequest::default().with_groups_names(vec![group_id("new")]);
    assert_eq!(
        client.call(2, &delete).results[0].error_code,
        68,
        "NON_EMPTY_GROUP"
    );
    assert_eq!(member.leave(-1), 0);
    // Without members anyone may commit.
    assert_eq!(commit(&mut client, "new", "t", 0, 9), 0);
    assert_eq!(client.call(2, &delete).results[0].error_code, 0);
    assert_eq!(describe(&mut client, "new").error_code, GROUP_ID_NOT_FOUND);
    assert_eq!(committed(&mut client, "new", "t", 0), -1);
    // A group with offsets alone becomes one of the consumer protocol, and keeps them.
    stranger.beat();
    assert_eq!(describe(&mut client, "old").group_state.as_str(), "Stable");
    assert_eq!(committed(&mut client, "old", "t", 0), 1);
}

#[test]
fn a_broker_may_be_told_not_to_serve_it() {
    let broker = start_set(&[("t", 1)], &["group.coordinator.rebalance.protocols=classic"]);
    let mut member = Consumer::new(&broker, "g", "m", &["t"]);
    assert_eq!(member.refused(), UNSUPPORTED_VERSION);
    assert_eq!(describe(&mut member.client, "g").error_code, UNSUPPORTED_VERSION);
}

/// One key of a group: value and source.
fn shown(client: &mut Client, group: &str, key: &str) -> (Option<String>, i8) {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(GROUP)
        .with_resource_name(text(group))
        .with_configuration_keys(Some(vec![text(key)]));
    let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
    let result = client.call(4, &request).results.remove(0);
    assert_eq!((result.error_code, result.configs.len()), (0, 1));
    let config = &result.configs[0];
    (
        config.value.as_ref().map(ToString::to_string),
        config.config_source,
    )
}

/// Sets a key of a group, or forgets it; the code.
fn configure(client: &mut Client, group: &str, key: &str, value: Option<&str>) -> i16 {
    let config = AlterableConfig::default()
        .with_name(text(key))
        .with_value(value.map(text))
        .with_config_operation(i8::from(value.is_none()));
    let resource = AlterConfigsResource::default()
        .with_resource_type(GROUP)
        .with_resource_name(text(group))
        .with_configs(vec![config]);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    client.call(1, &request).responses[0].error_code
}

#[test]
fn a_group_has_timeouts_of_its_own() {
    const SESSION: &str = "consumer.session.timeout.ms";
    const HEARTBEAT: &str = "consumer.heartbeat.interval.ms";
    let settings = [
        "group.consumer.min.session.timeout.ms=500",
        "group.consumer.session.timeout.ms=50000",
        "group.consumer.min.heartbeat.interval.ms=100",
    ];
    let mut broker = start_set(&[("t", 1)], &settings);
    let mut client = broker.client();
    assert_eq!(shown(&mut client, "g", SESSION), (Some("50000".to_owned()), 5));
    for (group, key, value, code) in [
        ("g", SESSION, "499", 40),
        ("g", SESSION, "60001", 40),
        ("g", SESSION, "long", 40),
        ("g", HEARTBEAT, "99", 40),
        ("g", "share.auto.offset.reset", "earliest", 40),
        ("", SESSION, "50000", 42),
    ] {
        assert_eq!(
            configure(&mut client, group, key, Some(value)),
            code,
            "{key}={value}"
        );
    }
    let mut member = Consumer::new(&broker, "g", "m", &["t"]);
    assert_eq!(member.beat().heartbeat_interval_ms, 5_000);
    assert_eq!(configure(&mut client, "g", HEARTBEAT, Some("100")), 0);
    assert_eq!(configure(&mut client, "g", SESSION, Some("1000")), 0);
    assert_eq!(member.beat().heartbeat_interval_ms, 100);
    let mut other = Consumer::new(&broker, "other", "m", &["t"]);
    assert_eq!(other.beat().heartbeat_interval_ms, 5_000);
    assert_eq!(shown(&mut client, "g", SESSION), (Some("1000".to_owned()), 8));
    let list = ListConfigResourcesRequest::default().with_resource_types(vec![GROUP]);
    let listed = client.call(1, &list).config_resources;
    let names: Vec<_> = listed
        .iter()
        .map(|resource| resource.resource_name.as_str())
        .collect();
    assert_eq!(names, ["g"]);
    // The shorter session counts.
    while !describe(&mut client, "g").members.is_empty() {}
    assert_eq!(describe(&mut client, "other").members.len(), 1);

    broker.kill();
    broker.launch();
    let mut client = broker.client();
    assert_eq!(shown(&mut client, "g", HEARTBEAT), (Some("100".to_owned()), 8));
    let mut member = Consumer::new(&broker, "g", "n", &["t"]);
    assert_eq!(member.beat().heartbeat_interval_ms, 100);
    assert_eq!(configure(&mut client, "g", HEARTBEAT, None), 0);
    assert_eq!(member.beat().heartbeat_interval_ms, 5_000);
    assert_eq!(shown(&mut client, "g", HEARTBEAT), (Some("5000".to_owned()), 5));
}

/// What one member says must fit a record of its group, and what all say the memory of the shard.
#[test]
fn what_groups_may_hold_is_bounded() {
    // However slow the machine is: nobody's session ends meanwhile.
    let sessions = [
        "group.consumer.max.session.timeout.ms=3600000",
        "group.consumer.session.timeout.ms=3600000",
    ];
    let broker = start_set(&[("t", 1)], &sessions);
    let mut member = Consumer::new(&broker, "g", "m", &["t"]);
    member.beat();
    let names = |member: usize, count: usize| -> Vec<String> {
        let name = |number| format!("{member:04}-{number:05}-{}", "x".repeat(190));
        (0..count).map(name).collect()
    };
    let mut large = Consumer::new(&broker, "large", "m", &[]);
    large.topics = names(0, 6_000);
    assert_eq!(large.send(&large.full()).error_code, -1, "1.2 MB are no record");
    assert_eq!(
        describe(&mut large.client, "large").error_code,
        GROUP_ID_NOT_FOUND
    );
    let mut many = 0;
    let full = loop {
        let mut next = Consumer::new(&broker, "many", &format!("m{many}"), &[]);
        next.topics = names(many, 2_000);
        let answer = next.send(&next.full());
        if answer.error_code != 0 {
            break answer.error_code;
        }
        many += 1;
        assert!(many < 1_000, "half of the memory is full by now");
    };
    assert_eq!(full, 81, "GROUP_MAX_SIZE_REACHED");
    assert!(many > 10);
    // Who is there goes on, and commits.
    member.beat();
    let epoch = member.epoch;
    assert_eq!(member.commit(9, epoch, "t", 0, 1), 0);
    // Who leaves makes room.
    let mut first = Consumer::new(&broker, "many", "m0", &[]);
    assert_eq!(first.leave(-1), 0);
    let mut last = Consumer::new(&broker, "many", "last", &[]);
    last.topics = names(many, 2_000);
    assert_eq!(last.send(&last.full()).error_code, 0);
}
