//! Transcripts: requests of players and publishers, and the server's responses.

use super::*;
use crate::auth::{User, digest};
use crate::message::{Parsed, Response, Status, parse};
use crate::range::Range;
use crate::sdp::{Presentation, Section};
use glassline_media::{Codec, Ssrc, Track};
use std::time::Duration;

mod auth;
mod limits;
mod loopback;
mod operations;
mod past;
mod publish;
mod sessions;
mod setup;
mod transcripts;
mod tunnels;

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// The owner of a connection in tests: its streams, its users and its answers.
struct Owner {
    config: Config,
    secure: bool,
    /// The streams: names and tracks.
    streams: Vec<(&'static str, usize)>,
    /// The users; without any, everybody may do everything.
    users: Vec<(&'static str, &'static str)>,
    /// An answer that replaces the one that follows from the other fields.
    next: Option<Answer>,
}

impl Default for Owner {
    fn default() -> Self {
        Self {
            config: Config {
                server_name: "test".to_owned(),
                ..Config::default()
            },
            secure: false,
            streams: vec![("cam", 2), ("one", 1), ("dir/a file.mkv", 2)],
            users: Vec::new(),
            next: None,
        }
    }
}

fn tracks(count: usize) -> Vec<Section> {
    let tracks = [Track::new(Codec::H264), Track::audio(Codec::Opus, 2)];
    let tracks = tracks.into_iter().cycle().take(count);
    tracks.map(Section::new).collect()
}

impl Owner {
    fn tracks_of(&self, path: &str) -> Option<usize> {
        let mut streams = self.streams.iter();
        streams
            .find(|(name, _)| *name == path)
            .map(|(_, tracks)| *tracks)
    }

    fn knows(&self, credentials: &ClientCredentials) -> bool {
        let mut users = self.users.iter().map(|(name, password)| User {
            name: (*name).to_owned(),
            password: (*password).to_owned(),
        });
        users.any(|user| match credentials {
            ClientCredentials::Basic(shown) => *shown == user,
            ClientCredentials::Digest(shown) => {
                let secret = digest::secret(shown.algorithm(), &user, &self.config.realm);
                shown.user() == user.name && shown.verify(&secret)
            }
        })
    }

    /// Returns the answer to an event that needs one.
    fn answer(&mut self, event: &Event) -> Option<(RequestId, Answer)> {
        let not_found = Answer::Refused(Refusal::NotFound);
        let (id, answer) = match event {
            Event::Authorize {
                id, credentials, ..
            } => {
                let may = self.users.is_empty()
                    || credentials.as_ref().is_some_and(|shown| self.knows(shown));
                let user = credentials.as_ref().map(|shown| shown.user().to_owned());
                let answer = if may {
                    Answer::Authorized { user }
                } else {
                    Answer::Refused(Refusal::Unauthorized)
                };
                return Some((*id, answer));
            }
            Event::Describe { id, path, .. } => {
                let described = self.tracks_of(path).map(|count| {
                    Answer::Described(Box::new(Presentation {
                        name: path.clone(),
                        information: String::new(),
                        version: 7,
                        address: [192, 0, 2, 1].into(),
                        duration: None,
                        recorded: None,
                        tracks: tracks(count),
                    }))
                });
                (id, described.unwrap_or(not_found))
            }
            Event::SetUp {
                id,
                path,
                track,
                transport,
                access,
                srtp,
                ..
            } => {
                let count = match access {
                    Access::Read | Access::Past => self.tracks_of(path),
                    Access::Publish => Some(2),
                };
                let udp = matches!(transport, SelectedTransport::Udp { .. });
                let set_up = Answer::SetUp {
                    ssrc: Some(Ssrc(0x1234)),
                    server_ports: udp.then_some((6000, 6001)),
                    multicast: (*transport == SelectedTransport::Multicast).then(|| {
                        crate::transport::Group {
                            address: [239, 1, 1, 1].into(),
                            ports: (7000, 7001),
                            ttl: 4,
                        }
                    }),
                    keys: srtp.as_ref().map(|_| "AQAF".to_owned()),
                };
                let answer = match (count, track) {
                    (None, _) => not_found,
                    (Some(count), Some(track)) if track.get() >= count => not_found,
                    (Some(2..), None) => Answer::Refused(Refusal::AggregateNotAllowed),
                    _ => set_up,
                };
                (id, answer)
            }
            Event::Play {
                id,
                range,
                scale,
                speed,
                ..
            } => {
                let starts = [(0, 10, 100), (1, 20, 200)];
                let starts = starts.map(|(track, sequence, timestamp)| Start {
                    track: TrackIndex(track),
                    sequence: Some(sequence),
                    timestamp: Some(timestamp),
                });
                let playing = Answer::Playing {
                    range: Some(range.clone().unwrap_or(Range::LIVE)),
                    scale: *scale,
                    speed: *speed,
                    starts: starts.to_vec(),
                };
                (id, playing)
            }
            Event::Pause { id } => (id, Answer::Paused { range: None }),
            Event::Announce { id, .. } => (id, Answer::Announced),
            Event::Record { id } => (id, Answer::Recording),
            Event::TearDown { .. }
            | Event::TunnelGet { .. }
            | Event::TunnelPost { .. }
            | Event::Closed(_) => return None,
        };
        Some((*id, self.next.take().unwrap_or(answer)))
    }
}

/// A connection, and the client's side of it.
struct ScriptedClient {
    connection: Connection,
    owner: Owner,
    now: Instant,
    started: Instant,
    cseq: u32,
    /// All events that the owner received.
    events: Vec<Event>,
    frames: Vec<(usize, bool, Vec<u8>)>,
}

impl ScriptedClient {
    fn open() -> Self {
        Self::of(Owner::default())
    }

