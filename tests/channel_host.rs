//! An end with data channels of ours, over a blocking socket on a thread of its own.
//!
//! It returns every message on the channel on which it came, except on a channel that it opens
//! itself: there it sends messages, and checks what the peer returns.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use glassline_media::WallClock;
use glassline_sctp::SendError as AssociationError;
use glassline_sctp::channel::{ChannelId, Event as ChannelEvent, Init, Message, SendError};
use glassline_webrtc::{
    AcceptConfig, Certificate, CipherChoice, CloseReason, DataConfig, DialConfig, Event, Secrets,
    Session,
};

/// Label of the channel that the host opens in-band.
pub(crate) const OWN_LABEL: &str = "own";
/// Stream id of a negotiated channel, which both ends open without a message.
pub(crate) const NEGOTIATED: u16 = 100;
/// Sizes of the messages on the host's own channel, in bytes, split by what the peer accepts.
pub(crate) const SIZES: [usize; 4] = [1, 16 << 10, 256 << 10, 1 << 20];
/// Largest message that this end announces.
pub(crate) const MESSAGE_MAX: usize = 1 << 20;
/// Largest piece that the host sends by default, whatever the peer announces: Pion announces a
/// gigabyte, and its receive window of a megabyte closes for good on a message that does not fit.
const PIECE_MAX: usize = 256 << 10;
/// Number of datagrams that are taken before anything is sent, as from one receive call with GRO.
const BATCH: usize = 64;

static CERTIFICATE: LazyLock<Arc<Certificate>> =
    LazyLock::new(|| Arc::new(Certificate::generate().expect("a certificate")));

/// The story of the data channels so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    pub(crate) cipher: Option<&'static str>,
    /// Number of messages that were returned, and their bytes.
    pub(crate) echoed: u64,
    pub(crate) echoed_bytes: u64,
    /// Bytes that the peer returned unchanged.
    pub(crate) verified: usize,
    /// Labels of the channels that the peer opened, and of those that closed.
    pub(crate) opened: Vec<String>,
    pub(crate) closed: usize,
    pub(crate) forged: u64,
    pub(crate) problem: Option<String>,
    /// Reason of the association's end.
    pub(crate) association: Option<String>,
    pub(crate) end: Option<CloseReason>,
}

/// Handle of the thread. Dropping it closes the session.
pub(crate) struct Host {
    story: Arc<Mutex<Story>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A host that waits for the peer's answer.
pub(crate) struct Dialled {
    session: Session,
    socket: UdpSocket,
    terms: Terms,
    pub(crate) offer: String,
}

/// Parameters that differ between tests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) cipher: CipherChoice,
    /// Largest piece of a message, whatever the peer announces.
    pub(crate) piece_max: usize,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            cipher: CipherChoice::default(),
            piece_max: PIECE_MAX,
        }
    }
}

impl Host {
    /// Answers an offer; returns the host and its answer.
    pub(crate) fn accept(offer: &str, terms: Terms) -> Result<(Self, String), String> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(text)?;
        let now = Instant::now();
        let config = AcceptConfig {
            local: vec![socket.local_addr().map_err(text)?.into()],
            data: Some(data(terms.cipher)),
            ..AcceptConfig::new(CERTIFICATE.clone(), secrets()?, wall(now))
        };
        let (session, answer) = Session::accept(config, offer, now).map_err(text)?;
        Ok((Self::start(session, socket, terms)?, answer))
    }

    /// Offers data channels and nothing else.
    pub(crate) fn dial(terms: Terms) -> Result<Dialled, String> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(text)?;
        let now = Instant::now();
        let config = DialConfig {
            local: vec![socket.local_addr().map_err(text)?],
            data: Some(data(terms.cipher)),
            ..DialConfig::new(CERTIFICATE.clone(), secrets()?, wall(now))
        };
        let (session, offer) = Session::dial(config, now);
        Ok(Dialled {
            session,
            socket,
            terms,
            offer,
        })
    }

    fn start(session: Session, socket: UdpSocket, terms: Terms) -> Result<Self, String> {
        let story = Arc::new(Mutex::new(Story::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let local = socket.local_addr().map_err(text)?;
        let mut end = End {
            session,
            socket,
            local,
            piece_max: terms.piece_max,
            story: Arc::clone(&story),
            own: None,
            expected: VecDeque::new(),
            waiting: VecDeque::new(),
        };
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            if let Err(problem) = end.run(&stopped) {
                lock(&end.story).problem.get_or_insert(problem);
            }
        });
        Ok(Self {
            story,
            stop,
            thread: Some(thread),
        })
    }

    pub(crate) fn story(&self) -> Story {
        lock(&self.story).clone()
    }
}

