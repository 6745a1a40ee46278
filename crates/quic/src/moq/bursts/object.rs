//! One unit of the hub as an object of a group: a header, then the unit's bytes as they are.
//!
//! ```text
//! version │ flags │ time │ published │ ingest │ relay, error │ gap, timestamp │ packets │ ranges │ bytes    │ temporal │ lead
//!    1    │   1   │  8   │     8     │  var   │  var,  var   │     2,  4      │  var …  │ var …  │ the rest │    2     │  4
//!                                               flag RELAYED    flag FORWARDED                       flag TEMPORAL  flag LEAD
//! ```
//!
//! Integers of fixed length are big-endian; `var` is a variable-length integer of QUIC (RFC 9000
//! §16). `packets` is their number and the length of each payload. `ranges`, absent in forwarded
//! packets, is the number of the coded frame's ranges, and of each where it begins and its length.
//! `temporal` is the place among temporal layers, and `lead` the time from decoding to presentation in
//! microseconds; both are zero where they are absent. They stand last because servers that do not know
//! them keep them with the bytes, in no packet and no range.
//!
//! Times of the sender are nanoseconds on its [node clock](super::NodeClock).

use bytes::{Buf, BufMut, Bytes, BytesMut};
use glassline_media::{
    DecodeLead, Forwarded, MediaTime, PartsContent, PartsError, Stamps, Temporal, TrackLayer,
    UnitParts,
};

use crate::moq::frame::BYTES_MAX;

/// Version of the format, in the first byte of each object.
pub(super) const VERSION: u8 = 1;

const KEYFRAME: u8 = 1;
const FIRST: u8 = 2;
const LAST: u8 = 4;
const FORWARDED: u8 = 8;
const RELAYED: u8 = 16;
const LEAD: u8 = 32;
const TEMPORAL: u8 = 64;

/// Lengths of what stands at the end of an object.
const TEMPORAL_BYTES: usize = 2;
const LEAD_BYTES: usize = 4;

/// Most ranges of a frame that are accepted. A packetizer makes two a NAL unit.
const RANGES_MAX: u64 = 65_536;

/// Largest number that a variable-length integer holds.
const VARINT_MAX: u64 = (1 << 62) - 1;

/// Longest object that is accepted, in bytes: the longest frame, and the prefixes of its packets.
pub(super) const OBJECT_BYTES_MAX: usize = BYTES_MAX + (1 << 20);

/// The delays of a unit up to the server that sends it, and when that server published it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentStamps {
    /// When the sender published the unit, in ns on the sender's node clock.
    pub published_ns: u64,
    /// Time that the unit spent within servers until then, in ns.
    pub ingest_ns: u64,
    /// Time that the unit was under way between servers until then, and the largest error of that
    /// time, in ns; `None` if the sender is the first server, or does not know it.
    pub relay_ns: Option<(u64, u64)>,
}

/// A unit as it arrived. The stamps of `parts` are those of its arrival; the receiver replaces them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedUnit {
    /// The parts of the unit.
    pub parts: UnitParts,
    /// The sender's stamps.
    pub sent: SentStamps,
}

/// The reason why an object is no unit. The sender is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The object ends within its header.
    #[error("an object of a unit ends within its header")]
    Short,
    /// The sender uses another version of the format.
    #[error(
        "an object has version {version} of the container `bursts`; this server reads version {VERSION}: use servers of one version"
    )]
    Version {
        /// Version of the object.
        version: u8,
    },
    /// A number of packets or ranges cannot be.
    #[error("an object claims {count} packets or ranges")]
    Count {
        /// The claimed number.
        count: u64,
    },
    /// Packets or ranges contradict the bytes.
    #[error(transparent)]
    Parts(#[from] PartsError),
}

/// Returns the end of `unit`, behind its bytes; `None` for a unit that is decoded when it is presented, and
/// has no temporal layer.
pub(super) fn end(unit: &UnitParts) -> Option<Bytes> {
    let (temporal, lead) = (unit.temporal, unit.decode_lead);
    let temporal = (temporal != Temporal::default()).then_some(temporal.bits().to_be_bytes());
    let lead = (lead != DecodeLead::NONE).then_some(lead.micros().to_be_bytes());
    if temporal.is_none() && lead.is_none() {
        return None;
    }
    let ends = temporal.into_iter().flatten();
    Some(ends.chain(lead.into_iter().flatten()).collect())
}

