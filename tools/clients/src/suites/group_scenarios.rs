//! What the architecture promises of groups by name: three consumers of which the second dies, order within each partition,
//! offsets that are committed by the library or by hand, a second group that reads everything again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::group::{CONSUMER, described, evenly};
use super::{create, expect, fresh, in_turn};
use crate::client::{Check, Client, Produce};
use crate::native::Native;
use crate::report::Job;
use crate::script::Script;
use crate::tools::Tools;

const PARTITIONS: i32 = 6;
const RECORDS: i64 = 600;
const MORE_RECORDS: i64 = 120;
const STEP_MAX: Duration = Duration::from_secs(120);

/// By which library, and how its members share.
const KINDS: [(&str, &str); 5] = [
    ("rdkafka", "range"),
    ("rdkafka", CONSUMER),
    ("confluent-kafka", "cooperative-sticky"),
    ("kafka-clients-4.4.0", "range"),
    ("kafka-clients-4.4.0", CONSUMER),
];

/// A suite for every kind.
pub(crate) fn jobs<'a>(tools: &'a Tools, bootstrap: &'a str) -> Vec<Job<'a>> {
    let job = |kind: (&'static str, &'static str)| {
        let (name, assignor) = kind;
        Job::new(format!("groups by scenario, {name} by {assignor}"), move || {
            play(tools, bootstrap, kind)
        })
    };
    KINDS.into_iter().map(job).collect()
}

fn play(tools: &Tools, bootstrap: &str, (name, assignor): (&str, &str)) -> Vec<Check> {
    let mut scene = match Scene::new(tools, bootstrap, name, assignor) {
        Ok(scene) => scene,
        Err(why) => return vec![("set-up".to_owned(), Err(why))],
    };
    in_turn(
        &mut scene,
        &[
            (
                "of three consumers the second dies: its partitions move, in order",
                &Scene::second_of_three_dies,
            ),
            ("committed by hand, a restart resumes there", &Scene::resumes),
            (
                "a second group reads everything from 0, in order",
                &Scene::second_group,
            ),
            (
                "committed by the library, a restart resumes there",
                &Scene::committed_by_library,
            ),
        ],
    )
}

/// What came, by partition, as it came.
type Came = BTreeMap<i32, Vec<i64>>;

/// A member, and what came to it. A commit that a rebalance refused is followed by another run: what was not committed comes
/// again.
struct Member {
    script: Script,
    runs: Vec<Came>,
    assigned: usize,
}

impl Member {
    fn came(&self) -> impl Iterator<Item = (i32, i64)> {
        let partitions = self.runs.iter().flatten();
        partitions.flat_map(|(partition, offsets)| offsets.iter().map(|offset| (*partition, *offset)))
    }
}

struct Scene<'a> {
    tools: &'a Tools,
    bootstrap: &'a str,
    name: &'a str,
    assignor: &'a str,
    topic: String,
    writer: Native,
    members: Vec<Member>,
    /// Which the last one joined.
    group: String,
    written: i64,
}

impl<'a> Scene<'a> {
    fn new(tools: &'a Tools, bootstrap: &'a str, name: &'a str, assignor: &'a str) -> Result<Self, String> {
        let topic = fresh("scene");
        create(tools, bootstrap, &topic, PARTITIONS)?;
        let mut scene = Self {
            tools,
            bootstrap,
            name,
            assignor,
            topic,
            writer: Native::new(bootstrap),
            members: Vec::new(),
            group: String::new(),
            written: 0,
        };
        scene.write(RECORDS)?;
        Ok(scene)
    }

    fn write(&mut self, count: i64) -> Result<(), String> {
        self.writer
            .produce(&Produce::to(&self.topic), &evenly(count, PARTITIONS))?;
        self.written += count;
        Ok(())
    }

    fn each(&self) -> i64 {
        self.written / i64::from(PARTITIONS)
    }

    fn join(&mut self, group: &str, more: &str) -> Result<(), String> {
        let mut script = self.tools.member(self.name, self.bootstrap)?;
        let head = format!(
            "join topic={} group={group} assignor={}{more}",
            self.topic, self.assignor
        );
        script.request(&head, &[])?;
        group.clone_into(&mut self.group);
        self.members.push(Member {
            script,
            runs: vec![Came::new()],
            assigned: 0,
        });
        Ok(())
    }

    /// Polls every member, commits by hand if that is asked for, until `done`.
    fn until(&mut self, what: &str, commits: bool, done: impl Fn(&Self) -> bool) -> Result<(), String> {
        let end = Instant::now() + STEP_MAX;
        loop {
            self.round(commits)?;
            if done(self) {
                return Ok(());
            }
            if Instant::now() > end {
                let assigned: Vec<usize> = self.members.iter().map(|member| member.assigned).collect();
                return Err(format!(
                    "{what}: not in time; assigned {assigned:?}, {} of {} records came; {}",
                    self.distinct(),
                    self.written,
                    described(self.bootstrap, &self.group)
                ));
            }
        }
    }

