//! kill -9 and a start at the same ports at once: the system releases the sockets in a dead process's rings a moment later.

#![allow(clippy::unwrap_used)]

mod support;

use support::Broker;
use support::topic::metadata;

#[test]
fn a_killed_node_starts_again_on_its_ports_at_once() {
    let mut broker = Broker::start_with(&["--shards", "1"]);
    let address = broker.address();
    broker.keep_port();
    for _ in 0..10 {
        // Connections that live and wait, as clients in a group have them.
        let mut clients: Vec<_> = (0..20).map(|_| broker.client()).collect();
        for client in &mut clients {
            assert!(metadata(client, &[]).topics.is_empty());
        }
        broker.kill();
        broker.launch();
        assert_eq!(broker.address(), address);
    }
}
