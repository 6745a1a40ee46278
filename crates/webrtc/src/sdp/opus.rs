//! What is said of Opus: the parameters of RFC 7587 §6, and redundancy (RFC 2198).

use super::attribute::FormatParameters;
use super::description::MediaDescription;
use super::format;
use glassline_media::Codec;

/// What this end wants of Opus where it may choose.
///
/// The default is what suits a stream that is watched: its sender's own choice, and
/// correction where the peer asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpusOptions {
    /// In-band forward error correction: asked for of the peer.
    pub fec: bool,
    /// The peer may fall silent where nobody speaks.
    pub dtx: bool,
    /// Packets that repeat the ones before (`red/48000/2`), both ways.
    pub redundancy: Redundancy,
    /// Where this end only receives: two channels are of use. Where it sends, too, as many
    /// as it sends are.
    pub stereo: bool,
}

impl Default for OpusOptions {
    fn default() -> Self {
        Self {
            fec: true,
            dtx: false,
            redundancy: Redundancy::Never,
            stereo: true,
        }
    }
}

/// When redundancy (RFC 2198) is agreed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redundancy {
    /// It is neither offered nor accepted.
    #[default]
    Never,
    /// Where the peer's offer has it before Opus itself, which is to say that it is
    /// preferred (RFC 3264 §6.1): browsers offer it always, and mostly last. Our own
    /// offers do without.
    IfPreferred,
    /// Wherever the peer offers it, and in our offers, first.
    Always,
}

impl Redundancy {
    /// Whether `red` of an offer's section is to be accepted for packets of `payload_type`.
    pub(super) fn accepts(self, media: &MediaDescription, red: u8, payload_type: u8) -> bool {
        match self {
            Self::Never => false,
            Self::IfPreferred => {
                let mut formats = format::payload_types(media);
                formats.find(|it| [red, payload_type].contains(it)) == Some(red)
            }
            Self::Always => true,
        }
    }
}

/// What a peer says of the Opus that it wants to receive (RFC 7587 §6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpusParameters {
    /// `useinbandfec`: it makes use of forward error correction.
    pub fec: bool,
    /// `usedtx`: it would rather have nothing than silence.
    pub dtx: bool,
    /// `stereo`: it plays two channels; without, one is enough.
    pub stereo: bool,
    /// `maxaveragebitrate`, in bits a second.
    pub bitrate_max: Option<u32>,
    /// `minptime`: packets shorter than so many milliseconds are too many.
    pub packet_ms_min: Option<u32>,
}

impl OpusParameters {
    /// Reads an `a=fmtp` value; what is not there or no number counts as not said.
    pub fn parse(parameters: &str) -> Self {
        let parameters = FormatParameters {
            payload_type: 0,
            parameters: parameters.to_owned(),
        };
        let number = |name| parameters.get(name)?.trim().parse::<u32>().ok();
        let is_set = |name| number(name) == Some(1);
        Self {
            fec: is_set("useinbandfec"),
            dtx: is_set("usedtx"),
            stereo: is_set("stereo"),
            bitrate_max: number("maxaveragebitrate"),
            packet_ms_min: number("minptime"),
        }
    }
}

/// What we say of the Opus that we want to receive, and of the channels that we send;
/// `None` of those where we only receive.
pub(super) fn wanted(options: OpusOptions, channels: Option<u8>) -> String {
    let mut out = "minptime=10".to_owned();
    if options.fec {
        out += ";useinbandfec=1";
    }
    if options.dtx {
        out += ";usedtx=1";
    }
    if channels.map_or(options.stereo, |count| count == 2) {
        // The first is how libwebrtc-based ends learn of it, the second is RFC 7587's.
        out += ";stereo=1;sprop-stereo=1";
    }
    out
}

/// Name of the redundancy's format.
pub(super) const RED: &str = "red";

/// The payload type under which packets of `payload_type` come with copies of those
/// before (RFC 2198 §5), if the section has one that holds nothing else.
pub(super) fn redundancy_of(media: &MediaDescription, payload_type: u8) -> Option<u8> {
    let clock_rate = Codec::Opus.clock_rate();
    format::payload_types(media).find(|&it| {
        let fits = media.attributes.rtpmap(it).is_some_and(|map| {
            map.encoding.eq_ignore_ascii_case(RED)
                && map.clock_rate == clock_rate
                && map.channels == Some(2)
        });
        fits && media.attributes.fmtp(it).is_some_and(|fmtp| {
            let mut blocks = fmtp.parameters.split('/');
            blocks.all(|block| block.trim().parse() == Ok(payload_type))
        })
    })
}

/// `a=fmtp` of the redundancy: one copy, both of the same coding.
pub(super) fn redundancy_parameters(payload_type: u8) -> String {
    format!("{payload_type}/{payload_type}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_we_want_is_what_a_peer_reads() {
        let options = OpusOptions {
            fec: true,
            dtx: true,
            redundancy: Redundancy::Never,
            stereo: true,
        };
        let told = OpusParameters::parse(&wanted(options, Some(1)));
        assert!(told.fec && told.dtx && !told.stereo);
        assert_eq!(told.packet_ms_min, Some(10));
        let defaults = wanted(OpusOptions::default(), None);
        assert_eq!(
            defaults,
            "minptime=10;useinbandfec=1;stereo=1;sprop-stereo=1"
        );
        let voice = OpusOptions {
            stereo: false,
            ..OpusOptions::default()
        };
        assert_eq!(wanted(voice, None), "minptime=10;useinbandfec=1");
        let strange = OpusParameters::parse("usedtx=yes; maxaveragebitrate = 24000;;=");
        assert_eq!(
            strange,
            OpusParameters {
                bitrate_max: Some(24_000),
                ..OpusParameters::default()
            }
        );
    }
}
