//! `listeners` and `advertised.listeners`: what each shard binds, and what clients are told.

use std::collections::BTreeSet;

use strandline_runtime::SocketAddr;
use strandline_runtime::runtime::IpAddr;

use super::broker::{Advertised, Listener};
use super::error::ConfigError;
use super::hosts;

/// Ports that there are.
const PORTS: u32 = 1 << 16;

/// `NAME://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerAddress {
    /// The listener's name, in upper case.
    pub name: String,
    /// The host, without brackets; empty for every interface.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Reads a list of `NAME://host:port`.
///
/// # Errors
/// Which item is wrong, and how to write it.
pub fn parse_list(key: &str, list: &str) -> Result<Vec<ListenerAddress>, ConfigError> {
    let items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
    let read = |item: &str| {
        parse(item).ok_or_else(|| {
            ConfigError::Conflict(format!(
                "invalid value '{item}' in '{key}': write each item as NAME://host:port, an IPv6 address in brackets"
            ))
        })
    };
    items.map(read).collect()
}

fn parse(item: &str) -> Option<ListenerAddress> {
    let (name, address) = item.split_once("://")?;
    let (host, port) = split_host_port(address)?;
    if name.is_empty()
        || !name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
    {
        return None;
    }
    Some(ListenerAddress {
        name: name.to_ascii_uppercase(),
        host,
        port,
    })
}

/// `host:port` or `[address]:port`.
pub fn split_host_port(address: &str) -> Option<(String, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let port = port.parse().ok()?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest
            .strip_suffix(']')
            .filter(|inner| inner.parse::<IpAddr>().is_ok())?,
        // A bare IPv6 address would swallow the port.
        None if host.contains([':', '/', ' ']) => return None,
        None => host,
    };
    Some((host.to_owned(), port))
}

/// What the keys about listeners say.
#[derive(Clone, Copy, Debug)]
pub struct ListenerKeys<'a> {
    /// `listeners`.
    pub listeners: &'a str,
    /// `advertised.listeners`.
    pub advertised: Option<&'a str>,
    /// `strandline.advertised.listeners.per.shard`.
    pub per_shard: Option<&'a str>,
    /// `listener.security.protocol.map`.
    pub protocols: &'a str,
    /// `controller.listener.names`: closed on a single node.
    pub controllers: &'a str,
}

/// The client listeners of a node with `shards` shards.
///
/// # Errors
/// A listener that cannot be served, or that clients could not reach by what they would be told.
pub fn resolve(keys: ListenerKeys<'_>, shards: u32) -> Result<Vec<Listener>, ConfigError> {
    let controllers: Vec<String> = keys
        .controllers
        .split(',')
        .map(|name| name.trim().to_ascii_uppercase())
        .collect();
    let mut bound = parse_list("listeners", keys.listeners)?;
    bound.retain(|listener| !controllers.contains(&listener.name));
    if bound.is_empty() {
        return Err(ConfigError::Conflict(
            "'listeners' names no listener for clients".to_owned(),
        ));
    }
    check_distinct(&bound)?;
    let mut advertised = parse_list("advertised.listeners", keys.advertised.unwrap_or_default())?;
    // Kafka's own files advertise the controller's listener, too.
    advertised.retain(|listener| !controllers.contains(&listener.name));
    let per_shard = parse_list(
        "strandline.advertised.listeners.per.shard",
        keys.per_shard.unwrap_or_default(),
    )?;
    for named in advertised.iter().chain(&per_shard) {
        if !bound.iter().any(|listener| listener.name == named.name) {
            return Err(ConfigError::Conflict(format!(
                "'{}' is advertised, but 'listeners' has no listener of that name",
                named.name
            )));
        }
        check_reachable(named)?;
    }
    bound
        .into_iter()
        .map(|listener| resolve_one(listener, &advertised, &per_shard, keys, shards))
        .collect()
}

