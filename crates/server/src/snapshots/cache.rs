//! The images that were made last.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{StreamName, TrackLayout};
use glassline_transcode::SizeLimit;

use super::Snapshot;

/// Age up to which an image is given out without a look at the stream.
const RECENT: Duration = Duration::from_secs(1);

/// Most bytes of all images together.
const BYTES_MAX: usize = 32 << 20;

/// Most images, so that looking one up stays cheap.
const IMAGES_MAX: usize = 512;

/// Images by stream and size, in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Cache {
    images: VecDeque<Entry>,
    bytes: usize,
}

/// What an image is asked for by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) stream: StreamName,
    pub(super) limit: SizeLimit,
}

/// Which keyframe of a stream an image shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyframeId {
    pub(super) layout: TrackLayout,
    /// Number of the unit in its track.
    pub(super) index: u64,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    of: KeyframeId,
    /// When the image was last known to be the newest.
    newest_at: Instant,
    snapshot: Arc<Snapshot>,
}

impl Cache {
    /// Returns the image for `key` if it was the newest within the last second.
    pub(super) fn recent(&self, key: &Key, now: Instant) -> Option<Arc<Snapshot>> {
        let entry = self.images.iter().find(|entry| entry.key == *key)?;
        let age = now.saturating_duration_since(entry.newest_at);
        (age < RECENT).then(|| Arc::clone(&entry.snapshot))
    }

    /// Returns the image for `key` if it shows the keyframe `of`, which is the newest now.
    pub(super) fn of_keyframe(
        &mut self,
        key: &Key,
        of: KeyframeId,
        now: Instant,
    ) -> Option<Arc<Snapshot>> {
        let same = |entry: &&mut Entry| entry.key == *key && entry.of == of;
        let entry = self.images.iter_mut().find(same)?;
        entry.newest_at = now;
        Some(Arc::clone(&entry.snapshot))
    }

    /// Adds an image in the place of the one for the same key; the oldest ones make room.
    pub(super) fn insert(
        &mut self,
        key: Key,
        of: KeyframeId,
        snapshot: Arc<Snapshot>,
        now: Instant,
    ) {
        if let Some(at) = self.images.iter().position(|entry| entry.key == key) {
            self.remove(at);
        }
        self.bytes += snapshot.jpeg.len();
        self.images.push_back(Entry {
            key,
            of,
            newest_at: now,
            snapshot,
        });
        while self.images.len() > IMAGES_MAX || self.bytes > BYTES_MAX {
            self.remove(0);
        }
    }

    fn remove(&mut self, at: usize) {
        if let Some(entry) = self.images.remove(at) {
            self.bytes -= entry.snapshot.jpeg.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(width: u16) -> Key {
        Key {
            stream: StreamName::parse("cam").expect("a name"),
            limit: SizeLimit {
                width: Some(width),
                height: None,
            },
        }
    }

    fn of(index: u64) -> KeyframeId {
        KeyframeId {
            layout: TrackLayout::default(),
            index,
        }
    }

    fn snapshot(bytes: usize) -> Arc<Snapshot> {
        Arc::new(Snapshot {
            jpeg: vec![0; bytes].into(),
            entity_tag: String::new(),
        })
    }

    #[test]
    fn an_image_is_given_out_for_a_second_and_longer_while_its_keyframe_is_the_newest() {
        let mut cache = Cache::default();
        let start = Instant::now();
        cache.insert(key(1), of(7), snapshot(10), start);
        let half = start + RECENT / 2;
        assert!(cache.recent(&key(1), half).is_some());
        assert!(cache.recent(&key(2), half).is_none(), "another size");
        let later = start + RECENT;
        assert!(cache.recent(&key(1), later).is_none());
        assert!(cache.of_keyframe(&key(1), of(8), later).is_none());
        assert!(cache.of_keyframe(&key(1), of(7), later).is_some());
        assert!(cache.recent(&key(1), later + RECENT / 2).is_some());
    }

    #[test]
    fn the_cache_is_bounded_in_bytes_and_images() {
        let mut cache = Cache::default();
        let now = Instant::now();
        for width in 1..=40 {
            cache.insert(key(width), of(0), snapshot(1 << 20), now);
            assert!(cache.bytes <= BYTES_MAX);
        }
        assert!(cache.recent(&key(1), now).is_none(), "the oldest is gone");
        assert!(cache.recent(&key(40), now).is_some());
        for _ in 0..3 {
            cache.insert(key(40), of(0), snapshot(100), now);
        }
        let sum: usize = cache.images.iter().map(|it| it.snapshot.jpeg.len()).sum();
        assert_eq!(cache.bytes, sum, "replaced, not added");
        for width in 0..2_000 {
            cache.insert(key(width), of(0), snapshot(1), now);
        }
        assert_eq!(cache.images.len(), IMAGES_MAX);
        cache.insert(key(1), of(0), snapshot(BYTES_MAX + 1), now);
        assert_eq!((cache.images.len(), cache.bytes), (0, 0), "too large");
    }
}