impl Dialled {
    pub(crate) fn answered(mut self, answer: &str) -> Result<Host, String> {
        let now = Instant::now();
        self.session.set_answer(answer, now).map_err(text)?;
        Host::start(self.session, self.socket, self.terms)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic shows in the test that waits for the thread's work.
            let _ = thread.join();
        }
    }
}

/// State that the thread owns.
struct End {
    session: Session,
    socket: UdpSocket,
    local: SocketAddr,
    piece_max: usize,
    story: Arc<Mutex<Story>>,
    own: Option<ChannelId>,
    /// Messages that the peer must return on our own channel.
    expected: VecDeque<Message>,
    /// Messages that wait for room in their channel.
    waiting: VecDeque<(ChannelId, Message)>,
}

impl End {
    fn run(&mut self, stop: &AtomicBool) -> Result<(), String> {
        let now = Instant::now();
        let channels = self.session.channels_mut().ok_or("the peer has no data")?;
        let own = Init {
            label: OWN_LABEL.to_owned(),
            ..Init::default()
        };
        self.own = Some(channels.open(own, now).map_err(text)?);
        let negotiated = Init {
            label: "negotiated".to_owned(),
            negotiated: Some(NEGOTIATED),
            ..Init::default()
        };
        channels.open(negotiated, now).map_err(text)?;
        while !stop.load(Ordering::Relaxed) && !self.session.is_closed() {
            self.turn()?;
        }
        self.session.close(Instant::now());
        self.drain()
    }

