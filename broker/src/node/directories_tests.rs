use super::*;

fn look(paths: &[PathBuf], node: i32, shards: Option<u32>) -> Result<Inspected, String> {
    Inspected::look(paths, NodeId(node), shards, 2).map_err(|error| error.to_string())
}

fn started(paths: &[PathBuf], shards: Option<u32>) -> Directories {
    let mut directories = look(paths, 1, shards).unwrap().open().unwrap();
    File::create(directories.quorum_file()).unwrap();
    directories.mark_formatted().unwrap();
    directories
}

fn paths(root: &tempfile::TempDir, count: usize) -> Vec<PathBuf> {
    (0..count)
        .map(|index| root.path().join(format!("disk-{index}")))
        .collect()
}

#[test]
fn a_new_node_is_formatted_and_recognized() {
    let root = tempfile::tempdir().unwrap();
    let paths = paths(&root, 2);
    let first = started(&paths, Some(3));
    let (cluster, directory) = (first.cluster_id(), first.directory_id_of_shard(1));
    assert_eq!(first.shard_folder(1), paths[1].join("shard-1"));
    assert_eq!(first.shard_folder(2), paths[0].join("shard-2"));
    drop(first);
    let inspected = look(&paths, 1, None).unwrap();
    assert_eq!(inspected.shards(), 3, "the recorded count wins over the default");
    let again = inspected.open().unwrap();
    assert_eq!(
        (again.cluster_id(), again.directory_id_of_shard(1)),
        (cluster, directory)
    );
    assert!(again.has_served() && !again.is_new(2));
}

#[test]
fn shards_are_added_and_never_taken_away() {
    let root = tempfile::tempdir().unwrap();
    let paths = paths(&root, 1);
    drop(started(&paths, Some(2)));
    assert!(look(&paths, 1, Some(1)).err().unwrap().contains("not taken away"));
    let grown = look(&paths, 1, Some(4)).unwrap().open().unwrap();
    assert!(!grown.is_new(1) && grown.is_new(2) && grown.shard_folder(3).is_dir());
}

#[test]
fn an_interrupted_first_start_begins_anew() {
    let root = tempfile::tempdir().unwrap();
    let paths = paths(&root, 1);
    let first = look(&paths, 1, Some(1)).unwrap().open().unwrap();
    fs::write(first.shard_folder(0).join("journal-0"), b"half").unwrap();
    drop(first);
    let second = look(&paths, 1, None).unwrap().open().unwrap();
    assert!(second.is_new(0));
    let left = fs::read_dir(second.shard_folder(0)).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["shard.toml"]);
}

#[test]
fn what_is_not_this_nodes_is_refused_and_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let both = paths(&root, 2);
    let running = started(&both, Some(2));
    let second = look(&both, 1, None).unwrap().open();
    assert!(
        second
            .err()
            .unwrap()
            .to_string()
            .contains("another process has it open")
    );
    drop(running);

    assert!(
        look(&both, 2, None)
            .err()
            .unwrap()
            .contains("it belongs to node 1, and this is node 2")
    );
    assert!(
        look(&both[..1], 1, None)
            .err()
            .unwrap()
            .contains("2 entries in 'log.dirs', not 1")
    );
    let swapped = [both[1].clone(), both[0].clone()];
    assert!(look(&swapped, 1, None).err().unwrap().contains("another place"));
    let with_new = [both[0].clone(), root.path().join("new")];
    assert!(
        look(&with_new, 1, None)
            .err()
            .unwrap()
            .contains("not of this node")
    );
    assert!(!with_new[1].exists(), "a refused directory is not made");

    fs::rename(both[0].join(QUORUM_FILE), both[0].join("hidden")).unwrap();
    assert!(
        look(&both, 1, None)
            .err()
            .unwrap()
            .contains("quorum.redb is gone")
    );
    fs::rename(both[0].join("hidden"), both[0].join(QUORUM_FILE)).unwrap();

    let node_file = both[0].join(NODE_FILE);
    let text = fs::read_to_string(&node_file).unwrap();
    fs::write(&node_file, text.replace("format = 1", "format = 2")).unwrap();
    assert!(
        look(&both, 1, None)
            .err()
            .unwrap()
            .contains("start the newer version again")
    );
    fs::remove_file(&node_file).unwrap();
    assert!(
        look(&both[..1], 1, None)
            .err()
            .unwrap()
            .contains("its node.toml is gone")
    );
    fs::write(root.path().join("file"), b"").unwrap();
    assert!(
        look(&[root.path().join("file")], 1, None)
            .err()
            .unwrap()
            .contains("not a directory")
    );
}

