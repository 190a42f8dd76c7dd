//! A simulation: every host of a cluster on one thread, on virtual time, from one seed.
//!
//! The order among ready tasks, the latency of the network, the size of its segments and every random number
//! come from the seed; time stands still while a task is ready and then jumps to the next timer or delivery,
//! no two of which share an instant. So one seed is one history, which [`Simulation::trace_hash`] sums up.
//! Code under test must not look at anything else: no threads, no clocks, no iteration over hash maps.

mod network;
mod random;
mod scheduler;
mod socket;
mod time;
mod trace;

use crate::runtime::{IpAddr, SocketAddr};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::task::Context;
use std::time::Duration;

pub use random::SeededRandom;
pub use socket::{SimListener, SimReadHalf, SimStream, SimWriteHalf};
pub use time::Sleep;

use crate::runtime::{Monotonic, Queue, Runtime};
use network::Network;
use scheduler::{HostId, Occurrence, Scheduler};
use trace::Trace;

/// The wall clock at the start of every simulation: 2025-01-01 00:00:00 UTC.
const EPOCH_MS: i64 = 1_735_689_600_000;
/// Polls without the clock moving after which a simulation counts as caught in a loop.
const POLLS_AT_ONE_INSTANT_MAX: u64 = 10_000_000;
/// The host on which the future of [`Simulation::run_until`] runs.
const DRIVER: HostId = 0;

/// What can be set of a simulation, beyond its seed.
#[derive(Clone, Debug)]
pub struct SimulationOptions {
    /// The shortest and the longest way from host to host.
    pub latency: (Duration, Duration),
}

impl Default for SimulationOptions {
    fn default() -> Self {
        Self {
            latency: (Duration::from_micros(50), Duration::from_micros(800)),
        }
    }
}

struct Host {
    name: String,
    /// Raised by each kill; runtimes of an earlier one are dead.
    incarnation: u64,
    clock_offset_ms: i64,
    random: SeededRandom,
}

struct World {
    seed: u64,
    scheduler: RefCell<Scheduler>,
    network: RefCell<Network>,
    hosts: RefCell<Vec<Host>>,
    random: RefCell<SeededRandom>,
    trace: RefCell<Trace>,
}

impl World {
    fn host(&self, name: &str) -> HostId {
        let mut hosts = self.hosts.borrow_mut();
        if let Some(known) = hosts.iter().position(|host| host.name == name) {
            return known;
        }
        let random = self.random.borrow_mut().fork();
        hosts.push(Host {
            name: name.to_owned(),
            incarnation: 0,
            clock_offset_ms: 0,
            random,
        });
        hosts.len() - 1
    }

    fn incarnation(&self, host: HostId) -> u64 {
        self.hosts.borrow()[host].incarnation
    }

    fn kill(&self, host: HostId) {
        self.hosts.borrow_mut()[host].incarnation += 1;
        self.trace.borrow_mut().record(&[4, host as u64]);
        self.network
            .borrow_mut()
            .kill(&mut self.scheduler.borrow_mut(), host);
        let tasks = self.scheduler.borrow_mut().take_host(host);
        // Outside of every borrow: a future's drop may use the simulation.
        drop(tasks);
    }

    /// Polls one ready task; false when there is none.
    fn poll_one(&self) -> bool {
        let ready = self
            .scheduler
            .borrow_mut()
            .take_ready(&mut self.trace.borrow_mut());
        let Some((id, mut future, waker)) = ready else {
            return false;
        };
        let ended = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let dropped = if ended {
            self.scheduler.borrow_mut().remove(id);
            Some(future)
        } else {
            self.scheduler.borrow_mut().put_back(id, future)
        };
        // Outside of every borrow: a future's drop may use the simulation.
        drop(dropped);
        true
    }

    /// Lets the next timer or delivery happen; false when nothing is planned.
    fn advance(&self) -> bool {
        let occurrence = self.scheduler.borrow_mut().advance(&mut self.trace.borrow_mut());
        match occurrence {
            Some(Occurrence::Timer(waker)) => waker.wake(),
            Some(Occurrence::Network(delivery)) => {
                let mut trace = self.trace.borrow_mut();
                trace.record(&[3, delivery.connection, delivery.to as u64]);
                if let network::Arrival::Bytes(bytes) = &delivery.what {
                    trace.record_bytes(bytes);
                }
                self.network
                    .borrow_mut()
                    .deliver(&mut self.scheduler.borrow_mut(), delivery);
            }
            None => return false,
        }
        true
    }
}

/// One simulated world. Dropping it drops every task in it.
pub struct Simulation(Rc<World>);

impl Simulation {
    /// The world of `seed`.
    pub fn new(seed: u64) -> Self {
        Self::with_options(seed, SimulationOptions::default())
    }

    /// The world of `seed`, with other settings.
    pub fn with_options(seed: u64, options: SimulationOptions) -> Self {
        let mut random = SeededRandom::new(seed);
        let scheduler = Scheduler::new(random.fork());
        let network = Network::new(random.fork(), options.latency);
        let simulation = Self(Rc::new(World {
            seed,
            scheduler: RefCell::new(scheduler),
            network: RefCell::new(network),
            hosts: RefCell::default(),
            random: RefCell::new(random),
            trace: RefCell::default(),
        }));
        assert_eq!(simulation.0.host("driver"), DRIVER);
        simulation
    }

