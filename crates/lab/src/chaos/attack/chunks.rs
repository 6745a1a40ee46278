//! SCTP chunks that make no sense, for an association whose other end accepts their packets.

use rand::rngs::StdRng;
use rand::{Rng as _, RngCore as _};

/// Kinds of chunks (RFC 9260 §3.2, RFC 3758, RFC 6525, RFC 8260, RFC 4820).
mod kind {
    pub(super) const DATA: u8 = 0;
    pub(super) const INIT: u8 = 1;
    pub(super) const SACK: u8 = 3;
    pub(super) const HEARTBEAT: u8 = 4;
    pub(super) const ABORT: u8 = 6;
    pub(super) const SHUTDOWN: u8 = 7;
    pub(super) const COOKIE_ECHO: u8 = 10;
    pub(super) const I_DATA: u8 = 64;
    pub(super) const RE_CONFIG: u8 = 130;
    pub(super) const FORWARD_TSN: u8 = 192;
    pub(super) const I_FORWARD_TSN: u8 = 194;
}

/// Payload protocol identifiers of data channels (RFC 8831 §8), and two that nobody uses.
const PPIDS: [u32; 8] = [50, 51, 53, 56, 57, 52, 0, u32::MAX];

/// Some chunks, one after the other. `next`: the TSN that the peer expects next.
pub(super) fn garbage(random: &mut StdRng, next: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.random_range(1..6) {
        let (kind, body) = chunk(random, next);
        let length = 4 + body.len();
        let told = match random.random_range(0..10) {
            0 => random.random(),
            1 => random.random_range(0..5),
            _ => u16::try_from(length).unwrap_or(u16::MAX),
        };
        bytes.extend([kind, flags(random, kind)]);
        bytes.extend(told.to_be_bytes());
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes.truncate(1100);
    bytes
}

fn flags(random: &mut StdRng, kind: u8) -> u8 {
    match kind {
        // Whole messages, unordered or not, are most likely delivered.
        kind::DATA | kind::I_DATA => [3, 7, 2, 1, 0, 0xff][random.random_range(0..6)],
        _ if random.random_ratio(1, 8) => random.random(),
        _ => 0,
    }
}

/// Kind and body of one chunk.
fn chunk(random: &mut StdRng, next: u32) -> (u8, Vec<u8>) {
    let mut body = Vec::new();
    let kind = match random.random_range(0..200) {
        // These end the association, so they are rare.
        0 => kind::ABORT,
        1 => kind::SHUTDOWN,
        2..10 => kind::INIT,
        10..20 => kind::COOKIE_ECHO,
        20..30 => random.random(),
        30..50 => kind::HEARTBEAT,
        50..80 => {
            body.extend(tsn(random, next).to_be_bytes());
            body.extend(random.random::<u32>().to_be_bytes());
            // Numbers of gaps and of duplicates, which may not follow.
            body.extend(u16::to_be_bytes(random.random_range(0..300)));
            body.extend(u16::to_be_bytes(random.random_range(0..300)));
            kind::SACK
        }
        80..110 => {
            body.extend(tsn(random, next).to_be_bytes());
            [kind::FORWARD_TSN, kind::I_FORWARD_TSN][random.random_range(0..2)]
        }
        110..140 => {
            parameters(random, &mut body);
            kind::RE_CONFIG
        }
        _ => {
            body.extend(tsn(random, next).to_be_bytes());
            body.extend(stream(random).to_be_bytes());
            body.extend(random.random::<u16>().to_be_bytes());
            body.extend(PPIDS[random.random_range(0..PPIDS.len())].to_be_bytes());
            channel_message(random, &mut body);
            [kind::DATA, kind::DATA, kind::I_DATA][random.random_range(0..3)]
        }
    };
    if random.random_ratio(1, 3) {
        noise(random, &mut body, 120);
    }
    (kind, body)
}

/// A TSN around the expected one, half of the numbers away, or anywhere.
fn tsn(random: &mut StdRng, next: u32) -> u32 {
    match random.random_range(0..10) {
        0..4 => next,
        4..7 => next.wrapping_add(random.random_range(0..64)),
        7 => next.wrapping_sub(random.random_range(1..64)),
        8 => next.wrapping_add(1 << 31),
        _ => random.random(),
    }
}

fn stream(random: &mut StdRng) -> u16 {
    match random.random_range(0..4) {
        0 => random.random(),
        1 => u16::MAX,
        _ => random.random_range(0..8),
    }
}

/// A message of DCEP (RFC 8832 §5) whose lengths may not fit, or anything.
fn channel_message(random: &mut StdRng, body: &mut Vec<u8>) {
    if random.random() {
        // DATA_CHANNEL_OPEN, a kind of channel, priority, reliability, lengths of two texts.
        body.extend([3, random.random()]);
        body.extend(random.random::<[u8; 6]>());
        for _ in 0..2 {
            let length = [0, 8, u16::MAX, random.random()][random.random_range(0..4)];
            body.extend(length.to_be_bytes());
        }
    }
    noise(random, body, 400);
}

/// Parameters of RE-CONFIG (RFC 6525 §4): requests and answers with any number.
fn parameters(random: &mut StdRng, body: &mut Vec<u8>) {
    for _ in 0..random.random_range(1..4) {
        let number: u16 = random.random_range(12..20);
        let mut value = Vec::new();
        for _ in 0..3 {
            value.extend(random.random::<u32>().to_be_bytes());
        }
        for _ in 0..random.random_range(0..20) {
            value.extend(stream(random).to_be_bytes());
        }
        let length = match random.random_range(0..8) {
            0 => random.random(),
            _ => u16::try_from(4 + value.len()).unwrap_or(u16::MAX),
        };
        body.extend(number.to_be_bytes());
        body.extend(length.to_be_bytes());
        body.extend(value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
}

fn noise(random: &mut StdRng, body: &mut Vec<u8>, most: usize) {
    let begin = body.len();
    body.resize(begin + random.random_range(0..most), 0);
    random.fill_bytes(&mut body[begin..]);
}

#[cfg(test)]
mod tests {
    use glassline_sctp::chunk::Chunk;
    use glassline_sctp::packet::{HEADER_BYTES, Packet};
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn chunks_of_every_state_are_read_as_such() {
        let mut random = StdRng::seed_from_u64(1);
        let (mut data, mut resets, mut skips) = (0, 0, 0);
        for _ in 0..2000 {
            let mut packet = vec![0; HEADER_BYTES];
            packet.extend(garbage(&mut random, 7));
            let packet = Packet::parse(&packet, true).expect("a header and no checksum");
            for chunk in packet.chunks().flatten() {
                data += u32::from(matches!(&chunk, Chunk::Data(it) if it.tsn.0 == 7));
                resets += u32::from(matches!(chunk, Chunk::ReConfig(_)));
                skips += u32::from(matches!(chunk, Chunk::ForwardTsn(_)));
            }
        }
        assert!(
            data > 100 && resets > 20 && skips > 20,
            "{data} {resets} {skips}"
        );
    }
}
