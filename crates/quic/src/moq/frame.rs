//! Frames within groups: a time, then what the codec made (`hang`'s legacy container).

use std::borrow::Cow;

use bytes::Bytes;
use glassline_media::MediaTime;
use glassline_media::annexb::START_CODE;

use super::codec::Framing;

/// The largest frame that is taken: an intra frame of 8K at the best quality.
pub const BYTES_MAX: usize = 8 << 20;

/// One frame or packet of audio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When it is presented, on the broadcast's timeline; never before zero there.
    pub time: MediaTime,
    /// A decoder can start here; of audio always.
    pub keyframe: bool,
    /// H.264 and H.265: Annex B. Audio: a packet without headers. Others: as the codec
    /// has it.
    pub data: Bytes,
}

/// Microseconds on the timeline.
pub(super) fn micros(time: MediaTime) -> u64 {
    u64::try_from(time.nanos().max(0) / 1000).unwrap_or(0)
}

/// What stands in front of the payload: the time, as QUIC writes integers (RFC 9000
/// §16).
pub(super) fn header(time: MediaTime) -> Bytes {
    let micros = micros(time);
    if micros < 1 << 30 {
        let micros = u32::try_from(micros).unwrap_or(0);
        Bytes::copy_from_slice(&(micros | 2 << 30).to_be_bytes())
    } else {
        Bytes::copy_from_slice(&(micros & (u64::MAX >> 2) | 3 << 62).to_be_bytes())
    }
}

/// Time and payload of a frame.
///
/// # Errors
/// [`FrameError::Short`] if there is not even a time.
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

/// Time and unit of a frame as it stands on the wire.
///
/// # Errors
/// [`FrameError`] says in which way it is not what the catalog says.
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

/// The payload as payload formats take it.
///
/// # Errors
/// [`FrameError`] says in which way it is not what the catalog says.
pub(super) fn unit(payload: &[u8], framing: Framing) -> Result<Cow<'_, [u8]>, FrameError> {
    match framing {
        Framing::Whole => Ok(Cow::Borrowed(payload)),
        Framing::Lengths(size) => annexb(payload, usize::from(size)).map(Cow::Owned),
        Framing::Adts => adts(payload).map(Cow::Borrowed),
    }
}

/// NAL units behind lengths as NAL units behind start codes.
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

/// The one frame behind an ADTS header.
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

/// A frame is not what its catalog says. Its publisher's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// No time in front.
    #[error("a frame ends within its time")]
    Short,
    /// Larger than any frame.
    #[error("a frame has {bytes} bytes, at most {BYTES_MAX} are taken")]
    Long {
        /// Length found.
        bytes: u64,
    },
    /// Lengths that do not add up.
    #[error(
        "the lengths of NAL units do not fill their frame: is it Annex B without `description`?"
    )]
    Lengths,
    /// Not behind the header that there should be.
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
