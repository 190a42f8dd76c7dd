//! The names of topics: logs on disk know only their ids.

use std::collections::BTreeMap;
use std::path::Path;

use strandline::control::store::Database;
use uuid::Uuid;

use super::unreadable;
use crate::failure::Failure;

/// The metadata's file in a data directory.
const QUORUM_FILE: &str = "quorum.redb";

/// Topic names by id, from the metadata of a data directory; none when it holds no metadata, as every entry of `log.dirs`
/// but the first.
pub fn read_topic_names(data_directory: &Path) -> Result<BTreeMap<Uuid, String>, Failure> {
    let path = data_directory.join(QUORUM_FILE);
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    // Opening the database may repair it, which writes: only ever done to a copy.
    let folder = tempfile::tempdir().map_err(|source| Failure::local("temporary folder", source))?;
    let copy = folder.path().join(QUORUM_FILE);
    std::fs::copy(&path, &copy).map_err(|source| unreadable(&path, source))?;
    let image = Database::open(&copy)
        .and_then(|database| database.load())
        .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
    Ok(image
        .topics()
        .map(|topic| (topic.id, topic.name.to_string()))
        .collect())
}
