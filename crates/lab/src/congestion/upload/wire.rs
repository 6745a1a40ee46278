//! Observes what an upload sends before it is encrypted.
//!
//! noq-proto counts lost packets, not retransmitted stream bytes, and a lost packet may be
//! retransmitted in part, later, or not at all (its stream was reset). Its cipher is a trait that
//! gets every packet's plaintext and number, so the exact figures are read there.
//!
//! ```text
//! publisher: plaintext ─► TappedKey: stream bytes, how many of them again ─► cipher
//! receiver:  cipher ─► TappedKey: this number arrived
//! publisher: Meter: this number was acknowledged, or declared lost
//! ```

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::BytesMut;
use noq_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey,
    ServerConfig, Session, UnsupportedVersion,
};
use noq_proto::transport_parameters::TransportParameters;
use noq_proto::{ConnectError, ConnectionId, PathId, Side, TransportError};
use parking_lot::Mutex;

use super::frames::for_each_stream_frame;

/// Both ends' view of the packets that carry media. Shared by the two taps and the meter of one
/// upload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wire(Arc<Mutex<Ledger>>);

/// Stream bytes by what happened to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamBytes {
    /// Bytes that were sent for the first time.
    pub(crate) first: u64,
    /// Bytes that were retransmitted.
    pub(crate) again: u64,
    /// Bytes in packets that were acknowledged.
    pub(crate) acked: u64,
    /// Bytes in packets that were declared lost.
    pub(crate) lost: u64,
    /// Bytes in packets that were declared lost and arrived all the same.
    pub(crate) spurious: u64,
    /// Number of packets with unknown frames, whose content is not counted.
    pub(crate) unread_packets: u64,
}

#[derive(Debug, Default)]
struct Ledger {
    bytes: StreamBytes,
    /// Packets from number `base` on; `None` for those that are settled or were never sent.
    open: VecDeque<Option<Carried>>,
    base: u64,
    /// State of the latest streams.
    streams: BTreeMap<u64, Stream>,
    /// Packets that arrived, one bit each.
    arrived: Vec<u64>,
    /// Numbers and stream bytes of the packets that were declared lost.
    lost: Vec<(u64, u32)>,
}

/// State of one stream.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    sent_to: u64,
    acked: u64,
}

/// Stream bytes of a packet.
#[derive(Clone, Copy, Debug, Default)]
struct Carried {
    /// Bytes by stream. More than two streams share a packet only where pieces of audio meet;
    /// bytes of a third one count for the second.
    parts: [(u64, u32); 2],
}

impl Carried {
    fn add(&mut self, id: u64, bytes: u64) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let [first, second] = &mut self.parts;
        if first.1 == 0 || first.0 == id {
            *first = (id, first.1.saturating_add(bytes));
        } else {
            *second = (if second.1 == 0 { id } else { second.0 }, second.1 + bytes);
        }
    }

    fn bytes(&self) -> u32 {
        self.parts[0].1 + self.parts[1].1
    }
}

/// Number of streams whose offsets are kept. A group's stream ends long before this many newer
/// ones have begun; retransmitted bytes of an older stream count as new.
const STREAMS_KEPT: usize = 256;

/// Largest packet number that is observed; no session has 2³² packets.
const NUMBERS_MAX: u64 = 1 << 32;

impl Wire {
    /// Counts of all stream bytes so far.
    pub(crate) fn bytes(&self) -> StreamBytes {
        let ledger = self.0.lock();
        let mut bytes = ledger.bytes;
        let spurious = ledger
            .lost
            .iter()
            .filter(|(number, _)| ledger.has_arrived(*number));
        bytes.spurious = spurious.map(|(_, bytes)| u64::from(*bytes)).sum();
        bytes
    }

    /// Acknowledged bytes of stream `id` so far.
    pub(super) fn acked_of(&self, id: u64) -> u64 {
        self.0
            .lock()
            .streams
            .get(&id)
            .map_or(0, |stream| stream.acked)
    }

    /// Counts packets that were acknowledged.
    pub(super) fn on_acked(&self, numbers: &[u64]) {
        let mut ledger = self.0.lock();
        for number in numbers {
            let Some(carried) = ledger.settle(*number) else {
                continue;
            };
            ledger.bytes.acked += u64::from(carried.bytes());
            for (id, bytes) in carried.parts {
                if bytes > 0
                    && let Some(stream) = ledger.streams.get_mut(&id)
                {
                    stream.acked += u64::from(bytes);
                }
            }
        }
    }

