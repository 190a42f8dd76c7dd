//! Subscriptions by regular expression.

use strandline_wire::ErrorCode;

use super::Assignment;
use super::record::ConsumerRecord;
use super::request::HeartbeatRequest;
use super::testing::{Rig, assignment, beat, join};

fn by_regex<'a>(id: &'a str, regex: &'a str) -> HeartbeatRequest<'a> {
    HeartbeatRequest {
        topic_names: None,
        topic_regex: Some(regex),
        ..join(id, &[])
    }
}

fn topics_of(rig: &Rig, answer: Option<Assignment>) -> Vec<String> {
    use super::TopicImage;
    let names = answer.unwrap();
    let names = names
        .topics()
        .map(|(id, _)| rig.topics.topic_name(id).unwrap().to_owned());
    names.collect()
}

fn regex_records(rig: &Rig) -> usize {
    let regexes = rig
        .last
        .iter()
        .filter(|record| matches!(record, ConsumerRecord::Regex(..)));
    regexes.count()
}

#[test]
fn the_whole_name_counts() {
    let mut rig = Rig::new(&[("topic-1", 1), ("topic", 1), ("my-topic", 1)]);
    let answer = rig.send(&by_regex("a", "^topic*")).unwrap();
    assert_eq!(topics_of(&rig, answer.assignment), ["topic"]);
    let answer = rig.send(&by_regex("b", "^topic-.*")).unwrap();
    assert_eq!(topics_of(&rig, answer.assignment), ["topic-1"]);
}

#[test]
fn a_bad_pattern_is_refused() {
    let mut rig = Rig::new(&[("t", 1)]);
    let error = rig.send(&by_regex("a", "(")).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidRegularExpression);
    assert!(
        error
            .message
            .starts_with("SubscribedTopicRegex `(` is not a valid regular expression: "),
        "{}",
        error.message
    );
    assert!(!rig.group.exists());
    rig.send(&by_regex("a", "t")).unwrap();
    let error = rig.send(&HeartbeatRequest {
        topic_regex: Some("["),
        ..beat("a", 1)
    });
    assert_eq!(error.unwrap_err().code, ErrorCode::InvalidRegularExpression);
    assert_eq!(rig.beat("a", 1).assignment, None);
}

#[test]
fn new_topics_are_found_at_most_every_ten_seconds() {
    let mut rig = Rig::new(&[("t1", 1)]);
    rig.send(&by_regex("a", "t.*")).unwrap();
    assert_eq!(regex_records(&rig), 1);
    rig.topics.create("t2", 1);
    rig.pass(10_000);
    assert_eq!(rig.beat("a", 1).member_epoch, 1);
    rig.pass(1);
    let answer = rig.beat("a", 1);
    assert_eq!((answer.member_epoch, regex_records(&rig)), (2, 1));
    assert_eq!(topics_of(&rig, answer.assignment), ["t1", "t2"]);
    // A topic that does not match is looked at once and not stored.
    rig.topics.create("other", 1);
    rig.pass(20_000);
    assert_eq!(rig.beat("a", 2).member_epoch, 2);
    assert_eq!(rig.last, []);
    // A topic that is gone is missed at once.
    rig.topics.delete("t1");
    let answer = rig.beat("a", 2);
    assert_eq!(topics_of(&rig, answer.assignment), ["t2"]);
}

#[test]
fn a_match_is_renewed_after_the_refresh_interval() {
    let mut rig = Rig::new(&[("t1", 1)]);
    rig.config.session_timeout_ms = 10_000_000;
    rig.send(&by_regex("a", "t.*")).unwrap();
    rig.pass(600_000);
    rig.beat("a", 1);
    assert_eq!(rig.last, []);
    rig.pass(1);
    assert_eq!(rig.beat("a", 1).member_epoch, 1);
    assert_eq!(regex_records(&rig), 1);
}

