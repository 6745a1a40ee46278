use glassline_media::{Ssrc, TrackIndex};

use super::agreed::{AgreedCodec, AgreedFec, AgreedMedia, Feedback, NegotiatedTrack};
use super::attribute::{Attribute, Setup};
use super::attributes::Attributes;
use super::data::{self, AgreedData};
use super::description::{MediaDescription, SessionDescription};
use super::error::Error;
use super::extensions::{
    ABS_SEND_TIME_URI, ExtensionIds, MID_URI, REPAIRED_RID_URI, RID_URI, TRANSPORT_CC_URI,
};
use super::fec;
use super::format;
use super::opus;
use super::simulcast;
use super::transport::{MissingAttribute, RemoteTransport};

/// The agreement of an answer to our offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The `m=` lines on which the peer sends. Empty only if it accepts what we send, or there
    /// is data.
    pub media: Vec<AgreedMedia>,
    /// The tracks that we send, of the `m=` lines on which the offer sends; such a line may
    /// also be one of `media`.
    pub tracks: Vec<NegotiatedTrack>,
    /// Data channels, if they were offered and accepted.
    pub data: Option<AgreedData>,
    /// The peer's parameters of the one transport.
    pub remote: RemoteTransport,
    /// Whether this end is the DTLS client.
    pub dtls_client: bool,
}

/// The reason why an answer cannot be used. The peer is at fault; the session cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The answer is not valid SDP.
    #[error(transparent)]
    Malformed(#[from] Error),
    /// The answer has another number of `m=` lines than the offer (RFC 3264 §6).
    #[error("the answer has {answered} m= lines, the offer has {offered}")]
    LineCount {
        /// Number of lines in our offer.
        offered: usize,
        /// Number of lines in the answer.
        answered: usize,
    },
    /// The `m=` lines are in another order than in the offer (RFC 3264 §6).
    #[error("{media}: the offer has m={offered} at this position")]
    LineKind {
        /// Name of the `m=` line in the answer.
        media: String,
        /// Media type of the line in our offer.
        offered: String,
    },
    /// The peer neither sends what we can receive nor accepts what we send.
    #[error("the answer accepts nothing of the offer: {}", .answered.join(", "))]
    NothingAgreed {
        /// Names of the `m=` lines in the answer, and why each cannot be used.
        answered: Vec<String>,
    },
    /// The media do not share one transport.
    #[error("{media}: not in one a=group:BUNDLE with the others")]
    NoBundle {
        /// Name of the first `m=` line outside of the bundle.
        media: String,
    },
    /// RTCP is on a port of its own.
    #[error("{media}: no a=rtcp-mux")]
    NoRtcpMux {
        /// Name of the `m=` line.
        media: String,
    },
    /// There is no fingerprint to check the DTLS certificate against.
    #[error("no a=fingerprint by SHA-256, SHA-384 or SHA-512")]
    NoFingerprint,
    /// There are no ICE credentials.
    #[error("no a=ice-ufrag and a=ice-pwd")]
    NoIce,
    /// The peer does not connect now.
    #[error("a=setup:holdconn: the peer does not connect")]
    HeldBack,
}

impl Agreed {
    /// Returns the codec of a payload type, and the `m=` line to which it belongs.
    pub fn codec(&self, payload_type: u8) -> Option<(&AgreedMedia, &AgreedCodec)> {
        self.find(|codec| codec.payload_type == payload_type)
    }

    /// Returns the codec whose retransmissions have this payload type.
    pub fn retransmitted(&self, payload_type: u8) -> Option<(&AgreedMedia, &AgreedCodec)> {
        self.find(|codec| codec.rtx_payload_type == Some(payload_type))
    }

    fn find(&self, wanted: impl Fn(&AgreedCodec) -> bool) -> Option<(&AgreedMedia, &AgreedCodec)> {
        self.media.iter().find_map(|media| {
            let codec = media.codecs.iter().find(|codec| wanted(codec))?;
            Some((media, codec))
        })
    }
}

