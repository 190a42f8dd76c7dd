//! A shard on the real kernel: loopback TCP, ports refused when taken, mailboxes from other threads, panics.

#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use strandline_runtime::glommio_runtime::{ExecutorError, GlommioRuntime, ShardExecutorOptions, spawn_shard};
use strandline_runtime::local::{Event, oneshot};
use strandline_runtime::mailbox::{SendError, mailbox};
use strandline_runtime::{Queue, ReadHalf, Runtime, TcpListener, TcpStream, WriteHalf};

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn on_shard<T, F>(main: impl FnOnce(GlommioRuntime) -> F + Send + 'static) -> T
where
    F: Future<Output = T> + 'static,
    T: Send + 'static,
{
    spawn_shard(ShardExecutorOptions::default(), main)
        .unwrap()
        .join()
        .unwrap()
}

/// Reads until `count` bytes came or the stream ended.
async fn read_exactly(reader: &mut impl ReadHalf, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    let mut filled = 0;
    while filled < count {
        let read = reader.read(&mut bytes[filled..]).await.unwrap();
        if read == 0 {
            break;
        }
        filled += read;
    }
    bytes.truncate(filled);
    bytes
}

#[test]
fn large_vectored_writes_arrive_whole_and_in_order() {
    on_shard(|runtime| async move {
        let listener = runtime.listen(loopback()).await.unwrap();
        let address = listener.local_address();
        // Larger than any socket buffer, in more pieces than one call takes, some of them empty.
        let pieces: Vec<Vec<u8>> = (0..200_usize).map(|i| vec![i as u8; (i % 7) * 17_123]).collect();
        let expected = pieces.concat();

        let server = runtime.clone();
        runtime.spawn(Queue::Latency, async move {
            let (stream, _) = listener.accept().await.unwrap();
            let (_reader, mut writer) = stream.split();
            let slices: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            server.yield_now().await;
            writer.write_all_vectored(&slices).await.unwrap();
            writer.shutdown();
        });

        let (mut reader, _writer) = runtime.connect(address).await.unwrap().split();
        let received = read_exactly(&mut reader, expected.len() + 1).await;
        assert!(
            received == expected,
            "{} of {} bytes",
            received.len(),
            expected.len()
        );
    });
}

#[test]
fn shutdown_of_the_writer_ends_a_waiting_read_of_the_other_task() {
    on_shard(|runtime| async move {
        let listener = runtime.listen(loopback()).await.unwrap();
        let client = runtime.connect(listener.local_address()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        assert!(peer.ip().is_loopback());
        let (mut reader, mut writer) = stream.split();
        let (done, ended) = oneshot();
        runtime.spawn(Queue::Latency, async move {
            let _ = done.send(reader.read(&mut [0; 16]).await.unwrap());
        });
        runtime.yield_now().await;
        writer.shutdown();
        assert_eq!(ended.await, Ok(0));
        let (mut client_reader, _client_writer) = client.split();
        assert_eq!(client_reader.read(&mut [0; 16]).await.unwrap(), 0);
    });
}

#[test]
fn a_port_somebody_listens_on_is_refused_and_free_after_the_drop() {
    on_shard(|runtime| async move {
        let first = runtime.listen(loopback()).await.unwrap();
        let address = first.local_address();
        let refused = runtime.listen(address).await.err().map(|error| error.kind());
        assert_eq!(refused, Some(io::ErrorKind::AddrInUse));

        // Connections left behind in TIME_WAIT do not hold the port.
        let client = runtime.connect(address).await.unwrap();
        drop(first.accept().await.unwrap());
        drop(client);
        drop(first);
        runtime.listen(address).await.unwrap();
    });
}

#[test]
fn a_dropped_accept_loses_no_connection() {
    on_shard(|runtime| async move {
        let listener = runtime.listen(loopback()).await.unwrap();
        for _ in 0..50 {
            // It is in the kernel when it is dropped, as one that lost against a timer.
            let timer = runtime.sleep(Duration::from_micros(100));
            let accepting = Box::pin(listener.accept());
            assert!(matches!(
                select(accepting, Box::pin(timer)).await,
                Either::Right(_)
            ));
            let client = runtime.connect(listener.local_address()).await.unwrap();
            let (server, _) = listener.accept().await.unwrap();
            let (mut reader, _writer) = server.split();
            client.split().1.write_all(b"here").await.unwrap();
            assert_eq!(read_exactly(&mut reader, 4).await, b"here");
        }
    });
}

#[test]
fn connecting_to_a_closed_port_is_an_error() {
    on_shard(|runtime| async move {
        let address = runtime.listen(loopback()).await.unwrap().local_address();
        let refused = runtime.connect(address).await.err().map(|error| error.kind());
        assert_eq!(refused, Some(io::ErrorKind::ConnectionRefused));
    });
}

#[test]
fn a_mailbox_carries_every_message_of_many_threads_into_a_sleeping_shard() {
    const SENDERS: u64 = 4;
    const MESSAGES: u64 = 2_000;
    let (sender, mut receiver) = mailbox::<u64>(64);
    let threads: Vec<_> = (0..SENDERS)
        .map(|thread| {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for message in 0..MESSAGES {
                    let mut next = thread * MESSAGES + message;
                    while let Err(SendError::Full(back)) = sender.send(next) {
                        next = back;
                        std::thread::yield_now();
                    }
                }
            })
        })
        .collect();
    drop(sender);
    let received = on_shard(move |_| async move {
        let mut received = Vec::new();
        while let Some(message) = receiver.receive().await {
            received.push(message);
        }
        received
    });
    for thread in threads {
        thread.join().unwrap();
    }
    for thread in 0..SENDERS {
        let range = thread * MESSAGES..(thread + 1) * MESSAGES;
        let of_thread: Vec<u64> = received
            .iter()
            .copied()
            .filter(|message| range.contains(message))
            .collect();
        assert!(of_thread.into_iter().eq(range), "lost or out of order");
    }
    assert_eq!(received.len() as u64, SENDERS * MESSAGES);
}

