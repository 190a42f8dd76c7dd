//! Where the shards of other nodes reach this node's: its links.

use strandline_runtime::runtime::IpAddr;

use super::controller::ControllerConfig;
use super::error::ConfigError;
use super::hosts;

/// Above the base port, where nobody says another.
const PORTS_ABOVE: u16 = 1_000;
/// Ports that there are.
const PORTS: u32 = 1 << 16;

/// The links of a node of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// Where to bind.
    pub bind: IpAddr,
    /// Shard s binds this plus s; 0 takes a free port for each.
    pub base_port: u16,
    /// What other nodes are told; the port is the one that was bound.
    pub advertised_host: String,
}

/// What the keys about links say.
#[derive(Clone, Copy, Debug)]
pub struct LinkKeys<'a> {
    /// `strandline.link.host`.
    pub host: Option<&'a str>,
    /// `strandline.link.port`.
    pub port: Option<u16>,
    /// `strandline.link.advertised.host`.
    pub advertised_host: Option<&'a str>,
    /// Of the first listener for clients.
    pub base_port: u16,
}

/// `None` for a node that is alone. Where nobody says otherwise, links are where the node's controller is: other nodes reach that.
///
/// # Errors
/// A host that does not resolve or cannot be reached, or ports that there are not.
pub fn resolve(
    keys: LinkKeys<'_>,
    controller: Option<&ControllerConfig>,
    shards: u32,
) -> Result<Option<LinkConfig>, ConfigError> {
    let Some(controller) = controller else {
        return Ok(None);
    };
    let bind = match keys.host {
        None => controller.bind.ip(),
        Some(host) => hosts::resolve(host).map_err(|error| {
            refuse(format!(
                "the host '{host}' in 'strandline.link.host' does not resolve: {error}"
            ))
        })?,
    };
    let advertised_host = match (keys.advertised_host, keys.host) {
        (Some(told), _) => told.to_owned(),
        (None, Some(host)) if !bind.is_unspecified() => host.to_owned(),
        (None, _) => controller.advertised.host.clone(),
    };
    let unspecified = |host: &str| {
        host.parse::<IpAddr>()
            .is_ok_and(|address| address.is_unspecified())
    };
    if advertised_host.is_empty() || unspecified(&advertised_host) {
        return Err(refuse(
            "other nodes cannot reach this node's shards at 'strandline.link.advertised.host': name a host that they reach"
                .to_owned(),
        ));
    }
    let base_port = match (keys.port, keys.base_port) {
        (Some(port), _) => port,
        // The listener takes free ports: so do links.
        (None, 0) => 0,
        (None, base) => base
            .checked_add(PORTS_ABOVE)
            .ok_or_else(|| ports_end(base, shards))?,
    };
    if base_port != 0 && u32::from(base_port) + shards > PORTS {
        return Err(ports_end(base_port, shards));
    }
    Ok(Some(LinkConfig {
        bind,
        base_port,
        advertised_host,
    }))
}

fn ports_end(base_port: u16, shards: u32) -> ConfigError {
    refuse(format!(
        "the links of {shards} shards need a port each from {base_port} on, and ports end at 65535: set 'strandline.link.port'"
    ))
}

fn refuse(text: String) -> ConfigError {
    ConfigError::Conflict(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::control::raft::types::VoterAddress;

    const NOTHING: LinkKeys<'_> = LinkKeys {
        host: None,
        port: None,
        advertised_host: None,
        base_port: 9092,
    };

    fn controller(bind: &str, host: &str) -> ControllerConfig {
        ControllerConfig {
            voters: BTreeMap::new(),
            bind: bind.parse().unwrap(),
            advertised: VoterAddress {
                host: host.to_owned(),
                port: 9090,
            },
        }
    }

    fn resolved(keys: LinkKeys<'_>, controller: &ControllerConfig) -> Result<(String, u16, String), String> {
        match resolve(keys, Some(controller), 2) {
            Ok(links) => {
                let links = links.unwrap();
                Ok((links.bind.to_string(), links.base_port, links.advertised_host))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn links_are_where_the_controller_is_unless_somebody_says_otherwise() {
        assert_eq!(resolve(NOTHING, None, 2).unwrap(), None);
        let everywhere = controller("0.0.0.0:9090", "a.example");
        let expect = |bind: &str, port, host: &str| Ok((bind.to_owned(), port, host.to_owned()));
        assert_eq!(
            resolved(NOTHING, &everywhere),
            expect("0.0.0.0", 10_092, "a.example")
        );
        let free = LinkKeys {
            base_port: 0,
            ..NOTHING
        };
        let loopback = controller("127.0.0.1:9090", "127.0.0.1");
        assert_eq!(resolved(free, &loopback), expect("127.0.0.1", 0, "127.0.0.1"));
        let set = LinkKeys {
            host: Some("127.0.0.2"),
            port: Some(7_000),
            ..NOTHING
        };
        assert_eq!(
            resolved(set, &everywhere),
            expect("127.0.0.2", 7_000, "127.0.0.2")
        );
        let wide = LinkKeys {
            host: Some("0.0.0.0"),
            advertised_host: Some("b.example"),
            ..NOTHING
        };
        assert_eq!(resolved(wide, &loopback), expect("0.0.0.0", 10_092, "b.example"));
    }

    #[test]
    fn what_other_nodes_could_not_reach_is_refused_with_the_key() {
        let loopback = controller("127.0.0.1:9090", "127.0.0.1");
        let nowhere = LinkKeys {
            advertised_host: Some("0.0.0.0"),
            ..NOTHING
        };
        let error = resolved(nowhere, &loopback).unwrap_err();
        assert!(error.contains("strandline.link.advertised.host"), "{error}");
        for base_port in [64_535, 65_000] {
            let far = LinkKeys { base_port, ..NOTHING };
            let error = resolved(far, &loopback).unwrap_err();
            assert!(error.contains("set 'strandline.link.port'"), "{error}");
        }
        let near = LinkKeys {
            base_port: 64_534,
            ..NOTHING
        };
        assert_eq!(resolved(near, &loopback).unwrap().1, 65_534);
    }
}
