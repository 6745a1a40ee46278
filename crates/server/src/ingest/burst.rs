//! Access units into bursts.

use std::sync::Once;
use std::time::{Duration, Instant};

use glassline_media::{Burst, BurstBuilder, Codec, MediaTime, PAYLOAD_BYTES_MAX, Stamps};
use glassline_rtp::h264;

/// Opus cannot be cut, and a datagram should pass a path of 1280 bytes (RFC
/// 8200 §5) with its headers; 20 ms at 450 kbit/s fit.
const OPUS_BYTES_MAX: usize = PAYLOAD_BYTES_MAX;

/// G.711 has 8000 bytes a second.
const G711_BYTE: Duration = Duration::from_micros(125);

/// Where an access unit belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Index into the source's tracks.
    pub(super) track: usize,
    /// On the source's own clock.
    pub(super) time: MediaTime,
    /// Where its accounted delay begins.
    pub(super) origin: Instant,
}

/// One picture; `None` if it has nothing to send. `bytes` is about how much.
pub(super) fn video<'a>(
    nals: impl Iterator<Item = &'a [u8]>,
    bytes: usize,
    keyframe: bool,
    place: Place,
) -> Option<Burst> {
    // Fragmentation headers and parameter sets come on top.
    let mut builder = BurstBuilder::with_capacity(bytes + bytes / 256 + 128);
    h264::packetise(nals, PAYLOAD_BYTES_MAX, &mut builder);
    builder.build(
        place.track,
        place.time,
        keyframe,
        Stamps::arrived(place.origin),
    )
}

/// One packet of sound; none if it cannot be sent.
pub(super) fn audio(codec: Codec, packet: &[u8], place: Place) -> impl Iterator<Item = Burst> {
    // Every byte of G.711 is a sample, so a long packet can be cut anywhere.
    let cut = match codec {
        Codec::Opus if packet.len() > OPUS_BYTES_MAX => {
            warn_of_size(packet.len());
            0
        }
        _ => packet.len(),
    };
    let pieces = packet[..cut].chunks(PAYLOAD_BYTES_MAX);
    pieces.zip(0u32..).filter_map(move |(piece, number)| {
        let mut builder = BurstBuilder::with_capacity(piece.len());
        builder.push(piece);
        let time = place.time + G711_BYTE * number * PAYLOAD_BYTES_MAX as u32;
        builder.build(place.track, time, true, Stamps::arrived(place.origin))
    })
}

fn warn_of_size(bytes: usize) {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        tracing::warn!(
            bytes,
            max = OPUS_BYTES_MAX,
            "Opus packets too large for a datagram are left out: encode below 450 kbit/s"
        );
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place {
            track: 1,
            time: MediaTime::ZERO,
            origin: Instant::now(),
        }
    }

    #[test]
    fn long_g711_packets_are_cut_and_timed() {
        let bursts: Vec<_> = audio(Codec::Pcmu, &[0x7f; 2000], place()).collect();
        let sizes: Vec<_> = bursts.iter().map(Burst::payload_bytes).collect();
        assert_eq!(sizes, [1150, 850]);
        assert_eq!(bursts[1].time, MediaTime::from_ticks(1150, 8000));
    }

    #[test]
    fn opus_is_never_cut() {
        assert_eq!(audio(Codec::Opus, &[1; 1150], place()).count(), 1);
        assert_eq!(audio(Codec::Opus, &[1; 1151], place()).count(), 0);
        assert_eq!(audio(Codec::Opus, &[], place()).count(), 0);
    }

    #[test]
    fn pictures_become_packets_with_a_marker_on_the_last() {
        let picture = vec![0x65; 3000];
        let burst = video(std::iter::once(&picture[..]), 3000, true, place()).expect("a burst");
        assert_eq!(burst.packet_count(), 3);
        assert!(burst.keyframe && burst.marker(2) && !burst.marker(0));
        assert!(video(std::iter::empty(), 0, false, place()).is_none());
    }
}