/// Returns the header of `unit`, behind which its bytes and its [`end`] follow.
pub(super) fn header(unit: &UnitParts, sent: SentStamps) -> Bytes {
    let ranges = match &unit.content {
        PartsContent::Frame(ranges) => ranges.as_slice(),
        PartsContent::Forwarded(_) => &[],
    };
    let mut out = BytesMut::with_capacity(64 + 2 * unit.packet_ends.len() + 8 * ranges.len());
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let forwarded = match unit.content {
        PartsContent::Forwarded(forwarded) => Some(forwarded),
        PartsContent::Frame(_) => None,
    };
    out.put_u8(VERSION);
    out.put_u8(
        flag(unit.keyframe, KEYFRAME)
            | flag(unit.first, FIRST)
            | flag(unit.last, LAST)
            | flag(forwarded.is_some(), FORWARDED)
            | flag(sent.relay_ns.is_some(), RELAYED)
            | flag(unit.temporal != Temporal::default(), TEMPORAL)
            | flag(unit.decode_lead != DecodeLead::NONE, LEAD),
    );
    out.put_i64(unit.time.nanos());
    out.put_u64(sent.published_ns);
    put_varint(&mut out, sent.ingest_ns);
    if let Some((relay, error)) = sent.relay_ns {
        put_varint(&mut out, relay);
        put_varint(&mut out, error);
    }
    if let Some(Forwarded { gap, timestamp }) = forwarded {
        out.put_u16(gap);
        out.put_u32(timestamp);
    }
    put_varint(&mut out, unit.packet_ends.len() as u64);
    let mut before = 0;
    for &end in &unit.packet_ends {
        put_varint(&mut out, (end - before).into());
        before = end;
    }
    if forwarded.is_none() {
        put_varint(&mut out, ranges.len() as u64);
        for range in ranges {
            put_varint(&mut out, range.start.into());
            put_varint(&mut out, (range.end - range.start).into());
        }
    }
    out.freeze()
}

/// Reads an object of the layer `of`, which arrived with the stamps `arrived`.
///
/// The unit's bytes are copied: a unit stays in the hub for seconds, and must not keep a buffer of
/// the connection that is many times as large.
///
/// # Errors
/// [`ObjectError`] if the object is no unit.
pub(super) fn parse(
    object: &[u8],
    of: TrackLayer,
    arrived: Stamps,
) -> Result<ReceivedUnit, ObjectError> {
    let mut rest = object;
    let version = rest.try_get_u8().map_err(|_| ObjectError::Short)?;
    if version != VERSION {
        return Err(ObjectError::Version { version });
    }
    let flags = rest.try_get_u8().map_err(|_| ObjectError::Short)?;
    let time = rest.try_get_i64().map_err(|_| ObjectError::Short)?;
    let published_ns = rest.try_get_u64().map_err(|_| ObjectError::Short)?;
    let ingest_ns = varint(&mut rest)?;
    let relay_ns = match flags & RELAYED {
        0 => None,
        _ => Some((varint(&mut rest)?, varint(&mut rest)?)),
    };
    let forwarded = match flags & FORWARDED {
        0 => None,
        _ => Some(Forwarded {
            gap: rest.try_get_u16().map_err(|_| ObjectError::Short)?,
            timestamp: rest.try_get_u32().map_err(|_| ObjectError::Short)?,
        }),
    };
    let packet_ends = packet_ends(&mut rest)?;
    let content = match forwarded {
        Some(forwarded) => PartsContent::Forwarded(forwarded),
        None => PartsContent::Frame(ranges(&mut rest)?),
    };
    let decode_lead = match flags & LEAD {
        0 => DecodeLead::NONE,
        _ => {
            let (bytes, lead) = rest
                .split_last_chunk::<LEAD_BYTES>()
                .ok_or(ObjectError::Short)?;
            rest = bytes;
            DecodeLead::from_micros(i32::from_be_bytes(*lead))
        }
    };
    let temporal = match flags & TEMPORAL {
        0 => Temporal::default(),
        _ => {
            let (bytes, temporal) = rest
                .split_last_chunk::<TEMPORAL_BYTES>()
                .ok_or(ObjectError::Short)?;
            rest = bytes;
            Temporal::from_bits(u16::from_be_bytes(*temporal))
        }
    };
    let parts = UnitParts {
        track: of.track,
        layer: of.layer,
        time: MediaTime::from_nanos(time),
        decode_lead,
        keyframe: flags & KEYFRAME != 0,
        temporal,
        first: flags & FIRST != 0,
        last: flags & LAST != 0,
        stamps: arrived,
        data: Bytes::copy_from_slice(rest),
        packet_ends,
        content,
    };
    let sent = SentStamps {
        published_ns,
        ingest_ns,
        relay_ns,
    };
    Ok(ReceivedUnit { parts, sent })
}

