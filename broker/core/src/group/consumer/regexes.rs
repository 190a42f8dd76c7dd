//! Subscriptions by regular expression: when they are matched against the topics, and what is kept of that.

use std::collections::BTreeSet;
use std::rc::Rc;

use strandline_wire::ErrorCode;

use super::pattern::Pattern;
use super::record::{ConsumerRecord, ResolvedRegex};
use super::request::{ConsumerGroupConfig, GroupError};
use super::state::{ConsumerGroup, RegexCheck};
use super::topics::TopicImage;

/// New topics are looked for at most this often, as in Kafka: a burst of new topics is one rebalance.
const REFRESH_INTERVAL_MIN_MS: i64 = 10_000;
/// How many names are matched in one heartbeat, but for the first regular expression that is due: other members wait
/// meanwhile. What is left is done by the next heartbeats.
const MATCHES_MAX: usize = 100_000;

impl ConsumerGroup {
    /// Makes sure that a regular expression compiles.
    pub(super) fn compile(&mut self, regex: &str) -> Result<(), GroupError> {
        if self.topic_regexes.contains_key(regex) {
            return Ok(());
        }
        match Pattern::compile(regex) {
            Ok(pattern) => {
                self.patterns.insert(regex.into(), Some(pattern));
                Ok(())
            }
            Err(error) => {
                let message =
                    format!("SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.");
                Err(GroupError::new(ErrorCode::InvalidRegularExpression, message))
            }
        }
    }

    /// Forgets the regular expressions that nobody subscribes by any more, matches the new ones, and those that may
    /// match other topics by now; whether any matches others.
    pub(super) fn refresh_regexes(
        &mut self,
        now_ms: i64,
        config: &ConsumerGroupConfig,
        image: &dyn TopicImage,
        records: &mut Vec<ConsumerRecord>,
    ) -> bool {
        self.forget_regexes(records);
        let mut changed = false;
        let mut left = MATCHES_MAX;
        for regex in self.due_regexes(now_ms, config, image) {
            if left == 0 {
                break;
            }
            let (topics, names) = self.matching(&regex, image);
            left = left.saturating_sub(names);
            let check = RegexCheck {
                version: image.version(),
                at_ms: now_ms,
            };
            self.regex_checks.insert(regex.clone(), check);
            let old = self.regexes.get(&regex);
            let is_new = old.is_none_or(|old| old.topics != topics);
            changed |= is_new;
            // A match that gave the same is stored seldom, so that it is not done again after every restart.
            if is_new || old.is_some_and(|old| now_ms > old.timestamp_ms + config.regex_refresh_interval_ms) {
                let resolved = ResolvedRegex {
                    topics,
                    version: check.version,
                    timestamp_ms: now_ms,
                };
                self.emit(records, ConsumerRecord::Regex(regex, Some(Rc::new(resolved))));
            }
        }
        changed
    }

    /// Forgets the regular expressions that nobody subscribes by any more.
    pub(super) fn forget_regexes(&mut self, records: &mut Vec<ConsumerRecord>) {
        let unused = |regex: &&Rc<str>| !self.topic_regexes.contains_key(*regex);
        let gone: Vec<Rc<str>> = self.regexes.keys().filter(unused).cloned().collect();
        for regex in gone {
            self.emit(records, ConsumerRecord::Regex(regex, None));
        }
    }

    /// Those that were never matched, then the others, the longest unmatched first.
    fn due_regexes(&self, now_ms: i64, config: &ConsumerGroupConfig, image: &dyn TopicImage) -> Vec<Rc<str>> {
        let mut due: Vec<(Option<i64>, &Rc<str>)> = Vec::new();
        for regex in self.topic_regexes.keys() {
            let Some(resolved) = self.regexes.get(regex) else {
                due.push((None, regex));
                continue;
            };
            let last = self.regex_checks.get(regex).copied().unwrap_or(RegexCheck {
                version: resolved.version,
                at_ms: resolved.timestamp_ms,
            });
            let has_new_topics = image.version() != last.version;
            if now_ms > last.at_ms + config.regex_refresh_interval_ms
                || (has_new_topics && now_ms > last.at_ms + REFRESH_INTERVAL_MIN_MS)
            {
                due.push((Some(last.at_ms), regex));
            }
        }
        due.sort();
        due.into_iter().map(|(_, regex)| regex.clone()).collect()
    }

    /// The topics that match, and how many names were looked at.
    fn matching(&mut self, regex: &Rc<str>, image: &dyn TopicImage) -> (BTreeSet<Rc<str>>, usize) {
        // One that another broker took and this one cannot compile matches nothing.
        let pattern = self
            .patterns
            .entry(regex.clone())
            .or_insert_with(|| Pattern::compile(regex).ok());
        let mut topics = BTreeSet::new();
        let mut names = 0;
        image.for_each_name(&mut |name| {
            names += 1;
            if pattern.as_ref().is_some_and(|pattern| pattern.matches(name)) {
                topics.insert(name.into());
            }
        });
        (topics, names)
    }
}
