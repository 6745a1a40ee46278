//! Players as they are: what other programs send to our RTSP server, and what they must get.
//!
//! They play a camera without a quirk, so that the first fault is theirs or ours.

use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use glassline_rtsp::interleaved::{Demultiplexer, Item, Reader};
use glassline_rtsp::message::{Limits, Message, Response};
use libtest_mimic::{Failed, Trial};

use super::camera_server::CameraServer;
use super::row::{Row, Video, row};
use super::scene::{put, wait_until_live};
use super::test_server::TestServer;
use crate::http;
use crate::signalling::chromium_offer;

/// Longest wait for a response.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time in which media must come to a session that lives.
const WATCHED: Duration = Duration::from_secs(1);

/// The camera that the players see, by H.264 and AAC.
static CAMERA: Row =
    row("player", "", "").does("", &[super::quirk::Quirk::Sound(super::quirk::Sound::Aac)]);

/// A test of a player.
type Test = fn(&Stage) -> Result<(), Failed>;

const TESTS: [(&str, Test); 5] = [
    ("plays_tracks_or_twice", plays_tracks_or_twice),
    ("asks_for_a_path_with_a_slash", asks_for_a_path_with_a_slash),
    ("keeps_alive_in_its_own_way", keeps_alive_in_its_own_way),
    ("names_no_channels", names_no_channels),
    ("bundles_all_behind_port_zero", bundles_all_behind_port_zero),
];

/// Makes the trials of players.
pub(super) fn trials(is_skipped: bool) -> impl Iterator<Item = Trial> {
    TESTS.into_iter().map(move |(name, test)| {
        let run = move || crate::sharing::beside(|| test(&Stage::open(name)?));
        Trial::test(format!("cameras::player::{name}"), run).with_ignored_flag(is_skipped)
    })
}

/// A camera that is live in the server under a name of its own.
struct Stage {
    server: TestServer,
    name: &'static str,
    _camera: CameraServer,
}

impl Stage {
    fn open(name: &'static str) -> Result<Stage, String> {
        let stage = Stage {
            server: TestServer::shared()?,
            name,
            _camera: CameraServer::open(&CAMERA, Video::H264)?,
        };
        put(&stage.server, name, &stage._camera.url())?;
        wait_until_live(&stage.server, name)?;
        Ok(stage)
    }

    fn url(&self) -> String {
        self.server.rtsp_url(self.name)
    }
}

/// GStreamer and others PLAY each track, or PLAY again (ireader/media-server#369, mediamtx#128). A track
/// alone may be refused with 460 (RFC 2326 §10.5), and the session must live.
fn plays_tracks_or_twice(stage: &Stage) -> Result<(), Failed> {
    let url = stage.url();
    let mut player = Player::set_up(&url, "RTP/AVP/TCP;unicast;interleaved={channels}")?;
    for track in player.tracks.clone() {
        let status = player.ask("PLAY", &track, "", "")?.status.0;
        ensure(matches!(status, 200 | 460), "PLAY of a track", &status)?;
    }
    for _ in 0..2 {
        let status = player.ask("PLAY", &url, "", "")?.status.0;
        ensure(status == 200, "PLAY, and PLAY again", &status)?;
    }
    player.sees_media()
}

/// VLC asks for a path with a slash behind it (mediamtx#2487).
fn asks_for_a_path_with_a_slash(stage: &Stage) -> Result<(), Failed> {
    let url = format!("{}/", stage.url());
    let mut player = Player::set_up(&url, "RTP/AVP/TCP;unicast;interleaved={channels}")?;
    let status = player.ask("PLAY", &url, "", "")?.status.0;
    ensure(status == 200, "PLAY of a path with a slash", &status)?;
    player.sees_media()
}

/// An intercom keeps its session alive by requests of its own kind (mediamtx#2908).
fn keeps_alive_in_its_own_way(stage: &Stage) -> Result<(), Failed> {
    let url = stage.url();
    let mut player = Player::set_up(&url, "RTP/AVP/TCP;unicast;interleaved={channels}")?;
    player.ask("PLAY", &url, "", "")?;
    let text = "Content-Type: text/parameters\r\n";
    for (method, target, headers, body, statuses) in [
        ("GET_PARAMETER", url.as_str(), "", "", [200, 200]),
        ("GET_PARAMETER", "*", "", "", [200, 200]),
        ("GET_PARAMETER", "/", "", "", [200, 404]),
        ("GET_PARAMETER", &url, text, "ping\r\n", [200, 451]),
        ("SET_PARAMETER", &url, "", "", [200, 451]),
        ("OPTIONS", &url, "", "", [200, 200]),
        ("get_parameter", &url, "", "", [200, 501]),
    ] {
        let status = player.ask(method, target, headers, body)?.status.0;
        let told = (method, target, status);
        ensure(statuses.contains(&status), "a keep-alive", &told)?;
    }
    player.session.clear();
    let status = player.ask("GET_PARAMETER", &url, "", "")?.status.0;
    ensure(
        matches!(status, 200 | 454),
        "a keep-alive without session",
        &status,
    )?;
    player.sees_media()
}

/// A recorder leaves the numbers of channels to the server (go2rtc#1510).
fn names_no_channels(stage: &Stage) -> Result<(), Failed> {
    let url = stage.url();
    let mut player = Player::set_up(&url, "RTP/AVP/TCP;unicast")?;
    let status = player.ask("PLAY", &url, "", "")?.status.0;
    ensure(status == 200, "PLAY without named channels", &status)?;
    player.sees_media()
}

