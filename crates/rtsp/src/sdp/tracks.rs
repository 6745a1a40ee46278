//! Tracks of a description: which of a server's formats can be received, and as which codec.

use glassline_media::{Codec, Kind, Track, TrackIndex, VideoParameters};
use glassline_rtp::payload::{
    Depacketizer, UnsupportedFormat, latm_parameters, parameter, parameter_set,
};

use super::{Description, Format, Media};

/// Encoding name of AAC in LATM (RFC 6416 §7.1), the other of the two payload formats of AAC.
const LATM: &str = "MP4A-LATM";

/// The tracks of a description that a client plays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChosenTracks {
    /// The first video track and the first audio track, video first, each with its index in the
    /// description.
    pub tracks: Vec<(TrackIndex, Track)>,
    /// Names of all other tracks, each with the reason why it is left out.
    pub left_out: Vec<String>,
}

impl Description {
    /// Chooses the first video track and the first audio track whose format can be received and
    /// which the client `carries`.
    ///
    /// A track that may be a [back channel](Description::is_back_channel) comes last: a description
    /// that was asked for without one has none, but cameras mark what they send as if it were.
    pub fn choose(&self, carries: impl Fn(&Track) -> bool) -> ChosenTracks {
        let tracks = TrackIndex::enumerate(&self.tracks);
        let (doubtful, likely): (Vec<_>, Vec<_>) =
            tracks.partition(|(_, media)| self.is_back_channel(media));
        let mut chosen = ChosenTracks::default();
        for (index, media) in likely {
            if let Err(why) = chosen.add(index, media, &carries) {
                chosen.left_out.push(why);
            }
        }
        for (index, media) in doubtful {
            if chosen.has(Kind::Audio) {
                let why = format!(
                    "{}: a back channel, which the source would receive",
                    media.name
                );
                chosen.left_out.push(why);
            } else if let Err(why) = chosen.add(index, media, &carries) {
                chosen.left_out.push(why);
            }
        }
        chosen
            .tracks
            .sort_by_key(|(_, track)| track.kind() != Kind::Video);
        chosen
    }
}

impl ChosenTracks {
    fn has(&self, kind: Kind) -> bool {
        self.tracks.iter().any(|(_, track)| track.kind() == kind)
    }

    /// Adds a track, unless there is one of its kind. The error names the track, and says why it is
    /// left out.
    fn add(
        &mut self,
        index: TrackIndex,
        media: &Media,
        carries: impl Fn(&Track) -> bool,
    ) -> Result<(), String> {
        let name = &media.name;
        let format = media.format();
        let format = format.ok_or_else(|| format!("{name}: without a format"))?;
        let track = format
            .track()
            .map_err(|unusable| format!("{name} {unusable}"))?;
        let codec = track.codec;
        if track.kind() == Kind::Text {
            return Err(format!("{name} {codec}: text is not published"));
        }
        if !carries(&track) {
            return Err(format!("{name} {codec}, which is not carried here"));
        }
        if self.has(track.kind()) {
            let second = format!("second {name} {codec}");
            return Err(format!("{second}: one track of each kind is published"));
        }
        self.tracks.push((index, track));
        Ok(())
    }
}

impl Format {
    /// Returns the encoding name. Where `a=rtpmap` is missing, parameters that only one encoding has tell
    /// its name.
    fn name(&self) -> &str {
        let has = |name| parameter(&self.parameters, name).is_some();
        match self.encoding_name.as_str() {
            "" if has("sprop-parameter-sets") => "H264",
            "" if has("sprop-vps") && has("sprop-sps") => "H265",
            name => name,
        }
    }

    /// Returns the track of a format that a server offers, with its parameters unchanged.
    ///
    /// # Errors
    /// Returns [`Unusable`] with the format and the reason why it cannot be used.
    pub fn track(&self) -> Result<Track, Unusable> {
        let name = self.name();
        let is_latm = name.eq_ignore_ascii_case(LATM);
        let known = is_latm.then_some(Codec::Aac);
        let known = known.or_else(|| Codec::from_encoding_name(name));
        let codec = known.ok_or_else(|| {
            let name = if name.is_empty() {
                "without name"
            } else {
                name
            };
            Unusable::Unknown(format!("{name} (payload type {})", self.payload_type))
        })?;
        let clock_rate = clock_rate(codec, self.clock_rate)?;
        let channels = match codec {
            // Opus always announces two channels (RFC 7587 §7), and a decoder may treat it so.
            Codec::Opus => 2,
            _ => self.channels.max(1),
        };
        let mut track = Track::audio(codec, channels)
            .with_clock_rate(clock_rate)
            .with_format_parameters(self.parameters.clone());
        if is_latm {
            track.format_parameters = latm_parameters(&self.parameters)?;
        }
        if codec == Codec::H264 {
            track.video = h264_parameters(&self.parameters);
            track.format_parameters.clear();
        }
        Depacketizer::new(&track)?;
        Ok(track)
    }
}