fn check_distinct(listeners: &[ListenerAddress]) -> Result<(), ConfigError> {
    let mut names = BTreeSet::new();
    let mut ports = BTreeSet::new();
    for listener in listeners {
        if !names.insert(&listener.name) {
            return Err(ConfigError::Conflict(format!(
                "'listeners' names '{}' twice",
                listener.name
            )));
        }
        if listener.port != 0 && !ports.insert(listener.port) {
            return Err(ConfigError::Conflict(format!(
                "two items of 'listeners' have port {}",
                listener.port
            )));
        }
    }
    Ok(())
}

/// Checks that every port of every shard is another one, those of the node itself too (so many from each on), and that no advertised one lies beyond the last.
///
/// # Errors
/// Which two meet, and on which port.
pub fn check_ports(
    listeners: &[Listener],
    of_node: &[(&str, SocketAddr, u32)],
    shards: u32,
) -> Result<(), ConfigError> {
    let of_listeners = listeners
        .iter()
        .map(|listener| (listener.name.as_str(), listener.bind, listener.base_port, shards));
    let of_node = of_node
        .iter()
        .map(|(name, address, ports)| (*name, address.ip(), address.port(), *ports));
    let taken: Vec<_> = of_listeners
        .chain(of_node)
        .filter(|(_, _, port, _)| *port != 0)
        .collect();
    for (index, (name, bind, port, count)) in taken.iter().enumerate() {
        for (other, other_bind, other_port, other_count) in &taken[..index] {
            let first = *port.max(other_port);
            let meet = u32::from(first) < u32::from(*port) + count
                && u32::from(first) < u32::from(*other_port) + other_count;
            if meet && same_socket(*bind, *other_bind) {
                return Err(ConfigError::Conflict(format!(
                    "{other} and {name} both need port {first}: a listener has one port a shard, from its own on; keep \
                     {shards} between them"
                )));
            }
        }
    }
    for listener in listeners {
        if let Advertised::BasePort { base_port, .. } = listener.advertised
            && u32::from(base_port) + shards > PORTS
        {
            return Err(ConfigError::Conflict(format!(
                "'advertised.listeners': {shards} shards are told with the ports from {base_port} on, which end at 65535"
            )));
        }
    }
    Ok(())
}

/// Whether sockets on one port of these addresses exclude each other. One on every IPv6 address takes IPv4's too.
fn same_socket(left: IpAddr, right: IpAddr) -> bool {
    let covers = |wide: IpAddr, other: IpAddr| wide.is_unspecified() && (wide.is_ipv6() || other.is_ipv4());
    left == right || covers(left, right) || covers(right, left)
}

fn check_reachable(advertised: &ListenerAddress) -> Result<(), ConfigError> {
    let unspecified = advertised
        .host
        .parse::<IpAddr>()
        .is_ok_and(|address| address.is_unspecified());
    if unspecified || advertised.host.is_empty() || advertised.port == 0 {
        return Err(ConfigError::Conflict(format!(
            "'advertised.listeners' tells clients {}://{}:{}, which nobody can connect to: name a host that they reach \
             and a port",
            advertised.name, advertised.host, advertised.port
        )));
    }
    Ok(())
}