    fn of(owner: Owner) -> Self {
        Self::from(owner, "192.0.2.7:4000")
    }

    fn from(owner: Owner, peer: &str) -> Self {
        let now = Instant::now();
        let endpoints = Endpoints {
            peer: peer.parse().expect("an address"),
            local: "192.0.2.1:8554".parse().expect("an address"),
            secure: owner.secure,
        };
        let config = Arc::new(owner.config.clone());
        Self {
            connection: Connection::new(config, endpoints, [3; 32], now),
            owner,
            now,
            started: now,
            cseq: 0,
            events: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// Passes on bytes of the client; the owner answers the events that follow.
    fn feed(&mut self, bytes: &[u8]) {
        self.feed_unanswered(bytes);
        self.settle();
    }

    fn feed_unanswered(&mut self, bytes: &[u8]) {
        let frames = &mut self.frames;
        self.connection.handle_data(self.now, bytes, |frame| {
            frames.push((frame.track.get(), frame.control, frame.payload.to_vec()));
        });
    }

    fn settle(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            if let Some((id, answer)) = self.owner.answer(&event) {
                self.connection.answer(self.now, id, answer);
            }
            self.events.push(event);
        }
    }

    /// Returns the next response to the client.
    fn response(&mut self) -> Response {
        self.try_response().expect("a response")
    }

    fn try_response(&mut self) -> Option<Response> {
        let output = self.connection.transmit();
        if output.is_empty() {
            return None;
        }
        match parse(output, &message::Limits::default()) {
            Ok(Parsed::Message(Message::Response(mut response), consumed)) => {
                self.connection.advance(consumed);
                if response.version.http {
                    let rest = self.connection.transmit();
                    response.body = rest.to_vec();
                    let rest = rest.len();
                    self.connection.advance(rest);
                }
                Some(response)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Sends `METHOD URI` and headers, one a line, and a body; reads the response.
    fn ask_with(&mut self, start: &str, headers: &str, body: &str) -> Response {
        self.cseq += 1;
        let request = written(self.cseq, start, headers, body);
        self.feed(request.as_bytes());
        let response = self.response();
        assert_eq!(response.headers.cseq(), Some(self.cseq), "{start}");
        assert_eq!(self.connection.transmit(), b"", "one response");
        response
    }

    fn ask(&mut self, start: &str, headers: &str) -> Response {
        self.ask_with(start, headers, "")
    }

    /// Returns the status of the response.
    fn status(&mut self, start: &str, headers: &str) -> u16 {
        self.ask(start, headers).status.0
    }

    fn session(&self) -> String {
        self.connection.session().expect("a session").to_owned()
    }

    /// Sends a request within the session.
    fn ask_session(&mut self, start: &str, headers: &str) -> Response {
        let session = format!("Session: {}\r\n{headers}", self.session());
        self.ask(start, &session)
    }

    fn set_up(&mut self, uri: &str, transport: &str) -> Response {
        let session = self.connection.session();
        let session = session.map(|id| format!("Session: {id}\r\n"));
        let headers = format!("{}Transport: {transport}", session.unwrap_or_default());
        self.ask(&format!("SETUP {uri}"), &headers)
    }

    /// Opens a connection that plays both tracks of `cam` interleaved.
    fn playing() -> Self {
        let mut client = Self::open();
        client.play();
        client
    }

    fn play(&mut self) {
        for (track, channels) in ["0-1", "2-3"].iter().enumerate() {
            let transport = format!("RTP/AVP/TCP;unicast;interleaved={channels}");
            let response = self.set_up(&format!("{CAM}/trackID={track}"), &transport);
            assert_eq!(response.status, Status::OK);
        }
        let response = self.ask_session(&format!("PLAY {CAM}/"), "Range: npt=0.000-");
        assert_eq!(response.status, Status::OK);
        assert_eq!(self.connection.state(), State::Playing);
    }

    fn closed(&self) -> &Closed {
        match self.events.last() {
            Some(Event::Closed(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.connection.handle_timeout(self.now);
        self.settle();
    }
}

const CAM: &str = "rtsp://192.0.2.1:8554/cam";

/// Returns a request's bytes.
fn written(cseq: u32, start: &str, headers: &str, body: &str) -> String {
    let mut text = format!("{start} RTSP/1.0\r\nCSeq: {cseq}\r\n");
    for line in headers.lines() {
        text.push_str(line);
        text.push_str("\r\n");
    }
    if !body.is_empty() {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text + "\r\n" + body
}
