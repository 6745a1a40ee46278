//! One viewer of an RTSP server.
//!
//! ```text
//! dial (signalling thread) ─► MediaTransport (the engine's thread)
//!   TCP ──► rtsp::Client ─┬─ events: tracks, ports, playing, closed
//!                         └─ frames ─┐
//!   UDP pairs ───────────────────────┴─► Media ─► Counts; reports go back
//! ```
//!
//! All viewers read into one buffer of the engine's, where whole packets are counted: a
//! viewer keeps only a packet that the read cut. A server ends a viewer by closing the
//! connection, by TEARDOWN or by RTCP BYE of every track; the viewer's failure says which.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use glassline_media::{Ssrc, TrackIndex, WallClock};
use glassline_net::ReceiveBatch;
use glassline_rtsp::client::{Client, Config, Event, RequestedTransport};
use glassline_rtsp::sdp::Description;
use glassline_rtsp::transport::Transport;
use url::Url;

use super::counts::Counts;
use super::misconduct::{self, Act, Misconduct};
use super::{Conduct, Kinds, Mode, RtspTransport};

mod control_connection;
mod dial;
mod media;
mod ports;
mod track;

pub(crate) use control_connection::ControlConnection;
pub(super) use dial::ControlTeardown;
pub(crate) use dial::{Connection, connect};
pub(crate) use ports::Ports;

use media::Media;
use track::Track;

/// Settings of one viewer.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    pub(super) url: Url,
    pub(super) transport: RtspTransport,
    pub(super) mode: Mode,
    pub(super) conduct: Conduct,
    pub(super) kinds: Kinds,
    /// Options of its UDP sockets.
    pub(super) sockets: glassline_net::Options,
    pub(super) wall: WallClock,
}

/// Buffers that all viewers of a thread read into.
pub(super) struct Buffers<'a> {
    pub(super) batch: &'a mut ReceiveBatch,
    /// Buffer for TCP streams; about ten frames fit.
    pub(super) stream: &'a mut [u8],
}

/// Length of [`Buffers::stream`], in bytes.
pub(super) const STREAM_BUFFER_BYTES: usize = 256 << 10;

/// Connections of a viewer.
pub(super) struct MediaTransport {
    client: Client,
    stream: ControlConnection,
    server: SocketAddr,
    local: SocketAddr,
    profile: Profile,
    media: Media,
    /// UDP ports of each track, in the order of [`Media::tracks`]; empty over TCP.
    ports: Vec<Ports>,
    /// Descriptors opened since the owner last asked.
    opened: Vec<RawFd>,
    reporter: Reporter,
    misconduct: Misconduct,
    /// When to look for the server's RTCP reports, if they make no event.
    control_at: Instant,
    /// When to send again what the socket did not take.
    retry_at: Option<Instant>,
}

/// Our identity in RTCP, and when the next report is due.
struct Reporter {
    ssrc: Ssrc,
    cname: String,
    next: Option<Instant>,
}

/// Time between two reports of a viewer, varied by half (RFC 3550 §6.2).
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Time between two looks for the server's reports, which come every few seconds.
const CONTROL_INTERVAL: Duration = Duration::from_millis(250);

/// Time until a write is retried that the socket did not take.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Longest wait for a response: the slowest server may need it for a hundred viewers that
/// join at once.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);

impl MediaTransport {
    /// Requests the description of the stream on a fresh connection.
    pub(super) fn begin(connection: Connection, profile: Profile, now: Instant) -> Self {
        let mut config = Config::new(profile.url.clone(), rand::random());
        config.user_agent = concat!("glassline/", env!("CARGO_PKG_VERSION")).to_owned();
        config.response_timeout = RESPONSE_TIMEOUT;
        let mut client = Client::new(config);
        client.start(now);
        Self {
            client,
            opened: vec![connection.stream.as_raw_fd()],
            stream: connection.stream,
            server: connection.server,
            local: connection.local,
            media: Media::new(profile.mode, profile.wall),
            ports: Vec::new(),
            reporter: Reporter {
                ssrc: Ssrc(rand::random()),
                cname: format!("{:016x}", rand::random::<u64>()),
                next: None,
            },
            misconduct: Misconduct::new(profile.conduct),
            control_at: now,
            retry_at: None,
            profile,
        }
    }

    /// Descriptors opened since the last call, which are to be waited for.
    pub(super) fn take_opened(&mut self) -> Vec<RawFd> {
        std::mem::take(&mut self.opened)
    }

