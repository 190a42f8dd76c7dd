//! Requests of one connection are answered in the order they came, however many are under way.

mod support;

use kafka_protocol::messages::{
    ApiVersionsRequest, FetchRequest, ListOffsetsRequest, MetadataRequest, ProduceRequest,
};
use kafka_protocol::protocol::StrBytes;
use support::batch::decode_all;
use support::topic::{FETCH_VERSION, PRODUCE_VERSION};
use support::{Batch, Broker, Partition};

#[test]
fn hundreds_of_produces_in_flight() {
    let broker = Broker::start();
    let mut p = Partition::create(&broker, "flight", &[]);
    const COUNT: i64 = 2000;
    let mut sending = p.client.stream.try_clone().unwrap();
    let request = |n: i64| p.produce_request(-1, Batch::of_values([format!("{n}")]).encode());
    let frames: Vec<u8> = (0..COUNT)
        .flat_map(|n| support::client::frame(PRODUCE_VERSION, n as i32, &request(n)))
        .collect();
    let sender = std::thread::spawn(move || std::io::Write::write_all(&mut sending, &frames).unwrap());
    for n in 0..COUNT {
        let (correlation_id, answer) = p.client.receive::<ProduceRequest>(PRODUCE_VERSION).unwrap();
        assert_eq!(i64::from(correlation_id), n);
        let answer = &answer.responses[0].partition_responses[0];
        assert_eq!((answer.error_code, answer.base_offset), (0, n));
    }
    sender.join().unwrap();
    let values: Vec<_> = p
        .read_all(0)
        .into_values()
        .map(|record| record.value.unwrap())
        .collect();
    assert_eq!(
        values,
        (0..COUNT).map(|n| n.to_string().into_bytes()).collect::<Vec<_>>()
    );
}

/// A request after a produce starts once that is answered: what was produced is seen.
#[test]
fn kinds_of_requests_mixed_in_one_write() {
    let broker = Broker::start();
    let mut p = Partition::create(&broker, "mixed", &[]);
    let versions = ApiVersionsRequest::default()
        .with_client_software_name(StrBytes::from_static_str("t"))
        .with_client_software_version(StrBytes::from_static_str("1"));
    for round in 0..20i64 {
        let produce = p.produce_request(-1, Batch::of_values([format!("{round}")]).encode());
        let fetch = p.fetch_request(round);
        let frames = [
            support::client::frame(PRODUCE_VERSION, 1, &produce),
            support::client::frame(3, 2, &versions),
            support::client::frame(FETCH_VERSION, 3, &fetch),
            support::client::frame(1, 4, &MetadataRequest::default().with_topics(None)),
            support::client::frame(5, 5, &ListOffsetsRequest::default()),
        ];
        p.client.send_raw(&frames.concat()).unwrap();
        assert_eq!(p.client.receive::<ProduceRequest>(PRODUCE_VERSION).unwrap().0, 1);
        assert_eq!(p.client.receive::<ApiVersionsRequest>(3).unwrap().0, 2);
        let (id, fetched) = p.client.receive::<FetchRequest>(FETCH_VERSION).unwrap();
        let records = fetched.responses[0].partitions[0].records.clone().unwrap();
        assert_eq!(
            (id, decode_all(&records)[0].values()),
            (3, vec![round.to_string().into_bytes()])
        );
        assert_eq!(p.client.receive::<MetadataRequest>(1).unwrap().0, 4);
        assert_eq!(p.client.receive::<ListOffsetsRequest>(5).unwrap().0, 5);
    }
}

/// B45: a client may use one correlation id for everything.
#[test]
fn correlation_ids_mean_nothing_to_the_broker() {
    let broker = Broker::start();
    let mut p = Partition::create(&broker, "same", &[]);
    let produce = |n: i64| p.produce_request(-1, Batch::of_values([format!("{n}")]).encode());
    let frames: Vec<u8> = (0..100)
        .flat_map(|n| support::client::frame(PRODUCE_VERSION, -7, &produce(n)))
        .collect();
    p.client.send_raw(&frames).unwrap();
    for n in 0..100 {
        let (id, answer) = p.client.receive::<ProduceRequest>(PRODUCE_VERSION).unwrap();
        let answer = &answer.responses[0].partition_responses[0];
        assert_eq!((id, answer.error_code, answer.base_offset), (-7, 0, n));
    }
}

/// A parked fetch holds back what comes after it on its connection, and nothing else.
#[test]
fn a_request_behind_a_parked_fetch_waits_its_turn() {
    let broker = Broker::start();
    let mut reader = Partition::create(&broker, "parked", &[]);
    let mut writer = Partition::find(&broker, "parked", 0);
    reader
        .client
        .send(FETCH_VERSION, &reader.fetch_request(0).with_max_wait_ms(60_000))
        .unwrap();
    reader
        .client
        .send(1, &MetadataRequest::default().with_topics(None))
        .unwrap();
    writer.append(&Batch::of_values(["news"]));
    assert_eq!(reader.client.receive::<FetchRequest>(FETCH_VERSION).unwrap().0, 1);
    assert_eq!(reader.client.receive::<MetadataRequest>(1).unwrap().0, 2);
}
