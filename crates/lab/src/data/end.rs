//! One end of a test: a thread with its socket, its session and its messages.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_client::relay::Connection;
use glassline_congestion::Algorithm;
use glassline_net::{ReceiveBatch, SendError as SocketError, UdpSocket};
use glassline_sctp::channel::{ChannelId, Channels, Event, Init, Kind, Limits, Message, SendError};
use glassline_sctp::{Config as SctpConfig, Reliability};
use glassline_webrtc::dtls::{Cipher, CipherChoice};
use glassline_webrtc::{DataConfig, Event as SessionEvent, Session};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use thiserror::Error;

use super::control::{Control, DATA_LABEL, LABEL, Sample, TEXT_BYTES_MAX as CONTROL_BYTES_MAX};
use super::plan::Plan;
use super::report::{Path, PathEnd};

/// Which end of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// Why an end gave up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EndError {
    /// The operating system refused.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// The peers did not find each other, or the session ended before the test.
    #[error("the session ended: {0}")]
    Ended(String),
    /// Connected, but the other end did not open channels or answer in time.
    #[error("the other end did not {0} within {1:?}")]
    Silent(&'static str, Duration),
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> EndError {
    move |source| EndError::System { what, source }
}

/// What an end found.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// This end's, one for each interval.
    pub(super) own: Vec<Sample>,
    /// The other's, as it told them.
    pub(super) peer: Vec<Sample>,
    pub(super) path: Option<Path>,
    pub(super) cipher: Option<String>,
    pub(super) zero_checksum: Option<bool>,
}

/// Both handshakes, channels and `ready` take at the most.
const SETUP_MAX: Duration = Duration::from_secs(15);
/// After its end, how long an end waits for the other's last word.
const REPORT_MAX: Duration = Duration::from_secs(10);
/// Bytes that are read before they are answered.
const READ_MAX: usize = 512 << 10;
/// Coalesced runs of a read. Few, and their messages taken at once: what is read,
/// opened, put together and given away then stays within the second-level cache.
const BATCH: usize = 2;
/// Waits for sockets end at whole milliseconds; shorter ones are slept.
const FINE: Duration = Duration::from_millis(1);
const STEP: Duration = Duration::from_micros(50);
const IDLE: Duration = Duration::from_millis(100);
const SOCKET: Token = Token(0);
const CONNECTION: Token = Token(1);

/// What an end's association and records shall be like.
///
/// # Errors
/// A cipher or a congestion control that does not exist, by the name of its flag.
pub(super) fn data_config(plan: &Plan) -> Result<DataConfig, String> {
    static FASTEST: OnceLock<Cipher> = OnceLock::new();
    let cipher = match &plan.cipher {
        None => CipherChoice::Prefer(*FASTEST.get_or_init(|| Cipher::fastest(Instant::now))),
        Some(name) => {
            let cipher = name.parse().map_err(|error| format!("--cipher: {error}"))?;
            CipherChoice::Only(cipher)
        }
    };
    let mut association = SctpConfig {
        // A window must hold whole messages, so what is announced bounds it from below.
        max_message_size: plan.message_size.max(CONTROL_BYTES_MAX),
        ..SctpConfig::default()
    };
    if let Some(name) = &plan.congestion {
        association.congestion = congestion(name)?;
    }
    if let Some(window) = plan.window {
        association.receive_window_min = window;
        association.receive_window_max = window;
    }
    // What waits is bounded by the water marks; what is on its way by windows.
    let waiting = plan.high_water * usize::from(plan.channels) + 2 * plan.message_size;
    association.send_buffer_max = SEND_BUFFER_MIN + waiting.min(SEND_BUFFER_MIN);
    Ok(DataConfig {
        cipher,
        association,
        limits: Limits::default(),
    })
}

/// A gigabit a second over 500 ms.
const SEND_BUFFER_MIN: usize = 64 << 20;

