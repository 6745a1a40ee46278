//! Recordings of the built binary as streams: RTSP from an instant on, sought in, and back to live.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::json;

use crate::browser::ensure;
use crate::http;
use crate::peers::{Peer, Test};
use crate::recordings::{Recorded, wait_for_fragments};
use crate::server::Server;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&ffmpeg_plays_what_was_recorded).needs(&[Peer::Ffmpeg]),
    Test::of(&a_session_goes_to_the_past_and_back),
    Test::of(&an_onvif_client_is_told_when_each_frame_was_recorded),
];

/// A server that records its demo stream, and the time at which the recording begins.
fn recording_server(name: &str) -> Result<(Recorded, Server, String), String> {
    let recorded = Recorded::new(name)?;
    let yaml = recorded.yaml("  record:\n    - streams: [\"demo\"]\n");
    let server = Server::configured(&yaml, &["demo"])?;
    wait_for_fragments(&server, 8.0)?;
    let list = http::get_json(&server.url("/-/playback/list?path=demo"))?;
    let start = list[0]["start"].as_str().ok_or_else(|| list.to_string())?;
    let start = start.to_owned();
    Ok((recorded, server, start))
}

fn ffmpeg_plays_what_was_recorded() -> Result<(), Failed> {
    let (_recorded, server, start) = recording_server("played")?;
    ffmpeg_plays(&server, &format!("demo?at={start}"), 2.0)
}

/// Checks that FFmpeg gets so many seconds of a recording of the demo over RTSP, in which no track goes back in
/// time.
pub(crate) fn ffmpeg_plays(server: &Server, path: &str, seconds: f64) -> Result<(), Failed> {
    let url = server.rtsp_url(path);
    let mut command = Command::new("timeout");
    command.args(["90", "ffmpeg", "-hide_banner", "-loglevel", "warning"]);
    command.args(["-rtsp_transport", "tcp", "-i", &url]);
    command.args(["-t", &seconds.to_string(), "-map", "0", "-c", "copy"]);
    command.args(["-f", "framecrc", "-"]);
    let output = command.output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let of = |track: &str| printed.lines().filter(|it| it.starts_with(track)).count() as f64;
    let said = String::from_utf8_lossy(&output.stderr);
    let seen = json!([of("0,"), of("1,"), said, server.printed()]);
    // The demo has 30 frames of video and 50 packets of audio a second.
    ensure(output.status.success(), "FFmpeg ends well", &seen)?;
    ensure(of("0,") >= 27.0 * seconds, "all frames of video", &seen)?;
    ensure(of("1,") >= 40.0 * seconds, "all frames of audio", &seen)?;
    ensure(
        !said.to_lowercase().contains("monoton"),
        "no track goes back in time",
        &seen,
    )
}

/// A client that writes its requests itself.
struct Client {
    connection: BufReader<TcpStream>,
    url: String,
    session: String,
    sequence: u32,
    /// RTP packets of the first track since the last request.
    packets: usize,
    /// The newest of these.
    newest: Vec<u8>,
}

/// The answer to a request.
#[derive(Debug)]
struct Reply {
    status: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Reply {
    fn header(&self, name: &str) -> &str {
        let mut headers = self.headers.iter();
        let found = headers.find(|(it, _)| it.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    }
}

impl Client {
    fn open(url: String) -> Result<Self, String> {
        let rest = url.trim_start_matches("rtsp://");
        let address = rest.split('/').next().unwrap_or_default();
        let connection = TcpStream::connect(address).map_err(|error| error.to_string())?;
        let patience = Some(Duration::from_secs(30));
        connection
            .set_read_timeout(patience)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            connection: BufReader::new(connection),
            url,
            session: String::new(),
            sequence: 0,
            packets: 0,
            newest: Vec::new(),
        })
    }

