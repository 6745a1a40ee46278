//! Files as people have them, in the media folder: each plays, or the server says why not.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use libtest_mimic::Failed;

use crate::http;
use crate::peers::{Peer, Test};
use crate::process::{PATIENCE, eventually, output_folder};
use crate::server::Server;

pub(crate) const TESTS: &[Test] =
    &[Test::of(&each_plays_or_is_listed_with_its_reason).needs(&[Peer::Ffmpeg])];

const VIDEO: &str = "-f lavfi -i testsrc2=size=192x108:rate=25 -t 2 -c:v libx264 -preset ultrafast \
     -bf 0 -g 25";
const TONE: &str = "-f lavfi -i sine=frequency=440:sample_rate=48000";
const SURROUND: &str = "-f lavfi -i anoisesrc=a=0.05:d=2,aformat=channel_layouts=5.1";

/// How a file is made.
enum Made {
    /// By FFmpeg from nothing.
    New(&'static str),
    /// By FFmpeg from `base.mp4`.
    FromBase(&'static str),
    Bytes(&'static [u8]),
    /// The first half of `base.mp4`.
    Half,
}

/// The expected outcome of a file.
enum Expected {
    /// Each of its tracks sends packets: the kinds, in the order of the session description.
    Plays(&'static [&'static str]),
    /// Refused, with this in the reason.
    Refused(&'static str),
}

use Expected::{Plays, Refused};
use Made::{Bytes, FromBase, Half, New};

const BOTH: Expected = Plays(&["video", "audio"]);
const AUDIO: Expected = Plays(&["audio"]);
const ONLY_VIDEO: Expected = Plays(&["video"]);

const FILES: &[(&str, Made, Expected)] = &[
    (
        "rotated.mov",
        FromBase("-c copy -metadata:s:v rotate=90"),
        BOTH,
    ),
    ("cut.mp4", FromBase("-c copy -ss 0.7"), BOTH),
    (
        "fragments.mp4",
        FromBase("-c copy -movflags frag_keyframe+empty_moov"),
        BOTH,
    ),
    (
        "before-zero.mkv",
        FromBase("-c copy -output_ts_offset -1.5 -avoid_negative_ts disabled"),
        BOTH,
    ),
    (
        "uneven.mp4",
        FromBase("-c:a copy -c:v libx264 -preset ultrafast -bf 0 -vsync vfr -vf setpts=N*N/250/TB"),
        BOTH,
    ),
    (
        "timecode.mov",
        FromBase("-c copy -timecode 01:00:00:00"),
        BOTH,
    ),
    ("pcm.avi", FromBase("-c:v copy -c:a pcm_s24le"), BOTH),
    ("disc.m2ts", FromBase("-c copy"), BOTH),
    ("film.flv", FromBase("-c copy"), BOTH),
    ("one.mp4", FromBase("-c copy -an -frames:v 1"), ONLY_VIDEO),
    ("100% #1?.mp4", FromBase("-c copy"), BOTH),
    ("größe 日本 🎥.mkv", FromBase("-c copy"), BOTH),
    (
        "surround.ts",
        New("SURROUND -c:a libopus -b:a 128k -mapping_family 1"),
        AUDIO,
    ),
    ("short.ogg", New("TONE -t 0.03 -c:a libopus"), AUDIO),
    ("tiny.wav", New("TONE -t 0.001"), AUDIO),
    (
        "jpeg.avi",
        New("-f lavfi -i testsrc2=size=192x108 -t 1 -c:v mjpeg -pix_fmt yuvj420p"),
        ONLY_VIDEO,
    ),
    (
        "jpeg444.avi",
        New("-f lavfi -i testsrc2=size=192x108 -t 1 -c:v mjpeg -pix_fmt yuvj444p"),
        Refused("4:2:0"),
    ),
    ("sound.wma", New("TONE -t 1"), Refused("ffmpeg")),
    ("zero.mkv", Bytes(b""), Refused("empty")),
    (
        "page.mp4",
        Bytes(b"<html>404 Not Found</html>"),
        Refused("moov"),
    ),
    ("half.mp4", Half, Refused("moov")),
];

fn each_plays_or_is_listed_with_its_reason() -> Result<(), Failed> {
    let folder = output_folder().join("odd-files");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let base = output_folder().join("odd-base.mp4");
    let input = format!("{TONE} {VIDEO} -c:a aac");
    ffmpeg(None, &input, &base)?;
    for (name, made, _) in FILES {
        make(&base, &folder.join(name), made).map_err(|why| format!("{name}: {why}"))?;
    }
    fs::write(folder.join("notes.txt"), "no media")?;
    let yaml = format!("rtsp:\n  media_folder: {}\n", folder.display());
    let server = Server::configured(&yaml, &[])?;
    listed_with_reasons(&server)?;
    let failures: Vec<String> = std::thread::scope(|scope| {
        let checks = FILES.iter().map(|(name, _, expected)| {
            let server = &server;
            scope.spawn(move || check(server, name, expected).err())
        });
        let checks: Vec<_> = checks.collect();
        let ended = checks.into_iter().filter_map(|it| it.join().ok());
        ended.flatten().collect()
    });
    if !failures.is_empty() {
        return Err(failures.join("\n").into());
    }
    // Only the log says that this is a file.
    let answer = Player::connect(&server, "notes.txt")?.ask("DESCRIBE", "", "")?;
    if !answer.starts_with("RTSP/1.0 404") {
        return Err(answer.into());
    }
    eventually(PATIENCE, || {
        match server.printed().contains("unknown extension") {
            true => Ok(()),
            false => Err("the log does not say why notes.txt is not played".to_owned()),
        }
    })?;
    Ok(())
}

/// Waits until the API lists every file that cannot be played with its reason. Nobody has asked for
/// any of them.
fn listed_with_reasons(server: &Server) -> Result<(), String> {
    eventually(PATIENCE, || {
        let listed = http::get_json(&server.url("/api/v1/files"))?;
        let reason = |name: &str| {
            let mut files = listed["files"].as_array().into_iter().flatten();
            let file = files.find(|file| file["name"] == name);
            file.map(|file| file["refused"].as_str().unwrap_or_default().to_owned())
        };
        let is_wrong =
            |(name, _, expected): &&(&str, Made, Expected)| match (expected, reason(name)) {
                (Plays(_), Some(found)) => !found.is_empty(),
                (Refused(part), Some(found)) => !found.contains(part),
                (_, None) => true,
            };
        match FILES.iter().find(is_wrong) {
            Some((name, ..)) => Err(format!("{name}: {:?}", reason(name))),
            None => Ok(()),
        }
    })
}

fn make(base: &Path, path: &Path, made: &Made) -> Result<(), String> {
    match made {
        New(arguments) => {
            let arguments = arguments
                .replace("TONE", TONE)
                .replace("SURROUND", SURROUND);
            ffmpeg(None, &arguments, path)
        }
        FromBase(arguments) => ffmpeg(Some(base), arguments, path),
        Bytes(bytes) => fs::write(path, bytes).map_err(|error| error.to_string()),
        Half => {
            let whole = fs::read(base).map_err(|error| error.to_string())?;
            fs::write(path, &whole[..whole.len() / 2]).map_err(|error| error.to_string())
        }
    }?;
    // A file that is being written is not judged.
    let file = File::options().write(true).open(path);
    let hour_ago = SystemTime::now() - Duration::from_secs(3_600);
    let set = file.and_then(|file| file.set_modified(hour_ago));
    set.map_err(|error| error.to_string())
}

fn ffmpeg(input: Option<&Path>, arguments: &str, output: &Path) -> Result<(), String> {
    let mut command = Command::new("ffmpeg");
    command.args(["-hide_banner", "-loglevel", "error", "-y"]);
    if let Some(input) = input {
        command.arg("-i").arg(input);
    }
    command.args(arguments.split_whitespace()).arg(output);
    let status = command.stdin(Stdio::null()).status();
    match status
        .map_err(|error| format!("ffmpeg: {error}"))?
        .success()
    {
        true => Ok(()),
        false => Err(format!("ffmpeg could not make {}", output.display())),
    }
}

fn check(server: &Server, name: &str, expected: &Expected) -> Result<(), String> {
    let checked = match expected {
        Plays(kinds) => plays(server, name, kinds),
        Refused(_) => Player::connect(server, name)
            .and_then(|mut player| player.ask("DESCRIBE", "", ""))
            .and_then(|answer| match answer.starts_with("RTSP/1.0 415") {
                true => Ok(()),
                false => Err(answer),
            }),
    };
    checked.map_err(|why| format!("{name}: {why}"))
}

/// Plays a file until each track has sent three packets.
fn plays(server: &Server, name: &str, kinds: &[&str]) -> Result<(), String> {
    let mut player = Player::connect(server, name)?;
    let described = player.ask("DESCRIBE", "", "")?;
    let media = described.lines().filter_map(|line| line.strip_prefix("m="));
    let media: Vec<&str> = media.filter_map(|line| line.split(' ').next()).collect();
    if media != kinds {
        return Err(format!("{media:?} in {described}"));
    }
    let mut session = String::new();
    for track in 0..kinds.len() {
        let channels = format!("{}-{}", 2 * track, 2 * track + 1);
        let headers = format!("Transport: RTP/AVP/TCP;unicast;interleaved={channels}\r\n{session}");
        let answer = player.ask("SETUP", &format!("/trackID={track}"), &headers)?;
        let mut lines = answer.lines();
        let id = lines.find_map(|line| line.strip_prefix("Session: "));
        let id = id.and_then(|it| it.split(';').next()).ok_or(&answer);
        session = format!("Session: {}\r\n", id?);
    }
    player.ask("PLAY", "", &session)?;
    let mut counts = vec![0; kinds.len()];
    let end = Instant::now() + PATIENCE;
    while counts.iter().any(|count| *count < 3) {
        if Instant::now() > end {
            return Err(format!("{counts:?} packets of {kinds:?}"));
        }
        let channel = usize::from(player.packet()?);
        if channel % 2 == 0
            && let Some(count) = counts.get_mut(channel / 2)
        {
            *count += 1;
        }
    }
    Ok(())
}

/// A player over RTSP, which reads no media.
struct Player {
    socket: TcpStream,
    url: String,
    requests: u32,
    read: Vec<u8>,
}

impl Player {
    fn connect(server: &Server, name: &str) -> Result<Self, String> {
        let encoded = name.bytes().map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        });
        let url = server.rtsp_url(&encoded.collect::<String>());
        let address = url.trim_start_matches("rtsp://").split('/').next();
        let socket = TcpStream::connect(address.unwrap_or_default());
        let socket = socket.map_err(|error| error.to_string())?;
        let patience = socket.set_read_timeout(Some(PATIENCE));
        patience.map_err(|error| error.to_string())?;
        Ok(Self {
            socket,
            url,
            requests: 0,
            read: Vec::new(),
        })
    }

    /// Sends a request, and returns the answer with its body.
    fn ask(&mut self, method: &str, control: &str, headers: &str) -> Result<String, String> {
        self.requests += 1;
        let (url, number) = (&self.url, self.requests);
        let request =
            format!("{method} {url}{control} RTSP/1.0\r\nCSeq: {number}\r\n{headers}\r\n");
        let sent = self.socket.write_all(request.as_bytes());
        sent.map_err(|error| error.to_string())?;
        let head = loop {
            let end = self.read.windows(4).position(|it| it == b"\r\n\r\n");
            match end {
                Some(end) => break end + 4,
                None => self.receive()?,
            }
        };
        let text = String::from_utf8_lossy(&self.read[..head]).into_owned();
        let mut lines = text.lines();
        let body = lines.find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
        let end = head + body.unwrap_or(0usize);
        while self.read.len() < end {
            self.receive()?;
        }
        let answer = self.read.drain(..end).collect::<Vec<u8>>();
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Reads the next interleaved packet. Returns its channel.
    fn packet(&mut self) -> Result<u8, String> {
        loop {
            if let [b'$', channel, high, low, ..] = self.read[..] {
                let end = 4 + usize::from(u16::from_be_bytes([high, low]));
                if self.read.len() >= end {
                    self.read.drain(..end);
                    return Ok(channel);
                }
            }
            self.receive()?;
        }
    }

    fn receive(&mut self) -> Result<(), String> {
        let mut bytes = [0; 16 * 1024];
        match self.socket.read(&mut bytes) {
            Ok(0) => Err("the server closed the connection".to_owned()),
            Ok(count) => {
                self.read.extend_from_slice(&bytes[..count]);
                Ok(())
            }
            Err(error) => Err(format!("nothing came: {error}")),
        }
    }
}
