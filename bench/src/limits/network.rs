//! Loopback TCP: what the kernel takes for a request and its answer, and for a stream.

use super::Figure;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// A produce request of one small record, and its acknowledgement, about.
const REQUEST_BYTES: usize = 1024;
const ANSWER_BYTES: usize = 64;

/// One write of the stream.
const CHUNK_BYTES: usize = 64 * 1024;

/// Round trips between two looks at the clock.
const TRIPS_A_LOOK: usize = 16;

/// A connection whose other end runs `serve` on a thread of its own until the connection closes.
fn connect(serve: impl FnOnce(TcpStream) -> io::Result<()> + Send + 'static) -> io::Result<TcpStream> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        // The end of the stream is how the measurement ends.
        let _ = listener.accept().and_then(|(stream, _)| {
            stream.set_nodelay(true)?;
            serve(stream)
        });
    });
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

pub(super) fn round_trip(each: Duration) -> io::Result<Figure> {
    let mut stream = connect(|mut stream| {
        let mut request = [0; REQUEST_BYTES];
        loop {
            stream.read_exact(&mut request)?;
            stream.write_all(&[0; ANSWER_BYTES])?;
        }
    })?;
    let mut answer = [0; ANSWER_BYTES];
    Figure::measure(
        |slice| {
            let began = Instant::now();
            let mut trips = 0;
            while began.elapsed() < slice {
                for _ in 0..TRIPS_A_LOOK {
                    stream.write_all(&[0; REQUEST_BYTES])?;
                    stream.read_exact(&mut answer)?;
                }
                trips += TRIPS_A_LOOK;
            }
            Ok(began.elapsed().as_nanos() as f64 / trips as f64)
        },
        each,
    )
}

pub(super) fn stream(each: Duration) -> io::Result<Figure> {
    let mut stream = connect(|mut stream| {
        let mut sink = vec![0; 4 * CHUNK_BYTES];
        while stream.read(&mut sink)? > 0 {}
        Ok(())
    })?;
    let chunk = vec![0; CHUNK_BYTES];
    Figure::measure(
        |slice| {
            let began = Instant::now();
            let mut bytes = 0;
            while began.elapsed() < slice {
                stream.write_all(&chunk)?;
                bytes += CHUNK_BYTES;
            }
            Ok(bytes as f64 / began.elapsed().as_secs_f64())
        },
        each,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_limits() {
        assert!(round_trip(Duration::from_millis(6)).unwrap().median > 0.0);
        assert!(stream(Duration::from_millis(6)).unwrap().median > 0.0);
    }
}
