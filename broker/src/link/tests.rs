//! Two shards and a simulated network between them.

use std::cell::RefCell;
use std::future::pending;
use std::rc::Rc;

use bytes::Bytes;
use strandline_core::link::{
    CreditReceiver, CreditSender, HELLO_BYTES, Hello, HelloError, LinkError, LinkFrames, LinkIdentity,
    LinkMessage, Versions, Window, encode,
};
use strandline_core::metadata::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionReference};
use strandline_runtime::mailbox::{Sender, mailbox};
use strandline_runtime::sim::{SimRuntime, Simulation};
use strandline_runtime::{Queue, ReadHalf, Runtime, SocketAddr, TcpListener, TcpStream, WriteHalf};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::converse::{Taker, converse};
use super::transport::{Link, LinkFailure, LinkOptions, accept, open};
use crate::replica::Delivery;
use crate::shard::Signal;

const PORT: u16 = 10_092;
const BODY_MAX: u32 = 1 << 20;
const LEADER: BrokerId = BrokerId(1_000);
const FOLLOWER: BrokerId = BrokerId(2_000);

type Accepted = Result<Link<SimRuntime>, LinkFailure>;

fn options(broker: BrokerId) -> LinkOptions {
    LinkOptions {
        own: LinkIdentity {
            cluster_id: Uuid::from_u128(1),
            directory_id: Uuid::from_u128(broker.0 as u128),
            broker,
            broker_epoch: epoch(broker),
        },
        body_bytes_max: BODY_MAX,
    }
}

fn epoch(broker: BrokerId) -> BrokerEpoch {
    BrokerEpoch(i64::from(broker.0) + 7)
}

fn head(window: Window) -> LinkMessage {
    LinkMessage::Frames(LinkFrames {
        partition: PartitionReference {
            topic: Uuid::from_u128(3),
            partition: 4,
        },
        leader_epoch: LeaderEpoch(5),
        open: 6,
        window,
        high_watermark: 7,
        log_start: 0,
    })
}

fn body(bytes: usize) -> Bytes {
    (0..bytes).map(|at| (at * 31 + bytes) as u8).collect()
}

/// A world with a leader that accepts one link, and a follower that is given its address.
fn world<T: 'static>(
    seed: u64,
    serve: impl AsyncFnOnce(SimRuntime, Accepted) + 'static,
    follow: impl AsyncFnOnce(SimRuntime, SocketAddr) -> T + 'static,
) -> T {
    let simulation = Rc::new(Simulation::new(seed));
    let (serving, following) = (simulation.runtime("leader"), simulation.runtime("follower"));
    let address = SocketAddr::new(simulation.address_of("leader"), PORT);
    simulation.run_until(async move {
        let everywhere = SocketAddr::from(([0, 0, 0, 0], PORT));
        let listener = serving.listen(everywhere).await.unwrap();
        let runtime = serving.clone();
        serving.spawn(Queue::Latency, async move {
            let (stream, _) = listener.accept().await.unwrap();
            let accepted = accept(&runtime, stream, options(LEADER)).await;
            serve(runtime, accepted).await;
        });
        follow(following, address).await
    })
}

/// Counts credit on one side, and keeps what comes.
#[derive(Default)]
struct Side {
    takes: RefCell<Vec<(LinkMessage, Bytes)>>,
    granted: RefCell<CreditSender>,
    more: Signal,
    window: RefCell<Option<CreditReceiver>>,
    says: RefCell<Option<Sender<Delivery>>>,
    done: RefCell<Option<(usize, oneshot::Sender<()>)>>,
}

impl Side {
    fn say(&self, broker: BrokerId, message: LinkMessage, body: Bytes) {
        let delivery = Delivery {
            from: broker,
            epoch: epoch(broker),
            to: BrokerEpoch(0),
            message,
            body,
        };
        let says = self.says.borrow();
        says.as_ref().unwrap().send(delivery).unwrap();
    }
}

impl Taker for Rc<Side> {
    async fn gate(&self) {}

    fn admits(&self, message: &LinkMessage, body_bytes: u64) -> Result<(), LinkFailure> {
        match (message, &mut *self.window.borrow_mut()) {
            (LinkMessage::Frames(_), Some(window)) => Ok(window.received(body_bytes)?),
            _ => Ok(()),
        }
    }

    fn take(&self, message: LinkMessage, body: Bytes) -> Result<(), LinkFailure> {
        if let LinkMessage::Credit { bytes, .. } = message {
            self.granted.borrow_mut().granted(bytes)?;
            self.more.set();
        }
        let bytes = body.len() as u64;
        self.takes.borrow_mut().push((message, body));
        if bytes > 0 {
            let grant = self.window.borrow_mut().as_mut().unwrap().released(bytes);
            if let Some(bytes) = grant {
                let window = Window::Tail;
                self.say(FOLLOWER, LinkMessage::Credit { window, bytes }, Bytes::new());
            }
        }
        let mut done = self.done.borrow_mut();
        if done
            .as_ref()
            .is_some_and(|(count, _)| *count == self.takes.borrow().len())
        {
            done.take().unwrap().1.send(()).unwrap();
        }
        Ok(())
    }
}

