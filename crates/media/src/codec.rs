/// The media type of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[display("{}", self.as_str())]
pub enum Kind {
    /// Video: a sequence of frames, or a multiplex that contains one (MPEG transport stream).
    Video,
    /// Audio, whether voice or music.
    Audio,
    /// Text that is shown together with the video, such as subtitles.
    Text,
}

impl Kind {
    /// Returns the media type as written in SDP's `m=` line (RFC 8866 §5.14).
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Video => "video",
            Self::Audio => "audio",
            Self::Text => "text",
        }
    }
}

/// A codec that the hub can carry. Each codec has exactly one RTP payload format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[display("{}", CODECS[*self as usize].3)]
#[non_exhaustive]
pub enum Codec {
    /// ITU-T H.264; RTP payload RFC 6184.
    H264,
    /// ITU-T H.265; RTP payload RFC 7798.
    H265,
    /// VP8 (RFC 6386); RTP payload RFC 7741.
    Vp8,
    /// VP9; RTP payload RFC 9628.
    Vp9,
    /// AV1; RTP payload of the Alliance for Open Media, version 1.0.0.
    Av1,
    /// MPEG-4 visual (ISO/IEC 14496-2); RTP payload RFC 6416.
    Mpeg4Visual,
    /// MPEG-1 or MPEG-2 video; RTP payload RFC 2250 §3.
    MpegVideo,
    /// Motion JPEG, each frame an image of its own; RTP payload RFC 2435.
    Jpeg,
    /// Digital video of IEC 61834; RTP payload RFC 6469.
    Dv,
    /// Theora; RTP payload draft-barbato-avt-rtp-theora-01.
    Theora,
    /// A whole MPEG transport stream; RTP payload RFC 2250 §2.
    MpegTs,
    /// Opus (RFC 6716); RTP payload RFC 7587.
    Opus,
    /// Several streams of Opus in each packet (RFC 7845 §5.1.1), which [`OpusStreams`] describes;
    /// the RTP payload is a packet, as WebRTC implementations and GStreamer send it.
    ///
    /// [`OpusStreams`]: crate::OpusStreams
    MultiOpus,
    /// G.711 µ-law; RTP payload RFC 3551 §4.5.14.
    Pcmu,
    /// G.711 A-law; RTP payload RFC 3551 §4.5.14.
    Pcma,
    /// Linear PCM samples of 16 bits, big-endian; RTP payload RFC 3551 §4.5.11.
    L16,
    /// MPEG-4 AAC; RTP payload RFC 3640, mode `AAC-hbr`.
    Aac,
    /// Dolby AC-3; RTP payload RFC 4184.
    Ac3,
    /// AMR narrowband; RTP payload RFC 4867, octet-aligned.
    Amr,
    /// AMR wideband; RTP payload RFC 4867, octet-aligned.
    AmrWb,
    /// MPEG-1 or MPEG-2 audio, layers I to III (MP3); RTP payload RFC 2250 §3.5.
    MpegAudio,
    /// Vorbis; RTP payload RFC 5215.
    Vorbis,
    /// Text as lines of UTF-8; RTP payload RFC 4103, without redundancy.
    T140,
}

/// For each codec, in the order of [`Codec`]: SDP encoding name, usual clock rate in Hz, name
/// for people.
const CODECS: [(Codec, &str, u32, &str); 23] = [
    (Codec::H264, "H264", 90_000, "H.264"),
    (Codec::H265, "H265", 90_000, "H.265"),
    (Codec::Vp8, "VP8", 90_000, "VP8"),
    (Codec::Vp9, "VP9", 90_000, "VP9"),
    (Codec::Av1, "AV1", 90_000, "AV1"),
    (Codec::Mpeg4Visual, "MP4V-ES", 90_000, "MPEG-4 visual"),
    (Codec::MpegVideo, "MPV", 90_000, "MPEG-1/2 video"),
    (Codec::Jpeg, "JPEG", 90_000, "JPEG"),
    (Codec::Dv, "DV", 90_000, "DV"),
    (Codec::Theora, "theora", 90_000, "Theora"),
    (Codec::MpegTs, "MP2T", 90_000, "MPEG transport stream"),
    (Codec::Opus, "opus", 48_000, "Opus"),
    (Codec::MultiOpus, "multiopus", 48_000, "multichannel Opus"),
    (Codec::Pcmu, "PCMU", 8_000, "G.711 µ-law"),
    (Codec::Pcma, "PCMA", 8_000, "G.711 A-law"),
    (Codec::L16, "L16", 44_100, "16-bit PCM"),
    (Codec::Aac, "mpeg4-generic", 48_000, "AAC"),
    (Codec::Ac3, "ac3", 48_000, "AC-3"),
    (Codec::Amr, "AMR", 8_000, "AMR"),
    (Codec::AmrWb, "AMR-WB", 16_000, "AMR wideband"),
    (Codec::MpegAudio, "MPA", 90_000, "MPEG audio"),
    (Codec::Vorbis, "vorbis", 48_000, "Vorbis"),
    (Codec::T140, "t140", 1_000, "text"),
];

impl Codec {
    /// Returns every codec, in the order of the enum.
    pub fn all() -> impl Iterator<Item = Self> {
        CODECS.iter().map(|(codec, ..)| *codec)
    }

