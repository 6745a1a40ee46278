//! An RTSP server's answer to OPTIONS, and its clock as its sender reports tell it.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant, SystemTime};

use glassline_media::{NtpTime, TrackIndex};
use glassline_rtp::rtcp;
use glassline_rtsp::client::{Client, Config, Event, RequestedTransport};
use url::Url;

/// Sends `OPTIONS *` to `address`, and returns the status line.
///
/// # Errors
/// There is no connection or no answer within `patience`, or the answer is not RTSP's.
pub fn options(address: SocketAddr, patience: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n")?;
    let mut line = String::new();
    io::Read::take(BufReader::new(stream), 200).read_line(&mut line)?;
    match line.starts_with("RTSP/") {
        true => Ok(line.trim_end().to_owned()),
        false => Err(io::Error::other(format!("no RTSP answer: {line:?}"))),
    }
}

/// The time that a sender report tells, and this machine's time when it arrived.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderClock {
    /// Seconds that the report is ahead of this machine's clock at its arrival; negative if it is
    /// behind, as a report from a right clock is by its way.
    pub ahead_s: f64,
    /// Round trip time of the connection, which bounds the report's way.
    pub round_trip: Duration,
}

/// Plays the first track of the stream `url` within a connection to `address` until a sender report
/// (RFC 3550 §6.4.1) comes.
///
/// # Errors
/// There is no connection, the stream cannot be played, or no report came within `patience`.
pub fn sender_clock(address: SocketAddr, url: &Url, patience: Duration) -> io::Result<SenderClock> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    // The kernel answers, so that this is the way there and back alone.
    let round_trip = begun.elapsed();
    let mut client = Client::new(Config::new(url.clone(), rand::random()));
    client.start(Instant::now());
    let mut buffer = vec![0; 64 << 10];
    let mut seen = None;
    loop {
        while !client.output().is_empty() {
            let written = stream.write(client.output())?;
            client.advance(written);
        }
        if let Some(ahead_s) = seen {
            client.leave(Instant::now());
            // The server ends a session without a farewell as well.
            let _ = stream.write_all(client.output());
            return Ok(SenderClock {
                ahead_s,
                round_trip,
            });
        }
        let left = patience.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut buffer)?;
        let arrived = SystemTime::now();
        if count == 0 {
            client.handle_end();
        }
        client.handle_data(Instant::now(), &buffer[..count], |frame| {
            if frame.control && seen.is_none() {
                seen = reported(frame.payload).and_then(|ntp| ahead(ntp, arrived));
            }
        });
        while let Some(event) = client.poll_event() {
            match event {
                Event::Described(_) => {
                    let track = (TrackIndex(0), RequestedTransport::Interleaved);
                    client.set_up(Instant::now(), &[track]);
                }
                Event::Closed(why) | Event::LeftOut { reason: why, .. } => {
                    return Err(io::Error::other(why.to_string()));
                }
                Event::SetUp { .. } | Event::Playing { .. } | Event::Recording => {}
            }
        }
    }
}

/// Returns the time of the first sender report in a compound packet.
fn reported(compound: &[u8]) -> Option<NtpTime> {
    rtcp::parse(compound)
        .flatten()
        .find_map(|packet| match packet {
            rtcp::Packet::SenderReport(report) => Some(report.ntp),
            _ => None,
        })
}

/// Returns by how many seconds a time is ahead of this machine's `now`. The seconds of NTP wrap in
/// 2036, so that the nearest of the times that they may mean counts.
fn ahead(ntp: NtpTime, now: SystemTime) -> Option<f64> {
    let now = NtpTime::from_unix(now.duration_since(SystemTime::UNIX_EPOCH).ok()?);
    Some(ntp.0.wrapping_sub(now.0).cast_signed() as f64 / 2_f64.powi(32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_ntp_is_compared_across_the_end_of_its_seconds() {
        let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let ntp = |seconds| NtpTime::from_unix(Duration::from_secs(seconds));
        for now in [1_763_900_000, 2_085_978_495, 2_085_978_496] {
            assert_eq!(ahead(ntp(now + 5), at(now)), Some(5.0));
            assert_eq!(ahead(ntp(now - 5), at(now)), Some(-5.0));
        }
    }
}
