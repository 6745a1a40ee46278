//! The session description of the fake camera.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::media::Media;
use super::packet_source::{VIDEO_TYPE, sound_of};
use super::quirk::{Quirk, Sound};
use super::row::{Row, Video};

/// Returns the description of `row`'s tracks in Latin-1, in which a letter is one byte.
pub(crate) fn description(row: &Row, media: &Media) -> Vec<u8> {
    let (number, coding) = match media.video {
        Video::H264 => (VIDEO_TYPE, "H264/90000"),
        Video::H265 => (VIDEO_TYPE, "H265/90000"),
    };
    let mut text = format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=camera\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n\
         a=control:*\r\na=range:npt=now-\r\nm=video 0 RTP/AVP {number}\r\n\
         a=rtpmap:{number} {coding}\r\n{}a=control:trackID=0\r\n",
        parameters(row, media),
    );
    if row.has(Quirk::NoVideo) {
        text.truncate(text.find("m=video").unwrap_or(text.len()));
    }
    text += &sound_of(row).map(Sound::described).unwrap_or_default();
    for quirk in row.quirks {
        match quirk {
            Quirk::AlsoDescribed(lines) => text += lines,
            Quirk::Described(part, other) => {
                assert!(
                    text.contains(part),
                    "{}: {part:?} is not in {text}",
                    row.name
                );
                text = text.replacen(part, other, 1);
            }
            _ => {}
        }
    }
    if row.has(Quirk::NoLastLineEnd) {
        text.truncate(text.trim_end().len());
    }
    if row.has(Quirk::LineFeedsDescribed) {
        text = text.replace('\r', "");
    }
    text.chars().map(|letter| letter as u8).collect()
}

/// The line of the video's parameters (RFC 6184 §8.2.1, RFC 7798 §7.1).
fn parameters(row: &Row, media: &Media) -> String {
    let sets = media.sets().map(|set| {
        let behind = row.quirks.iter().find_map(|quirk| match quirk {
            Quirk::BehindSets(bytes) if media.video.is_sequence_set(set) => Some(*bytes),
            _ => None,
        });
        STANDARD.encode([set, behind.unwrap_or_default()].concat())
    });
    let sets: Vec<String> = sets.collect();
    let sets = match (media.video, sets.as_slice()) {
        _ if row.has(Quirk::NoSetsDescribed) => String::new(),
        (Video::H264, sets) => format!(";sprop-parameter-sets={}", sets.join(",")),
        (Video::H265, [vps, sps, pps, ..]) => {
            format!(";sprop-vps={vps};sprop-sps={sps};sprop-pps={pps}")
        }
        (Video::H265, _) => String::new(),
    };
    let first = match media.video {
        Video::H264 => "packetization-mode=1",
        Video::H265 => "profile-id=1",
    };
    format!("a=fmtp:{VIDEO_TYPE} {first}{sets}\r\n")
}
