//! What is agreed when a peer's offer is answered.

mod bundle;
mod choice;
mod error;
mod options;
mod publication;

use glassline_media::Codec;

use super::agreed::{AgreedMedia, Feedback, NegotiatedTrack};
use super::answer_line::{AnswerLine, Content, FurtherFormat, MediaLine};
use super::attribute::{Attribute, Direction, Setup};
use super::data::{self, AgreedData};
use super::description::SessionDescription;
use super::extensions::{self, ExtensionUse};
use super::fec;
use super::opus;
use super::simulcast;
use super::transport::RemoteTransport;

use bundle::{bundle, remote_transport, transport_sections};
use choice::{AcceptedLine, accepted_lines, transport_line};
pub use choice::{receives_codec, receives_kind};
pub use error::NegotiationError;
pub use options::AnswerOptions;

/// The agreement of both ends when the peer's offer is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Our tracks that are sent, in the order in which they were passed. Empty only if there is
    /// something to receive, or data.
    pub tracks: Vec<NegotiatedTrack>,
    /// The `m=` lines on which the peer sends; a line may carry one of `tracks` as well.
    pub media: Vec<AgreedMedia>,
    /// Data channels, if both ends want them.
    pub data: Option<AgreedData>,
    /// The peer's parameters of the one transport.
    pub remote: RemoteTransport,
    /// Tags of the bundle in the answer, of which the first carries the transport; empty for a
    /// single `m=` line without bundle.
    pub bundle: Vec<String>,
    /// One answer per `m=` line of the offer, in its order.
    pub(in crate::sdp) lines: Vec<AnswerLine>,
}

/// Matches what this end wants to an offer; [`answer`](super::answer()) then writes the answer.
///
/// An offer may omit audio or video. It is an error, however, if the offer wants video and has no
/// codec in common, or if nothing can be sent and nothing is received. Tracks that no browser plays
/// are omitted. Video with reordered frames is refused if the offer wants it, rather than omitted:
/// audio alone would look like a fault of the viewer. An offer of data channels alone gets data
/// channels alone, whatever there is to send. The first line of a bundle is accepted without media
/// rather than rejected.
/// A publisher's offer is accepted as a whole.
///
/// # Errors
/// [`NegotiationError`] states what the offer lacks.
pub fn negotiate(
    offer: &SessionDescription,
    options: &AnswerOptions<'_>,
) -> Result<Negotiated, NegotiationError> {
    let mut sections = offer.media.iter().enumerate();
    let data = sections
        .find_map(|(line, media)| data::of(line, media))
        .filter(|_| options.data);
    let mut accepted_lines = if options.publication {
        publication::lines(offer, options)?
    } else {
        accepted_lines(offer, options, data.is_some())?
    };
    let lines = accepted_lines.iter().map(|accepted| accepted.line);
    let mut accepted: Vec<usize> = lines.chain(data.as_ref().map(|data| data.line)).collect();
    if let Some(first) = transport_line(offer, &accepted) {
        accepted.push(first.line);
        accepted_lines.push(first);
    }
    accepted.sort_unstable();
    let bundle = bundle(offer, &accepted)?;
    let sections = transport_sections(offer, &accepted, &bundle);
    let remote = remote_transport(offer, &accepted, &sections)?;
    let mut negotiated = Negotiated {
        tracks: Vec::new(),
        media: Vec::new(),
        data,
        remote,
        bundle,
        lines: offer.media.iter().map(AnswerLine::rejected).collect(),
    };
    let mut known = Vec::new();
    for accepted in accepted_lines {
        negotiated.accept(offer, options, accepted, &mut known);
    }
    if let Some(data) = &negotiated.data {
        negotiated.lines[data.line].content = Some(Content::Data);
    }
    Ok(negotiated)
}

impl Negotiated {
    /// Returns whether this end is the DTLS client, because the offer insists on the other role.
    pub fn is_dtls_client(&self) -> bool {
        self.remote.setup == Some(Setup::Passive)
    }

    /// Returns the DTLS role that the answer states.
    pub(in crate::sdp) fn setup(&self) -> Setup {
        if self.is_dtls_client() {
            Setup::Active
        } else {
            Setup::Passive
        }
    }

    /// Accepts an `m=` line of video or audio.
    fn accept(
        &mut self,
        offer: &SessionDescription,
        options: &AnswerOptions<'_>,
        accepted: AcceptedLine,
        known: &mut Vec<(u16, String)>,
    ) {
        let media = &offer.media[accepted.line];
        let mut format = accepted.format;
        let wants = options.opus.redundancy;
        let red = opus::redundancy_of(media, format.payload_type)
            .filter(|_| format.codec == Codec::Opus)
            .filter(|red| wants.accepts(media, *red, format.payload_type));
        if accepted.receives && format.codec == Codec::Opus {
            let channels = accepted.track.map(|track| options.tracks[track].channels);
            format.fmtp = Some(opus::wanted(options.opus, channels));
        }
        let more = accepted.more.into_iter().map(|further| {
            let is_opus = further.codec == Codec::Opus;
            let attributes = &media.attributes;
            let has = |kind| attributes.has_feedback(further.payload_type, kind);
            FurtherFormat {
                codec: further.codec,
                payload_type: further.payload_type,
                rtx_payload_type: further.rtx_payload_type.filter(|_| has("nack")),
                fmtp: if is_opus {
                    Some(opus::wanted(options.opus, None))
                } else {
                    further.fmtp
                },
                feedback: Feedback {
                    nack: has("nack"),
                    pli: has("nack pli"),
                    fir: has("ccm fir"),
                    transport_cc: has("transport-cc"),
                },
            }
        });
        let more: Vec<FurtherFormat> = more.collect();
        let has = |kind| media.attributes.has_feedback(format.payload_type, kind);
        let nack = has("nack");
        let rtx_payload_type = format.rtx_payload_type.filter(|_| nack);
        let repeats = nack && rtx_payload_type.is_none();
        let purpose = if options.publication {
            ExtensionUse::Publication
        } else {
            ExtensionUse::Sending { repeats }
        };
        let (extensions, extension_maps) = extensions::accepted(offer, media, purpose, known);
        let line = MediaLine {
            direction: match (accepted.track, accepted.receives) {
                (Some(_), true) => Direction::SendRecv,
                (Some(_), false) => Direction::SendOnly,
                (None, true) => Direction::RecvOnly,
                (None, false) => Direction::Inactive,
            },
            track: accepted.track.map(|_| self.tracks.len()),
            codec: format.codec,
            payload_type: format.payload_type,
            rtx_payload_type,
            red_payload_type: red,
            prefers_red: red.is_some_and(|it| wants.prefers(media, it, format.payload_type)),
            fec_payload_type: fec::payload_type_of(media).filter(|_| accepted.track.is_some()),
            fmtp: format.fmtp,
            feedback: Feedback {
                nack,
                pli: has("nack pli"),
                fir: has("ccm fir"),
                transport_cc: has("transport-cc") && extensions.transport_cc.is_some(),
            },
            reduced_size_rtcp: media.attributes.has(&Attribute::RtcpReducedSize),
            extension_maps,
            more,
            rids: if options.publication {
                simulcast::rids(media)
            } else {
                Vec::new()
            },
        };
        if let Some(track) = accepted.track {
            let sent = line.track(offer, accepted.line, track, extensions);
            self.tracks.push(sent);
        }
        if accepted.receives {
            self.media
                .push(line.reception(offer, accepted.line, extensions));
        }
        self.lines[accepted.line].content = Some(Content::Media(line));
    }
}
