use crate::{Bitrate, Codec, Kind, LayerIndex};

/// Parameters of a video track that a decoder must know before the first frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VideoParameters {
    /// Sequence parameter set: a NAL unit without start code. Empty if it is sent in-band only.
    pub sps: Vec<u8>,
    /// Picture parameter set: a NAL unit without start code. Empty if it is sent in-band only.
    pub pps: Vec<u8>,
    /// Width in pixels after cropping, 0 if unknown.
    pub width: u32,
    /// Height in pixels after cropping, 0 if unknown.
    pub height: u32,
    /// True if frames are presented in another order than they are decoded and sent (B-frames).
    /// Browsers do not reorder frames that they receive over WebRTC.
    pub reordered: bool,
}

impl VideoParameters {
    /// Returns `profile_idc`, the constraint flags and `level_idc`: the three bytes of SDP's
    /// `profile-level-id` (RFC 6184 §8.1). `None` without an SPS.
    pub fn profile_level_id(&self) -> Option<[u8; 3]> {
        self.sps.get(1..4)?.try_into().ok()
    }
}

/// Description of one track of a stream, as the hub passes it from ingest to egress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// Codec of the track, which also decides its RTP payload format.
    pub codec: Codec,
    /// RTP clock rate in Hz.
    pub clock_rate: u32,
    /// Number of audio channels; 1 for video and text.
    pub channels: u8,
    /// Parameters of a video track; the default for other kinds.
    pub video: VideoParameters,
    /// Parameters of the payload format as in SDP's `a=fmtp`, without the payload type; for
    /// example the packed headers of Vorbis. Empty if there are none, and for H.264, where
    /// [`VideoParameters`] hold them.
    pub format_parameters: String,
    /// Encodings of this track that are published at the same time, in the order in which their
    /// publisher names them: simulcast layers or renditions. Empty for a track with a single encoding.
    pub layers: Vec<Layer>,
}

/// One of several encodings of the same track.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// Identifier of the layer as its publisher names it: the RID (RFC 8851) of a simulcast
    /// stream, or the name of a rendition.
    pub rid: String,
    /// Width and height in pixels, if known.
    pub size: Option<(u16, u16)>,
    /// Maximum bitrate of the layer, if its publisher states one; of a layer that is paused, the bitrate
    /// that it had.
    pub bitrate: Option<Bitrate>,
    /// The reason why no frames of the layer come now; `None` while they come.
    pub absence: Option<LayerAbsence>,
    /// Description of a layer in another codec than its track's: receivers that negotiated this codec
    /// get the layer in place of the track. `None` for layers in the codec of the track.
    pub other_codec: Option<Box<Track>>,
    /// Whether this server encodes the layer from the track's only encoding, while somebody reads it.
    pub is_made_here: bool,
}

/// The reason why no frames of a layer come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerAbsence {
    /// The layer is not fetched, because nobody watches it. It comes when somebody reads it.
    Paused,
    /// The layer cannot be had; holds the reason for people.
    Failed(String),
}

impl Layer {
    /// Returns whether the layer is not sent because nobody watches it.
    pub fn is_paused(&self) -> bool {
        self.absence == Some(LayerAbsence::Paused)
    }

    /// Returns whether frames of the layer come, or would if somebody read it.
    pub fn is_available(&self) -> bool {
        !matches!(self.absence, Some(LayerAbsence::Failed(_)))
    }
}

impl Track {
    /// Creates a track of one channel at the codec's usual clock rate.
    pub fn new(codec: Codec) -> Self {
        Self {
            codec,
            clock_rate: codec.clock_rate(),
            channels: 1,
            video: VideoParameters::default(),
            format_parameters: String::new(),
            layers: Vec::new(),
        }
    }

    /// Creates an H.264 track.
    pub fn h264(video: VideoParameters) -> Self {
        Self {
            video,
            ..Self::new(Codec::H264)
        }
    }

    /// Creates an audio track with `channels` channels.
    pub fn audio(codec: Codec, channels: u8) -> Self {
        Self {
            channels,
            ..Self::new(codec)
        }
    }

