//! Links between nodes are cut again and again, and strangers speak to their ports: replicas come back, and nothing is lost.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use kafka_protocol::messages::DescribeQuorumRequest;
use support::nodes::{
    Acknowledged, append, assert_kept, brokers, cluster_with, create_replicated, seen, until,
};
use support::{Broker, Client};

/// What others are told, and where a node listens: between the two stands the test.
const TOLD: [u8; 4] = [127, 0, 0, 1];
const BOUND: [u8; 4] = [127, 0, 0, 2];

/// Carries the links to one shard.
struct Proxy {
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    fn start(port: u16) -> Self {
        let listener = TcpListener::bind(SocketAddr::from((TOLD, port))).unwrap();
        let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let all = open.clone();
        thread::spawn(move || {
            for inward in listener.incoming().map_while(Result::ok) {
                let Ok(outward) = TcpStream::connect(SocketAddr::from((BOUND, port))) else {
                    continue;
                };
                for stream in [&inward, &outward] {
                    stream.set_nodelay(true).unwrap();
                    all.lock().unwrap().push(stream.try_clone().unwrap());
                }
                carry(inward.try_clone().unwrap(), outward.try_clone().unwrap());
                carry(outward, inward);
            }
        });
        Self { open }
    }

    /// Closes every link in the middle of whatever it says; how many there were.
    fn cut(&self) -> usize {
        let open = std::mem::take(&mut *self.open.lock().unwrap());
        for stream in &open {
            let _ = stream.shutdown(Shutdown::Both);
        }
        open.len() / 2
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || {
        let mut bytes = [0; 4_096];
        while let Ok(read) = from.read(&mut bytes)
            && read > 0
            && to.write_all(&bytes[..read]).is_ok()
        {}
        let _ = to.shutdown(Shutdown::Both);
    });
}

/// The link ports of nodes 1 to 3.
fn link_ports(node: &Broker) -> Vec<u16> {
    let answer = node.client().call(2, &DescribeQuorumRequest::default());
    let listeners = answer.nodes.iter().flat_map(|node| &node.listeners);
    let links = listeners.filter(|listener| listener.name.starts_with("LINK-"));
    links.map(|listener| listener.port).collect()
}

#[test]
fn links_that_are_cut_come_back_and_strangers_disturb_nobody() {
    let nodes = cluster_with(&[
        "strandline.link.host=127.0.0.2",
        "strandline.link.advertised.host=127.0.0.1",
        // Nobody is taken for dead, or for lagging, because of a link.
        "replica.lag.time.max.ms=60000",
    ]);
    let mut ports = Vec::new();
    until("where links are reached", || {
        ports = link_ports(&nodes[0]);
        ports.len() == 3
    });
    let proxies: Vec<Proxy> = ports.iter().map(|port| Proxy::start(*port)).collect();
    create_replicated(&nodes);
    let mut acknowledged = Acknowledged::new();
    let mut cuts = 0;
    for round in 0..20 {
        for n in 0..5 {
            append(
                &nodes,
                &format!("{round}-{n} {}", "v".repeat(round * 1_000)),
                &mut acknowledged,
            );
        }
        cuts += proxies.iter().map(Proxy::cut).sum::<usize>();
        for port in &ports {
            let mut stranger = Client::connect(SocketAddr::from((BOUND, *port)));
            stranger
                .send_raw(b"GET / HTTP/1.1\r\nHost: nobody\r\n\r\n")
                .unwrap();
            stranger.send_raw(&[0xff; 256]).unwrap_or_default();
        }
    }
    assert!(cuts >= 20, "{cuts} links were cut");
    until("everybody is in sync", || seen(&nodes).1 == [1000, 2000, 3000]);
    assert_kept(&nodes, &acknowledged);
    for node in &nodes {
        assert_eq!(brokers(node), [1000, 2000, 3000]);
        assert!(
            node.log().contains("the other side is no Strandline link"),
            "{}",
            node.log()
        );
    }
}
