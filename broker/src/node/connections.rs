//! The node's connection caps, counted over all shards.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use strandline_runtime::runtime::IpAddr;

/// Counts open connections, in all and by address. Clones share the counts.
///
/// One lock, taken when a connection opens and when it closes, never by a request.
#[derive(Clone, Debug, Default)]
pub struct ConnectionLimits(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    total: u32,
    by_address: HashMap<IpAddr, u32>,
}

/// A counted connection; dropping it gives the place back.
#[derive(Debug)]
pub struct ConnectionPlace {
    limits: ConnectionLimits,
    address: IpAddr,
}

/// Why a connection is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRefused {
    /// The node has `max.connections`.
    Node,
    /// The address has its own maximum.
    Address,
}

impl ConnectionLimits {
    /// A place for a connection from `address`, under the caps that hold now.
    ///
    /// # Errors
    /// Which cap is reached.
    pub fn admit(
        &self,
        address: IpAddr,
        connections_max: u32,
        connections_of_address_max: u32,
    ) -> Result<ConnectionPlace, ConnectionRefused> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.total >= connections_max {
            return Err(ConnectionRefused::Node);
        }
        let of_address = counts.by_address.get(&address).copied().unwrap_or_default();
        if of_address >= connections_of_address_max {
            return Err(ConnectionRefused::Address);
        }
        counts.by_address.insert(address, of_address + 1);
        counts.total += 1;
        Ok(ConnectionPlace {
            limits: self.clone(),
            address,
        })
    }

    /// How many connections are open.
    pub fn open(&self) -> u32 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).total
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut counts = self.limits.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.total -= 1;
        if let Some(of_address) = counts.by_address.get_mut(&self.address) {
            *of_address -= 1;
            if *of_address == 0 {
                counts.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use strandline_runtime::runtime::Ipv4Addr;

    use super::*;

    #[test]
    fn places_are_given_back() {
        let limits = ConnectionLimits::default();
        let (one, two) = (
            IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
            IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
        );
        let first = limits.admit(one, 2, 1).unwrap();
        assert_eq!(limits.admit(one, 2, 1).unwrap_err(), ConnectionRefused::Address);
        let _second = limits.admit(two, 2, 1).unwrap();
        assert_eq!(limits.admit(two, 2, 9).unwrap_err(), ConnectionRefused::Node);
        drop(first);
        assert_eq!(limits.open(), 1);
        limits.admit(one, 2, 1).unwrap();
    }
}