fn congestion(name: &str) -> Result<Algorithm, String> {
    if name == "standard" {
        return Ok(Algorithm::Rfc9260Reno);
    }
    let known = Algorithm::ALL.into_iter().find(|it| it.as_str() == name);
    known.ok_or_else(|| {
        let names = Algorithm::ALL.map(Algorithm::as_str).join(", ");
        format!("--congestion: {name:?} is none of standard, {names}")
    })
}

/// A channel that carries messages.
struct Flow {
    channel: ChannelId,
    is_open: bool,
    /// It fell to the low mark, or was never filled.
    is_low: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Until both ends know that all channels are open.
    Setup,
    /// Since then.
    Running(Instant),
    /// This end is done; the other may have a last word.
    Ending {
        since: Instant,
    },
    Over,
}

/// One end of a test.
pub(super) struct End {
    side: Side,
    plan: Plan,
    session: Session,
    socket: UdpSocket,
    /// Where the socket is reached.
    local: SocketAddr,
    /// To the TURN server, if it is not spoken to by datagrams.
    connection: Option<Connection>,
    control: Option<ChannelId>,
    flows: Vec<Flow>,
    payload: Bytes,
    phase: Phase,
    began: Instant,
    cpu_began: Duration,
    next_sample: Instant,
    count: Sample,
    base: Sample,
    refills: u64,
    starved: u64,
    blocked: bool,
    outcome: Outcome,
    failure: Option<EndError>,
    /// Datagrams that the kernel did not take yet.
    backlog: Vec<u8>,
    backlog_to: Option<(SocketAddr, usize)>,
    scratch: Vec<u8>,
}

impl End {
    pub(super) fn new(
        side: Side,
        plan: Plan,
        session: Session,
        socket: UdpSocket,
        local: SocketAddr,
        connection: Option<Connection>,
    ) -> Self {
        let now = Instant::now();
        // Something that no link could compress, the same for every message.
        let mut payload = vec![0; plan.message_size];
        glassline_sim::Rng::new(1).fill(&mut payload);
        Self {
            side,
            plan,
            session,
            socket,
            local,
            connection,
            control: None,
            flows: Vec::new(),
            payload: payload.into(),
            phase: Phase::Setup,
            began: now,
            cpu_began: Duration::ZERO,
            next_sample: now,
            count: Sample::default(),
            base: Sample::default(),
            refills: 0,
            starved: 0,
            blocked: false,
            outcome: Outcome::default(),
            failure: None,
            backlog: Vec::new(),
            backlog_to: None,
            scratch: Vec::new(),
        }
    }

