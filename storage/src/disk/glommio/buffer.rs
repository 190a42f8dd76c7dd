//! Memory for direct I/O, and the write of a prefix of a buffer that is still being filled.
//!
//! glommio writes a whole `DmaBuffer` and can only shorten it through `&mut`, for good. A log appends behind
//! bytes that are on their way to the disk, and sends longer prefixes of the same buffer later. So the length
//! is set for the moment in which glommio takes pointer and length, and put back before anything else runs.
#![allow(unsafe_code)]

use std::future::{Future, poll_fn};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::pin::pin;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::slice;

use glommio::io::{DmaBuffer, ReadResult};

use super::super::Buffer;

/// A buffer of the executor's registered memory, or of the heap when that is used up.
///
/// Invariant: nothing here and no caller ever holds a reference to the `DmaBuffer` behind the `Rc`; glommio
/// does only inside its own calls. The content is reached through `base` alone.
pub struct GlommioBuffer {
    memory: Rc<DmaBuffer>,
    base: NonNull<u8>,
    length: usize,
}

impl GlommioBuffer {
    pub(super) fn allocate(length: usize) -> Self {
        let mut memory = glommio::allocate_dma_buffer(length);
        let base = NonNull::new(memory.as_mut_ptr()).expect("an allocation is not at address zero");
        assert!(memory.len() == length && base.as_ptr().addr().is_multiple_of(super::super::PAGE));
        Self {
            memory: Rc::new(memory),
            base,
            length,
        }
    }

    /// Drives the future that `start` makes from the shared buffer. During its first poll, in which glommio
    /// takes pointer and length, the buffer is `length` bytes long.
    pub(super) async fn write_prefix<F: Future>(
        &self,
        length: usize,
        start: impl FnOnce(Rc<DmaBuffer>) -> F,
    ) -> F::Output {
        assert!(
            length <= self.length,
            "a prefix of a buffer is not longer than it"
        );
        let mut write = pin!(start(self.memory.clone()));
        let mut queued = false;
        poll_fn(|context| {
            let _shortened = (!queued).then(|| Shortened::new(&self.memory, length));
            queued = true;
            write.as_mut().poll(context)
        })
        .await
    }
}

/// The buffer, shorter than it is; its own length comes back on drop, a panic included.
struct Shortened<'a> {
    memory: &'a Rc<DmaBuffer>,
    whole: ManuallyDrop<DmaBuffer>,
}

impl<'a> Shortened<'a> {
    fn new(memory: &'a Rc<DmaBuffer>, length: usize) -> Self {
        let place = Rc::as_ptr(memory).cast_mut();
        // SAFETY: `place` is valid, as an `Rc` of it is borrowed, and its provenance covers writes (`Rc::as_ptr`
        // keeps that of the allocation). The copy is never dropped and never used but to be written back, so
        // the memory keeps one owner.
        let whole = ManuallyDrop::new(unsafe { ptr::read(place) });
        // SAFETY: this thread alone reaches the buffer (`Rc` is not `Send`) and no reference to it exists: by
        // the invariant of `GlommioBuffer`, other `Rc`s of it are those of writes in flight, which glommio
        // dereferences only inside its own calls, and none of them runs now. Shortening frees nothing, and
        // writes in flight keep the pointer and length they were queued with.
        unsafe { (*place).trim_to_size(length) };
        Self { memory, whole }
    }
}

impl Drop for Shortened<'_> {
    fn drop(&mut self) {
        let place = Rc::as_ptr(self.memory).cast_mut();
        // SAFETY: as in `new`; the poll in between has ended and left no reference. `whole` differs from what
        // is there in its length only, and overwriting without a drop leaves one owner of the memory.
        unsafe { ptr::copy_nonoverlapping(&raw const *self.whole, place, 1) };
    }
}

impl Buffer for GlommioBuffer {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn len(&self) -> usize {
        self.length
    }

    fn as_slice(&self) -> &[u8] {
        // SAFETY: `base` points to `length` bytes that live as long as `self`, handed out by glommio as bytes;
        // by the rules of `Buffer` nobody fills the buffer while this reference lives.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.length) }
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`; `&mut self` excludes other references made from this value, and the rules
        // of `Buffer` writes in flight of these bytes.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr(), self.length) }
    }
}

/// What a read returned; clones share the memory.
#[derive(Clone)]
pub struct GlommioReadBuffer(pub(super) ReadResult);

impl Deref for GlommioReadBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
impl super::super::conformance::FillFrom for GlommioBuffer {
    fn fill_from(&self, offset: usize, byte: u8) {
        assert!(offset <= self.length);
        // SAFETY: inside the memory. Tests hold no reference to it, and those that break a rule of `Buffer`
        // with this do so to see it caught, on one thread and between two polls.
        unsafe { self.base.add(offset).write_bytes(byte, self.length - offset) };
    }
}
