//! A path of IP between two interfaces of this machine, with delay, rate, queue and seeded loss.
//!
//! ```text
//! interface ─► device ─► Link ─► device ─► interface      one thread for each direction
//! ```
//!
//! TCP meets such a path as it meets a real one: what is lost is a packet below it. One of the interfaces
//! is moved into another network namespace, and both get addresses there. It needs the right to make
//! interfaces, and no queueing discipline of the kernel.

mod device;

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use glassline_client::impairment::Impairment;
use glassline_sim::{Link, SendOutcome};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

/// Longest packet, in bytes: the MTU of an interface is 1500 unless somebody changes it.
const PACKET_BYTES_MAX: usize = 65_535;

/// Most packets in flight in one direction, which holds a second of 1 Gbit/s.
const IN_FLIGHT_MAX: usize = 100_000;

/// Longest wait, so that a thread notices when it is to stop.
const IDLE: Duration = Duration::from_millis(50);

/// A path between two interfaces. Dropping it removes both.
#[derive(Debug)]
pub struct IpPath {
    stop: Arc<AtomicBool>,
    lost: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl IpPath {
    /// Makes the interfaces `names`, and carries packets between them under the same conditions both ways.
    ///
    /// # Errors
    /// The system has no TUN devices, this program may not make one, or a name is taken or too long.
    pub fn start(names: [&str; 2], impairment: &Impairment) -> io::Result<Self> {
        let [near, far] = names.map(device::open);
        let (near, far) = (Arc::new(near?), Arc::new(far?));
        let mut path = Self {
            stop: Arc::default(),
            lost: Arc::default(),
            threads: Vec::new(),
        };
        for (seed, from, to) in [(0, &near, &far), (1, &far, &near)] {
            let link = Link::new(impairment.conditions(), impairment.seed.wrapping_add(seed));
            let direction = Direction {
                from: Arc::clone(from),
                to: Arc::clone(to),
                link,
                lost: Arc::clone(&path.lost),
            };
            let stop = Arc::clone(&path.stop);
            let thread = std::thread::Builder::new().name("ip-path".to_owned());
            path.threads.push(thread.spawn(move || {
                if let Err(error) = direction.run(&stop) {
                    tracing::error!(%error, "a path stopped; no packets pass any more");
                }
            })?);
        }
        Ok(path)
    }

    /// Number of packets that were lost or found the queue full so far, both ways.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for IpPath {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of a path has panicked");
            }
        }
    }
}

/// Packets that go one way.
struct Direction {
    from: Arc<File>,
    to: Arc<File>,
    link: Link<Vec<u8>>,
    lost: Arc<AtomicU64>,
}

impl Direction {
    fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut poll = Poll::new()?;
        let descriptor = self.from.as_raw_fd();
        let mut source = SourceFd(&descriptor);
        poll.registry()
            .register(&mut source, Token(0), Interest::READABLE)?;
        let mut events = Events::with_capacity(1);
        let mut buffer = vec![0; PACKET_BYTES_MAX];
        while !stop.load(Ordering::Relaxed) {
            self.receive(&mut buffer)?;
            let now = Instant::now();
            while let Some(arrival) = self.link.poll(now) {
                deliver(&self.to, &arrival.datagram)?;
            }
            let due = self.link.next_arrival();
            let wait = due.map_or(IDLE, |at| at.saturating_duration_since(Instant::now()));
            match poll.poll(&mut events, Some(wait.min(IDLE))) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Hands all packets that wait at the interface to the link.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        loop {
            let bytes = match (&*self.from).read(buffer) {
                Ok(bytes) => bytes,
                Err(error) if is_passing(&error) => return Ok(()),
                Err(error) => return Err(error),
            };
            let packet = buffer[..bytes].to_vec();
            let has_room = self.link.in_flight() < IN_FLIGHT_MAX;
            let sent = has_room.then(|| self.link.send(Instant::now(), bytes, packet));
            if !matches!(sent, Some(SendOutcome::Arrives(_))) {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Writes a packet to an interface. What an interface does not take is lost, as on a real network.
fn deliver(to: &File, packet: &[u8]) -> io::Result<()> {
    match (&*to).write(packet) {
        Err(error) if !is_passing(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Whether an error says nothing of later packets: none waits, or the interface is down.
fn is_passing(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EIO)
        || matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
        )
}
