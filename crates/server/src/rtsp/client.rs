//! One client: its connection, its session, its place in the stream.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Stream, ViewerToken};
use glassline_rtsp::server::{Connection, Ends, Frame};
use smallvec::SmallVec;

use super::counters::Counters;
use super::files::File;
use super::view::ClientView;
use super::wire::Wire;
use crate::egress::rtsp::connection_writer::{Channels, ConnectionWriter, Playing, Pumped, Sent};
use crate::egress::rtsp::cursor::{Budget, Cursor};
use crate::egress::rtsp::groups::MulticastMembership;
use crate::egress::rtsp::srtp::{Keyring, Opened, TrackSrtps};
use crate::egress::rtsp::stream_reader::StreamReader;
use crate::egress::rtsp::udp::Target;
use crate::ingest::rtsp::Recording;
use crate::runtime::Key;

/// Takes a frame of a client.
fn hear(
    recording: &mut Option<Box<Recording>>,
    session: &mut Option<Box<Session>>,
    frame: &Frame<'_>,
    now: Instant,
    counters: &Counters,
) {
    let (track, control) = (frame.track, frame.control);
    if let Some(recording) = recording {
        if !recording.take(track, control, frame.payload, now) {
            counters.srtp_refused.add(1);
        }
    } else if let Some(session) = session {
        session.hear(track, control, frame.payload, counters);
    }
}

/// Responses that may wait behind a frame before further ones are left with the
/// connection, which has a bound of its own.
const RESPONSE_BYTES_MAX: usize = 64 << 10;

/// A client of one thread.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) wire: Wire,
    pub(super) connection: Connection,
    pub(super) outlet: ConnectionWriter,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) session: Option<Box<Session>>,
    /// What it publishes; then it has no session.
    pub(super) recording: Option<Box<Recording>>,
    /// What it was told of the keys of tracks that it sets up.
    pub(super) keyring: Option<Box<Keyring>>,
    /// It is the way from server to client of the tunnel with this cookie.
    pub(super) cookie: Option<Box<str>>,
    /// The kernel takes no more for now.
    pub(super) is_full: bool,
    /// When the kernel took something, or nothing was to be taken.
    pub(super) progressed: Instant,
    /// Everything was said; it is closed once that is written, at the latest then.
    pub(super) closing: Option<Instant>,
}

/// What a client has set up.
#[derive(Debug)]
pub(super) struct Session {
    /// The stream on this thread.
    pub(super) source: Key,
    pub(super) stream: Arc<Stream>,
    /// For tracks within the connection.
    pub(super) channels: Channels,
    /// For tracks by UDP.
    pub(super) targets: SmallVec<[Option<Target>; 2]>,
    /// For tracks that go as SRTP, either way.
    pub(super) seals: TrackSrtps,
    /// For tracks by multicast.
    pub(super) seats: SmallVec<[Option<MulticastMembership>; 2]>,
    /// It got a chunk of datagrams, and gets the next one then.
    pub(super) paced_until: Option<Instant>,
    /// If it is a file of the media folder.
    pub(super) file: Option<File>,
    /// While it plays.
    pub(super) place: Option<Cursor>,
    /// Its skips were logged.
    pub(super) told: bool,
    /// Counts it among the stream's viewers while it plays.
    pub(super) viewer: Option<ViewerToken>,
    /// Bytes sent, with those of other kinds.
    pub(super) bytes: u64,
    /// Skips and skipped entries of earlier PLAYs.
    pub(super) skips_before: (u32, u64),
}

/// What to do with a client after it was pumped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Served {
    /// Nothing.
    Stays,
    /// Let go of it.
    Ends,
}

impl Session {
    pub(super) fn new(source: Key, stream: Arc<Stream>) -> Self {
        Self {
            source,
            stream,
            channels: Channels::new(),
            targets: SmallVec::new(),
            seals: TrackSrtps::new(),
            seats: SmallVec::new(),
            paced_until: None,
            file: None,
            place: None,
            told: false,
            viewer: None,
            bytes: 0,
            skips_before: (0, 0),
        }
    }

    /// The tracks that are set up, a bit each.
    pub(super) fn tracks(&self) -> u32 {
        let within = self.channels.iter().map(Option::is_some).enumerate();
        let beside = self.targets.iter().map(Option::is_some).enumerate();
        let shared = self.seats.iter().map(Option::is_some).enumerate();
        let all = within.chain(beside).chain(shared);
        let set_up = all.filter(|(_, is_set_up)| *is_set_up);
        set_up.fold(0, |set, (track, _)| {
            set | crate::egress::rtsp::cursor::bit(track)
        })
    }

