//! Makes talkers out of offers to send a voice to a camera.

use std::sync::Arc;
use std::time::Instant;

use glassline_hub::Stream;
use glassline_media::Codec;
use glassline_webrtc::sdp::NegotiationError;
use glassline_webrtc::{AcceptConfig, Kinds, OpusOptions, Redundancy, Session};

use super::negotiator::{AnsweredOffer, Negotiator};
use super::offer::{Offer, OfferError};
use super::peer::{Role, Talker};
use crate::talk::{Loudspeakers, Voice, VoiceFormat, voice_queue};

/// The codecs of voices that are transcoded for a camera.
const TRANSCODED: [Codec; 3] = [Codec::Opus, Codec::Pcmu, Codec::Pcma];

impl Negotiator {
    /// Returns the cameras that somebody may talk to.
    pub(crate) fn loudspeakers(&self) -> &Arc<Loudspeakers> {
        &self.loudspeakers
    }

    /// Makes a talker at `stream`, whose camera takes `format`, and returns the voice with its codec:
    /// that of the camera if the offer has it, else one that can be transcoded.
    ///
    /// # Errors
    /// Returns the [`OfferError`] to answer with.
    pub(crate) fn talk(
        &self,
        stream: Arc<Stream>,
        format: VoiceFormat,
        offer: Offer<'_>,
    ) -> Result<(AnsweredOffer, Voice), OfferError> {
        let taken = format.codec();
        let of_camera = with_codec_alone(offer.sdp, taken);
        let sdp = of_camera.as_deref().unwrap_or(offer.sdp);
        let opus = OpusOptions {
            stereo: false,
            // What is lost is concealed; copies would have to be told apart here.
            redundancy: Redundancy::Never,
            ..OpusOptions::default()
        };
        let accepted = self.negotiate(Offer { sdp, ..offer }, opus, |config_of| {
            let config = AcceptConfig {
                receive: Kinds::AUDIO,
                ..config_of(None)
            };
            Session::accept(config, sdp, Instant::now())
        })?;
        let receiver = accepted.session.receivers().first();
        let receiver = receiver.filter(|it| match of_camera {
            Some(_) => it.codec() == taken,
            None => TRANSCODED.contains(&it.codec()),
        });
        let receiver = receiver.ok_or_else(|| unsupported(taken))?;
        let codec = receiver.codec();
        let (sender, packets) = voice_queue(receiver.clock_rate());
        let role = |_: &Session, _: &Stream| Role::Talker(Talker::new(codec, sender));
        let answered = self.keep(accepted, self.draw_session_id(), stream, role, None);
        Ok((answered, Voice { codec, packets }))
    }
}

fn unsupported(taken: Codec) -> OfferError {
    let name = taken.encoding_name();
    let wanted = match static_payload_type(taken) {
        Some(number) => format!("{name}/8000 as payload type {number}, or opus/48000/2 first"),
        None => "opus/48000/2, PCMU/8000 or PCMA/8000 first".to_owned(),
    };
    let refused = NegotiationError::Unsupported {
        media: "audio".to_owned(),
        why: format!("the camera takes {name}; offer {wanted}, sendonly"),
    };
    OfferError::Refused(refused.into())
}

/// Returns the payload type of G.711 (RFC 3551 §6), which browsers use as it is; `None` for another
/// codec.
const fn static_payload_type(codec: Codec) -> Option<u8> {
    match codec {
        Codec::Pcmu => Some(0),
        Codec::Pcma => Some(8),
        _ => None,
    }
}

/// Returns the offer with `codec`, which is G.711, alone in its line of audio, so that the browser sends
/// nothing else; `None` if the offer does not have the codec.
fn with_codec_alone(offer: &str, codec: Codec) -> Option<String> {
    let wanted = static_payload_type(codec)?.to_string();
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
        assert_eq!(
            with_codec_alone(OFFER, Codec::Aac),
            None,
            "no browser has it"
        );
    }
}
