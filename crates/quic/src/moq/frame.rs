//! Frames within groups: a timestamp, then the codec's data (`hang`'s legacy container).

use std::borrow::Cow;

use bytes::Bytes;
use glassline_media::MediaTime;
use glassline_media::annexb::START_CODE;

use super::codec::Framing;

/// Longest frame that is accepted, in bytes: an intra frame of 8K video at the best quality.
pub const BYTES_MAX: usize = 8 << 20;

/// One frame of video or packet of audio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Presentation time on the broadcast's timeline, at or after zero.
    pub time: MediaTime,
    /// Whether a decoder can start here; true for all audio.
    pub keyframe: bool,
    /// Coded data. H.264 and H.265: a byte stream of Annex B. Audio: a packet without headers.
    /// Other codecs: as the codec defines it.
    pub data: Bytes,
}

/// Returns the time in microseconds.
pub(super) fn micros(time: MediaTime) -> u64 {
    u64::try_from(time.nanos().max(0) / 1000).unwrap_or(0)
}

/// Returns the header of a frame: the time in microseconds as a QUIC variable-length integer
/// (RFC 9000 §16).
pub(super) fn header(time: MediaTime) -> Bytes {
    let micros = micros(time);
    if micros < 1 << 30 {
        let micros = u32::try_from(micros).unwrap_or(0);
        Bytes::copy_from_slice(&(micros | 2 << 30).to_be_bytes())
    } else {
        Bytes::copy_from_slice(&(micros & (u64::MAX >> 2) | 3 << 62).to_be_bytes())
    }
}

/// Splits a frame into its time in microseconds and its payload.
///
/// # Errors
/// [`FrameError::Short`] if the time is incomplete.
pub(super) fn split(mut frame: Bytes) -> Result<(u64, Bytes), FrameError> {
    let first = *frame.first().ok_or(FrameError::Short)?;
    let bytes = 1usize << (first >> 6);
    if frame.len() < bytes {
        return Err(FrameError::Short);
    }
    let header = frame.split_to(bytes);
    let start = u64::from(first & 0x3f);
    let micros = header[1..]
        .iter()
        .fold(start, |sum, byte| sum << 8 | u64::from(*byte));
    Ok((micros, frame))
}

/// Parses a frame of the wire. Returns its presentation time and its data, as RTP payload
/// formats take it.
///
/// # Errors
/// [`FrameError`] says how the frame contradicts its catalog.
///
/// # Example
///
/// ```
/// use bytes::Bytes;
/// use glassline_media::MediaTime;
/// use glassline_quic::moq::{Framing, parse_frame};
///
/// // A time of 40 µs in one byte, then a NAL unit behind its length of four bytes.
/// let frame = Bytes::from_static(&[40, 0, 0, 0, 2, 0x65, 0x88]);
/// let (time, data) = parse_frame(frame, Framing::Lengths(4))?;
/// assert_eq!(time, MediaTime::from_nanos(40_000));
/// assert_eq!(data[..], [0, 0, 1, 0x65, 0x88]);
/// # Ok::<(), glassline_quic::moq::FrameError>(())
/// ```
pub fn parse(frame: Bytes, framing: Framing) -> Result<(MediaTime, Bytes), FrameError> {
    let (micros, payload) = split(frame)?;
    let nanos = i64::try_from(micros)
        .ok()
        .and_then(|it| it.checked_mul(1000));
    let time = MediaTime::from_nanos(nanos.ok_or(FrameError::Short)?);
    let data = match unit(&payload, framing)? {
        Cow::Borrowed(part) => payload.slice_ref(part),
        Cow::Owned(whole) => whole.into(),
    };
    Ok((time, data))
}

/// Returns the payload as RTP payload formats take it.
///
/// # Errors
/// [`FrameError`] says how the payload contradicts its catalog.
pub(super) fn unit(payload: &[u8], framing: Framing) -> Result<Cow<'_, [u8]>, FrameError> {
    match framing {
        Framing::Whole => Ok(Cow::Borrowed(payload)),
        Framing::Lengths(size) => annexb(payload, usize::from(size)).map(Cow::Owned),
        Framing::Adts => adts(payload).map(Cow::Borrowed),
    }
}

