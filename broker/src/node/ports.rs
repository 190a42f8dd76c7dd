//! Whether the node's ports are free: looked at before anything is written for it.

use std::thread;
use std::time::Duration;

use strandline_runtime::{SocketAddr, check_can_listen};

use crate::config::BrokerConfig;

/// How often, and how long in between, ports are looked at: the system lets go of the sockets in a killed process's rings only some
/// moments after the process is gone.
const LOOKS: u32 = 100;
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// One line for each address of the node that cannot be listened on; waits up to two seconds for those that are being released.
pub fn taken(config: &BrokerConfig) -> Vec<String> {
    for _ in 1..LOOKS {
        if taken_now(config).is_empty() {
            return Vec::new();
        }
        thread::sleep(LOOK_PAUSE);
    }
    taken_now(config)
}

fn taken_now(config: &BrokerConfig) -> Vec<String> {
    let mut taken = Vec::new();
    for listener in &config.listeners {
        for shard in 0..config.shards as u16 {
            // 0 takes a port that is free.
            let Some(port) = listener
                .base_port
                .checked_add(shard)
                .filter(|_| listener.base_port > 0)
            else {
                continue;
            };
            let address = SocketAddr::new(listener.bind, port);
            if let Err(error) = check_can_listen(address) {
                taken.push(format!(
                    "listener {}, shard {shard}: cannot listen on {address}: {error}; choose other ports by --port or 'listeners'",
                    listener.name
                ));
            }
        }
    }
    if let Some(address) = config.http_address.filter(|address| address.port() > 0)
        && let Err(error) = check_can_listen(address)
    {
        taken.push(format!(
            "HTTP cannot listen on {address}: {error}; choose another port by --http-port, or set strandline.http.enable=false"
        ));
    }
    if let Some(controller) = &config.controller
        && let Err(error) = check_can_listen(controller.bind)
    {
        taken.push(format!(
            "the controller cannot listen on {}: {error}; free that port, or name another one in 'controller.quorum.voters'",
            controller.bind
        ));
    }
    if let Some(links) = config.links.as_ref().filter(|links| links.base_port > 0) {
        for shard in 0..config.shards as u16 {
            let address = SocketAddr::new(links.bind, links.base_port + shard);
            if let Err(error) = check_can_listen(address) {
                taken.push(format!(
                    "links, shard {shard}: cannot listen on {address}: {error}; choose other ports by 'strandline.link.port'"
                ));
            }
        }
    }
    taken
}
