//! The bytes of a message: an envelope, a head that the envelope's checksum covers, and for frames a body, whose frames
//! carry checksums of their own and are not summed twice.
//!
//! ```text
//! envelope, 40 bytes    head length u32 · body length u32 · kind u8 · zero, 7 bytes · sequence u64 · broker epoch i64 ·
//!                       XXH3-64 of envelope (this field zero) and head u64
//! 1 Open                count u32, then each: topic id 16 bytes · partition u32 · leader epoch i32 · open u32 ·
//!                       last epoch i32 · end i64 · start i64
//! 2 Opened              count u32, then each: topic id · partition u32 · leader epoch i32 · open u32 · answer u8
//!                       (0 stream, 1 diverging, 2 starts at) · zero, 3 bytes · epoch i32 · offset i64
//! 3 Frames              topic id · partition u32 · leader epoch i32 · open u32 · window u8 (0 tail, 1 catch-up) ·
//!                       zero, 3 bytes · high watermark i64 · log start i64; the body is frames
//! 4 Ack                 count u32, then each: topic id · partition u32 · leader epoch i32 · open u32 · end i64 ·
//!                       log start i64
//! 5 Credit              window u8 · zero, 7 bytes · bytes u64
//! 6 Alive               nothing
//! ```
//!
//! Envelope and the head of frames are multiples of 8 bytes, so that frames lie aligned behind them.

use xxhash_rust::xxh3::Xxh3Default;

use super::cursor::{Cursor, put_partition};
use super::message::{Answer, LinkAck, LinkError, LinkFrames, LinkMessage, LinkOpen, LinkOpened, Window};
use crate::metadata::{BrokerEpoch, LeaderEpoch};

/// Bytes before every message.
pub const ENVELOPE_BYTES: usize = 40;
/// The largest head: opens of 10,000 partitions and more, yet little memory.
pub const HEAD_BYTES_MAX: u32 = 1 << 20;

const CHECKSUM_AT: usize = ENVELOPE_BYTES - 8;
const OPEN_BYTES: usize = 48;
const OPENED_BYTES: usize = 44;
const ACK_BYTES: usize = 44;

/// What stands before a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Bytes of the head.
    pub head_bytes: u32,
    /// Bytes of the frames behind it.
    pub body_bytes: u32,
    /// The sender's registration.
    pub broker_epoch: BrokerEpoch,
    kind: u8,
    sequence: u64,
    checksum: u64,
    summed: [u8; CHECKSUM_AT],
}

impl Envelope {
    /// Reads an envelope whose message is to have the number `sequence`; its checksum is checked with the head.
    ///
    /// # Errors
    /// [`LinkError`], for which the link is closed.
    pub fn decode(
        bytes: &[u8; ENVELOPE_BYTES],
        sequence: u64,
        body_bytes_max: u32,
    ) -> Result<Self, LinkError> {
        let mut cursor = Cursor(bytes);
        let (head_bytes, body_bytes) = (cursor.u32()?, cursor.u32()?);
        let kind = cursor.u8()?;
        zeros::<7>(&mut cursor)?;
        let found = cursor.u64()?;
        let broker_epoch = BrokerEpoch(cursor.i64()?);
        let checksum = cursor.u64()?;
        if head_bytes > HEAD_BYTES_MAX {
            return Err(LinkError::HeadTooLarge(head_bytes));
        }
        if body_bytes > body_bytes_max {
            return Err(LinkError::BodyTooLarge(body_bytes));
        }
        if body_bytes > 0 && kind != 3 {
            return Err(LinkError::Body(kind));
        }
        if found != sequence {
            return Err(LinkError::Sequence {
                expected: sequence,
                found,
            });
        }
        let mut summed = [0; CHECKSUM_AT];
        summed.copy_from_slice(&bytes[..CHECKSUM_AT]);
        Ok(Self {
            head_bytes,
            body_bytes,
            broker_epoch,
            kind,
            sequence,
            checksum,
            summed,
        })
    }

    /// Its place among the messages of its sender on this link, from 0.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }
}

