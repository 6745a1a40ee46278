//! The formats in which cameras take a voice.

use glassline_media::aac::{AudioSpecificConfig, RATES, from_hex};
use glassline_media::{Bitrate, Codec};
use glassline_rtp::payload::parameter;
use glassline_rtsp::sdp::Format;
use glassline_transcode::{AacSettings, VoiceTarget};

/// Encoding name of AAC in LATM (RFC 6416 §7.1).
const LATM: &str = "MP4A-LATM";

/// Clock rate of G.711, in Hz.
const G711_RATE: u32 = 8_000;

/// Audio object type of AAC-LC (ISO/IEC 14496-3, table 1.17).
const AAC_LC: u32 = 2;

/// Length of a size in the AU headers of `mode=AAC-hbr`, in bits (RFC 3640 §3.3.6).
const SIZE_BITS: &str = "13";

/// A format in which a camera takes a voice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VoiceFormat {
    /// G.711 µ-law of 8 kHz (PCMU).
    Pcmu,
    /// G.711 A-law of 8 kHz (PCMA).
    Pcma,
    /// AAC-LC, as the camera describes it.
    Aac(AacFormat),
}

/// How a camera takes AAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AacFormat {
    /// Sample rate and channels.
    settings: AacSettings,
    /// Rate of the RTP clock in Hz, which is the sample rate unless the camera errs.
    clock_rate: u32,
    /// Whether frames are in LATM (RFC 6416), else behind AU headers (RFC 3640).
    is_latm: bool,
}

impl VoiceFormat {
    /// Reads a format of a back channel.
    ///
    /// # Errors
    /// Returns the format as a text for people, with the reason why it is not sent if it is AAC.
    pub(super) fn of(format: &Format) -> Result<Self, String> {
        let name = &format.encoding_name;
        let shown = match name.as_str() {
            "" => format!("payload type {}", format.payload_type),
            name => format!("{name} of {} Hz", format.clock_rate),
        };
        let codec = match name.eq_ignore_ascii_case(LATM) {
            true => Some(Codec::Aac),
            false => Codec::from_encoding_name(name),
        };
        match codec {
            Some(Codec::Pcmu) if format.clock_rate == G711_RATE => Ok(Self::Pcmu),
            Some(Codec::Pcma) if format.clock_rate == G711_RATE => Ok(Self::Pcma),
            Some(Codec::Aac) => match AacFormat::of(format) {
                Ok(aac) => Ok(Self::Aac(aac)),
                Err(why) => Err(format!("{shown} ({why})")),
            },
            _ => Err(shown),
        }
    }

    /// Returns the codec that the camera takes.
    pub(crate) const fn codec(self) -> Codec {
        match self {
            Self::Pcmu => Codec::Pcmu,
            Self::Pcma => Codec::Pcma,
            Self::Aac(_) => Codec::Aac,
        }
    }

    /// Returns what a voice in another codec is made into.
    pub(super) const fn target(self) -> VoiceTarget {
        match self {
            Self::Pcmu => VoiceTarget::Pcmu,
            Self::Pcma => VoiceTarget::Pcma,
            Self::Aac(aac) => VoiceTarget::Aac(aac.settings),
        }
    }

    /// Returns the RTP timestamp for a time in samples of the target.
    pub(super) fn timestamp(self, samples: u32) -> u32 {
        match self {
            Self::Pcmu | Self::Pcma => samples,
            Self::Aac(aac) if aac.clock_rate == aac.settings.rate => samples,
            Self::Aac(aac) => {
                let ticks = u64::from(samples) * u64::from(aac.clock_rate);
                (ticks / u64::from(aac.settings.rate)) as u32
            }
        }
    }

    /// Returns whether every packet has the marker bit, as one that ends a unit of AAC; otherwise the
    /// bit begins a talkspurt (RFC 3551 §4.1).
    pub(super) const fn marks_all(self) -> bool {
        matches!(self, Self::Aac(_))
    }

    /// Appends the RTP payload of a frame to `packet`.
    pub(super) fn write_payload(self, frame: &[u8], packet: &mut Vec<u8>) {
        match self {
            Self::Aac(aac) if aac.is_latm => {
                // The length as bytes of 255 and one below (ISO/IEC 14496-3, §1.7.3.1).
                packet.extend(std::iter::repeat_n(255, frame.len() / 255));
                packet.push((frame.len() % 255) as u8);
            }
            Self::Aac(_) => {
                // 16 bits of headers: a size of 13 bits, an index of 3. Frames are below 1 kB.
                let [high, low] = ((frame.len() as u16) << 3).to_be_bytes();
                packet.extend_from_slice(&[0, 16, high, low]);
            }
            Self::Pcmu | Self::Pcma => {}
        }
        packet.extend_from_slice(frame);
    }
}

impl AacFormat {
    /// Reads the description of AAC. Without a configuration, frames have the clock's rate.
    fn of(format: &Format) -> Result<Self, String> {
        let is_latm = format.encoding_name.eq_ignore_ascii_case(LATM);
        let track = format.track().map_err(|unusable| unusable.to_string())?;
        let parameters = &track.format_parameters;
        if let Some(bits) = parameter(parameters, "sizelength").filter(|it| *it != SIZE_BITS) {
            return Err(format!("mode=AAC-hbr is needed, not sizelength={bits}"));
        }
        let (mut rate, mut channels) = (track.clock_rate, track.channels);
        let config = parameter(parameters, "config").and_then(from_hex);
        if let Some(config) = config.and_then(|bytes| AudioSpecificConfig::parse(&bytes)) {
            if config.object_type != AAC_LC || config.rate != config.coded_rate {
                return Err("AAC-LC is needed, not another kind of AAC".to_owned());
            }
            if config.samples != 1024 {
                return Err(format!("frames of {} samples are not sent", config.samples));
            }
            (rate, channels) = (config.rate, config.channels.unwrap_or(channels));
        }
        if !RATES.contains(&rate) {
            return Err(format!("AAC has no {rate} Hz"));
        }
        if channels > 2 {
            return Err(format!("{channels} channels are not sent"));
        }
        Ok(Self {
            settings: AacSettings {
                rate,
                channels,
                bitrate: bitrate_at(rate),
            },
            clock_rate: track.clock_rate,
            is_latm,
        })
    }
}

