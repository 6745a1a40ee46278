//! Makes talkers out of offers to send a voice to a camera.

use std::sync::Arc;

use glassline_hub::Stream;
use glassline_media::Codec;
use glassline_webrtc::sdp::NegotiationError;
use glassline_webrtc::{Kinds, Session};
use tokio::sync::mpsc;

use super::negotiator::{AnsweredOffer, Negotiator};
use super::offer::{Offer, OfferError};
use super::peer::{Role, Talker};
use crate::talk::{Loudspeakers, VoicePacket};

impl Negotiator {
    /// Returns the cameras that somebody may talk to.
    pub(crate) fn loudspeakers(&self) -> &Arc<Loudspeakers> {
        &self.loudspeakers
    }

    /// Makes a talker at `stream`, whose camera takes `codec`. Its packets go to `voice`.
    ///
    /// # Errors
    /// Returns the [`OfferError`] to answer with.
    pub(crate) fn talk(
        &self,
        stream: Arc<Stream>,
        codec: Codec,
        offer: Offer<'_>,
        voice: mpsc::Sender<VoicePacket>,
    ) -> Result<AnsweredOffer, OfferError> {
        let sdp = with_codec_alone(offer.sdp, codec).ok_or_else(|| unsupported(codec))?;
        let offer = Offer { sdp: &sdp, ..offer };
        let accepted = self.accept(offer, &[], Kinds::AUDIO, None)?;
        let receiver = accepted.session.receivers().first();
        if receiver.is_none_or(|it| it.codec() != codec) {
            return Err(unsupported(codec));
        }
        let role = |_: &Session, _: &Stream| Role::Talker(Talker::new(codec, voice));
        Ok(self.keep(accepted, self.draw_session_id(), stream, role, None))
    }
}

fn unsupported(codec: Codec) -> OfferError {
    let (name, number) = (codec.encoding_name(), static_payload_type(codec));
    let refused = NegotiationError::Unsupported {
        media: "audio".to_owned(),
        why: format!(
            "the camera takes {name}; offer {name}/8000 as payload type {number}, sendonly"
        ),
    };
    OfferError::Refused(refused.into())
}

/// Returns the payload type of G.711 (RFC 3551 §6), which browsers use as it is.
const fn static_payload_type(codec: Codec) -> u8 {
    match codec {
        Codec::Pcma => 8,
        _ => 0,
    }
}

/// Returns the offer with `codec` alone in its line of audio, since a camera understands nothing else;
/// `None` if the offer does not have the codec.
fn with_codec_alone(offer: &str, codec: Codec) -> Option<String> {
    let wanted = static_payload_type(codec).to_string();
    let mut kept = String::with_capacity(offer.len());
    let (mut is_audio, mut is_found) = (false, false);
    for line in offer.lines() {
        if let Some(media) = line.strip_prefix("m=") {
            is_audio = media.starts_with("audio ");
            if is_audio {
                let mut words = media.split_whitespace();
                let head: Vec<_> = words.by_ref().take(3).collect();
                is_found |= words.any(|it| it == wanted);
                kept += &format!("m={} {wanted}\r\n", head.join(" "));
                continue;
            }
        }
        let is_of_another = is_audio && payload_type_of(line).is_some_and(|it| it != wanted);
        if !is_of_another {
            kept += line;
            kept += "\r\n";
        }
    }
    is_found.then_some(kept)
}

/// Returns the payload type that an attribute is about.
fn payload_type_of(line: &str) -> Option<&str> {
    let attributes = ["a=rtpmap:", "a=fmtp:", "a=rtcp-fb:"];
    let mut rest = attributes.iter().filter_map(|it| line.strip_prefix(it));
    let number = rest.next()?.split_whitespace().next()?;
    (number != "*").then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFER: &str = "v=0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111 63 0 8 110\r\na=mid:0\r\n\
        a=rtpmap:111 opus/48000/2\r\na=rtcp-fb:111 transport-cc\r\na=fmtp:111 minptime=10\r\n\
        a=rtpmap:63 red/48000/2\r\na=rtpmap:0 PCMU/8000\r\na=rtcp-fb:* nack\r\na=rtpmap:8 PCMA/8000\r\n\
        m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\na=rtpmap:111 x\r\n";

    #[test]
    fn one_codec_is_left_of_an_offer() {
        let kept = with_codec_alone(OFFER, Codec::Pcma).expect("offered");
        let expected = "v=0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 8\r\na=mid:0\r\na=rtcp-fb:* nack\r\n\
            a=rtpmap:8 PCMA/8000\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\na=rtpmap:111 x\r\n";
        assert_eq!(kept, expected);
        let kept = with_codec_alone(OFFER, Codec::Pcmu).expect("offered");
        assert!(
            kept.contains("SAVPF 0\r\n") && kept.contains("a=rtpmap:0 PCMU"),
            "{kept}"
        );
        assert!(!kept.contains("opus") && !kept.contains("PCMA"), "{kept}");
        assert_eq!(
            with_codec_alone("m=audio 9 UDP/TLS/RTP/SAVPF 111\r\n", Codec::Pcma),
            None
        );
        assert_eq!(
            with_codec_alone("m=video 9 UDP/TLS/RTP/SAVPF 8\r\n", Codec::Pcma),
            None
        );
        assert_eq!(with_codec_alone("m=audio", Codec::Pcma), None);
    }
}
