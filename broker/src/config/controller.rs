//! The controllers of a cluster of several nodes: who founds it, and where this node's own listens.

use std::collections::{BTreeMap, BTreeSet};

use strandline_core::metadata::NodeId;
use strandline_runtime::SocketAddr;
use strandline_runtime::runtime::IpAddr;

use super::error::ConfigError;
use super::hosts;
use super::listeners::{ListenerAddress, parse_list, split_host_port};
use crate::control::raft::types::VoterAddress;

const VOTERS: &str = "controller.quorum.voters";
/// Below the base port, where nobody says another.
const PORTS_BELOW: u16 = 2;

/// A node of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerConfig {
    /// `controller.quorum.voters`.
    pub voters: BTreeMap<NodeId, VoterAddress>,
    /// Where this node's controller listens.
    pub bind: SocketAddr,
    /// Where others reach it.
    pub advertised: VoterAddress,
}

/// What the keys about controllers say.
#[derive(Clone, Copy, Debug)]
pub struct ControllerKeys<'a> {
    /// `controller.quorum.voters`.
    pub voters: &'a str,
    /// `controller.listener.names`.
    pub names: &'a str,
    /// `listeners`.
    pub listeners: &'a str,
    /// `advertised.listeners`.
    pub advertised: &'a str,
    /// Of the first listener for clients.
    pub base_port: u16,
}

/// `None` for a node that is alone: no voters, or only itself.
///
/// # Errors
/// A voter that is none, or no address for this node's controller.
pub fn resolve(keys: ControllerKeys<'_>, own: NodeId) -> Result<Option<ControllerConfig>, ConfigError> {
    let voters = parse_voters(keys.voters)?;
    if voters.keys().all(|node| *node == own) {
        return Ok(None);
    }
    let names: Vec<String> = keys
        .names
        .split(',')
        .map(|name| name.trim().to_ascii_uppercase())
        .collect();
    let named = |key: &str, list: &str| -> Result<Option<ListenerAddress>, ConfigError> {
        let listed = parse_list(key, list)?;
        Ok(listed.into_iter().find(|listener| names.contains(&listener.name)))
    };
    let listener = named("listeners", keys.listeners)?;
    let told = named("advertised.listeners", keys.advertised)?;
    let own_entry = voters.get(&own).cloned();
    let (bind_host, bind_port) = match (&listener, &own_entry) {
        (Some(listener), _) => (listener.host.clone(), listener.port),
        (None, Some(own)) => (own.host.clone(), own.port),
        (None, None) => ("127.0.0.1".to_owned(), keys.base_port.saturating_sub(PORTS_BELOW)),
    };
    let bind_ip = match bind_host.is_empty() {
        true => IpAddr::from([0, 0, 0, 0]),
        false => hosts::resolve(&bind_host).map_err(|error| {
            refuse(format!(
                "the host '{bind_host}' of this node's controller does not resolve: {error}"
            ))
        })?,
    };
    let bind = SocketAddr::new(bind_ip, bind_port);
    let advertised = match (own_entry, told) {
        (Some(own), _) => own,
        (None, Some(told)) => VoterAddress {
            host: told.host,
            port: told.port,
        },
        (None, None) => VoterAddress {
            host: bind_host,
            port: bind_port,
        },
    };
    let unspecified = advertised.host.is_empty()
        || advertised
            .host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_unspecified());
    if unspecified || advertised.port == 0 || bind.port() == 0 {
        return Err(refuse(format!(
            "other nodes cannot reach this node's controller at {advertised}: give it a host and a port, as its entry \
             '{own}@host:port' in '{VOTERS}' or as CONTROLLER://host:port in 'listeners'"
        )));
    }
    Ok(Some(ControllerConfig {
        voters,
        bind,
        advertised,
    }))
}