#[test]
fn all_queues_run_and_timers_fire() {
    on_shard(|runtime| async move {
        let ran = Rc::new(Cell::new(0));
        let event = Event::new();
        for queue in [Queue::Latency, Queue::WriteBack, Queue::Background] {
            let (ran, event, clock) = (ran.clone(), event.clone(), runtime.clone());
            runtime.spawn(queue, async move {
                let before = clock.now();
                clock.sleep(Duration::from_millis(2)).await;
                clock.yield_if_needed().await;
                assert!(clock.now().since(before) >= Duration::from_millis(2));
                ran.set(ran.get() + 1);
                event.notify_all();
            });
        }
        loop {
            let next = event.wait();
            if ran.get() == 3 {
                break;
            }
            next.await;
        }
        assert!(runtime.wall_clock_ms() > 1_600_000_000_000);
    });
}

#[test]
fn a_panic_of_a_spawned_task_ends_the_shard_and_is_told() {
    let shard = spawn_shard(
        ShardExecutorOptions::default(),
        |runtime: GlommioRuntime| async move {
            runtime.spawn(Queue::Background, async { panic!("an invariant broke") });
            std::future::pending::<()>().await;
        },
    )
    .unwrap();
    match shard.join() {
        Err(ExecutorError::Panicked(text)) => assert_eq!(text, "an invariant broke"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_shard_ends_while_tasks_listen_and_read() {
    let address = on_shard(|runtime| async move {
        let listener = runtime.listen(loopback()).await.unwrap();
        let address = listener.local_address();
        let client = runtime.connect(address).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        runtime.spawn(Queue::Latency, async move {
            let _client = client;
            let (mut reader, _writer) = stream.split();
            let _ = reader.read(&mut [0; 8]).await;
        });
        runtime.spawn(
            Queue::Latency,
            async move { while listener.accept().await.is_ok() {} },
        );
        runtime.yield_now().await;
        address
    });
    // The listener went with its shard.
    on_shard(move |runtime| async move { runtime.listen(address).await.map(|_| ()).unwrap() });
}

#[test]
fn a_processor_that_is_not_there_is_a_typed_error() {
    let options = ShardExecutorOptions {
        cpu: Some(100_000),
        ..ShardExecutorOptions::default()
    };
    match spawn_shard(options, |_| async {}) {
        Err(ExecutorError::Cpu { cpu: 100_000, .. }) => {}
        other => panic!("{:?}", other.map(|_| ())),
    }
}

#[test]
fn a_shard_runs_pinned() {
    // The first processor this process may use, as the kernel lists them ("0-3,8").
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap()
        .trim();
    let first = list.split([',', '-']).next().unwrap().parse().unwrap();
    let options = ShardExecutorOptions {
        cpu: Some(first),
        spin: Duration::from_micros(5),
        ..ShardExecutorOptions::default()
    };
    let answer = spawn_shard(options, |runtime| async move {
        runtime.sleep(Duration::from_millis(1)).await;
        42
    });
    assert_eq!(answer.unwrap().join().unwrap(), 42);
}
