//! Driver of the fuzz target `record`: a client publishes, from its first byte to the stream.
//!
//! ```text
//! input ─► Connection (RTSP, perhaps in a tunnel) ─► ANNOUNCE, SETUP, RECORD ─► Recording ─► hub
//!            └ interleaved frames ─────────────────────────────────────────────────┘ ▲
//! input ─► datagrams of a track ─────────────────────────────────────────────────────┘
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glassline_hub::{Hub, Limits, State, StreamName};
use glassline_media::{Ssrc, TrackIndex};
use glassline_rtsp::server::{Answer, Config, Connection, Endpoints, Event, Refusal};

use super::{RecordCounters, Recording, Reporter};

/// Most operations of one input.
const STEPS_MAX: usize = 300;
/// Most bytes of packets that the streams of one publisher may keep: far more than an input has.
const KEPT_MAX: usize = 8 << 20;

/// Runs what `bytes` describe: requests that are whole or not, frames, datagrams, and time.
///
/// # Panics
/// The connection or the recording panics, or an invariant does not hold: one question at a time,
/// one end, feedback that is well-formed RTCP, one stream at most.
pub fn record(bytes: &[u8]) {
    let Some((&options, mut rest)) = bytes.split_first() else {
        return;
    };
    let mut scene = Scene::new(options);
    for _ in 0..STEPS_MAX {
        let Some((head, after)) = rest.split_first_chunk::<3>() else {
            break;
        };
        let count = usize::from(u16::from_be_bytes([head[1], head[2]]) & 0x07ff);
        let (piece, after) = after.split_at(count.min(after.len()));
        rest = after;
        scene.step(head[0], piece);
        scene.check();
    }
    if let Some(recording) = scene.recording.take() {
        recording.leave(State::Connecting);
    }
    assert!(scene.hub.streams().len() <= 1);
}

struct Scene {
    start: Instant,
    now: Instant,
    hub: Arc<Hub>,
    connection: Connection,
    tunnelled: bool,
    recording: Option<Recording>,
    counters: RecordCounters,
    ends: usize,
    sequence: u32,
}

impl Scene {
    /// Bits of `options`: 1 a tunnel, 2 the usual requests come first, 4 two tracks.
    fn new(options: u8) -> Self {
        let now = Instant::now();
        let endpoints = Endpoints {
            peer: ([192, 0, 2, 7], 4000).into(),
            local: ([192, 0, 2, 1], 8554).into(),
            secure: false,
        };
        let limits = Limits {
            streams: 1,
            ..Limits::default()
        };
        let connection = Connection::new(Arc::new(Config::default()), endpoints, [7; 32], now);
        let mut scene = Self {
            start: now,
            now,
            hub: Arc::new(Hub::new(limits)),
            connection,
            tunnelled: options & 1 != 0,
            recording: None,
            counters: RecordCounters::default(),
            ends: 0,
            sequence: 0,
        };
        if scene.tunnelled {
            let get = b"GET / HTTP/1.0\r\nx-sessioncookie: 1\r\n\r\n";
            scene.connection.handle_data(now, get, |_| {});
            scene.answer();
        }
        if options & 2 != 0 {
            scene.begin(options & 4 != 0);
        }
        scene
    }

    /// The requests of a well-behaved publisher.
    fn begin(&mut self, two: bool) {
        let video = "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:0\r\n";
        let audio = "m=audio 0 RTP/AVP 97\r\na=rtpmap:97 opus/48000/2\r\na=control:1\r\n";
        let tracks = if two {
            [video, audio].concat()
        } else {
            video.to_owned()
        };
        let description = format!("v=0\r\ns=-\r\n{tracks}");
        let length = description.len();
        self.ask(
            "ANNOUNCE",
            "",
            &format!(
                "Content-Type: application/sdp\r\nContent-Length: {length}\r\n\r\n{description}"
            ),
        );
        for track in 0..=u8::from(two) {
            let (one, other) = (2 * track, 2 * track + 1);
            self.ask(
                "SETUP",
                &format!("/{track}"),
                &format!(
                    "Transport: RTP/AVP/TCP;unicast;interleaved={one}-{other};mode=record\r\n\r\n"
                ),
            );
        }
        self.ask("RECORD", "", "\r\n");
        let recording = self.recording.as_ref();
        assert!(recording.is_some_and(|it| it.is_on), "an honest publisher");
    }

    fn ask(&mut self, method: &str, track: &str, more: &str) {
        self.sequence += 1;
        let session = self.connection.session().map(ToString::to_string);
        let session = session
            .map(|it| format!("Session: {it}\r\n"))
            .unwrap_or_default();
        let sequence = self.sequence;
        let request = format!(
            "{method} rtsp://192.0.2.1:8554/cam{track} RTSP/1.0\r\nCSeq: {sequence}\r\n{session}{more}"
        );
        self.receive(request.as_bytes());
    }