fn resolve_one(
    listener: ListenerAddress,
    advertised: &[ListenerAddress],
    per_shard: &[ListenerAddress],
    keys: ListenerKeys<'_>,
    shards: u32,
) -> Result<Listener, ConfigError> {
    check_protocol(&listener.name, keys.protocols)?;
    let ListenerAddress { name, host, port } = listener;
    if port != 0 && u32::from(port) + shards > PORTS {
        return Err(ConfigError::Conflict(format!(
            "listener {name}: {shards} shards need the ports from {port} on, which end at 65535"
        )));
    }
    let bind = match host.is_empty() {
        true => IpAddr::from([0, 0, 0, 0]),
        false => hosts::resolve(&host).map_err(|error| {
            ConfigError::Conflict(format!(
                "the host '{host}' in 'listeners' does not resolve: {error}"
            ))
        })?,
    };
    let of_shards: Vec<_> = per_shard.iter().filter(|item| item.name == name).collect();
    let advertised = match advertised.iter().find(|item| item.name == name) {
        _ if !of_shards.is_empty() => {
            if of_shards.len() != shards as usize {
                return Err(ConfigError::Conflict(format!(
                    "'strandline.advertised.listeners.per.shard' has {} items for {name}, but the node has {shards} \
                     shards: write one item a shard, in order",
                    of_shards.len()
                )));
            }
            Advertised::PerShard(
                of_shards
                    .into_iter()
                    .map(|item| (item.host.clone(), item.port))
                    .collect(),
            )
        }
        Some(item) => Advertised::BasePort {
            host: item.host.clone(),
            base_port: item.port,
        },
        None if bind.is_unspecified() => {
            return Err(ConfigError::Conflict(format!(
                "listener {name} binds every interface ({bind}), so clients cannot be told where to connect: set \
                 'advertised.listeners' to {name}://<host that clients reach>:{port}"
            )));
        }
        None => Advertised::BoundPort { host },
    };
    Ok(Listener {
        name,
        bind,
        base_port: port,
        advertised,
    })
}