    /// Runs to the test's end, or until `stop`. `watch` sees each of this end's
    /// samples, and the other's latest.
    pub(super) fn run(
        mut self,
        stop: &AtomicBool,
        mut watch: impl FnMut(&Sample, Option<&Sample>),
    ) -> Result<Outcome, EndError> {
        if self.side == Side::Client {
            self.open_channels()?;
        }
        let mut poll = Poll::new().map_err(system("waiting for the socket"))?;
        let mut events = Events::with_capacity(8);
        let descriptor = self.socket.as_raw_fd();
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry()
            .register(&mut SourceFd(&descriptor), SOCKET, interest)
            .map_err(system("waiting for the socket"))?;
        if let Some(connection) = &self.connection {
            let descriptor = connection.as_raw_fd();
            poll.registry()
                .register(&mut SourceFd(&descriptor), CONNECTION, interest)
                .map_err(system("waiting for the TURN server"))?;
        }
        let mut batch = match self.plan.no_offload {
            true => ReceiveBatch::new(ReceiveBatch::CAPACITY_MAX),
            false => ReceiveBatch::for_coalescing(BATCH),
        };
        let mut seen = 0;
        while self.phase != Phase::Over {
            let received = self.receive(&mut batch)? | self.receive_frames()?;
            let now = Instant::now();
            self.handle_time(now, stop.load(Ordering::Relaxed));
            self.handle_events(now);
            self.fill(now);
            let sent = self.transmit(now)?;
            while let Some(sample) = self.outcome.own.get(seen) {
                watch(sample, self.outcome.peer.last());
                seen += 1;
            }
            if !received && !sent {
                self.wait(&mut poll, &mut events)?;
            }
        }
        self.session.close(Instant::now());
        self.transmit(Instant::now())?;
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok(self.outcome),
        }
    }

    fn open_channels(&mut self) -> Result<(), EndError> {
        let now = Instant::now();
        let mut inits = vec![Init {
            label: LABEL.to_owned(),
            priority: 1024,
            ..Init::default()
        }];
        inits.extend((0..self.plan.channels).map(|index| Init {
            label: format!("{DATA_LABEL}{index}"),
            ordered: !self.plan.unordered,
            reliability: reliability(&self.plan),
            ..Init::default()
        }));
        let channels = self.session.channels_mut();
        let channels = channels.ok_or_else(|| EndError::Ended("no data channels".to_owned()))?;
        for (index, init) in inits.into_iter().enumerate() {
            let opened = channels.open(init, now);
            let channel = opened.map_err(|error| EndError::Ended(error.to_string()))?;
            match index {
                0 => self.control = Some(channel),
                _ => self.flows.push(Flow::new(channel)),
            }
        }
        Ok(())
    }

    fn receive(&mut self, batch: &mut ReceiveBatch) -> Result<bool, EndError> {
        let mut bytes_read = 0;
        while bytes_read < READ_MAX {
            let count = self
                .socket
                .receive_batch(batch)
                .map_err(system("receiving datagrams"))?;
            if count == 0 {
                break;
            }
            let now = Instant::now();
            for datagram in batch.iter_mut() {
                bytes_read += datagram.bytes.len();
                let to = self.arrived_at(datagram.destination);
                let size = datagram
                    .segment
                    .map_or(datagram.bytes.len(), usize::from)
                    .max(1);
                for bytes in datagram.bytes.chunks_mut(size) {
                    // What the session drops has no effect, and is counted there.
                    let _ = self
                        .session
                        .handle_datagram(now, datagram.source, to, bytes);
                }
            }
            self.session.end_batch(now);
            self.handle_events(now);
            if count < batch.capacity() {
                break;
            }
        }
        Ok(bytes_read > 0)
    }

    /// What the TURN server sent over its connection.
    fn receive_frames(&mut self) -> Result<bool, EndError> {
        let Some(connection) = &mut self.connection else {
            return Ok(false);
        };
        let (now, from) = (Instant::now(), connection.address());
        let (session, local) = (&mut self.session, self.local);
        let any = connection
            .read(|frame| {
                // As with datagrams.
                let _ = session.handle_datagram(now, from, local, frame);
            })
            .map_err(system("the connection to the TURN server"))?;
        if any {
            session.end_batch(now);
        }
        Ok(any)
    }

    fn arrived_at(&self, ip: Option<IpAddr>) -> SocketAddr {
        ip.map_or(self.local, |ip| SocketAddr::new(ip, self.local.port()))
    }

    fn handle_time(&mut self, now: Instant, stopped: bool) {
        if self.session.poll_timeout().is_some_and(|at| at <= now) {
            self.session.handle_timeout(now);
        }
        match self.phase {
            Phase::Setup if stopped => self.phase = Phase::Over,
            Phase::Setup if now >= self.began + SETUP_MAX => {
                self.fail(EndError::Silent("begin the test", SETUP_MAX));
            }
            Phase::Running(start) => {
                let end = start + self.plan.time();
                if now >= end || stopped {
                    self.finish(now);
                } else if now >= self.next_sample {
                    self.sample(now);
                    self.next_sample += self.plan.interval();
                }
            }
            Phase::Ending { since } if stopped || now >= since + REPORT_MAX => {
                self.phase = Phase::Over;
            }
            _ => {}
        }
    }

    fn handle_events(&mut self, now: Instant) {
        while let Some(event) = self.session.poll_event() {
            if let SessionEvent::Closed(reason) = event {
                match self.phase {
                    Phase::Setup => self.fail(EndError::Ended(reason.to_string())),
                    Phase::Running(_) => {
                        self.sample(now);
                        self.phase = Phase::Over;
                    }
                    _ => self.phase = Phase::Over,
                }
            }
        }
        while let Some(channels) = self.session.channels_mut()
            && let Some(event) = channels.poll_event(now)
        {
            self.handle_event(event, now);
        }
    }

    fn handle_event(&mut self, event: Event, now: Instant) {
        match event {
            Event::Message { channel, message } => {
                if Some(channel) == self.control {
                    if let Some(control) = message.as_text().and_then(Control::parse) {
                        self.handle_control(control, now);
                    }
                } else {
                    self.count.received_messages += 1;
                    self.count.received_bytes += message.data.len() as u64;
                }
            }
            Event::BufferedLow { channel } => {
                let mut flows = self.flows.iter_mut();
                if let Some(flow) = flows.find(|flow| flow.channel == channel) {
                    flow.is_low = true;
                }
            }
            Event::Opened { channel, by_peer } => self.opened(channel, by_peer, now),
            Event::Ended(reason) => match self.phase {
                Phase::Setup => self.fail(EndError::Ended(format!("{reason:?}"))),
                Phase::Running(_) => {
                    self.sample(now);
                    self.phase = Phase::Over;
                }
                _ => self.phase = Phase::Over,
            },
            _ => {}
        }
    }

    fn opened(&mut self, channel: ChannelId, by_peer: bool, now: Instant) {
        if by_peer {
            let info = self.session.channels().and_then(|it| {
                let mut all = it.iter();
                all.find(|(id, _)| *id == channel).map(|(_, info)| info)
            });
            match info.map(|info| info.init.label.as_str()) {
                Some(LABEL) => self.control = Some(channel),
                Some(label) if label.starts_with(DATA_LABEL) => {
                    self.flows.push(Flow::new(channel));
                }
                _ => return,
            }
        }
        let mut flows = self.flows.iter_mut();
        if let Some(flow) = flows.find(|flow| flow.channel == channel) {
            flow.is_open = true;
        }
        let all_open = self.flows.iter().all(|flow| flow.is_open);
        let enough = self.flows.len() == usize::from(self.plan.channels);
        if self.side == Side::Client && all_open && enough && Some(channel) != self.control {
            self.tell(&Control::Start, now);
        }
    }

    fn handle_control(&mut self, control: Control, now: Instant) {
        match (control, self.side, self.phase) {
            (Control::Start, Side::Server, Phase::Setup) => {
                self.tell(&Control::Ready, now);
                self.start(now);
            }
            (Control::Ready, Side::Client, Phase::Setup) => self.start(now),
            (Control::Sample(sample), _, Phase::Running(_) | Phase::Ending { .. })
                if self.outcome.peer.len() < SAMPLES_MAX =>
            {
                self.outcome.peer.push(sample);
            }
            (Control::Report(sample), Side::Client, Phase::Running(_)) => {
                self.outcome.peer.push(sample);
                self.finish(now);
                self.phase = Phase::Over;
            }
            (Control::Report(sample), Side::Client, Phase::Ending { .. }) => {
                self.outcome.peer.push(sample);
                self.phase = Phase::Over;
            }
            _ => {}
        }
    }

    /// Messages go from now on.
    fn start(&mut self, now: Instant) {
        self.phase = Phase::Running(now);
        self.cpu_began = glassline_net::thread_cpu();
        self.count = Sample::default();
        self.next_sample = now + self.plan.interval();
        self.base = self.figures();
        if let Some(path) = self.session.path() {
            self.outcome.path = Some(described(&path));
        }
        self.outcome.cipher = self.session.cipher().map(|it| it.to_string());
        let report = self.session.channels().map(Channels::report);
        self.outcome.zero_checksum = report.map(|it| it.zero_checksum);
    }

    fn sends(&self) -> bool {
        match self.side {
            Side::Client => self.plan.direction.is_up(),
            Side::Server => self.plan.direction.is_down(),
        }
    }

    /// Hands messages over up to the high mark of each channel that fell to its low one.
    fn fill(&mut self, now: Instant) {
        if !matches!(self.phase, Phase::Running(_)) || !self.sends() {
            return;
        }
        let Some(channels) = self.session.channels_mut() else {
            return;
        };
        for flow in &mut self.flows {
            if !flow.is_open || !flow.is_low {
                continue;
            }
            let mut buffered = channels.buffered_amount(flow.channel);
            self.refills += 1;
            self.starved += u64::from(buffered == 0);
            self.blocked = false;
            while buffered < self.plan.high_water {
                let message = Message {
                    kind: Kind::Binary,
                    data: self.payload.clone(),
                };
                match channels.send(flow.channel, message, now) {
                    Ok(()) => buffered += self.plan.message_size,
                    Err(SendError::NotOpen | SendError::Association(_)) => {
                        self.blocked = true;
                        break;
                    }
                    Err(error) => {
                        self.failure = Some(EndError::Ended(error.to_string()));
                        self.phase = Phase::Over;
                        return;
                    }
                }
            }
            channels.set_buffered_low(flow.channel, self.plan.low_water);
            // No event comes for a mark that was not passed.
            flow.is_low = self.blocked || buffered <= self.plan.low_water;
        }
    }

    fn transmit(&mut self, now: Instant) -> Result<bool, EndError> {
        let mut any = false;
        loop {
            if let Some((to, segment)) = self.backlog_to {
                let sent = self.socket.send_segmented(&self.backlog, segment, to);
                any |= sent.bytes > 0;
                match sent.stopped {
                    Some(SocketError::WouldBlock) => {
                        self.backlog.drain(..sent.bytes);
                        return Ok(any);
                    }
                    // A peer that is gone, or a route: ICE and SCTP notice.
                    Some(error) => tracing::debug!(%error, %to, "datagrams were not sent"),
                    None => {}
                }
                self.backlog_to = None;
            }
            let Some(next) = self.session.poll_transmit_batch(now, &mut self.scratch) else {
                return Ok(any);
            };
            if let Some(connection) = &mut self.connection
                && connection.address() == next.0
            {
                connection
                    .write(&self.scratch)
                    .map_err(system("the connection to the TURN server"))?;
                any = true;
                continue;
            }
            std::mem::swap(&mut self.backlog, &mut self.scratch);
            self.backlog_to = Some(next);
        }
    }

    fn wait(&mut self, poll: &mut Poll, events: &mut Events) -> Result<(), EndError> {
        let now = Instant::now();
        let timer = self.session.poll_timeout();
        let sample = match self.phase {
            Phase::Running(start) => Some(self.next_sample.min(start + self.plan.time())),
            _ => None,
        };
        let next = [timer, sample].into_iter().flatten().min();
        let wait = next.map_or(IDLE, |at| at.saturating_duration_since(now));
        let wait = wait.min(IDLE);
        if wait.is_zero() {
            return Ok(());
        }
        if wait < FINE {
            std::thread::sleep(wait.min(STEP));
            return Ok(());
        }
        // It rounds up; what is left of the millisecond is slept.
        let whole = Duration::from_millis(u64::try_from(wait.as_millis()).unwrap_or(1));
        match poll.poll(events, Some(whole)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            result => result.map_err(system("waiting for the socket")),
        }
    }

    /// This end's figures at this moment, all since the beginning of the session.
    fn figures(&self) -> Sample {
        let report = self.session.channels().map(Channels::report);
        let report = report.unwrap_or_default();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        Sample {
            sent_bytes: report.data_sent,
            rtt_ms: report.rtt.map(ms),
            cwnd_bytes: report.cwnd,
            in_flight_bytes: report.in_flight,
            pacing_mbps: report.pacing_rate.map(|rate| rate.bps() as f64 / 1e6),
            window_bytes: report.own_window_limit,
            peer_window_bytes: report.peer_window,
            retransmitted_bytes: report.retransmitted,
            lost_bytes: report.lost,
            timeouts: report.timeouts,
            buffered_bytes: report.buffered,
            ..Sample::default()
        }
    }

    fn sample(&mut self, now: Instant) -> Option<Sample> {
        let Phase::Running(start) = self.phase else {
            return None;
        };
        let (cpu, figures) = (glassline_net::thread_cpu(), self.figures());
        let sample = Sample {
            at_ms: now.saturating_duration_since(start).as_secs_f64() * 1e3,
            sent_bytes: figures.sent_bytes - self.base.sent_bytes,
            retransmitted_bytes: figures.retransmitted_bytes - self.base.retransmitted_bytes,
            lost_bytes: figures.lost_bytes - self.base.lost_bytes,
            timeouts: figures.timeouts - self.base.timeouts,
            received_messages: self.count.received_messages,
            received_bytes: self.count.received_bytes,
            refills: self.refills,
            starved: self.starved,
            cpu_s: Some(cpu.saturating_sub(self.cpu_began).as_secs_f64()),
            ..figures
        };
        self.outcome.own.push(sample);
        if self.side == Side::Server {
            self.tell(&Control::Sample(sample), now);
        }
        Some(sample)
    }

    /// This end is done.
    fn finish(&mut self, now: Instant) {
        let Phase::Running(start) = self.phase else {
            return;
        };
        // The last interval is not cut in two by a moment.
        let last = self.outcome.own.last().map_or(0.0, |it| it.at_ms);
        let since = now.saturating_duration_since(start).as_secs_f64() * 1e3;
        if since - last < 0.01 * self.plan.interval_ms as f64 {
            self.outcome.own.pop();
        }
        let side = std::mem::replace(&mut self.side, Side::Client);
        let sample = self.sample(now);
        self.side = side;
        if let (Side::Server, Some(sample)) = (self.side, sample) {
            self.tell(&Control::Report(sample), now);
        }
        if let Some(path) = self.session.path() {
            self.outcome.path = Some(described(&path));
        }
        self.phase = Phase::Ending { since: now };
    }

    fn tell(&mut self, control: &Control, now: Instant) {
        if let (Some(channel), Some(channels)) = (self.control, self.session.channels_mut()) {
            let told = channels.send(channel, Message::text(control.to_text()), now);
            if let Err(error) = told {
                tracing::debug!(%error, "the other end was not told");
            }
        }
    }

    fn fail(&mut self, failure: EndError) {
        self.failure.get_or_insert(failure);
        self.phase = Phase::Over;
    }
}

/// As many as a plan can have; a peer may send more.
const SAMPLES_MAX: usize = 40_000;

impl Flow {
    const fn new(channel: ChannelId) -> Self {
        Self {
            channel,
            is_open: false,
            is_low: true,
        }
    }
}

fn reliability(plan: &Plan) -> Reliability {
    match (plan.max_retransmits, plan.max_lifetime_ms) {
        (Some(retransmissions), _) => Reliability::Limited { retransmissions },
        (None, Some(ms)) => Reliability::Timed {
            lifetime: Duration::from_millis(ms),
        },
        (None, None) => Reliability::Reliable,
    }
}

fn described(path: &glassline_webrtc::Path) -> Path {
    let end = |end: &glassline_webrtc::PathEnd| PathEnd {
        r#type: end.kind.as_str().to_owned(),
        protocol: "udp".to_owned(),
        address: end.address.to_string(),
    };
    Path {
        local: end(&path.local),
        remote: end(&path.remote),
        relayed: path.is_relayed(),
        relay: path.relay.as_ref().map(ToString::to_string),
        relay_protocol: path.relay.as_ref().map(|it| it.transport.name().to_owned()),
    }
}
