use crate::TransportAddress;

use glassline_media::{Codec, Kind, Ssrc};

use super::agreed::Feedback;
use super::answer_line::{AnswerLine, Content, FurtherFormat, MediaLine};
use super::attribute::{
    Attribute, Direction, FormatParameters, Group, Msid, RtcpFeedback, RtpMap, SsrcAttribute,
    SsrcGroup,
};
use super::attributes::Attributes;
use super::credentials::IceCredentials;
use super::data::{self, DataParameters};
use super::description::{MediaDescription, Origin, SessionDescription};
use super::extensions::DEPENDENCY_DESCRIPTOR_URI;
use super::fec;
use super::fingerprint::Fingerprint;
use super::negotiate::Negotiated;
use super::opus;
use super::simulcast;
use super::transport::{default_destination, push_candidates, push_transport};

/// The statements of this end in an answer.
#[derive(Clone, Debug)]
pub struct LocalDescription {
    /// ICE credentials of this end.
    pub credentials: IceCredentials,
    /// Fingerprint of our certificate.
    pub fingerprint: Fingerprint,
    /// All addresses at which this end is reached, most preferred first.
    pub candidates: Vec<TransportAddress>,
    /// Session identifier, below 2⁶³ (RFC 8829 §5.2.1).
    pub session_id: u64,
    /// Session version, which rises with each description of the session.
    pub session_version: u64,
    /// RTP sources of [`Negotiated::tracks`], in that order.
    pub senders: Vec<SenderSsrc>,
    /// RTCP canonical name, the same for all sources (RFC 8834 §4.9).
    pub cname: String,
    /// Parameters of our data channels, used if they are agreed on.
    pub data: DataParameters,
    /// MediaStream identifier that groups our tracks, so that the peer plays them in sync.
    pub stream_id: String,
}

/// RTP sources of one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderSsrc {
    /// SSRC of the media.
    pub ssrc: Ssrc,
    /// SSRC of the retransmissions, used if RTX is agreed on.
    pub rtx: Option<Ssrc>,
    /// SSRC of the FEC packets, used if FlexFEC is agreed on.
    pub fec: Option<Ssrc>,
}

/// Writes the answer: ICE-lite, DTLS server unless the offer insists on that role itself.
///
/// Characters of `cname` and `stream_id` that SDP does not allow become `-`.
pub fn answer(negotiated: &Negotiated, local: &LocalDescription) -> String {
    let mut session = Attributes::default();
    if !negotiated.bundle.is_empty() {
        session.push(Attribute::Group(Group {
            semantics: "BUNDLE".to_owned(),
            mids: negotiated.bundle.clone(),
        }));
    }
    session.push(Attribute::Other {
        name: "msid-semantic".to_owned(),
        value: Some(" WMS *".to_owned()),
    });
    session.push(Attribute::IceLite);
    let lines = negotiated.lines.iter();
    SessionDescription {
        origin: Origin::local(local.session_id, local.session_version),
        name: "-".to_owned(),
        lines: vec![('t', "0 0".to_owned())],
        attributes: session,
        media: lines
            .map(|line| match &line.content {
                Some(Content::Media(media)) => accepted(negotiated, media, line, local),
                Some(Content::Data) => accepted_data(negotiated, line, local),
                None => rejected(line),
            })
            .collect(),
    }
    .to_string()
}

/// Returns the section of an `m=` line that is not wanted, which keeps its place with port 0
/// (RFC 3264 §6).
fn rejected(line: &AnswerLine) -> MediaDescription {
    let mut attributes = Attributes::default();
    attributes.0.extend(line.mid.clone().map(Attribute::Mid));
    attributes.push(Attribute::Direction(Direction::Inactive));
    MediaDescription {
        kind: line.kind.clone(),
        port: 0,
        port_count: None,
        protocol: line.protocol.clone(),
        formats: vec![line.format.clone()],
        lines: vec![('c', "IN IP4 0.0.0.0".to_owned())],
        attributes,
    }
}