/// A store looks the same in any folder: after a swap each shard gave up its logs and took the other's for strays.
#[test]
fn a_shard_folder_is_known_by_its_number_and_its_directory() {
    let root = tempfile::tempdir().unwrap();
    let both = paths(&root, 2);
    let node = started(&both, Some(4));
    let folders: Vec<PathBuf> = (0..4).map(|shard| node.shard_folder(shard)).collect();
    drop(node);
    let swap = |left: usize, right: usize| {
        let aside = root.path().join("aside");
        fs::rename(&folders[left], &aside).unwrap();
        fs::rename(&folders[right], &folders[left]).unwrap();
        fs::rename(&aside, &folders[right]).unwrap();
    };
    swap(0, 2);
    let refused = look(&both, 1, None).err().unwrap();
    let right = "shard-0: it is the folder of shard 2, and stands where that of shard 0 belongs";
    assert!(refused.contains(right), "{refused}");
    swap(0, 2);
    look(&both, 1, None).unwrap();

    // Of another node: the number alone would not tell.
    let others = vec![root.path().join("other")];
    let other = started(&others, Some(1)).shard_folder(0);
    let kept = fs::read(folders[0].join("shard.toml")).unwrap();
    fs::copy(other.join("shard.toml"), folders[0].join("shard.toml")).unwrap();
    let refused = look(&both, 1, None).err().unwrap();
    assert!(
        refused.contains("of another data directory, or of another node"),
        "{refused}"
    );
    fs::write(folders[0].join("shard.toml"), b"shard = ").unwrap();
    assert!(
        look(&both, 1, None)
            .err()
            .unwrap()
            .contains("shard.toml does not read")
    );

    // Versions before this wrote none: such a folder is taken as it is, and says it from then on.
    fs::remove_file(folders[0].join("shard.toml")).unwrap();
    drop(look(&both, 1, None).unwrap().open().unwrap());
    assert_eq!(fs::read(folders[0].join("shard.toml")).unwrap(), kept);
}

/// A folder full of something else was formatted without a word.
#[test]
fn only_an_empty_directory_is_formatted() {
    let root = tempfile::tempdir().unwrap();
    let paths = paths(&root, 1);
    fs::create_dir_all(paths[0].join("lost+found")).unwrap();
    look(&paths, 1, None).unwrap();
    fs::write(paths[0].join("important.txt"), b"mine").unwrap();
    let refused = look(&paths, 1, None).err().unwrap();
    assert!(
        refused.contains("not empty (it holds 'important.txt')"),
        "{refused}"
    );
    fs::write(paths[0].join(KAFKA_FILE), b"").unwrap();
    assert!(look(&paths, 1, None).err().unwrap().contains("of Apache Kafka"));
    assert_eq!(fs::read_dir(&paths[0]).unwrap().count(), 3, "nothing was touched");
}

#[test]
fn the_lock_lasts_as_long_as_the_last_hold_on_it() {
    let root = tempfile::tempdir().unwrap();
    let both = paths(&root, 2);
    let running = started(&both, Some(2));
    let hold = running.locks();
    drop(running);
    let second = look(&both, 1, None).unwrap().open();
    assert!(
        second
            .err()
            .unwrap()
            .to_string()
            .contains("another process has it open")
    );
    drop(hold);
    look(&both, 1, None).unwrap().open().unwrap();
}

#[test]
fn a_directory_formatted_since_it_was_looked_at_is_not_formatted_again() {
    let root = tempfile::tempdir().unwrap();
    let paths = paths(&root, 1);
    let late = look(&paths, 1, Some(1)).unwrap();
    let first = started(&paths, Some(1));
    let cluster = first.cluster_id();
    drop(first);
    assert!(late.open().err().unwrap().to_string().contains("start again"));
    let again = look(&paths, 1, None).unwrap().open().unwrap();
    assert_eq!(again.cluster_id(), cluster);
}
