//! Page-aligned memory of the simulated disk, with the sharing rules of [`Buffer`].
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::Deref;
use std::ptr::NonNull;
use std::rc::Rc;
use std::slice;

use super::super::{Buffer, PAGE};

/// What fresh memory holds: nobody may take it for zeros.
const GARBAGE: u8 = 0xA5;

/// Memory to write from.
#[derive(Debug)]
pub struct SimBuffer {
    base: NonNull<u8>,
    length: usize,
}

impl SimBuffer {
    /// `length` bytes, not zero.
    pub(super) fn allocate(length: usize) -> Self {
        let layout = Self::layout(length);
        assert!(length > 0, "an allocation has a size");
        // SAFETY: the layout's size is not zero.
        let base = unsafe { alloc(layout) };
        let Some(base) = NonNull::new(base) else {
            handle_alloc_error(layout)
        };
        // SAFETY: the allocation is of `length` bytes.
        unsafe { base.write_bytes(GARBAGE, length) };
        Self { base, length }
    }

    fn layout(length: usize) -> Layout {
        Layout::from_size_align(length, PAGE).expect("a buffer is far smaller than the address space")
    }

    /// The first `length` bytes, which are being written and so stay as they are (rule 1 of [`Buffer`]).
    pub(super) fn prefix(&self, length: usize) -> &[u8] {
        assert!(
            length <= self.length,
            "a prefix of a buffer is not longer than it"
        );
        // SAFETY: inside the allocation, which lives as long as `self`; by rule 1 nobody changes these bytes,
        // and by rule 2 nobody has a mutable reference to them.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), length) }
    }
}

impl Drop for SimBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `allocate` with the same layout, and freed nowhere else.
        unsafe { dealloc(self.base.as_ptr(), Self::layout(self.length)) }
    }
}

impl Buffer for SimBuffer {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn len(&self) -> usize {
        self.length
    }

    fn as_slice(&self) -> &[u8] {
        self.prefix(self.length)
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the whole allocation, initialized in `allocate`; `&mut self` excludes other references made
        // from this value, and the rules of `Buffer` writes in flight of these bytes.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr(), self.length) }
    }
}

/// What a read returned; clones share the memory, which is aligned to a page.
#[derive(Clone, Debug)]
pub struct SimReadBuffer {
    memory: Rc<SimBuffer>,
    length: usize,
}

impl SimReadBuffer {
    /// Memory for `length` bytes that `fill` writes.
    pub(super) fn filled(length: usize, fill: impl FnOnce(&mut [u8])) -> Self {
        let mut memory = SimBuffer::allocate(length.max(1));
        fill(&mut memory.as_mut_slice()[..length]);
        Self {
            memory: Rc::new(memory),
            length,
        }
    }
}

impl Deref for SimReadBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.memory.prefix(self.length)
    }
}

#[cfg(test)]
impl super::super::conformance::FillFrom for SimBuffer {
    fn fill_from(&self, offset: usize, byte: u8) {
        assert!(offset <= self.length);
        // SAFETY: inside the memory. Tests hold no reference to it, and those that break a rule of `Buffer`
        // with this do so to see it caught, on one thread and between two polls.
        unsafe { self.base.add(offset).write_bytes(byte, self.length - offset) };
    }
}
