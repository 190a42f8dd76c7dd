//! A proxy between the tool and a broker that loses, doubles, swaps and changes records, one at a time: each fault is found, and without one
//! nothing is.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use strandline_bench::exit::Exit;
use strandline_bench::null_broker::{NullBroker, NullBrokerOptions};
use strandline_bench::report::RunReport;
use strandline_bench::run::run;

const PRODUCE: i16 = 0;
const FETCH: i16 = 1;
const INIT_PRODUCER_ID: i16 = 22;

/// COORDINATOR_LOAD_IN_PROGRESS.
const LOADING: i16 = 14;

/// The request that the fault happens to, counted through all of its kind.
const AT: u64 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// A produce request is acknowledged and goes nowhere.
    Lose,
    /// A produce request reaches the broker twice.
    Double,
    /// A produce request reaches the broker after the one behind it.
    Swap,
    /// A bit of a fetched record changes.
    Flip,
    /// The first answer to who asks for a producer id is "not yet".
    NotYet,
}

/// What the connections of a proxy share.
struct Proxy {
    fault: Fault,
    upstream: SocketAddr,
    produces: AtomicU64,
    flipped: AtomicBool,
    /// An answer to an earlier produce request, to acknowledge with what never reached the broker.
    acknowledgement: Mutex<Vec<u8>>,
    held: Mutex<Option<Vec<u8>>>,
}

fn read_frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut size = [0; 4];
    stream.read_exact(&mut size)?;
    let mut frame = size.to_vec();
    frame.resize(4 + u32::from_be_bytes(size) as usize, 0);
    stream.read_exact(&mut frame[4..])?;
    Ok(frame)
}

/// One request to the broker and its answer.
fn ask(upstream: &mut TcpStream, request: &[u8]) -> io::Result<Vec<u8>> {
    upstream.write_all(request)?;
    read_frame(upstream)
}

impl Proxy {
    /// Serves one client until it leaves.
    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        let mut upstream = TcpStream::connect(self.upstream)?;
        upstream.set_nodelay(true)?;
        client.set_nodelay(true)?;
        loop {
            let request = read_frame(&mut client)?;
            let api = i16::from_be_bytes([request[4], request[5]]);
            let answer = match api {
                PRODUCE => self.produce(&mut upstream, &request)?,
                FETCH => self.fetch(&mut upstream, &request)?,
                INIT_PRODUCER_ID => self.producer_id(&mut upstream, &request)?,
                _ => ask(&mut upstream, &request)?,
            };
            client.write_all(&answer)?;
        }
    }

    fn produce(&self, upstream: &mut TcpStream, request: &[u8]) -> io::Result<Vec<u8>> {
        let number = self.produces.fetch_add(1, Ordering::SeqCst) + 1;
        let pretended = || {
            let mut answer = self.acknowledgement.lock().unwrap().clone();
            // The correlation id: after the size, and in the request after the API and its version.
            answer[4..8].copy_from_slice(&request[8..12]);
            answer
        };
        if number == AT && self.fault == Fault::Lose {
            return Ok(pretended());
        }
        if number == AT && self.fault == Fault::Swap {
            *self.held.lock().unwrap() = Some(request.to_vec());
            return Ok(pretended());
        }
        let answer = ask(upstream, request)?;
        let held = self.held.lock().unwrap().take();
        let again = (number == AT && self.fault == Fault::Double).then(|| request.to_vec());
        for late in held.into_iter().chain(again) {
            ask(upstream, &late)?;
        }
        *self.acknowledgement.lock().unwrap() = answer.clone();
        Ok(answer)
    }

    fn producer_id(&self, upstream: &mut TcpStream, request: &[u8]) -> io::Result<Vec<u8>> {
        let mut answer = ask(upstream, request)?;
        if self.fault == Fault::NotYet && !self.flipped.swap(true, Ordering::SeqCst) {
            // After the size, the correlation id, the tags of the header and the throttle time.
            answer[13..15].copy_from_slice(&LOADING.to_be_bytes());
        }
        Ok(answer)
    }

    fn fetch(&self, upstream: &mut TcpStream, request: &[u8]) -> io::Result<Vec<u8>> {
        let mut answer = ask(upstream, request)?;
        // One that brings records is longer than one that does not; their last byte but a few is payload.
        if self.fault == Fault::Flip && answer.len() > 500 && !self.flipped.swap(true, Ordering::SeqCst) {
            let place = answer.len() - 100;
            answer[place] ^= 1;
        }
        Ok(answer)
    }
}

fn report_with(fault: Fault) -> (RunReport, Exit) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let broker = NullBroker::start(&NullBrokerOptions {
        advertised: Some(address),
        ..support::options()
    })
    .unwrap();
    let proxy = Arc::new(Proxy {
        fault,
        upstream: broker.addresses()[0],
        produces: AtomicU64::new(0),
        flipped: AtomicBool::new(false),
        acknowledgement: Mutex::default(),
        held: Mutex::default(),
    });
    // It ends with the process; its connections end with their clients.
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, proxy) = (client.unwrap(), Arc::clone(&proxy));
            // The client has left.
            std::thread::spawn(move || drop(proxy.serve(client)));
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let bootstrap = address.to_string();
    let options = "--rate 1k --num-records 200 --record-size 512 --batch 600 --partitions 1 --idempotent";
    let args = support::run_args(&bootstrap, folder.path(), options.split_whitespace());
    let finished = run(&args, &Arc::new(AtomicBool::new(false))).unwrap();
    assert_eq!(
        finished.report.records.acknowledged, 200,
        "{:?}",
        finished.report.errors
    );
    (finished.report, finished.exit)
}

/// Missing, duplicates, reordered, corrupt.
fn found(report: &RunReport) -> (u64, u64, u64, u64) {
    let found = report.verification.as_ref().unwrap();
    (
        found.acknowledged_missing,
        found.duplicates,
        found.reordered,
        found.corrupt,
    )
}

#[test]
fn without_a_fault_nothing_is_found() {
    let (report, _) = report_with(Fault::None);
    assert_eq!(found(&report), (0, 0, 0, 0));
    assert!(report.verification.unwrap().passed());
}

#[test]
fn an_acknowledged_record_that_went_nowhere_is_lost() {
    let (report, exit) = report_with(Fault::Lose);
    assert_eq!((found(&report), exit), ((1, 0, 0, 0), Exit::VerificationFailed));
}

#[test]
fn a_record_that_came_twice_is_a_duplicate() {
    let (report, exit) = report_with(Fault::Double);
    assert_eq!((found(&report), exit), ((0, 1, 0, 0), Exit::VerificationFailed));
}

#[test]
fn records_that_changed_places_are_reordered() {
    let (report, exit) = report_with(Fault::Swap);
    let (missing, duplicates, reordered, corrupt) = found(&report);
    assert_eq!(
        (missing, duplicates, corrupt, exit),
        (0, 0, 0, Exit::VerificationFailed)
    );
    assert_eq!(reordered, 1);
}

/// Kafka answers so until it has a block of ids: no reason to give up.
#[test]
fn a_producer_id_that_is_not_to_be_had_yet_is_asked_for_again() {
    let (report, _) = report_with(Fault::NotYet);
    assert_eq!(found(&report), (0, 0, 0, 0));
}

#[test]
fn a_changed_bit_is_corruption() {
    let (report, exit) = report_with(Fault::Flip);
    let (.., corrupt) = found(&report);
    assert!(
        corrupt > 0 && exit == Exit::VerificationFailed,
        "{:?}",
        report.verification
    );
}
