//! Garbage, half-sent frames and announced gigabytes: that connection closes, memory stays, others go on.

mod support;

use std::io::Write;

use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, ResponseHeader};
use kafka_protocol::protocol::{Decodable, StrBytes};
use support::{Batch, Broker, Partition};

const UNSUPPORTED_VERSION: i16 = 35;
const INVALID_REQUEST: i16 = 42;

fn header(key: i16, version: i16) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(key.to_be_bytes());
    frame.extend(version.to_be_bytes());
    frame.extend(7i32.to_be_bytes());
    frame.extend((-1i16).to_be_bytes());
    frame
}

fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as i32).to_be_bytes(), body].concat()
}

/// B45: KAFKA-14063, KAFKA-5062, KAFKA-2878, sarama #1147: few bytes made the broker allocate gigabytes or die.
#[test]
fn few_bytes_never_make_it_allocate_much() {
    let mut broker = Broker::start();
    let mut p = Partition::create(&broker, "good", &[]);
    p.append(&Batch::of_values(["before"]));
    let before = broker.resident_bytes();
    let huge = i32::MAX.to_be_bytes();
    let unsigned_huge = [0xff, 0xff, 0xff, 0xff, 0x0f];
    let mut hostile: Vec<(&str, Vec<u8>)> = vec![
        ("a negative size", (-1i32).to_be_bytes().to_vec()),
        ("the largest size", huge.to_vec()),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec()),
        ("an empty frame", framed(&[])),
        ("a short header", framed(&[0, 3, 0])),
        ("an unknown API", framed(&header(999, 0))),
        ("an unknown version", framed(&header(3, 99))),
        ("an API that Kafka dropped", framed(&header(4, 0))),
        ("Produce 2", framed(&header(0, 2))),
        (
            "a client id past the end",
            framed(&[0, 3, 0, 1, 0, 0, 0, 1, 0x7f, 0xff]),
        ),
    ];
    for (what, key, version) in [
        ("Metadata", 3, 1),
        ("Produce", 0, 3),
        ("Fetch", 1, 4),
        ("ListOffsets", 2, 1),
    ] {
        hostile.push((what, framed(&[&header(key, version)[..], &huge].concat())));
    }
    // A name of 1,000 bytes in a frame of a few.
    let mut past = header(3, 1);
    past.extend(1i32.to_be_bytes());
    past.extend([0x03, 0xe8, b'x']);
    hostile.push(("a topic name past the end", framed(&past)));
    let mut past = header(0, 3);
    past.extend((-1i16).to_be_bytes());
    past.extend((-1i16).to_be_bytes());
    past.extend(1000i32.to_be_bytes());
    past.extend(1i32.to_be_bytes());
    past.extend([0x7f, 0xff, b'x']);
    hostile.push(("a produce with a name past the end", framed(&past)));
    for (what, key, version) in [
        ("Metadata", 3, 12),
        ("Produce", 0, 9),
        ("Fetch", 1, 12),
        ("CreateTopics", 19, 7),
    ] {
        hostile.push((
            what,
            framed(&[&header(key, version)[..], &[0], &unsigned_huge].concat()),
        ));
        hostile.push((
            what,
            framed(&[&header(key, version)[..], &unsigned_huge].concat()),
        ));
    }
    for (what, bytes) in &hostile {
        for _ in 0..20 {
            let mut client = broker.client();
            client
                .send_raw(bytes)
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            // What is no whole request yet waits; everything else is closed.
            client.stream.shutdown(std::net::Shutdown::Write).unwrap();
            client.expect_close();
        }
    }
    let grown = broker.resident_bytes().saturating_sub(before);
    assert!(grown < 10 << 20, "grew by {grown} bytes");
    assert_eq!(p.append(&Batch::of_values(["after"])), 1);
    assert!(broker.is_running());
}

/// B45.
#[test]
fn half_sent_frames_hold_little_memory() {
    let broker = Broker::start();
    let mut p = Partition::create(&broker, "good", &[]);
    p.append(&Batch::of_values(["before"]));
    let before = broker.resident_bytes();
    let halves: Vec<_> = (0..300)
        .map(|_| {
            let mut client = broker.client();
            client.send_raw(&100_000_000i32.to_be_bytes()).unwrap();
            client.send_raw(&[0; 500]).unwrap();
            client
        })
        .collect();
    for offset in 1..50 {
        assert_eq!(p.append(&Batch::of_values(["meanwhile"])), offset);
    }
    let grown = broker.resident_bytes().saturating_sub(before);
    assert!(
        grown < 20 << 20,
        "grew by {grown} bytes for {} halves",
        halves.len()
    );
}