    /// Returns the track with the clock rate `clock_rate`, in Hz.
    #[must_use]
    pub fn with_clock_rate(self, clock_rate: u32) -> Self {
        Self { clock_rate, ..self }
    }

    /// Returns the track with the parameters of its payload format, as in SDP's `a=fmtp`.
    #[must_use]
    pub fn with_format_parameters(self, format_parameters: impl Into<String>) -> Self {
        Self {
            format_parameters: format_parameters.into(),
            ..self
        }
    }

    /// Returns the track with `layers` as its encodings.
    #[must_use]
    pub fn with_layers(self, layers: Vec<Layer>) -> Self {
        Self { layers, ..self }
    }

    /// Returns the description of layer `layer` as its receivers negotiate it: that of the track, unless
    /// the layer has another codec. `None` if the track has no such layer.
    pub fn of_layer(&self, layer: LayerIndex) -> Option<&Self> {
        if layer == LayerIndex::BASE {
            return Some(self);
        }
        let encoding = self.layers.get(usize::from(layer.0).checked_sub(1)?)?;
        Some(encoding.other_codec.as_deref().unwrap_or(self))
    }

    /// Number of layers that are published: the base layer, and each encoding of a track with several.
    pub fn layer_count(&self) -> usize {
        self.layers.len() + 1
    }

    /// Returns the track as its source publishes it, without the layers of a ladder.
    #[must_use]
    pub fn as_published(&self) -> Self {
        match self.layers.iter().any(|it| it.is_made_here) {
            true => self.clone().with_layers(Vec::new()),
            false => self.clone(),
        }
    }

    /// Returns the media type of the track.
    pub fn kind(&self) -> Kind {
        self.codec.kind()
    }

    /// Returns whether receivers that negotiated this track can also decode `next` in its place:
    /// both have one codec, clock rate and number of channels, and one configuration where the
    /// codec carries it out of band. Resolution and parameter sets may differ, since keyframes
    /// repeat them, and so may the channels of Opus (RFC 7587 §4.2).
    pub fn is_continued_by(&self, next: &Self) -> bool {
        self.codec == next.codec
            && self.clock_rate == next.clock_rate
            && (self.channels == next.channels || self.codec == Codec::Opus)
            && (!self.codec.is_configured_out_of_band()
                || self.format_parameters == next.format_parameters)
    }

    /// Returns whether a receiver of this track, who negotiated it, can be sent `other`: the form is the
    /// same, whatever words describe it.
    pub fn has_form_of(&self, other: &Self) -> bool {
        let config = |it: &Self| {
            let mut parameters = it.format_parameters.split(';').map(str::trim);
            let found = parameters.find_map(|it| it.strip_prefix("config="));
            found.map(str::to_ascii_lowercase)
        };
        let is_configured_alike = match self.codec {
            Codec::Aac => config(self) == config(other),
            _ => true,
        };
        let other = Self {
            format_parameters: self.format_parameters.clone(),
            ..other.clone()
        };
        is_configured_alike && self.is_continued_by(&other)
    }

    /// Returns whether at least some browsers play the track over WebRTC. They play G.711 of one
    /// channel at 8 kHz alone (RFC 7874 §3).
    pub fn is_played_by_browsers(&self) -> bool {
        let is_g711 = matches!(self.codec, Codec::Pcmu | Codec::Pcma);
        let is_common = self.static_payload_type().is_some();
        self.codec.is_played_by_browsers() && (!is_g711 || is_common)
    }

