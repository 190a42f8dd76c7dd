//! The append buffer: DMA memory that one writer fills while readers look at what it has published.
//!
//! The base pointer is taken once, before the memory is shared. Writer and readers use pointer and length
//! and never hold a reference to the whole: what the writer touches lies at or above the published end, what
//! readers touch lies below it.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;

use crate::budget::Reservation;
use crate::disk::Buffer;

/// An append buffer. Single-threaded: neither `Send` nor `Sync`, since it holds a raw pointer and an `Rc`.
pub(crate) struct AppendBuffer<B: Buffer> {
    base: NonNull<u8>,
    capacity: usize,
    published: Cell<usize>,
    writing: Cell<bool>,
    sealed: Cell<bool>,
    buffer: Rc<B>,
    reservation: Reservation,
}

impl<B: Buffer> AppendBuffer<B> {
    pub(crate) fn new(buffer: B, reservation: Reservation) -> Self {
        Self {
            base: buffer.base(),
            capacity: buffer.len(),
            published: Cell::new(0),
            writing: Cell::new(false),
            sealed: Cell::new(false),
            buffer: Rc::new(buffer),
            reservation,
        }
    }

    /// The published end.
    pub(crate) fn len(&self) -> usize {
        self.published.get()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// What it takes of the budget.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.reservation.bytes()
    }

    /// Lets `fill` write the next `length` bytes, then publishes them. Returns where they begin.
    pub(crate) fn append<T>(&self, length: usize, fill: impl FnOnce(&mut [u8]) -> T) -> (usize, T) {
        assert!(!self.sealed.get(), "a sealed buffer is never written again");
        assert!(!self.writing.replace(true), "one writer at a time");
        let position = self.published.get();
        assert!(length <= self.capacity - position, "the caller looked for room");
        // SAFETY: `base` is valid for `capacity` bytes as long as the buffer lives, even after it moved (the
        // contract of `Buffer::base`), and `self` owns a share of it. `position..position + length` lies inside. No other reference to these
        // bytes exists: readers stay below `published` (asserted in `bytes`), there is one writer (asserted
        // above, and the buffer is of one thread), and the disk gets the buffer only once it is sealed.
        let memory = unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(position), length) };
        let value = fill(memory);
        self.published.set(position + length);
        self.writing.set(false);
        (position, value)
    }

    /// Published bytes.
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        assert!(
            range.start <= range.end && range.end <= self.published.get(),
            "readers stay below the published end"
        );
        // SAFETY: as in `append`; the range lies below the published end, where nobody writes any more.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(range.start), range.end - range.start) }
    }

    /// Ends writing for good.
    pub(crate) fn seal(&self) {
        self.sealed.set(true);
    }

    /// The memory, for the disk to write from; only of a sealed buffer.
    pub(crate) fn dma(&self) -> Rc<B> {
        assert!(
            self.sealed.get(),
            "pages are dispatched only once nobody writes them"
        );
        self.buffer.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::MemoryBudget;

    struct Memory(Vec<u8>);

    impl Buffer for Memory {
        fn base(&self) -> NonNull<u8> {
            NonNull::new(self.0.as_ptr().cast_mut()).expect("not empty")
        }
        fn len(&self) -> usize {
            self.0.len()
        }
        fn as_slice(&self) -> &[u8] {
            &self.0
        }
        fn as_mut_slice(&mut self) -> &mut [u8] {
            &mut self.0
        }
    }

    fn buffer() -> AppendBuffer<Memory> {
        AppendBuffer::new(Memory(vec![0; 64]), MemoryBudget::new(64).charge(64))
    }

    #[test]
    fn readers_keep_what_was_published_while_the_writer_goes_on() {
        let buffer = buffer();
        buffer.append(10, |bytes| bytes.fill(1));
        let early = buffer.bytes(0..10);
        let (position, ()) = buffer.append(20, |bytes| bytes.fill(2));
        assert_eq!(position, 10);
        assert_eq!(early, [1; 10]);
        assert_eq!(buffer.bytes(10..30), [2; 20]);
        buffer.seal();
        assert_eq!(&buffer.dma().as_slice()[..30], buffer.bytes(0..30));
    }

    #[test]
    #[should_panic(expected = "below the published end")]
    fn nobody_reads_beyond_the_published_end() {
        buffer().bytes(0..1);
    }

    #[test]
    #[should_panic(expected = "never written again")]
    fn a_sealed_buffer_takes_nothing() {
        let buffer = buffer();
        buffer.seal();
        buffer.append(1, |_| ());
    }
}
