//! What each library did in a run: the records it produced and consumed, for the closing lines.

use crate::client::{Check, Client, Consume, Produce};
use crate::record::Record;
use crate::report::Report;
use std::sync::{Arc, Mutex, PoisonError};

/// The counts of all libraries, in the order in which they were first used.
#[derive(Clone, Default)]
pub(crate) struct Tally(Arc<Mutex<Vec<Row>>>);

struct Row {
    name: String,
    consumes: bool,
    produced: usize,
    consumed: usize,
}

impl Tally {
    /// `client`, with what it produces and consumes counted here.
    pub(crate) fn counting(&self, client: Box<dyn Client>) -> Box<dyn Client> {
        let tally = self.clone();
        tally.add(client.as_ref(), 0, 0);
        Box::new(Counted { client, tally })
    }

    fn add(&self, client: &dyn Client, produced: usize, consumed: usize) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !rows.iter().any(|row| row.name == client.name()) {
            rows.push(Row {
                name: client.name().to_owned(),
                consumes: client.can_consume(),
                produced: 0,
                consumed: 0,
            });
        }
        for row in rows.iter_mut().filter(|row| row.name == client.name()) {
            (row.produced, row.consumed) = (row.produced + produced, row.consumed + consumed);
        }
    }

    /// One line a library; one that did not do both, or cannot, has failed.
    pub(crate) fn close(&self, report: &mut Report) {
        report.begin("each client");
        for row in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let Row {
                name,
                consumes,
                produced,
                consumed,
            } = row;
            let read = if *consumes {
                format!("consumed {consumed}")
            } else {
                "consumes only in groups".to_owned()
            };
            println!("client {name}: produced {produced} records, {read}");
            let works = *produced > 0 && (*consumed > 0 || !consumes);
            report.check(name, if works { Ok(()) } else { Err("did not".to_owned()) });
        }
        report.end();
    }
}

struct Counted {
    client: Box<dyn Client>,
    tally: Tally,
}

impl Client for Counted {
    fn name(&self) -> &str {
        self.client.name()
    }

    fn codecs(&self) -> &[&'static str] {
        self.client.codecs()
    }

    fn can_write(&self, record: &Record) -> bool {
        self.client.can_write(record)
    }

    fn can_consume(&self) -> bool {
        self.client.can_consume()
    }

    fn produce(&mut self, how: &Produce<'_>, records: &[Record]) -> Result<Vec<i64>, String> {
        let offsets = self.client.produce(how, records)?;
        self.tally.add(self.client.as_ref(), records.len(), 0);
        Ok(offsets)
    }

    fn consume(&mut self, what: &Consume<'_>) -> Result<Vec<Record>, String> {
        let records = self.client.consume(what)?;
        self.tally.add(self.client.as_ref(), 0, records.len());
        Ok(records)
    }

    fn admin(&mut self, topic: &str) -> Option<Result<Vec<Check>, String>> {
        self.client.admin(topic)
    }
}