/// The reason why a format of a source is left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// The codec is not supported.
    #[error("{0}, which is not supported")]
    Unknown(String),
    /// The clock rate is not one that the payload format allows.
    #[error("{codec} with an RTP clock of {rate} Hz")]
    ClockRate {
        /// Codec of the format.
        codec: Codec,
        /// Clock rate of the format, in Hz.
        rate: u32,
    },
    /// The mode of the payload format is not supported.
    #[error(transparent)]
    Format(#[from] UnsupportedFormat),
}

/// Returns the clock rate. For codecs whose clock is their sample rate, a missing rate, or one
/// faster than any converter, is refused.
fn clock_rate(codec: Codec, rate: u32) -> Result<u32, Unusable> {
    let free = matches!(
        codec,
        Codec::L16
            | Codec::Aac
            | Codec::Ac3
            | Codec::Vorbis
            | Codec::Pcmu
            | Codec::Pcma
            | Codec::T140
    );
    let is_g711 = matches!(codec, Codec::Pcmu | Codec::Pcma);
    match rate {
        1_000..=384_000 if free => Ok(rate),
        _ if rate == codec.clock_rate() => Ok(rate),
        // The line is missing or cannot be read, and there is no other rate.
        0 if !free || is_g711 => Ok(codec.clock_rate()),
        _ => Err(Unusable::ClockRate { codec, rate }),
    }
}