/// Only plaintext is served; a listener that should be encrypted or authenticated must not come up without.
fn check_protocol(name: &str, map: &str) -> Result<(), ConfigError> {
    let pairs = map.split(',').filter_map(|pair| pair.trim().split_once(':'));
    let mut of_name = pairs.filter(|(listener, _)| listener.trim().eq_ignore_ascii_case(name));
    match of_name
        .next_back()
        .map(|(_, protocol)| protocol.trim().to_ascii_uppercase())
        .as_deref()
    {
        Some("PLAINTEXT") => Ok(()),
        Some(protocol) => Err(ConfigError::Conflict(format!(
            "listener {name} asks for {protocol}, and this version serves PLAINTEXT only: run it in a private network, \
             or behind a proxy that terminates TLS"
        ))),
        None => Err(ConfigError::Conflict(format!(
            "'listener.security.protocol.map' does not name the listener {name}: add {name}:PLAINTEXT"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(listeners: &str) -> ListenerKeys<'_> {
        ListenerKeys {
            listeners,
            advertised: None,
            per_shard: None,
            protocols: "PLAINTEXT:PLAINTEXT,SSL:SSL,OUTSIDE:PLAINTEXT",
            controllers: "CONTROLLER",
        }
    }

    #[test]
    fn a_plain_listener_advertises_its_host_and_the_bound_port() {
        let listeners = resolve(keys("PLAINTEXT://127.0.0.1:9092,CONTROLLER://:9093"), 4).unwrap();
        assert_eq!(listeners.len(), 1);
        assert_eq!(
            listeners[0].advertised.of_shard(2, 40_000),
            ("127.0.0.1".to_owned(), 40_000)
        );
    }

    /// Kafka's own file for a node that is broker and controller was refused: it advertises both listeners.
    #[test]
    fn the_controllers_listener_may_be_advertised() {
        let mut keys = keys("PLAINTEXT://:9092,CONTROLLER://:9093");
        keys.advertised = Some("PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093");
        let listeners = resolve(keys, 2).unwrap();
        assert_eq!(listeners.len(), 1);
        assert_eq!(
            listeners[0].advertised.of_shard(1, 0),
            ("localhost".to_owned(), 9093)
        );
    }

    #[test]
    fn two_listeners_ipv6_and_mapped_ports() {
        let mut keys = keys("PLAINTEXT://[::1]:9092, outside://0.0.0.0:9192");
        keys.advertised = Some("OUTSIDE://broker.example:19092");
        let listeners = resolve(keys, 4).unwrap();
        assert_eq!(
            listeners[0].advertised.of_shard(0, 9092),
            ("::1".to_owned(), 9092)
        );
        assert_eq!(
            listeners[1].advertised.of_shard(3, 9195),
            ("broker.example".to_owned(), 19_095)
        );
        keys.per_shard = Some("OUTSIDE://a:1,OUTSIDE://b:2");
        assert_eq!(
            resolve(keys, 2).unwrap()[1].advertised.of_shard(1, 0),
            ("b".to_owned(), 2)
        );
        assert!(
            resolve(keys, 3)
                .unwrap_err()
                .to_string()
                .contains("one item a shard")
        );
    }

    #[test]
    fn ports_that_meet_are_refused() {
        let check = |list: &str, http: Option<&str>, shards: u32| {
            let listeners = resolve(keys(list), shards).unwrap();
            {
                let of_node: Vec<_> = http
                    .map(|http| ("HTTP", http.parse().unwrap(), 1))
                    .into_iter()
                    .collect();
                check_ports(&listeners, &of_node, shards)
            }
            .map_err(|error| error.to_string())
        };
        let near = "PLAINTEXT://127.0.0.1:9092,OUTSIDE://127.0.0.1:9094";
        assert_eq!(check(near, None, 2), Ok(()));
        let error = check(near, None, 3).unwrap_err();
        assert!(
            error.starts_with("PLAINTEXT and OUTSIDE both need port 9094"),
            "{error}"
        );
        assert!(check("PLAINTEXT://127.0.0.1:9094,OUTSIDE://127.0.0.1:9092", None, 3).is_err());
        assert_eq!(
            check("PLAINTEXT://127.0.0.1:9092,OUTSIDE://127.0.0.2:9093", None, 3),
            Ok(())
        );
        let plain = "PLAINTEXT://127.0.0.1:9092";
        assert!(check(plain, Some("127.0.0.1:9093"), 2).is_err());
        assert!(check(plain, Some("0.0.0.0:9093"), 2).is_err());
        assert!(check(plain, Some("[::]:9093"), 2).is_err());
        assert_eq!(check(plain, Some("[::1]:9093"), 2), Ok(()));
        assert_eq!(check(plain, Some("127.0.0.1:9094"), 2), Ok(()));
        assert_eq!(check("PLAINTEXT://127.0.0.1:0", Some("127.0.0.1:0"), 2), Ok(()));
        let mut far = keys(plain);
        far.advertised = Some("PLAINTEXT://a:65534");
        let told = |shards| check_ports(&resolve(far, shards).unwrap(), &[], shards);
        assert_eq!(told(2), Ok(()));
        assert!(told(3).unwrap_err().to_string().contains("end at 65535"));
    }

    #[test]
    fn what_clients_could_not_reach_is_refused_with_the_key_and_the_remedy() {
        let refused = |keys| resolve(keys, 1).unwrap_err().to_string();
        assert!(
            refused(keys("PLAINTEXT://0.0.0.0:9092"))
                .contains("set 'advertised.listeners' to PLAINTEXT://<host")
        );
        assert!(refused(keys("PLAINTEXT://:9092")).contains("'advertised.listeners'"));
        let mut unreachable = keys("PLAINTEXT://0.0.0.0:9092");
        unreachable.advertised = Some("PLAINTEXT://0.0.0.0:9092");
        assert!(refused(unreachable).contains("nobody can connect to"));
        assert!(refused(keys("SSL://127.0.0.1:9092")).contains("PLAINTEXT only"));
        assert!(refused(keys("X://127.0.0.1:9092")).contains("add X:PLAINTEXT"));
        assert!(refused(keys("PLAINTEXT://127.0.0.1:1,PLAINTEXT://127.0.0.1:2")).contains("twice"));
        assert!(refused(keys("PLAINTEXT://::1:9092")).contains("in brackets"));
        assert!(refused(keys("127.0.0.1:9092")).contains("NAME://host:port"));
    }
}