    fn step(&mut self, operation: u8, piece: &[u8]) {
        match operation % 8 {
            0 | 1 => self.receive(piece),
            2 | 3 => {
                let channel = operation >> 6;
                let length = u16::try_from(piece.len()).unwrap_or(0).to_be_bytes();
                let mut frame = vec![b'$', channel, length[0], length[1]];
                frame.extend_from_slice(piece);
                self.receive(&frame);
            }
            4 => {
                // As by UDP, where a packet of any track may come at any time.
                let (track, control) =
                    (TrackIndex(usize::from(operation >> 6)), operation & 8 != 0);
                let now = self.now;
                if let Some(recording) = &mut self.recording {
                    recording.comes_by_datagrams(track);
                    recording.take(track, control, piece, now);
                }
                self.publish();
            }
            5 => self.ask(
                ["RECORD", "PAUSE", "TEARDOWN", "OPTIONS"][usize::from(operation >> 6)],
                "",
                "\r\n",
            ),
            6 => self.wait(Duration::from_millis(u64::from(operation) * 2)),
            _ => self.wait(Duration::from_secs(u64::from(operation >> 4))),
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        let (now, recording) = (self.now, &mut self.recording);
        let sink = |frame: glassline_rtsp::server::Frame<'_>| {
            if let Some(recording) = recording.as_mut() {
                recording.take(frame.track, frame.control, frame.payload, now);
            }
        };
        if self.tunnelled {
            let text = STANDARD.encode(bytes);
            self.connection
                .handle_tunnel_data(now, text.as_bytes(), sink);
        } else {
            self.connection.handle_data(now, bytes, sink);
        }
        self.publish();
        self.answer();
    }

    fn publish(&mut self) {
        let now = self.now;
        let Some(recording) = &mut self.recording else {
            return;
        };
        if recording.deadline().is_some_and(|at| at <= now) {
            recording.expire(now);
            assert!(
                recording.deadline().is_none_or(|at| at > now),
                "a gap that never ends"
            );
        }
        for (track, packet) in recording.poll_feedback(now, 1.0, &self.counters) {
            assert!(track.get() < recording.tracks());
            for part in glassline_rtp::rtcp::parse(&packet) {
                part.expect("well-formed feedback");
            }
        }
        if recording
            .published(now)
            .and_then(|()| recording.check(now))
            .is_err()
        {
            self.end_recording();
        }
    }

    fn end_recording(&mut self) {
        if let Some(recording) = self.recording.take() {
            recording.leave(State::Connecting);
        }
    }

    fn answer(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            assert_eq!(self.ends, 0, "{event:?} after the end");
            let (id, answer) = match event {
                Event::Authorize { id, .. } => (id, Answer::Authorized { user: None }),
                Event::Announce {
                    id,
                    path,
                    description,
                    ..
                } => (id, self.announce(&path, &description)),
                Event::SetUp {
                    id, track: None, ..
                } => (id, Answer::Refused(Refusal::AggregateNotAllowed)),
                Event::SetUp { id, .. } => {
                    let set_up = Answer::SetUp {
                        ssrc: None,
                        server_ports: Some((6000, 6001)),
                        multicast: None,
                        keys: None,
                    };
                    (id, set_up)
                }
                Event::Record { id } => {
                    if let Some(recording) = &mut self.recording {
                        recording.start(self.now);
                    }
                    (id, Answer::Recording)
                }
                Event::Describe { id, .. } => (id, Answer::Refused(Refusal::NotFound)),
                Event::Play { id, .. } => (id, Answer::Refused(Refusal::NotFound)),
                Event::Pause { id } => (id, Answer::Paused { range: None }),
                Event::Closed(_) => {
                    self.ends += 1;
                    self.end_recording();
                    continue;
                }
                Event::TearDown { track: None } => {
                    self.end_recording();
                    continue;
                }
                _ => continue,
            };
            self.connection.answer(self.now, id, answer);
        }
    }

    fn announce(&mut self, path: &str, description: &glassline_rtsp::sdp::Description) -> Answer {
        let Ok(name) = StreamName::parse(path) else {
            return Answer::Refused(Refusal::Forbidden);
        };
        self.end_recording();
        let reporter = Reporter {
            ssrc: Ssrc(1),
            cname: "here".to_owned(),
        };
        match Recording::announce(&self.hub, (name, None), reporter, description, self.now) {
            Ok(recording) => {
                assert_eq!(recording.tracks(), description.tracks.len());
                self.recording = Some(recording);
                Answer::Announced
            }
            Err(refusal) => Answer::Refused(refusal),
        }
    }

    fn wait(&mut self, duration: Duration) {
        self.now += duration;
        if self
            .connection
            .poll_timeout()
            .is_some_and(|at| at <= self.now)
        {
            self.connection.handle_timeout(self.now);
        }
        self.publish();
        self.answer();
    }

    fn check(&mut self) {
        assert_eq!(self.ends == 1, self.connection.is_closed());
        assert!(self.connection.transmit().len() < 256 << 10);
        let pending = self.connection.transmit().len();
        self.connection.advance(pending);
        for stream in self.hub.streams() {
            assert!(stream.memory_bytes() <= KEPT_MAX);
            let elapsed = self.now - self.start;
            assert!(stream.bitrate(self.now).bps() < u64::MAX, "{elapsed:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use glassline_sim::Rng;

    /// The seeds of the fuzz target, and random operations behind honest requests.
    #[test]
    fn a_publisher_may_send_anything() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/record");
        for entry in std::fs::read_dir(folder).expect("the seeds are part of the checkout") {
            let path = entry.expect("a file").path();
            super::record(&std::fs::read(&path).expect("a readable seed"));
        }
        for seed in 0..200 {
            println!("seed {seed}");
            let mut rng = Rng::new(seed);
            let mut input = vec![2 | seed as u8 & 5];
            for _ in 0..60 {
                let mut bytes = [0; 43];
                rng.fill(&mut bytes);
                // Frames and datagrams mostly, of RTP that is whole.
                bytes[0] = [2, 0x42, 4, 0x44, 0x0c, 6, 7, 5][usize::from(bytes[0] & 7)];
                (bytes[1], bytes[2]) = (0, 40);
                bytes[3] = 0x80;
                bytes[5] = 0;
                input.extend_from_slice(&bytes);
            }
            super::record(&input);
        }
    }
}