    /// Its media goes by UDP.
    pub(super) fn is_udp(&self) -> bool {
        self.targets.iter().any(Option::is_some)
    }

    /// Its media goes to groups.
    pub(super) fn is_multicast(&self) -> bool {
        self.seats.iter().any(Option::is_some)
    }

    /// Its media goes within the connection.
    pub(super) fn is_interleaved(&self) -> bool {
        self.channels.iter().any(Option::is_some)
    }

    /// Drops a track, or all.
    pub(super) fn forget(&mut self, track: usize) {
        if let Some(channels) = self.channels.get_mut(track) {
            *channels = None;
        }
        if let Some(target) = self.targets.get_mut(track) {
            *target = None;
        }
        if let Some(seat) = self.seats.get_mut(track) {
            *seat = None;
        }
        if let Some(seal) = self.seals.get_mut(track) {
            *seal = None;
        }
        let tracks = self.tracks();
        if let Some(place) = &mut self.place {
            place.keep(tracks);
        }
    }

    /// Takes what a client says of a track that it gets; false if it is not the client
    /// who says so.
    pub(super) fn hear(
        &mut self,
        track: usize,
        control: bool,
        bytes: &[u8],
        counters: &Counters,
    ) -> bool {
        let seal = self.seals.get_mut(track).and_then(Option::as_mut);
        // It sends no media: an empty datagram opens a way through a NAT.
        let Some(seal) = seal.filter(|_| control) else {
            return true;
        };
        match seal.open_control(bytes) {
            Opened::Authentic => counters.srtcp_opened.add(1),
            Opened::Unknown => {}
            Opened::Refused => {
                counters.srtcp_refused.add(1);
                return false;
            }
        }
        true
    }

    /// Stops the stream; the session stays.
    pub(super) fn rest(&mut self) {
        if let Some(place) = self.place.take() {
            self.skips_before.0 += place.skips();
            self.skips_before.1 += place.skipped();
        }
        self.viewer = None;
        self.set_seats_playing(false);
    }

    /// Has what it set up by multicast sent, or no longer.
    pub(super) fn set_seats_playing(&mut self, plays: bool) {
        for seat in self.seats.iter_mut().flatten() {
            seat.set_playing(plays);
        }
    }

    fn skips(&self) -> (u32, u64) {
        let (skips, skipped) = self.skips_before;
        let place = self.place.as_ref();
        (
            skips + place.map_or(0, Cursor::skips),
            skipped + place.map_or(0, Cursor::skipped),
        )
    }
}

impl Client {
    pub(super) fn new(wire: Wire, connection: Connection, ends: Ends, now: Instant) -> Self {
        Self {
            wire,
            connection,
            outlet: ConnectionWriter::default(),
            peer: ends.peer,
            local: ends.local,
            session: None,
            recording: None,
            keyring: None,
            cookie: None,
            is_full: false,
            progressed: now,
            closing: None,
        }
    }

    /// Takes what came over its connection.
    pub(super) fn take(&mut self, bytes: &[u8], now: Instant, counters: &Counters) {
        let (recording, session) = (&mut self.recording, &mut self.session);
        self.connection.handle_data(now, bytes, |frame| {
            hear(recording, session, &frame, now, counters);
        });
    }

    /// Takes what came over the other connection of its tunnel.
    pub(super) fn take_tunnelled(&mut self, base64: &[u8], now: Instant, counters: &Counters) {
        let (recording, session) = (&mut self.recording, &mut self.session);
        self.connection.handle_tunnel_data(now, base64, |frame| {
            hear(recording, session, &frame, now, counters);
        });
    }

    /// Puts responses in line.
    pub(super) fn take_responses(&mut self) {
        let responses = self.connection.transmit();
        if responses.is_empty() || self.outlet.between_bytes() > RESPONSE_BYTES_MAX {
            return;
        }
        let bytes = responses.len();
        self.outlet.push(responses);
        self.connection.advance(bytes);
    }

