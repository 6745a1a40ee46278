//! The stream that a viewer's session was made for, and others that are sent in its place.

use std::sync::Arc;

use glassline_hub::{Stream, StreamName};
use glassline_media::{Kind, LayerIndex, Track, TrackIndex, TrackLayer};
use glassline_transcoding::{TranscodingLease, TranscodingTerms};
use glassline_webrtc::{Sender, Session};

/// The tracks of the stream that a session was made for, and how the viewer gets them.
#[derive(Debug)]
pub(super) struct OwnStream {
    pub(super) name: StreamName,
    tracks: Arc<[Track]>,
    transcoded: Vec<(TrackIndex, TranscodingTerms)>,
    /// Layers in other codecs.
    fixed: Vec<TrackLayer>,
}

/// The way in which a viewer gets another stream.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// For each sender of the session the layer that it sends; `None` if the stream has none for it.
    pub(super) layers: Vec<Option<TrackLayer>>,
    /// The layers that stand for their tracks.
    pub(super) fixed: Vec<TrackLayer>,
    pub(super) transcodings: Vec<TranscodingLease>,
}

impl OwnStream {
    /// Creates the description of a viewer that gets `stream` since its session was made.
    pub(super) fn new(
        stream: &Stream,
        transcodings: &[TranscodingLease],
        fixed: &[TrackLayer],
    ) -> Self {
        let in_other_codecs = fixed.iter().filter(|it| it.layer != LayerIndex::TRANSCODED);
        Self {
            name: stream.name().clone(),
            tracks: stream.tracks(),
            transcoded: transcodings
                .iter()
                .map(|it| (it.track(), it.terms()))
                .collect(),
            fixed: in_other_codecs.copied().collect(),
        }
    }

    /// Returns the way in which the viewer gets `to`; `None` if that has no video for a session with video.
    pub(super) fn sources(&self, session: &Session, to: &Arc<Stream>) -> Option<Sources> {
        let mut sources = Sources::default();
        let tracks = to.tracks();
        for sender in session.senders() {
            let track = self.counterpart(sender.track, &tracks);
            let layer = track.and_then(|track| self.layer(sender, track, to, &mut sources));
            if layer.is_none() && sender.codec.kind() == Kind::Video {
                return None;
            }
            sources.layers.push(layer);
        }
        Some(sources)
    }

    /// Returns the track that has the form of a negotiated one: the one in its place if it does.
    fn counterpart(&self, negotiated: TrackIndex, tracks: &[Track]) -> Option<TrackIndex> {
        let wanted = self.tracks.get(negotiated.get())?;
        let fits = |index: &TrackIndex| {
            let track = tracks.get(index.get());
            track.is_some_and(|it| wanted.has_form_of(it))
        };
        let all = TrackIndex::first(tracks.len());
        std::iter::once(negotiated).chain(all).find(fits)
    }

    /// Returns the layer of a track of `to` that `sender` sends.
    fn layer(
        &self,
        sender: &Sender,
        track: TrackIndex,
        to: &Arc<Stream>,
        sources: &mut Sources,
    ) -> Option<TrackLayer> {
        let mut transcoded = self.transcoded.iter();
        if let Some((_, terms)) = transcoded.find(|(track, _)| *track == sender.track) {
            let lease = terms.lease(to, track);
            let lease = lease.inspect_err(|reason| {
                tracing::warn!(stream = %to.name(), "a viewer that came from another stream gets no {}: {reason}", sender.codec.kind().as_str());
            });
            sources.transcodings.push(lease.ok()?);
            let layer = LayerIndex::TRANSCODED;
            sources.fixed.push(TrackLayer { track, layer });
            return sources.fixed.last().copied();
        }
        let tracks = to.tracks();
        let described = tracks.get(track.get())?;
        let mut fixed = self.fixed.iter().filter(|it| it.track == sender.track);
        let fixed = fixed.find(|it| {
            described
                .of_layer(it.layer)
                .is_some_and(|it| it.codec == sender.codec)
        });
        if let Some(fixed) = fixed {
            sources.fixed.push(TrackLayer { track, ..*fixed });
            return sources.fixed.last().copied();
        }
        (described.codec == sender.codec).then(|| to.beginning(track))
    }
}
