//! The store's file on a simulated disk.

use std::fmt;
use std::io;
use std::path::Path;

use redb::StorageBackend;
use send_wrapper::SendWrapper;
use strandline_storage::disk::SimDisk;
use strandline_storage::disk::sim::SyncFile;

/// A file of a simulated disk, as `redb` wants it.
///
/// `redb` asks for a backend that any thread may use. A simulation has one thread, and the wrapper stops at any other.
pub struct SimulatedBackend(SendWrapper<SyncFile>);

impl SimulatedBackend {
    /// Opens or makes the file at `path`, as often as it is asked.
    pub fn of(disk: &SimDisk, path: &Path) -> impl Fn() -> io::Result<Self> + Send + 'static {
        let place = SendWrapper::new((disk.clone(), path.to_owned()));
        move || {
            let (disk, path) = &*place;
            Ok(Self(SendWrapper::new(disk.sync_file(path)?)))
        }
    }
}

impl fmt::Debug for SimulatedBackend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SimulatedBackend")
    }
}

impl StorageBackend for SimulatedBackend {
    fn len(&self) -> Result<u64, io::Error> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.0.write(offset, data)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::path::PathBuf;
    use std::rc::Rc;
    use std::time::Duration;

    use strandline_core::metadata::{ClusterImage, Command, NewTopic, PartitionLayout, TopicReference};
    use strandline_runtime::Runtime;
    use strandline_runtime::sim::{SimRuntime, Simulation};
    use strandline_storage::disk::sim::Operation;
    use strandline_storage::disk::{Disk, SimDiskOptions};
    use uuid::Uuid;

    use super::super::{Database, InlineStore, StoreError};
    use super::*;
    use crate::control::quorum::{Quorum, QuorumError, SingleQuorum};

    const COMMITS: u64 = 40;
    const IMAGES_PER_FLUSH: u64 = 12;

    fn path() -> PathBuf {
        PathBuf::from("/data/quorum.redb")
    }

    fn open(disk: &SimDisk) -> Database {
        Database::open_backend(SimulatedBackend::of(disk, &path())).unwrap()
    }

    /// Some commands that do something, and some that are refused: the log keeps both.
    fn commands(number: u64) -> Vec<Command> {
        let layout = PartitionLayout::Automatic {
            partitions: 1,
            replication_factor: 1,
        };
        let topic = |id: u64| NewTopic {
            name: format!("topic-{id}"),
            id: Uuid::from_u128(u128::from(id) + 1),
            layout: layout.clone(),
            configs: Default::default(),
        };
        match number % 3 {
            0 => vec![Command::CreateTopics {
                topics: (0..20).map(|at| topic(number * 100 + at)).collect(),
            }],
            1 => vec![
                Command::DeleteTopics {
                    topics: vec![TopicReference::Name("none".into())]
                };
                3
            ],
            _ => vec![Command::InitializeCluster {
                cluster_id: Uuid::from_u128(number.into()),
            }],
        }
    }

    /// Recovers every image that a power cut can leave at this moment, and checks how far each goes.
    fn check_images(disk: &SimDisk, runtime: &SimRuntime, history: &[ClusterImage], answered: u64) -> u64 {
        let mut count = 0;
        for image in disk.crash_images(IMAGES_PER_FLUSH) {
            let disk = SimDisk::from_image(&image, runtime.clone(), SimDiskOptions::default());
            let recovered = open(&disk).load().unwrap();
            let offset = recovered.offset().0;
            assert!(
                offset >= answered,
                "answered up to {answered}, recovered up to {offset}"
            );
            let expected = history.iter().find(|image| image.offset().0 == offset);
            assert_eq!(
                Some(&recovered),
                expected,
                "a commit is whole or not there, and nothing is invented"
            );
            count += 1;
        }
        count
    }

    #[test]
    fn what_was_answered_survives_every_power_cut() {
        let simulation = Simulation::new(11);
        let runtime = simulation.runtime("node");
        let images = simulation.run_until(async move {
            let disk = SimDisk::new(runtime.clone(), SimDiskOptions::default());
            disk.make_durable_directories(Path::new("/data")).unwrap();
            let database = open(&disk);
            disk.flush_directory(Path::new("/data")).await.unwrap();

            let history = Rc::new(RefCell::new(vec![ClusterImage::default()]));
            let (answered, images) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
            {
                let (history, answered, images) = (history.clone(), answered.clone(), images.clone());
                let runtime = runtime.clone();
                disk.on_flush(move |disk, _| {
                    let checked = check_images(disk, &runtime, &history.borrow(), answered.get());
                    images.set(images.get() + checked);
                });
            }
            // Small enough that snapshots replace the log some times.
            let quorum = SingleQuorum::new(InlineStore(database), ClusterImage::default(), 8_000);
            for number in 0..COMMITS {
                let commands = commands(number);
                let mut next = ClusterImage::clone(&quorum.image());
                commands.iter().for_each(|command| drop(next.apply(command)));
                history.borrow_mut().push(next);
                quorum.commit(commands).await.unwrap();
                answered.set(quorum.image().offset().0);
                runtime.sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(history.borrow().last(), Some(&*quorum.image()));
            images.get()
        });
        assert!(images > COMMITS * 2, "{images} images");
    }

    #[test]
    fn a_full_disk_refuses_changes_until_there_is_space_again() {
        let simulation = Simulation::new(12);
        let runtime = simulation.runtime("node");
        simulation.run_until(async move {
            let disk = SimDisk::new(runtime.clone(), SimDiskOptions::default());
            disk.make_durable_directories(Path::new("/data")).unwrap();
            let quorum = SingleQuorum::new(InlineStore(open(&disk)), ClusterImage::default(), 1 << 20);
            quorum.commit(commands(2)).await.unwrap();
            disk.set_free_bytes(0);
            // Commands until the file would have to grow, and then again and again.
            let mut refused = 0;
            for number in 0..2 * COMMITS {
                match quorum.commit(commands(3 * number)).await {
                    Ok(_) => assert_eq!(refused, 0, "space came from nowhere"),
                    Err(QuorumError::Full(_)) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(refused > 2, "{refused}");
            disk.set_free_bytes(1 << 30);
            quorum.commit(commands(1)).await.unwrap();
            let expected = ClusterImage::clone(&quorum.image());
            drop(quorum);
            assert_eq!(open(&disk).load().unwrap(), expected);
        });
    }

    #[test]
    fn a_failed_flush_is_no_full_disk() {
        let simulation = Simulation::new(13);
        let runtime = simulation.runtime("node");
        simulation.run_until(async move {
            let disk = SimDisk::new(runtime.clone(), SimDiskOptions::default());
            disk.make_durable_directories(Path::new("/data")).unwrap();
            let database = open(&disk);
            disk.fail(Operation::Flush, 1);
            let failed = database.append(1, &commands(2));
            assert!(matches!(failed, Err(StoreError::Failed(_))), "{failed:?}");
        });
    }
}