/// Reads the lengths of the packets, and returns where they end. Every packet has a byte at least,
/// so there are no more of them than bytes left.
fn packet_ends(rest: &mut &[u8]) -> Result<Vec<u32>, ObjectError> {
    let count = varint(rest)?;
    if count > rest.len() as u64 {
        return Err(ObjectError::Count { count });
    }
    let mut ends = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    let mut end = 0u32;
    for _ in 0..count {
        let length = u32::try_from(varint(rest)?).map_err(|_| ObjectError::Short)?;
        end = end.checked_add(length).ok_or(ObjectError::Short)?;
        ends.push(end);
    }
    Ok(ends)
}

fn ranges(rest: &mut &[u8]) -> Result<Vec<std::ops::Range<u32>>, ObjectError> {
    let count = varint(rest)?;
    if count > RANGES_MAX || count > rest.len() as u64 {
        return Err(ObjectError::Count { count });
    }
    let mut ranges = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    for _ in 0..count {
        let start = u32::try_from(varint(rest)?).map_err(|_| ObjectError::Short)?;
        let length = u32::try_from(varint(rest)?).map_err(|_| ObjectError::Short)?;
        let end = start.checked_add(length).ok_or(ObjectError::Short)?;
        ranges.push(start..end);
    }
    Ok(ranges)
}

/// Appends `value` as a variable-length integer; a larger value becomes the largest one.
fn put_varint(out: &mut BytesMut, value: u64) {
    let value = value.min(VARINT_MAX);
    match value {
        0..=0x3f => out.put_uint(value, 1),
        0x40..=0x3fff => out.put_uint(value | 1 << 14, 2),
        0x4000..=0x3fff_ffff => out.put_uint(value | 2 << 30, 4),
        _ => out.put_u64(value | 3 << 62),
    }
}

fn varint(rest: &mut &[u8]) -> Result<u64, ObjectError> {
    let first = *rest.first().ok_or(ObjectError::Short)?;
    let bytes = 1usize << (first >> 6);
    let value = rest.try_get_uint(bytes).map_err(|_| ObjectError::Short)?;
    Ok(value & (u64::MAX >> (64 - 8 * bytes + 2)))
}

/// Returns a whole object.
#[cfg(any(test, fuzzing))]
fn write(unit: &UnitParts, sent: SentStamps) -> Vec<u8> {
    let end = end(unit).unwrap_or_default();
    [&header(unit, sent)[..], &unit.data, &end].concat()
}

