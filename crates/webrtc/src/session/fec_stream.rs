//! The stream of FEC packets (FlexFEC) beside a track that is sent.

use glassline_media::Ssrc;

use super::config::TrackSecrets;
use super::template::Template;
use crate::sdp::NegotiatedTrack;
use crate::srtp::{DuplicateSsrc, Outbound, StreamIndex};

/// Payload type and SSRC of a sender's FEC packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fec {
    /// Payload type of the packets.
    pub payload_type: u8,
    /// SSRC of the packets.
    pub ssrc: Ssrc,
}

/// The stream of a sender's FEC packets.
#[derive(Debug)]
pub(super) struct FecStream {
    pub(super) agreed: Fec,
    pub(super) header: Template,
    /// Sequence number of the first FEC packet.
    first: u16,
    pub(super) stream: Option<StreamIndex>,
}

impl FecStream {
    pub(super) fn of(negotiated: &NegotiatedTrack, secrets: &TrackSecrets) -> Option<Box<Self>> {
        let payload_type = negotiated.fec_payload_type?;
        Some(Box::new(Self {
            agreed: Fec {
                payload_type,
                ssrc: secrets.fec_ssrc,
            },
            header: Template::new(payload_type, None, None),
            first: secrets.fec_sequence,
            stream: None,
        }))
    }

    /// Registers the SSRC with the new keys.
    pub(super) fn connect(&mut self, outbound: &mut Outbound) -> Result<(), DuplicateSsrc> {
        self.stream = Some(outbound.add_stream(self.agreed.ssrc, self.first)?);
        Ok(())
    }
}
