//! Frames of FLAC that a container delimits, one in each of its packets (RFC 9639 §10).

use super::frame::{self, HEADER_BYTES_MAX, Header, StreamInfo};

/// Decodes the frames of one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContainedFlac(StreamInfo);

impl ContainedFlac {
    /// Bytes of a frame that [`samples`](Self::samples) needs.
    pub(crate) const HEAD_BYTES: usize = HEADER_BYTES_MAX;

    /// Parses the configuration of a track: the blocks of metadata that a FLAC file begins with,
    /// with or without the magic number before them, or the body of the first block alone.
    pub(crate) fn parse(configuration: &[u8]) -> Option<Self> {
        const STREAM_INFO: u8 = 0;
        if configuration.len() == StreamInfo::BYTES {
            return StreamInfo::parse(configuration).map(Self);
        }
        let blocks = configuration.strip_prefix(b"fLaC");
        let (head, body) = blocks.unwrap_or(configuration).split_first_chunk::<4>()?;
        let is_first = head[0] & 0x7f == STREAM_INFO;
        let info = is_first.then(|| StreamInfo::parse(body)).flatten();
        info.map(Self)
    }

    /// Returns the sampling rate in Hz.
    pub(crate) const fn rate(self) -> u32 {
        self.0.rate
    }

    /// Returns the number of channels.
    pub(crate) const fn channels(self) -> u8 {
        self.0.channels
    }

    /// Returns the samples of each channel of a frame that begins with `start`; `None` if it is no
    /// frame of this track.
    pub(crate) fn samples(self, start: &[u8]) -> Option<u32> {
        Header::parse(start, &self.0).map(|header| header.samples)
    }

    /// Decodes a frame to L16. A damaged frame is silence of its length, as in FLAC files.
    pub(crate) fn decode(self, bytes: &[u8]) -> Vec<u8> {
        let decoded = frame::decode(bytes, &self.0);
        decoded.unwrap_or_else(|| {
            let samples = self.samples(bytes).unwrap_or(0) as usize;
            vec![0; samples * 2 * usize::from(self.0.channels)]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEREO: &[u8] = include_bytes!("../../../samples/stereo.flac");

    #[test]
    fn every_form_of_the_configuration_is_read() {
        let body = &STEREO[8..8 + StreamInfo::BYTES];
        let expected = ContainedFlac::parse(body).expect("the body alone");
        assert_eq!((expected.rate(), expected.channels()), (44_100, 2));
        for form in [STEREO, &STEREO[..42], &STEREO[4..42]] {
            assert_eq!(ContainedFlac::parse(form), Some(expected));
        }
        for bad in [&STEREO[..41], b"fLaC\x01\0\0\x04abcd", b"", &[0; 34]] {
            assert_eq!(ContainedFlac::parse(bad), None);
        }
    }

    #[test]
    fn a_damaged_frame_is_silence_and_bytes_of_no_frame_are_nothing() {
        let info = ContainedFlac::parse(STEREO).expect("a good file");
        let sync = STEREO
            .windows(2)
            .position(|it| matches!(it, [0xff, 0xf8 | 0xf9]));
        let frame = &STEREO[sync.expect("a frame")..];
        let samples = info.samples(frame).expect("a header") as usize;
        let silence = info.decode(&frame[..40]);
        assert_eq!(silence, vec![0; samples * 4]);
        assert!(info.decode(b"none").is_empty());
    }
}