    /// Writes what it has to get, unless its socket is full.
    pub(super) fn pump(
        &mut self,
        source: Option<&mut StreamReader>,
        budget: &Budget,
        now: Instant,
        counters: &Counters,
    ) -> Served {
        if self.is_full {
            return Served::Stays;
        }
        match self.wire.send_held_back() {
            Ok(true) => self.progressed = now,
            Ok(false) => {}
            Err(error) => {
                tracing::debug!(client = %self.name(), %error, "connection lost");
                return Served::Ends;
            }
        }
        self.take_responses();
        let mut sent = Sent::default();
        let playing = match (self.session.as_deref_mut(), source) {
            (
                Some(Session {
                    place: Some(place),
                    channels,
                    seals,
                    ..
                }),
                Some(source),
            ) if self.closing.is_none() && !channels.is_empty() => Some(Playing {
                ring: &mut source.ring,
                place,
                channels,
                seals,
                budget,
            }),
            _ => None,
        };
        let pumped = self.outlet.pump(&mut self.wire, playing, now, &mut sent);
        counters.add(&sent);
        if sent.bytes > 0 {
            self.progressed = now;
        }
        if let Some(session) = &mut self.session {
            session.bytes += sent.bytes;
        }
        if sent.skips > 0 {
            self.tell_of_skip(&sent);
        }
        match pumped {
            Pumped::Empty if self.wire.holds_back() => self.is_full = true,
            Pumped::Empty => {
                self.progressed = now;
                if self.closing.is_some() && self.connection.transmit().is_empty() {
                    self.wire.finish();
                    return Served::Ends;
                }
            }
            Pumped::Full => self.is_full = true,
            Pumped::Hopeless => {
                counters.closed_hopeless.add(1);
                tracing::warn!(client = %self.name(), "closed: it skipped time and again and never caught up");
                return Served::Ends;
            }
            Pumped::Broken(error) => {
                tracing::debug!(client = %self.name(), %error, "connection lost");
                return Served::Ends;
            }
        }
        Served::Stays
    }

    /// Once for each session: a client on a bad link skips again and again, and the
    /// API counts.
    pub(super) fn tell_of_skip(&mut self, sent: &Sent) {
        let name = self.name().to_string();
        if let Some(session) = &mut self.session
            && !session.told
        {
            session.told = true;
            tracing::warn!(
                client = name,
                stream = %session.stream.name(),
                frames = sent.skipped,
                "takes less than it is sent: skipped to the newest keyframe"
            );
        }
    }

    /// Who it is, for logs.
    pub(super) fn name(&self) -> impl fmt::Display + '_ {
        Name(self)
    }

    /// What the API says of it; `None` before it set anything up.
    pub(super) fn view(&self, source: Option<&StreamReader>, now: Instant) -> Option<ClientView> {
        if let Some(recording) = &self.recording {
            return Some(self.publisher_view(recording));
        }
        let session = self.session.as_deref()?;
        let lag = match (&session.place, source) {
            (Some(place), Some(source)) if !session.is_multicast() => place.lag(&source.ring, now),
            _ => Duration::ZERO,
        };
        let (skips, skipped) = session.skips();
        Some(ClientView {
            stream: match &session.file {
                Some(file) => file.title.name().to_owned(),
                None => session.stream.name().to_string(),
            },
            private: session.file.as_ref().is_some_and(File::is_private),
            address: self.peer,
            user: self.connection.user().map(str::to_owned),
            transport: match &self.cookie {
                _ if session.is_udp() => "udp",
                _ if session.is_multicast() => "multicast",
                Some(_) => "http",
                None if self.wire.is_secure() => "tls",
                None => "tcp",
            },
            srtp: session.seals.iter().any(Option::is_some),
            state: match session.place {
                Some(_) => "playing",
                None => "ready",
            },
            lag_ms: u64::try_from(lag.as_millis()).unwrap_or(u64::MAX),
            skips,
            skipped_frames: skipped,
            bytes: session.bytes,
        })
    }
}

impl Client {
    fn publisher_view(&self, recording: &Recording) -> ClientView {
        ClientView {
            stream: recording.name().to_string(),
            private: false,
            address: self.peer,
            user: self.connection.user().map(str::to_owned),
            transport: match recording.targets.is_empty() {
                false => "udp",
                true if self.wire.is_secure() => "tls",
                true => "tcp",
            },
            srtp: recording.seals.iter().any(Option::is_some),
            state: if recording.is_on {
                "recording"
            } else {
                "ready"
            },
            lag_ms: 0,
            skips: 0,
            skipped_frames: 0,
            bytes: recording.bytes,
        }
    }
}

struct Name<'a>(&'a Client);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.connection.user() {
            Some(user) => write!(f, "{user}@{}", self.0.peer),
            None => write!(f, "{}", self.0.peer),
        }
    }
}
