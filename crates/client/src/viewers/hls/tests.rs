use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use super::*;
use crate::viewers::{Endpoint, Join, Pool};

/// Time of one part, and parts of a segment.
const PART: Duration = Duration::from_millis(100);
const PARTS: u64 = 10;

/// Parts that are there when the server starts.
const PARTS_AT_FIRST: u64 = 45;

/// The beginning of a stream, by both clocks.
#[derive(Clone, Copy)]
struct Beginning {
    at: Instant,
    since_1970: Duration,
}

/// A server of HLS with low latency, behind a redirection, whose parts come by the clock until `parts_max`.
fn serve(parts_max: u64) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let began = Beginning {
        at: Instant::now(),
        since_1970: since_1970.expect("after 1970"),
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream, parts_max, began));
        }
    });
    address
}

fn answer(mut stream: TcpStream, parts_max: u64, began: Beginning) {
    let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|it| it > 0) {
        let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
        }
        line.clear();
        let wanted = target.split_once("_HLS_msn=").map(|(_, rest)| {
            let mut numbers = rest
                .split("&_HLS_part=")
                .map(|it| it.parse::<u64>().expect("a number"));
            numbers.next().expect("a segment") * PARTS + numbers.next().expect("a part") + 1
        });
        let response = if target == "/index.m3u8" {
            "HTTP/1.1 302 Found\r\nLocation: /live/video.m3u8\r\nContent-Length: 0\r\n\r\n"
                .to_owned()
        } else if target.contains("video.m3u8") {
            let due = wanted.unwrap_or(0).saturating_sub(PARTS_AT_FIRST);
            let due = began.at + PART * u32::try_from(due).expect("a few");
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let passed =
                u64::try_from(began.at.elapsed().as_millis()).expect("a few seconds") / 100;
            let text = playlist(
                (PARTS_AT_FIRST + passed).min(parts_max),
                passed + PARTS_AT_FIRST >= parts_max,
                began.since_1970,
            );
            format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}",
                text.len()
            )
        } else {
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nmedia\r\n0\r\n\r\n"
                .to_owned()
        };
        if stream.write_all(response.as_bytes()).is_err() {
            return;
        }
    }
}

fn playlist(parts: u64, is_ended: bool, unix: Duration) -> String {
    let mut text = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXT-X-PART-INF:PART-TARGET=0.1\n\
        #EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=0.3\n#EXT-X-MAP:URI=\"init.mp4\"\n"
        .to_owned();
    let first = DateTime(
        i64::try_from((unix - PART * u32::try_from(PARTS_AT_FIRST).expect("a few")).as_nanos())
            .expect("now"),
    );
    for sequence in 0..=parts / PARTS {
        let date = first.after(PART * u32::try_from(sequence * PARTS).expect("a few"));
        text += &format!("#EXT-X-PROGRAM-DATE-TIME:{date}\n");
        for part in 0..(parts - sequence * PARTS).min(PARTS) {
            let independent = if part % 5 == 0 {
                ",INDEPENDENT=YES"
            } else {
                ""
            };
            text +=
                &format!("#EXT-X-PART:DURATION=0.1,URI=\"{sequence}.{part}.mp4\"{independent}\n");
        }
        if sequence < parts / PARTS {
            text += &format!("#EXTINF:1.0,\n{sequence}.mp4\n");
        }
    }
    text + if is_ended { "#EXT-X-ENDLIST\n" } else { "" }
}

fn joined(address: SocketAddr) -> (Pool, Id) {
    let pool = Pool::start(Options::default()).expect("threads");
    let endpoint = Endpoint::parse(&format!("http://{address}/index.m3u8")).expect("a URL");
    let id = pool.join(Join::new(endpoint));
    (pool, id)
}

/// Waits until a viewer's progress is as wanted.
fn await_progress(pool: &Pool, wanted: impl Fn(&Progress) -> bool) -> Progress {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let progress = pool.progress().into_iter().next().expect("the viewer");
        if wanted(&progress) {
            return progress;
        }
        assert!(Instant::now() < until, "{progress:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_viewer_plays_part_after_part_near_the_live_edge() {
    let (pool, id) = joined(serve(u64::MAX));
    let progress = await_progress(&pool, |it| it.video.received >= 20);
    assert_eq!((progress.id, progress.state), (id, State::Playing));
    let hls = progress.hls.expect("figures of HLS");
    // A request of a playlist for each part, beside the first ones.
    assert!(hls.requests > 25, "{hls:?}");
    let latency = hls.latency.expect("the playlist has dates");
    // The hold-back, up to the independent part before, and what this machine adds.
    assert!(
        latency > Duration::from_millis(250) && latency < Duration::from_secs(5),
        "{latency:?}"
    );
    assert!(pool.take_delays().count() > 10 && pool.take_gaps().count() > 10);
    pool.leave(id);
    assert!(pool.progress().is_empty());
}

#[test]
fn the_end_of_a_playlist_is_the_end_of_its_viewer() {
    let (pool, _) = joined(serve(PARTS_AT_FIRST + 5));
    let ended = await_progress(&pool, |it| it.state == State::Ended);
    assert_eq!(ended.failure.as_deref(), Some("the playlist has ended"));
    assert!(ended.video.received >= 5, "{ended:?}");
}

#[test]
fn a_playlist_that_has_ended_plays_from_its_beginning_in_real_time() {
    let began = Instant::now();
    let (pool, _) = joined(serve(PARTS_AT_FIRST));
    let ended = await_progress(&pool, |it| it.state == State::Ended);
    assert_eq!(ended.failure.as_deref(), Some("the playlist has ended"));
    assert_eq!(ended.video.received, PARTS_AT_FIRST);
    // 4.5 s, of which three Target Durations are loaded at once.
    assert!(began.elapsed() >= Duration::from_millis(1_350), "{ended:?}");
}

#[test]
fn a_server_without_playlist_is_named() {
    let (pool, _) = joined(SocketAddr::from(([127, 0, 0, 1], 1)));
    let ended = await_progress(&pool, |it| it.state == State::Ended);
    let reason = ended.failure.expect("a reason");
    assert!(
        reason.starts_with("http://127.0.0.1:1/index.m3u8: "),
        "{reason}"
    );
}
