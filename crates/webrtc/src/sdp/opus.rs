//! Negotiation of Opus: the parameters of RFC 7587 §6, and redundancy (RFC 2198).

use super::attribute::FormatParameters;
use super::description::MediaDescription;
use super::format;
use glassline_media::Codec;

/// How this end wants to receive and send Opus, where it may choose.
///
/// The default suits a stream that is watched: the sender chooses, and error correction is used
/// if the peer asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpusOptions {
    /// Request in-band forward error correction from the peer.
    pub fec: bool,
    /// Allow the peer to stop sending during silence (discontinuous transmission).
    pub dtx: bool,
    /// Redundancy in both directions (`red/48000/2`).
    pub redundancy: Redundancy,
    /// Request two channels, for an end that only receives. An end that also sends requests as
    /// many channels as it sends.
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
    /// Redundancy is neither offered nor accepted.
    #[default]
    Never,
    /// Redundancy is accepted if the peer's offer lists it before Opus itself, that is, prefers
    /// it (RFC 3264 §6.1): browsers always offer it, and mostly list it last. Our own offers do
    /// not contain it.
    IfPreferred,
    /// Redundancy is accepted whenever the peer offers it, behind Opus itself unless the peer prefers
    /// it. Our own offers do not contain it.
    IfOffered,
    /// Redundancy is accepted whenever the peer offers it, and comes first in offers and answers.
    Always,
}

impl Redundancy {
    /// Returns whether the payload type `red` of an offer is accepted for packets of
    /// `payload_type`.
    pub(super) fn accepts(self, media: &MediaDescription, red: u8, payload_type: u8) -> bool {
        match self {
            Self::Never => false,
            Self::IfPreferred => self.prefers(media, red, payload_type),
            Self::IfOffered | Self::Always => true,
        }
    }

    /// Returns whether redundancy that is accepted comes before the codec itself.
    pub(super) fn prefers(self, media: &MediaDescription, red: u8, payload_type: u8) -> bool {
        let mut formats = format::payload_types(media);
        let first = formats.find(|it| [red, payload_type].contains(it));
        self == Self::Always || first == Some(red)
    }
}

/// Parameters of the Opus that a peer wants to receive (RFC 7587 §6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpusParameters {
    /// `useinbandfec`: the peer can use in-band forward error correction.
    pub fec: bool,
    /// `usedtx`: the peer prefers no packets to packets of silence.
    pub dtx: bool,
    /// `stereo`: the peer plays two channels; without it, one channel is enough.
    pub stereo: bool,
    /// `maxaveragebitrate`: the highest average bitrate that the peer wants, in bit/s.
    pub bitrate_max: Option<u32>,
    /// `minptime`: the shortest packet duration that the peer wants, in ms.
    pub packet_ms_min: Option<u32>,
}

impl OpusParameters {
    /// Parses an `a=fmtp` value. Parameters that are absent or not numbers count as not stated.
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

/// Returns the parameters of the Opus that we want to receive. `channels`: the number that we
/// send; `None` if we only receive.
pub(super) fn wanted(options: OpusOptions, channels: Option<u8>) -> String {
    let mut out = "minptime=10".to_owned();
    if options.fec {
        out += ";useinbandfec=1";
    }
    if options.dtx {
        out += ";usedtx=1";
    }
    if channels.map_or(options.stereo, |count| count == 2) {
        // libwebrtc-based peers read the first parameter, the second is RFC 7587's.
        out += ";stereo=1;sprop-stereo=1";
    }
    out
}

/// Encoding name of redundancy in SDP.
pub(super) const RED: &str = "red";

/// Returns the payload type of redundancy for packets of `payload_type` (RFC 2198 §5), if the
/// section has one whose blocks all have that payload type.
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

/// Returns the `a=fmtp` value of redundancy: one copy, both blocks in the same codec.
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
        let stated = OpusParameters::parse(&wanted(options, Some(1)));
        assert!(stated.fec && stated.dtx && !stated.stereo);
        assert_eq!(stated.packet_ms_min, Some(10));
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
