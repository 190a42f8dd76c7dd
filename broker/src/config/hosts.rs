//! Names of hosts to addresses: the one place of the configuration that asks the system's resolver.

use std::collections::BTreeMap;
use std::net::ToSocketAddrs;
use std::sync::{Arc, Mutex, PoisonError};

use strandline_runtime::runtime::IpAddr;

/// Looks names up without waiting: an error that is worth another try while nothing is known.
pub type Hosts = Box<dyn Fn(&str) -> Result<IpAddr, String>>;

enum Lookup {
    Running(Option<IpAddr>),
    Found(IpAddr),
    Failed(String),
}

/// Resolves without holding the caller up: each name is looked up on a thread of its own, anew whenever it is asked for and
/// nobody looks already; meanwhile the last answer holds. The first time there is none: an error that is worth another try.
pub fn in_background() -> impl Fn(&str) -> Result<IpAddr, String> {
    let lookups: Arc<Mutex<BTreeMap<String, Lookup>>> = Arc::default();
    move |host| {
        if let Ok(address) = host.parse() {
            return Ok(address);
        }
        let mut known = lookups.lock().unwrap_or_else(PoisonError::into_inner);
        let (running, answer) = match known.get(host) {
            Some(Lookup::Running(last)) => (true, last.ok_or_else(|| "it is being looked up".to_owned())),
            Some(Lookup::Found(address)) => (false, Ok(*address)),
            Some(Lookup::Failed(text)) => (false, Err(text.clone())),
            None => (false, Err("it is being looked up".to_owned())),
        };
        if !running {
            known.insert(host.to_owned(), Lookup::Running(answer.clone().ok()));
            let (lookups, name) = (lookups.clone(), host.to_owned());
            let look = move || {
                let found = match resolve(&name) {
                    Ok(address) => Lookup::Found(address),
                    Err(text) => Lookup::Failed(text),
                };
                let mut known = lookups.lock().unwrap_or_else(PoisonError::into_inner);
                known.insert(name, found);
            };
            let started = std::thread::Builder::new()
                .name("resolver".to_owned())
                .spawn(look);
            if let Err(error) = started {
                known.insert(host.to_owned(), Lookup::Failed(error.to_string()));
            }
        }
        answer
    }
}

/// The first address of `host`, a name or an address.
pub(super) fn resolve(host: &str) -> Result<IpAddr, String> {
    if let Ok(address) = host.parse() {
        return Ok(address);
    }
    let mut addresses = (host, 0).to_socket_addrs().map_err(|error| error.to_string())?;
    addresses
        .next()
        .map(|address| address.ip())
        .ok_or_else(|| "it has no address".to_owned())
}
