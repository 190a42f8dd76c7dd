//! Names of hosts to addresses: the one place of the configuration that asks the system's resolver.

use std::net::ToSocketAddrs;

use strandline_runtime::runtime::IpAddr;

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