#[test]
fn messages_and_frames_come_in_order_within_the_credit() {
    const SIZES: [usize; 7] = [64, 4_096, 1, 9_000, 300, 70_000, 8_192];
    const WINDOW: u64 = 10_000;
    for seed in 0..8 {
        let serve = async |runtime: SimRuntime, accepted: Accepted| {
            let link = accepted.unwrap();
            assert_eq!(link.peer, options(FOLLOWER).own);
            let (says, outgoing) = mailbox(16);
            let side = Rc::new(Side::default());
            *side.says.borrow_mut() = Some(says);
            let sending = side.clone();
            runtime.spawn(Queue::Latency, async move {
                for size in SIZES {
                    while !sending.granted.borrow().admits(size as u64) {
                        sending.more.wait().await;
                    }
                    sending.granted.borrow_mut().sent(size as u64);
                    sending.say(LEADER, head(Window::Tail), body(size));
                }
            });
            let ended = converse(&runtime, link, outgoing, &side).await;
            assert!(matches!(ended, LinkFailure::Closed), "{ended}");
        };
        world(seed, serve, async |runtime, address| {
            let link = open(&runtime, address, LEADER, options(FOLLOWER)).await.unwrap();
            let (says, outgoing) = mailbox(16);
            let (tell, told) = oneshot::channel();
            let side = Rc::new(Side::default());
            let mut window = CreditReceiver::new(WINDOW);
            let bytes = window.open();
            *side.window.borrow_mut() = Some(window);
            *side.says.borrow_mut() = Some(says);
            *side.done.borrow_mut() = Some((SIZES.len(), tell));
            side.say(
                FOLLOWER,
                LinkMessage::Credit {
                    window: Window::Tail,
                    bytes,
                },
                Bytes::new(),
            );
            let (runs, takes) = (runtime.clone(), side.clone());
            runtime.spawn(Queue::Latency, async move {
                converse(&runs, link, outgoing, &takes).await;
            });
            told.await.unwrap();
            let expected: Vec<_> = SIZES
                .iter()
                .map(|size| (head(Window::Tail), body(*size)))
                .collect();
            assert_eq!(*side.takes.borrow(), expected);
        });
    }
}

#[test]
fn whoever_is_not_meant_is_refused_on_both_sides() {
    let mut other_cluster = options(FOLLOWER);
    other_cluster.own.cluster_id = Uuid::from_u128(2);
    let cases = [
        (other_cluster, LEADER, "correct the address or the data directory"),
        (
            options(FOLLOWER),
            BrokerId(1_001),
            "correct the advertised link addresses",
        ),
    ];
    for (follower, to, remedy) in cases {
        let (tell, told) = oneshot::channel();
        let serve = async move |_: SimRuntime, accepted: Accepted| {
            tell.send(accepted.err().unwrap()).unwrap();
        };
        world(3, serve, async move |runtime, address| {
            let error = open(&runtime, address, to, follower).await.err().unwrap();
            assert!(
                error.is_refusal() && error.to_string().contains(remedy),
                "{error}"
            );
            let error = told.await.unwrap();
            assert!(
                error.is_refusal() && error.to_string().contains(remedy),
                "{error}"
            );
        });
    }
}

#[test]
fn versions_that_have_nothing_in_common_are_told_to_both() {
    let (tell, told) = oneshot::channel();
    let serve = async move |_: SimRuntime, accepted: Accepted| {
        tell.send(accepted.err().unwrap()).unwrap();
    };
    world(4, serve, async move |runtime, address| {
        let newer = Hello {
            from: options(FOLLOWER).own,
            to: LEADER,
            versions: Versions { min: 9, max: 11 },
        };
        let (mut reader, mut writer) = runtime.connect(address).await.unwrap().split();
        writer.write_all(&newer.encode()).await.unwrap();
        let error = told.await.unwrap();
        assert!(error.to_string().contains("upgrade the older node"), "{error}");
        // The answer tells the newer side what the older one speaks.
        let mut answer = [0; HELLO_BYTES];
        let mut read = 0;
        while read < HELLO_BYTES {
            read += reader.read(&mut answer[read..]).await.unwrap();
        }
        let answer = Hello::decode(&answer).unwrap();
        let refused = answer.accept(&newer.from, newer.versions, Some(LEADER));
        assert!(matches!(refused, Err(HelloError::Versions { .. })), "{refused:?}");
    });
}