    /// Counts a packet that was declared lost.
    pub(super) fn on_lost(&self, number: u64) {
        let mut ledger = self.0.lock();
        let bytes = ledger.settle(number).map_or(0, |carried| carried.bytes());
        if bytes > 0 {
            ledger.bytes.lost += u64::from(bytes);
            ledger.lost.push((number, bytes));
        }
    }

    fn on_plaintext(&self, number: u64, payload: &[u8]) {
        self.0.lock().send(number, payload);
    }

    fn on_arrived(&self, number: u64) {
        if number >= NUMBERS_MAX {
            return;
        }
        let mut ledger = self.0.lock();
        let place = (number / 64) as usize;
        if ledger.arrived.len() <= place {
            ledger.arrived.resize(place + 1, 0);
        }
        ledger.arrived[place] |= 1 << (number % 64);
    }
}

impl Ledger {
    fn send(&mut self, number: u64, payload: &[u8]) {
        let mut carried = Carried::default();
        let (bytes, streams) = (&mut self.bytes, &mut self.streams);
        let known = for_each_stream_frame(payload, |frame| {
            let end = frame.offset + frame.bytes;
            let stream = streams.entry(frame.id).or_default();
            let new = end.saturating_sub(frame.offset.max(stream.sent_to));
            stream.sent_to = end.max(stream.sent_to);
            bytes.first += new;
            bytes.again += frame.bytes - new;
            carried.add(frame.id, frame.bytes);
        });
        while self.streams.len() > STREAMS_KEPT {
            self.streams.pop_first();
        }
        self.bytes.unread_packets += u64::from(!known);
        if self.open.is_empty() {
            self.base = number;
        }
        // Packet numbers ascend, and one is skipped on purpose from time to time (RFC 9000
        // §21.4).
        let place = number.saturating_sub(self.base) as usize;
        if place >= self.open.len() && number < NUMBERS_MAX {
            self.open.resize(place, None);
            self.open.push_back(Some(carried));
        }
    }

    fn settle(&mut self, number: u64) -> Option<Carried> {
        let place = usize::try_from(number.checked_sub(self.base)?).ok()?;
        let carried = self.open.get_mut(place)?.take();
        while let Some(None) = self.open.front() {
            self.open.pop_front();
            self.base += 1;
        }
        carried
    }

    fn has_arrived(&self, number: u64) -> bool {
        let word = self.arrived.get((number / 64) as usize);
        word.is_some_and(|word| word & (1 << (number % 64)) != 0)
    }
}

/// End of the connection at which a tap is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Publisher,
    Receiver,
}

/// Whether packets after the handshake are encrypted.
///
/// In virtual time encryption has no effect on the figures: a packet that is not sealed has the
/// size, number and time of a sealed one, and costs less processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packets {
    Sealed,
    /// Packets are not encrypted and have a tag of zeros. Both ends must agree.
    Open,
}

/// Client configuration that lets `wire` see what is sent.
pub(super) struct TappedClient {
    pub(super) inner: Arc<dyn ClientConfig>,
    pub(super) wire: Wire,
    pub(super) packets: Packets,
}

impl ClientConfig for TappedClient {
    fn start_session(
        &self,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = self.inner.start_session(version, server_name, params)?;
        let wire = self.wire.clone();
        Ok(TappedSession::boxed(
            inner,
            wire,
            End::Publisher,
            self.packets,
        ))
    }
}

/// Server configuration that lets `wire` see what arrives.
pub(super) struct TappedServer {
    pub(super) inner: Arc<dyn ServerConfig>,
    pub(super) wire: Wire,
    pub(super) packets: Packets,
}

impl ServerConfig for TappedServer {
    fn initial_keys(&self, version: u32, id: ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.inner.initial_keys(version, id)
    }

    fn retry_tag(&self, version: u32, id: ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.inner.retry_tag(version, id, packet)
    }

    fn start_session(&self, version: u32, params: &TransportParameters) -> Box<dyn Session> {
        let inner = self.inner.start_session(version, params);
        TappedSession::boxed(inner, self.wire.clone(), End::Receiver, self.packets)
    }
}

struct TappedSession {
    inner: Box<dyn Session>,
    wire: Wire,
    end: End,
    packets: Packets,
    /// Number of keys that were handed out: first the handshake's, then those of the data.
    keys: u32,
}

