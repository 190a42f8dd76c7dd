//! What of committed commands is worth a line of the log: what operators and clients change.

use strandline_core::metadata::{Answer, Command, ConfigChange, ConfigOperation, ConfigResource};

/// A command as far as its line needs it, once its answer is known.
pub(super) enum Told {
    Nothing,
    TopicsCreated(Vec<String>),
    /// Names are in the answer.
    TopicsDeleted,
    PartitionsCreated(Vec<(String, i32)>),
    ConfigsAltered(Vec<(String, String)>),
}

impl Told {
    pub(super) fn of(command: &Command) -> Self {
        match command {
            Command::CreateTopics { topics } => {
                Self::TopicsCreated(topics.iter().map(|topic| topic.name.clone()).collect())
            }
            Command::DeleteTopics { .. } => Self::TopicsDeleted,
            Command::CreatePartitions { topics } => {
                let topics = topics.iter().map(|topic| (topic.name.clone(), topic.total));
                Self::PartitionsCreated(topics.collect())
            }
            Command::AlterConfigs { changes } => {
                let changes = changes.iter();
                Self::ConfigsAltered(
                    changes
                        .map(|change| (resource(change), changed(change)))
                        .collect(),
                )
            }
            _ => Self::Nothing,
        }
    }

    /// A line for each item that was carried out.
    fn lines(self, answer: &Answer) -> Vec<String> {
        match (self, answer) {
            (Self::TopicsCreated(names), Answer::TopicsCreated(answers)) => {
                let items = names.into_iter().zip(answers);
                let created = items.filter_map(|(name, answer)| Some((name, answer.as_ref().ok()?)));
                created
                    .map(|(name, topic)| format!("topic {name:?} created: {} partitions", topic.partitions))
                    .collect()
            }
            (Self::TopicsDeleted, Answer::TopicsDeleted(answers)) => answers
                .iter()
                .flatten()
                .map(|(_, name)| format!("topic {name:?} deleted"))
                .collect(),
            (Self::PartitionsCreated(topics), Answer::PartitionsCreated(answers)) => topics
                .into_iter()
                .zip(answers)
                .filter(|(_, answer)| answer.is_ok())
                .map(|((name, total), _)| format!("topic {name:?} has {total} partitions now"))
                .collect(),
            (Self::ConfigsAltered(changes), Answer::ConfigsAltered(answers)) => changes
                .into_iter()
                .zip(answers)
                .filter(|(_, answer)| answer.is_ok())
                .map(|((resource, changed), _)| format!("configuration of {resource} changed: {changed}"))
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// Writes the lines of commands that were committed as one.
pub(super) fn tell(told: Vec<Told>, answers: &[Answer]) {
    let items = told.into_iter().zip(answers);
    for line in items.flat_map(|(told, answer)| told.lines(answer)) {
        tracing::info!("{line}");
    }
}

fn resource(change: &ConfigChange) -> String {
    match &change.resource {
        ConfigResource::Topic(name) => format!("topic {name:?}"),
        ConfigResource::Broker(broker) => format!("broker {broker}"),
        ConfigResource::ClusterDefault => "all brokers".to_owned(),
        ConfigResource::Group(name) => format!("group {name:?}"),
    }
}

fn changed(change: &ConfigChange) -> String {
    let operations = change.operations.iter().map(|(key, operation)| match operation {
        ConfigOperation::Set(value) => format!("{key}={value:?}"),
        ConfigOperation::Delete => format!("{key} unset"),
        ConfigOperation::Append { items, .. } => format!("{key}+={items:?}"),
        ConfigOperation::Subtract { items, .. } => format!("{key}-={items:?}"),
    });
    let mut parts: Vec<String> = operations.collect();
    if change.replace {
        parts.push("all other keys unset".to_owned());
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use strandline_core::metadata::{ApplyError, NewPartitions};

    use super::*;

    #[test]
    fn what_was_refused_is_not_told() {
        let named = |name: &str, total| NewPartitions {
            name: name.to_owned(),
            total,
            assignments: None,
        };
        let command = Command::CreatePartitions {
            topics: vec![named("a", 3), named("b\n", 4)],
        };
        let refused = ApplyError::UnknownTopic("a".to_owned());
        let answer = Answer::PartitionsCreated(vec![Err(refused), Ok(())]);
        assert_eq!(
            Told::of(&command).lines(&answer),
            ["topic \"b\\n\" has 4 partitions now"]
        );
    }

    #[test]
    fn changes_of_configuration_name_keys_and_values() {
        let change = ConfigChange {
            resource: ConfigResource::Topic("t".to_owned()),
            replace: false,
            operations: vec![
                ("retention.ms".to_owned(), ConfigOperation::Set("5".to_owned())),
                ("segment.ms".to_owned(), ConfigOperation::Delete),
            ],
        };
        let command = Command::AlterConfigs {
            changes: vec![change],
        };
        assert_eq!(
            Told::of(&command).lines(&Answer::ConfigsAltered(vec![Ok(())])),
            ["configuration of topic \"t\" changed: retention.ms=\"5\", segment.ms unset"]
        );
    }
}