/// Returns the bit rate of AAC at a sample rate in Hz: what a voice needs to be heard without the
/// artefacts of an encoder with long windows only (docs/benchmarks/transcoding.md), and less than
/// G.711 takes.
const fn bitrate_at(rate: u32) -> Bitrate {
    Bitrate::from_bps(match rate {
        ..12_000 => 32_000,
        12_000..24_000 => 48_000,
        _ => 64_000,
    })
}

#[cfg(test)]
mod tests {
    use glassline_rtsp::sdp::Description;

    use super::*;

    fn of(lines: &str) -> Result<VoiceFormat, String> {
        let text = format!("v=0\r\ns=-\r\nm=audio 0 RTP/AVP 97\r\n{lines}\r\na=sendonly\r\n");
        let description = Description::parse(text.as_bytes()).expect("a description");
        VoiceFormat::of(&description.tracks[0].formats[0])
    }

    fn aac(lines: &str) -> AacFormat {
        match of(lines) {
            Ok(VoiceFormat::Aac(aac)) => aac,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rate_and_channels_of_aac_are_those_of_its_configuration() {
        let usual = aac(
            "a=rtpmap:97 mpeg4-generic/16000\r\na=fmtp:97 streamtype=5;profile-level-id=1;\
             mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3;config=1408",
        );
        assert_eq!((usual.settings.rate, usual.settings.channels), (16_000, 1));
        assert!(!usual.is_latm);
        let bare = aac("a=rtpmap:97 MPEG4-GENERIC/8000/1");
        assert_eq!((bare.settings.rate, bare.settings.channels), (8_000, 1));
        let stereo = aac("a=rtpmap:97 mpeg4-generic/48000/2\r\na=fmtp:97 mode=AAC-hbr;config=1190");
        assert_eq!(
            (stereo.settings.rate, stereo.settings.channels),
            (48_000, 2)
        );
        let latm = aac(
            "a=rtpmap:97 MP4A-LATM/48000/2\r\na=fmtp:97 profile-level-id=41;cpresent=0;config=400023203fc0",
        );
        assert!(latm.is_latm);
        assert_eq!((latm.settings.rate, latm.settings.channels), (48_000, 2));
        // A camera whose clock contradicts its configuration.
        let odd = aac("a=rtpmap:97 mpeg4-generic/8000\r\na=fmtp:97 mode=AAC-hbr;config=1408");
        assert_eq!((odd.settings.rate, odd.clock_rate), (16_000, 8_000));
        assert_eq!(VoiceFormat::Aac(odd).timestamp(2_048), 1_024);
    }

    #[test]
    fn what_is_not_sent_is_named() {
        for (lines, why) in [
            ("a=rtpmap:97 G726-32/8000", "G726-32 of 8000 Hz"),
            ("a=rtpmap:97 PCMA/16000", "PCMA of 16000 Hz"),
            ("a=x:1", "payload type 97"),
            (
                "a=rtpmap:97 mpeg4-generic/16000\r\na=fmtp:97 mode=AAC-lbr;sizelength=6;indexlength=2;indexdeltalength=2",
                "mode=AAC-hbr is needed",
            ),
            (
                "a=rtpmap:97 mpeg4-generic/48000\r\na=fmtp:97 config=2b098800",
                "AAC-LC is needed",
            ),
            (
                "a=rtpmap:97 mpeg4-generic/48000\r\na=fmtp:97 config=118c",
                "960 samples",
            ),
            ("a=rtpmap:97 mpeg4-generic/10000", "no 10000 Hz"),
            ("a=rtpmap:97 mpeg4-generic/48000/6", "6 channels"),
            (
                "a=rtpmap:97 MP4A-LATM/48000\r\na=fmtp:97 cpresent=1",
                "cpresent=0",
            ),
        ] {
            let refused = of(lines).expect_err(lines);
            assert!(refused.contains(why), "{lines}: {refused}");
        }
    }

    #[test]
    fn payloads_of_aac_state_the_size_of_the_frame() {
        let plain = aac("a=rtpmap:97 mpeg4-generic/16000");
        let payload = |aac: AacFormat, frame: &[u8]| {
            let mut payload = Vec::new();
            VoiceFormat::Aac(aac).write_payload(frame, &mut payload);
            payload
        };
        assert_eq!(payload(plain, &[9; 300])[..5], [0, 16, 9, 0x60, 9]);
        let latm = AacFormat {
            is_latm: true,
            ..plain
        };
        assert_eq!(payload(latm, &[9; 300])[..3], [255, 45, 9]);
        assert_eq!(payload(latm, &[9; 255])[..3], [255, 0, 9]);
        let mut forwarded = Vec::new();
        VoiceFormat::Pcma.write_payload(&[1, 2], &mut forwarded);
        assert_eq!(forwarded, [1, 2]);
    }
}