/// Applies the answer to `offer`.
///
/// Tolerates what servers are known to write: attributes in the session section, a missing
/// `mid`, `setup` or `rtpmap`, and a bundle that is only recognized by equal ICE credentials.
pub fn apply_answer(offer: &SessionDescription, answer: &str) -> Result<Agreed, AnswerError> {
    let answer = SessionDescription::parse(answer)?;
    check_lines(offer, &answer)?;
    let mut media = Vec::new();
    let mut tracks = Vec::new();
    let mut data = None;
    let mut unused = Vec::new();
    let mut sending = 0;
    for (line, (offered, answered)) in offer.media.iter().zip(&answer.media).enumerate() {
        if let Some(ours) = data::of(line, offered) {
            let agreed = data::of(line, answered).map(|theirs| AgreedData {
                mid: answered.attributes.mid().map_or(ours.mid, str::to_owned),
                ..theirs
            });
            if agreed.is_none() {
                unused.push(format!("{}: no data channels", answer.media_name(line)));
            }
            data = data.or(agreed);
            continue;
        }
        let mut is_taken = false;
        if offer.direction(line).sends() {
            let track = agreed_track(line, &answer, offered, answered);
            is_taken = track.is_some();
            tracks.extend(track.map(|track| NegotiatedTrack {
                track: TrackIndex(sending),
                ..track
            }));
            sending += 1;
        }
        match agreed_media(line, &answer, offered, answered) {
            Ok(agreed) if offer.direction(line).receives() => media.push(agreed),
            _ if is_taken => {}
            Ok(_) => unused.push(format!("{}: sent only", answer.media_name(line))),
            Err(why) => unused.push(format!("{}: {why}", answer.media_name(line))),
        }
    }
    let lines = media.iter().map(|it| it.line);
    let sent = tracks.iter().map(|it| it.line);
    let lines = lines.chain(sent).chain(data.as_ref().map(|it| it.line));
    let mut lines: Vec<usize> = lines.collect();
    lines.sort_unstable();
    lines.dedup();
    if lines.is_empty() {
        return Err(AnswerError::NothingAgreed { answered: unused });
    }
    check_bundle(&answer, &lines)?;
    let remote = RemoteTransport::read(&transport_sections(&answer, &lines)).map_err(
        |missing| match missing {
            MissingAttribute::Credentials => AnswerError::NoIce,
            MissingAttribute::Fingerprint => AnswerError::NoFingerprint,
        },
    )?;
    let dtls_client = match remote.setup {
        Some(Setup::Active) => false,
        // An answer without the attribute means passive (RFC 4145 §4); actpass is not allowed
        // in answers and leaves the choice to us.
        Some(Setup::Passive | Setup::ActPass) | None => true,
        Some(Setup::HoldConn) => return Err(AnswerError::HeldBack),
    };
    Ok(Agreed {
        media,
        tracks,
        data,
        remote,
        dtls_client,
    })
}

fn check_lines(offer: &SessionDescription, answer: &SessionDescription) -> Result<(), AnswerError> {
    if answer.media.len() != offer.media.len() {
        return Err(AnswerError::LineCount {
            offered: offer.media.len(),
            answered: answer.media.len(),
        });
    }
    let mut pairs = offer.media.iter().zip(&answer.media).enumerate();
    match pairs.find(|(_, (ours, theirs))| ours.kind != theirs.kind) {
        Some((line, (ours, _))) => Err(AnswerError::LineKind {
            media: answer.media_name(line),
            offered: ours.kind.clone(),
        }),
        None => Ok(()),
    }
}

fn agreed_media(
    line: usize,
    answer: &SessionDescription,
    offered: &MediaDescription,
    answered: &MediaDescription,
) -> Result<AgreedMedia, &'static str> {
    let kind = answered.media_kind().ok_or("neither video nor audio")?;
    if answered.is_rejected() {
        return Err("port 0");
    }
    if !answer.direction(line).sends() {
        return Err(answer.direction(line).as_str());
    }
    let codecs = agreed_codecs(offered, answered);
    if codecs.is_empty() {
        return Err("no codec of the offer");
    }
    let mid = answered.attributes.mid().or(offered.attributes.mid());
    let (ssrc, rtx_ssrc) = answered.attributes.sources();
    Ok(AgreedMedia {
        line,
        mid: mid.unwrap_or_default().to_owned(),
        kind,
        codecs,
        ssrc,
        rtx_ssrc,
        fec: agreed_fec(offered, answered, ssrc),
        msid: answered.attributes.msid().cloned(),
        extensions: agreed_extensions(answer, answered),
        reduced_size_rtcp: answered.attributes.has(&Attribute::RtcpReducedSize),
        rids: Vec::new(),
    })
}

/// Returns the FEC packets of an answer to an offer of them.
fn agreed_fec(
    offered: &MediaDescription,
    answered: &MediaDescription,
    media: Option<Ssrc>,
) -> Option<AgreedFec> {
    let payload_type = fec::payload_type_of(offered)?;
    let protected = media.filter(|_| fec::payload_type_of(answered) == Some(payload_type))?;
    Some(AgreedFec {
        payload_type,
        ssrc: fec::source_of(&answered.attributes, protected)?,
        protected,
    })
}

fn agreed_extensions(answer: &SessionDescription, answered: &MediaDescription) -> ExtensionIds {
    let extension = |uri| {
        let here = answered.attributes.extension_maps();
        here.chain(answer.attributes.extension_maps())
            .find(|map| map.uri == uri)
            .and_then(|map| u8::try_from(map.id).ok())
    };
    ExtensionIds {
        mid: extension(MID_URI),
        transport_cc: extension(TRANSPORT_CC_URI),
        abs_send_time: extension(ABS_SEND_TIME_URI),
        rid: extension(RID_URI),
        repaired_rid: extension(REPAIRED_RID_URI),
        ..ExtensionIds::default()
    }
}

