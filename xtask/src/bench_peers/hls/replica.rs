//! Files in place of a live stream, for a server of files.
//!
//! A viewer asks a live server for a playlist and a part, again and again, for video and for audio. The
//! replica is a playlist that has ended, of as many items: files of the sizes that parts and playlists of
//! our server had. A viewer loads them in real time.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait until the live stream has segments.
const PATIENCE: Duration = Duration::from_secs(40);

/// Least parts of a track that are copied.
const PARTS_MIN: usize = 10;

/// Duration that the replica says of a playlist, which is loaded beside a part. The part is shorter by it.
const PLAYLIST_S: f64 = 0.001;

/// The content of a replica.
pub(super) struct Replica {
    tracks: Vec<Track>,
}

/// A rendition of the live stream.
struct Track {
    playlist_bytes: usize,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq)]
struct Part {
    uri: String,
    seconds: f64,
    bytes: usize,
}

impl Replica {
    /// Writes the replica of the stream that our server has at the port `http`, long enough for `time`.
    ///
    /// # Errors The server does not answer as expected, or a file cannot be written.
    pub(super) fn of(http: u16, folder: &Path, time: Duration) -> Result<Self, String> {
        let index = get(http, INDEX)?;
        let index = String::from_utf8_lossy(&index).into_owned();
        let uris = renditions(&index);
        let tracks = uris
            .iter()
            .map(|uri| Track::copied(http, &resolved(INDEX, uri)));
        let tracks: Vec<Track> = tracks.collect::<Result<_, _>>()?;
        if tracks.len() != 2 {
            return Err(format!("video and audio are expected in {index}"));
        }
        let replica = Self { tracks };
        replica.write(folder, time)?;
        Ok(replica)
    }

    fn write(&self, folder: &Path, time: Duration) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(folder).map_err(failed)?;
        let write = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).map_err(failed);
        for (number, track) in self.tracks.iter().enumerate() {
            for (at, part) in track.parts.iter().enumerate() {
                write(&format!("{number}-{at}.m4s"), &vec![0x5a; part.bytes])?;
            }
            write(&format!("{number}.txt"), &vec![b'#'; track.playlist_bytes])?;
            write(
                &format!("{number}.m3u8"),
                track.playlist(number, time).as_bytes(),
            )?;
        }
        write(
            "index.m3u8",
            b"#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"a\",DEFAULT=YES,URI=\"1.m3u8\"\n\
              #EXT-X-STREAM-INF:BANDWIDTH=3200000,AUDIO=\"a\"\n0.m3u8\n",
        )
    }

    /// The content in words.
    pub(super) fn told(&self) -> String {
        let tracks = self.tracks.iter().map(|track| {
            let bytes: usize = track.parts.iter().map(|it| it.bytes).sum();
            let mean = bytes / track.parts.len().max(1);
            format!(
                "playlists of {} and parts of {mean} bytes",
                track.playlist_bytes
            )
        });
        format!("files for nginx: {}", tracks.collect::<Vec<_>>().join("; "))
    }
}

/// Path of our multivariant playlist.
const INDEX: &str = "/reference/hls/index.m3u8";

impl Track {
    /// Reads a playlist that has enough parts, and the sizes of all of them.
    fn copied(http: u16, path: &str) -> Result<Self, String> {
        let deadline = Instant::now() + PATIENCE;
        let (text, mut parts) = loop {
            let text = get(http, path)?;
            let parts = parts(&String::from_utf8_lossy(&text));
            if parts.len() >= PARTS_MIN {
                break (text, parts);
            }
            if Instant::now() > deadline {
                return Err(format!("{path} has {} parts", parts.len()));
            }
            thread::sleep(Duration::from_millis(500));
        };
        for part in &mut parts {
            part.bytes = get(http, &resolved(path, &part.uri))?.len();
        }
        Ok(Self {
            playlist_bytes: text.len(),
            parts,
        })
    }

    /// A playlist of this track that has ended: its parts again and again, each behind a playlist.
    fn playlist(&self, number: usize, time: Duration) -> String {
        let longest = self.parts.iter().map(|it| it.seconds).fold(0.0, f64::max);
        let mut text = format!(
            "#EXTM3U\n#EXT-X-TARGETDURATION:{}\n#EXT-X-PLAYLIST-TYPE:VOD\n",
            longest.round().max(1.0)
        );
        let mut left = time.as_secs_f64();
        for (at, part) in self.parts.iter().enumerate().cycle() {
            let seconds = part.seconds - PLAYLIST_S;
            let _ = write!(
                text,
                "#EXTINF:{PLAYLIST_S},\n{number}.txt\n#EXTINF:{seconds:.5},\n{number}-{at}.m4s\n"
            );
            left -= part.seconds;
            if left < 0.0 {
                break;
            }
        }
        text + "#EXT-X-ENDLIST\n"
    }
}

