//! Which shard's folder it is: a store cannot tell, since it looks the same in any. A folder that was swapped with another one, or
//! restored at the wrong place, would have its logs taken for those of another shard, and its own given up.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::directories::write_toml;

const FILE: &str = "shard.toml";

/// `shard.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ShardFolder {
    /// The id of the data directory it stands in.
    pub(super) directory_id: Uuid,
    /// The shard's number.
    pub(super) shard: u32,
}

impl ShardFolder {
    /// Looks whether a folder is this one. One without the file is: versions before this one wrote none.
    ///
    /// # Errors
    /// What is wrong with it, for the line of a refused start.
    pub(super) fn check(self, folder: &Path) -> Result<(), String> {
        let text = match fs::read_to_string(folder.join(FILE)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(format!("{FILE} cannot be read: {error}")),
        };
        let found: Self =
            toml::from_str(&text).map_err(|error| format!("{FILE} does not read: {}", error.message()))?;
        if found.shard != self.shard {
            return Err(format!(
                "it is the folder of shard {}, and stands where that of shard {} belongs: put each at its place",
                found.shard, self.shard
            ));
        }
        if found.directory_id != self.directory_id {
            return Err(
                "it is the folder of another data directory, or of another node: restore this one's"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Says so in a folder that does not say it yet; durable on return.
    pub(super) fn mark(self, folder: &Path) -> io::Result<()> {
        if folder.join(FILE).exists() || !folder.exists() {
            return Ok(());
        }
        let head = "# Written by strandline: whose folder this is. Do not edit.";
        write_toml((folder, FILE, "shard.toml.new"), head, &self)
    }
}
