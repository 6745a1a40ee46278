//! The impairment proxy: a thread and two sockets that carry datagrams over simulated links.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use glassline_net::{BindError, Options, ReceiveBatch, UdpSocket};
use glassline_sim::Conditions;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::Impairment;
use super::direction::{Direction, SegmentRun};

/// Wait below which the thread sleeps in short steps, because waits for sockets end at whole
/// milliseconds.
const FINE: Duration = Duration::from_millis(2);
/// Length of a short step.
const STEP: Duration = Duration::from_micros(60);
/// Longest wait, so that the thread notices when it is to stop.
const IDLE: Duration = Duration::from_millis(20);
/// Most buffers that are kept for reuse.
const FREE_MAX: usize = 4096;

/// A thread that carries datagrams between a client and a server over an impaired path.
#[derive(Debug)]
pub struct ImpairmentProxy {
    /// Address to which the client sends.
    near: SocketAddr,
    stop: Arc<AtomicBool>,
    changes: mpsc::Sender<Conditions>,
    thread: Option<JoinHandle<()>>,
}

impl ImpairmentProxy {
    /// Starts a proxy to `server`, on loopback or, if the server is elsewhere, on all
    /// addresses.
    ///
    /// # Errors
    /// If a socket cannot be bound.
    pub fn start(impairment: &Impairment, server: SocketAddr) -> Result<Self, BindError> {
        let options = Options {
            receive_buffer: Some(8 << 20),
            send_buffer: Some(8 << 20),
            coalescing: true,
            ..Options::default()
        };
        let loopback: SocketAddr = match server {
            SocketAddr::V4(_) => ([127, 0, 0, 1], 0).into(),
            SocketAddr::V6(_) => ([0, 0, 0, 0, 0, 0, 0, 1], 0).into(),
        };
        let any: SocketAddr = match server {
            _ if server.ip().is_loopback() => loopback,
            SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
            SocketAddr::V6(_) => ([0u16; 8], 0).into(),
        };
        let near = UdpSocket::bind(loopback, &options)?;
        let far = UdpSocket::bind(any, &options)?;
        let conditions = impairment.conditions();
        let (family, seed) = (impairment.family, impairment.seed);
        let up = Direction::new(conditions.clone(), family, seed);
        let down = Direction::new(conditions, family, seed.wrapping_add(1));
        let (changes, changed) = mpsc::channel();
        let forwarder = Forwarder {
            changed,
            directions: [up, down],
            runs: [SegmentRun::new(), SegmentRun::new()],
            sockets: [near, far],
            server,
            client: None,
            batch: ReceiveBatch::for_coalescing(16),
            free: Vec::new(),
        };
        let address = forwarder.sockets[0].local_addr();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("impair".to_owned())
            .spawn(move || {
                if let Err(error) = forwarder.run(&flag) {
                    tracing::error!(%error, "the impairment proxy stopped; no datagrams pass any more");
                }
            });
        Ok(Self {
            near: address,
            stop,
            changes,
            thread: Some(thread.expect("threads can be started")),
        })
    }

    /// Changes the conditions of the path for datagrams that come from now on; a family of delays stays.
    pub fn change(&self, impairment: &Impairment) {
        // A thread that has stopped carries no datagrams any more, and says so in the log.
        let _ = self.changes.send(impairment.conditions());
    }

    /// Address to which the client sends what is for the server.
    pub const fn address(&self) -> SocketAddr {
        self.near
    }

    /// Starts a proxy in front of the first host candidate of the SDP `answer`. Returns the
    /// proxy, and the answer with the proxy's address in place of all candidates; `None` if
    /// the answer has no UDP candidate.
    ///
    /// # Errors
    /// If a socket of the proxy cannot be bound.
    pub fn splice_into_answer(
        answer: &str,
        impairment: &Impairment,
    ) -> Option<Result<(Self, String), BindError>> {
        let first = answer.lines().find_map(|line| {
            let mut words = line.strip_prefix("a=candidate:")?.split(' ');
            let (_, _, protocol, _) = (words.next()?, words.next()?, words.next()?, words.next()?);
            let (ip, port) = (words.next()?, words.next()?);
            if !protocol.eq_ignore_ascii_case("udp") {
                return None;
            }
            Some(SocketAddr::new(ip.parse().ok()?, port.parse().ok()?))
        })?;
        let proxy = match Self::start(impairment, first) {
            Ok(proxy) => proxy,
            Err(error) => return Some(Err(error)),
        };
        let at = proxy.address();
        let mut out = String::new();
        let mut is_written = false;
        for line in answer.lines() {
            if !line.starts_with("a=candidate:") {
                out += line;
                out += "\r\n";
            } else if !std::mem::replace(&mut is_written, true) {
                let (ip, port) = (at.ip(), at.port());
                out += &format!("a=candidate:1 1 udp 2130706431 {ip} {port} typ host\r\n");
            }
        }
        Some(Ok((proxy, out)))
    }
}

impl Drop for ImpairmentProxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the impairment proxy's thread has panicked");
        }
    }
}