/// URIs of the first variant, and of the audio that a viewer takes with it.
fn renditions(index: &str) -> Vec<String> {
    let mut lines = index.lines();
    let Some(variant) = lines.find(|line| line.starts_with("#EXT-X-STREAM-INF:")) else {
        return Vec::new();
    };
    let video = lines.find(|line| !line.starts_with('#')).map(str::to_owned);
    let group = attribute(variant, "AUDIO");
    let of_group = |line: &&str| {
        line.starts_with("#EXT-X-MEDIA:")
            && group.is_some()
            && attribute(line, "GROUP-ID") == group
            && attribute(line, "URI").is_some()
    };
    let audio = index.lines().find(of_group);
    let audio = audio.and_then(|line| attribute(line, "URI"));
    video.into_iter().chain(audio.map(str::to_owned)).collect()
}

/// Parts of a playlist, without their sizes.
fn parts(playlist: &str) -> Vec<Part> {
    let lines = playlist.lines();
    let parts = lines.filter(|line| line.starts_with("#EXT-X-PART:"));
    let parts = parts.filter_map(|line| {
        let duration = line
            .split(['=', ','])
            .skip_while(|it| !it.ends_with("DURATION"));
        Some(Part {
            uri: attribute(line, "URI")?.to_owned(),
            seconds: duration.take(2).last()?.parse().ok()?,
            bytes: 0,
        })
    });
    parts.collect()
}

/// A quoted attribute of a tag.
fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = line.split_once(':')?.1;
    let wanted = format!("{name}=\"");
    loop {
        if let Some(value) = rest.strip_prefix(&wanted) {
            return value.split('"').next();
        }
        // Commas also stand within quotes.
        let mut is_quoted = false;
        let end = rest.find(|sign| {
            is_quoted ^= sign == '"';
            sign == ',' && !is_quoted
        })?;
        rest = &rest[end + 1..];
    }
}

/// The path of a relative `uri` in a playlist at the path `base`.
fn resolved(base: &str, uri: &str) -> String {
    let mut folders: Vec<&str> = base.split('/').collect();
    folders.pop();
    for step in uri.split('/') {
        match step {
            ".." => drop(folders.pop()),
            step => folders.push(step),
        }
    }
    folders.join("/")
}

/// The body of the answer to a GET.
fn get(http: u16, path: &str) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("{path}: {error}");
    let mut stream = TcpStream::connect(("127.0.0.1", http)).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(failed)?;
    let end = answer.windows(4).position(|it| it == b"\r\n\r\n");
    let end = end.ok_or_else(|| format!("{path}: no answer of HTTP"))?;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    match head.starts_with("HTTP/1.1 200 ") {
        true => Ok(answer.split_off(end + 4)),
        false => Err(format!(
            "{path}: {}",
            head.lines().next().unwrap_or_default()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "#EXTM3U\n\
        #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"aac\",NAME=\"a, b\",URI=\"P1.x/aac.m3u8\"\n\
        #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"opus\",NAME=\"c\",URI=\"P1.x/opus.m3u8\"\n\
        #EXT-X-STREAM-INF:BANDWIDTH=1,CODECS=\"avc1,opus\",AUDIO=\"opus\"\nP1.x/video.m3u8\n\
        #EXT-X-STREAM-INF:BANDWIDTH=1,AUDIO=\"aac\"\nP1.x/video.m3u8\n";

    #[test]
    fn a_viewer_takes_the_first_variant_and_its_audio() {
        assert_eq!(renditions(OURS), ["P1.x/video.m3u8", "P1.x/opus.m3u8"]);
        assert_eq!(
            resolved("/a/hls/P1.x/video.m3u8", "../F1.x/video/s1.m4s"),
            "/a/hls/F1.x/video/s1.m4s"
        );
    }

    #[test]
    fn the_replica_has_a_playlist_before_each_part_and_lasts_long_enough() {
        let found = parts(
            "#EXT-X-PART:DURATION=0.2,URI=\"a\",INDEPENDENT=YES\n#EXT-X-PART:URI=\"b\",DURATION=0.3\n",
        );
        let seconds: Vec<f64> = found.iter().map(|it| it.seconds).collect();
        assert_eq!(seconds, [0.2, 0.3]);
        let track = Track {
            playlist_bytes: 9,
            parts: found,
        };
        let text = track.playlist(0, Duration::from_secs(2));
        assert!(
            text.starts_with("#EXTM3U\n#EXT-X-TARGETDURATION:1\n"),
            "{text}"
        );
        assert_eq!(
            text.matches("\n0.txt\n").count(),
            text.matches(".m4s\n").count()
        );
        let durations = text
            .lines()
            .filter_map(|line| line.strip_prefix("#EXTINF:"));
        let all = durations.map(|it| it.trim_end_matches(',').parse::<f64>().expect("a number"));
        assert!(all.sum::<f64>() >= 2.0, "{text}");
        assert!(text.ends_with("#EXT-X-ENDLIST\n"));
    }
}