    /// Returns the media type of the codec.
    pub const fn kind(self) -> Kind {
        match self {
            Self::H264
            | Self::H265
            | Self::Vp8
            | Self::Vp9
            | Self::Av1
            | Self::Mpeg4Visual
            | Self::MpegVideo
            | Self::Jpeg
            | Self::Dv
            | Self::Theora
            | Self::MpegTs => Kind::Video,
            Self::Opus
            | Self::MultiOpus
            | Self::Pcmu
            | Self::Pcma
            | Self::L16
            | Self::Aac
            | Self::Ac3
            | Self::Amr
            | Self::AmrWb
            | Self::MpegAudio
            | Self::Vorbis => Kind::Audio,
            Self::T140 => Kind::Text,
        }
    }

    /// Returns the usual RTP clock rate, in Hz. It is the only rate of most codecs; G.711, L16, AAC,
    /// AC-3 and Vorbis have others as well, which [`Track::clock_rate`] states.
    ///
    /// [`Track::clock_rate`]: crate::Track::clock_rate
    pub const fn clock_rate(self) -> u32 {
        CODECS[self as usize].2
    }

    /// Returns the encoding name of SDP's `a=rtpmap`, in its usual spelling.
    pub const fn encoding_name(self) -> &'static str {
        CODECS[self as usize].1
    }

    /// Finds the codec of an SDP encoding name, ignoring case; `None` if the name is unknown.
    pub fn from_encoding_name(name: &str) -> Option<Self> {
        Self::all().find(|codec| codec.encoding_name().eq_ignore_ascii_case(name))
    }

    /// Returns whether at least some browsers play the codec over WebRTC. RFC 7742 and RFC 7874
    /// name the codecs that all browsers must support; VP9, AV1 and H.265 came later.
    pub const fn is_played_by_browsers(self) -> bool {
        matches!(
            self,
            Self::H264
                | Self::H265
                | Self::Vp8
                | Self::Vp9
                | Self::Av1
                | Self::Opus
                | Self::Pcmu
                | Self::Pcma
        )
    }

    /// Returns whether a decoder needs [`Track::format_parameters`] that no packet repeats: the
    /// configuration of AAC (RFC 3640 §4.1), the packed headers of Vorbis and Theora, and the
    /// streams of multichannel Opus.
    ///
    /// [`Track::format_parameters`]: crate::Track::format_parameters
    pub const fn is_configured_out_of_band(self) -> bool {
        matches!(
            self,
            Self::Aac | Self::Vorbis | Self::Theora | Self::MultiOpus
        )
    }

    /// Returns whether the RTP marker bit ends a frame. With other codecs the marker begins a
    /// talk spurt or follows a discontinuity, and a steady stream never sets it.
    pub const fn marks_frames(self) -> bool {
        matches!(self.kind(), Kind::Video) && !matches!(self, Self::MpegTs)
            || matches!(self, Self::Aac | Self::Ac3 | Self::MultiOpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Track;

    #[test]
    fn encoding_names_round_trip_in_any_case() {
        for codec in Codec::all() {
            let name = codec.encoding_name();
            assert_eq!(Codec::from_encoding_name(&name.to_lowercase()), Some(codec));
        }
        assert_eq!(Codec::from_encoding_name("VP10"), None);
    }

    #[test]
    fn the_table_of_codecs_is_in_their_order() {
        for (place, (codec, ..)) in CODECS.iter().enumerate() {
            assert_eq!(*codec as usize, place, "{codec}");
        }
    }

    #[test]
    fn every_codec_has_its_media_type_and_the_clock_of_its_payload_format() {
        let described: Vec<_> = Codec::all()
            .map(|it| (it.kind().to_string(), it.clock_rate()))
            .collect();
        let of = |kind: &str| described.iter().filter(|(it, _)| it == kind).count();
        assert_eq!((of("video"), of("audio"), of("text")), (11, 11, 1));
        for (codec, rate) in [
            (Codec::H264, 90_000),
            (Codec::Opus, 48_000),
            (Codec::Pcmu, 8_000),
            (Codec::AmrWb, 16_000),
            (Codec::MpegAudio, 90_000),
            (Codec::T140, 1_000),
        ] {
            assert_eq!(codec.clock_rate(), rate, "{codec}");
            assert_eq!(Track::new(codec).clock_rate, rate, "{codec}");
        }
        assert_eq!(Codec::H265.to_string(), "H.265");
    }

    #[test]
    fn codecs_differ_in_what_egress_asks_about_them() {
        let named = |asked: fn(Codec) -> bool| -> Vec<_> {
            let all = Codec::all().filter(|it| asked(*it));
            all.map(Codec::encoding_name).collect()
        };
        assert_eq!(
            named(Codec::is_played_by_browsers),
            ["H264", "H265", "VP8", "VP9", "AV1", "opus", "PCMU", "PCMA"]
        );
        assert_eq!(
            named(Codec::is_configured_out_of_band),
            ["theora", "multiopus", "mpeg4-generic", "vorbis"]
        );
        let marked = named(Codec::marks_frames);
        assert!(
            marked.contains(&"H264") && marked.contains(&"ac3"),
            "{marked:?}"
        );
        for unmarked in ["MP2T", "opus", "PCMU", "t140"] {
            assert!(!marked.contains(&unmarked), "{unmarked}");
        }
    }
}
