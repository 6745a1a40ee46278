//! A viewer that joins and leaves: one session, one blocking socket, and one of the ways of
//! leaving.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use glassline_media::WallClock;
use glassline_webrtc::{
    Certificate, DialConfig, Event, Kinds, ReceiveMode, Received, Secrets, Session,
};

use crate::http;

/// The way in which a guest leaves the server.
#[derive(Clone, Copy, Debug)]
enum Exit {
    /// By a WHEP DELETE.
    Delete,
    /// By RTCP BYE and DTLS close_notify.
    Goodbye,
    /// By closing the socket without a message, so that its port answers by ICMP.
    Vanish,
    /// By stopping in the middle of the handshake.
    GiveUp,
    /// By never sending a datagram after the answer.
    Never,
}

impl Exit {
    const ALL: [Self; 5] = [
        Self::Delete,
        Self::Goodbye,
        Self::Vanish,
        Self::GiveUp,
        Self::Never,
    ];
}

/// Longest time of a join on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

static CERTIFICATE: LazyLock<Arc<Certificate>> =
    LazyLock::new(|| Arc::new(Certificate::generate().expect("a certificate")));

/// `count` viewers of `url`, `at_a_time` of them in parallel, which leave in all ways in turn.
pub(crate) fn visits(url: &str, count: usize, at_a_time: usize) -> Result<(), String> {
    let next = AtomicUsize::new(0);
    // The server repeats its part of a handshake for some time, in which the ports of viewers
    // that gave up must not be used again.
    let held = Mutex::new(Vec::new());
    let come_and_go = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(());
            }
            let exit = Exit::ALL[number % Exit::ALL.len()];
            let guest = visit(url, exit).map_err(|reason| format!("{exit:?}: {reason}"))?;
            if matches!(exit, Exit::GiveUp) {
                let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                held.push(guest.socket);
            }
        }
    };
    thread::scope(|scope| {
        let guests: Vec<_> = (0..at_a_time).map(|_| scope.spawn(come_and_go)).collect();
        let mut ends = guests.into_iter().map(thread::ScopedJoinHandle::join);
        ends.try_for_each(|end| end.unwrap_or_else(|_| Err("a guest panicked".to_owned())))
    })
}

/// Joins at `url`, receives the first media packet, and leaves by `exit`; viewers that vanish
/// keep their port for some time.
fn visit(url: &str, exit: Exit) -> Result<Guest, String> {
    let mut guest = Guest::answered(url)?;
    match exit {
        Exit::Never => {}
        Exit::GiveUp => guest.run_until(|guest| guest.session.peer().is_some())?,
        _ => guest.run_until(|guest| guest.played)?,
    }
    match exit {
        Exit::Delete => guest.delete()?,
        Exit::Goodbye => {
            guest.session.close(Instant::now());
            guest.drain()?;
        }
        _ => {}
    }
    Ok(guest)
}

struct Guest {
    session: Session,
    socket: UdpSocket,
    local: SocketAddr,
    location: String,
    /// Whether a packet of media has arrived.
    played: bool,
    answered: Instant,
    events: Vec<Event>,
}

impl Guest {
    fn answered(url: &str) -> Result<Self, String> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(text)?;
        let local = socket.local_addr().map_err(text)?;
        let mut seed = [0; 32];
        aws_lc_rs::rand::fill(&mut seed).map_err(text)?;
        let now = Instant::now();
        let secrets = Secrets::expand(&seed);
        let wall = WallClock::new(now, Duration::from_secs(1_700_000_000));
        let config = DialConfig {
            local: vec![local],
            receive: Kinds::ALL,
            mode: ReceiveMode::CountOnly,
            ..DialConfig::new(CERTIFICATE.clone(), secrets, wall)
        };
        let (mut session, offer) = Session::dial(config, now);
        let sdp = [("Content-Type", "application/sdp")];
        let answer = http::request("POST", url, &sdp, offer)?;
        if answer.status != 201 {
            return Err(format!("POST {url}: {} {}", answer.status, answer.body));
        }
        session
            .set_answer(&answer.body, Instant::now())
            .map_err(text)?;
        let location = answer.header("location").ok_or("no Location")?;
        let origin = url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        Ok(Self {
            session,
            socket,
            local,
            location: format!("{origin}{location}"),
            played: false,
            answered: Instant::now(),
            events: Vec::new(),
        })
    }

    fn run_until(&mut self, done: impl Fn(&Self) -> bool) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        let mut buffer = [0; 2048];
        loop {
            self.drain()?;
            if done(self) {
                return Ok(());
            }
            let now = Instant::now();
            if now >= end || self.session.is_closed() {
                return Err(format!(
                    "no media from {} {:?} after the answer; last events: {:?}",
                    self.location,
                    self.answered.elapsed(),
                    self.events
                ));
            }
            let due = self.session.poll_timeout().map_or(end, |at| at.min(end));
            let wait = due.saturating_duration_since(now);
            self.socket
                .set_read_timeout(Some(wait.max(Duration::from_millis(1))))
                .map_err(text)?;
            if let Ok((bytes, from)) = self.socket.recv_from(&mut buffer) {
                let datagram = &mut buffer[..bytes];
                let received =
                    self.session
                        .handle_datagram(Instant::now(), from, self.local, datagram);
                self.played |= matches!(received, Ok(Received::Counted { .. }));
            }
            let now = Instant::now();
            if self.session.poll_timeout().is_some_and(|at| at <= now) {
                self.session.handle_timeout(now);
            }
        }
    }

    fn drain(&mut self) -> Result<(), String> {
        let mut out = Vec::new();
        while let Some(to) = self.session.poll_transmit(&mut out) {
            self.socket.send_to(&out, to.socket).map_err(text)?;
        }
        while let Some(event) = self.session.poll_event() {
            self.events.push(event);
        }
        Ok(())
    }

    fn delete(&self) -> Result<(), String> {
        let answer = http::request("DELETE", &self.location, &[], Vec::new())?;
        if answer.status == 200 {
            Ok(())
        } else {
            let (status, body) = (answer.status, answer.body);
            Err(format!("DELETE {}: {status} {body}", self.location))
        }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
