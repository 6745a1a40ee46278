use crate::TransportAddress;
use std::net::SocketAddr;

use glassline_media::{Codec, Kind};

use super::agreed::Feedback;
use super::answer::{SenderSsrc, SentTrack, push_feedback, push_redundancy, push_rtx, rtpmap};
use super::attribute::{Attribute, Direction, ExtensionMap, FormatParameters, Group, Setup};
use super::attributes::Attributes;
use super::credentials::IceCredentials;
use super::data::{self, DataParameters};
use super::description::{MediaDescription, Origin, SessionDescription};
use super::extensions::{MID_URI, REPAIRED_RID_URI, RID_URI, TRANSPORT_CC_URI};
use super::fec;
use super::fingerprint::Fingerprint;
use super::opus::{self, OpusOptions, Redundancy};
use super::simulcast;
use super::transport::{default_destination, push_candidates, push_relayed, push_transport};

/// The statements of this end in an offer.
#[derive(Clone, Debug)]
pub struct OfferParameters {
    /// One `m=` line each, in this order; their identification tags count from 0.
    pub media: Vec<OfferedMedia>,
    /// How the peer should send Opus, and whether redundancy is offered.
    pub opus: OpusOptions,
    /// Whether FEC packets (FlexFEC) are offered for the video that is received.
    pub fec: bool,
    /// RTCP canonical name of the tracks that are sent.
    pub cname: String,
    /// Another `m=` line, the last, for data channels; it may be the only one.
    pub data: Option<DataParameters>,
    /// ICE credentials of this end.
    pub credentials: IceCredentials,
    /// Fingerprint of our certificate.
    pub fingerprint: Fingerprint,
    /// All addresses at which this end is reached, most preferred first.
    pub candidates: Vec<TransportAddress>,
    /// Relayed addresses on TURN servers, each with the local address that allocated it.
    pub relayed: Vec<(SocketAddr, SocketAddr)>,
    /// Session identifier, below 2⁶³ (RFC 8829 §5.2.1).
    pub session_id: u64,
}

/// An `m=` line of video or audio in an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfferedMedia {
    /// Receive this kind of media, in any codec that is supported.
    Receive(Kind),
    /// Send a track of ours.
    Send {
        /// Codec of the track, the only one offered.
        codec: Codec,
        /// Number of audio channels: 2 for stereo.
        channels: u8,
        /// RTP sources of the track.
        sender: SenderSsrc,
        /// Also receive this kind of media from the peer, in the same codec.
        receive: bool,
    },
    /// Send several encodings of one video (RFC 8853), whose packets tell which one they belong to.
    Simulcast {
        /// Codec of all encodings, the only one offered.
        codec: Codec,
        /// RIDs of the encodings, the best first.
        rids: Vec<String>,
    },
}

impl OfferedMedia {
    const fn kind(&self) -> Kind {
        match self {
            Self::Receive(kind) => *kind,
            Self::Send { codec, .. } | Self::Simulcast { codec, .. } => codec.kind(),
        }
    }

    const fn direction(&self) -> Direction {
        match self {
            Self::Receive(_) => Direction::RecvOnly,
            Self::Send { receive: true, .. } => Direction::SendRecv,
            Self::Send { receive: false, .. } | Self::Simulcast { .. } => Direction::SendOnly,
        }
    }

    fn offers(&self, codec: Codec) -> bool {
        match self {
            Self::Receive(_) => true,
            Self::Send { codec: ours, .. } | Self::Simulcast { codec: ours, .. } => *ours == codec,
        }
    }

    /// Returns the number of channels of the audio that is sent.
    const fn channels(&self) -> Option<u8> {
        match self {
            Self::Receive(_) | Self::Simulcast { .. } => None,
            Self::Send { channels, .. } => Some(*channels),
        }
    }

    /// Returns the RTP sources that are announced. Those of layers are not: their packets carry RIDs
    /// (RFC 8853 §5.5).
    const fn sender(&self) -> Option<SenderSsrc> {
        match self {
            Self::Send { sender, .. } => Some(*sender),
            Self::Receive(_) | Self::Simulcast { .. } => None,
        }
    }

