use std::ops::{Index, IndexMut};

/// Position of a track in its stream's list of tracks, counted from 0.
///
/// The stream may be one of the hub, a file, an RTSP session, a MoQ broadcast, or what is
/// sent over a WebRTC session. Slices, arrays and vectors that have one entry per track can
/// be indexed by this type directly, and panic beyond their end as with a number.
///
/// ```
/// use glassline_media::TrackIndex;
///
/// let kinds = ["video", "audio"];
/// assert_eq!(kinds[TrackIndex(1)], "audio");
/// let last = TrackIndex::enumerate(kinds).last();
/// assert_eq!(last, Some((TrackIndex(1), "audio")));
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display,
)]
pub struct TrackIndex(pub usize);

impl TrackIndex {
    /// The position as a number, such as `get` of a slice with one entry per track takes.
    pub const fn get(self) -> usize {
        self.0
    }

    /// The indices of the first `count` tracks, in order.
    pub fn first(count: usize) -> impl Iterator<Item = Self> {
        (0..count).map(Self)
    }

    /// The entries of a list that has one entry per track, each with its track's index.
    pub fn enumerate<T: IntoIterator>(entries: T) -> impl Iterator<Item = (Self, T::Item)> {
        let entries = entries.into_iter().enumerate();
        entries.map(|(index, entry)| (Self(index), entry))
    }
}

impl<T> Index<TrackIndex> for [T] {
    type Output = T;

    fn index(&self, index: TrackIndex) -> &T {
        &self[index.0]
    }
}

impl<T> IndexMut<TrackIndex> for [T] {
    fn index_mut(&mut self, index: TrackIndex) -> &mut T {
        &mut self[index.0]
    }
}

impl<T> Index<TrackIndex> for Vec<T> {
    type Output = T;

    fn index(&self, index: TrackIndex) -> &T {
        &self[index.0]
    }
}

impl<T> IndexMut<TrackIndex> for Vec<T> {
    fn index_mut(&mut self, index: TrackIndex) -> &mut T {
        &mut self[index.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_lists_are_those_of_their_tracks() {
        let entries: Vec<_> = TrackIndex::enumerate(["video", "audio"]).collect();
        assert_eq!(
            entries,
            [(TrackIndex(0), "video"), (TrackIndex(1), "audio")]
        );
        let first: Vec<_> = TrackIndex::first(2).map(TrackIndex::get).collect();
        assert_eq!(first, [0, 1]);
        let mut list = Vec::from([1, 2]);
        list[TrackIndex(1)] = 5;
        assert_eq!((list[TrackIndex(0)], list[TrackIndex(1)]), (1, 5));
        let slice = &mut list[..];
        slice[TrackIndex(0)] = 4;
        assert_eq!((slice[TrackIndex(0)], slice[TrackIndex(1)]), (4, 5));
        assert_eq!(TrackIndex(12).to_string(), "12");
    }
}
