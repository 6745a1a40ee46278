//! The time of an NTP server, asked once (SNTP, RFC 5905 §14).

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, SystemTime};

use crate::viewers::wildcard;

/// Seconds from 1900, where NTP counts from, to 1970.
const UNIX_EPOCH_S: u64 = 2_208_988_800;

/// Length of a packet without extensions, in bytes.
const PACKET_BYTES: usize = 48;

/// How far a server's clock is ahead of this machine's, in seconds, and the round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offset {
    /// Seconds that the server's clock is ahead; negative if it is behind.
    pub ahead_s: f64,
    /// Round trip time of the exchange.
    pub round_trip: Duration,
}

/// Asks the NTP server at `server` for the time.
///
/// # Errors
/// There was no answer within `patience`, or the server has no time to give.
pub fn offset(server: SocketAddr, patience: Duration) -> io::Result<Offset> {
    let socket = UdpSocket::bind(wildcard(server))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(patience))?;
    let mut packet = [0; PACKET_BYTES];
    // Version 4, mode 3 (client). The server repeats our transmit time, which need not be true.
    packet[0] = 4 << 3 | 3;
    packet[40..].copy_from_slice(&rand::random::<[u8; 8]>());
    let cookie = packet[40..].to_vec();
    let asked = SystemTime::now();
    socket.send(&packet)?;
    let length = socket.recv(&mut packet)?;
    let answered = SystemTime::now();
    if length < PACKET_BYTES || packet[24..32] != cookie[..] || packet[0] & 7 != 4 {
        return Err(io::Error::other("the answer is no answer to our request"));
    }
    if packet[1] == 0 || packet[0] >> 6 == 3 {
        return Err(io::Error::other("the server's own clock is not set"));
    }
    read(&packet, asked, answered)
        .ok_or_else(|| io::Error::other("the answer has no time of this century"))
}

/// Computes the offset of RFC 5905 §8 from an answer and our two times.
fn read(packet: &[u8; PACKET_BYTES], asked: SystemTime, answered: SystemTime) -> Option<Offset> {
    let ours = |time: SystemTime| {
        let time = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(time.as_secs_f64())
    };
    let theirs = |place: usize| {
        let seconds = u32::from_be_bytes(packet[place..place + 4].try_into().ok()?);
        let fraction = u32::from_be_bytes(packet[place + 4..place + 8].try_into().ok()?);
        let seconds = u64::from(seconds).checked_sub(UNIX_EPOCH_S)?;
        Some(seconds as f64 + f64::from(fraction) / 2_f64.powi(32))
    };
    let (asked, answered) = (ours(asked)?, ours(answered)?);
    let (received, sent) = (theirs(32)?, theirs(40)?);
    let round_trip = ((answered - asked) - (sent - received)).max(0.0);
    Some(Offset {
        ahead_s: ((received - asked) + (sent - answered)) / 2.0,
        round_trip: Duration::try_from_secs_f64(round_trip).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server whose clock is `ahead_s` seconds ahead answers one request.
    fn serve(ahead_s: u64, stratum: u8) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let address = socket.local_addr().expect("bound");
        std::thread::spawn(move || {
            let mut packet = [0; PACKET_BYTES];
            let (_, client) = socket.recv_from(&mut packet).expect("a request");
            let cookie = packet[40..].to_vec();
            packet[..2].copy_from_slice(&[4 << 3 | 4, stratum]);
            packet[24..32].copy_from_slice(&cookie);
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let now = now.expect("after 1970");
            let seconds = (now.as_secs() + UNIX_EPOCH_S + ahead_s) as u32;
            let fraction = (f64::from(now.subsec_nanos()) / 1e9 * 2_f64.powi(32)) as u32;
            for place in [32, 40] {
                packet[place..place + 4].copy_from_slice(&seconds.to_be_bytes());
                packet[place + 4..place + 8].copy_from_slice(&fraction.to_be_bytes());
            }
            socket.send_to(&packet, client).expect("sent");
        });
        address
    }

    #[test]
    fn a_clock_that_is_ahead_is_measured() {
        let offset = offset(serve(5, 2), Duration::from_secs(20)).expect("an answer");
        let half = offset.round_trip.as_secs_f64() / 2.0 + 0.01;
        assert!((offset.ahead_s - 5.0).abs() <= half, "{offset:?}");
    }

    #[test]
    fn a_server_without_a_clock_gives_no_time() {
        let error = offset(serve(0, 0), Duration::from_secs(20)).expect_err("stratum 0");
        assert!(error.to_string().contains("not set"), "{error}");
    }
}
