//! The files of a log as the last checkpoint names them: frames that follow one another by offset and chain, or say that they
//! do not.

use std::collections::BTreeSet;

use strandline_storage::disk::{Disk, DiskFile, OpenMode};
use strandline_storage::format::frame::FLAG_GAP;
use strandline_storage::inspect::{checkpoint, names, segment_frames};
use strandline_storage::{Log, StoreOptions};

async fn content<D: Disk>(disk: &D, path: &std::path::Path) -> Vec<u8> {
    let file = disk.open(path, OpenMode::Read).await.unwrap();
    let size = file.size().await.unwrap() as usize;
    file.read_at(0, size.next_multiple_of(4096))
        .await
        .unwrap()
        .to_vec()
}

/// Nothing but what the checkpoint names is there, and all of it is whole.
pub async fn check_files<D: Disk>(disk: &D, options: &StoreOptions, log: &Log<D>) {
    let mut newest = None;
    for name in names::CHECKPOINTS {
        let slot = checkpoint(&content(disk, &options.directory.join(name)).await).unwrap();
        if newest
            .as_ref()
            .is_none_or(|known: &strandline_storage::inspect::Checkpoint| known.generation < slot.generation)
        {
            newest = Some(slot);
        }
    }
    let newest = newest.unwrap();
    let known = newest
        .logs
        .iter()
        .find(|known| known.log_id == log.log_id().0)
        .unwrap();
    assert_eq!(known.cleaned_to.max(known.start_offset), log.cleaned_to());
    let folder = options
        .directory
        .join(names::LOGS)
        .join(names::log_folder(log.id(), log.log_id()));
    let mut named: BTreeSet<String> = BTreeSet::from([names::snapshot(known.snapshot)]);
    let mut before: Option<(i64, u64)> = None;
    for segment in &known.segments {
        let name = names::segment(segment.base_offset, segment.number);
        let bytes = content(disk, &folder.join(&name)).await;
        named.extend([
            name,
            names::index(segment.base_offset, segment.number),
            names::snapshot(segment.snapshot),
        ]);
        let (mut payload, mut max_timestamp, mut end) = (0, -1, segment.base_offset);
        for frame in segment_frames(&bytes[..segment.valid_length as usize], log.id()) {
            let header = frame.unwrap().header;
            if header.is_pad() {
                continue;
            }
            if let Some((end, chain)) = before {
                let gap = header.flags & FLAG_GAP != 0;
                assert!(header.base_offset >= end);
                assert!(
                    gap || header.base_offset == end,
                    "an unsaid gap before {}",
                    header.base_offset
                );
                assert!(
                    gap || header.previous == chain,
                    "the chain breaks at {}",
                    header.base_offset
                );
            }
            before = Some((header.end_offset(), header.chain()));
            end = header.end_offset();
            payload += u64::from(header.payload_length);
            max_timestamp = max_timestamp.max(header.max_timestamp);
        }
        assert_eq!(end, segment.end_offset, "a segment ends with its last frame");
        assert_eq!(
            (payload, max_timestamp),
            (segment.payload_bytes, segment.max_timestamp)
        );
    }
    for entry in disk.list(&folder).await.unwrap() {
        assert!(named.contains(&entry.name), "{} is left over", entry.name);
    }
}