    /// The runtime of a host, which starts it if it is new or was killed.
    pub fn runtime(&self, host: &str) -> SimRuntime {
        let host = self.0.host(host);
        SimRuntime {
            world: self.0.clone(),
            host,
            incarnation: self.0.incarnation(host),
        }
    }

    /// Where a host is reached; inside it, loopback addresses work too.
    pub fn address_of(&self, host: &str) -> IpAddr {
        network::address_of(self.0.host(host))
    }

    /// Runs everything until `driver` has ended, and gives its output. Other tasks stay as they are then.
    ///
    /// # Panics
    /// When nothing can happen any more (no ready task, no timer, no delivery), or tasks go in circles
    /// without the clock moving.
    pub fn run_until<T: 'static>(&self, driver: impl Future<Output = T> + 'static) -> T {
        let output = Rc::new(Cell::new(None));
        let place = output.clone();
        let driver = Box::pin(async move { place.set(Some(driver.await)) });
        self.0.scheduler.borrow_mut().spawn(DRIVER, driver);
        let mut polls = 0;
        loop {
            if let Some(output) = output.take() {
                return output;
            }
            if self.0.poll_one() {
                polls += 1;
                assert!(polls < POLLS_AT_ONE_INSTANT_MAX, "{self} goes in circles");
            } else {
                polls = 0;
                assert!(
                    self.0.advance(),
                    "{self} stands still: no ready task, no timer, no delivery"
                );
            }
        }
    }

    /// Ends a host as `kill -9` does: its tasks are dropped where they are, its connections reset, its ports
    /// free. [`Simulation::runtime`] starts it again.
    pub fn kill_host(&self, host: &str) {
        self.0.kill(self.0.host(host));
    }

    /// Sets a host's wall clock off by so many milliseconds.
    pub fn set_clock_offset_ms(&self, host: &str, offset_ms: i64) {
        let host = self.0.host(host);
        self.0.hosts.borrow_mut()[host].clock_offset_ms = offset_ms;
    }

    /// The time that has passed.
    pub fn now(&self) -> Monotonic {
        self.0.scheduler.borrow().now()
    }

    /// A number that two runs share only if the same things happened in them, in the same order.
    pub fn trace_hash(&self) -> u64 {
        self.0.trace.borrow().hash()
    }
}

impl std::fmt::Display for Simulation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "the simulation of seed {} at {} ns",
            self.0.seed,
            self.now().0
        )
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        // Tasks hold the world that holds them.
        let hosts = self.0.hosts.borrow().len();
        (0..hosts).for_each(|host| self.0.kill(host));
    }
}

/// The runtime of one host, until it is killed.
#[derive(Clone)]
pub struct SimRuntime {
    world: Rc<World>,
    host: HostId,
    incarnation: u64,
}

impl SimRuntime {
    /// Whether the host was killed since this runtime was made.
    pub fn is_killed(&self) -> bool {
        self.world.incarnation(self.host) != self.incarnation
    }

    /// The runtime of another host of the same simulation, as [`Simulation::runtime`] gives it.
    #[must_use]
    pub fn of_host(&self, name: &str) -> Self {
        let host = self.world.host(name);
        Self {
            world: self.world.clone(),
            host,
            incarnation: self.world.incarnation(host),
        }
    }

    /// A runtime of the host as it is now: this one may be of a life that was ended.
    #[must_use]
    pub fn revived(&self) -> Self {
        Self {
            incarnation: self.world.incarnation(self.host),
            ..self.clone()
        }
    }

    /// Where the host is reached from others.
    pub fn address(&self) -> IpAddr {
        network::address_of(self.host)
    }

    /// Ends the host as [`Simulation::kill_host`] does; for a task of another host.
    pub fn kill_host(&self) {
        self.world.kill(self.host);
    }

    /// How often tasks of the simulation have been polled: how finely a long piece of work is cut.
    pub fn polls(&self) -> u64 {
        self.world.scheduler.borrow().polls()
    }

    fn refuse_if_killed(&self) -> io::Result<()> {
        if self.is_killed() {
            Err(io::Error::other("the host was killed"))
        } else {
            Ok(())
        }
    }
}

impl Runtime for SimRuntime {
    type Listener = SimListener;
    type Stream = SimStream;

    fn spawn(&self, _queue: Queue, task: impl Future<Output = ()> + 'static) {
        if !self.is_killed() {
            self.world.scheduler.borrow_mut().spawn(self.host, Box::pin(task));
        }
    }

    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + 'static {
        Sleep::new(self.world.clone(), span)
    }

    fn now(&self) -> Monotonic {
        self.world.scheduler.borrow().now()
    }

    fn wall_clock_ms(&self) -> i64 {
        let since_start_ms = (self.now().0 / 1_000_000) as i64;
        EPOCH_MS + since_start_ms + self.world.hosts.borrow()[self.host].clock_offset_ms
    }

    fn random_u64(&self) -> u64 {
        self.world.hosts.borrow_mut()[self.host].random.next_u64()
    }

    async fn yield_if_needed(&self) {
        // Any point where a real executor may switch, this one does sometimes.
        let switches = self.world.random.borrow_mut().one_in(4);
        if switches {
            time::yield_now().await;
        }
    }

    async fn yield_now(&self) {
        time::yield_now().await;
    }

    async fn listen(&self, address: SocketAddr) -> io::Result<SimListener> {
        self.refuse_if_killed()?;
        SimListener::new(&self.world, self.host, self.incarnation, address)
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<SimStream> {
        self.refuse_if_killed()?;
        SimStream::connect(self.world.clone(), self.host, address).await
    }
}
