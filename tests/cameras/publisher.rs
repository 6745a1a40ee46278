//! The fake camera as a publisher: ANNOUNCE, SETUP, RECORD, and the same packets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::description::description;
use super::device::Device;
use super::media::Media;
use super::packet_source::sound_of;
use super::row::{Row, Video};

/// A publisher that runs. Dropping it ends its connection.
pub(crate) struct Publisher {
    device: Arc<Device>,
    has_ended: Arc<AtomicBool>,
    refusal: Arc<Mutex<Option<String>>>,
}

/// Longest wait for a response.
const PATIENCE: Duration = Duration::from_secs(10);

impl Publisher {
    pub(crate) fn start(row: &'static Row, video: Video, url: &str) -> Result<Publisher, String> {
        let publisher = Publisher {
            device: Device::new(row, video)?,
            has_ended: Arc::default(),
            refusal: Arc::default(),
        };
        let device = Arc::clone(&publisher.device);
        let has_ended = Arc::clone(&publisher.has_ended);
        let refusal = Arc::clone(&publisher.refusal);
        let url = url.to_owned();
        thread::spawn(move || {
            if let Err(reason) = publish(&device, &url, &has_ended) {
                let mut refusal = refusal.lock().unwrap_or_else(PoisonError::into_inner);
                *refusal = Some(reason);
            }
        });
        Ok(publisher)
    }

    pub(crate) fn media(&self) -> &Arc<Media> {
        &self.device.media
    }

    /// The reason for which the publisher ended, if it has.
    pub(crate) fn refusal(&self) -> Option<String> {
        let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        refusal.clone()
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }
}

fn publish(device: &Device, url: &str, has_ended: &AtomicBool) -> Result<(), String> {
    let authority = url.trim_start_matches("rtsp://").split('/').next();
    let stream = TcpStream::connect(authority.unwrap_or_default());
    let mut call = Call {
        stream: stream.map_err(|error| error.to_string())?,
        number: 0,
        session: String::new(),
    };
    let timeout = call.stream.set_read_timeout(Some(PATIENCE));
    timeout.map_err(|error| error.to_string())?;
    let body = description(device.row, &device.media);
    call.ask("ANNOUNCE", url, "Content-Type: application/sdp\r\n", &body)?;
    let tracks = 1 + usize::from(sound_of(device.row).is_some());
    for track in 0..tracks {
        let (first, next) = (2 * track, 2 * track + 1);
        let transport =
            format!("Transport: RTP/AVP/TCP;unicast;interleaved={first}-{next};mode=record\r\n");
        call.ask("SETUP", &format!("{url}/trackID={track}"), &transport, b"")?;
    }
    call.ask("RECORD", url, "Range: npt=0-\r\n", b"")?;
    let (mut packets, begin) = (device.packets(), Instant::now());
    while !has_ended.load(Ordering::Relaxed) {
        let due = begin + packets.due();
        thread::sleep(due.saturating_duration_since(Instant::now()));
        for wire in packets.next() {
            let channel = 2 * wire.track as u8 + u8::from(wire.is_control);
            let mut framed = vec![b'$', channel];
            framed.extend((wire.bytes.len() as u16).to_be_bytes());
            framed.extend(wire.bytes);
            let sent = call.stream.write_all(&framed);
            sent.map_err(|error| format!("the server ended the publisher: {error}"))?;
        }
    }
    Ok(())
}

/// RTSP connection of the publisher to the server under test.
struct Call {
    stream: TcpStream,
    number: u32,
    /// Header of the session, once there is one.
    session: String,
}

impl Call {
    /// Sends a request, and waits for a response of success.
    fn ask(&mut self, method: &str, url: &str, headers: &str, body: &[u8]) -> Result<(), String> {
        self.number += 1;
        let head = format!(
            "{method} {url} RTSP/1.0\r\nCSeq: {}\r\n{headers}{}Content-Length: {}\r\n\r\n",
            self.number,
            self.session,
            body.len()
        );
        let request = [head.as_bytes(), body].concat();
        let sent = self.stream.write_all(&request);
        sent.map_err(|error| format!("{method}: {error}"))?;
        let mut response = Vec::new();
        while !response.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            let read = self.stream.read_exact(&mut byte);
            read.map_err(|error| format!("no response to {method}: {error}"))?;
            response.extend(byte);
        }
        let response = String::from_utf8_lossy(&response);
        let mut lines = response.lines();
        let status = lines.next().unwrap_or_default();
        if !status.contains(" 200 ") {
            return Err(format!("the server answers {method} with {response}"));
        }
        let session = lines.find_map(|line| line.strip_prefix("Session: "));
        if let Some(session) = session.and_then(|it| it.split(';').next()) {
            self.session = format!("Session: {session}\r\n");
        }
        Ok(())
    }
}
