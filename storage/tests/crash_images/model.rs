//! What a test knows of a log: everything it asked for, and how much of that was acknowledged.

use std::rc::Rc;

use strandline_storage::{Log, disk::Disk};

/// One content of a log between two truncations: the values by offset, and where they begin.
#[derive(Clone, Debug, Default)]
pub struct Lineage {
    /// `values[i]` stands at offset `i`; start offsets only hide them.
    pub values: Vec<Rc<Vec<u8>>>,
    /// Everything below was acknowledged in this lineage.
    pub acknowledged: i64,
}

/// One life of a replica, from creation to deletion.
#[derive(Clone, Debug, Default)]
pub struct Life {
    pub create_durable: bool,
    pub delete_requested: bool,
    pub delete_durable: bool,
    /// One more than the truncations asked for.
    pub lineages: Vec<Lineage>,
    /// How many truncations are durable.
    pub truncations_durable: usize,
    pub start_requested: i64,
    /// Whether retention may raise the start as well, over what was acknowledged.
    pub retains: bool,
    pub start_durable: i64,
    pub epoch_durable: i32,
    pub epoch_requested: i32,
    /// Whether one idempotent producer writes it, a record a batch: then sequences are offsets.
    pub idempotent: bool,
}

impl Life {
    pub fn new(idempotent: bool) -> Self {
        Self {
            idempotent,
            lineages: vec![Lineage::default()],
            epoch_durable: -1,
            epoch_requested: -1,
            ..Self::default()
        }
    }

    pub fn newest(&mut self) -> &mut Lineage {
        self.lineages.last_mut().unwrap()
    }

    /// Whether `log` may be this life after a crash; the reason if not.
    pub fn check(&self, found: &Found) -> Result<(), String> {
        if self.delete_durable {
            return Err("a deleted log is back".into());
        }
        if found.damaged.is_some() {
            return Err(format!("damaged from {:?}", found.damaged));
        }
        let acknowledged = self.lineages.iter().map(|lineage| lineage.acknowledged).max();
        let start_max = match self.retains {
            true => self.start_requested.max(acknowledged.unwrap_or(0)),
            false => self.start_requested,
        };
        if found.start < self.start_durable || found.start > start_max {
            return Err(format!(
                "start {} is not in {}..={start_max}",
                found.start, self.start_durable
            ));
        }
        if found.epoch < self.epoch_durable || found.epoch > self.epoch_requested {
            return Err(format!(
                "epoch {} is not in {}..={}",
                found.epoch, self.epoch_durable, self.epoch_requested
            ));
        }
        let mut reasons = Vec::new();
        for (number, lineage) in self.lineages.iter().enumerate().skip(self.truncations_durable) {
            match lineage.check(found) {
                Ok(()) => return Ok(()),
                Err(reason) => reasons.push(format!("as of truncation {number}: {reason}")),
            }
        }
        Err(reasons.join("; "))
    }
}

impl Lineage {
    fn check(&self, found: &Found) -> Result<(), String> {
        if found.end < self.acknowledged {
            return Err(format!(
                "end {} is below the acknowledged {}",
                found.end, self.acknowledged
            ));
        }
        if found.end > (self.values.len() as i64).max(found.start) {
            return Err(format!(
                "end {} is beyond {} appended",
                found.end,
                self.values.len()
            ));
        }
        let expected = found.end - found.start;
        if found.records.len() as i64 != expected {
            return Err(format!(
                "{} records in {}..{}",
                found.records.len(),
                found.start,
                found.end
            ));
        }
        for (at, (offset, value)) in found.records.iter().enumerate() {
            if *offset != found.start + at as i64 {
                return Err(format!(
                    "offset {offset} where {} was due",
                    found.start + at as i64
                ));
            }
            if self
                .values
                .get(*offset as usize)
                .is_none_or(|known| **known != *value)
            {
                return Err(format!("another value at offset {offset}"));
            }
        }
        Ok(())
    }
}

/// What was read after a crash.
#[derive(Debug)]
pub struct Found {
    pub start: i64,
    pub end: i64,
    pub damaged: Option<i64>,
    pub epoch: i32,
    pub records: Vec<(i64, Vec<u8>)>,
}

impl Found {
    pub async fn read<D: Disk>(log: &Log<D>) -> Self {
        Self {
            start: log.start_offset(),
            end: log.end_offset(),
            damaged: log.damaged_from(),
            epoch: log.leader_epoch(),
            records: crate::common::read_all(log, log.start_offset()).await,
        }
    }
}

/// Everything that a test asked of a store: the lives of each partition, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub partitions: Vec<Vec<Life>>,
}

impl Model {
    /// The life that is not deleted.
    pub fn live(&mut self, partition: usize) -> Option<&mut Life> {
        self.partitions[partition]
            .last_mut()
            .filter(|life| !life.delete_requested)
    }

    /// Finds the life that a recovered log is, or says why it is none of them.
    pub fn identify(&self, partition: usize, found: Option<&Found>) -> Result<Option<Life>, String> {
        let lives = &self.partitions[partition];
        let Some(found) = found else {
            let missing = lives
                .iter()
                .any(|life| life.create_durable && !life.delete_requested);
            return if missing {
                Err("a log is missing".into())
            } else {
                Ok(None)
            };
        };
        let mut reasons = Vec::new();
        // A later life that is durable rules out all before it.
        let first = lives.iter().rposition(|life| life.create_durable).unwrap_or(0);
        for life in &lives[first..] {
            match life.check(found) {
                Ok(()) => return Ok(Some(life.clone())),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(format!("the log is none of its lives: {}", reasons.join(" | ")))
    }
}