/// Reads an object as a server that pulls does. Returns the unit, if it is one.
#[cfg(any(test, fuzzing))]
pub fn parse_unit(
    object: &[u8],
    arrived: Stamps,
) -> Result<glassline_media::MediaUnit, ObjectError> {
    let of = TrackLayer::from(glassline_media::TrackIndex(0));
    let received = parse(object, of, arrived)?;
    let again = write(&received.parts, received.sent);
    let read = parse(&again, of, arrived)?;
    assert_eq!(read, received, "what is written is read again");
    Ok(received.parts.unite()?)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use glassline_media::{MediaUnit, TrackIndex, UnitBuilder};
    use proptest::prelude::*;

    use super::*;

    /// Builds a unit of packets with prefixes and coded bytes, and start codes that no packet has.
    fn unit(packets: &[(Vec<u8>, Vec<u8>)], start_code: &[u8]) -> Option<MediaUnit> {
        let mut builder = UnitBuilder::default();
        builder.frame_only(start_code);
        for (prefix, coded) in packets {
            builder.wire_only(prefix);
            builder.coded(coded);
            builder.end_packet();
        }
        let stamps = Stamps::arrived(Instant::now());
        builder.build(TrackIndex(0), MediaTime::from_nanos(-5), true, stamps)
    }

    fn there_and_back(parts: &UnitParts, sent: SentStamps) -> Result<ReceivedUnit, ObjectError> {
        let of = TrackLayer {
            track: parts.track,
            layer: parts.layer,
        };
        parse(&write(parts, sent), of, parts.stamps)
    }

    #[test]
    fn voices_keep_their_gaps_and_timestamps() {
        let forwarded = Forwarded {
            gap: 513,
            timestamp: 0xfeed_beef,
        };
        let stamps = Stamps::arrived(Instant::now());
        let voice =
            UnitBuilder::forward(b"opus", forwarded, TrackIndex(0), MediaTime::ZERO, stamps);
        let voice = voice.expect("has a packet").parts();
        let sent = SentStamps {
            published_ns: u64::MAX,
            ingest_ns: 70_000,
            relay_ns: Some((5, 1 << 40)),
        };
        let received = there_and_back(&voice, sent).expect("a unit");
        assert_eq!(received, ReceivedUnit { parts: voice, sent });
    }

    #[test]
    fn objects_of_another_version_are_refused_by_name() {
        let refused = parse_unit(&[2, 0, 0], Stamps::arrived(Instant::now()));
        let reason = refused.expect_err("version 2").to_string();
        assert!(
            reason.contains("version 2") && reason.contains("version 1"),
            "{reason}"
        );
    }

    /// A server that does not know them reads them as bytes of no packet, and sends them on without the
    /// flags.
    #[test]
    fn a_lead_and_a_temporal_layer_do_no_harm_to_a_server_that_does_not_know_them() {
        for start_code in [&[][..], &[0, 0, 1]] {
            let packets = [(vec![7], vec![1, 2]), (vec![], vec![3])];
            let unit = unit(&packets, start_code).expect("packets").parts();
            let decode_lead = DecodeLead::from_micros(80_000);
            let unit = UnitParts {
                decode_lead,
                temporal: Temporal::from_bits(9),
                ..unit
            };
            let mut object = write(&unit, SentStamps::default());
            object[1] &= !(LEAD | TEMPORAL);
            let arrived = Stamps::arrived(Instant::now());
            let older = parse_unit(&object, arrived).expect("a unit");
            let sent = unit.unite().expect("a unit");
            assert!(older.payloads().eq(sent.payloads()));
            let frame =
                |unit: &MediaUnit| unit.coded_frame().map(glassline_media::CodedFrame::to_vec);
            assert_eq!(frame(&older), frame(&sent));
            assert_eq!(older.decode_time(), older.time);
            object[1] |= LEAD | TEMPORAL;
            object.truncate(object.len() - 9);
            assert!(parse_unit(&object, arrived).is_err(), "it ends too early");
        }
    }

    #[test]
    fn a_claim_of_many_packets_takes_no_memory() {
        let whole = unit(&[(vec![], vec![1])], &[]).expect("a unit").parts();
        let mut object = header(&whole, SentStamps::default()).to_vec();
        // Flags, time, published and ingest stay; the number of packets is what follows.
        object.truncate(2 + 8 + 8 + 1);
        object.extend_from_slice(&[0xff; 8]);
        let refused = parse_unit(&object, whole.stamps);
        assert!(
            matches!(refused, Err(ObjectError::Count { .. })),
            "{refused:?}"
        );
    }

    proptest! {
        #[test]
        fn units_go_both_ways(
            packets in proptest::collection::vec(
                (proptest::collection::vec(any::<u8>(), 0..3), proptest::collection::vec(any::<u8>(), 0..99)),
                1..20,
            ),
            start_code in proptest::collection::vec(any::<u8>(), 0..5),
            published_ns: u64,
            ingest_ns in 0u64..1 << 40,
            relay_ns in proptest::option::of((0u64..1 << 40, 0u64..1 << 40)),
            keyframe: bool,
            first: bool,
            last: bool,
            lead in prop_oneof![Just(0), any::<i32>()],
            temporal in 0_u16..1 << 10,
        ) {
            let Some(unit) = unit(&packets, &start_code) else { return Ok(()) };
            let decode_lead = DecodeLead::from_micros(lead);
            let temporal = Temporal::from_bits(temporal);
            let parts = UnitParts { decode_lead, temporal, keyframe, first, last, ..unit.parts() };
            let sent = SentStamps { published_ns, ingest_ns, relay_ns };
            let received = there_and_back(&parts, sent);
            prop_assert_eq!(received, Ok(ReceivedUnit { parts: parts.clone(), sent }));
            // Every part of it that is missing is noticed, or leaves a shorter unit.
            let object = write(&parts, sent);
            for end in 0..object.len() {
                let _ = parse_unit(&object[..end], parts.stamps);
            }
        }

        #[test]
        fn objects_of_strangers_do_no_harm(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), is_ours: bool) {
            if let (Some(first), true) = (bytes.first_mut(), is_ours) {
                *first = VERSION;
            }
            if let Ok(unit) = parse_unit(&bytes, Stamps::arrived(Instant::now())) {
                prop_assert!(unit.payload_bytes() <= bytes.len());
                let _ = unit.coded_frame().map(glassline_media::CodedFrame::to_vec);
            }
        }
    }
}
