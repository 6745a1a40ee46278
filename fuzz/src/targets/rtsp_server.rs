//! RTSP's serving end: whatever a client sends and however its owner answers, it is
//! told once that it is over, asks one question at a time, and keeps within bounds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{Codec, Ssrc, Track, TrackIndex};
use glassline_rtsp::range::Range;
use glassline_rtsp::sdp::{Presentation, Section};
use glassline_rtsp::server::{
    Answer, ClientCredentials, Config, Connection, Endpoints, Event, Refusal, RequestId,
    SelectedTransport, SrtpPolicy, Start, State,
};

pub(crate) fn run(bytes: &[u8]) {
    // The first bytes say where to cut, and what kind of server it is.
    let Some((&[cut, kind], bytes)) = bytes.split_first_chunk() else {
        return;
    };
    let config = Config {
        udp: kind & 1 == 0,
        multicast: kind & 2 != 0,
        basic_over_plain: kind & 4 != 0,
        srtp: if kind & 64 != 0 {
            SrtpPolicy::Optional
        } else {
            SrtpPolicy::Off
        },
        ..Config::default()
    };
    let endpoints = Endpoints {
        peer: ([192, 0, 2, 7], 4000).into(),
        local: ([192, 0, 2, 1], 8554).into(),
        secure: kind & 8 != 0,
    };
    let mut now = Instant::now();
    let mut connection = Connection::new(Arc::new(config), endpoints, [7; 32], now);
    let mut waiting: Option<(RequestId, Answer)> = None;
    let mut ends = 0;
    for (turn, piece) in bytes.chunks(usize::from(cut).max(1)).enumerate() {
        connection.handle_data(now, piece, |frame| assert!(frame.payload.len() <= 65_535));
        if turn % 7 == 6 {
            now += Duration::from_secs(2);
            connection.handle_timeout(now);
        }
        // Sometimes the owner takes its time.
        let answers = kind & 16 == 0 || turn % 3 == 2;
        if answers && let Some((id, answer)) = waiting.take() {
            connection.answer(now, id, answer);
        }
        while let Some(event) = connection.poll_event() {
            assert_eq!(ends, 0, "{event:?} after the end");
            if matches!(event, Event::Closed(_)) {
                ends += 1;
                waiting = None;
            } else if let Some(asked) = answer(event, kind) {
                assert!(waiting.is_none(), "one question at a time");
                if kind & 16 == 0 {
                    connection.answer(now, asked.0, asked.1);
                } else {
                    waiting = Some(asked);
                }
            }
        }
        check(&connection);
        connection.advance(connection.transmit().len() / 2);
    }
    assert_eq!(ends == 1, connection.is_closed());
}

fn check(connection: &Connection) {
    assert!(connection.transmit().len() < 256 << 10);
    let tracks = connection.tracks();
    let is_init = connection.state() == State::Init;
    assert_eq!(is_init, connection.session().is_none());
    for (index, set_up) in tracks.iter().enumerate() {
        for other in &tracks[..index] {
            assert_ne!(other.track, set_up.track);
            if let (
                SelectedTransport::Interleaved { channels: one },
                SelectedTransport::Interleaved { channels: two },
            ) = (other.transport, set_up.transport)
            {
                let apart = |channel| channel != two.0 && channel != two.1;
                assert!(apart(one.0) && apart(one.1), "{tracks:?}");
            }
        }
    }
}

/// The answer of the owner, if it is asked.
fn answer(event: Event, kind: u8) -> Option<(RequestId, Answer)> {
    let refused = |refusal| Answer::Refused(refusal);
    Some(match event {
        Event::Authorize {
            id, credentials, ..
        } => {
            let user = credentials.as_ref().map(|shown| shown.user().to_owned());
            let right = match &credentials {
                Some(ClientCredentials::Digest(digest)) => digest.verify("secret"),
                _ => kind & 32 == 0,
            };
            if right {
                (id, Answer::Authorized { user })
            } else {
                (id, refused(Refusal::Unauthorized))
            }
        }
        Event::Describe { id, path, .. } => {
            assert!(!path.split('/').any(|part| part == ".."), "{path}");
            let tracks = [Track::new(Codec::H264), Track::audio(Codec::Opus, 2)];
            let presentation = Presentation {
                name: path,
                information: String::new(),
                version: 1,
                address: [192, 0, 2, 1].into(),
                duration: None,
                recorded: None,
                tracks: tracks.map(Section::new).to_vec(),
            };
            (id, Answer::Described(Box::new(presentation)))
        }
        Event::SetUp { id, track, .. } if track.is_none_or(|track| track.get() < 8) => {
            let ssrc = Some(Ssrc(1));
            let set_up = Answer::SetUp {
                ssrc,
                server_ports: Some((6000, 6001)),
                multicast: None,
                keys: track.map(|_| "AQAF".to_owned()),
            };
            (id, set_up)
        }
        Event::SetUp { id, .. } => (id, refused(Refusal::NotFound)),
        Event::Play {
            id,
            range,
            scale,
            speed,
            ..
        } => {
            let start = Start {
                track: TrackIndex(0),
                sequence: Some(1),
                timestamp: Some(2),
            };
            let range = Some(range.unwrap_or(Range::LIVE));
            let playing = Answer::Playing {
                range,
                scale,
                speed,
                starts: vec![start],
            };
            (id, playing)
        }
        Event::Pause { id } => (id, Answer::Paused { range: None }),
        Event::Announce {
            id, description, ..
        } => {
            assert!(!description.tracks.is_empty());
            (id, Answer::Announced)
        }
        Event::Record { id } => (id, Answer::Recording),
        _ => return None,
    })
}