impl TappedSession {
    fn boxed(inner: Box<dyn Session>, wire: Wire, end: End, packets: Packets) -> Box<dyn Session> {
        Box::new(Self {
            inner,
            wire,
            end,
            packets,
            keys: 0,
        })
    }

    fn tap(&self, keys: KeyPair<Box<dyn PacketKey>>) -> KeyPair<Box<dyn PacketKey>> {
        let key = |inner, of: End| -> Box<dyn PacketKey> {
            Box::new(TappedKey {
                inner,
                wire: (self.end == of).then(|| self.wire.clone()),
                packets: self.packets,
            })
        };
        KeyPair {
            local: key(keys.local, End::Publisher),
            remote: key(keys.remote, End::Receiver),
        }
    }
}

impl Session for TappedSession {
    fn initial_keys(&self, dst_cid: ConnectionId, side: Side) -> Keys {
        self.inner.initial_keys(dst_cid, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.inner.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.inner.read_handshake(buf)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.inner.transport_parameters()
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let mut keys = self.inner.write_handshake(buf)?;
        self.keys += 1;
        if self.keys > 1 {
            keys.packet = self.tap(keys.packet);
            if self.packets == Packets::Open {
                let open = |inner| -> Box<dyn HeaderKey> { Box::new(OpenHeader(inner)) };
                keys.header = KeyPair {
                    local: open(keys.header.local),
                    remote: open(keys.header.remote),
                };
            }
        }
        Some(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.inner.next_1rtt_keys()?;
        Some(self.tap(keys))
    }

    fn is_valid_retry(&self, orig_dst_cid: ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(orig_dst_cid, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}

/// Packet key that reports to `wire` what it encrypts or decrypts.
struct TappedKey {
    inner: Box<dyn PacketKey>,
    wire: Option<Wire>,
    packets: Packets,
}

impl PacketKey for TappedKey {
    fn encrypt(&self, path: PathId, packet: u64, buf: &mut [u8], header_len: usize) {
        let end = buf.len().saturating_sub(self.inner.tag_len());
        if let Some(wire) = &self.wire {
            let payload = buf.get(header_len..end).unwrap_or_default();
            wire.on_plaintext(packet, payload);
        }
        match self.packets {
            Packets::Sealed => self.inner.encrypt(path, packet, buf, header_len),
            Packets::Open => buf[end..].fill(0),
        }
    }

    fn decrypt(
        &self,
        path: PathId,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        match self.packets {
            Packets::Sealed => self.inner.decrypt(path, packet, header, payload)?,
            Packets::Open => {
                let bytes = payload.len().checked_sub(self.inner.tag_len());
                payload.truncate(bytes.ok_or(CryptoError)?);
            }
        }
        if let Some(wire) = &self.wire {
            wire.on_arrived(packet);
        }
        Ok(())
    }

    fn tag_len(&self) -> usize {
        self.inner.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.inner.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.inner.integrity_limit()
    }
}

/// Header key that leaves packet numbers unprotected.
struct OpenHeader(Box<dyn HeaderKey>);

impl HeaderKey for OpenHeader {
    fn decrypt(&self, _: usize, _: &mut [u8]) {}

    fn encrypt(&self, _: usize, _: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        self.0.sample_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A STREAM frame of stream 2 at `offset` with `bytes` (below 64) of data.
    fn stream(offset: u8, bytes: u8) -> Vec<u8> {
        let mut payload = vec![0x0e, 2, offset, bytes];
        payload.extend(std::iter::repeat_n(0, usize::from(bytes)));
        payload
    }

    #[test]
    fn bytes_sent_again_are_told_from_new_ones_in_one_frame() {
        let wire = Wire::default();
        wire.on_plaintext(0, &stream(0, 10));
        wire.on_plaintext(1, &stream(10, 10));
        wire.on_plaintext(3, &stream(5, 20));
        let bytes = wire.bytes();
        assert_eq!((bytes.first, bytes.again), (25, 15));
    }

    #[test]
    fn what_was_lost_and_arrived_is_spurious() {
        let wire = Wire::default();
        for number in [0, 1, 4] {
            wire.on_plaintext(number, &stream(10 * number as u8, 10));
        }
        wire.on_lost(0);
        wire.on_lost(1);
        wire.on_lost(1);
        wire.on_acked(&[4, 4, 2, 9]);
        wire.on_arrived(1);
        wire.on_arrived(4);
        let bytes = wire.bytes();
        assert_eq!((bytes.lost, bytes.spurious, bytes.acked), (20, 10, 10));
    }
}