/// Converts NAL units with lengths to NAL units with start codes.
fn annexb(mut rest: &[u8], size: usize) -> Result<Vec<u8>, FrameError> {
    let mut out = Vec::with_capacity(rest.len() + 16);
    while !rest.is_empty() {
        let (length, more) = rest.split_at_checked(size).ok_or(FrameError::Lengths)?;
        let bytes = length
            .iter()
            .fold(0usize, |sum, byte| sum << 8 | usize::from(*byte));
        let (nal, more) = more.split_at_checked(bytes).ok_or(FrameError::Lengths)?;
        out.extend_from_slice(&START_CODE);
        out.extend_from_slice(nal);
        rest = more;
    }
    Ok(out)
}

/// Returns the audio frame behind an ADTS header.
fn adts(payload: &[u8]) -> Result<&[u8], FrameError> {
    let [0xff, second, ..] = payload else {
        return Err(FrameError::Adts);
    };
    let header = if second & 1 == 0 { 9 } else { 7 };
    if second & 0xf0 != 0xf0 {
        return Err(FrameError::Adts);
    }
    payload.get(header..).ok_or(FrameError::Adts)
}

/// The reason why a frame contradicts its catalog. The publisher is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame has no complete time.
    #[error("a frame ends within its timestamp")]
    Short,
    /// The frame is too long.
    #[error("a frame has {bytes} bytes, at most {BYTES_MAX} are taken")]
    Long {
        /// Length of the frame in bytes.
        bytes: u64,
    },
    /// The lengths of the NAL units do not add up to the frame.
    #[error(
        "the lengths of NAL units do not fill their frame: is it Annex B without `description`?"
    )]
    Lengths,
    /// The frame does not begin with an ADTS header.
    #[error("a frame of AAC without `description` in the catalog must begin with an ADTS header")]
    Adts,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_become_start_codes() {
        let payload = [0, 0, 0, 2, 0x67, 1, 0, 0, 0, 1, 0x65];
        let unit = unit(&payload, Framing::Lengths(4)).expect("they add up");
        assert_eq!(*unit, [0, 0, 1, 0x67, 1, 0, 0, 1, 0x65]);
        let wrong = super::unit(&payload[..10], Framing::Lengths(4));
        assert_eq!(wrong, Err(FrameError::Lengths));
        let huge = super::unit(&[0xff; 4], Framing::Lengths(4));
        assert_eq!(huge, Err(FrameError::Lengths));
    }

    #[test]
    fn headers_of_adts_are_taken_off() {
        let payload = [0xff, 0xf1, 0x4c, 0x80, 1, 0x3f, 0xfc, 9, 8, 7];
        let unit = unit(&payload, Framing::Adts).expect("a header");
        assert_eq!(*unit, [9, 8, 7]);
        assert_eq!(
            super::unit(&[9, 8, 7], Framing::Adts),
            Err(FrameError::Adts)
        );
    }

    proptest! {
        #[test]
        fn times_go_both_ways(micros in 0u64..1 << 53, data in proptest::collection::vec(any::<u8>(), 0..9)) {
            let time = MediaTime::from_nanos(i64::try_from(micros * 1000).unwrap_or(i64::MAX));
            let expected = super::micros(time);
            let frame = [&header(time)[..], &data].concat();
            prop_assert_eq!(split(frame.into()), Ok((expected, data.into())));
        }

        #[test]
        fn frames_of_strangers_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..64), size in 1u8..=4) {
            for framing in [Framing::Whole, Framing::Lengths(size), Framing::Adts] {
                if let Ok((_, payload)) = split(Bytes::from(bytes.clone())) {
                    let _ = unit(&payload, framing);
                }
            }
        }
    }
}
