//! Converts formats of session descriptions to tracks, for cameras and publishers alike.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use glassline_media::{Codec, Track, VideoParameters};
use glassline_rtp::payload::h265;
use glassline_rtp::payload::{Depacketizer, UnsupportedFormat, parameter};
use glassline_rtsp::sdp::Format;

/// Returns the track of a format that a source offers, with its parameters unchanged.
///
/// # Errors
/// Returns [`Unusable`] with the format and the reason why it cannot be used.
pub(crate) fn track_of(format: &Format) -> Result<Track, Unusable> {
    let name = &format.encoding_name;
    let codec = Codec::from_encoding_name(name).ok_or_else(|| {
        let name = if name.is_empty() {
            "without name"
        } else {
            name
        };
        Unusable::Unknown(format!("{name} (payload type {})", format.payload_type))
    })?;
    let clock_rate = clock_rate(codec, format.clock_rate)?;
    let channels = match codec {
        // Opus always announces two channels (RFC 7587 §7), and a decoder may treat it so.
        Codec::Opus => 2,
        _ => format.channels.max(1),
    };
    if matches!(codec, Codec::Pcmu | Codec::Pcma) && channels > 1 {
        return Err(Unusable::Channels { codec, channels });
    }
    let mut track = Track::audio(codec, channels)
        .with_clock_rate(clock_rate)
        .with_format_parameters(format.parameters.clone());
    if codec == Codec::H264 {
        track.video = h264_parameters(&format.parameters);
        track.format_parameters.clear();
    }
    Depacketizer::new(&track)?;
    Ok(track)
}

/// The reason why a format of a source is left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Unusable {
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
    /// The format has more audio channels than the server carries for this codec.
    #[error("{codec} of {channels} channels")]
    Channels {
        /// Codec of the format.
        codec: Codec,
        /// Number of channels of the format.
        channels: u8,
    },
    /// The mode of the payload format is not supported.
    #[error(transparent)]
    Format(#[from] UnsupportedFormat),
}

/// Returns the clock rate, for codecs whose clock is their sample rate. A missing rate, or one
/// faster than any converter, is refused.
fn clock_rate(codec: Codec, rate: u32) -> Result<u32, Unusable> {
    let free = matches!(
        codec,
        Codec::L16 | Codec::Aac | Codec::Ac3 | Codec::Vorbis | Codec::T140
    );
    match rate {
        1_000..=384_000 if free => Ok(rate),
        _ if rate == codec.clock_rate() => Ok(rate),
        _ => Err(Unusable::ClockRate { codec, rate }),
    }
}

/// Returns the parameters that `sprop-parameter-sets` gives (RFC 6184 §8.1), if any.
fn h264_parameters(parameters: &str) -> VideoParameters {
    let mut video = VideoParameters::default();
    let sets = parameter(parameters, "sprop-parameter-sets").unwrap_or_default();
    for set in sets.split(',').filter_map(decode) {
        match set.first().map(|first| first & 0x1f) {
            Some(7) if video.sps.is_empty() => video.sps = set,
            Some(8) if video.pps.is_empty() => video.pps = set,
            _ => {}
        }
    }
    video
}

/// Returns the NAL units of `sprop-vps`, `sprop-sps` and `sprop-pps` (RFC 7798 §7.1).
pub(super) fn sets_of_h265(track: &Track) -> Vec<Vec<u8>> {
    let lists = ["sprop-vps", "sprop-sps", "sprop-pps"]
        .into_iter()
        .filter_map(|name| parameter(&track.format_parameters, name));
    lists
        .flat_map(|list| list.split(',').filter_map(decode))
        .collect()
}

/// Adds parameter sets (VPS, SPS, PPS) to a description that has none.
pub(super) fn describe_h265(track: &mut Track, sets: [&[u8]; 3]) {
    if !sets_of_h265(track).is_empty() {
        return;
    }
    for (name, set) in ["sprop-vps", "sprop-sps", "sprop-pps"]
        .into_iter()
        .zip(sets)
    {
        push_parameter(&mut track.format_parameters, name, &STANDARD.encode(set));
    }
}

/// Returns the track with parameter sets (NAL units without start codes) that came apart from its
/// frames, for codecs that have them in their format parameters.
pub(crate) fn with_sets(mut track: Track, sets: &[Vec<u8>]) -> Track {
    if track.codec == Codec::H265 {
        let of = |kind| {
            sets.iter()
                .find(|set| set.first().map(|it| h265::nal_type(*it)) == Some(kind))
        };
        if let (Some(vps), Some(sps), Some(pps)) =
            (of(h265::nal::VPS), of(h265::nal::SPS), of(h265::nal::PPS))
        {
            describe_h265(&mut track, [vps, sps, pps]);
        }
    }
    track
}

/// Returns the track as the server sends it on: its format parameters describe the packets that
/// this server makes.
pub(super) fn as_sent(mut track: Track) -> Track {
    let replaced: &[(&str, &str)] = match track.codec {
        Codec::Aac => &[
            ("mode", "AAC-hbr"),
            ("sizelength", "13"),
            ("indexlength", "3"),
            ("indexdeltalength", "3"),
        ],
        Codec::Amr | Codec::AmrWb => &[("octet-align", "1")],
        _ => return track,
    };
    for (name, value) in replaced {
        let told = parameter(&track.format_parameters, name);
        if told.is_some_and(|told| told.eq_ignore_ascii_case(value)) {
            continue;
        }
        let kept: Vec<_> = track
            .format_parameters
            .split(';')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .filter(|part| {
                let key = part.split('=').next().unwrap_or_default();
                !key.trim().eq_ignore_ascii_case(name)
            })
            .collect();
        let mut text = kept.join(";");
        push_parameter(&mut text, name, value);
        track.format_parameters = text;
    }
    track
}

fn push_parameter(text: &mut String, name: &str, value: &str) {
    if !text.is_empty() && !text.ends_with(';') {
        text.push(';');
    }
    text.push_str(name);
    text.push('=');
    text.push_str(value);
}

/// Decodes base64. Some cameras leave the padding out.
fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD_NO_PAD
        .decode(text.trim().trim_end_matches('='))
        .ok()
        .filter(|set| !set.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_rtsp::sdp::Description;

    /// The first format of a description with these lines for its one track.
    fn track(lines: &str) -> Result<Track, Unusable> {
        let text = format!("v=0\r\ns=-\r\n{lines}\r\n");
        let description = Description::parse(text.as_bytes()).expect("a description");
        track_of(description.tracks[0].format().expect("a format"))
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
        assert_eq!(
            as_sent(aac).format_parameters,
            told,
            "it is what we send, too"
        );
        let jpeg = track("m=video 0 RTP/AVP 26").expect("a static payload type");
        assert_eq!(jpeg, Track::new(Codec::Jpeg));
    }

    #[test]
    fn packets_of_another_mode_are_described_as_they_are_sent_on() {
        let low = track(
            "m=audio 0 RTP/AVP 97\r\na=rtpmap:97 mpeg4-generic/8000\r\na=fmtp:97 \
             mode=AAC-lbr; config=1588; sizeLength=6; indexLength=2; indexDeltaLength=2",
        );
        let sent = as_sent(low.expect("AAC")).format_parameters;
        let hbr = "config=1588;mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3";
        assert_eq!(sent, hbr);
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
            (
                "m=audio 0 RTP/AVP 96\r\na=rtpmap:96 PCMU/8000/2",
                "2 channels",
            ),
        ] {
            let refused = track(lines).expect_err(lines).to_string();
            assert!(refused.contains(text), "{refused}");
        }
    }
}