    /// Returns the payload type that RFC 3551 §6 assigns to this codec, clock rate and number
    /// of channels; `None` if the payload type is dynamic.
    pub fn static_payload_type(&self) -> Option<u8> {
        match (self.codec, self.clock_rate, self.channels) {
            (Codec::Pcmu, 8_000, 1) => Some(0),
            (Codec::Pcma, 8_000, 1) => Some(8),
            (Codec::L16, 44_100, 2) => Some(10),
            (Codec::L16, 44_100, 1) => Some(11),
            (Codec::MpegAudio, 90_000, _) => Some(14),
            (Codec::Jpeg, ..) => Some(26),
            (Codec::MpegVideo, ..) => Some(32),
            (Codec::MpegTs, ..) => Some(33),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_stay_while_their_decoder_fits() {
        let frames = |width| {
            Track::h264(VideoParameters {
                width,
                ..VideoParameters::default()
            })
        };
        assert!(frames(640).is_continued_by(&frames(1920)));
        assert!(!frames(640).is_continued_by(&Track::new(Codec::Vp8)));
        let samples = |rate, channels| Track::audio(Codec::L16, channels).with_clock_rate(rate);
        assert!(samples(44_100, 2).is_continued_by(&samples(44_100, 2)));
        assert!(!samples(44_100, 2).is_continued_by(&samples(48_000, 2)));
        assert!(!samples(44_100, 2).is_continued_by(&samples(44_100, 1)));
        let aac = |config: &str| Track::audio(Codec::Aac, 2).with_format_parameters(config);
        assert!(!aac("config=1190").is_continued_by(&aac("config=1210")));
        let opus = |fmtp: &str| Track::audio(Codec::Opus, 2).with_format_parameters(fmtp);
        assert!(opus("").is_continued_by(&opus("useinbandfec=1")));
    }

    #[test]
    fn payload_types_are_static_only_at_the_rates_of_the_profile() {
        let samples = |rate, channels| Track::audio(Codec::L16, channels).with_clock_rate(rate);
        assert_eq!(samples(44_100, 2).static_payload_type(), Some(10));
        assert_eq!(samples(44_100, 1).static_payload_type(), Some(11));
        assert_eq!(samples(48_000, 2).static_payload_type(), None);
        assert_eq!(Track::new(Codec::MpegTs).static_payload_type(), Some(33));
        assert_eq!(Track::new(Codec::H264).static_payload_type(), None);
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

    #[test]
    fn a_track_has_what_it_was_made_with() {
        let video = VideoParameters {
            width: 640,
            ..VideoParameters::default()
        };
        let track = Track::h264(video.clone());
        assert_eq!((track.codec, &track.video), (Codec::H264, &video));
        assert_eq!(
            (track.kind(), track.channels, track.layer_count()),
            (Kind::Video, 1, 1)
        );
        let layers = vec![Layer::default(); 3];
        let track = track.with_layers(layers.clone());
        assert_eq!((track.layer_count(), &track.layers), (4, &layers));
        assert_eq!(track.video, video, "the rest stays");
        let track = Track::audio(Codec::Opus, 2).with_format_parameters("stereo=1");
        assert_eq!((track.channels, &*track.format_parameters), (2, "stereo=1"));
        assert_eq!(track.with_clock_rate(16_000).clock_rate, 16_000);
    }

    #[test]
    fn static_payload_types_are_those_of_the_profile() {
        for (codec, number) in [
            (Codec::Pcmu, 0),
            (Codec::Pcma, 8),
            (Codec::MpegAudio, 14),
            (Codec::Jpeg, 26),
            (Codec::MpegVideo, 32),
        ] {
            assert_eq!(Track::new(codec).static_payload_type(), Some(number));
        }
        let wide = Track::new(Codec::Pcmu).with_clock_rate(16_000);
        assert!(!wide.is_played_by_browsers());
        assert!(!Track::audio(Codec::Pcma, 2).is_played_by_browsers());
        assert!(Track::new(Codec::Pcma).is_played_by_browsers());
        assert_eq!(wide.static_payload_type(), None);
    }

    #[test]
    fn opus_continues_with_other_channels_and_aac_does_not() {
        let audio = |codec, channels| Track::audio(codec, channels);
        assert!(audio(Codec::Opus, 1).is_continued_by(&audio(Codec::Opus, 2)));
        assert!(!audio(Codec::Aac, 1).is_continued_by(&audio(Codec::Aac, 2)));
        assert!(audio(Codec::Aac, 2).is_continued_by(&audio(Codec::Aac, 2)));
    }
}
