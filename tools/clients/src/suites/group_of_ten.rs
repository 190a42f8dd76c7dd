//! Ten members in one group, of several libraries where these agree on how to share: they come together, leave, die and stand
//! still, and the broker is killed in the middle of it. Every record comes, and what is committed is exact.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use super::group::{CONSUMER, Group};
use super::in_turn;
use crate::broker::{Broker, signal};
use crate::client::Check;
use crate::report::Job;
use crate::tools::Tools;

/// Two for each member; and three of them have members left over when three of ten are gone.
const PARTITIONS: i32 = 20;
/// Who of the ten stands still, dies and leaves; from the back, so that each number is still right when its turn comes.
const GONE: [usize; 3] = [7, 4, 2];
/// A rebalance begins once a new member has found its coordinator, or one that is there leaves.
const BEGINS_MAX: Duration = Duration::from_secs(60);

const JAVA_3: &str = "kafka-clients-3.9.2";
const JAVA_4: &str = "kafka-clients-4.4.0";
const CONFLUENT: &str = "confluent-kafka";

/// How a group shares, and the libraries of its members, in the order in which they join. kafkajs names its assignor otherwise
/// than all others, and is by itself. A cooperative member of the `rdkafka` crate once did not answer for 180 s, beside an
/// Apache Kafka; why is not known. The same librdkafka is here by confluent-kafka.
const KINDS: [(&str, &str, [&str; 10]); 4] = [
    (
        "eager",
        "range",
        [
            "rdkafka",
            CONFLUENT,
            "kafka-python",
            JAVA_3,
            JAVA_4,
            "rdkafka",
            CONFLUENT,
            "kafka-python",
            JAVA_3,
            JAVA_4,
        ],
    ),
    (
        "cooperative",
        "cooperative-sticky",
        [
            CONFLUENT, JAVA_3, JAVA_4, CONFLUENT, JAVA_3, JAVA_4, CONFLUENT, JAVA_3, JAVA_4, CONFLUENT,
        ],
    ),
    ("kafkajs", "range", ["kafkajs"; 10]),
    (
        "consumer protocol",
        CONSUMER,
        [
            "rdkafka", CONFLUENT, JAVA_4, "rdkafka", CONFLUENT, JAVA_4, "rdkafka", CONFLUENT, JAVA_4,
            "rdkafka",
        ],
    ),
];

/// A suite for every kind. With `node`, the program and a folder for its data, each has a broker of its own, which is killed;
/// without, all have the one at `bootstrap`, which stays.
pub(crate) fn jobs<'a>(
    tools: &'a Tools,
    bootstrap: &'a str,
    node: Option<(&'a Path, &'a Path)>,
) -> Vec<Job<'a>> {
    let job = |kind: &'static (&str, &str, [&str; 10])| {
        Job::new(format!("ten members, {}", kind.0), move || match node {
            None => play(tools, bootstrap, None, kind),
            Some((program, scratch)) => match Broker::start(program, scratch, 1) {
                Ok(mut node) => {
                    let bootstrap = node.bootstrap();
                    let mut checks = play(tools, &bootstrap, Some(&mut node), kind);
                    checks.push(("the broker stops cleanly after that".to_owned(), node.stop()));
                    checks
                }
                Err(why) => vec![("set-up".to_owned(), Err(why))],
            },
        })
    };
    KINDS.iter().map(job).collect()
}

/// A group, and the broker that is killed under it.
struct Scene<'a, 'n> {
    group: Group<'a>,
    node: Option<&'n mut Broker>,
    assignor: &'static str,
    names: &'static [&'static str; 10],
}

fn play(
    tools: &Tools,
    bootstrap: &str,
    node: Option<&mut Broker>,
    (_, assignor, names): &'static (&str, &str, [&str; 10]),
) -> Vec<Check> {
    let group = match Group::new(tools, bootstrap, names[0], assignor, PARTITIONS) {
        Ok(group) => group,
        Err(why) => return vec![("set-up".to_owned(), Err(why))],
    };
    let mut scene = Scene {
        group,
        node,
        assignor,
        names,
    };
    in_turn(
        &mut scene,
        &[
            ("five members share, and read everything", &|scene| {
                scene.join(0..5)?;
                scene.group.joined(0..5)?;
                scene.group.balanced()
            }),
            ("five more join, the broker dies meanwhile", &|scene| {
                scene.join(5..10)?;
                scene.broker_dies()?;
                scene.group.joined(5..10)?;
                scene.group.balanced()
            }),
            (
                "one stands still, one dies, one leaves, the broker dies meanwhile",
                &Scene::three_go,
            ),
            ("committed offsets are exact", &|scene| scene.group.committed()),
            ("a new member resumes where they committed", &|scene| {
                scene.group.resumed()
            }),
        ],
    )
}

impl Scene<'_, '_> {
    fn join(&mut self, numbers: Range<usize>) -> Result<(), String> {
        self.group.begin_joins(&self.names[numbers], self.assignor)
    }

    /// Kills the broker as soon as a rebalance has begun, and starts it again.
    fn broker_dies(&mut self) -> Result<(), String> {
        let Some(node) = &mut self.node else {
            return Ok(());
        };
        let end = Instant::now() + BEGINS_MAX;
        while self.group.listed()?.group_state.as_str() == "Stable" {
            if Instant::now() > end {
                return Err("no rebalance begins".to_owned());
            }
        }
        node.die_and_return()
    }

    fn three_go(&mut self) -> Result<(), String> {
        let [paused, killed, mut leaving] = GONE.map(|number| self.group.members.remove(number));
        leaving.request("commit", &[])?;
        signal("-STOP", paused.process_id())?;
        drop(killed);
        leaving.ask("leave", &[])?;
        self.broker_dies()?;
        leaving.answer()?;
        self.group.balanced()?;
        signal("-CONT", paused.process_id())?;
        self.group.members.push(paused);
        self.group.balanced()
    }
}
