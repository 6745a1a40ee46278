//! A viewer by RTSP, who says when nothing came for a while.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::CLIP;
use super::fleet::NodeAddress;
use super::observer::say;

/// Time without a packet after which it is said that media has stopped. The clip has 30 frames a
/// second, and audio.
const STALL: Duration = Duration::from_millis(500);

/// Pause before a viewer connects again.
const AGAIN: Duration = Duration::from_millis(300);

/// A session ends without a request for a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// Watches at a server until `stop`.
pub(super) fn watch(node: NodeAddress, began: Instant, stop: Arc<AtomicBool>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut latest: Option<Instant> = None;
        let mut is_stalled = false;
        while !stop.load(Ordering::Relaxed) {
            let mut on_packet = |is_packet: bool| {
                let silent = latest.map_or(Duration::ZERO, |at| at.elapsed());
                if is_packet {
                    if is_stalled {
                        let seconds = silent.as_secs_f64();
                        let text =
                            format!("viewer at {}: plays again after {seconds:.2} s", node.name);
                        say(began, &text);
                    }
                    (latest, is_stalled) = (Some(Instant::now()), false);
                } else if silent > STALL && !is_stalled {
                    is_stalled = true;
                    say(began, &format!("viewer at {}: nothing arrives", node.name));
                }
                !stop.load(Ordering::Relaxed)
            };
            let _ = play(&node, &mut on_packet);
            on_packet(false);
            std::thread::sleep(AGAIN);
        }
    })
}

/// Plays until the connection ends or `on_packet` returns false. It hears of each packet, and of each
/// time in which none came.
fn play(node: &NodeAddress, on_packet: &mut impl FnMut(bool) -> bool) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&node.rtsp, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let url = format!("rtsp://{}/{CLIP}", node.rtsp);
    let described = ask(&mut stream, &mut reader, "DESCRIBE", &url, "")?;
    let control = described
        .lines()
        .find_map(|line| line.strip_prefix("a=control:track"));
    let track = control.ok_or(ErrorKind::InvalidData)?;
    let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
    let track = format!("{url}/track{track}");
    let set_up = ask(&mut stream, &mut reader, "SETUP", &track, transport)?;
    let session = set_up
        .lines()
        .find_map(|line| line.strip_prefix("Session: "));
    let session = session
        .and_then(|it| it.split(';').next())
        .unwrap_or_default();
    let session = format!("Session: {session}\r\n");
    ask(&mut stream, &mut reader, "PLAY", &url, &session)?;
    stream.set_read_timeout(Some(Duration::from_millis(100)))?;
    let mut alive = Instant::now();
    let mut buffer = [0; 4096];
    loop {
        let is_packet = match reader.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => is_media(&buffer[..length]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                false
            }
            Err(error) => return Err(error),
        };
        if !on_packet(is_packet) {
            return Ok(());
        }
        if alive.elapsed() > KEEP_ALIVE {
            alive = Instant::now();
            send(&mut stream, "OPTIONS", &url, &session)?;
        }
    }
}

/// Whether what was read has media: without any, it begins with an answer or with a report, which goes
/// by channel 1.
fn is_media(read: &[u8]) -> bool {
    !read.starts_with(b"RTSP/") && !read.starts_with(b"$\x01")
}

fn send(stream: &mut TcpStream, method: &str, url: &str, headers: &str) -> std::io::Result<()> {
    write!(
        stream,
        "{method} {url} RTSP/1.0\r\nCSeq: 1\r\n{headers}\r\n"
    )
}

/// Returns head and body of the answer, which must be 200.
fn ask(
    stream: &mut TcpStream,
    reader: &mut BufReader<TcpStream>,
    method: &str,
    url: &str,
    headers: &str,
) -> std::io::Result<String> {
    send(stream, method, url, headers)?;
    let (mut answer, mut length) = (String::new(), 0);
    loop {
        let begin = answer.len();
        if reader.read_line(&mut answer)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let line = answer[begin..].trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(": ").unwrap_or((line, ""));
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse().unwrap_or(0);
        }
    }
    if !answer.starts_with("RTSP/1.0 200") {
        return Err(ErrorKind::NotFound.into());
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    answer += &String::from_utf8_lossy(&body);
    Ok(answer)
}
