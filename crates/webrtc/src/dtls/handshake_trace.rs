//! What this end has seen of a handshake, to say why it is not done.

use super::client_hello;

/// Content type of handshake records (RFC 5246 §6.2.1).
const HANDSHAKE: u8 = 22;
/// Content type of alerts.
const ALERT: u8 = 21;
/// Bytes of a record's header (RFC 6347 §4.1): type, version, epoch, sequence number, length.
const HEADER_BYTES: usize = 13;

/// A flight of the handshake (RFC 6347 §4.2.4), named by its first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flight {
    /// The client's first or second ClientHello.
    ClientHello,
    /// The server's cookie, which the client has to return.
    HelloVerifyRequest,
    /// The server's hello, certificate and key.
    ServerHello,
    /// The client's certificate, key and Finished.
    ClientKeyExchange,
}

impl Flight {
    /// Returns the name of the flight's first message.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClientHello => "ClientHello",
            Self::HelloVerifyRequest => "HelloVerifyRequest",
            Self::ServerHello => "ServerHello",
            Self::ClientKeyExchange => "ClientKeyExchange",
        }
    }

    /// Returns the flight that a handshake message belongs to. A Finished belongs to the last flight
    /// of either end, which is encrypted and therefore not seen here.
    const fn of_message(kind: u8) -> Option<Self> {
        match kind {
            1 => Some(Self::ClientHello),
            3 => Some(Self::HelloVerifyRequest),
            2 | 12 | 13 | 14 => Some(Self::ServerHello),
            15 | 16 => Some(Self::ClientKeyExchange),
            _ => None,
        }
    }
}

/// The messages of a handshake that this end has sent and received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandshakeTrace {
    /// Number of datagrams received.
    pub received: u32,
    /// Number of datagrams sent, or about to be.
    pub sent: u32,
    /// Size of the largest datagram sent, in bytes.
    pub largest_bytes: usize,
    /// Latest flight of the peer, of which a message arrived.
    pub latest_received: Option<Flight>,
    /// Latest flight of this end.
    pub latest_sent: Option<Flight>,
    /// Profiles for SRTP that the peer's ClientHello has in `use_srtp` (RFC 5764 §4.1.2), at most 16:
    /// none without that extension. `None` if the peer sent no ClientHello, or sent it in fragments.
    pub srtp_offered: Option<Box<[u16]>>,
    /// Fatal alert of the peer (RFC 5246 §7.2), by its number.
    pub alert: Option<u8>,
    /// The reason why this end gave the handshake up; `None` if it did not.
    pub failure: Option<Box<str>>,
}

impl HandshakeTrace {
    /// Notes a datagram of the peer.
    pub(super) fn note_received(&mut self, datagram: &[u8]) {
        self.received = self.received.saturating_add(1);
        self.latest_received = latest_flight(datagram).or(self.latest_received);
        let hello = records(datagram).find_map(|(kind, body)| match kind {
            HANDSHAKE => client_hello::srtp_profiles(body),
            _ => None,
        });
        self.srtp_offered = hello.or(self.srtp_offered.take());
        // An alert within the encryption is found by the handshake itself.
        let alert = records(datagram).find_map(|(kind, body)| match (kind, body) {
            (ALERT, [2, description]) => Some(*description),
            _ => None,
        });
        self.alert = self.alert.or(alert);
    }

    /// Notes a datagram of this end.
    pub(super) fn note_sent(&mut self, datagram: &[u8]) {
        self.sent = self.sent.saturating_add(1);
        self.largest_bytes = self.largest_bytes.max(datagram.len());
        self.latest_sent = latest_flight(datagram).or(self.latest_sent);
    }
}

/// Returns the flight of the last handshake message in `datagram` that is not encrypted.
fn latest_flight(datagram: &[u8]) -> Option<Flight> {
    let messages = records(datagram).filter(|(kind, _)| *kind == HANDSHAKE);
    let flights = messages.filter_map(|(_, body)| Flight::of_message(*body.first()?));
    flights.last()
}

/// Returns type and content of the records of epoch 0, up to the first that is malformed.
fn records(datagram: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = datagram;
    let all = std::iter::from_fn(move || {
        let (header, after) = rest.split_at_checked(HEADER_BYTES)?;
        let bytes = usize::from(u16::from_be_bytes([header[11], header[12]]));
        let (body, after) = after.split_at_checked(bytes)?;
        rest = after;
        Some((header[0], [header[3], header[4]], body))
    });
    all.filter(|(_, epoch, _)| *epoch == [0, 0])
        .map(|(kind, _, body)| (kind, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, epoch: u8, body: &[u8]) -> Vec<u8> {
        let mut record = vec![kind, 254, 253, 0, epoch, 0, 0, 0, 0, 0, 1];
        record.extend(u16::try_from(body.len()).expect("short").to_be_bytes());
        record.extend(body);
        record
    }

    #[test]
    fn flights_and_alerts_are_told_from_records_in_the_clear() {
        let mut trace = HandshakeTrace::default();
        trace.note_received(&record(HANDSHAKE, 0, &[1, 0, 0]));
        assert_eq!(trace.latest_received, Some(Flight::ClientHello));
        let hello = [
            record(HANDSHAKE, 0, &[2, 0]),
            record(HANDSHAKE, 0, &[11, 0]),
        ];
        trace.note_sent(&hello.concat());
        assert_eq!(trace.latest_sent, Some(Flight::ServerHello));
        assert_eq!(trace.largest_bytes, 30);
        // An encrypted record says nothing, and neither does a truncated one.
        trace.note_received(&record(HANDSHAKE, 1, &[16, 0]));
        trace.note_received(&record(HANDSHAKE, 0, &[16, 0])[..14]);
        trace.note_received(&record(ALERT, 1, &[2, 80]));
        trace.note_received(&record(ALERT, 0, &[1, 0]));
        assert_eq!(trace.latest_received, Some(Flight::ClientHello));
        assert_eq!(trace.alert, None);
        trace.note_received(&record(ALERT, 0, &[2, 42]));
        trace.note_received(&record(ALERT, 0, &[2, 43]));
        assert_eq!((trace.alert, trace.received), (Some(42), 7));
    }
}