    /// Reads what waits at the sockets.
    pub(super) fn receive(&mut self, now: Instant, buffers: &mut Buffers<'_>, counts: &mut Counts) {
        if self.misconduct.may_read(now) == 0 || self.client.is_closed() {
            return;
        }
        let mut read = self.read_stream(now, buffers.stream, counts);
        for (index, ports) in self.ports.iter().enumerate() {
            let media = &mut self.media;
            let received = ports.receive(false, buffers.batch, |arrived, packet| {
                media.take_datagram(arrived, index, packet, counts);
            });
            match received {
                Ok(count) => read |= count > 0,
                Err(error) => {
                    return self.end(counts, format!("cannot receive datagrams: {error}"));
                }
            }
        }
        // Where the kernel stamps arrivals, reports can wait. Elsewhere a report makes an
        // event; one that comes together with media waits for the timer.
        let is_due = if self.profile.sockets.receive_timestamps {
            now >= self.control_at
        } else {
            !read
        };
        if is_due {
            self.control_at = now + CONTROL_INTERVAL;
            self.receive_control(buffers.batch, counts);
        }
        self.settle(now, counts);
    }

    /// Handles timers; call it at [`MediaTransport::poll_timeout`] or later.
    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        buffers: &mut Buffers<'_>,
        counts: &mut Counts,
    ) {
        if self.misconduct.is_stalled() || self.client.is_closed() {
            return;
        }
        match self.misconduct.due(now) {
            Act::Nothing => {}
            Act::Stall => return,
            Act::Vanish => {
                return self.end(counts, "vanished, as its conduct demands".to_owned());
            }
            Act::Garbage => self.send_garbage(),
            Act::Read => self.receive(now, buffers, counts),
        }
        if self.reporter.next.is_some_and(|at| at <= now) {
            self.receive_control(buffers.batch, counts);
            self.report(now);
        }
        self.client.handle_timeout(now);
        self.settle(now, counts);
    }

    /// When to call [`MediaTransport::handle_timeout`].
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        if self.misconduct.is_stalled() || self.client.is_closed() {
            return None;
        }
        let deadlines = [
            self.client.poll_timeout(),
            self.reporter.next,
            self.misconduct.deadline(),
            self.retry_at,
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Leaves; returns the farewell that another thread waits for, if there is one.
    pub(super) fn leave(mut self, now: Instant) -> Option<ControlTeardown> {
        if self.misconduct.is_stalled() {
            return None;
        }
        self.client.leave(now);
        (!self.client.is_closed()).then_some(ControlTeardown {
            stream: self.stream,
            client: self.client,
        })
    }

    /// Reads the TCP stream; returns whether anything was there.
    fn read_stream(&mut self, now: Instant, buffer: &mut [u8], counts: &mut Counts) -> bool {
        let mut any = false;
        loop {
            let room = buffer.len().min(self.misconduct.may_read(now));
            if room == 0 {
                return any;
            }
            match self.stream.read(&mut buffer[..room]) {
                Ok(0) => {
                    self.client.handle_end();
                    return true;
                }
                Ok(count) => {
                    any = true;
                    self.misconduct.has_read(count);
                    let media = &mut self.media;
                    self.client.handle_data(now, &buffer[..count], |frame| {
                        media.take_frame(now, &frame, counts);
                    });
                    self.handle_events(now, counts);
                    // The buffer was not filled, so the socket is empty, and an end makes an
                    // event. TLS returns one record at a time.
                    if count < room && self.stream.protection().is_none() {
                        return true;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return any,
                Err(error) => {
                    self.end(counts, format!("connection to {}: {error}", self.server));
                    return true;
                }
            }
        }
    }

    fn receive_control(&mut self, batch: &mut ReceiveBatch, counts: &mut Counts) {
        for (index, ports) in self.ports.iter().enumerate() {
            let media = &mut self.media;
            // An error here shows at the media's port as well, if it lasts.
            let _ = ports.receive(true, batch, |arrived, packet| {
                media.take_datagram(arrived, index, packet, counts);
            });
        }
    }

    /// Handles events after any input, sends what is due, and detects the end.
    fn settle(&mut self, now: Instant, counts: &mut Counts) {
        self.handle_events(now, counts);
        if self.media.all_ended() {
            let reason = "the server ended the stream (RTCP BYE)";
            return self.end(counts, reason.to_owned());
        }
        if self.media.has_begun() && self.reporter.next.is_none() {
            self.misconduct.begin(now);
            self.reporter.next = Some(now + REPORT_INTERVAL.mul_f64(rand::random_range(0.1..0.9)));
        }
        self.flush(now, counts);
    }

    fn handle_events(&mut self, now: Instant, counts: &mut Counts) {
        while let Some(event) = self.client.poll_event() {
            match event {
                Event::Described(description) => {
                    if let Err(reason) = self.set_up(now, &description, counts) {
                        self.end(counts, reason);
                    }
                }
                Event::SetUp { track, transport } => self.was_set_up(track, &transport),
                Event::Playing { .. } => counts.connect(now, self.stream.protection()),
                Event::Closed(reason) | Event::LeftOut { reason, .. } => {
                    self.end(counts, reason.to_string());
                }
                // A viewer publishes nothing.
                Event::Recording => {}
            }
        }
    }

    /// Chooses tracks and binds ports for them.
    fn set_up(
        &mut self,
        now: Instant,
        description: &Description,
        counts: &mut Counts,
    ) -> Result<(), String> {
        let wanted = self.media.choose(description, self.profile.kinds, counts);
        let mut transports = Vec::with_capacity(wanted.len());
        for track in wanted {
            let transport = match self.profile.transport {
                RtspTransport::Tcp | RtspTransport::Http => RequestedTransport::Interleaved,
                RtspTransport::Udp => {
                    let (local, server) = (self.local.ip(), self.server.ip());
                    let ports = Ports::bind(local, server, &self.profile.sockets)
                        .map_err(|error| format!("cannot bind a pair of UDP ports: {error}"))?;
                    let numbers = ports.numbers();
                    self.opened.extend(ports.descriptors());
                    self.ports.push(ports);
                    RequestedTransport::Udp { ports: numbers }
                }
            };
            transports.push((track, transport));
        }
        self.client.set_up(now, &transports);
        Ok(())
    }

    fn was_set_up(&mut self, track: TrackIndex, transport: &Transport) {
        let Some(index) = self.media.position(track) else {
            return;
        };
        let Some(ports) = self.ports.get_mut(index) else {
            return;
        };
        let source = transport.source.as_ref().and_then(|text| text.parse().ok());
        ports.set_server(source.unwrap_or(self.server.ip()), transport.server_port);
        // Opens the way back through a firewall of ours, as players do it.
        let hello = track::write_report(self.reporter.ssrc, &self.reporter.cname, None);
        ports.send_control(&hello);
    }

    /// Sends a receiver report for each track.
    fn report(&mut self, now: Instant) {
        let reporter = &mut self.reporter;
        reporter.next = Some(now + REPORT_INTERVAL.mul_f64(rand::random_range(0.5..1.5)));
        for (index, (track, state)) in self.media.tracks().enumerate() {
            let Some(block) = state.report(now) else {
                continue;
            };
            let packet = track::write_report(reporter.ssrc, &reporter.cname, Some(block));
            match self.ports.get(index) {
                Some(ports) => ports.send_control(&packet),
                None => self.client.send_control(track, &packet),
            };
        }
    }

    fn flush(&mut self, now: Instant, counts: &mut Counts) {
        self.retry_at = None;
        while !self.client.output().is_empty() && !self.client.is_closed() {
            match self.stream.write(self.client.output()) {
                Ok(count) => self.client.advance(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.retry_at = Some(now + RETRY_INTERVAL);
                    return;
                }
                Err(error) => {
                    return self.end(counts, format!("connection to {}: {error}", self.server));
                }
            }
        }
        if self
            .stream
            .flush()
            .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        {
            self.retry_at = Some(now + RETRY_INTERVAL);
        }
    }

    /// Sends garbage between requests, as a broken or hostile client does.
    fn send_garbage(&mut self) {
        if self.client.output().is_empty() {
            let bytes = misconduct::stream_garbage();
            // It does not matter whether garbage arrives.
            let _ = self.stream.write(&bytes);
        }
        for ports in &self.ports {
            ports.send_control(&misconduct::datagram_garbage());
            ports.send_media(&misconduct::datagram_garbage());
        }
    }

    fn end(&mut self, counts: &mut Counts, reason: String) {
        counts.end(reason);
        self.client.handle_end();
        while self.client.poll_event().is_some() {}
    }
}

#[cfg(test)]
pub(crate) mod test_server;
#[cfg(test)]
mod tests;
