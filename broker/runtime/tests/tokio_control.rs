//! The control thread's runtime on the real kernel, and its talk with a shard.

#![allow(clippy::unwrap_used)]

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use strandline_runtime::glommio_runtime::{ShardExecutorOptions, spawn_shard};
use strandline_runtime::local::oneshot;
use strandline_runtime::mailbox::mailbox;
use strandline_runtime::tokio_runtime::run_control;
use strandline_runtime::{Queue, ReadHalf, Runtime, TcpListener, TcpStream, WriteHalf};

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

#[test]
fn streams_carry_large_vectored_writes_and_end_on_shutdown() {
    run_control(|runtime| async move {
        let listener = runtime.listen(loopback()).await.unwrap();
        let address = listener.local_address();
        let taken = runtime.listen(address).await.err().map(|error| error.kind());
        assert_eq!(taken, Some(io::ErrorKind::AddrInUse));
        let pieces: Vec<Vec<u8>> = (0..100_usize).map(|i| vec![i as u8; (i % 5) * 20_011]).collect();
        let expected = pieces.concat();
        let (mut reader, client_writer) = runtime.connect(address).await.unwrap().split();
        let (stream, _) = listener.accept().await.unwrap();
        let (mut server_reader, mut writer) = stream.split();
        let (done, ended) = oneshot();
        runtime.spawn(Queue::Latency, async move {
            let slices: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            writer.write_all_vectored(&slices).await.unwrap();
            writer.shutdown();
            let _ = done.send(server_reader.read(&mut [0; 8]).await.unwrap());
        });
        let mut received = Vec::new();
        let mut buffer = vec![0; 50_000];
        loop {
            match reader.read(&mut buffer).await.unwrap() {
                0 => break,
                count => received.extend_from_slice(&buffer[..count]),
            }
        }
        assert!(received == expected);
        assert_eq!(ended.await, Ok(0));
        drop(client_writer);
    })
    .unwrap();
}

#[test]
fn timers_tasks_and_yields_work_on_one_thread() {
    let answer = run_control(|runtime| async move {
        let (sender, receiver) = oneshot();
        let clock = runtime.clone();
        runtime.spawn(Queue::Background, async move {
            let before = clock.now();
            clock.yield_now().await;
            clock.yield_if_needed().await;
            clock.sleep(Duration::from_millis(1)).await;
            let _ = sender.send(clock.now().since(before) >= Duration::from_millis(1));
        });
        receiver.await
    });
    assert_eq!(answer.unwrap(), Ok(true));
}

#[test]
fn control_and_shard_answer_each_other_through_mailboxes() {
    let (to_shard, mut at_shard) = mailbox::<u32>(8);
    let (to_control, mut at_control) = mailbox::<u32>(8);
    let shard = spawn_shard(ShardExecutorOptions::default(), move |_| async move {
        while let Some(question) = at_shard.receive().await {
            to_control.send(question * 2).unwrap();
        }
    })
    .unwrap();
    run_control(|_| async move {
        for question in 0..500 {
            to_shard.send(question).unwrap();
            assert_eq!(at_control.receive().await, Some(question * 2));
        }
        drop(to_shard);
        assert_eq!(at_control.receive().await, None);
    })
    .unwrap();
    shard.join().unwrap();
}

#[test]
#[should_panic(expected = "an invariant broke")]
fn a_panic_of_a_spawned_task_comes_out() {
    let ended = run_control(|runtime| async move {
        runtime.spawn(Queue::Latency, async { panic!("an invariant broke") });
        std::future::pending::<()>().await;
    });
    ended.unwrap();
}