    fn rids(&self) -> &[String] {
        match self {
            Self::Simulcast { rids, .. } => rids,
            Self::Receive(_) | Self::Send { .. } => &[],
        }
    }
}

/// Creates an offer of media and data channels: full ICE without trickle, either DTLS role, one
/// bundle.
pub fn offer(parameters: &OfferParameters) -> SessionDescription {
    let mut session = Attributes::default();
    session.push(Attribute::Group(Group {
        semantics: "BUNDLE".to_owned(),
        mids: (0..parameters.media.len() + usize::from(parameters.data.is_some()))
            .map(|index| index.to_string())
            .collect(),
    }));
    session.push(Attribute::Other {
        name: "msid-semantic".to_owned(),
        value: Some(" WMS".to_owned()),
    });
    let media = parameters.media.iter().enumerate();
    let data = parameters.data.as_ref();
    let data = data.map(|data| data_section(parameters.media.len(), data, parameters));
    SessionDescription {
        origin: Origin::local(parameters.session_id, 1),
        name: "-".to_owned(),
        lines: vec![('t', "0 0".to_owned())],
        attributes: session,
        media: media
            .map(|(index, media)| section(index, media, parameters))
            .chain(data)
            .collect(),
    }
}

/// A payload type in our offers.
struct Offered {
    payload_type: u8,
    rtx: Option<u8>,
    codec: Codec,
    parameters: &'static str,
}

/// Payload types of video. H.264 comes first, in the profiles that senders are known to
/// compare, all at level 3.1, which every decoder supports: the level limits no sender in
/// practice, but peers that compare the text reject a higher one. The other codecs follow, as
/// Chromium writes them.
const VIDEO: [Offered; 11] = [
    h264(
        102,
        103,
        "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f",
    ),
    h264(
        104,
        105,
        "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42001f",
    ),
    h264(
        106,
        107,
        "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=4d001f",
    ),
    h264(
        108,
        109,
        "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=64001f",
    ),
    h264(
        112,
        113,
        "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=640c1f",
    ),
    video(114, 115, Codec::Vp8, ""),
    video(116, 117, Codec::Vp9, "profile-id=0"),
    video(118, 119, Codec::Vp9, "profile-id=2"),
    video(120, 121, Codec::Av1, ""),
    video(
        122,
        123,
        Codec::H265,
        "level-id=180;profile-id=1;tier-flag=0;tx-mode=SRST",
    ),
    video(
        124,
        125,
        Codec::H265,
        "level-id=180;profile-id=2;tier-flag=0;tx-mode=SRST",
    ),
];

/// Payload types of audio. The caller chooses the parameters of Opus.
const AUDIO: [Offered; 3] = [
    audio(111, Codec::Opus, ""),
    audio(0, Codec::Pcmu, ""),
    audio(8, Codec::Pcma, ""),
];

/// Payload type of redundancy, as Chromium numbers it.
const RED: u8 = 63;

/// Payload type of FEC packets, as Chromium numbers it.
const FEC: u8 = 49;

/// Ids and URIs of the header extensions in our offers.
const EXTENSIONS: [(u16, &str); 2] = [(1, MID_URI), (2, TRANSPORT_CC_URI)];

/// Ids and URIs of the further header extensions of layers.
const LAYER_EXTENSIONS: [(u16, &str); 2] = [(3, RID_URI), (4, REPAIRED_RID_URI)];

const fn h264(payload_type: u8, rtx: u8, parameters: &'static str) -> Offered {
    video(payload_type, rtx, Codec::H264, parameters)
}

const fn video(payload_type: u8, rtx: u8, codec: Codec, parameters: &'static str) -> Offered {
    Offered {
        payload_type,
        rtx: Some(rtx),
        codec,
        parameters,
    }
}

const fn audio(payload_type: u8, codec: Codec, parameters: &'static str) -> Offered {
    Offered {
        payload_type,
        rtx: None,
        codec,
        parameters,
    }
}