    /// Skips a frame of media. Returns false if a response comes next.
    fn skip_frame(&mut self) -> std::io::Result<bool> {
        if self.connection.fill_buf()?.first() != Some(&b'$') {
            return Ok(false);
        }
        let mut head = [0; 4];
        self.connection.read_exact(&mut head)?;
        let length = u16::from_be_bytes([head[2], head[3]]);
        let mut frame = vec![0; length.into()];
        self.connection.read_exact(&mut frame)?;
        if head[1] == 0 {
            self.packets += 1;
            self.newest = frame;
        }
        Ok(true)
    }

    fn ask(&mut self, method: &str, below: &str, headers: &str) -> Result<Reply, String> {
        self.sequence += 1;
        let session = match self.session.as_str() {
            "" => String::new(),
            session => format!("Session: {session}\r\n"),
        };
        let request = format!(
            "{method} {}{below} RTSP/1.0\r\nCSeq: {}\r\n{session}{headers}\r\n",
            self.url, self.sequence
        );
        let write = self.connection.get_mut().write_all(request.as_bytes());
        write.map_err(|error| error.to_string())?;
        self.reply().map_err(|error| format!("{method}: {error}"))
    }

    fn reply(&mut self) -> std::io::Result<Reply> {
        while self.skip_frame()? {}
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.connection.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let headers = lines.iter().skip(1).filter_map(|it| it.split_once(':'));
        let mut reply = Reply {
            status: lines.first().cloned().unwrap_or_default(),
            headers: headers
                .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
                .collect(),
            body: String::new(),
        };
        let length = reply.header("Content-Length").parse().unwrap_or(0);
        let mut body = (&mut self.connection).take(length);
        body.read_to_string(&mut reply.body)?;
        self.packets = 0;
        Ok(reply)
    }

    /// Returns the sequence number of the newest packet (RFC 3550 §5.1).
    fn number(&self) -> u16 {
        let at = |it: usize| self.newest.get(it).copied().unwrap_or_default();
        u16::from_be_bytes([at(2), at(3)])
    }

    /// Waits for so many packets of media.
    fn receive(&mut self, packets: usize) -> Result<(), String> {
        while self.packets < packets {
            match self.skip_frame() {
                Ok(true) => {}
                Ok(false) => return Err("a response without a request".to_owned()),
                Err(error) => return Err(format!("{} packets: {error}", self.packets)),
            }
        }
        Ok(())
    }

    fn play(&mut self, headers: &str) -> Result<Reply, String> {
        self.ask("PLAY", "", headers)
    }
}

fn a_session_goes_to_the_past_and_back() -> Result<(), Failed> {
    let (_recorded, server, start) = recording_server("sought")?;
    let clock: String = start.chars().filter(|it| !"-:".contains(*it)).collect();
    let mut client = Client::open(server.rtsp_url("demo"))?;
    let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
    let set_up = client.ask("SETUP", "/trackID=0", transport)?;
    let session = set_up.header("Session").split(';').next();
    client.session = session.unwrap_or_default().to_owned();
    let live = client.play("Range: npt=now-\r\n")?;
    ensure(
        live.header("Range") == "npt=now-",
        "live",
        &json!(format!("{live:?}")),
    )?;
    client.receive(20)?;

    let past = client.play(&format!("Range: clock={clock}-\r\n"))?;
    let shown = json!([format!("{past:?}"), server.printed()]);
    ensure(past.status.contains("200"), "the past is played", &shown)?;
    let second = &clock[..15];
    ensure(
        past.header("Range").starts_with(&format!("clock={second}")),
        "the answer says from where on",
        &shown,
    )?;
    ensure(
        past.header("RTP-Info").contains("rtptime="),
        "numbers",
        &shown,
    )?;
    client.receive(20)?;

    let of_layer = format!("{}?at={start}&layer=low", client.url);
    let none = Client::open(of_layer)?.ask("DESCRIBE", "", "")?;
    ensure(
        none.status
            .starts_with("RTSP/1.0 457 nothing of the layer 'low'"),
        "a layer that was not recorded is named",
        &json!(none.status),
    )?;

    let paused = client.ask("PAUSE", "", "")?;
    ensure(
        paused.header("Range").starts_with("clock="),
        "paused",
        &json!(format!("{paused:?}")),
    )?;
    let left = client.number();
    let resumed = client.play("")?;
    client.receive(1)?;
    ensure(
        client.number() == left.wrapping_add(1),
        "the picture goes on with the frame behind the pause",
        &json!([left, client.number(), format!("{resumed:?}")]),
    )?;
    let fast = client.play("Scale: 4\r\n")?;
    ensure(
        fast.header("Scale") == "4.000",
        "fast",
        &json!(format!("{fast:?}")),
    )?;
    client.receive(2)?;

    let never = client.play("Range: clock=20990101T000000Z-\r\n")?;
    ensure(
        never
            .status
            .starts_with("RTSP/1.0 457 the range begins in the future"),
        "a sentence says what is wrong",
        &json!(never.status),
    )?;
    let live = client.play("Range: npt=now-\r\n")?;
    ensure(
        live.header("Range") == "npt=now-",
        "back to live",
        &json!(format!("{live:?}")),
    )?;
    client.receive(20)?;
    Ok(())
}

