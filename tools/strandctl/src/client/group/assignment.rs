//! What the leader of a classic group of consumers assigned to a member (`ConsumerProtocolAssignment`, any version).

use strandline_wire::WireError;
use strandline_wire::primitives::Reader;

use super::Partitions;

/// The schema has no flexible versions.
const FLEXIBLE: bool = false;

/// Reads an assignment. A member that never got one has no bytes.
pub(super) fn read(bytes: &[u8]) -> Result<Partitions, WireError> {
    let mut assigned = Partitions::new();
    if bytes.is_empty() {
        return Ok(assigned);
    }
    let mut reader = Reader::new(bytes);
    reader.i16("version")?;
    for _ in 0..reader.array(FLEXIBLE, 6, "topics")? {
        let topic = reader.string(FLEXIBLE, "topic")?.to_owned();
        let partitions: &mut Vec<i32> = assigned.entry(topic).or_default();
        for _ in 0..reader.array(FLEXIBLE, 4, "partitions")? {
            partitions.push(reader.i32("partition")?);
        }
        partitions.sort_unstable();
    }
    Ok(assigned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_read_whatever_follows() {
        let bytes =
            b"\0\x09\0\0\0\x02\0\x01t\0\0\0\x02\0\0\0\x03\0\0\0\x01\0\x01u\0\0\0\0\xff\xff\xff\xffmore";
        let right = Partitions::from([("t".to_owned(), vec![1, 3]), ("u".to_owned(), vec![])]);
        assert_eq!(read(bytes), Ok(right));
        assert_eq!(read(b""), Ok(Partitions::new()));
        assert!(read(&bytes[..20]).is_err());
        assert!(read(b"\0\0\x7f\xff\xff\xff").is_err(), "more topics than bytes");
    }
}