#[test]
fn members_with_the_same_expression_share_its_match() {
    let mut rig = Rig::new(&[("t1", 2)]);
    let t1 = rig.topics.id("t1");
    rig.send(&by_regex("a", "t.*")).unwrap();
    rig.send(&by_regex("b", "t.*")).unwrap();
    assert_eq!(regex_records(&rig), 0);
    rig.beat("a", 1);
    rig.own("a", 1, &[(t1, &[0])]);
    assert_eq!(rig.beat("b", 2).assignment, Some(assignment(&[(t1, &[1])])));
    rig.leave("a");
    assert_eq!(regex_records(&rig), 0);
    rig.leave("b");
    assert!(rig.last.contains(&ConsumerRecord::Regex("t.*".into(), None)));
}

#[test]
fn unsubscribing_revokes() {
    let mut rig = Rig::new(&[("t1", 1), ("u", 1)]);
    rig.send(&by_regex("a", "t.*")).unwrap();
    let answer = rig
        .send(&HeartbeatRequest {
            topic_regex: Some(""),
            ..beat("a", 1)
        })
        .unwrap();
    assert_eq!(
        (answer.member_epoch, answer.assignment),
        (1, Some(Assignment::default()))
    );
    assert!(rig.last.contains(&ConsumerRecord::Regex("t.*".into(), None)));
    assert_eq!(rig.own("a", 1, &[]).member_epoch, 2);
    assert!(!rig.group.is_subscribed_to("t1"));
    // And on to names.
    let answer = rig.send(&HeartbeatRequest {
        topic_names: Some(vec!["u"]),
        ..beat("a", 2)
    });
    assert_eq!(topics_of(&rig, answer.unwrap().assignment), ["u"]);
}

#[test]
fn names_and_an_expression_add_up() {
    let mut rig = Rig::new(&[("t1", 1), ("u", 1)]);
    let both = HeartbeatRequest {
        topic_names: Some(vec!["u"]),
        ..by_regex("a", "t.*")
    };
    let answer = rig.send(&both).unwrap();
    assert_eq!(topics_of(&rig, answer.assignment), ["t1", "u"]);
    assert!(rig.group.is_subscribed_to("t1") && rig.group.is_subscribed_to("u"));
    assert!(!rig.group.is_subscribed_to("v"));
}

#[test]
fn another_expression_is_matched_at_once() {
    let mut rig = Rig::new(&[("t1", 1), ("u", 1)]);
    rig.send(&by_regex("a", "t.*")).unwrap();
    let answer = rig.send(&HeartbeatRequest {
        topic_regex: Some("u"),
        owned: Some(Assignment::default()),
        ..beat("a", 1)
    });
    assert_eq!(topics_of(&rig, answer.unwrap().assignment), ["u"]);
    assert!(rig.last.contains(&ConsumerRecord::Regex("t.*".into(), None)));
}

#[test]
fn a_static_member_with_an_expression_comes_back() {
    let mut rig = Rig::new(&[("t1", 1)]);
    let fixed = |id| HeartbeatRequest {
        instance_id: Some("i"),
        ..by_regex(id, "t.*")
    };
    rig.send(&fixed("a")).unwrap();
    rig.send(&HeartbeatRequest {
        instance_id: Some("i"),
        ..beat("a", -2)
    })
    .unwrap();
    let answer = rig.send(&fixed("b")).unwrap();
    assert_eq!((answer.member_epoch, regex_records(&rig)), (1, 0));
    assert_eq!(topics_of(&rig, answer.assignment), ["t1"]);
}

#[test]
fn an_expression_that_only_another_broker_understands_matches_nothing() {
    let mut rig = Rig::new(&[("t1", 1)]);
    rig.send(&by_regex("a", "t.*")).unwrap();
    let mut metadata = (*rig.group.members["a"].metadata).clone();
    metadata.topic_regex = r"\C".into();
    rig.log
        .push(ConsumerRecord::Member("a".into(), Some(metadata.into())));
    rig.restart();
    let answer = rig.own("a", 1, &[]);
    assert_eq!(
        (answer.member_epoch, answer.assignment),
        (2, Some(Assignment::default()))
    );
}
