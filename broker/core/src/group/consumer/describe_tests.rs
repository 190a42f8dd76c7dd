//! What others see of a group, and who may commit.

use strandline_wire::ErrorCode;

use super::record::ConsumerRecord;
use super::request::HeartbeatRequest;
use super::state::ConsumerGroupState;
use super::testing::{Rig, join};
use super::{ConsumerGroup, DescribedTopic};

#[test]
fn a_description_has_everything() {
    let mut rig = Rig::new(&[("t", 2)]);
    let t = rig.topics.id("t");
    let request = HeartbeatRequest {
        instance_id: Some("i"),
        rack_id: Some("r"),
        topic_regex: Some("t"),
        ..join("a", &["t", "u"])
    };
    rig.send(&request).unwrap();
    rig.join("b", &["t"]);
    let description = rig.group.describe(&rig.config, &rig.topics);
    assert_eq!(description.state, ConsumerGroupState::Reconciling);
    assert_eq!((description.group_epoch, description.assignment_epoch), (2, 2));
    assert_eq!(description.assignor, "uniform");
    let [a, b] = &description.members[..] else {
        panic!("two members")
    };
    let partitions = |partitions: &[i32]| {
        vec![DescribedTopic {
            id: t,
            name: "t".to_owned(),
            partitions: partitions.to_vec(),
        }]
    };
    assert_eq!((&*a.id, a.epoch, a.member_type()), ("a", 1, 1));
    assert_eq!(
        (&a.assignment, &a.target),
        (&partitions(&[0, 1]), &partitions(&[0]))
    );
    assert_eq!((&b.assignment, &b.target), (&vec![], &partitions(&[1])));
    assert_eq!(a.metadata.instance_id.as_deref(), Some("i"));
    assert_eq!(a.metadata.rack_id.as_deref(), Some("r"));
    assert_eq!(
        (&*a.metadata.client_id, &*a.metadata.client_host),
        ("client", "/127.0.0.1")
    );
    assert_eq!(
        a.metadata
            .topic_names
            .iter()
            .map(|name| &**name)
            .collect::<Vec<_>>(),
        ["t", "u"]
    );
    assert_eq!(&*a.metadata.topic_regex, "t");
    // Topics that are gone have no name.
    rig.topics.delete("t");
    assert!(
        rig.group.describe(&rig.config, &rig.topics).members[0]
            .assignment
            .is_empty()
    );
}

#[test]
fn states_have_kafkas_names() {
    let names = [
        (ConsumerGroupState::Empty, "Empty"),
        (ConsumerGroupState::Assigning, "Assigning"),
        (ConsumerGroupState::Reconciling, "Reconciling"),
        (ConsumerGroupState::Stable, "Stable"),
        (ConsumerGroupState::Dead, "Dead"),
    ];
    for (state, name) in names {
        assert_eq!(state.name(), name);
    }
}

#[test]
fn commits_need_the_members_epoch() {
    let mut rig = Rig::new(&[("t", 1)]);
    let empty = ConsumerGroup::new("g");
    assert_eq!(empty.commit_allowed("", None, -1, Some(9)), Ok(()));
    assert_eq!(
        empty.commit_allowed("a", None, 1, Some(9)).unwrap_err().code,
        ErrorCode::UnknownMemberId
    );
    rig.join("a", &["t"]);
    let code = |member: &str, epoch, version| {
        let allowed = rig.group.commit_allowed(member, None, epoch, version);
        allowed.map_err(|error| error.code)
    };
    assert_eq!(code("a", 1, Some(9)), Ok(()));
    assert_eq!(code("a", 1, None), Ok(()));
    assert_eq!(code("a", 1, Some(8)), Err(ErrorCode::UnsupportedVersion));
    assert_eq!(code("a", 0, Some(9)), Err(ErrorCode::StaleMemberEpoch));
    assert_eq!(code("a", 2, None), Err(ErrorCode::StaleMemberEpoch));
    assert_eq!(code("b", 1, Some(9)), Err(ErrorCode::UnknownMemberId));
    // Nobody may commit beside the members, but in a transaction.
    assert_eq!(code("", -1, Some(9)), Err(ErrorCode::UnknownMemberId));
    assert_eq!(code("", -1, None), Ok(()));
    let named = rig.group.commit_allowed("", Some("i"), -1, None);
    assert_eq!(named.unwrap_err().code, ErrorCode::UnknownMemberId);
    let message = rig
        .group
        .commit_allowed("a", None, 7, Some(9))
        .unwrap_err()
        .message;
    assert_eq!(
        message,
        "The received member epoch 7 does not match the expected member epoch 1."
    );
}

#[test]
fn fetches_need_the_members_epoch_if_they_name_a_member() {
    let mut rig = Rig::new(&[("t", 1)]);
    rig.join("a", &["t"]);
    let code = |member, epoch| rig.group.fetch_allowed(member, epoch).map_err(|error| error.code);
    assert_eq!(code(None, -1), Ok(()));
    assert_eq!(code(Some("a"), 1), Ok(()));
    assert_eq!(code(Some("a"), 0), Err(ErrorCode::StaleMemberEpoch));
    assert_eq!(code(Some("b"), 1), Err(ErrorCode::UnknownMemberId));
    assert_eq!(code(None, 1), Err(ErrorCode::UnknownMemberId));
}

#[test]
fn only_an_empty_group_may_be_deleted() {
    let mut rig = Rig::new(&[("t", 1)]);
    assert_eq!(rig.group.delete().unwrap_err().code, ErrorCode::GroupIdNotFound);
    rig.join("a", &["t"]);
    assert_eq!(rig.group.delete().unwrap_err().code, ErrorCode::NonEmptyGroup);
    rig.leave("a");
    let records = rig.group.delete().unwrap();
    assert_eq!(
        records,
        [
            ConsumerRecord::TargetEpoch(None),
            ConsumerRecord::GroupEpoch(None)
        ]
    );
    rig.log.extend(records);
    rig.check();
    assert!(!rig.group.exists());
    // And the name is free again.
    rig.restart();
    assert!(!rig.group.exists());
    assert_eq!(rig.join("a", &["t"]).member_epoch, 1);
}