/// Returns the parameters that `sprop-parameter-sets` gives (RFC 6184 §8.1), if any.
fn h264_parameters(parameters: &str) -> VideoParameters {
    let mut video = VideoParameters::default();
    let sets = parameter(parameters, "sprop-parameter-sets").unwrap_or_default();
    for set in sets.split(',').filter_map(parameter_set) {
        match set.first().map(|first| first & 0x1f) {
            Some(7) if video.sps.is_empty() => video.sps = set,
            Some(8) if video.pps.is_empty() => video.pps = set,
            _ => {}
        }
    }
    video
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first format of a description with these lines for its one track.
    fn track(lines: &str) -> Result<Track, Unusable> {
        let text = format!("v=0\r\ns=-\r\n{lines}\r\n");
        let description = Description::parse(text.as_bytes()).expect("a description");
        description.tracks[0].format().expect("a format").track()
    }

    #[test]
    fn format_parameters_of_a_camera_are_kept_as_they_are() {
        let aac = track(
            "m=audio 0 RTP/AVP 97\r\na=rtpmap:97 MPEG4-GENERIC/16000/1\r\na=fmtp:97 \
             streamtype=5; profile-level-id=15; mode=AAC-hbr; config=1408; SizeLength=13; \
             IndexLength=3; IndexDeltaLength=3",
        );
        let aac = aac.expect("AAC");
        assert_eq!(
            (aac.codec, aac.clock_rate, aac.channels),
            (Codec::Aac, 16_000, 1)
        );
        let told = "streamtype=5; profile-level-id=15; mode=AAC-hbr; config=1408; \
                    SizeLength=13; IndexLength=3; IndexDeltaLength=3";
        assert_eq!(aac.format_parameters, told);
        let jpeg = track("m=video 0 RTP/AVP 26").expect("a static payload type");
        assert_eq!(jpeg, Track::new(Codec::Jpeg));
    }

    #[test]
    fn aac_in_latm_is_aac_with_the_configuration_of_the_audio() {
        let latm = |parameters: &str| {
            track(&format!(
                "m=audio 0 RTP/AVP 97\r\na=rtpmap:97 MP4A-LATM/48000/2\r\na=fmtp:97 {parameters}"
            ))
        };
        let aac = latm("profile-level-id=41;cpresent=0;config=400023203fc0").expect("AAC");
        assert_eq!(
            (aac.codec, aac.clock_rate, aac.channels),
            (Codec::Aac, 48_000, 2)
        );
        assert!(aac.format_parameters.ends_with("config=1190"));
        let refused = latm("cpresent=1").expect_err("in the packets").to_string();
        assert!(refused.contains("cpresent=0"), "{refused}");
    }

    #[test]
    fn the_first_track_of_a_kind_that_is_carried_is_chosen() {
        let text = "v=0\r\ns=-\r\n\
            m=audio 0 RTP/AVP 8\r\na=sendonly\r\n\
            m=audio 0 RTP/AVP 0\r\n\
            m=application 0 RTP/AVP 99\r\n\
            m=video 0 RTP/AVP 96\r\na=rtpmap:96 H265/90000\r\n\
            m=video 0 RTP/AVP 97\r\na=rtpmap:97 H264/90000\r\n\
            m=video 0 RTP/AVP 98\r\na=rtpmap:98 VP8/90000\r\n\
            m=text 0 RTP/AVP 100\r\na=rtpmap:100 t140/1000\r\n";
        let description = Description::parse(text.as_bytes()).expect("a description");
        let chosen = description.choose(|track| track.codec != Codec::H265);
        let tracks = chosen.tracks.iter().map(|(index, it)| (*index, it.codec));
        let tracks: Vec<_> = tracks.collect();
        let wanted = [(TrackIndex(4), Codec::H264), (TrackIndex(1), Codec::Pcmu)];
        assert_eq!(tracks, wanted, "video first");
        let left_out = chosen.left_out.join(", ");
        for part in [
            "audio",
            "application",
            "video H.265",
            "second video VP8",
            "text",
        ] {
            assert!(left_out.contains(part), "{part}: {left_out}");
        }
        assert_eq!(description.choose(|_| false).tracks, []);
    }

    #[test]
    fn parameter_sets_of_h264_are_read_with_and_without_padding() {
        for sets in ["Z0LAH9o=,aM48gA==", "Z0LAH9o,aM48gA"] {
            let lines = format!(
                "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 \
                 packetization-mode=1;sprop-parameter-sets={sets}"
            );
            let video = track(&lines).expect("H.264").video;
            assert_eq!(video.sps, [0x67, 0x42, 0xc0, 0x1f, 0xda]);
            assert_eq!(video.pps, [0x68, 0xce, 0x3c, 0x80]);
        }
    }

    /// A camera with G.711 of 16 kHz is in bluenviron/mediamtx#2848.
    #[test]
    fn g711_has_the_rate_and_channels_of_the_description() {
        for (map, clock_rate, channels) in [
            ("PCMA/16000", 16_000, 1),
            ("PCMU/8000/2", 8_000, 2),
            ("pcmu/48000/2", 48_000, 2),
            ("PCMA", 8_000, 1),
            ("PCMA/x", 8_000, 1),
        ] {
            let lines = format!("m=audio 0 RTP/AVP 97\r\na=rtpmap:97 {map}");
            let track = track(&lines).expect(map);
            assert_eq!((track.clock_rate, track.channels), (clock_rate, channels));
            let is_plain = (clock_rate, channels) == (8_000, 1);
            assert_eq!(track.is_played_by_browsers(), is_plain, "{map}");
        }
    }

    #[test]
    fn parameters_of_one_encoding_name_it() {
        let lines = "m=video 0 RTP/AVP 96\r\na=fmtp:96 sprop-parameter-sets=Z0LAH9o=,aM48gA==";
        assert_eq!(track(lines).expect("H.264").codec, Codec::H264);
        let lines =
            "m=video 0 RTP/AVP 96\r\na=fmtp:96 sprop-vps=QAE=;sprop-sps=QgE=;sprop-pps=RAE=";
        assert_eq!(track(lines).expect("H.265").codec, Codec::H265);
    }

    #[test]
    fn what_cannot_be_taken_is_named() {
        for (lines, text) in [
            (
                "m=audio 0 RTP/AVP 98\r\na=rtpmap:98 G726-32/8000",
                "G726-32 (payload type 98)",
            ),
            ("m=audio 0 RTP/AVP 99", "without name (payload type 99)"),
            ("m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/8000", "8000 Hz"),
            (
                "m=audio 0 RTP/AVP 97\r\na=rtpmap:97 AMR/8000",
                "octet-align=1",
            ),
        ] {
            let refused = track(lines).expect_err(lines).to_string();
            assert!(refused.contains(text), "{refused}");
        }
    }
}
