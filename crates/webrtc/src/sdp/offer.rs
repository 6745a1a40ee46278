use std::net::SocketAddr;

use glassline_media::{Codec, Kind};

use super::answer::{default_destination, push_feedback, push_rtx, rtpmap};
use super::attribute::{Attribute, Direction, ExtensionMap, FormatParameters, Group, Setup};
use super::attributes::Attributes;
use super::data::{self, DataParameters};
use super::description::{MediaDescription, Origin, SessionDescription};
use super::fingerprint::Fingerprint;
use super::negotiate::Feedback;
use super::transport::{IceCredentials, push_candidates, push_relayed, push_transport};
use super::{MID_URI, TRANSPORT_CC_URI};

/// What this end says of itself when it offers to receive.
#[derive(Clone, Debug)]
pub struct OfferParameters {
    /// One `m=` line each, in this order; their tags count from 0.
    pub kinds: Vec<Kind>,
    /// One more `m=` line, the last, for data channels; it may be the only one.
    pub data: Option<DataParameters>,
    /// Our ICE credentials.
    pub credentials: IceCredentials,
    /// Of our certificate.
    pub fingerprint: Fingerprint,
    /// Where we are reached, most preferred first; all there are.
    pub candidates: Vec<SocketAddr>,
    /// Where TURN servers take datagrams for us, each with where we asked from.
    pub relayed: Vec<(SocketAddr, SocketAddr)>,
    /// Number of the session, below 2⁶³ (RFC 8829 §5.2.1).
    pub session_id: u64,
}

/// An offer to receive, and of data channels: full ICE without trickle, either DTLS role, one bundle.
pub fn offer(parameters: &OfferParameters) -> SessionDescription {
    let mut session = Attributes::default();
    session.push(Attribute::Group(Group {
        semantics: "BUNDLE".to_owned(),
        mids: (0..parameters.kinds.len() + usize::from(parameters.data.is_some()))
            .map(|index| index.to_string())
            .collect(),
    }));
    session.push(Attribute::Other {
        name: "msid-semantic".to_owned(),
        value: Some(" WMS".to_owned()),
    });
    let kinds = parameters.kinds.iter().enumerate();
    let data = parameters.data.as_ref();
    let data = data.map(|data| data_section(parameters.kinds.len(), data, parameters));
    SessionDescription {
        origin: Origin::local(parameters.session_id, 1),
        name: "-".to_owned(),
        lines: vec![('t', "0 0".to_owned())],
        attributes: session,
        media: kinds
            .map(|(index, kind)| section(index, *kind, parameters))
            .chain(data)
            .collect(),
    }
}

/// A payload type that we offer to receive.
struct Offered {
    payload_type: u8,
    rtx: Option<u8>,
    codec: Codec,
    parameters: &'static str,
}

/// H.264 in the profiles that senders are known to match by, all at the level that
/// every decoder has: the level bounds no sender in practice, but a higher one fails
/// against ends that compare the text. Then the others, as Chromium writes them.
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

const AUDIO: [Offered; 3] = [
    sound(
        111,
        Codec::Opus,
        "minptime=10;useinbandfec=1;stereo=1;sprop-stereo=1",
    ),
    sound(0, Codec::Pcmu, ""),
    sound(8, Codec::Pcma, ""),
];

const EXTENSIONS: [(u16, &str); 2] = [(1, MID_URI), (2, TRANSPORT_CC_URI)];

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

const fn sound(payload_type: u8, codec: Codec, parameters: &'static str) -> Offered {
    Offered {
        payload_type,
        rtx: None,
        codec,
        parameters,
    }
}

fn section(index: usize, kind: Kind, parameters: &OfferParameters) -> MediaDescription {
    let offered: &[Offered] = match kind {
        Kind::Video => &VIDEO,
        Kind::Audio => &AUDIO,
        // No browser takes text beside pictures.
        Kind::Text => &[],
    };
    let (port, connection) = default_destination(&parameters.candidates);
    let mut attributes = Attributes::default();
    attributes.push(Attribute::Mid(index.to_string()));
    attributes.push(Attribute::Direction(Direction::RecvOnly));
    attributes.push(Attribute::RtcpMux);
    attributes.push(Attribute::RtcpReducedSize);
    push_transport(
        &mut attributes,
        &parameters.credentials,
        &parameters.fingerprint,
        Setup::ActPass,
    );
    for (id, uri) in EXTENSIONS {
        attributes.push(Attribute::ExtensionMap(ExtensionMap {
            id,
            direction: None,
            uri: uri.to_owned(),
            parameters: String::new(),
        }));
    }
    offered
        .iter()
        .for_each(|format| push_offered(&mut attributes, format));
    if index == 0 {
        push_relayed(&mut attributes, &parameters.relayed);
        push_candidates(&mut attributes, &parameters.candidates);
    }
    MediaDescription {
        kind: kind.as_str().to_owned(),
        port,
        port_count: None,
        protocol: "UDP/TLS/RTP/SAVPF".to_owned(),
        formats: offered
            .iter()
            .flat_map(|format| [Some(format.payload_type), format.rtx])
            .flatten()
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
            old: false,
        },
    )
}

fn push_offered(attributes: &mut Attributes, format: &Offered) {
    let payload_type = format.payload_type;
    attributes.push(Attribute::RtpMap(rtpmap(payload_type, format.codec)));
    if !format.parameters.is_empty() {
        attributes.push(Attribute::FormatParameters(FormatParameters {
            payload_type,
            parameters: format.parameters.to_owned(),
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