/// Frames larger than all the memory for requests still get through, one at a time.
#[test]
fn many_large_requests_get_through_bounded_memory() {
    let broker = Broker::start();
    let mut p = Partition::create(&broker, "large", &[("max.message.bytes", "9000000")]);
    let batch = Batch::of_values([vec![b'x'; 8_000_000]]).encode();
    let mut others: Vec<Partition> = (0..6).map(|_| Partition::find(&broker, "large", 0)).collect();
    std::thread::scope(|scope| {
        for other in &mut others {
            let batch = batch.clone();
            scope.spawn(move || {
                for _ in 0..3 {
                    assert_eq!(other.produce_bytes(batch.clone()).error_code, 0);
                }
            });
        }
    });
    assert_eq!(p.end_offset(), 18);
    let resident = broker.resident_bytes();
    assert!(
        resident < (64 << 20) + (64 << 20) + (2 << 20),
        "{resident} bytes resident"
    );
}

/// B45: a frame may arrive in any pieces.
#[test]
fn a_frame_one_byte_at_a_time_is_served() {
    let broker = Broker::start();
    let mut client = broker.client();
    let frame = support::client::frame(1, 3, &MetadataRequest::default().with_topics(None));
    for byte in frame {
        client.stream.write_all(&[byte]).unwrap();
    }
    assert_eq!(client.receive::<MetadataRequest>(1).unwrap().0, 3);
}

#[test]
fn an_unknown_version_of_api_versions_is_answered_in_version_zero() {
    let broker = Broker::start();
    let mut client = broker.client();
    // A version yet to come may have any body.
    client
        .send_raw(&framed(&[&header(18, 77)[..], b"whatever"].concat()))
        .unwrap();
    let mut frame = bytes::Bytes::from(client.receive_frame().unwrap());
    assert_eq!(ResponseHeader::decode(&mut frame, 0).unwrap().correlation_id, 7);
    let answer = ApiVersionsResponse::decode(&mut frame, 0).unwrap();
    assert_eq!(answer.error_code, UNSUPPORTED_VERSION);
    let rows: Vec<_> = answer
        .api_keys
        .iter()
        .map(|row| (row.api_key, row.min_version, row.max_version))
        .collect();
    assert_eq!(rows, [(18, 0, 4)]);
    // The connection lives on.
    let named = |name| {
        ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str(name))
            .with_client_software_version(StrBytes::from_static_str("1.0"))
    };
    let answer = client.call(4, &named("good-client"));
    assert_eq!(answer.error_code, 0);
    assert!(
        answer
            .api_keys
            .iter()
            .any(|row| (row.api_key, row.min_version) == (0, 0))
    );
    assert_eq!(client.call(3, &named("bad client")).error_code, INVALID_REQUEST);
}

/// B45: every prefix and a few thousand mutations of real requests: nothing stops, nothing hangs.
#[test]
fn mutated_requests_stop_nothing() {
    let mut broker = Broker::start();
    let mut p = Partition::create(&broker, "good", &[]);
    let produce = p.produce_request(-1, Batch::of_values(["a", "b"]).encode());
    let frames = [
        support::client::frame(9, 1, &produce),
        support::client::frame(12, 1, &p.fetch_request(0)),
        support::client::frame(12, 1, &MetadataRequest::default().with_topics(None)),
    ];
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut client = broker.client();
    for round in 0..3000 {
        let mut frame = frames[round % frames.len()].clone();
        for _ in 0..=random() % 3 {
            let at = 4 + random() as usize % (frame.len() - 4);
            frame[at] = random() as u8;
        }
        // A mutation may have become acks=0 or a long poll: the next one goes to a new connection.
        if client.send_raw(&frame).is_err() || round % 16 == 0 {
            client = broker.client();
        }
    }
    assert!(broker.is_running());
    // Some mutations are whole requests still, and may be appended while this is asked.
    let end = p.end_offset();
    assert!(p.append(&Batch::of_values(["after"])) >= end);
}