#[test]
fn garbage_closes_the_link_and_silence_does_too() {
    for garbage in [vec![0x55; 4_096], b"GET / HTTP/1.1\r\n\r\n".repeat(8), Vec::new()] {
        let (tell, told) = oneshot::channel();
        let serve = async move |_: SimRuntime, accepted: Accepted| {
            tell.send(accepted.err().unwrap()).unwrap();
        };
        world(5, serve, async move |runtime, address| {
            let (_reader, mut writer) = runtime.connect(address).await.unwrap().split();
            writer.write_all(&garbage).await.unwrap();
            let error = told.await.unwrap();
            match garbage.is_empty() {
                true => assert!(matches!(error, LinkFailure::Silent(_)), "{error}"),
                false => assert!(matches!(error, LinkFailure::Hello(HelloError::Magic)), "{error}"),
            }
        });
    }
}

/// What a follower that grants a window makes of bytes that its leader sends.
fn refused(seed: u64, bytes: Vec<u8>, window: u64) -> LinkFailure {
    let serve = async move |_: SimRuntime, accepted: Accepted| {
        let mut link = accepted.unwrap();
        // The receiver may close the link before all of it is sent.
        let _ = link.sender.write(&[&bytes]).await;
        pending::<()>().await;
    };
    world(seed, serve, async move |runtime, address| {
        let link = open(&runtime, address, LEADER, options(FOLLOWER)).await.unwrap();
        let (_says, outgoing) = mailbox(16);
        let side = Rc::new(Side::default());
        let mut credit = CreditReceiver::new(window);
        credit.open();
        *side.window.borrow_mut() = Some(credit);
        let ended = converse(&runtime, link, outgoing, &side).await;
        assert!(side.takes.borrow().is_empty());
        ended
    })
}

#[test]
fn bytes_that_no_shard_sends_close_the_link_before_they_are_taken() {
    let frames = |epoch, sequence, bytes| encode(&head(Window::Tail), epoch, sequence, bytes);
    let error = refused(6, frames(epoch(LEADER), 0, BODY_MAX + 1), u64::MAX);
    assert!(
        matches!(error, LinkFailure::Bytes(LinkError::BodyTooLarge(_))),
        "{error}"
    );
    let mut damaged = frames(epoch(LEADER), 0, 0);
    *damaged.last_mut().unwrap() ^= 1;
    let error = refused(7, damaged, 1);
    assert!(
        matches!(error, LinkFailure::Bytes(LinkError::Checksum)),
        "{error}"
    );
    let error = refused(8, frames(epoch(LEADER), 1, 0), 1);
    assert!(
        matches!(error, LinkFailure::Bytes(LinkError::Sequence { .. })),
        "{error}"
    );
    let error = refused(9, frames(epoch(FOLLOWER), 0, 0), 1);
    assert!(matches!(error, LinkFailure::Registration { .. }), "{error}");
    // Frames that are larger than the window go alone: a second message has no credit before they are applied.
    let mut two = frames(epoch(LEADER), 0, 100);
    two.extend_from_slice(&body(100));
    let error = refused(10, two[..two.len() - 1].to_vec(), 50);
    assert!(matches!(error, LinkFailure::Silent(_)), "{error}");
}

#[test]
fn a_peer_that_stops_reading_or_speaking_is_given_up_and_one_that_only_rests_is_not() {
    // Rests: neither has anything to say for a while, and both find that the other lives.
    let serve = async |runtime: SimRuntime, accepted: Accepted| {
        let (_says, outgoing) = mailbox(16);
        let side = Rc::new(Side::default());
        converse(&runtime, accepted.unwrap(), outgoing, &side).await;
    };
    world(11, serve, async |runtime, address| {
        let link = open(&runtime, address, LEADER, options(FOLLOWER)).await.unwrap();
        let (_says, outgoing) = mailbox(16);
        let side = Rc::new(Side::default());
        let talk = std::pin::pin!(converse(&runtime, link, outgoing, &side));
        let minute = std::pin::pin!(runtime.sleep(std::time::Duration::from_secs(60)));
        let first = futures_util::future::select(talk, minute).await;
        assert!(matches!(first, futures_util::future::Either::Right(_)));
        assert!(side.takes.borrow().len() >= 10, "signs of life came");
    });
    // Stops: its socket fills up, and it says nothing.
    let serve = async |_: SimRuntime, accepted: Accepted| {
        let _link = accepted.unwrap();
        pending::<()>().await;
    };
    world(12, serve, async |runtime, address| {
        let link = open(&runtime, address, LEADER, options(FOLLOWER)).await.unwrap();
        let (says, outgoing) = mailbox(16);
        let side = Rc::new(Side::default());
        *side.says.borrow_mut() = Some(says);
        for _ in 0..16 {
            side.say(FOLLOWER, head(Window::CatchUp), body(1 << 20));
        }
        let ended = converse(&runtime, link, outgoing, &side).await;
        assert!(matches!(ended, LinkFailure::Silent(_)), "{ended}");
    });
}
