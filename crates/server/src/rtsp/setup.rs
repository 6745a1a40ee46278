//! Tracks on their way to or from a client: what is said of them, and what is set up.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::Stream;
use glassline_media::Track;
use glassline_rtsp::mikey::Cipher;
use glassline_rtsp::sdp::{Presentation, Section};
use glassline_rtsp::server::{Answer, Refusal, Srtp, SrtpPolicy, Way};
use smallvec::SmallVec;

use super::client::Session;
use super::worker::Worker;
use crate::egress::rtsp::cursor::TRACKS_MAX;
use crate::egress::rtsp::groups::MulticastMembership;
use crate::egress::rtsp::srtp::{self, Keyring, TrackSrtp};
use crate::egress::rtsp::udp::{Target, Udp};
use crate::runtime::Key;

/// What a description says of a stream or file.
pub(super) struct Described<'a> {
    pub(super) name: &'a str,
    pub(super) tracks: &'a [Track],
    /// Another number, another description.
    pub(super) version: u64,
    /// `None` is live.
    pub(super) duration: Option<Duration>,
    /// Its tracks go as SRTP, sealed by this.
    pub(super) cipher: Option<Cipher>,
}

/// A track that a client wants set up.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// Its index; `None` where the stream as a whole is named.
    pub(super) track: Option<usize>,
    pub(super) way: Way,
    /// As SRTP.
    pub(super) srtp: Option<Box<Srtp>>,
}

impl Wanted {
    /// Which of so many tracks it is.
    fn index(&self, tracks: usize) -> Result<usize, Refusal> {
        match self.track {
            Some(track) if track < tracks => Ok(track),
            Some(_) => Err(Refusal::NotFound),
            None if tracks == 1 => Ok(0),
            None => Err(Refusal::AggregateNotAllowed),
        }
    }
}

impl Worker {
    /// What the tracks of a stream that `client` asks for with this query are to be
    /// sealed with; `None` where they are not. Clients cannot say in DESCRIBE that they
    /// know SRTP, and those that do not play nothing that is described as it: so it is
    /// asked for by the URL's `?srtp`, or `?srtp=gcm` for what costs a quarter.
    pub(super) fn cipher_for(&self, client: Key, query: Option<&str>) -> Option<Cipher> {
        if !self.clients.get(client)?.wire.is_secure() {
            return None;
        }
        let query = query.unwrap_or_default().as_bytes();
        let mut pairs = url::form_urlencoded::parse(query);
        let asked = pairs.find_map(|(name, value)| (name == "srtp").then_some(value));
        let asked = asked.map(|value| match value.as_ref() {
            "gcm" => Cipher::AesGcm128,
            _ => Cipher::AesCm128,
        });
        match self.shared.connection.srtp {
            SrtpPolicy::Off => None,
            SrtpPolicy::Optional => asked,
            SrtpPolicy::Required => asked.or(Some(Cipher::AesCm128)),
        }
    }

    /// What a client is told of a stream, with fresh keys if they go as SRTP.
    pub(super) fn description(&mut self, key: Key, of: &Described<'_>, now: Instant) -> Answer {
        let Some(client) = self.clients.get_mut(key) else {
            return Answer::Refused(Refusal::Internal);
        };
        let tracks = &of.tracks[..of.tracks.len().min(TRACKS_MAX)];
        let mut sections: Vec<_> = tracks.iter().cloned().map(Section::new).collect();
        client.keyring = of.cipher.map(|cipher| {
            let numbers = |track| self.shared.keys.track(of.name, track);
            let sources = (0..tracks.len()).map(|track| numbers(track).ssrc);
            let keyring = Keyring::draw(cipher, sources);
            for (track, section) in sections.iter_mut().enumerate() {
                section.key_management = keyring.message(track, self.shared.wall.ntp(now));
            }
            Box::new(keyring)
        });
        Answer::Described(Box::new(Presentation {
            name: of.name.to_owned(),
            information: String::new(),
            version: of.version,
            address: client.local.ip().to_canonical(),
            duration: of.duration,
            tracks: sections,
        }))
    }

    pub(super) fn set_up_stream(
        &mut self,
        key: Key,
        stream: &Arc<Stream>,
        wanted: &Wanted,
        now: Instant,
    ) -> Answer {
        match self.try_set_up(key, stream, wanted, now) {
            Ok(answer) => answer,
            Err(refusal) => Answer::Refused(refusal),
        }
    }