fn accepted(
    negotiated: &Negotiated,
    media: &MediaLine,
    line: &AnswerLine,
    local: &LocalDescription,
) -> MediaDescription {
    let (port, connection) = default_destination(&local.candidates);
    let mut attributes = Attributes::default();
    attributes.0.extend(line.mid.clone().map(Attribute::Mid));
    attributes.push(Attribute::Direction(media.direction));
    attributes.push(Attribute::RtcpMux);
    if media.reduced_size_rtcp {
        attributes.push(Attribute::RtcpReducedSize);
    }
    push_transport(
        &mut attributes,
        &local.credentials,
        &local.fingerprint,
        negotiated.setup(),
    );
    if negotiated.remote.trickle {
        attributes.push(Attribute::IceOptions(vec!["trickle".to_owned()]));
    }
    let mut maps = media.extension_maps.iter();
    if maps.any(|it| it.uri == DEPENDENCY_DESCRIPTOR_URI) {
        attributes.push(Attribute::ExtensionMapMixed);
    }
    let maps = media.extension_maps.iter().cloned();
    attributes.0.extend(maps.map(Attribute::ExtensionMap));
    push_format(&mut attributes, media);
    simulcast::push(&mut attributes, &media.rids);
    if let Some(index) = media.track {
        let sent = SentTrack {
            kind: media.codec.kind(),
            track: negotiated.tracks[index].track.get(),
            sender: local.senders.get(index).map(|it| SenderSsrc {
                rtx: it.rtx.filter(|_| media.rtx_payload_type.is_some()),
                fec: it.fec.filter(|_| media.fec_payload_type.is_some()),
                ..*it
            }),
            stream_id: &local.stream_id,
            cname: &local.cname,
        };
        sent.push(&mut attributes);
    }
    let first = negotiated.bundle.first();
    let carries_transport = first.is_none_or(|tag| Some(tag) == line.mid.as_ref());
    if carries_transport {
        push_candidates(&mut attributes, &local.candidates);
    }
    // The first format is the most preferred one.
    let mut first = [Some(media.payload_type), media.red_payload_type];
    if media.prefers_red {
        first.reverse();
    }
    let more = media.more.iter();
    let more = more.flat_map(|it| [Some(it.payload_type), it.rtx_payload_type]);
    let formats = first.into_iter().chain([media.rtx_payload_type]);
    let formats = formats.chain(more).chain([media.fec_payload_type]);
    let formats = formats.flatten();
    MediaDescription {
        kind: line.kind.clone(),
        port,
        port_count: None,
        protocol: line.protocol.clone(),
        formats: formats.map(|it| it.to_string()).collect(),
        lines: vec![('c', connection)],
        attributes,
    }
}

fn accepted_data(
    negotiated: &Negotiated,
    line: &AnswerLine,
    local: &LocalDescription,
) -> MediaDescription {
    let first = negotiated.bundle.first();
    data::section(
        &local.data,
        data::Section {
            mid: line.mid.clone(),
            credentials: &local.credentials,
            fingerprint: &local.fingerprint,
            setup: negotiated.setup(),
            trickle: negotiated.remote.trickle,
            candidates: &local.candidates,
            carries_transport: first.is_none_or(|tag| Some(tag) == line.mid.as_ref()),
            legacy: negotiated.data.as_ref().is_some_and(|data| data.legacy),
        },
    )
}

fn push_format(attributes: &mut Attributes, media: &MediaLine) {
    if let Some(red) = media.red_payload_type {
        push_redundancy(attributes, red, media.payload_type);
    }
    let first = FurtherFormat {
        codec: media.codec,
        payload_type: media.payload_type,
        rtx_payload_type: media.rtx_payload_type,
        fmtp: media.fmtp.clone(),
        feedback: media.feedback,
    };
    for format in [&first].into_iter().chain(&media.more) {
        let payload_type = format.payload_type;
        attributes.push(Attribute::RtpMap(rtpmap(payload_type, format.codec)));
        if let Some(parameters) = &format.fmtp {
            attributes.push(Attribute::FormatParameters(FormatParameters {
                payload_type,
                parameters: parameters.clone(),
            }));
        }
        push_feedback(attributes, payload_type, format.feedback);
        if let Some(rtx) = format.rtx_payload_type {
            push_rtx(attributes, rtx, payload_type, format.codec);
        }
    }
    if let Some(payload_type) = media.fec_payload_type {
        fec::push(attributes, payload_type);
    }
}