/// Returns the track that we send on a line, in the codec that the peer lists first (RFC 3264
/// §6.1).
fn agreed_track(
    line: usize,
    answer: &SessionDescription,
    offered: &MediaDescription,
    answered: &MediaDescription,
) -> Option<NegotiatedTrack> {
    if answered.is_rejected() || !answer.direction(line).receives() {
        return None;
    }
    let AgreedCodec {
        payload_type,
        codec,
        parameters,
        rtx_payload_type,
        red_payload_type,
        mut feedback,
    } = agreed_codecs(offered, answered).into_iter().next()?;
    let mid = answered.attributes.mid().or(offered.attributes.mid());
    let rtx_payload_type = rtx_payload_type.filter(|_| feedback.nack);
    let mut extensions = agreed_extensions(answer, answered);
    if feedback.nack && rtx_payload_type.is_none() {
        // See `ExtensionIds`: retransmissions must repeat the same bytes.
        extensions.abs_send_time = None;
    }
    feedback.transport_cc &= extensions.transport_cc.is_some();
    // Without RIDs in its packets a layer cannot be told from another.
    let rids = match extensions.rid {
        Some(_) => simulcast::agreed(offered, answered),
        None => Vec::new(),
    };
    Some(NegotiatedTrack {
        track: TrackIndex(0),
        line,
        mid: mid.unwrap_or_default().to_owned(),
        codec,
        payload_type,
        parameters,
        rtx_payload_type,
        red_payload_type,
        prefers_red: red_payload_type.is_some(),
        // What we publish is repaired on request.
        fec_payload_type: None,
        extensions,
        feedback,
        reduced_size_rtcp: answered.attributes.has(&Attribute::RtcpReducedSize),
        rids,
    })
}

/// Returns the codecs of the answer in its order. A payload type without `rtpmap` has the codec
/// of our offer.
fn agreed_codecs(offered: &MediaDescription, answered: &MediaDescription) -> Vec<AgreedCodec> {
    let mut codecs: Vec<AgreedCodec> = Vec::new();
    for payload_type in format::payload_types(answered) {
        let codec = match answered.attributes.rtpmap(payload_type) {
            Some(_) => format::codec_of(answered, payload_type),
            None => format::codec_of(offered, payload_type),
        };
        let new = codecs.iter().all(|it| it.payload_type != payload_type);
        let Some(codec) = codec.filter(|_| new) else {
            continue;
        };
        let has = |kind| answered.attributes.has_feedback(payload_type, kind);
        // Redundancy must be in our offer: a peer cannot add it.
        let red = opus::redundancy_of(answered, payload_type);
        codecs.push(AgreedCodec {
            payload_type,
            codec,
            parameters: answered.attributes.parameters(payload_type),
            rtx_payload_type: format::rtx_of(answered, payload_type),
            red_payload_type: red.filter(|_| opus::redundancy_of(offered, payload_type) == red),
            feedback: Feedback {
                nack: has("nack"),
                pli: has("nack pli"),
                fir: has("ccm fir"),
                transport_cc: has("transport-cc"),
            },
        });
    }
    codecs
}

fn check_bundle(answer: &SessionDescription, lines: &[usize]) -> Result<(), AnswerError> {
    let section = |line: usize| answer.media.get(line).map(|media| &media.attributes);
    let Some((&first, others)) = lines.split_first() else {
        return Ok(());
    };
    let first_section = section(first);
    let bundle = first_section
        .and_then(Attributes::mid)
        .and_then(|mid| answer.bundle_of(mid));
    let credentials = first_section.and_then(Attributes::credentials);
    for &line in others {
        let mid = section(line).and_then(Attributes::mid);
        let bundled = bundle.is_some_and(|bundle| bundle.iter().any(|it| Some(&**it) == mid));
        if !bundled && section(line).and_then(Attributes::credentials) != credentials {
            return Err(AnswerError::NoBundle {
                media: answer.media_name(line),
            });
        }
    }
    let muxed = lines
        .iter()
        .filter_map(|&line| section(line))
        .any(|section| section.has(&Attribute::RtcpMux));
    let is_rtp = |line: &usize| {
        answer
            .media
            .get(*line)
            .is_some_and(MediaDescription::is_rtp)
    };
    if muxed || !lines.iter().any(is_rtp) {
        Ok(())
    } else {
        Err(AnswerError::NoRtcpMux {
            media: answer.media_name(first),
        })
    }
}

/// Returns the sections that describe the transport: that of the bundle's tag, the other agreed
/// ones, the session.
fn transport_sections<'a>(answer: &'a SessionDescription, lines: &[usize]) -> Vec<&'a Attributes> {
    let agreed = lines.iter().filter_map(|&line| answer.media.get(line));
    let mut sections: Vec<&Attributes> = Vec::new();
    let tag = answer
        .attributes
        .groups("BUNDLE")
        .find_map(|group| answer.by_mid(group.mids.first()?));
    for media in tag.into_iter().chain(agreed) {
        if !sections
            .iter()
            .any(|it| std::ptr::eq(*it, &raw const media.attributes))
        {
            sections.push(&media.attributes);
        }
    }
    sections.push(&answer.attributes);
    sections
}