fn parse_voters(list: &str) -> Result<BTreeMap<NodeId, VoterAddress>, ConfigError> {
    let mut voters = BTreeMap::new();
    let mut addresses = BTreeSet::new();
    for item in list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (node, address) = parse_voter(item).ok_or_else(|| {
            refuse(format!(
                "invalid value '{item}' in '{VOTERS}': write each voter as id@host:port, an IPv6 address in brackets"
            ))
        })?;
        if !addresses.insert((address.host.clone(), address.port)) {
            return Err(refuse(format!("'{VOTERS}' names {address} twice")));
        }
        if voters.insert(node, address).is_some() {
            return Err(refuse(format!("'{VOTERS}' names node {node} twice")));
        }
    }
    Ok(voters)
}

fn parse_voter(item: &str) -> Option<(NodeId, VoterAddress)> {
    let (node, address) = item.split_once('@')?;
    let node = NodeId(node.parse().ok()?);
    let (host, port) = split_host_port(address)?;
    let possible = (0..=NodeId::MAX.0).contains(&node.0) && !host.is_empty() && port != 0;
    possible.then_some((node, VoterAddress { host, port }))
}

fn refuse(text: String) -> ConfigError {
    ConfigError::Conflict(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys<'a>(voters: &'a str, listeners: &'a str) -> ControllerKeys<'a> {
        ControllerKeys {
            voters,
            names: "CONTROLLER",
            listeners,
            advertised: "",
            base_port: 9092,
        }
    }

    fn address(host: &str, port: u16) -> VoterAddress {
        VoterAddress {
            host: host.into(),
            port,
        }
    }

    #[test]
    fn a_nodes_own_entry_tells_where_its_controller_listens() {
        let three = "1@127.0.0.1:9090,2@[::1]:9190, 3@b:9290";
        let config = resolve(keys(three, "PLAINTEXT://:9092"), NodeId(1))
            .unwrap()
            .unwrap();
        assert_eq!(config.bind.to_string(), "127.0.0.1:9090");
        assert_eq!(config.advertised, address("127.0.0.1", 9090));
        assert_eq!(config.voters[&NodeId(2)], address("::1", 9190));
        // Kafka's own way: the listener binds, the voters' entry is what others use.
        let both = "PLAINTEXT://:9092,CONTROLLER://:9999";
        let config = resolve(keys(three, both), NodeId(3)).unwrap().unwrap();
        assert_eq!(config.bind.to_string(), "0.0.0.0:9999");
        assert_eq!(config.advertised, address("b", 9290));
    }

    #[test]
    fn a_node_that_is_no_founder_says_where_it_is() {
        let voters = "1@a:9,2@b:9";
        let config = resolve(keys(voters, "PLAINTEXT://:9092"), NodeId(4))
            .unwrap()
            .unwrap();
        assert_eq!(config.advertised, address("127.0.0.1", 9090));
        let error = resolve(keys(voters, "CONTROLLER://:9093"), NodeId(4)).unwrap_err();
        assert!(error.to_string().contains("CONTROLLER://host:port"), "{error}");
        let mut told = keys(voters, "CONTROLLER://:9093");
        told.advertised = "CONTROLLER://d:9393";
        assert_eq!(
            resolve(told, NodeId(4)).unwrap().unwrap().advertised,
            address("d", 9393)
        );
    }

    #[test]
    fn nobody_else_is_alone() {
        for voters in ["", " , ", "1@a:9"] {
            assert_eq!(
                resolve(keys(voters, "CONTROLLER://:9093"), NodeId(1)).unwrap(),
                None
            );
        }
        assert!(resolve(keys("1@127.0.0.1:9", ""), NodeId(2)).unwrap().is_some());
    }

    #[test]
    fn what_is_no_voter_is_refused() {
        for voters in [
            "a:9,b:9",
            "1@a,2@b:9",
            "1@a:0,2@b:9",
            "-1@a:9,2@b:9",
            "1@a:9,1@b:9",
            "1@a:9,2@a:9",
            "1@:9,2@b:9",
        ] {
            assert!(resolve(keys(voters, ""), NodeId(1)).is_err(), "{voters}");
        }
    }
}
