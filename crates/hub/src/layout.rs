use glassline_media::Track;

/// Number of a stream's track layout: the set of codecs that receivers negotiate. Layouts are
/// counted from 0. A stream begins the next layout when a source publishes a track that does not
/// continue the track of the same index, as [`Track::is_continued_by`] decides.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display,
)]
pub struct TrackLayout(u64);

impl TrackLayout {
    /// Returns the layout that follows this one.
    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The tracks that the sources of one layout have had, by index.
///
/// A source with fewer tracks does not end a layout: receivers that negotiated all tracks stay, so
/// the tracks that are missing now are still compared with those of the next source.
#[derive(Debug, Default)]
pub(crate) struct LayoutTracks {
    number: TrackLayout,
    tracks: Vec<Track>,
}

impl LayoutTracks {
    pub(crate) const fn number(&self) -> TrackLayout {
        self.number
    }

    /// Begins a layout without tracks.
    pub(crate) fn begin_empty(&mut self) {
        self.number = self.number.next();
        self.tracks.clear();
    }

    /// Takes the tracks of a new source. Returns true if they begin a new layout.
    pub(crate) fn begin_source(&mut self, next: &[Track]) -> bool {
        let is_new = first_changed(&self.tracks, next).is_some();
        if is_new {
            self.number = self.number.next();
            self.tracks.clear();
        }
        let known = self.tracks.len().min(next.len());
        self.tracks.extend_from_slice(&next[known..]);
        is_new
    }
}

/// Returns the first of the tracks `known` that its track of `next` does not continue, with its index.
pub(crate) fn first_changed<'a>(known: &'a [Track], next: &[Track]) -> Option<(usize, &'a Track)> {
    let tracks = known.iter().zip(next).enumerate();
    let mut changed = tracks.filter(|(_, (old, new))| !old.is_continued_by(new));
    changed.next().map(|(index, (old, _))| (index, old))
}
