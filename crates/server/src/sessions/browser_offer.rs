//! The tracks of a stream as the browser that makes an offer can take them.

use std::sync::Arc;

use glassline_hub::{Stream, TrackLayout};
use glassline_media::{Kind, Track};
use glassline_transcoding::{BrowserTracks, Hindrance, VideoWish};
use glassline_webrtc::sdp::{self, NegotiationError, SessionDescription};

use super::negotiator::Negotiator;
use super::offer::{Offer, OfferError};

impl Negotiator {
    /// Returns `tracks` as the browser that makes the offer can take them.
    pub(super) fn for_browser(
        &self,
        stream: &Arc<Stream>,
        layout: TrackLayout,
        tracks: &[Track],
        offer: Offer<'_>,
    ) -> Result<BrowserTracks, OfferError> {
        let sdp = SessionDescription::parse(offer.sdp)?;
        let wish = VideoWish {
            wants: sdp::receives_kind(&sdp, Kind::Video),
            asks: offer.transcodes_video,
            decodes: &|track| sdp::receives_codec(&sdp, track),
        };
        let offered = self.transcoders.for_browsers(stream, layout, tracks, wish);
        let offered = offered.map_err(OfferError::NotTranscoded)?;
        match offered.on_request {
            // Audio alone would look like a fault of the viewer.
            Some(hindered) if hindered.hindrance == Hindrance::Codec => {
                let has = hindered.codec.to_string();
                let why = OfferError::from(NegotiationError::NothingPlayable { has });
                Err(why.with_transcoding(Some(hindered)))
            }
            _ => Ok(offered),
        }
    }
}