/// Envelope and head of `message`, its sender's `sequence`-th on this link; `body_bytes` of frames are to follow.
pub fn encode(message: &LinkMessage, broker_epoch: BrokerEpoch, sequence: u64, body_bytes: u32) -> Vec<u8> {
    let mut out = vec![0; ENVELOPE_BYTES];
    let kind = match message {
        LinkMessage::Open(opens) => {
            put_count(&mut out, opens.len());
            opens.iter().for_each(|open| put_open(&mut out, open));
            1
        }
        LinkMessage::Opened(answers) => {
            put_count(&mut out, answers.len());
            answers.iter().for_each(|opened| put_opened(&mut out, opened));
            2
        }
        LinkMessage::Frames(frames) => {
            put_partition(&mut out, &frames.partition);
            out.extend_from_slice(&frames.leader_epoch.0.to_le_bytes());
            out.extend_from_slice(&frames.open.to_le_bytes());
            out.extend_from_slice(&[frames.window as u8, 0, 0, 0]);
            out.extend_from_slice(&frames.high_watermark.to_le_bytes());
            out.extend_from_slice(&frames.log_start.to_le_bytes());
            3
        }
        LinkMessage::Ack(acks) => {
            put_count(&mut out, acks.len());
            acks.iter().for_each(|ack| put_ack(&mut out, ack));
            4
        }
        LinkMessage::Credit { window, bytes } => {
            out.extend_from_slice(&[*window as u8, 0, 0, 0, 0, 0, 0, 0]);
            out.extend_from_slice(&bytes.to_le_bytes());
            5
        }
        LinkMessage::Alive => 6,
    };
    assert!(body_bytes == 0 || kind == 3, "only frames have a body");
    let head_bytes = (out.len() - ENVELOPE_BYTES) as u32;
    assert!(head_bytes <= HEAD_BYTES_MAX, "longer lists are sent in parts");
    out[..4].copy_from_slice(&head_bytes.to_le_bytes());
    out[4..8].copy_from_slice(&body_bytes.to_le_bytes());
    out[8] = kind;
    out[16..24].copy_from_slice(&sequence.to_le_bytes());
    out[24..32].copy_from_slice(&broker_epoch.0.to_le_bytes());
    let sum = checksum(&out[..CHECKSUM_AT], &out[ENVELOPE_BYTES..]);
    out[CHECKSUM_AT..ENVELOPE_BYTES].copy_from_slice(&sum.to_le_bytes());
    out
}

/// The message that `envelope` announced, from its head.
///
/// # Errors
/// [`LinkError`], for which the link is closed.
pub fn decode_head(envelope: &Envelope, head: &[u8]) -> Result<LinkMessage, LinkError> {
    if head.len() != envelope.head_bytes as usize {
        return Err(LinkError::Short);
    }
    if checksum(&envelope.summed, head) != envelope.checksum {
        return Err(LinkError::Checksum);
    }
    let mut cursor = Cursor(head);
    let message = match envelope.kind {
        1 => LinkMessage::Open(cursor.list(OPEN_BYTES, open)?),
        2 => LinkMessage::Opened(cursor.list(OPENED_BYTES, opened)?),
        3 => LinkMessage::Frames(frames(&mut cursor)?),
        4 => LinkMessage::Ack(cursor.list(ACK_BYTES, ack)?),
        5 => {
            let window = window(&mut cursor)?;
            zeros::<7>(&mut cursor)?;
            let bytes = cursor.u64()?;
            LinkMessage::Credit { window, bytes }
        }
        6 => LinkMessage::Alive,
        kind => return Err(LinkError::Kind(kind)),
    };
    match cursor.0.len() {
        0 => Ok(message),
        rest => Err(LinkError::Long(rest)),
    }
}

fn checksum(envelope: &[u8], head: &[u8]) -> u64 {
    let mut sum = Xxh3Default::new();
    sum.update(envelope);
    sum.update(&[0; 8]);
    sum.update(head);
    sum.digest()
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u32).to_le_bytes());
}

