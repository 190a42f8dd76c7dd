//! One client of the reference broker: whole frames in, answers out, in order.

use super::Shared;
use super::answers::{self, Reply};
use super::journal::{Answer, bound_answers};
use bytes::{Bytes, BytesMut};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

/// Room for one read.
const READ_BYTES: usize = 256 * 1024;

/// As `socket.request.max.bytes` of Kafka.
const REQUEST_BYTES_MAX: usize = 104_857_600;

/// Serves the connection until the client leaves or sends what is no request.
pub(super) fn serve(stream: &Arc<TcpStream>, shared: &Shared) {
    if let Err(error) = requests(stream, shared)
        && !matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
        )
    {
        eprintln!("null-broker: a connection ended: {error}");
    }
    // The registry holds the socket too: close it for the client now.
    let _ = stream.shutdown(Shutdown::Both);
}

fn requests(stream: &Arc<TcpStream>, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    bound_answers(stream)?;
    let mut buffer = vec![0; READ_BYTES];
    let (mut parsed, mut filled) = (0, 0);
    let mut out = BytesMut::new();
    loop {
        match next_frame(&buffer[parsed..filled])? {
            Some(size) => {
                let frame = &buffer[parsed + 4..parsed + 4 + size];
                handle(stream, shared, frame, &mut out)?;
                parsed += 4 + size;
                continue;
            }
            // Everything that was read is handled: answer it with one write.
            None if !out.is_empty() => {
                (&**stream).write_all(&out)?;
                out.clear();
            }
            None => {}
        }
        buffer.copy_within(parsed..filled, 0);
        filled -= parsed;
        parsed = 0;
        if filled == buffer.len() {
            let grown = (buffer.len() * 2).min(REQUEST_BYTES_MAX + 4);
            buffer.resize(grown, 0);
        }
        let read = (&**stream).read(&mut buffer[filled..])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += read;
    }
}

/// The size of the whole frame at the start of `bytes`, if it is whole.
fn next_frame(bytes: &[u8]) -> io::Result<Option<usize>> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let size = usize::try_from(i32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
    if size > REQUEST_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a frame of impossible size",
        ));
    }
    Ok((rest.len() >= size).then_some(size))
}

fn handle(stream: &Arc<TcpStream>, shared: &Shared, frame: &[u8], out: &mut BytesMut) -> io::Result<()> {
    let reply = answers::answer(shared, frame, out)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let Some(journal) = &shared.journal else {
        return Ok(());
    };
    // With a journal every answer goes through it, so that none overtakes an acknowledgement before it.
    let answer = (!out.is_empty()).then(|| Answer {
        stream: Arc::clone(stream),
        frame: out.to_vec(),
    });
    out.clear();
    match reply {
        Reply::Produced(batches) => journal.append(batches, answer),
        Reply::Other => journal.append([], answer),
    }
    Ok(())
}

/// Copies a frame for the codec of the cold messages, which wants to own it.
pub(super) fn owned(body: &[u8]) -> Bytes {
    Bytes::copy_from_slice(body)
}
