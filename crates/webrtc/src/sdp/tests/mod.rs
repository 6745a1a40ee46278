mod answering;
mod calls;
mod codecs;
mod data;
mod offering;
mod parsing;
mod properties;
mod publishing;
mod transport;

use crate::TransportAddress;
use glassline_media::{Codec, Ssrc, Track, VideoParameters};

use super::{
    AnswerOptions, DataParameters, Fingerprint, IceCredentials, LocalDescription, Negotiated,
    NegotiationError, SenderSsrc, SessionDescription,
};

/// Offers recorded from the peers themselves: Chromium 156, aiortc 1.16, Pion 4.2.18, GStreamer
/// 1.22's webrtcbin. Those of Firefox and Safari are written in their form.
const CHROMIUM: &str = include_str!("../testdata/offer-chromium.sdp");
const CHROMIUM_DATA: &str = include_str!("../testdata/offer-chromium-max-bundle.sdp");
const FIREFOX: &str = include_str!("../testdata/offer-firefox.sdp");
const SAFARI: &str = include_str!("../testdata/offer-safari.sdp");
const PION: &str = include_str!("../testdata/offer-pion.sdp");
const AIORTC: &str = include_str!("../testdata/offer-aiortc.sdp");
const GSTREAMER: &str = include_str!("../testdata/offer-gstreamer.sdp");

const OFFERS: [(&str, &str); 7] = [
    ("Chromium", CHROMIUM),
    ("Chromium with data", CHROMIUM_DATA),
    ("Firefox", FIREFOX),
    ("Safari", SAFARI),
    ("Pion", PION),
    ("aiortc", AIORTC),
    ("GStreamer", GSTREAMER),
];

/// Answers to our own offer; the last three are written in the servers' form.
const ANSWERS: [(&str, &str); 7] = [
    ("Chromium", include_str!("../testdata/answer-chromium.sdp")),
    ("Pion", include_str!("../testdata/answer-pion.sdp")),
    ("aiortc", include_str!("../testdata/answer-aiortc.sdp")),
    (
        "GStreamer",
        include_str!("../testdata/answer-gstreamer.sdp"),
    ),
    ("Janus", include_str!("../testdata/answer-janus.sdp")),
    ("MediaMTX", include_str!("../testdata/answer-mediamtx.sdp")),
    (
        "libdatachannel",
        include_str!("../testdata/answer-libdatachannel.sdp"),
    ),
];

fn video(profile_level_id: [u8; 3]) -> Track {
    let [profile, flags, level] = profile_level_id;
    Track::h264(VideoParameters {
        sps: vec![0x67, profile, flags, level],
        ..VideoParameters::default()
    })
}

/// Tracks of Constrained Baseline at level 4.0 and stereo Opus.
fn tracks() -> [Track; 2] {
    [video([0x42, 0xc0, 40]), Track::audio(Codec::Opus, 2)]
}

/// Negotiates what a server sends for an offer.
fn negotiate(
    offer: &SessionDescription,
    tracks: &[Track],
    data: bool,
) -> Result<Negotiated, NegotiationError> {
    let wanted = AnswerOptions {
        tracks,
        data,
        ..AnswerOptions::default()
    };
    super::negotiate(offer, &wanted)
}

fn credentials() -> IceCredentials {
    IceCredentials {
        ufrag: "sErV".to_owned(),
        pwd: "aPasswordOfTwentyTwoCh".to_owned(),
    }
}

fn udp(address: &str) -> TransportAddress {
    TransportAddress::udp(address.parse().expect("an address"))
}

fn local(senders: u32) -> LocalDescription {
    LocalDescription {
        credentials: credentials(),
        fingerprint: Fingerprint::sha256([0xab; 32]),
        candidates: vec![udp("[2001:db8::7]:8189"), udp("192.0.2.7:8189")],
        session_id: 4711,
        session_version: 1,
        senders: (0..senders)
            .map(|index| SenderSsrc {
                ssrc: Ssrc(100 + index),
                rtx: Some(Ssrc(200 + index)),
                fec: Some(Ssrc(300 + index)),
            })
            .collect(),
        cname: "glassline".to_owned(),
        stream_id: "demo".to_owned(),
        data: DataParameters {
            port: 5000,
            max_message_size: Some(1 << 20),
        },
    }
}

fn parse(text: &str) -> SessionDescription {
    SessionDescription::parse(text).expect("a valid description")
}

fn negotiated(offer: &str) -> Negotiated {
    negotiate(&parse(offer), &tracks(), false).expect("an acceptable offer")
}

fn refused(offer: &str) -> NegotiationError {
    negotiate(&parse(offer), &tracks(), false).expect_err("must be refused")
}

/// Returns the offer without the lines that begin with `prefix`.
fn without(offer: &str, prefix: &str) -> String {
    let kept = offer.lines().filter(|line| !line.starts_with(prefix));
    kept.map(|line| format!("{line}\n")).collect()
}