    fn try_set_up(
        &mut self,
        key: Key,
        stream: &Arc<Stream>,
        wanted: &Wanted,
        now: Instant,
    ) -> Result<Answer, Refusal> {
        let track = wanted.index(stream.tracks().len().min(TRACKS_MAX))?;
        let seat = match (wanted.way, &self.shared.groups) {
            (Way::Multicast, Some(groups)) => {
                let seat = groups.seat(stream, track);
                Some(seat.ok_or(Refusal::NotEnoughBandwidth)?)
            }
            _ => None,
        };
        let multicast = seat.as_ref().map(MulticastMembership::group);
        let source = self.source_of(stream, now);
        let Some(client) = self.clients.get_mut(key) else {
            return Err(Refusal::Internal);
        };
        if let Some(session) = &client.session
            && session.source != source
        {
            return Err(Refusal::AggregateNotAllowed);
        }
        let is_new = client.session.is_none();
        let session = client
            .session
            .get_or_insert_with(|| Box::new(Session::new(source, Arc::clone(stream))));
        let server_ports = session.lead(key, track, wanted.way, seat, self.udp.as_mut())?;
        let channel = self.channels.get_mut(source).ok_or(Refusal::Internal)?;
        if is_new {
            channel.source.feed.viewers.push(key);
        }
        let label = channel.source.label(track).ok_or(Refusal::NotFound)?;
        let ssrc = label.numbers.ssrc;
        let seal = match wanted.srtp.as_deref() {
            Some(asked) => {
                let before = session.take_seal(track).filter(|seal| seal.is_of(ssrc));
                let keyring = client.keyring.as_deref_mut();
                Some(srtp::renew(before, keyring, track, ssrc, asked)?)
            }
            None => None,
        };
        let time = self.shared.wall.ntp(now);
        let keys = seal.as_ref().map(|seal| seal.message(time));
        session.put_seal(track, seal);
        Ok(Answer::SetUp {
            ssrc: Some(ssrc),
            server_ports,
            multicast,
            keys,
        })
    }

    pub(super) fn set_up_recording(&mut self, key: Key, wanted: &Wanted, now: Instant) -> Answer {
        match self.try_set_up_recording(key, wanted, now) {
            Ok(answer) => answer,
            Err(refusal) => Answer::Refused(refusal),
        }
    }

    fn try_set_up_recording(
        &mut self,
        key: Key,
        wanted: &Wanted,
        now: Instant,
    ) -> Result<Answer, Refusal> {
        let client = self.clients.get_mut(key);
        let recording = client.and_then(|client| client.recording.as_deref_mut());
        let recording = recording.ok_or(Refusal::NotInThisState)?;
        let track = wanted.index(recording.tracks())?;
        let keys = match wanted.srtp.as_deref() {
            Some(asked) => {
                let seal = recording.seal(track, asked)?;
                Some(seal.message(self.shared.wall.ntp(now)))
            }
            None => None,
        };
        let server_ports = match wanted.way {
            Way::Interleaved { channels } => {
                put(&mut recording.channels, track, channels);
                None
            }
            Way::Udp {
                client_ports: (media, control),
                destination,
            } => {
                let udp = self.udp.as_mut().ok_or(Refusal::UnsupportedTransport)?;
                let target = Target {
                    media: SocketAddr::new(destination, media),
                    control: SocketAddr::new(destination, control),
                };
                put(&mut recording.targets, track, target);
                recording.comes_by_datagrams(track);
                udp.learn(&target, key, track);
                Some(udp.ports())
            }
            Way::Multicast => return Err(Refusal::UnsupportedTransport),
        };
        Ok(Answer::SetUp {
            ssrc: None,
            server_ports,
            multicast: None,
            keys,
        })
    }
}

impl Session {
    /// Has a track go this way; our ports, for UDP. All tracks go the same way.
    fn lead(
        &mut self,
        client: Key,
        track: usize,
        way: Way,
        seat: Option<MulticastMembership>,
        udp: Option<&mut Udp>,
    ) -> Result<Option<(u16, u16)>, Refusal> {
        match way {
            Way::Multicast if !self.is_udp() && !self.is_interleaved() => {
                let seat = seat.ok_or(Refusal::UnsupportedTransport)?;
                if self.seats.len() <= track {
                    self.seats.resize_with(track + 1, || None);
                }
                self.seats[track] = Some(seat);
                Ok(None)
            }
            Way::Interleaved { channels } if !self.is_udp() && !self.is_multicast() => {
                put(&mut self.channels, track, channels);
                Ok(None)
            }
            Way::Udp {
                client_ports: (media, control),
                destination,
            } if !self.is_interleaved() && !self.is_multicast() => {
                let udp = udp.ok_or(Refusal::UnsupportedTransport)?;
                let target = Target {
                    media: SocketAddr::new(destination, media),
                    control: SocketAddr::new(destination, control),
                };
                put(&mut self.targets, track, target);
                udp.learn(&target, client, track);
                Ok(Some(udp.ports()))
            }
            _ => Err(Refusal::UnsupportedTransport),
        }
    }

    fn take_seal(&mut self, track: usize) -> Option<Box<TrackSrtp>> {
        self.seals.get_mut(track)?.take()
    }

    fn put_seal(&mut self, track: usize, seal: Option<Box<TrackSrtp>>) {
        if self.seals.len() <= track {
            self.seals.resize_with(track + 1, || None);
        }
        self.seals[track] = seal;
    }
}

/// Notes how a track goes.
fn put<T: Copy>(tracks: &mut SmallVec<[Option<T>; 2]>, track: usize, way: T) {
    if tracks.len() <= track {
        tracks.resize(track + 1, None);
    }
    tracks[track] = Some(way);
}
