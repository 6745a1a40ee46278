//! A publisher's offer: every `m=` line is received, or the offer is refused.

use glassline_media::Kind;

use super::choice::AcceptedLine;
use super::error::{NegotiationError, list};
use super::options::AnswerOptions;
use crate::sdp::data;
use crate::sdp::description::SessionDescription;
use crate::sdp::format;
use crate::sdp::simulcast::{RIDS_MAX, has_too_many};

/// The codecs that publishers may send, for error texts.
const RECEIVED: &str = "H.264, H.265, VP8, VP9, AV1, Opus and G.711";

/// Returns the lines of video and audio. Lines that the offer itself rejects stay rejected.
pub(super) fn lines(
    offer: &SessionDescription,
    options: &AnswerOptions<'_>,
) -> Result<Vec<AcceptedLine>, NegotiationError> {
    let mut accepted = Vec::new();
    let mut kinds = Vec::new();
    let mut has_data = false;
    for (line, media) in offer.media.iter().enumerate() {
        if media.is_rejected() {
            continue;
        }
        let unsupported = |why: String| NegotiationError::Unsupported {
            media: offer.media_name(line),
            why,
        };
        if data::of(line, media).is_some() {
            if !options.data || std::mem::replace(&mut has_data, true) {
                let why = "data channels are off here, or offered twice; offer none";
                return Err(unsupported(why.to_owned()));
            }
            continue;
        }
        let Some(kind) = media.media_kind() else {
            let why = "neither video, audio nor data channels; offer those alone";
            return Err(unsupported(why.to_owned()));
        };
        if !media.is_secure_rtp() {
            return Err(NegotiationError::NoSecureTransport {
                media: offer.media_name(line),
                protocol: media.protocol.clone(),
            });
        }
        let direction = offer.direction(line);
        if !direction.sends() {
            let why = format!(
                "{}, but a publisher sends; offer sendonly",
                direction.as_str()
            );
            return Err(unsupported(why));
        }
        if kinds.contains(&kind) {
            let why = format!("a second {kind} track; a stream has one of each kind");
            return Err(unsupported(why));
        }
        if has_too_many(media) {
            let why = format!("more than {RIDS_MAX} simulcast layers");
            return Err(unsupported(why));
        }
        kinds.push(kind);
        let mut formats = format::publishable(media).into_iter();
        let format = formats.next().ok_or_else(|| {
            let offered = list(&format::offered([media].into_iter(), kind));
            unsupported(format!(
                "no codec in common: offered {offered}, received {RECEIVED}"
            ))
        })?;
        accepted.push(AcceptedLine {
            line,
            track: None,
            receives: true,
            format,
            more: formats.collect(),
        });
    }
    if accepted.is_empty() && !has_data {
        let kinds = [Kind::Video, Kind::Audio].map(Kind::as_str);
        return Err(NegotiationError::NothingSent {
            wanted: kinds.join(" or "),
            offered: super::choice::offered_lines(offer),
        });
    }
    Ok(accepted)
}
