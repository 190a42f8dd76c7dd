//! The end of a process: a clean stop, and a data directory's one owner.

mod support;

use support::{Batch, Broker, Partition};

#[test]
fn a_clean_stop_ends_with_status_zero_and_keeps_everything() {
    let mut broker = Broker::start();
    let mut p = Partition::create(&broker, "clean", &[]);
    for n in 0..50 {
        p.append(&Batch::of_values([format!("{n}")]));
    }
    // A connection with a parked fetch does not hold the stop up.
    let parked = p.fetch_request(50).with_max_wait_ms(600_000);
    p.client.send(support::topic::FETCH_VERSION, &parked).unwrap();
    assert!(broker.stop().success());
    broker.launch();
    assert_eq!(Partition::find(&broker, "clean", 0).read_all(0).len(), 50);
}

/// A second process on one data directory is refused, and the first goes on.
#[test]
fn a_data_directory_has_one_owner() {
    let broker = Broker::start();
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_strandline"))
        .args(["--port", "0", "--http-port", "0", "--shards", "1", "--data-dir"])
        .arg(broker.data_directory())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(2));
    let said = String::from_utf8_lossy(&second.stderr);
    assert_eq!(
        said.lines()
            .filter(|line| line.starts_with("strandline:"))
            .count(),
        1,
        "{said}"
    );
    Partition::create(&broker, "alive", &[]).append(&Batch::of_values(["v"]));
}
