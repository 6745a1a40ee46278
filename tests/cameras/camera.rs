//! The fake camera's end of one RTSP connection, without sockets and clocks.
//!
//! ```text
//! bytes of the client ─► take ─► responses ─┐
//! time                ─► turn ─► packets  ──┴► poll: bytes, datagrams, the end
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_rtsp::interleaved::{Demultiplexer, Item, Reader};
use glassline_rtsp::message::{Limits, Message, Method, Request};
use glassline_rtsp::transport::Transport;

use super::description::description;
use super::device::Device;
use super::lock::Lock;
use super::packet_source::{PacketSource, Wire};
use super::quirk::{Answer, Quirk, Target};

/// Something that the connection sends.
#[derive(Debug)]
pub(crate) enum Output {
    /// Bytes within the connection.
    Bytes(Vec<u8>),
    /// A datagram from the camera's port of media or of control, to a port of the client.
    Datagram {
        port: u16,
        is_control: bool,
        bytes: Vec<u8>,
    },
    /// The connection is closed.
    Close,
}

/// The camera's end of a connection.
pub(crate) struct Connection {
    pub(super) device: Arc<Device>,
    reader: Reader,
    lock: Lock,
    /// Where the packets of each track go.
    destinations: BTreeMap<usize, Destination>,
    packets: Option<PacketSource>,
    playing_since: Option<Instant>,
    last_report: Instant,
    last_request: Instant,
    keep_alives: u32,
    /// When the camera sent a request of its own.
    last_asked: Option<Instant>,
    /// The URL that was described last.
    described: String,
    has_session: bool,
    pub(super) output: VecDeque<Output>,
}

/// The server of a track's RTP; its RTCP goes to the next one.
#[derive(Clone, Copy)]
enum Destination {
    Channel(u8),
    Port(u16),
}

/// The camera's address, and the one to which it redirects where that is another.
const HOST: &str = "127.0.0.1";
const OTHER_HOST: &str = "127.0.0.2";

/// The identifier of every session.
const SESSION: &str = "1234abcd";

/// Time without a request after which a session ends, unless a quirk says otherwise. The packets of
/// a client within the connection are no sign of life to many cameras.
const SESSION_SECONDS: u32 = 60;

/// The camera's ports of media and control, as its responses name them.
pub(crate) type Ports = (u16, u16);

impl Connection {
    pub(crate) fn open(device: Arc<Device>, now: Instant) -> Connection {
        device.ledger(|it| it.connections += 1);
        Connection {
            lock: Lock::new(&device),
            device,
            reader: Reader::new(Demultiplexer::new(Limits::default(), 1 << 20)),
            destinations: BTreeMap::new(),
            packets: None,
            playing_since: None,
            last_report: now,
            last_request: now,
            keep_alives: 0,
            last_asked: None,
            described: String::new(),
            has_session: false,
            output: VecDeque::new(),
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Output> {
        self.output.pop_front()
    }

    /// Takes bytes of the client.
    pub(crate) fn take(&mut self, now: Instant, bytes: &[u8], ports: Ports) {
        let mut requests = Vec::new();
        let mut reports = Vec::new();
        let read = self.reader.push(bytes, |item| match item {
            Item::Message(Message::Request(request)) => requests.push(request),
            Item::Message(Message::Response(_)) => {}
            Item::Frame { payload, .. } => reports.push(payload.to_vec()),
        });
        if read.is_err() {
            return self.output.push_back(Output::Close);
        }
        for report in reports {
            self.take_report(now, &report);
        }
        for request in requests {
            self.last_request = now;
            self.answer(now, &request, ports);
        }
    }

    /// Notes an RTCP packet of the client.
    pub(crate) fn take_report(&mut self, now: Instant, bytes: &[u8]) {
        self.last_report = now;
        let heeds = self.device.row.has(Quirk::HeedsRequests);
        if let Some(packets) = self
            .packets
            .as_mut()
            .filter(|_| heeds && asks_for_keyframe(bytes))
        {
            packets.begin_film();
        }
        self.device.ledger(|it| it.reports += 1);
    }

    /// Handles the end of the connection.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.has_session) {
            self.device.ledger(|it| it.left_behind += 1);
        }
    }

