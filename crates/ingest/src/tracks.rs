//! Describes the tracks of sources as the server publishes and sends them.

use glassline_media::{Codec, Track};
use glassline_rtp::payload::{h265, parameter, push_parameter};

/// Returns the track with parameter sets (NAL units without start codes) that came apart from its
/// frames, for codecs that have them in their format parameters.
pub fn with_sets(mut track: Track, sets: &[Vec<u8>]) -> Track {
    if track.codec == Codec::H265 {
        let of = |kind| {
            sets.iter()
                .find(|set| set.first().map(|it| h265::nal_type(*it)) == Some(kind))
        };
        if let (Some(vps), Some(sps), Some(pps)) =
            (of(h265::nal::VPS), of(h265::nal::SPS), of(h265::nal::PPS))
        {
            h265::describe(&mut track, [vps, sps, pps]);
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
        Codec::H265 => &[("sprop-max-don-diff", "0"), ("sprop-depack-buf-nalus", "0")],
        _ => return track,
    };
    for (name, value) in replaced {
        let told = parameter(&track.format_parameters, name);
        // What is absent is zero in H.265.
        let is_told = told.map_or(track.codec == Codec::H265, |told| {
            told.eq_ignore_ascii_case(value)
        });
        if is_told {
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

#[cfg(test)]
mod tests {
    use super::*;

    const HBR: &str = "streamtype=5; profile-level-id=15; mode=AAC-hbr; config=1408; \
                       SizeLength=13; IndexLength=3; IndexDeltaLength=3";

    fn aac(parameters: &str) -> String {
        let track = Track::audio(Codec::Aac, 1).with_format_parameters(parameters.to_owned());
        as_sent(track).format_parameters
    }

    #[test]
    fn format_parameters_of_what_we_send_are_kept_as_they_are() {
        assert_eq!(aac(HBR), HBR);
    }

    #[test]
    fn units_of_h265_are_sent_on_in_their_order() {
        let sent = |parameters: &str| {
            let track = Track::new(Codec::H265).with_format_parameters(parameters);
            as_sent(track).format_parameters
        };
        assert_eq!(sent("profile-id=1"), "profile-id=1");
        assert_eq!(
            sent("sprop-max-don-diff=2; profile-id=1; sprop-depack-buf-nalus=0"),
            "profile-id=1;sprop-depack-buf-nalus=0;sprop-max-don-diff=0"
        );
    }

    #[test]
    fn narrow_speech_is_sent_on_aligned_to_octets() {
        for codec in [Codec::Amr, Codec::AmrWb] {
            let track = Track::audio(codec, 1).with_format_parameters("mode-set=0,2");
            let sent = as_sent(track).format_parameters;
            assert_eq!(sent, "mode-set=0,2;octet-align=1");
        }
        let opus = Track::audio(Codec::Opus, 2).with_format_parameters("stereo=1");
        assert_eq!(as_sent(opus).format_parameters, "stereo=1");
    }

    #[test]
    fn all_three_sets_of_h265_are_described_in_any_order_or_none() {
        let sets: [&[u8]; 3] = [&[0x44, 1, 0xc1], &[0x40, 1, 0x0c], &[0x42, 1, 1]];
        let sets = sets.map(<[u8]>::to_vec);
        let described = |codec, sets: &[Vec<u8>]| {
            let track = with_sets(Track::new(codec), sets);
            track.format_parameters
        };
        let told = "sprop-vps=QAEM;sprop-sps=QgEB;sprop-pps=RAHB";
        assert_eq!(described(Codec::H265, &sets), told);
        let none = described(Codec::H265, &[]);
        assert_eq!(described(Codec::H265, &sets[1..]), none, "one is missing");
        assert_eq!(described(Codec::H264, &sets), described(Codec::H264, &[]));
    }

    #[test]
    fn packets_of_another_mode_are_described_as_they_are_sent_on() {
        let low = "mode=AAC-lbr; config=1588; sizeLength=6; indexLength=2; indexDeltaLength=2";
        let hbr = "config=1588;mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3";
        assert_eq!(aac(low), hbr);
    }
}