/// Data of the proxy's thread.
struct Forwarder {
    /// Conditions that replace those of both directions.
    changed: mpsc::Receiver<Conditions>,
    /// Directions to the server and to the client.
    directions: [Direction; 2],
    /// Datagrams that leave next, in each direction.
    runs: [SegmentRun; 2],
    /// Sockets towards the client and towards the server.
    sockets: [UdpSocket; 2],
    server: SocketAddr,
    /// Address that last sent to the near socket.
    client: Option<SocketAddr>,
    batch: ReceiveBatch,
    free: Vec<Vec<u8>>,
}

impl Forwarder {
    fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut poll = Poll::new()?;
        let mut events = Events::with_capacity(4);
        for (index, socket) in self.sockets.iter().enumerate() {
            let descriptor = socket.as_raw_fd();
            let mut source = SourceFd(&descriptor);
            let registry = poll.registry();
            registry.register(&mut source, Token(index), Interest::READABLE)?;
        }
        while !stop.load(Ordering::Relaxed) {
            let mut busy = false;
            while let Ok(conditions) = self.changed.try_recv() {
                let directions = self.directions.iter_mut();
                directions.for_each(|it| it.set_conditions(conditions.clone()));
            }
            for side in 0..2 {
                busy |= self.receive(side)?;
            }
            let now = Instant::now();
            for direction in 0..2 {
                busy |= self.send(direction, now);
            }
            if busy {
                continue;
            }
            let next = self.directions.iter().filter_map(Direction::next).min();
            let wait = next
                .map_or(IDLE, |at| at.saturating_duration_since(now))
                .min(IDLE);
            if wait < FINE {
                std::thread::sleep(wait.min(STEP));
                continue;
            }
            match poll.poll(&mut events, Some(wait - FINE / 2)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn receive(&mut self, side: usize) -> io::Result<bool> {
        let count = self.sockets[side].receive_batch(&mut self.batch)?;
        let now = Instant::now();
        for datagram in self.batch.iter_mut() {
            if side == 0 {
                self.client = Some(datagram.source);
            } else if datagram.source != self.server {
                continue;
            }
            let size = datagram
                .segment
                .map_or(datagram.bytes.len(), usize::from)
                .max(1);
            for bytes in datagram.bytes.chunks(size) {
                if self.directions[side].is_full() {
                    continue;
                }
                let mut owned = self.free.pop().unwrap_or_default();
                owned.clear();
                owned.extend_from_slice(bytes);
                self.directions[side].send(now, owned);
            }
        }
        Ok(count > 0)
    }

    fn send(&mut self, direction: usize, now: Instant) -> bool {
        let mut any = false;
        self.directions[direction].advance(now);
        while let Some(datagram) = self.directions[direction].poll(now) {
            any = true;
            if !self.runs[direction].fits(&datagram) {
                self.flush(direction);
            }
            self.runs[direction].push(&datagram);
            if self.free.len() < FREE_MAX {
                self.free.push(datagram);
            }
        }
        self.flush(direction);
        any
    }

    fn flush(&mut self, direction: usize) {
        let run = &mut self.runs[direction];
        let to = if direction == 0 {
            Some(self.server)
        } else {
            self.client
        };
        if let (Some((bytes, segment_bytes)), Some(to)) = (run.get(), to) {
            // What the kernel does not take is lost, as on a real network.
            let _ = self.sockets[1 - direction].send_segmented(bytes, segment_bytes, to);
        }
        run.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_come_late_and_in_order_both_ways() {
        let socket = || std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        let (client, server) = (socket(), socket());
        for socket in [&client, &server] {
            let patience = Some(Duration::from_secs(10));
            socket.set_read_timeout(patience).expect("a time");
        }
        let address = server.local_addr().expect("bound");
        let impairment: Impairment = "delay=20ms".parse().expect("a delay");
        let relay = ImpairmentProxy::start(&impairment, address).expect("loopback");
        let start = Instant::now();
        for number in 0..10u8 {
            client
                .send_to(&[number; 100], relay.address())
                .expect("sent");
        }
        let mut bytes = [0; 200];
        for number in 0..10u8 {
            let (len, from) = server.recv_from(&mut bytes).expect("it comes");
            assert_eq!((len, bytes[0]), (100, number));
            assert!(start.elapsed() >= Duration::from_millis(20));
            server.send_to(&[number], from).expect("sent");
        }
        for number in 0..10u8 {
            assert_eq!(client.recv(&mut bytes).expect("it comes"), 1);
            assert_eq!(bytes[0], number);
        }
        assert!(start.elapsed() >= Duration::from_millis(40));
        // What is sent after a change meets the new conditions.
        let lossy: Impairment = "loss=100%".parse().expect("a loss");
        relay.change(&lossy);
        let patience = Some(Duration::from_millis(100));
        server.set_read_timeout(patience).expect("a time");
        let mut is_lost = || {
            client.send_to(&[1; 100], relay.address()).expect("sent");
            server.recv_from(&mut bytes).is_err()
        };
        assert!((0..50).any(|_| is_lost()), "the path changed");
    }
}
