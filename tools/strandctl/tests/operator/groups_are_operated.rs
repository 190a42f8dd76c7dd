//! Groups are listed, described, deleted and reset, each at its coordinator, wherever that is.

use serde_json::json;

use crate::support::{Cluster, Fault, Run, strandctl};

/// Two brokers; `t` with two partitions of 4 records each, which `busy` reads and `idle` has read.
fn cluster() -> Cluster {
    let cluster = Cluster::start(2)
        .with_topic("t", 2)
        .with_group(
            "busy",
            &[("m-1", "app", "t", &[0]), ("m-2", "app", "t", &[1])],
            "t",
            &[(0, 1)],
        )
        .with_group("idle!", &[], "t", &[(0, 3), (1, 4)]);
    for partition in ["0", "1"] {
        // One batch a record.
        for value in ["a\n", "b\n", "c\n", "d\n"] {
            strandctl(&cluster.bootstrap, &["produce", "t", "-p", partition], value).succeeded();
        }
    }
    cluster
}

fn run(cluster: &Cluster, arguments: &[&str]) -> Run {
    strandctl(&cluster.bootstrap, &[&["group"], arguments].concat(), "")
}

/// A reset to be committed; what is committed then.
fn reset(cluster: &Cluster, group: &str, arguments: &[&str]) -> Vec<Option<i64>> {
    run(
        cluster,
        &[&["reset-offsets", group, "--execute"], arguments].concat(),
    )
    .succeeded();
    vec![cluster.committed(group, "t", 0), cluster.committed(group, "t", 1)]
}

#[test]
fn groups_of_every_broker_are_listed_by_state_and_type() {
    let cluster = cluster().with_group("a\nb", &[], "t", &[]);
    let listed = run(&cluster, &["list"]).succeeded();
    let right = "GROUP   TYPE     PROTOCOL  STATE\n\
                 \"a\\nb\"  classic  consumer  Empty\n\
                 busy    classic  consumer  Stable\n\
                 idle!   classic  consumer  Empty\n";
    assert_eq!(listed.stdout, right);
    for (filter, count) in [
        (&["--state", "Stable"][..], 1),
        (&["--state", "empty,stable"], 3),
        (&["--state", "Dead"], 0),
        (&["--type", "classic"], 3),
        (&["--type", "consumer"], 0),
        (&["--type", "Consumer,Classic", "--state", "Empty"], 2),
    ] {
        let listed = run(&cluster, &[&["list", "--json"], filter].concat())
            .succeeded()
            .json();
        assert_eq!(listed[0].as_array().unwrap().len(), count, "{filter:?}");
    }
    let listed = run(&cluster, &["list", "--json"]).succeeded().json();
    let first = json!({"group": "a\nb", "type": "classic", "protocol_type": "consumer", "state": "Empty"});
    assert_eq!(listed[0][0], first);
}

#[test]
fn lag_and_owners_are_told_by_partition() {
    let cluster = cluster();
    let described = run(&cluster, &["describe", "busy", "idle!"]).succeeded();
    let right = "\
group busy  classic  Stable  assignor range  2 members
TOPIC  PARTITION  COMMITTED  END  LAG  MEMBER  HOST       CLIENT
t      0          1          4    3    m-1     127.0.0.1  app
t      1          -          4    -    m-2     127.0.0.1  app

group idle!  classic  Empty  0 members
TOPIC  PARTITION  COMMITTED  END  LAG  MEMBER  HOST  CLIENT
t      0          3          4    1    -       -     -
t      1          4          4    0    -       -     -
";
    assert_eq!(described.stdout, right);
    // What retention took away is no lag.
    cluster.state().topics.get_mut("t").unwrap()[0].start = 2;
    let described = run(&cluster, &["describe", "busy", "--json"]).succeeded().json();
    let row = json!({
        "topic": "t", "partition": 0, "committed": 1, "log_start": 2, "log_end": 4, "lag": 2, "metadata": "note",
        "member": "m-1", "client_id": "app", "host": "127.0.0.1",
    });
    assert_eq!(described[0][0]["partitions"][0], row);
    assert_eq!(described[0][0]["partitions"][1]["lag"], json!(null));
    // All, when none is named; with a topic that is gone.
    cluster
        .state()
        .groups
        .get_mut("idle!")
        .unwrap()
        .offsets
        .insert(("gone".to_owned(), 0), 9);
    let described = run(&cluster, &["describe", "--json"]).succeeded().json();
    assert_eq!(described[0].as_array().unwrap().len(), 2);
    assert_eq!(described[0][1]["partitions"][0]["committed"], 9);
    assert_eq!(described[0][1]["partitions"][0]["log_end"], json!(null));
}

