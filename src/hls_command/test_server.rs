//! A server of HLS with low latency for tests, whose parts come by the clock.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Duration of a part; five are a segment of a second.
const PART: Duration = Duration::from_millis(200);
const PARTS: u64 = 5;

/// Parts that are there when the server starts.
const PARTS_AT_FIRST: u64 = 63;

/// Mistakes that a server makes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manners {
    /// Whether requests for the next part are answered at once.
    pub(super) answers_at_once: bool,
    /// Whether any directive is answered with the playlist.
    pub(super) takes_any_directive: bool,
    /// Whether the playlist is led to by a redirection.
    pub(super) redirects: bool,
}

/// Starts a server, which lasts as long as the tests do.
pub(super) fn start(manners: Manners) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    let began = Instant::now();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream, manners, began));
        }
    });
    address
}

/// Answers the requests of one connection.
fn serve(mut stream: TcpStream, manners: Manners, began: Instant) {
    let Ok(reader) = stream.try_clone() else {
        return;
    };
    let mut reader = BufReader::new(reader);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            match reader.read_line(&mut head) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let (status, more, body) = answer(&target, manners, began);
        let length = body.len();
        let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n{more}\r\n");
        if stream
            .write_all(&[head.as_bytes(), &body].concat())
            .is_err()
        {
            return;
        }
    }
}

fn answer(target: &str, manners: Manners, began: Instant) -> (u16, String, Vec<u8>) {
    let nothing = |status| (status, String::new(), Vec::new());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let parameter = |name: &str| {
        let mut pairs = query.split('&').filter_map(|it| it.split_once('='));
        pairs
            .find(|(key, _)| *key == name)
            .and_then(|(_, value)| value.parse::<u64>().ok())
    };
    if !query.contains("signature=s") {
        return nothing(403);
    }
    match path {
        "/moved.m3u8" if manners.redirects => {
            (302, format!("location: /live.m3u8?{query}\r\n"), Vec::new())
        }
        "/live.m3u8" => {
            let wanted = match (parameter("_HLS_msn"), parameter("_HLS_part")) {
                _ if manners.takes_any_directive => None,
                (None, Some(_)) => return nothing(400),
                (Some(sequence), part) => Some(sequence * PARTS + part.map_or(PARTS, |it| it + 1)),
                (None, None) => None,
            };
            let there = count(began);
            if wanted.is_some_and(|it| it > there + 3 * PARTS) {
                return nothing(400);
            }
            if !manners.answers_at_once {
                await_parts(wanted.unwrap_or(0), began);
            }
            let is_delta = query.contains("_HLS_skip=YES");
            let kind = "content-type: application/vnd.apple.mpegurl\r\n".to_owned();
            (200, kind, playlist(count(began), is_delta).into_bytes())
        }
        path if path.ends_with(".mp4") => {
            let name = path.trim_start_matches('/').trim_end_matches(".mp4");
            let mut numbers = name.split('.').map(|it| it.parse::<u64>().unwrap_or(0));
            let (sequence, part) = (numbers.next().unwrap_or(0), numbers.next());
            await_parts(part.map_or(0, |it| sequence * PARTS + it + 1), began);
            (
                200,
                String::new(),
                fragment(if part.is_some() { 6 } else { 6 * PARTS }),
            )
        }
        _ => nothing(404),
    }
}

/// Number of parts that are there.
fn count(began: Instant) -> u64 {
    PARTS_AT_FIRST + u64::try_from(began.elapsed().as_millis() / PART.as_millis()).unwrap_or(0)
}

fn await_parts(wanted: u64, began: Instant) {
    let missing = wanted.saturating_sub(PARTS_AT_FIRST);
    let due = began + PART * u32::try_from(missing).unwrap_or(u32::MAX);
    std::thread::sleep(due.saturating_duration_since(Instant::now()));
}

fn playlist(parts: u64, is_delta: bool) -> String {
    let next = parts / PARTS;
    let first = next - 10;
    let mut text = format!(
        "#EXTM3U\n#EXT-X-VERSION:9\n#EXT-X-TARGETDURATION:1\n#EXT-X-PART-INF:PART-TARGET=0.2\n\
         #EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL=6.0,PART-HOLD-BACK=0.6\n\
         #EXT-X-MEDIA-SEQUENCE:{first}\n"
    );
    let skipped = if is_delta { 4 } else { 0 };
    if is_delta {
        text += &format!("#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}\n");
    }
    let query = "?signature=s";
    for sequence in first + skipped..=next {
        text += &format!(
            "#EXT-X-PROGRAM-DATE-TIME:2026-05-01T10:{:02}:{:02}.000Z\n",
            sequence / 60 % 60,
            sequence % 60
        );
        let listed = (parts - sequence * PARTS).min(PARTS);
        if sequence + 3 > next {
            for part in 0..listed {
                let independent = if part == 0 { ",INDEPENDENT=YES" } else { "" };
                text += &format!(
                    "#EXT-X-PART:DURATION=0.2,URI=\"{sequence}.{part}.mp4{query}\"{independent}\n"
                );
            }
        }
        if sequence < next {
            text += &format!("#EXTINF:1.0,\n{sequence}.mp4{query}\n");
        }
    }
    let part = parts % PARTS;
    text + &format!("#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"{next}.{part}.mp4{query}\"\n")
}

/// A fragment with so many samples.
fn fragment(samples: u64) -> Vec<u8> {
    let boxed = |kind: &[u8; 4], content: &[u8]| {
        let size = u32::try_from(content.len() + 8).expect("a small box");
        [&size.to_be_bytes()[..], kind, content].concat()
    };
    let samples = u32::try_from(samples)
        .expect("a small number")
        .to_be_bytes();
    let inner = [
        boxed(b"tfdt", &[0; 8]),
        boxed(b"trun", &[&[0; 4][..], &samples].concat()),
    ]
    .concat();
    [
        boxed(b"moof", &boxed(b"traf", &inner)),
        boxed(b"mdat", &[7; 64]),
    ]
    .concat()
}
