//! The simulated runtime: one seed is one history, time jumps, streams keep their order, hosts die and return.

#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use strandline_runtime::local::{Event, oneshot};
use strandline_runtime::mailbox::mailbox;
use strandline_runtime::sim::{SimRuntime, Simulation};
use strandline_runtime::{Queue, ReadHalf, Runtime, TcpListener, TcpStream, WriteHalf};

const PORT: u16 = 9092;

fn any(port: u16) -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], port))
}

/// Answers every connection with what it sent.
async fn echo(runtime: SimRuntime) {
    let listener = runtime.listen(any(PORT)).await.unwrap();
    while let Ok((stream, _)) = listener.accept().await {
        let (mut reader, mut writer) = stream.split();
        runtime.spawn(Queue::Latency, async move {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer).await {
                if writer.write_all(&buffer[..count]).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// Sends `bytes` and reads them back, in two tasks of the client's host.
async fn round_trip(runtime: SimRuntime, address: SocketAddr, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    let (mut reader, mut writer) = runtime.connect(address).await?.split();
    let expected = bytes.len();
    runtime.spawn(Queue::Latency, async move {
        // A failure shows at the reader.
        let _ = writer
            .write_all_vectored(&[&bytes[..expected / 3], &[], &bytes[expected / 3..]])
            .await;
        std::future::pending::<()>().await;
    });
    let mut received = Vec::new();
    let mut buffer = [0; 1000];
    while received.len() < expected {
        match reader.read(&mut buffer).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => received.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(received)
}

/// A busy world: three clients, one server, a kill in the middle. What happened, and its hash.
fn history(seed: u64) -> (Vec<String>, u64) {
    let simulation = Rc::new(Simulation::new(seed));
    let address = SocketAddr::new(simulation.address_of("server"), PORT);
    let server = simulation.runtime("server");
    server.spawn(Queue::Latency, echo(server.clone()));
    let log = Rc::new(RefCell::new(Vec::new()));
    let done = Event::new();
    let running = Rc::new(Cell::new(0));
    for number in 0..3_u8 {
        let runtime = simulation.runtime(&format!("client-{number}"));
        let (log, done, running) = (log.clone(), done.clone(), running.clone());
        running.set(running.get() + 1);
        runtime.clone().spawn(Queue::Latency, async move {
            for attempt in 0..4 {
                let bytes = (0..20_000)
                    .map(|_| runtime.random_u64() as u8)
                    .collect::<Vec<_>>();
                let answer = round_trip(runtime.clone(), address, bytes.clone()).await;
                let outcome = answer
                    .map(|received| assert_eq!(received, bytes))
                    .map_err(|error| error.kind());
                log.borrow_mut()
                    .push(format!("{number} {attempt} {outcome:?} {}", runtime.now().0));
                runtime
                    .sleep(Duration::from_micros(runtime.random_u64() % 500))
                    .await;
            }
            running.set(running.get() - 1);
            done.notify_all();
        });
    }
    let driver = simulation.runtime("driver");
    let world = simulation.clone();
    simulation.run_until(async move {
        driver.sleep(Duration::from_millis(4)).await;
        world.kill_host("server");
        driver.sleep(Duration::from_millis(2)).await;
        let server = world.runtime("server");
        server.spawn(Queue::Latency, echo(server.clone()));
        loop {
            let next = done.wait();
            if running.get() == 0 {
                break;
            }
            next.await;
        }
    });
    let hash = simulation.trace_hash();
    (log.take(), hash)
}

#[test]
fn one_seed_is_one_history() {
    let mut failures = 0;
    let mut successes = 0;
    for seed in 0..20 {
        let first = history(seed);
        assert_eq!(first, history(seed), "seed {seed}");
        assert_ne!(first.1, history(seed + 1000).1);
        failures += first.0.iter().filter(|line| line.contains("Err(")).count();
        successes += first.0.iter().filter(|line| line.contains("Ok(")).count();
    }
    assert!(
        failures > 0 && successes > 0,
        "{failures} failed, {successes} did not"
    );
}

#[test]
fn time_jumps_and_every_timer_has_an_instant_of_its_own() {
    let simulation = Simulation::new(7);
    let runtime = simulation.runtime("host");
    let instants = Rc::new(RefCell::new(Vec::new()));
    for _ in 0..10 {
        let (clock, instants) = (runtime.clone(), instants.clone());
        runtime.spawn(Queue::Background, async move {
            clock.sleep(Duration::from_secs(3600)).await;
            instants.borrow_mut().push(clock.now().0);
        });
    }
    let clock = runtime.clone();
    simulation.run_until(async move { clock.sleep(Duration::from_secs(7200)).await });
    let mut instants = instants.take();
    let before = instants.len();
    instants.dedup();
    assert_eq!((before, instants.len()), (10, 10));
    assert!(instants.is_sorted());
    assert_eq!(runtime.wall_clock_ms() - 1_735_689_600_000, 7_200_000);
    simulation.set_clock_offset_ms("host", -500);
    assert_eq!(runtime.wall_clock_ms() - 1_735_689_600_000, 7_199_500);
}

#[test]
fn seeds_differ_in_the_order_of_ready_tasks() {
    let order = |seed| {
        let simulation = Simulation::new(seed);
        let runtime = simulation.runtime("host");
        let order = Rc::new(RefCell::new(Vec::new()));
        for number in 0..6 {
            let (order, runtime) = (order.clone(), runtime.clone());
            runtime.clone().spawn(Queue::Latency, async move {
                runtime.yield_now().await;
                order.borrow_mut().push(number);
            });
        }
        let clock = runtime.clone();
        simulation.run_until(async move { clock.sleep(Duration::from_nanos(1)).await });
        order.take()
    };
    let orders: std::collections::BTreeSet<Vec<i32>> = (0..30).map(order).collect();
    assert!(orders.len() > 20, "{} orders", orders.len());
}

#[test]
fn a_killed_host_drops_its_tasks_resets_its_peers_and_frees_its_ports() {
    let simulation = Rc::new(Simulation::new(1));
    let address = SocketAddr::new(simulation.address_of("server"), PORT);
    let server = simulation.runtime("server");
    let kept = Rc::new(());
    let (in_task, runtime) = (kept.clone(), server.clone());
    server.spawn(Queue::Latency, async move {
        let _held = in_task;
        let listener = runtime.listen(any(PORT)).await.unwrap();
        let _connection = listener.accept().await.unwrap();
        std::future::pending::<()>().await;
    });
    let client = simulation.runtime("client");
    let world = simulation.clone();
    let killed = server.clone();
    simulation.run_until(async move {
        let (mut reader, mut writer) = client.connect(address).await.unwrap().split();
        client.sleep(Duration::from_millis(5)).await;
        world.kill_host("server");
        let error = reader.read(&mut [0; 8]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert!(writer.write_all(b"x").await.is_err());
        let refused = client.connect(address).await.err().map(|error| error.kind());
        assert_eq!(refused, Some(io::ErrorKind::ConnectionRefused));
        assert!(killed.listen(any(PORT)).await.is_err());
        assert!(world.runtime("server").listen(any(PORT)).await.is_ok());
    });
    assert!(server.is_killed());
    assert_eq!(Rc::strong_count(&kept), 1);
}

#[test]
fn a_writer_waits_for_a_slow_reader_and_shutdown_ends_both_directions() {
    let simulation = Simulation::new(5);
    let runtime = simulation.runtime("host");
    simulation.run_until(async move {
        let listener = runtime
            .listen(SocketAddr::from(([127, 0, 0, 1], 0)))
            .await
            .unwrap();
        let (mut reader, client_writer) = runtime.connect(listener.local_address()).await.unwrap().split();
        let (stream, _) = listener.accept().await.unwrap();
        let (mut server_reader, mut writer) = stream.split();
        let written = Rc::new(Cell::new(false));
        let flag = written.clone();
        let (ended, end) = oneshot();
        runtime.spawn(Queue::Latency, async move {
            writer.write_all(&vec![7; 1 << 20]).await.unwrap();
            flag.set(true);
            writer.shutdown();
            let _ = ended.send(server_reader.read(&mut [0; 1]).await.unwrap());
        });
        runtime.sleep(Duration::from_secs(10)).await;
        assert!(!written.get(), "a megabyte fits no window");
        let mut total = 0;
        let mut buffer = vec![0; 10_000];
        loop {
            match reader.read(&mut buffer).await.unwrap() {
                0 => break,
                count => total += count,
            }
        }
        assert_eq!(total, 1 << 20);
        assert_eq!(end.await, Ok(0));
        drop(client_writer);
    });
}

#[test]
fn ports_and_addresses_are_checked() {
    let simulation = Simulation::new(2);
    let (one, two) = (simulation.runtime("one"), simulation.runtime("two"));
    let ip_of_one = simulation.address_of("one");
    simulation.run_until(async move {
        let listener = one.listen(any(PORT)).await.unwrap();
        assert_eq!(
            one.listen(any(PORT)).await.err().unwrap().kind(),
            io::ErrorKind::AddrInUse
        );
        two.listen(any(PORT)).await.unwrap();
        let foreign = two.listen(SocketAddr::new(ip_of_one, 1)).await.err().unwrap();
        assert_eq!(foreign.kind(), io::ErrorKind::AddrNotAvailable);
        drop(listener);
        one.listen(any(PORT)).await.unwrap();

        // What listens on loopback is not reached from another host.
        let local = one.listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        one.connect(local.local_address()).await.unwrap();
        let from_afar = SocketAddr::new(ip_of_one, local.local_address().port());
        assert!(two.connect(from_afar).await.is_err());
    });
}

#[test]
fn mailboxes_and_cancelled_sleeps_work_on_virtual_time() {
    let simulation = Simulation::new(3);
    let (shard, control) = (simulation.runtime("shard"), simulation.runtime("control"));
    let (sender, mut receiver) = mailbox(4);
    let clock = control.clone();
    control.spawn(Queue::Latency, async move {
        for message in 0..10 {
            clock.sleep(Duration::from_millis(1)).await;
            sender.send(message).unwrap();
        }
    });
    simulation.run_until(async move {
        let mut sum = 0;
        while let Some(message) = receiver.receive().await {
            // A deadline that is not reached leaves no trace of itself.
            drop(shard.sleep(Duration::from_secs(60)));
            sum += message;
        }
        assert_eq!(sum, 45);
    });
    assert!(simulation.now().0 < 1_000_000_000);
}

#[test]
#[should_panic(expected = "the simulation of seed 9 at 0 ns stands still")]
fn a_simulation_in_which_nothing_can_happen_says_so() {
    Simulation::new(9).run_until(std::future::pending::<()>());
}
