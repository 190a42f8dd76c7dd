//! Topics that come and go: rows B29 and B30 of the field reports.

use super::library::read_back;
use super::{expect, fresh};
use crate::client::{Client, Produce};
use crate::native::Native;
use crate::raw::Raw;
use crate::record::Record;
use crate::report::Report;

/// How often a topic is created and used at once, for each library, and recreated.
const ROUNDS: usize = 10;
/// Clients that meet a new topic at the same moment.
const CROWD: usize = 50;

const UNKNOWN_TOPIC: i16 = 3;
const UNKNOWN_TOPIC_ID: i16 = 100;

/// Runs the suite.
pub(crate) fn run(report: &mut Report, bootstrap: &str, clients: &mut [Box<dyn Client>]) {
    report.begin("topics");
    for at in 0..clients.len() {
        let outcome = used_at_once(bootstrap, clients, at);
        report.check(
            &format!("{}: usable right after creation (B29)", clients[at].name()),
            outcome,
        );
    }
    report.check(
        "metadata without leave creates nothing (B29)",
        not_created(bootstrap),
    );
    report.check(&format!("{CROWD} clients, one new topic (B29)"), crowd(bootstrap));
    report.check(
        "deletion ends a parked fetch (B30)",
        deleted_under_fetch(bootstrap),
    );
    report.check("two deletions at once (B30)", deleted_twice(bootstrap));
    report.check(
        "deletion under producers (B30)",
        deleted_under_producers(bootstrap),
    );
    report.check("a recreated topic starts empty (B30)", recreated(bootstrap));
    report.end();
}

fn used_at_once(bootstrap: &str, clients: &mut [Box<dyn Client>], at: usize) -> Result<(), String> {
    let mut admin = Raw::connect(bootstrap)?;
    for round in 0..ROUNDS {
        let topic = fresh("at-once");
        expect(&admin.create_topic(&topic, 8, &[])?, &0)?;
        let records = [Record::new(Some(b"key"), Some(b"value"))];
        clients[at]
            .produce(&Produce::to(&topic), &records)
            .map_err(|why| format!("round {round}: {why}"))?;
        // The one that cannot read is read by the first, which can.
        let reader = if clients[at].can_consume() { at } else { 0 };
        read_back(clients[reader].as_mut(), &topic, &records)
            .map_err(|why| format!("round {round}: {why}"))?;
    }
    Ok(())
}

fn not_created(bootstrap: &str) -> Result<(), String> {
    let (topic, mut raw) = (fresh("never"), Raw::connect(bootstrap)?);
    for _ in 0..3 {
        let metadata = raw.metadata(&topic, false)?;
        expect(
            &metadata.topics.first().map(|one| one.error_code),
            &Some(UNKNOWN_TOPIC),
        )?;
    }
    Ok(())
}

fn crowd(bootstrap: &str) -> Result<(), String> {
    let topic = fresh("crowd");
    let one = || Native::new(bootstrap).produce(&Produce::to(&topic), &[Record::new(None, Some(b"value"))]);
    let outcomes: Vec<Result<Vec<i64>, String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CROWD).map(|_| scope.spawn(one)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a producer panicked".to_owned())?)
            .collect()
    });
    let mut offsets = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    offsets.sort_unstable();
    expect(&offsets, &(0..CROWD as i64).collect())
}

fn deleted_under_fetch(bootstrap: &str) -> Result<(), String> {
    let (topic, mut admin) = (fresh("parked"), Raw::connect(bootstrap)?);
    expect(&admin.create_topic(&topic, 1, &[])?, &0)?;
    let mut parked = Raw::leader(bootstrap, &topic, 0)?;
    std::thread::scope(|scope| {
        // Longer than the connection waits: it is the deletion that must answer.
        let fetch = scope.spawn(|| parked.fetch(&topic, 0, 0, 300_000));
        expect(&admin.delete_topic(&topic)?, &0)?;
        let found = fetch.join().map_err(|_| "the fetch panicked".to_owned())??;
        if [UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID, 6].contains(&found.error_code) {
            return Ok(());
        }
        Err(format!(
            "the parked fetch was answered with error {}",
            found.error_code
        ))
    })
}

fn deleted_twice(bootstrap: &str) -> Result<(), String> {
    let topic = fresh("twice");
    expect(&Raw::connect(bootstrap)?.create_topic(&topic, 16, &[])?, &0)?;
    let delete = || Raw::connect(bootstrap)?.delete_topic(&topic);
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(delete);
        (
            delete(),
            other.join().unwrap_or_else(|_| Err("panicked".to_owned())),
        )
    });
    let mut codes = [one?, other?];
    codes.sort_unstable();
    if codes == [0, 0] || codes == [0, UNKNOWN_TOPIC] {
        Ok(())
    } else {
        Err(format!("answered {codes:?}"))
    }
}

/// Producers must end, with success or an error that names the topic; and the broker must live.
fn deleted_under_producers(bootstrap: &str) -> Result<(), String> {
    let (topic, mut admin) = (fresh("under-load"), Raw::connect(bootstrap)?);
    expect(&admin.create_topic(&topic, 16, &[])?, &0)?;
    let records: Vec<Record> = (0..2_000)
        .map(|at| Record::new(None, Some(b"value")).partition(at % 16))
        .collect();
    let produce = || {
        Native::new(bootstrap).produce(
            &Produce {
                idempotent: false,
                ..Produce::to(&topic)
            },
            &records,
        )
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(produce)).collect();
        let code = admin.delete_topic(&topic)?;
        expect(&code, &0)?;
        for thread in threads {
            // Auto-creation may bring the topic back for a producer that retries; then it succeeds.
            let _ = thread.join().map_err(|_| "a producer panicked".to_owned())?;
        }
        admin.delete_topic(&topic)?;
        expect(&admin.create_topic(&fresh("after-load"), 1, &[])?, &0)
    })
}

fn recreated(bootstrap: &str) -> Result<(), String> {
    let (topic, mut admin) = (fresh("recreated"), Raw::connect(bootstrap)?);
    for round in 0..ROUNDS {
        let created = admin.create_topic(&topic, 4, &[])?;
        expect(&created, &0).map_err(|why| format!("round {round}: create: {why}"))?;
        let value = format!("round {round}");
        let records = [
            Record::new(None, Some(value.as_bytes())),
            Record::new(Some(b"k"), Some(value.as_bytes())),
        ];
        let mut client = Native::new(bootstrap);
        let offsets = client.produce(&Produce::to(&topic), &records)?;
        expect(&offsets, &vec![0, 1]).map_err(|why| format!("round {round}: {why}"))?;
        read_back(&mut client, &topic, &records).map_err(|why| format!("round {round}: {why}"))?;
        expect(&admin.delete_topic(&topic)?, &0).map_err(|why| format!("round {round}: delete: {why}"))?;
    }
    Ok(())
}
