//! Who coordinates a group, and asking each group's coordinator.

use std::collections::BTreeMap;

use strandline_wire::ErrorCode;
use strandline_wire::messages::FindCoordinatorRequest;
use strandline_wire::protocol::StrBytes;

use super::{left_out, subject};
use crate::client::{BrokerId, Client, ClientError, Connection, NamedResults, Retry, check};
use crate::client_config::Address;

/// The key type of groups.
const KEY_GROUP: i8 = 0;
/// The first version that takes several groups (KIP-699).
const BATCHES_VERSION: i16 = 4;
/// Later versions tell nothing more of groups.
const VERSION_MAX: i16 = 5;
/// Groups in one request: their answers, members with their metadata, stay well below what a client takes.
const GROUPS_PER_REQUEST: usize = 100;

/// After a refusal that another try may change, asking again does no harm.
pub fn is_repeatable(error: &ClientError) -> bool {
    error.is_retriable()
}

/// For what must not be done twice: the coordinator has not even begun.
pub fn surely_did_nothing(error: &ClientError) -> bool {
    match error {
        ClientError::Resolve { .. } | ClientError::Connect { .. } => true,
        ClientError::Broker { code, .. } => is_about_coordinator(*code),
        _ => false,
    }
}

/// True for codes that say: another broker, or this one a little later.
pub(super) fn is_about_coordinator(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::CoordinatorLoadInProgress | ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator
    )
}

impl Client {
    /// Asks the coordinator of each group, several groups at once where they have the same. `ask` answers for each group
    /// that it is given. What `may_repeat` is asked again, of a coordinator looked for anew, as long as errors are retried.
    pub fn ask_coordinators<T>(
        &mut self,
        names: &[String],
        may_repeat: fn(&ClientError) -> bool,
        mut ask: impl FnMut(&mut Connection, &[String]) -> Result<NamedResults<T>, ClientError>,
    ) -> NamedResults<T> {
        let mut done: BTreeMap<String, Result<T, ClientError>> = BTreeMap::new();
        let mut left: Vec<String> = names.to_vec();
        left.sort();
        left.dedup();
        let mut retry = Retry::new(self.config());
        while !left.is_empty() {
            let mut again = Vec::new();
            let mut by_broker: BTreeMap<BrokerId, Vec<String>> = BTreeMap::new();
            for (name, found) in self.find_coordinators(&left) {
                match found {
                    Ok(broker) => by_broker.entry(broker).or_default().push(name),
                    // Looking for a coordinator changes nothing.
                    Err(error) if error.is_retriable() => again.push((name, error)),
                    Err(error) => drop(done.insert(name, Err(error))),
                }
            }
            for (broker, names) in by_broker {
                for names in names.chunks(GROUPS_PER_REQUEST) {
                    let results = match self.ask(broker, |connection| ask(connection, names)) {
                        Ok(results) => results,
                        Err(error) => failed(names, &error),
                    };
                    for (name, result) in results {
                        match result {
                            Err(error) if may_repeat(&error) => again.push((name, error)),
                            result => drop(done.insert(name, result)),
                        }
                    }
                }
            }
            let Some((_, error)) = again.first() else { break };
            match retry.pause_after(error.clone()) {
                Ok(()) => left = again.into_iter().map(|(name, _)| name).collect(),
                Err(given_up) => {
                    for (name, error) in again {
                        done.insert(name, Err(given_up.clone().about(error)));
                    }
                    break;
                }
            }
        }
        // In the order asked.
        let results = names
            .iter()
            .filter_map(|name| Some((name.clone(), done.remove(name)?)));
        results.collect()
    }

    /// Asks the coordinator of one group.
    pub fn ask_coordinator<T>(
        &mut self,
        name: &str,
        mut ask: impl FnMut(&mut Connection) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let results = self.ask_coordinators(&[name.to_owned()], is_repeatable, |connection, _| {
            Ok(vec![(name.to_owned(), ask(connection))])
        });
        let result = results.into_iter().next();
        result.map_or_else(|| Err(left_out(name)), |(_, result)| result)
    }

    /// The coordinator of each group, asked once. Its address is known from then on.
    fn find_coordinators(&mut self, names: &[String]) -> NamedResults<BrokerId> {
        let mut found = Vec::new();
        let mut rest = names;
        while !rest.is_empty() {
            match self.find_some(rest) {
                Ok(some) => {
                    rest = &rest[some.len()..];
                    found.extend(some);
                }
                Err(error) => {
                    found.extend(failed(rest, &error));
                    break;
                }
            }
        }
        found
    }

    /// The coordinators of as many of the first groups as one request may ask for, at least one.
    fn find_some(&mut self, names: &[String]) -> Result<NamedResults<BrokerId>, ClientError> {
        let mut addresses = Vec::new();
        let results = self.ask_any(|connection| {
            let version = connection.version::<FindCoordinatorRequest>(VERSION_MAX)?;
            let batches = version >= BATCHES_VERSION;
            let asked = &names[..names.len().min(if batches { GROUPS_PER_REQUEST } else { 1 })];
            let mut keys: Vec<StrBytes> = asked.iter().cloned().map(StrBytes::from_string).collect();
            let mut request = FindCoordinatorRequest::default();
            match batches {
                true => request.coordinator_keys = keys,
                false => request.key = keys.remove(0),
            }
            if version >= 1 {
                request.key_type = KEY_GROUP;
            }
            let response = connection.call(version, &request)?;
            let mut note = |name: &String, code, text: Option<&StrBytes>, id, host: &StrBytes, port: i32| {
                check(subject(name), code, text)?;
                // A port that is none cannot be connected to.
                let port = u16::try_from(port).map_err(|_| left_out(name))?;
                addresses.push((
                    id,
                    Address {
                        host: host.to_string(),
                        port,
                    },
                ));
                Ok(id)
            };
            let results = asked.iter().map(|name| {
                if !batches {
                    let (code, text) = (response.error_code, response.error_message.as_ref());
                    return (
                        name.clone(),
                        note(
                            name,
                            code,
                            text,
                            response.node_id.0,
                            &response.host,
                            response.port,
                        ),
                    );
                }
                let mut answers = response.coordinators.iter();
                let result = match answers.find(|answer| answer.key.as_str() == name) {
                    None => Err(left_out(name)),
                    Some(answer) => {
                        let (code, text) = (answer.error_code, answer.error_message.as_ref());
                        note(name, code, text, answer.node_id.0, &answer.host, answer.port)
                    }
                };
                (name.clone(), result)
            });
            Ok(results.collect())
        })?;
        for (broker, address) in addresses {
            self.addresses.insert(broker, address);
        }
        Ok(results)
    }
}

/// The same error for each.
fn failed<T>(names: &[String], error: &ClientError) -> NamedResults<T> {
    names
        .iter()
        .map(|name| (name.clone(), Err(error.clone())))
        .collect()
}
