//! The promises and the treacheries of the simulated disk.

mod buffers;
mod faults;
mod names;
mod power_cut;
mod process;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{join, join3};
use strandline_runtime::Queue;
use strandline_runtime::sim::Simulation;

use super::super::{Buffer, DiskFile};
use super::*;

const FOLDER: &str = "/data";

fn path(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// Runs `test` with an empty disk that has a durable folder.
fn on_disk<T: 'static, F: Future<Output = T> + 'static>(seed: u64, test: impl FnOnce(SimDisk) -> F) -> T {
    let simulation = Simulation::new(seed);
    let disk = SimDisk::new(simulation.runtime("host"), SimDiskOptions::default());
    disk.make_durable_directories(Path::new(FOLDER)).unwrap();
    simulation.run_until(test(disk))
}

fn filled(disk: &SimDisk, pages: usize, byte: u8) -> Rc<SimBuffer> {
    let mut buffer = disk.allocate(pages * PAGE);
    buffer.as_mut_slice().fill(byte);
    Rc::new(buffer)
}

/// A file whose name is durable.
async fn new_file(disk: &SimDisk, name: &str) -> SimFile {
    let file = disk.open(&path(name), OpenMode::CreateNew).await.unwrap();
    disk.flush_directory(Path::new(FOLDER)).await.unwrap();
    file
}

/// The sectors of a file in an image, each by its first byte; `None` without the file.
fn sectors(image: &Image, name: &str) -> Option<Vec<u8>> {
    let state = &image.0;
    let content = &state.files[&state.names.find(&path(name)).ok()?].durable;
    let mut bytes = vec![0; content.size() as usize];
    content.read(0, &mut bytes);
    Some(bytes.chunks(512).map(|sector| sector[0]).collect())
}

fn names_in(image: &Image) -> Vec<String> {
    let folder = image.0.names.find_folder(Path::new(FOLDER)).unwrap();
    image.0.names.current[&folder].keys().cloned().collect()
}
