//! What is on disk, as pure functions over bytes: no I/O, no clock. Bytes from disk give errors, never panics.
//!
//! All integers are little-endian. Fixed-size structures are rkyv archives whose size is asserted at compile
//! time; a golden file pins each format.

pub mod checkpoint;
mod checkpoint_1;
pub mod checksum;
// Private, and named from `piece`: the derived resolvers have fields that nothing can document.
mod control;
pub mod entry;
pub mod envelope;
pub mod frame;
pub mod index;
pub mod names;
pub mod piece;
pub mod snapshot;

use rkyv::api::high::{HighDeserializer, HighSerializer, HighValidator};
use rkyv::api::low::LowValidator;
use rkyv::bytecheck::CheckBytes;
use rkyv::de::pooling::Unpool;
use rkyv::rancor::{self, Strategy};
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;
use rkyv::{Archive, Deserialize, Serialize};

/// Why bytes are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The bytes end before the structure does.
    #[error("{what}: {have} bytes, {want} needed")]
    Short {
        /// The structure.
        what: &'static str,
        /// What there is.
        have: usize,
        /// What it takes.
        want: usize,
    },
    /// The magic number is another.
    #[error("{what}: no such structure here")]
    Magic {
        /// The structure.
        what: &'static str,
    },
    /// The structure is of a format this version does not know.
    #[error("{what}: format {format} is not known to this version")]
    Version {
        /// The structure.
        what: &'static str,
        /// The format found.
        format: u32,
    },
    /// The checksum does not match.
    #[error("{what}: checksum does not match")]
    Checksum {
        /// The structure.
        what: &'static str,
    },
    /// A field has a value that no writer gives it.
    #[error("{what}: {field} is out of its bounds")]
    Field {
        /// The structure.
        what: &'static str,
        /// The field.
        field: &'static str,
    },
}

/// Rounds up to a multiple of `unit`, a power of two.
pub const fn round_up(bytes: usize, unit: usize) -> usize {
    (bytes + unit - 1) & !(unit - 1)
}

/// Archives `value`.
pub(crate) fn archive<T>(value: &T) -> AlignedVec
where
    T: for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, rancor::Error>>,
{
    rkyv::to_bytes::<rancor::Error>(value).expect("archiving into memory meets no error")
}

/// Checks and reads what [`archive`] wrote.
pub(crate) fn unarchive<T>(what: &'static str, bytes: &[u8]) -> Result<T, FormatError>
where
    T: Archive,
    T::Archived: for<'a> CheckBytes<HighValidator<'a, rancor::Error>>
        + Deserialize<T, HighDeserializer<rancor::Error>>,
{
    let mut aligned: AlignedVec = AlignedVec::with_capacity(bytes.len());
    aligned.extend_from_slice(bytes);
    rkyv::from_bytes::<T, rancor::Error>(&aligned).map_err(|_| FormatError::Field {
        what,
        field: "archive",
    })
}

/// Archives a structure of `N` bytes without pointers.
pub(crate) fn archive_fixed<T, const N: usize>(value: &T) -> [u8; N]
where
    T: for<'a, 'b> Serialize<
        Strategy<
            rkyv::ser::Serializer<rkyv::ser::writer::Buffer<'a>, rkyv::ser::allocator::SubAllocator<'b>, ()>,
            rancor::Failure,
        >,
    >,
{
    let mut bytes = rkyv::util::Align([0; N]);
    rkyv::api::low::to_bytes_in_with_alloc::<_, _, rancor::Failure>(
        value,
        rkyv::ser::writer::Buffer::from(&mut bytes.0),
        rkyv::ser::allocator::SubAllocator::new(&mut []),
    )
    .expect("the structure has the asserted size and no pointers");
    bytes.0
}

/// Checks and reads what [`archive_fixed`] wrote at the start of `bytes`.
pub(crate) fn unarchive_fixed<T, const N: usize>(
    what: &'static str,
    field: &'static str,
    bytes: &[u8],
) -> Result<T, FormatError>
where
    T: Archive,
    T::Archived: for<'a> CheckBytes<LowValidator<'a, rancor::Failure>>
        + Deserialize<T, Strategy<Unpool, rancor::Failure>>,
{
    let Some(fixed) = bytes.first_chunk::<N>() else {
        return Err(FormatError::Short {
            what,
            have: bytes.len(),
            want: N,
        });
    };
    let aligned = rkyv::util::Align(*fixed);
    rkyv::api::low::from_bytes::<T, rancor::Failure>(&aligned.0)
        .map_err(|_| FormatError::Field { what, field })
}