fn put_open(out: &mut Vec<u8>, open: &LinkOpen) {
    put_partition(out, &open.partition);
    out.extend_from_slice(&open.leader_epoch.0.to_le_bytes());
    out.extend_from_slice(&open.open.to_le_bytes());
    out.extend_from_slice(&open.last_epoch.to_le_bytes());
    out.extend_from_slice(&open.end.to_le_bytes());
    out.extend_from_slice(&open.start.to_le_bytes());
}

fn open(cursor: &mut Cursor<'_>) -> Result<LinkOpen, LinkError> {
    Ok(LinkOpen {
        partition: cursor.partition()?,
        leader_epoch: LeaderEpoch(cursor.i32()?),
        open: cursor.u32()?,
        last_epoch: cursor.i32()?,
        end: cursor.offset()?,
        start: cursor.offset()?,
    })
}

fn put_opened(out: &mut Vec<u8>, opened: &LinkOpened) {
    let (answer, epoch, offset) = match opened.answer {
        Answer::Stream => (0, 0, 0),
        Answer::Diverging { epoch, end } => (1, epoch, end),
        Answer::StartsAt { log_start } => (2, 0, log_start),
    };
    put_partition(out, &opened.partition);
    out.extend_from_slice(&opened.leader_epoch.0.to_le_bytes());
    out.extend_from_slice(&opened.open.to_le_bytes());
    out.extend_from_slice(&[answer, 0, 0, 0]);
    out.extend_from_slice(&epoch.to_le_bytes());
    out.extend_from_slice(&offset.to_le_bytes());
}

fn opened(cursor: &mut Cursor<'_>) -> Result<LinkOpened, LinkError> {
    let partition = cursor.partition()?;
    let leader_epoch = LeaderEpoch(cursor.i32()?);
    let open = cursor.u32()?;
    let kind = cursor.u8()?;
    zeros::<3>(cursor)?;
    let (epoch, offset) = (cursor.i32()?, cursor.offset()?);
    let answer = match kind {
        0 => Answer::Stream,
        1 => Answer::Diverging { epoch, end: offset },
        2 => Answer::StartsAt { log_start: offset },
        value => {
            return Err(LinkError::Field {
                field: "answer",
                value,
            });
        }
    };
    Ok(LinkOpened {
        partition,
        leader_epoch,
        open,
        answer,
    })
}

fn frames(cursor: &mut Cursor<'_>) -> Result<LinkFrames, LinkError> {
    let partition = cursor.partition()?;
    let leader_epoch = LeaderEpoch(cursor.i32()?);
    let open = cursor.u32()?;
    let window = window(cursor)?;
    zeros::<3>(cursor)?;
    Ok(LinkFrames {
        partition,
        leader_epoch,
        open,
        window,
        high_watermark: cursor.offset()?,
        log_start: cursor.offset()?,
    })
}

fn put_ack(out: &mut Vec<u8>, ack: &LinkAck) {
    put_partition(out, &ack.partition);
    out.extend_from_slice(&ack.leader_epoch.0.to_le_bytes());
    out.extend_from_slice(&ack.open.to_le_bytes());
    out.extend_from_slice(&ack.end.to_le_bytes());
    out.extend_from_slice(&ack.log_start.to_le_bytes());
}

fn ack(cursor: &mut Cursor<'_>) -> Result<LinkAck, LinkError> {
    Ok(LinkAck {
        partition: cursor.partition()?,
        leader_epoch: LeaderEpoch(cursor.i32()?),
        open: cursor.u32()?,
        end: cursor.offset()?,
        log_start: cursor.offset()?,
    })
}

fn window(cursor: &mut Cursor<'_>) -> Result<Window, LinkError> {
    match cursor.u8()? {
        0 => Ok(Window::Tail),
        1 => Ok(Window::CatchUp),
        value => Err(LinkError::Field {
            field: "window",
            value,
        }),
    }
}

/// Room for later fields: an older receiver refuses what it would misread.
fn zeros<const N: usize>(cursor: &mut Cursor<'_>) -> Result<(), LinkError> {
    for _ in 0..N {
        match cursor.u8()? {
            0 => {}
            value => return Err(LinkError::Field { field: "zero", value }),
        }
    }
    Ok(())
}
