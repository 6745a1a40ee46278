use std::fmt;

/// Picture or sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A sequence of pictures.
    Video,
    /// Sound.
    Audio,
}

impl Kind {
    /// The word of SDP's `m=` line (RFC 8866 §5.14).
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Video => "video",
            Self::Audio => "audio",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A coding that the hub can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// ITU-T H.264; RTP payload RFC 6184.
    H264,
    /// Opus (RFC 6716); RTP payload RFC 7587.
    Opus,
    /// G.711 µ-law; RTP payload RFC 3551 §4.5.14.
    Pcmu,
    /// G.711 A-law; RTP payload RFC 3551 §4.5.14.
    Pcma,
}

impl Codec {
    /// Picture or sound.
    pub const fn kind(self) -> Kind {
        match self {
            Self::H264 => Kind::Video,
            Self::Opus | Self::Pcmu | Self::Pcma => Kind::Audio,
        }
    }

    /// RTP timestamp ticks per second.
    pub const fn clock_rate(self) -> u32 {
        match self {
            Self::H264 => 90_000,
            Self::Opus => 48_000,
            Self::Pcmu | Self::Pcma => 8_000,
        }
    }

    /// The encoding name of SDP's `rtpmap`, in its usual spelling.
    pub const fn encoding_name(self) -> &'static str {
        match self {
            Self::H264 => "H264",
            Self::Opus => "opus",
            Self::Pcmu => "PCMU",
            Self::Pcma => "PCMA",
        }
    }

    /// The codec of an SDP encoding name, in any case; `None` if unknown.
    pub fn from_encoding_name(name: &str) -> Option<Self> {
        [Self::H264, Self::Opus, Self::Pcmu, Self::Pcma]
            .into_iter()
            .find(|codec| codec.encoding_name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::H264 => "H.264",
            Self::Opus => "Opus",
            Self::Pcmu => "G.711 µ-law",
            Self::Pcma => "G.711 A-law",
        })
    }
}

/// What a decoder must know of a video track before its first picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VideoParameters {
    /// Sequence parameter set, a NAL unit without start code; empty if only in-band.
    pub sps: Vec<u8>,
    /// Picture parameter set, a NAL unit without start code; empty if only in-band.
    pub pps: Vec<u8>,
    /// Width in pixels after cropping, 0 if unknown.
    pub width: u32,
    /// Height in pixels after cropping, 0 if unknown.
    pub height: u32,
}

impl VideoParameters {
    /// `profile_idc`, constraint flags and `level_idc` as SDP's
    /// `profile-level-id` has them (RFC 6184 §8.1); `None` without an SPS.
    pub fn profile_level_id(&self) -> Option<[u8; 3]> {
        self.sps.get(1..4)?.try_into().ok()
    }
}

/// One track of a stream, as the hub describes it to an egress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// The coding.
    pub codec: Codec,
    /// For video; default for sound.
    pub video: VideoParameters,
    /// Channels of sound, 1 for video.
    pub channels: u8,
}

impl Track {
    /// An H.264 track.
    pub fn h264(video: VideoParameters) -> Self {
        Self {
            codec: Codec::H264,
            video,
            channels: 1,
        }
    }

    /// A track of sound with `channels` channels.
    pub fn audio(codec: Codec, channels: u8) -> Self {
        Self {
            codec,
            video: VideoParameters::default(),
            channels,
        }
    }

    /// Picture or sound.
    pub fn kind(&self) -> Kind {
        self.codec.kind()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_names_round_trip_in_any_case() {
        for codec in [Codec::H264, Codec::Opus, Codec::Pcmu, Codec::Pcma] {
            let name = codec.encoding_name();
            assert_eq!(Codec::from_encoding_name(&name.to_lowercase()), Some(codec));
        }
        assert_eq!(Codec::from_encoding_name("VP8"), None);
    }

    #[test]
    fn profile_level_id_is_read_from_the_sps() {
        let video = VideoParameters {
            sps: vec![0x67, 0x42, 0xc0, 0x1f, 0xda],
            ..Default::default()
        };
        assert_eq!(video.profile_level_id(), Some([0x42, 0xc0, 0x1f]));
        assert_eq!(VideoParameters::default().profile_level_id(), None);
    }
}
