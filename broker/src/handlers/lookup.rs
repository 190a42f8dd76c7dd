//! From the name of a partition in a request to the partition, or to the error that says why not.

use std::rc::Rc;

use strandline_core::fetch_session::TopicKey;
use strandline_core::metadata::BrokerId;
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;
use strandline_wire::fetch::LeaderIdAndEpoch;

use crate::shard::{Partition, Shard, Topic};

/// Why a partition is not served here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotServed {
    pub(crate) code: ErrorCode,
    /// Who leads it, when that is known.
    pub(crate) leader: Option<LeaderIdAndEpoch>,
}

impl NotServed {
    /// The text for clients and log lines.
    pub(crate) fn reason(self) -> &'static str {
        match self.code {
            ErrorCode::NotLeaderOrFollower => "this broker does not lead the partition",
            ErrorCode::UnknownTopicId => "no topic has this id",
            ErrorCode::UnknownTopicOrPartition => "the topic or partition does not exist",
            ErrorCode::KafkaStorageError => "the storage of this shard stopped",
            ErrorCode::FencedLeaderEpoch => "the request names an older leader epoch",
            ErrorCode::UnknownLeaderEpoch => "the request names a leader epoch that is not known here yet",
            _ => "the partition is not served here",
        }
    }
}

impl From<ErrorCode> for NotServed {
    fn from(code: ErrorCode) -> Self {
        Self { code, leader: None }
    }
}

impl<R: Runtime, D: Disk> Shard<R, D> {
    /// The topic of a request, if a partition of it is led here.
    pub(crate) fn topic(&self, key: &TopicKey) -> Option<Rc<Topic<D>>> {
        match key {
            TopicKey::Name(name) => self.topics.by_name(name),
            TopicKey::Id(id) => self.topics.by_id(*id),
        }
    }

    /// The partition `number` of the topic `key`, which [`Self::topic`] found to be `topic`.
    pub(crate) fn partition_of(
        &self,
        topic: Option<&Rc<Topic<D>>>,
        key: &TopicKey,
        number: i32,
    ) -> Result<Rc<Partition<D>>, NotServed> {
        match topic.and_then(|topic| topic.partition(number)) {
            Some(partition) => match partition.lost() {
                None => Ok(partition),
                Some(code) => Err(NotServed::from(code)),
            },
            None => Err(self.why_not_here(key, number)),
        }
    }

    /// The same, for a request that also names the leader epoch it believes in; -1 names none.
    pub(crate) fn partition_in_epoch(
        &self,
        key: &TopicKey,
        number: i32,
        epoch: i32,
    ) -> Result<Rc<Partition<D>>, NotServed> {
        let partition = self.partition_of(self.topic(key).as_ref(), key, number)?;
        let current = partition.leader_epoch();
        if epoch < 0 || epoch == current {
            return Ok(partition);
        }
        if epoch > current {
            return Err(NotServed::from(ErrorCode::UnknownLeaderEpoch));
        }
        let leader = Some(LeaderIdAndEpoch {
            leader_id: self.broker_id.0,
            leader_epoch: current,
        });
        Err(NotServed {
            code: ErrorCode::FencedLeaderEpoch,
            leader,
        })
    }

    fn why_not_here(&self, key: &TopicKey, number: i32) -> NotServed {
        let image = self.image();
        let topic = match key {
            TopicKey::Name(name) => image.topic_by_name(name),
            TopicKey::Id(id) => image.topic(*id),
        };
        let Some(topic) = topic else {
            return match key {
                TopicKey::Name(_) => ErrorCode::UnknownTopicOrPartition.into(),
                TopicKey::Id(_) => ErrorCode::UnknownTopicId.into(),
            };
        };
        let assigned = usize::try_from(number)
            .ok()
            .and_then(|number| topic.partitions.get(number));
        let Some(assigned) = assigned else {
            return ErrorCode::UnknownTopicOrPartition.into();
        };
        if assigned.leader == self.broker_id && self.is_changing() {
            // By the next image it is led elsewhere.
            return ErrorCode::NotLeaderOrFollower.into();
        }
        if assigned.leader == self.broker_id {
            // Led here by the metadata, but the log could not be opened.
            return ErrorCode::KafkaStorageError.into();
        }
        let leader = (assigned.leader != BrokerId::NONE).then_some(LeaderIdAndEpoch {
            leader_id: assigned.leader.0,
            leader_epoch: assigned.leader_epoch.0,
        });
        NotServed {
            code: ErrorCode::NotLeaderOrFollower,
            leader,
        }
    }
}

/// What a topic is called in log lines.
pub(crate) struct Named<'a>(pub(crate) &'a TopicKey);

impl std::fmt::Display for Named<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            TopicKey::Name(name) => formatter.write_str(name),
            TopicKey::Id(id) => id.fmt(formatter),
        }
    }
}