fn an_onvif_client_is_told_when_each_frame_was_recorded() -> Result<(), Failed> {
    /// Bits of the extension's flags: a frame to start with, and one that does not follow the one before.
    const CLEAN_AND_DISCONTINUOUS: u8 = 0xa0;
    let (_recorded, server, start) = recording_server("replayed")?;
    let clock: String = start.chars().filter(|it| !"-:".contains(*it)).collect();
    let second = &clock[..15];
    let mut client = Client::open(server.rtsp_url("demo"))?;
    let require = "Require: onvif-replay\r\n";
    let described = client.ask("DESCRIBE", "", require)?;
    let shown = json!([described.body, server.printed()]);
    let range = format!("a=range:clock={second}");
    ensure(
        described.body.contains(&range),
        "the span that is there",
        &shown,
    )?;
    let transport = format!("{require}Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n");
    let set_up = client.ask("SETUP", "/trackID=0", &transport)?;
    let session = set_up.header("Session").split(';').next();
    client.session = session.unwrap_or_default().to_owned();
    let wishes = "Rate-Control: no\r\nImmediate: yes\r\nFrames: intra\r\n";
    let played = client.play(&format!("{require}{wishes}Range: clock={clock}-\r\n"))?;
    let shown = json!([format!("{set_up:?} {played:?}"), server.printed()]);
    ensure(
        played.status.contains("200"),
        "the recording is played",
        &shown,
    )?;
    let mut times = Vec::new();
    while times.len() < 3 {
        let received = client.packets;
        client.receive(received + 1)?;
        let packet = &client.newest;
        if packet.first().is_none_or(|it| it & 0x10 == 0) {
            continue;
        }
        let extension = packet.get(12..28).ok_or("a packet with an extension")?;
        let shown = json!([extension, client.sequence, server.printed()]);
        let is_ours = extension[..4] == [0xab, 0xac, 0, 3]
            && extension[12..] == [CLEAN_AND_DISCONTINUOUS, client.sequence as u8, 0, 0];
        ensure(is_ours, "the extension of a keyframe", &shown)?;
        let ntp = extension[4..12]
            .iter()
            .fold(0, |sum, it| sum << 8 | u64::from(*it));
        times.push(ntp as f64 / f64::from(2.0_f32.powi(32)) - 2_208_988_800.0);
    }
    let list = http::get_json(&server.url("/-/playback/list?path=demo&start=0"))?;
    let told = times.windows(2).all(|it| it[0] < it[1]);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let is_recent = (now.as_secs_f64() - times[0]).abs() < 600.0;
    ensure(
        told && is_recent,
        "the times of the recording",
        &json!([times, list]),
    )
}