#[test]
fn members_and_states_have_their_views() {
    let cluster = cluster();
    let members = run(&cluster, &["describe", "busy", "--members"]).succeeded();
    let right = "\
group busy  classic  Stable  assignor range  2 members
MEMBER  INSTANCE  HOST       CLIENT  EPOCH  ASSIGNMENT
m-1     static    127.0.0.1  app     -      t:0
m-2     static    127.0.0.1  app     -      t:1
";
    assert_eq!(members.stdout, right);
    let members = run(&cluster, &["describe", "busy", "--members", "--json"])
        .succeeded()
        .json();
    assert_eq!(members[0][0]["members"][1]["assignment"], json!({"t": [1]}));
    assert_eq!(members[0][0].get("partitions"), None);
    let states = run(&cluster, &["describe", "--state"]).succeeded();
    let right = "\
GROUP  TYPE     STATE   ASSIGNOR  MEMBERS
busy   classic  Stable  range     2
idle!  classic  Empty   -         0
";
    assert_eq!(states.stdout, right);
}

#[test]
fn groups_of_the_consumer_protocol_are_described_by_their_own_api() {
    let cluster = cluster();
    cluster.state().groups.get_mut("busy").unwrap().is_new = true;
    cluster.state().groups.get_mut("busy").unwrap().members[0].3 = vec![0, 1];
    let members = run(&cluster, &["describe", "busy", "idle!", "--members"]).succeeded();
    let right = "\
group busy  consumer  Reconciling  assignor uniform  epoch 7  2 members
MEMBER  INSTANCE  HOST       CLIENT  EPOCH  ASSIGNMENT
m-1     -         127.0.0.1  app     6      t:0, to be t:0,1
m-2     -         127.0.0.1  app     6      t:1

group idle!  classic  Empty  0 members
";
    assert_eq!(members.stdout, right);
    let described = run(&cluster, &["describe", "busy", "--members", "--json"])
        .succeeded()
        .json();
    let member = json!({
        "member": "m-1", "instance_id": null, "client_id": "app", "host": "127.0.0.1", "assignment": {"t": [0]},
        "epoch": 6, "target_assignment": {"t": [0, 1]}, "subscribed_topics": ["t"], "subscribed_pattern": null,
        "protocol": "consumer",
    });
    assert_eq!(described[0][0]["members"][0], member);
    assert_eq!(
        (&described[0][0]["epoch"], &described[0][0]["assignment_epoch"]),
        (&json!(7), &json!(7))
    );
    let offsets = run(&cluster, &["describe", "busy", "--json"]).succeeded().json();
    assert_eq!(offsets[0][0]["partitions"][0]["member"], "m-1");
    let refused = run(
        &cluster,
        &["reset-offsets", "busy", "--all-topics", "--to-earliest"],
    );
    assert!(
        refused.stderr.contains("it has 2 members and is Reconciling"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_group_that_is_not_there_is_told_beside_the_others() {
    let cluster = cluster();
    for old in [false, true] {
        cluster.state().old_groups = old;
        let described = run(&cluster, &["describe", "nosuch", "busy"]);
        assert_eq!(described.code, 1);
        assert!(described.stdout.contains("group busy"), "{}", described.stdout);
        let told = described.stderr.contains("group nosuch: GROUP_ID_NOT_FOUND (69)");
        assert!(
            told && described.stderr.contains("remedy: "),
            "{}",
            described.stderr
        );
    }
}

#[test]
fn older_brokers_are_asked_as_they_understand() {
    let cluster = cluster();
    cluster.state().old_groups = true;
    let listed = run(&cluster, &["list", "--type", "classic", "--json"])
        .succeeded()
        .json();
    assert_eq!(listed[0].as_array().unwrap().len(), 2);
    let described = run(&cluster, &["describe", "--json"]).succeeded().json();
    assert_eq!(described[0][1]["partitions"][0]["lag"], 1);
    assert_eq!(
        reset(&cluster, "idle!", &["--to-earliest", "--all-topics"]),
        [Some(0), Some(0)]
    );
    run(&cluster, &["delete", "idle!", "-y"]).succeeded();
    assert_eq!(cluster.state().groups.len(), 1);
}

#[test]
fn a_coordinator_that_loads_or_moved_is_asked_again() {
    let cluster = cluster();
    for fault in [Fault::Loading, Fault::StaleCoordinator] {
        for arguments in [
            &["list", "--json"][..],
            &["describe", "busy", "--json"],
            &[
                "reset-offsets",
                "idle!",
                "--topic",
                "t",
                "--shift-by",
                "-1",
                "--execute",
                "--json",
            ],
            &["delete", "idle!", "--yes", "--json"],
        ] {
            let before = cluster.state().groups.clone();
            cluster.plan(fault);
            run(&cluster, arguments).succeeded();
            assert!(
                cluster.state().faults.is_empty() || arguments[0] == "list",
                "{arguments:?}"
            );
            cluster.state().faults.clear();
            cluster.state().groups = before;
        }
    }
}

#[test]
fn a_deletion_whose_answer_was_lost_is_not_repeated() {
    let cluster = cluster();
    cluster.plan(Fault::LostDeletion);
    let deleted = run(&cluster, &["delete", "idle!", "--yes"]);
    assert_eq!(deleted.code, 1);
    assert!(
        deleted
            .stderr
            .contains("closed the connection during DeleteGroups"),
        "{}",
        deleted.stderr
    );
}

#[test]
fn groups_are_deleted_one_by_one() {
    let cluster = cluster();
    let deleted = run(&cluster, &["delete", "busy", "idle!", "nosuch", "--yes"]);
    assert_eq!(
        (deleted.code, deleted.stdout.as_str()),
        (1, "deleted group idle!\n")
    );
    for part in [
        "group busy: NON_EMPTY_GROUP (68)",
        "group nosuch: GROUP_ID_NOT_FOUND (69)",
        "2 of 3 failed",
    ] {
        assert!(deleted.stderr.contains(part), "{}", deleted.stderr);
    }
    run(&cluster, &["delete", "nosuch", "--yes", "--if-exists"]).succeeded();
    let refused = run(&cluster, &["delete", "busy", "--yes", "--if-exists"]);
    assert_eq!(refused.code, 1);
}

#[test]
fn a_reset_goes_where_it_is_told() {
    let cluster = cluster();
    let all = |cluster: &Cluster, arguments: &[&str]| {
        reset(cluster, "idle!", &[&["--all-topics"], arguments].concat())
    };
    assert_eq!(all(&cluster, &["--to-earliest"]), [Some(0), Some(0)]);
    assert_eq!(all(&cluster, &["--to-latest"]), [Some(4), Some(4)]);
    assert_eq!(all(&cluster, &["--to-offset", "2"]), [Some(2), Some(2)]);
    assert_eq!(all(&cluster, &["--to-offset", "99"]), [Some(4), Some(4)]);
    assert_eq!(all(&cluster, &["--shift-by", "-3"]), [Some(1), Some(1)]);
    assert_eq!(all(&cluster, &["--shift-by", "-3"]), [Some(0), Some(0)]);
    assert_eq!(
        reset(&cluster, "idle!", &["--topic", "t:1", "--shift-by", "2"]),
        [Some(0), Some(2)]
    );
    assert_eq!(all(&cluster, &["--to-current"]), [Some(0), Some(2)]);
    // Times: no record is so late, every one is that late.
    assert_eq!(
        all(&cluster, &["--to-datetime", "2999-01-01T00:00:00+02:00"]),
        [Some(4), Some(4)]
    );
    assert_eq!(all(&cluster, &["--by-duration", "PT1H"]), [Some(0), Some(0)]);
    // A group that does not exist may be given offsets; where it has none, the current one is the end.
    assert_eq!(
        reset(&cluster, "new", &["--topic", "t:0", "--to-offset", "1"]),
        [Some(1), None]
    );
    assert_eq!(
        reset(&cluster, "new", &["--topic", "t", "--to-current"]),
        [Some(1), Some(4)]
    );
}

#[test]
fn without_execute_a_reset_only_tells() {
    let cluster = cluster();
    cluster.state().topics.get_mut("t").unwrap()[1].start = 2;
    let told = run(
        &cluster,
        &["reset-offsets", "idle!", "--topic", "t", "--to-offset", "1"],
    )
    .succeeded();
    let right = "\
TOPIC  PARTITION  COMMITTED  NEW
t      0          3          1
t      1          4          2    before the first: the first
";
    assert_eq!(told.stdout, right);
    assert!(told.stderr.contains("--execute"), "{}", told.stderr);
    let told = run(
        &cluster,
        &[
            "reset-offsets",
            "idle!",
            "--topic",
            "t:0",
            "--to-offset",
            "9",
            "--json",
        ],
    );
    let row =
        json!({"topic": "t", "partition": 0, "committed": 3, "new": 4, "note": "beyond the end: the end"});
    let right = json!({"group": "idle!", "executed": false, "partitions": [row]});
    assert_eq!(told.succeeded().json(), [right]);
    assert_eq!(cluster.committed("idle!", "t", 0), Some(3));
}

#[test]
fn what_is_exported_is_read_back() {
    let cluster = cluster();
    let exported = run(
        &cluster,
        &[
            "reset-offsets",
            "idle!",
            "--all-topics",
            "--to-current",
            "--export",
        ],
    );
    let exported = exported.succeeded().stdout;
    assert_eq!(exported, "t,0,3\nt,1,4\n");
    reset(&cluster, "idle!", &["--all-topics", "--to-earliest"]);
    let arguments = ["group", "reset-offsets", "idle!", "--from-file", "-", "--execute"];
    strandctl(&cluster.bootstrap, &arguments, &exported).succeeded();
    let committed = |partition| cluster.committed("idle!", "t", partition);
    assert_eq!((committed(0), committed(1)), (Some(3), Some(4)));
    let refused = strandctl(&cluster.bootstrap, &arguments, "other,t,0,1\n");
    assert_eq!(refused.code, 2, "{}", refused.stderr);
}

#[test]
fn a_reset_that_cannot_be_done_changes_nothing() {
    let cluster = cluster();
    for (group, arguments, right) in [
        (
            "busy",
            &["--all-topics", "--to-earliest"][..],
            "group busy: NON_EMPTY_GROUP (68): it has 2 members",
        ),
        (
            "none",
            &["--all-topics", "--to-earliest"],
            "group none has committed nothing",
        ),
        (
            "none",
            &["--topic", "t", "--shift-by", "1"],
            "t-0: nothing is committed",
        ),
        (
            "idle!",
            &["--topic", "t:0,7", "--to-earliest"],
            "t-7: UNKNOWN_TOPIC_OR_PARTITION (3)",
        ),
        (
            "idle!",
            &["--topic", "nosuch", "--to-earliest"],
            "topic nosuch: UNKNOWN_TOPIC_OR_PARTITION (3)",
        ),
    ] {
        let refused = run(
            &cluster,
            &[&["reset-offsets", group, "--execute"], arguments].concat(),
        );
        assert_eq!(refused.code, 1);
        assert!(
            refused.stderr.contains(right),
            "{right} is not in {}",
            refused.stderr
        );
    }
    // A member that joins between the look and the commit.
    cluster.plan(Fault::MemberJoins);
    let refused = run(
        &cluster,
        &[
            "reset-offsets",
            "idle!",
            "--execute",
            "--topic",
            "t:0",
            "--to-earliest",
            "--json",
        ],
    );
    assert_eq!(refused.code, 1);
    let error: serde_json::Value = serde_json::from_str(refused.stderr.lines().last().unwrap()).unwrap();
    assert_eq!(error["error"]["code"], 25);
    assert!(
        error["error"]["remedy"]
            .as_str()
            .unwrap()
            .contains("stop its members")
    );
    assert_eq!(refused.json()[0]["partitions"], json!([]));
    assert_eq!(cluster.committed("idle!", "t", 0), Some(3));
}

/// Reading for a group goes on where it has committed, and what was printed is committed.
#[test]
fn a_topic_is_read_for_a_group_without_members() {
    let cluster = cluster();
    let consume = |group: &str, more: &[&str]| {
        strandctl(
            &cluster.bootstrap,
            &[&["consume", "t", "-e", "--group", group], more].concat(),
            "",
        )
    };
    assert_eq!(
        consume("idle!", &[]).succeeded().stdout,
        "d\n",
        "partition 0 from 3 on"
    );
    assert_eq!(cluster.committed("idle!", "t", 0), Some(4));
    assert_eq!(consume("idle!", &[]).succeeded().stdout, "");
    // What stops early is committed up to there.
    let first = consume("new", &["-n", "3", "-p", "1"]).succeeded();
    assert_eq!(first.stdout, "a\nb\nc\n");
    assert_eq!(
        (cluster.committed("new", "t", 0), cluster.committed("new", "t", 1)),
        (None, Some(3))
    );
    assert_eq!(consume("new", &["-p", "1"]).succeeded().stdout, "d\n");
    let refused = consume("busy", &[]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("NON_EMPTY_GROUP"), "{}", refused.stderr);
    assert_eq!(cluster.committed("busy", "t", 0), Some(1));
}