    /// Returns when [`Self::turn`] must be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let since = self.playing_since?;
        let due = self.packets.as_ref().map(|packets| since + packets.due());
        due.into_iter().chain(self.end_due()).min()
    }

    /// Returns when a playing session ends by a quirk or without a sign of life.
    fn end_due(&self) -> Option<Instant> {
        let since = self.playing_since?;
        let quirks = self.device.row.quirks.iter();
        let ends = quirks.filter_map(|quirk| match quirk {
            Quirk::NeedsReports(limit) => Some(self.last_report + seconds(*limit)),
            Quirk::Restarts(after) => Some(since + seconds(*after)),
            _ => None,
        });
        let silent = self.last_request + seconds(self.session_seconds());
        ends.chain([silent]).min()
    }

    /// Sends what is due.
    pub(crate) fn turn(&mut self, now: Instant) {
        let Some(since) = self.playing_since else {
            return;
        };
        if self.end_due().is_some_and(|at| at <= now) {
            self.playing_since = None;
            return self.output.push_back(Output::Close);
        }
        while let Some(packets) = self
            .packets
            .as_mut()
            .filter(|packets| since + packets.due() <= now)
        {
            for wire in packets.next() {
                self.send(wire);
            }
            self.interrupt(now);
        }
    }

    /// Sends what is no packet between those of two frames.
    fn interrupt(&mut self, now: Instant) {
        let device = Arc::clone(&self.device);
        for quirk in device.row.quirks {
            match quirk {
                Quirk::BytesBetween(bytes) => {
                    self.output.push_back(Output::Bytes(bytes.to_vec()));
                }
                Quirk::Asks(method) if self.last_asked.is_none_or(|at| at + seconds(1) <= now) => {
                    let count = u32::from(self.last_asked.replace(now).is_some());
                    let request = format!(
                        "{method} rtsp://camera/live RTSP/1.0\r\nCSeq: {count}\r\nSession: {SESSION}\r\n\r\n"
                    );
                    self.output.push_back(Output::Bytes(request.into_bytes()));
                }
                _ => {}
            }
        }
    }

    fn send(&mut self, wire: Wire) {
        let Wire {
            track,
            is_control,
            bytes,
        } = wire;
        self.output.push_back(match self.destinations.get(&track) {
            None => return,
            Some(Destination::Channel(channel)) => {
                let is_second = is_control ^ self.device.row.has(Quirk::SwappedChannels);
                let mut framed = vec![b'$', channel + u8::from(is_second)];
                framed.extend((bytes.len() as u16).to_be_bytes());
                framed.extend(bytes);
                Output::Bytes(framed)
            }
            Some(Destination::Port(port)) => Output::Datagram {
                port: port + u16::from(is_control),
                is_control,
                bytes,
            },
        });
    }

    fn answer(&mut self, now: Instant, request: &Request, ports: Ports) {
        let device = Arc::clone(&self.device);
        let row = device.row;
        if request.uri.contains(OTHER_HOST) && request.headers.get("Authorization").is_some() {
            device.ledger(|it| it.told_elsewhere += 1);
        }
        let first = request.headers.iter().next().map(|(name, _)| name);
        if row.has(Quirk::NumberFirst) && !first.is_some_and(|it| it.eq_ignore_ascii_case("CSeq")) {
            return self.reply(request, 400, &[], b"");
        }
        let is_keep_alive = matches!(
            request.method,
            Method::Options | Method::GetParameter | Method::SetParameter
        );
        if self.playing_since.is_some() && is_keep_alive && self.keep_alive(request) {
            return;
        }
        if request.method != Method::Options && !self.lock.opens(request) {
            let challenges = self.lock.challenges();
            self.reply(request, 401, &challenges, b"");
            if row.has(Quirk::ClosesAfterChallenge) {
                self.output.push_back(Output::Close);
            }
            return;
        }
        let session = ("Session", SESSION.to_owned());
        match request.method {
            Method::Options => {
                let mut quirks = row.quirks.iter();
                let named = quirks.find_map(|quirk| match quirk {
                    Quirk::Public(methods) => Some(*methods),
                    _ => None,
                });
                let public =
                    named.unwrap_or("OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN, GET_PARAMETER");
                self.reply(request, 200, &[("Public", public.to_owned())], b"");
            }
            Method::GetParameter | Method::SetParameter => {
                self.reply(request, 200, &[session], b"");
            }
            Method::Describe => self.describe(request),
            Method::Setup => self.set_up(request, ports),
            Method::Play => self.play(now, request),
            Method::Teardown => {
                self.has_session = false;
                self.playing_since = None;
                self.device.ledger(|it| {
                    it.teardowns += 1;
                    it.busy = false;
                });
                if !row.has(Quirk::SilentTeardown) {
                    self.reply(request, 200, &[], b"");
                }
            }
            _ => self.reply(request, 501, &[], b""),
        }
    }

    fn play(&mut self, now: Instant, request: &Request) {
        let device = Arc::clone(&self.device);
        if device.row.has(Quirk::NoRanges) && request.headers.get("Range").is_some() {
            return self.reply(request, 457, &[], b"");
        }
        self.playing_since = Some(now);
        (self.last_report, self.packets) = (now, Some(device.packets()));
        let session = ("Session", SESSION.to_owned());
        let mut headers = vec![session, ("Range", "npt=now-".to_owned())];
        for quirk in device.row.quirks {
            if let Quirk::PacketsBeforeAnswer(info) = quirk {
                self.turn(now);
                headers.push(("RTP-Info", (*info).to_owned()));
            }
        }
        self.reply(request, 200, &headers, b"");
    }

    /// Answers a keep-alive by the row's quirk; returns false without one.
    fn keep_alive(&mut self, request: &Request) -> bool {
        let quirks = self.device.row.quirks.iter();
        let answer = quirks.copied().find_map(|quirk| match quirk {
            Quirk::KeepAlive(answer) => Some(answer),
            _ => None,
        });
        self.keep_alives += 1;
        self.device.ledger(|it| it.keep_alives += 1);
        match answer {
            None => return false,
            Some(Answer::None) => {}
            Some(Answer::Status(status)) => self.reply(request, status, &[], b""),
            Some(Answer::BehindWith400) => self.reply_numbered(request, -1, 400, &[], b""),
            Some(Answer::FreshNonce) => {
                if !(self.lock.opens(request) && self.keep_alives % 2 == 1) {
                    return false;
                }
                self.lock.renew();
                let challenges = self.lock.challenges();
                self.reply(request, 401, &challenges, b"");
            }
        }
        true
    }

    fn describe(&mut self, request: &Request) {
        let device = Arc::clone(&self.device);
        let row = device.row;
        let redirect = row.quirks.iter().find_map(|quirk| match quirk {
            Quirk::Redirect(status, target) => Some((*status, *target)),
            _ => None,
        });
        let is_moved = request.uri.ends_with("/moved");
        match redirect {
            Some((status, target)) if !is_moved || target == Target::Itself => {
                let root = request.uri.trim_end_matches("/moved");
                let root = root.rsplit_once('/').map_or(root, |(root, _)| root);
                let location = match target {
                    Target::Absolute => format!("{root}/moved"),
                    Target::Relative => "/moved".to_owned(),
                    Target::Itself => request.uri.clone(),
                    Target::OtherHost => root.replace(HOST, OTHER_HOST) + "/moved",
                    Target::Metadata => "rtsp://169.254.169.254/latest".to_owned(),
                };
                self.reply(request, status, &[("Location", location)], b"");
            }
            _ if row.has(Quirk::OneSession) && device.ledger(|it| it.busy) => {
                device.ledger(|it| it.refused += 1);
                self.reply(request, 453, &[], b"");
            }
            _ => {
                self.described.clone_from(&request.uri);
                let base = ("Content-Base", format!("{}/", request.uri));
                let kind = ("Content-Type", "application/sdp".to_owned());
                let body = description(row, &device.media);
                self.reply(request, 200, &[base, kind], &body);
            }
        }
    }

    fn set_up(&mut self, request: &Request, ports: Ports) {
        let number = request.uri.trim_end_matches('/').rsplit_once("trackID=");
        let is_whole = request.uri.trim_end_matches('/') == self.described;
        // A description without a URL for its track means the URL of the stream.
        let alone = is_whole.then_some(0);
        let track = number.and_then(|(_, number)| number.parse().ok()).or(alone);
        let exact = track.map(|track: usize| format!("{}/trackID={track}", self.described));
        let is_inexact =
            self.device.row.has(Quirk::ExactUrls) && exact != Some(request.uri.clone());
        let Some(track) = track.filter(|_| !is_inexact) else {
            return self.reply(request, 404, &[], b"");
        };
        let asked = request.headers.get("Transport").unwrap_or_default();
        let Some(transport) = Transport::parse_list(asked).into_iter().next() else {
            return self.reply(request, 461, &[], b"");
        };
        let destination = match (transport.interleaved, transport.client_port) {
            (Some((channel, _)), _) => Destination::Channel(channel),
            (None, Some((port, _))) => Destination::Port(port),
            (None, None) => return self.reply(request, 461, &[], b""),
        };
        self.has_session = true;
        self.device.ledger(|it| it.busy = true);
        let span = |first: u16| format!("{first}-{}", first + 1);
        let server = format!("{}-{}", ports.0, ports.1);
        let (usual, number) = match destination {
            Destination::Channel(channel) => (
                "RTP/AVP/TCP;unicast;interleaved={channels}",
                u16::from(channel),
            ),
            Destination::Port(port) => (
                "RTP/AVP;unicast;client_port={client};server_port={server}",
                port,
            ),
        };
        let quirks = self.device.row.quirks.iter();
        let template = quirks.copied().find_map(|quirk| match quirk {
            Quirk::Transport(text) => Some(text),
            _ => None,
        });
        let answered = template.unwrap_or(usual).replace("{server}", &server);
        let answered = answered.replace("{channels}", &span(number));
        let answered = answered.replace("{client}", &span(number));
        // A camera that answers other channels sends on these.
        let answer = Transport::parse_list(&answered).into_iter().next();
        let is_as_asked = self.device.row.has(Quirk::OnChannelsAsked);
        let channel = answer
            .and_then(|it| it.interleaved)
            .filter(|_| !is_as_asked);
        let destination = match (destination, channel) {
            (Destination::Channel(_), Some((channel, _))) => Destination::Channel(channel),
            (asked, _) => asked,
        };
        self.destinations.insert(track, destination);
        let mut quirks = self.device.row.quirks.iter();
        let tail = quirks.find_map(|quirk| match quirk {
            Quirk::SessionTail(tail) => Some((*tail).to_owned()),
            _ => None,
        });
        let usual = || format!(";timeout={}", self.session_seconds());
        let session = SESSION.to_owned() + &tail.unwrap_or_else(usual);
        let mut headers = vec![("Session", session)];
        if !answered.is_empty() {
            headers.push(("Transport", answered));
        }
        self.reply(request, 200, &headers, b"");
    }

    fn session_seconds(&self) -> u32 {
        let mut quirks = self.device.row.quirks.iter();
        let named = quirks.find_map(|quirk| match quirk {
            Quirk::SessionSeconds(seconds) => Some(*seconds),
            _ => None,
        });
        named.unwrap_or(SESSION_SECONDS)
    }
}

/// Whether a compound RTCP packet has a PLI or FIR (RFC 4585 §6.3.1, RFC 5104 §4.3.1).
fn asks_for_keyframe(mut bytes: &[u8]) -> bool {
    while let [first, kind, high, low, ..] = *bytes {
        if kind == 206 && matches!(first & 0x1f, 1 | 4) {
            return true;
        }
        let length = 4 * (1 + usize::from(u16::from_be_bytes([high, low])));
        bytes = bytes.get(length..).unwrap_or_default();
    }
    false
}

fn seconds(number: u32) -> Duration {
    Duration::from_secs(number.into())
}