    /// Every member at once polls, commits by hand if that is asked for, and says how much it has.
    fn round(&mut self, commits: bool) -> Result<(), String> {
        for member in &mut self.members {
            member.script.ask("poll ms=100", &[])?;
            if commits {
                member.script.ask("commit", &[])?;
            }
            member.script.ask("assigned", &[])?;
        }
        for member in &mut self.members {
            for line in member.script.answer()? {
                let (partition, offset) = line.split_once(' ').ok_or("no record line")?;
                let offset: i64 = offset.parse().map_err(|_| "no offset")?;
                let partition: i32 = partition.parse().map_err(|_| "no partition")?;
                if let Some(run) = member.runs.last_mut() {
                    run.entry(partition).or_default().push(offset);
                }
            }
            if commits && !member.script.answer()?.is_empty() {
                member.runs.push(Came::new());
            }
            member.assigned = member.script.answer()?.len();
        }
        Ok(())
    }

    /// How many records came, each counted once.
    fn distinct(&self) -> i64 {
        let mut all: Vec<(i32, i64)> = self.members.iter().flat_map(Member::came).collect();
        all.sort_unstable();
        all.dedup();
        all.len() as i64
    }

    /// Everything of a partition came to each member in the order of its offsets. A member that was given a partition again
    /// starts where it was committed, which is no step back: every poll was committed.
    fn in_order(&self) -> Result<(), String> {
        for run in self.members.iter().flat_map(|member| &member.runs) {
            for (partition, offsets) in run {
                if let Some(pair) = offsets.windows(2).find(|pair| pair[1] <= pair[0]) {
                    return Err(format!(
                        "partition {partition}: {} came behind {}",
                        pair[1], pair[0]
                    ));
                }
            }
        }
        Ok(())
    }

    fn leave(&mut self) -> Result<(), String> {
        for mut member in self.members.drain(..) {
            member.script.request("leave", &[])?;
        }
        Ok(())
    }

    fn second_of_three_dies(&mut self) -> Result<(), String> {
        let group = format!("{}-three", self.topic);
        for _ in 0..3 {
            self.join(&group, "")?;
        }
        self.until("three share", true, |scene| {
            scene.members.iter().all(|member| member.assigned == 2)
        })?;
        self.write(MORE_RECORDS)?;
        self.until("three read", true, |scene| scene.distinct() == scene.written)?;
        self.in_order()?;
        let before = self.written;
        // Its process dies without a word.
        let dead = self.members.remove(1);
        let had = dead.came().count() as i64;
        drop(dead);
        for member in &mut self.members {
            member.runs = vec![Came::new()];
        }
        self.write(MORE_RECORDS)?;
        self.until("the others take over", true, |scene| {
            let owned: usize = scene.members.iter().map(|member| member.assigned).sum();
            owned == PARTITIONS as usize && scene.distinct() >= MORE_RECORDS
        })?;
        self.in_order()?;
        // What it had committed does not come again: at most its last poll does.
        let again = self.distinct() - MORE_RECORDS;
        if again > had || self.written != before + MORE_RECORDS {
            return Err(format!("{again} records came again"));
        }
        self.leave()?;
        let right: Vec<i64> = (0..PARTITIONS).map(|_| self.each()).collect();
        expect(&self.writer.committed(&group, &self.topic, PARTITIONS)?, &right)
    }

    fn resumes(&mut self) -> Result<(), String> {
        let group = format!("{}-three", self.topic);
        self.write(MORE_RECORDS)?;
        self.only_new(&group, "", true)
    }

    /// One member of a group that has read all but the last records gets those alone.
    fn only_new(&mut self, group: &str, more: &str, commits: bool) -> Result<(), String> {
        self.join(group, more)?;
        self.until("resumed", commits, |scene| scene.distinct() >= MORE_RECORDS)?;
        self.in_order()?;
        expect(&self.distinct(), &MORE_RECORDS)?;
        self.leave()
    }

    fn second_group(&mut self) -> Result<(), String> {
        let group = format!("{}-second", self.topic);
        self.join(&group, "")?;
        self.until("read again", true, |scene| scene.distinct() == scene.written)?;
        let right: Vec<i64> = (0..self.each()).collect();
        for partition in 0..PARTITIONS {
            let offsets = self.members[0].came().filter(|(of, _)| *of == partition);
            if !offsets.map(|(_, offset)| offset).eq(right.iter().copied()) {
                return Err(format!(
                    "partition {partition}: not every offset from 0 on, in order"
                ));
            }
        }
        self.leave()
    }

    fn committed_by_library(&mut self) -> Result<(), String> {
        let group = format!("{}-auto", self.topic);
        self.join(&group, " auto=1")?;
        self.until("read", false, |scene| scene.distinct() == scene.written)?;
        self.leave()?;
        let right: Vec<i64> = (0..PARTITIONS).map(|_| self.each()).collect();
        expect(&self.writer.committed(&group, &self.topic, PARTITIONS)?, &right)?;
        self.write(MORE_RECORDS)?;
        self.only_new(&group, " auto=1", false)
    }
}
