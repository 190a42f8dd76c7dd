//! The process's allocator: libc's, but for large blocks, which come from the kernel and go back to it.
//!
//! Buffers of many sizes live for as long as a cache or a slow client wants. In one heap they leave holes that nothing fits
//! into: under large produces the heaps grew to one and a half times what was in use. So a block of more than [`USUAL_BYTES`]
//! is a mapping of its own. Mapping costs a page fault each 4 KiB, more than copying what the page will hold; so a shard
//! keeps some free blocks, in a few sizes, and takes its next ones from there. What it keeps is a part of its memory share.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::RefCell;
use std::ptr::{self, NonNull};

/// Up to this size blocks are libc's: the append buffers of busy logs are as large, and all powers of two, which fit each
/// other's holes; and a process may have some ten thousand mappings only.
pub const USUAL_BYTES: usize = 256 << 10;
/// What a mapping is aligned to; a block that wants more is libc's.
const PAGE: usize = 4096;
/// Sizes between two powers of two: a block is at most an eighth larger than asked for.
const STEPS: usize = 8;
/// Powers of two with lists of free blocks: up to 16 MiB. Larger blocks are rare.
const POWERS: usize = 6;
const CLASSES: usize = STEPS * POWERS;

/// The allocator; its state is each thread's own.
pub struct LargeBlocks;

/// A free block begins with the address of the next one of its size.
type Link = Option<NonNull<u8>>;

struct Kept {
    lists: [Link; CLASSES],
    bytes: usize,
    bytes_max: usize,
    mapped: u64,
}

thread_local! {
    static KEPT: RefCell<Kept> = const { RefCell::new(Kept::new()) };
}

/// Lets this thread keep free blocks of so many bytes in all; at first none are kept.
pub fn keep_at_most(bytes: usize) {
    let _ = KEPT.try_with(|kept| kept.borrow_mut().bytes_max = bytes);
}

/// The size of the mapping for a block of `bytes`, and the list it belongs to, if there is one.
fn class_of(bytes: usize) -> (usize, Option<usize>) {
    let power = (usize::BITS - 1 - bytes.leading_zeros()) as usize;
    let step = (1 << power) / STEPS;
    let steps = bytes.div_ceil(step);
    let first = USUAL_BYTES.trailing_zeros() as usize;
    let class = (power - first) * STEPS + (steps - STEPS);
    (steps * step, Some(class).filter(|class| *class < CLASSES))
}

fn is_large(layout: &Layout) -> bool {
    layout.size() > USUAL_BYTES && layout.align() <= PAGE
}

impl Kept {
    const fn new() -> Self {
        Self {
            lists: [None; CLASSES],
            bytes: 0,
            bytes_max: 0,
            mapped: 0,
        }
    }

    fn take(&mut self, class: usize, bytes: usize) -> Link {
        let block = self.lists[class]?;
        // SAFETY: blocks in a list are mappings of at least a page that nobody else holds; `keep` wrote the link.
        self.lists[class] = unsafe { block.cast::<Link>().read() };
        self.bytes -= bytes;
        Some(block)
    }

    /// Whether the block was kept.
    fn keep(&mut self, block: NonNull<u8>, class: usize, bytes: usize) -> bool {
        if self.bytes + bytes > self.bytes_max {
            return false;
        }
        // SAFETY: the block was given back by its owner, and is a mapping of at least a page.
        unsafe { block.cast::<Link>().write(self.lists[class]) };
        self.lists[class] = Some(block);
        self.bytes += bytes;
        true
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        for class in 0..CLASSES {
            let power = USUAL_BYTES << (class / STEPS);
            let bytes = power + power / STEPS * (class % STEPS);
            while let Some(block) = self.take(class, bytes) {
                // SAFETY: a block of this list is a mapping of this size, and nobody else holds it.
                unsafe { unmap(block, bytes) };
            }
        }
    }
}

/// Runs `with` on this thread's lists, unless they are gone.
fn with_kept<T>(with: impl FnOnce(&mut Kept) -> T) -> Option<T> {
    KEPT.try_with(|kept| kept.try_borrow_mut().ok().map(|mut kept| with(&mut kept)))
        .ok()
        .flatten()
}

fn map(bytes: usize) -> *mut u8 {
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new anonymous mapping touches no memory that is in use.
    let block = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
    with_kept(|kept| kept.mapped += 1);
    if block == libc::MAP_FAILED {
        ptr::null_mut()
    } else {
        block.cast()
    }
}

/// # Safety
/// `block` is a mapping of `bytes` that nobody uses any more.
unsafe fn unmap(block: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(block.as_ptr().cast(), bytes) };
}

/// A block of the class, and whether the kernel has just made it, all zeroes.
fn take_or_map(size: usize) -> (*mut u8, bool) {
    let (bytes, class) = class_of(size);
    match class.and_then(|class| with_kept(|kept| kept.take(class, bytes)).flatten()) {
        Some(block) => (block.as_ptr(), false),
        None => (map(bytes), true),
    }
}

