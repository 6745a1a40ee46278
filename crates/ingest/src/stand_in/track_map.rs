use glassline_hub::Stream;
use glassline_media::{Kind, Track, TrackIndex};

/// Which track of a fallback becomes which track of the stream.
#[derive(Debug, PartialEq)]
pub(super) struct TrackMap {
    /// The tracks to publish.
    pub(super) tracks: Vec<Track>,
    /// For each track of the fallback, its index in the stream; `None` if it is left out.
    to: Vec<Option<TrackIndex>>,
}

impl TrackMap {
    /// Returns the map from `fallback` to `stream`. If each kind of media that both have can go on in
    /// the stream's own tracks, these are published, and tracks that the fallback lacks are silent. If
    /// not, the tracks of the fallback are published, which begins a new track layout.
    pub(super) fn of(stream: &Stream, fallback: &Stream) -> Self {
        let (own, theirs) = (stream.tracks(), fallback.tracks());
        let mut tracks: Vec<_> = own.iter().map(without_layers).collect();
        let mut to = vec![None; theirs.len()];
        for (index, own) in TrackIndex::enumerate(own.iter()) {
            let continues =
                |(place, it): &(usize, &Track)| to[*place].is_none() && own.is_continued_by(it);
            let found = theirs.iter().enumerate().find(continues);
            if let Some((place, track)) = found {
                to[place] = Some(index);
                tracks[index] = without_layers(track);
            }
        }
        let is_carried = |kind: Kind| {
            let mut of_kind = theirs.iter().zip(&to).filter(|(it, _)| it.kind() == kind);
            let has_own = own.iter().any(|it| it.kind() == kind);
            let has_theirs = theirs.iter().any(|it| it.kind() == kind);
            !has_theirs || has_own && of_kind.any(|(_, to)| to.is_some())
        };
        if is_carried(Kind::Video) && is_carried(Kind::Audio) {
            return Self { tracks, to };
        }
        Self {
            tracks: theirs.iter().map(without_layers).collect(),
            to: TrackIndex::first(theirs.len()).map(Some).collect(),
        }
    }

    /// Returns the index in the stream of a track of the fallback.
    pub(super) fn to(&self, track: TrackIndex) -> Option<TrackIndex> {
        *self.to.get(track.get())?
    }

    /// Returns the track of the fallback whose keyframe must come first; `None` without video.
    pub(super) fn first_video(&self) -> Option<TrackIndex> {
        let mut videos = TrackIndex::enumerate(self.tracks.iter());
        let (video, _) = videos.find(|(_, it)| it.kind() == Kind::Video)?;
        let place = self.to.iter().position(|to| *to == Some(video))?;
        Some(TrackIndex(place))
    }
}

/// Returns the track with its base layer only, which is all that stands in.
pub(super) fn without_layers(track: &Track) -> Track {
    Track {
        layers: Vec::new(),
        ..track.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use glassline_hub::{Limits, StreamName};
    use glassline_media::Codec::{H264, Opus, Pcmu, Vp8};

    use super::*;

    fn stream(tracks: &[Track]) -> Arc<Stream> {
        let name = StreamName::parse("cam").expect("a name");
        let stream = Stream::unlisted(name, Limits::default());
        if !tracks.is_empty() {
            drop(
                stream
                    .publish(tracks.to_vec(), Instant::now())
                    .expect("free"),
            );
        }
        stream
    }

    #[test]
    fn tracks_of_equal_codecs_take_the_places_of_the_streams() {
        let (h264, vp8) = (Track::new(H264), Track::new(Vp8));
        let (opus, pcmu) = (Track::audio(Opus, 2), Track::audio(Pcmu, 1));
        let map = |own: &[&Track], theirs: &[&Track]| {
            let [own, theirs] = [own, theirs].map(|tracks| {
                let tracks: Vec<_> = tracks.iter().map(|it| (*it).clone()).collect();
                stream(&tracks)
            });
            let map = TrackMap::of(&own, &theirs);
            let codecs: Vec<_> = map.tracks.iter().map(|it| it.codec).collect();
            let to: Vec<_> = map.to.iter().map(|it| it.map(TrackIndex::get)).collect();
            (codecs, to, map.first_video().map(TrackIndex::get))
        };
        let both = [&h264, &opus];
        let swapped = (vec![H264, Opus], vec![Some(1), Some(0)], Some(1));
        assert_eq!(map(&both, &[&opus, &h264]), swapped);
        let silent = (vec![H264, Opus], vec![Some(0)], Some(0));
        assert_eq!(map(&both, &[&h264]), silent);
        let one_too_many = (vec![H264, Opus], vec![Some(0), None, Some(1)], Some(0));
        assert_eq!(map(&both, &[&h264, &h264, &opus]), one_too_many);
        let other_video = (vec![Vp8, Opus], vec![Some(0), Some(1)], Some(0));
        assert_eq!(map(&both, &[&vp8, &opus]), other_video);
        let other_audio = (vec![H264, Pcmu], vec![Some(0), Some(1)], Some(0));
        assert_eq!(map(&both, &[&h264, &pcmu]), other_audio);
        let more = (vec![H264, Opus], vec![Some(0), Some(1)], Some(0));
        assert_eq!(map(&[&h264], &both), more, "a new kind of media");
        let first = (vec![Opus], vec![Some(0)], None);
        assert_eq!(map(&[], &[&opus]), first, "no source was there yet");
    }
}
