//! One end of a test: a thread with a socket, a session and the messages.

mod config;
mod error;
mod flows;
mod sampler;
mod transport;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use glassline_client::relay::Connection;
use glassline_net::{ReceiveBatch, UdpSocket};
use glassline_sctp::channel::{ChannelId, Channels, Event, Init, Message};
use glassline_webrtc::{Event as SessionEvent, Session};
use mio::{Events, Poll};

use super::control::{Control, DATA_LABEL, LABEL, Sample};
use super::plan::Plan;
use super::report::{Path, PathEnd};
pub(super) use config::data_config;
pub use error::EndError;
use error::system;
use flows::Flows;
use sampler::Sampler;
use transport::Transport;

/// End of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// Result of an end's run.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// Samples of this end, one for each interval.
    pub(super) own: Vec<Sample>,
    /// Samples that the other end sent.
    pub(super) peer: Vec<Sample>,
    pub(super) path: Option<Path>,
    pub(super) cipher: Option<String>,
    pub(super) zero_checksum: Option<bool>,
}

/// Longest time for handshakes, opening of channels, and `ready`.
const SETUP_MAX: Duration = Duration::from_secs(15);
/// Longest wait for the other end's report after the test.
const REPORT_MAX: Duration = Duration::from_secs(10);
/// Most bytes that are read before answers are sent.
const READ_MAX: usize = 512 << 10;
/// Number of coalesced reads at once. It is small, and messages are taken at once, so that data
/// that is read, decrypted, reassembled and delivered stays within the second-level cache.
const BATCH: usize = 2;
/// Waits for sockets end at whole milliseconds; shorter waits are sleeps of [`STEP`].
const FINE: Duration = Duration::from_millis(1);
const STEP: Duration = Duration::from_micros(50);
const IDLE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Until both ends know that all channels are open.
    Setup,
    /// Messages are sent; since this time.
    Running(Instant),
    /// This end is done, and the other end's report may still come.
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
    transport: Transport,
    control: Option<ChannelId>,
    flows: Flows,
    phase: Phase,
    began: Instant,
    sampler: Sampler,
    outcome: Outcome,
    failure: Option<EndError>,
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
        let flows = Flows::new(plan.message_size);
        Self {
            side,
            plan,
            session,
            transport: Transport::new(socket, local, connection),
            control: None,
            flows,
            phase: Phase::Setup,
            began: now,
            sampler: Sampler::new(now),
            outcome: Outcome::default(),
            failure: None,
        }
    }

    /// Runs to the test's end, or until `stop`. `watch` gets each sample of this end, and the
    /// other end's latest one.
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
        self.transport.register(&poll)?;
        let mut batch = match self.plan.no_offload {
            true => ReceiveBatch::new(ReceiveBatch::CAPACITY_MAX),
            false => ReceiveBatch::for_coalescing(BATCH),
        };
        let mut seen = 0;
        while self.phase != Phase::Over {
            let received =
                self.receive(&mut batch)? | self.transport.receive_frames(&mut self.session)?;
            let now = Instant::now();
            self.handle_time(now, stop.load(Ordering::Relaxed));
            self.handle_events(now);
            self.fill(now);
            let sent = self.transport.transmit(&mut self.session, now)?;
            while let Some(sample) = self.outcome.own.get(seen) {
                watch(sample, self.outcome.peer.last());
                seen += 1;
            }
            if !received && !sent {
                self.wait(&mut poll, &mut events)?;
            }
        }
        self.session.close(Instant::now());
        let now = Instant::now();
        self.transport.transmit(&mut self.session, now)?;
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
            reliability: config::reliability(&self.plan),
            ..Init::default()
        }));
        let channels = self.session.channels_mut();
        let channels = channels.ok_or_else(|| EndError::Ended("no data channels".to_owned()))?;
        for (index, init) in inits.into_iter().enumerate() {
            let opened = channels.open(init, now);
            let channel = opened.map_err(|error| EndError::Ended(error.to_string()))?;
            match index {
                0 => self.control = Some(channel),
                _ => self.flows.push(channel),
            }
        }
        Ok(())
    }

    fn receive(&mut self, batch: &mut ReceiveBatch) -> Result<bool, EndError> {
        let mut bytes_read = 0;
        while bytes_read < READ_MAX {
            let Some(bytes) = self.transport.receive(&mut self.session, batch)? else {
                break;
            };
            bytes_read += bytes;
            self.handle_events(Instant::now());
            if batch.len() < batch.capacity() {
                break;
            }
        }
        Ok(bytes_read > 0)
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
                } else if now >= self.sampler.next {
                    self.sample(now);
                    self.sampler.next += self.plan.interval();
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
                    self.sampler.count(message.data.len());
                }
            }
            Event::BufferedLow { channel } => self.flows.mark_low(channel),
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
                    self.flows.push(channel);
                }
                _ => return,
            }
        }
        self.flows.mark_open(channel);
        let all_open = self.flows.are_open(self.plan.channels);
        if self.side == Side::Client && all_open && Some(channel) != self.control {
            self.send_control(&Control::Start, now);
        }
    }

    fn handle_control(&mut self, control: Control, now: Instant) {
        match (control, self.side, self.phase) {
            (Control::Start, Side::Server, Phase::Setup) => {
                self.send_control(&Control::Ready, now);
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

    /// Begins to send messages.
    fn start(&mut self, now: Instant) {
        self.phase = Phase::Running(now);
        self.sampler.start(&self.session, now, self.plan.interval());
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

    fn fill(&mut self, now: Instant) {
        if !matches!(self.phase, Phase::Running(_)) || !self.sends() {
            return;
        }
        let Some(channels) = self.session.channels_mut() else {
            return;
        };
        if let Err(failure) = self.flows.fill(channels, &self.plan, now) {
            self.fail(failure);
        }
    }

    fn wait(&mut self, poll: &mut Poll, events: &mut Events) -> Result<(), EndError> {
        let now = Instant::now();
        let timer = self.session.poll_timeout();
        let sample = match self.phase {
            Phase::Running(start) => Some(self.sampler.next.min(start + self.plan.time())),
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
        // The wait for sockets has whole milliseconds; the remainder is slept.
        let whole = Duration::from_millis(u64::try_from(wait.as_millis()).unwrap_or(1));
        match poll.poll(events, Some(whole)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            result => result.map_err(system("waiting for the socket")),
        }
    }

    fn sample(&mut self, now: Instant) -> Option<Sample> {
        let Phase::Running(start) = self.phase else {
            return None;
        };
        let since_start = now.saturating_duration_since(start);
        let sample = self.sampler.sample(&self.session, &self.flows, since_start);
        self.outcome.own.push(sample);
        if self.side == Side::Server {
            self.send_control(&Control::Sample(sample), now);
        }
        Some(sample)
    }

    /// Ends this end's part of the test.
    fn finish(&mut self, now: Instant) {
        let Phase::Running(start) = self.phase else {
            return;
        };
        // A very short last interval is merged into the one before.
        let last = self.outcome.own.last().map_or(0.0, |it| it.at_ms);
        let since = now.saturating_duration_since(start).as_secs_f64() * 1e3;
        if since - last < 0.01 * self.plan.interval_ms as f64 {
            self.outcome.own.pop();
        }
        let side = std::mem::replace(&mut self.side, Side::Client);
        let sample = self.sample(now);
        self.side = side;
        if let (Side::Server, Some(sample)) = (self.side, sample) {
            self.send_control(&Control::Report(sample), now);
        }
        if let Some(path) = self.session.path() {
            self.outcome.path = Some(described(&path));
        }
        self.phase = Phase::Ending { since: now };
    }

    fn send_control(&mut self, control: &Control, now: Instant) {
        if let (Some(channel), Some(channels)) = (self.control, self.session.channels_mut()) {
            let told = channels.send(channel, Message::text(control.to_text()), now);
            if let Err(error) = told {
                tracing::debug!(%error, "cannot send a message on the control channel");
            }
        }
    }

    fn fail(&mut self, failure: EndError) {
        self.failure.get_or_insert(failure);
        self.phase = Phase::Over;
    }
}

/// Most samples that a plan can have; a peer may send more.
const SAMPLES_MAX: usize = 40_000;

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