// SAFETY: blocks up to `USUAL_BYTES`, or with more than a page's alignment, are libc's, by the same test of the same layout
// at allocation and release. Others are mappings, page-aligned and at least as large as asked for, each in the hands of one
// owner or of one list. Nothing here allocates, unwinds, or fails but by null.
unsafe impl GlobalAlloc for LargeBlocks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(&layout) {
            take_or_map(layout.size()).0
        } else {
            // SAFETY: the caller's promise.
            unsafe { System.alloc(layout) }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !is_large(&layout) {
            // SAFETY: the caller's promise.
            return unsafe { System.alloc_zeroed(layout) };
        }
        let (block, is_zero) = take_or_map(layout.size());
        if !block.is_null() && !is_zero {
            // SAFETY: the block is at least this large, and nobody else holds it.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !is_large(&layout) {
            // SAFETY: the caller's promise; libc gave it.
            return unsafe { System.dealloc(block, layout) };
        }
        let (bytes, class) = class_of(layout.size());
        // SAFETY: the caller's promise: it is a block of ours, which are never null.
        let block = unsafe { NonNull::new_unchecked(block) };
        let keep = |class| with_kept(|kept| kept.keep(block, class, bytes));
        if !class.and_then(keep).unwrap_or(false) {
            // SAFETY: mapped with this size, and given back by its owner.
            unsafe { unmap(block, bytes) };
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise: `size` fits the alignment of `layout`.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (is_large(&layout), is_large(&new)) {
            // SAFETY: the caller's promise; libc gave it, and keeps it.
            (false, false) => unsafe { System.realloc(block, layout, size) },
            (true, true) => {
                let (before, after) = (class_of(layout.size()).0, class_of(size).0);
                if before == after {
                    return block;
                }
                // SAFETY: a mapping of `before` bytes whose owner gives it up for the one returned.
                let moved = unsafe { libc::mremap(block.cast(), before, after, libc::MREMAP_MAYMOVE) };
                if moved == libc::MAP_FAILED {
                    ptr::null_mut()
                } else {
                    moved.cast()
                }
            }
            _ => {
                // SAFETY: the caller's promise; both blocks hold at least the smaller size, and are not the same.
                unsafe {
                    let to = self.alloc(new);
                    if !to.is_null() {
                        ptr::copy_nonoverlapping(block, to, layout.size().min(size));
                        self.dealloc(block, layout);
                    }
                    to
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped() -> u64 {
        with_kept(|kept| kept.mapped).unwrap()
    }

    fn kept_bytes() -> usize {
        with_kept(|kept| kept.bytes).unwrap()
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 4096).unwrap()
    }

    fn alloc(bytes: usize, fill: u8) -> *mut u8 {
        // SAFETY: the size is not zero, and the block is that large.
        unsafe {
            let block = LargeBlocks.alloc(layout(bytes));
            assert!(!block.is_null() && block.addr().is_multiple_of(4096));
            block.write_bytes(fill, bytes);
            block
        }
    }

    fn free(block: *mut u8, bytes: usize) {
        // SAFETY: the tests give each block back once, with its own size.
        unsafe { LargeBlocks.dealloc(block, layout(bytes)) };
    }

    fn is_filled(block: *mut u8, bytes: usize, fill: u8) -> bool {
        // SAFETY: the block is that large, and filled.
        unsafe { std::slice::from_raw_parts(block, bytes) }
            .iter()
            .all(|byte| *byte == fill)
    }

    #[test]
    fn classes_hold_what_they_are_for() {
        let mut last = 0;
        for bytes in (USUAL_BYTES + 1..40 << 20).step_by(4096 - 8) {
            let (size, class) = class_of(bytes);
            assert!(size >= bytes && size - bytes <= bytes / STEPS && size.is_multiple_of(PAGE));
            assert!(size >= last);
            last = size;
            assert_eq!(
                class_of(size),
                (size, class),
                "a block's class is that of its size"
            );
            assert_eq!(class.is_some(), size < USUAL_BYTES << POWERS);
        }
    }

    #[test]
    fn a_steady_load_maps_nothing() {
        keep_at_most(4 << 20);
        let size = |turn: usize| 1_000_000 + turn % 3 * 10_000;
        let mut cache: std::collections::VecDeque<_> = (0..20)
            .map(|turn| (alloc(size(turn), turn as u8), turn))
            .collect();
        let before = mapped();
        for turn in 20..200 {
            let (block, old) = cache.pop_front().unwrap();
            assert!(is_filled(block, size(old), old as u8), "nobody else writes there");
            free(block, size(old));
            cache.push_back((alloc(size(turn), turn as u8), turn));
        }
        assert_eq!(mapped(), before);
        for (block, turn) in cache {
            free(block, size(turn));
        }
        assert!(kept_bytes() <= 4 << 20);
        keep_at_most(0);
    }

    #[test]
    fn growing_keeps_the_content() {
        let mut bytes = 1000;
        let mut block = alloc(bytes, 7);
        while bytes < 20 << 20 {
            let more = bytes * 3 / 2;
            // SAFETY: the block is of this layout, and is replaced by what comes back.
            block = unsafe { LargeBlocks.realloc(block, layout(bytes), more) };
            assert!(is_filled(block, bytes.min(1000), 7));
            bytes = more;
        }
        // SAFETY: as above.
        block = unsafe { LargeBlocks.realloc(block, layout(bytes), 900) };
        assert!(is_filled(block, 900, 7));
        free(block, 900);
    }

    #[test]
    fn a_zeroed_block_is_zero_also_when_it_was_used() {
        keep_at_most(4 << 20);
        let block = alloc(1 << 20, 9);
        free(block, 1 << 20);
        assert_eq!(kept_bytes(), 1 << 20);
        // SAFETY: the size is not zero.
        let again = unsafe { LargeBlocks.alloc_zeroed(layout(1 << 20)) };
        assert_eq!(again, block);
        assert!(is_filled(again, 1 << 20, 0));
        free(again, 1 << 20);
        keep_at_most(0);
    }
}