pub(super) fn push_redundancy(attributes: &mut Attributes, red: u8, payload_type: u8) {
    attributes.push(Attribute::RtpMap(RtpMap {
        payload_type: red,
        encoding: opus::RED.to_owned(),
        clock_rate: Codec::Opus.clock_rate(),
        channels: Some(2),
    }));
    attributes.push(Attribute::FormatParameters(FormatParameters {
        payload_type: red,
        parameters: opus::redundancy_parameters(payload_type),
    }));
}

pub(super) fn rtpmap(payload_type: u8, codec: Codec) -> RtpMap {
    RtpMap {
        payload_type,
        encoding: codec.encoding_name().to_owned(),
        clock_rate: codec.clock_rate(),
        channels: (codec == Codec::Opus).then_some(2),
    }
}

pub(super) fn push_rtx(attributes: &mut Attributes, rtx: u8, original: u8, codec: Codec) {
    attributes.push(Attribute::RtpMap(RtpMap {
        payload_type: rtx,
        encoding: "rtx".to_owned(),
        clock_rate: codec.clock_rate(),
        channels: None,
    }));
    attributes.push(Attribute::FormatParameters(FormatParameters {
        payload_type: rtx,
        parameters: format!("apt={original}"),
    }));
}

pub(super) fn push_feedback(attributes: &mut Attributes, payload_type: u8, feedback: Feedback) {
    let kinds = [
        (feedback.transport_cc, "transport-cc"),
        (feedback.fir, "ccm fir"),
        (feedback.nack, "nack"),
        (feedback.pli, "nack pli"),
    ];
    for (_, kind) in kinds.into_iter().filter(|(agreed, _)| *agreed) {
        attributes.push(Attribute::RtcpFeedback(RtcpFeedback {
            payload_type: Some(payload_type),
            kind: kind.to_owned(),
        }));
    }
}

/// The statements of an `m=` line about a track that is sent on it.
pub(super) struct SentTrack<'a> {
    pub(super) kind: Kind,
    /// Index of the track.
    pub(super) track: usize,
    pub(super) sender: Option<SenderSsrc>,
    pub(super) stream_id: &'a str,
    pub(super) cname: &'a str,
}

impl SentTrack<'_> {
    pub(super) fn push(&self, attributes: &mut Attributes) {
        attributes.push(Attribute::Msid(Msid {
            stream: token(self.stream_id),
            track: Some(format!("{}{}", self.kind, self.track)),
        }));
        let Some(SenderSsrc { ssrc, rtx, fec }) = self.sender else {
            return;
        };
        if let Some(rtx) = rtx {
            attributes.push(Attribute::SsrcGroup(SsrcGroup {
                semantics: "FID".to_owned(),
                ssrcs: vec![ssrc, rtx],
            }));
        }
        if let Some(fec) = fec {
            attributes.push(fec::group(ssrc, fec));
        }
        for ssrc in [Some(ssrc), rtx, fec].into_iter().flatten() {
            attributes.push(Attribute::Ssrc(SsrcAttribute {
                ssrc,
                name: "cname".to_owned(),
                value: Some(token(self.cname)),
            }));
        }
    }
}

/// Returns a name that can neither end its line nor become two words: 1 to 64 characters of RFC
/// 8830's `msid`.
fn token(name: &str) -> String {
    let plain = |it: char| it.is_ascii_alphanumeric() || "!#$%&'*+-.^_`{|}~".contains(it);
    let kept: String = name
        .chars()
        .take(64)
        .map(|it| if plain(it) { it } else { '-' })
        .collect();
    if kept.is_empty() {
        "-".to_owned()
    } else {
        kept
    }
}