fn section(index: usize, media: &OfferedMedia, parameters: &OfferParameters) -> MediaDescription {
    let kind = media.kind();
    let offered: &[Offered] = match kind {
        Kind::Video => &VIDEO,
        Kind::Audio => &AUDIO,
        // No browser accepts text next to video.
        Kind::Text => &[],
    };
    let offered = offered.iter().filter(|it| media.offers(it.codec));
    let wants_red = parameters.opus.redundancy == Redundancy::Always;
    let has_red = wants_red && kind == Kind::Audio && media.offers(Codec::Opus);
    let red = has_red.then_some(RED);
    let (port, connection) = default_destination(&parameters.candidates);
    let mut attributes = Attributes::default();
    attributes.push(Attribute::Mid(index.to_string()));
    attributes.push(Attribute::Direction(media.direction()));
    attributes.push(Attribute::RtcpMux);
    attributes.push(Attribute::RtcpReducedSize);
    push_transport(
        &mut attributes,
        &parameters.credentials,
        &parameters.fingerprint,
        Setup::ActPass,
    );
    let of_layers = LAYER_EXTENSIONS.iter().filter(|_| !media.rids().is_empty());
    for (id, uri) in EXTENSIONS.iter().chain(of_layers) {
        attributes.push(Attribute::ExtensionMap(ExtensionMap {
            id: *id,
            direction: None,
            uri: (*uri).to_owned(),
            parameters: String::new(),
        }));
    }
    if let Some(red) = red {
        push_redundancy(&mut attributes, red, AUDIO[0].payload_type);
    }
    for format in offered.clone() {
        let audio = || opus::wanted(parameters.opus, media.channels());
        push_offered(&mut attributes, format, audio);
    }
    let receives_video = matches!(media, OfferedMedia::Receive(Kind::Video));
    let fec = (parameters.fec && receives_video).then_some(FEC);
    if let Some(fec) = fec {
        fec::push(&mut attributes, fec);
    }
    if media.direction().sends() {
        let sent = SentTrack {
            kind,
            track: index,
            sender: media.sender(),
            stream_id: &parameters.cname,
            cname: &parameters.cname,
        };
        sent.push(&mut attributes);
        simulcast::push_offer(&mut attributes, media.rids());
    }
    if index == 0 {
        push_relayed(&mut attributes, &parameters.relayed);
        push_candidates(&mut attributes, &parameters.candidates);
    }
    let formats = offered.flat_map(|format| [Some(format.payload_type), format.rtx]);
    MediaDescription {
        kind: kind.as_str().to_owned(),
        port,
        port_count: None,
        protocol: "UDP/TLS/RTP/SAVPF".to_owned(),
        formats: red
            .into_iter()
            .chain(formats.flatten())
            .chain(fec)
            .map(|payload_type| payload_type.to_string())
            .collect(),
        lines: vec![('c', connection)],
        attributes,
    }
}

fn data_section(
    index: usize,
    data: &DataParameters,
    parameters: &OfferParameters,
) -> MediaDescription {
    data::section(
        data,
        data::Section {
            mid: Some(index.to_string()),
            credentials: &parameters.credentials,
            fingerprint: &parameters.fingerprint,
            setup: Setup::ActPass,
            trickle: false,
            candidates: &parameters.candidates,
            carries_transport: index == 0,
            legacy: false,
        },
    )
}

fn push_offered(attributes: &mut Attributes, format: &Offered, opus: impl Fn() -> String) {
    let payload_type = format.payload_type;
    attributes.push(Attribute::RtpMap(rtpmap(payload_type, format.codec)));
    let parameters = match format.codec {
        Codec::Opus => opus(),
        _ => format.parameters.to_owned(),
    };
    if !parameters.is_empty() {
        attributes.push(Attribute::FormatParameters(FormatParameters {
            payload_type,
            parameters,
        }));
    }
    let video = format.codec.kind() == Kind::Video;
    let feedback = Feedback {
        nack: video,
        pli: video,
        fir: video,
        transport_cc: true,
    };
    push_feedback(attributes, payload_type, feedback);
    if let Some(rtx) = format.rtx {
        push_rtx(attributes, rtx, payload_type, format.codec);
    }
}