/// GStreamer offers the second of two sections with port 0 and `bundle-only` (ZLMediaKit#4720). No
/// section of the answer is refused, and its user fragment has characters of ICE alone.
fn bundles_all_behind_port_zero(stage: &Stage) -> Result<(), Failed> {
    let offer = chromium_offer()?;
    let (first, second) = offer.rsplit_once("m=").ok_or("an offer of two sections")?;
    let (kind, rest) = second.split_once(' ').ok_or("a section with a port")?;
    let rest = rest.split_once(' ').map_or(rest, |(_, rest)| rest);
    let rest = rest.replacen("a=recvonly", "a=bundle-only\r\na=recvonly", 1);
    let offer = format!("{first}m={kind} 0 {rest}");
    let url = stage.server.url(&format!("/{}/whep", stage.name));
    let headers = [("Content-Type", "application/sdp")];
    let answer = http::request("POST", &url, &headers, offer)?;
    ensure(answer.status == 201, "the answer", &answer)?;
    let mut lines = answer.body.lines();
    let sections = lines.clone().filter(|line| line.starts_with("m="));
    let ports: Vec<_> = sections.filter_map(|line| line.split(' ').nth(1)).collect();
    ensure(
        !ports.contains(&"0") && ports.len() == 2,
        "sections of the answer",
        &ports,
    )?;
    let fragment = lines.find_map(|line| line.strip_prefix("a=ice-ufrag:"));
    let is_ice = |letter: char| letter.is_ascii_alphanumeric() || "+/".contains(letter);
    let fragment = fragment.unwrap_or_default();
    let is_right = fragment.len() >= 4 && fragment.chars().all(is_ice);
    ensure(is_right, "a user fragment of ICE", &fragment)
}

/// Fails with `found` unless the condition `holds`.
fn ensure(holds: bool, subject: &str, found: &dyn Debug) -> Result<(), Failed> {
    match holds {
        true => Ok(()),
        false => Err(format!("{subject}: {found:?}").into()),
    }
}

/// A player that is written by hand.
struct Player {
    stream: TcpStream,
    reader: Reader,
    number: u32,
    session: String,
    /// Control URLs of the tracks.
    tracks: Vec<String>,
    responses: Vec<Response>,
    frames: usize,
}

impl Player {
    /// Connects, reads the description of `url`, and sets both tracks up.
    fn set_up(url: &str, transport: &str) -> Result<Player, String> {
        let authority = url.trim_start_matches("rtsp://").split('/').next();
        let stream = TcpStream::connect(authority.unwrap_or_default());
        let mut player = Player {
            stream: stream.map_err(|error| error.to_string())?,
            reader: Reader::new(Demultiplexer::new(Limits::default(), 1 << 20)),
            number: 0,
            session: String::new(),
            tracks: Vec::new(),
            responses: Vec::new(),
            frames: 0,
        };
        let timeout = player.stream.set_read_timeout(Some(PATIENCE));
        timeout.map_err(|error| error.to_string())?;
        let described = player.ask("DESCRIBE", url, "Accept: application/sdp\r\n", "")?;
        if described.status.0 != 200 {
            return Err(format!("DESCRIBE {url}: {described:?}"));
        }
        let base = described
            .headers
            .get("Content-Base")
            .unwrap_or(url)
            .to_owned();
        let text = String::from_utf8_lossy(&described.body).into_owned();
        let controls = text.lines().filter_map(|it| it.strip_prefix("a=control:"));
        // The first one is that of all tracks.
        let absolute = controls.skip(1).map(|it| match it.starts_with("rtsp:") {
            true => it.to_owned(),
            false => format!("{}/{it}", base.trim_end_matches('/')),
        });
        player.tracks = absolute.collect();
        for (index, track) in player.tracks.clone().into_iter().enumerate() {
            let channels = format!("{}-{}", 2 * index, 2 * index + 1);
            let transport = transport.replace("{channels}", &channels);
            let header = format!("Transport: {transport}\r\n");
            let response = player.ask("SETUP", &track, &header, "")?;
            if response.status.0 != 200 {
                return Err(format!("SETUP {track}: {response:?}"));
            }
        }
        Ok(player)
    }

    fn ask(
        &mut self,
        method: &str,
        url: &str,
        headers: &str,
        body: &str,
    ) -> Result<Response, String> {
        self.number += 1;
        let request = format!(
            "{method} {url} RTSP/1.0\r\nCSeq: {}\r\n{headers}{}Content-Length: {}\r\n\r\n{body}",
            self.number,
            self.session,
            body.len(),
        );
        let sent = self.stream.write_all(request.as_bytes());
        sent.map_err(|error| format!("{method}: {error}"))?;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(response) = self.responses.pop() {
                let session = response.headers.get("Session");
                if let Some(session) = session.and_then(|it| it.split(';').next()) {
                    self.session = format!("Session: {session}\r\n");
                }
                return Ok(response);
            }
            self.read()?;
        }
        Err(format!("no response to {method} {url}"))
    }

    fn read(&mut self) -> Result<(), String> {
        let mut buffer = [0; 16 << 10];
        let count = self.stream.read(&mut buffer);
        let count = count.map_err(|error| format!("the server's connection: {error}"))?;
        if count == 0 {
            return Err("the server closed the connection".to_owned());
        }
        let (responses, frames) = (&mut self.responses, &mut self.frames);
        let read = self.reader.push(&buffer[..count], |item| match item {
            Item::Message(Message::Response(response)) => responses.push(response),
            Item::Message(Message::Request(_)) => {}
            Item::Frame { .. } => *frames += 1,
        });
        read.map_err(|error| error.to_string())
    }

    /// Checks that media comes.
    fn sees_media(&mut self) -> Result<(), Failed> {
        self.frames = 0;
        let end = Instant::now() + WATCHED;
        while Instant::now() < end {
            self.read()?;
        }
        ensure(self.frames > 10, "media", &self.frames)
    }
}
