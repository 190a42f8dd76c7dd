//! Which devices glommio has judged, and on what file.
//!
//! glommio reads once from the first file it opens on a device, to learn whether the device can be polled for
//! completions. Of an empty file that read succeeds without reaching the device, the device counts as pollable
//! for the life of the thread, and every later read and write of it fails. So it is given a file with a block.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::rc::Rc;

use super::super::{OpenMode, PAGE};
use super::{blocking, file, named};

/// The devices judged on this thread.
#[derive(Clone, Default)]
pub(super) struct Probed(Rc<RefCell<BTreeSet<u64>>>);

impl Probed {
    /// Makes sure that the device of `opened` is judged on a file with content.
    pub(super) async fn probe(&self, opened: &File, path: &Path) -> io::Result<()> {
        let metadata = opened
            .metadata()
            .map_err(|error| named(&error, "look at", path))?;
        if self.0.borrow().contains(&metadata.dev()) {
            return Ok(());
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        let sample = blocking("make a nameless file in", folder, sample).await?;
        let judged = file::open_again(&sample, OpenMode::Read, 0).await;
        drop(judged.map_err(|error| named(&error, "probe the device of", folder))?);
        self.0.borrow_mut().insert(metadata.dev());
        Ok(())
    }
}

/// A file of one page on the device of `folder`; it goes with its descriptor.
fn sample(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let mut file = match options.clone().custom_flags(libc::O_TMPFILE).open(folder) {
        Ok(file) => file,
        // A file system without nameless files.
        Err(_) => {
            let path = folder.join(format!(
                ".probe-{}-{:?}",
                std::process::id(),
                std::thread::current().id()
            ));
            let file = options.create_new(true).open(&path)?;
            std::fs::remove_file(&path)?;
            file
        }
    };
    file.write_all(&[1; PAGE])?;
    file.sync_all()?;
    Ok(file)
}