    fn turn(&mut self) -> Result<(), String> {
        self.drain()?;
        let now = Instant::now();
        let longest = Duration::from_millis(50);
        let due = self.session.poll_timeout();
        let wait = due.map_or(longest, |at| at.saturating_duration_since(now).min(longest));
        let wait = wait.max(Duration::from_micros(100));
        self.socket.set_read_timeout(Some(wait)).map_err(text)?;
        let mut buffer = [0; 2048];
        for taken in 0..BATCH {
            self.socket.set_nonblocking(taken > 0).map_err(text)?;
            let Ok((bytes, from)) = self.socket.recv_from(&mut buffer) else {
                break;
            };
            // The session counts dropped datagrams.
            let _ = self.session.handle_datagram(
                Instant::now(),
                from,
                self.local,
                &mut buffer[..bytes],
            );
        }
        self.socket.set_nonblocking(false).map_err(text)?;
        let now = Instant::now();
        self.session.end_batch(now);
        if self.session.poll_timeout().is_some_and(|at| at <= now) {
            self.session.handle_timeout(now);
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<(), String> {
        let now = Instant::now();
        while let Some(event) = self.session.poll_event() {
            if let Event::Closed(reason) = event {
                lock(&self.story).end = Some(reason);
            }
        }
        while let Some(event) = self
            .session
            .channels_mut()
            .and_then(|it| it.poll_event(now))
        {
            self.on_event(event)?;
        }
        self.send_waiting(now)?;
        let mut out = Vec::new();
        while let Some((to, segment)) = self.session.poll_transmit_batch(now, &mut out) {
            for datagram in out.chunks(segment) {
                // A full socket loses the datagram, which the association notices.
                let _ = self.socket.send_to(datagram, to.socket);
            }
        }
        let mut story = lock(&self.story);
        if let Some(cipher) = self.session.cipher() {
            story.cipher = Some(cipher.as_str());
        }
        story.forged = self
            .session
            .data_counts()
            .map_or(0, |counts| counts.records.forged);
        Ok(())
    }

    fn on_event(&mut self, event: ChannelEvent) -> Result<(), String> {
        match event {
            ChannelEvent::Opened { channel, .. } if Some(channel) == self.own => {
                self.send_own(channel)
            }
            ChannelEvent::Opened { channel, by_peer } => {
                let channels = self.session.channels().ok_or("no channels")?;
                let info = channels.info(channel).ok_or("an unknown channel opened")?;
                if by_peer {
                    lock(&self.story).opened.push(info.init.label.clone());
                }
                Ok(())
            }
            ChannelEvent::Message { channel, message } if Some(channel) == self.own => {
                let expected = self.expected.pop_front();
                if expected.as_ref() != Some(&message) {
                    let bytes = expected.map(|it| it.data.len());
                    let got = message.data.len();
                    return Err(format!("{got} bytes came back where {bytes:?} were sent"));
                }
                lock(&self.story).verified += message.data.len();
                Ok(())
            }
            ChannelEvent::Message { channel, message } => {
                let mut story = lock(&self.story);
                story.echoed += 1;
                story.echoed_bytes += message.data.len() as u64;
                self.waiting.push_back((channel, message));
                Ok(())
            }
            ChannelEvent::Closed { .. } => {
                lock(&self.story).closed += 1;
                Ok(())
            }
            ChannelEvent::Ended(reason) => {
                lock(&self.story).association = Some(reason.to_string());
                Ok(())
            }
            ChannelEvent::Refused { stream, why } => Err(format!("stream {stream}: {why:?}")),
            _ => Ok(()),
        }
    }

    /// Sends messages of all sizes on our own channel, split by what the peer accepts.
    fn send_own(&mut self, channel: ChannelId) -> Result<(), String> {
        let channels = self.session.channels().ok_or("no channels")?;
        let piece = match channels.peer_max_message_size() {
            Some(limit) => usize::try_from(limit).map_err(text)?.min(self.piece_max),
            None => self.piece_max,
        };
        for size in SIZES {
            let payload: Vec<u8> = (0..size).map(|at| (at * 31 % 251) as u8).collect();
            for part in payload.chunks(piece) {
                let part = Message::binary(part.to_vec());
                self.expected.push_back(part.clone());
                self.waiting.push_back((channel, part));
            }
        }
        Ok(())
    }

    fn send_waiting(&mut self, now: Instant) -> Result<(), String> {
        let Some(channels) = self.session.channels_mut() else {
            return Ok(());
        };
        while let Some((channel, message)) = self.waiting.front() {
            match channels.send(*channel, message.clone(), now) {
                // The peer closed the channel before it had every message back.
                Ok(()) | Err(SendError::NoSuchChannel | SendError::Closing) => {
                    self.waiting.pop_front();
                }
                Err(SendError::Association(AssociationError::BufferFull { .. })) => break,
                Err(error) => return Err(text(error)),
            }
        }
        Ok(())
    }
}

fn data(cipher: CipherChoice) -> DataConfig {
    let mut data = DataConfig {
        cipher,
        ..DataConfig::default()
    };
    data.association.max_message_size = MESSAGE_MAX;
    data
}

fn secrets() -> Result<Secrets, String> {
    let mut seed = [0; 32];
    aws_lc_rs::rand::fill(&mut seed).map_err(text)?;
    Ok(Secrets::expand(&seed))
}

fn wall(now: Instant) -> WallClock {
    WallClock::new(now, Duration::from_secs(1_700_000_000))
}

fn lock(story: &Mutex<Story>) -> MutexGuard<'_, Story> {
    story.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
