//! The keyframes that were decoded last, and the images that were made of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{StreamName, TrackLayout};
use glassline_media::LayerIndex;
use glassline_transcode::{DecodedKeyframe, FrameSize, NoStill, SizeLimit};

use super::Snapshot;

/// Age up to which an image is given out without a look at the stream.
pub(super) const RECENT: Duration = Duration::from_secs(1);

/// Most bytes of all images and decoded frames together. The largest frame has 14 MiB.
const BYTES_MAX: usize = 48 << 20;

/// Most streams whose images are kept.
const STREAMS_MAX: usize = 512;

/// Lengths of the longer side of an image. A wanted length is rounded down to one of these, unless it
/// is that of the frame: all of them together cost less than four images of the whole frame.
const LENGTHS: [usize; 24] = [
    16, 32, 48, 64, 96, 128, 144, 160, 192, 256, 320, 384, 480, 640, 720, 800, 960, 1080, 1280,
    1600, 1920, 2560, 3200, 3840,
];

/// Keyframes by stream: the newest that somebody wanted of each.
#[derive(Debug, Default)]
pub(super) struct Cache {
    streams: HashMap<Subject, Entry>,
    bytes: usize,
    /// Whether a task calls [`release`](Self::release) now and then.
    is_releasing: bool,
}

/// The layer of a stream's video that an image shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Subject {
    pub(super) stream: StreamName,
    pub(super) layer: LayerIndex,
}

/// Which keyframe of a stream an image shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyframeId {
    pub(super) layout: TrackLayout,
    /// Number of the unit in its track.
    pub(super) index: u64,
}

/// The outcome of a keyframe.
#[derive(Clone, Debug)]
pub(super) enum Keyframe {
    /// The keyframe is an image already, which is given out in its size.
    Image(Arc<Snapshot>),
    /// The decoded frame, of which images are made.
    Decoded(Arc<DecodedKeyframe>),
    /// The keyframe cannot be decoded.
    Broken(NoStill),
}

#[derive(Debug)]
struct Entry {
    of: KeyframeId,
    /// When the keyframe was last known to be the newest.
    newest_at: Instant,
    frame: Frame,
    images: BTreeMap<FrameSize, Arc<Snapshot>>,
}

/// The kept form of a keyframe.
#[derive(Debug)]
enum Frame {
    Image(Arc<Snapshot>),
    /// The frame in its size, for as long as further images of it are likely.
    Decoded {
        size: FrameSize,
        samples: Option<Arc<DecodedKeyframe>>,
    },
    Broken(NoStill),
}

/// The content of the cache for a request.
#[derive(Debug)]
pub(super) enum Kept {
    Image(Arc<Snapshot>),
    /// The frame is there, and the image is to be made.
    Frame(KeyframeId, Arc<DecodedKeyframe>),
    Broken(NoStill),
}

impl Cache {
    /// Returns what is kept of the keyframe that was the newest within the last second.
    pub(super) fn recent(&self, stream: &Subject, limit: SizeLimit, now: Instant) -> Option<Kept> {
        let entry = self.streams.get(stream)?;
        let age = now.saturating_duration_since(entry.newest_at);
        (age < RECENT).then(|| entry.kept(limit)).flatten()
    }

    /// Returns what is kept of the keyframe `of`, which is the newest now.
    pub(super) fn of_keyframe(
        &mut self,
        stream: &Subject,
        of: KeyframeId,
        limit: SizeLimit,
        now: Instant,
    ) -> Option<Kept> {
        let entry = self.streams.get_mut(stream).filter(|it| it.of == of)?;
        entry.newest_at = now;
        entry.kept(limit)
    }

    /// Keeps the keyframe `of` in the place of an earlier one.
    pub(super) fn insert(
        &mut self,
        stream: &Subject,
        of: KeyframeId,
        keyframe: &Keyframe,
        now: Instant,
    ) {
        let frame = match keyframe {
            Keyframe::Image(image) => Frame::Image(Arc::clone(image)),
            Keyframe::Decoded(samples) => Frame::Decoded {
                size: samples.size(),
                samples: Some(Arc::clone(samples)),
            },
            Keyframe::Broken(why) => Frame::Broken(why.clone()),
        };
        // The images of the keyframe stay if only its samples were gone.
        let before = self.remove(stream).filter(|it| it.of == of);
        let entry = Entry {
            of,
            newest_at: now,
            frame,
            images: before.map(|it| it.images).unwrap_or_default(),
        };
        self.bytes += entry.bytes();
        self.streams.insert(stream.clone(), entry);
        self.make_room();
    }

    /// Keeps an image of the keyframe `of`, unless another keyframe has come.
    pub(super) fn insert_image(
        &mut self,
        stream: &Subject,
        of: KeyframeId,
        size: FrameSize,
        image: Arc<Snapshot>,
    ) {
        let entry = self.streams.get_mut(stream).filter(|it| it.of == of);
        let Some(entry) = entry else { return };
        self.bytes += image.jpeg.len();
        if let Some(before) = entry.images.insert(size, image) {
            self.bytes -= before.jpeg.len();
        }
        self.make_room();
    }

    /// Returns whether the caller is to call [`release`](Self::release) now and then: samples are kept,
    /// and nobody does.
    pub(super) fn begin_to_release(&mut self) -> bool {
        !std::mem::replace(&mut self.is_releasing, true)
    }

    /// Forgets the samples of frames that were not the newest within the last second; their images stay.
    /// Returns whether there are others, so that another call is needed.
    pub(super) fn release(&mut self, now: Instant) -> bool {
        self.is_releasing = false;
        for entry in self.streams.values_mut() {
            if now.saturating_duration_since(entry.newest_at) >= RECENT {
                self.bytes -= entry.release();
            }
            self.is_releasing |= entry.samples_bytes() > 0;
        }
        self.is_releasing
    }

    /// Forgets the samples of the oldest frames, and then the oldest keyframes with their images.
    fn make_room(&mut self) {
        let is_full = |cache: &Self| cache.bytes > BYTES_MAX || cache.streams.len() > STREAMS_MAX;
        while is_full(self) {
            let has_samples = |entry: &Entry| entry.samples_bytes() > 0;
            let oldest = self.streams.iter().min_by_key(|(_, it)| {
                // Samples go first, but no frame may push out what stands beside it for ever.
                (!has_samples(it), it.newest_at)
            });
            let Some((stream, entry)) = oldest.map(|(stream, it)| (stream.clone(), it)) else {
                return;
            };
            if has_samples(entry) && self.streams.len() <= STREAMS_MAX {
                let entry = self.streams.get_mut(&stream).expect("it was just found");
                self.bytes -= entry.release();
            } else {
                self.remove(&stream);
            }
        }
    }

    fn remove(&mut self, stream: &Subject) -> Option<Entry> {
        let removed = self.streams.remove(stream)?;
        self.bytes -= removed.bytes();
        Some(removed)
    }
}

impl Entry {
    fn kept(&self, limit: SizeLimit) -> Option<Kept> {
        match &self.frame {
            Frame::Image(image) => Some(Kept::Image(Arc::clone(image))),
            Frame::Broken(why) => Some(Kept::Broken(why.clone())),
            Frame::Decoded { size, samples } => {
                let made = self.images.get(&size_within(*size, limit));
                let made = made.map(|image| Kept::Image(Arc::clone(image)));
                let samples = samples.as_ref();
                made.or_else(|| samples.map(|it| Kept::Frame(self.of, Arc::clone(it))))
            }
        }
    }

    fn bytes(&self) -> usize {
        let images = self.images.values().map(|it| it.jpeg.len()).sum::<usize>();
        let frame = match &self.frame {
            Frame::Image(image) => image.jpeg.len(),
            _ => self.samples_bytes(),
        };
        images + frame
    }

    fn samples_bytes(&self) -> usize {
        match &self.frame {
            Frame::Decoded {
                samples: Some(samples),
                ..
            } => samples.bytes(),
            _ => 0,
        }
    }

    /// Forgets the samples; returns the bytes that they took.
    fn release(&mut self) -> usize {
        let bytes = self.samples_bytes();
        if let Frame::Decoded { samples, .. } = &mut self.frame {
            *samples = None;
        }
        bytes
    }
}

/// Returns the size of the image that a frame of `size` becomes within `limit`: one of few, so that
/// nobody makes the server encode a frame in thousands of sizes.
pub fn size_within(size: FrameSize, limit: SizeLimit) -> FrameSize {
    let fitted = limit.fit(size);
    let length = fitted.width.max(fitted.height);
    let is_smaller = |it: &&usize| **it <= length;
    let Some(length) = LENGTHS.iter().rev().find(is_smaller) else {
        return fitted;
    };
    if fitted == size {
        return fitted;
    }
    let most = u16::try_from(*length).ok();
    let limit = SizeLimit {
        width: most,
        height: most,
    };
    limit.fit(size)
}

#[cfg(test)]
mod tests {
    use super::super::tests::keyframe;
    use super::*;

    fn stream(number: usize) -> Subject {
        Subject {
            stream: StreamName::parse(&format!("cam{number}")).expect("a name"),
            layer: LayerIndex::BASE,
        }
    }

    fn within(width: impl Into<Option<u16>>, height: impl Into<Option<u16>>) -> SizeLimit {
        SizeLimit {
            width: width.into(),
            height: height.into(),
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

    /// The first keyframe of the built-in clip, of 1280 x 720.
    fn decoded() -> Keyframe {
        let decoded = DecodedKeyframe::of_h264(&keyframe());
        Keyframe::Decoded(Arc::new(decoded.expect("a keyframe")))
    }

    fn is_image(kept: Option<Kept>) -> bool {
        kept.is_some_and(|it| matches!(it, Kept::Image(_)))
    }

    fn is_frame(kept: Option<Kept>) -> bool {
        kept.is_some_and(|it| matches!(it, Kept::Frame(..)))
    }

    fn counted(cache: &Cache) -> usize {
        cache.streams.values().map(Entry::bytes).sum()
    }

    #[test]
    fn an_image_is_given_out_for_a_second_and_longer_while_its_keyframe_is_the_newest() {
        let (mut cache, cam) = (Cache::default(), stream(1));
        let start = Instant::now();
        let small = within(640, None);
        cache.insert(&cam, of(7), &decoded(), start);
        cache.insert_image(&cam, of(7), FrameSize::new(640, 360), snapshot(10));
        let half = start + RECENT / 2;
        assert!(is_image(cache.recent(&cam, small, half)));
        assert!(is_image(cache.recent(&cam, within(700, None), half)));
        assert!(is_frame(cache.recent(&cam, within(320, None), half)));
        assert!(cache.recent(&stream(2), small, half).is_none());
        let later = start + RECENT;
        assert!(cache.recent(&cam, small, later).is_none());
        assert!(cache.of_keyframe(&cam, of(8), small, later).is_none());
        assert!(is_image(cache.of_keyframe(&cam, of(7), small, later)));
        assert!(is_image(cache.recent(&cam, small, later + RECENT / 2)));
        cache.insert_image(&cam, of(8), FrameSize::new(320, 180), snapshot(10));
        assert!(
            is_frame(cache.recent(&cam, within(320, None), later)),
            "of another keyframe"
        );
    }

    #[test]
    fn samples_are_forgotten_after_a_second_and_images_stay() {
        let (mut cache, cam) = (Cache::default(), stream(1));
        let start = Instant::now();
        cache.insert(&cam, of(7), &decoded(), start);
        cache.insert_image(&cam, of(7), FrameSize::new(640, 360), snapshot(10));
        assert!(cache.begin_to_release() && !cache.begin_to_release());
        assert!(cache.release(start + RECENT / 2));
        assert!(is_frame(cache.recent(&cam, within(320, None), start)));
        assert!(!cache.release(start + RECENT));
        assert!(cache.begin_to_release(), "the task has ended");
        assert_eq!(cache.bytes, 10);
        assert!(cache.recent(&cam, within(320, None), start).is_none());
        assert!(is_image(cache.recent(&cam, within(640, None), start)));
        // The keyframe is decoded again for another size, and its images are still good.
        cache.insert(&cam, of(7), &decoded(), start);
        assert!(is_image(cache.recent(&cam, within(640, None), start)));
        assert_eq!(cache.bytes, counted(&cache));
    }

    #[test]
    fn a_keyframe_that_cannot_be_decoded_is_not_decoded_again() {
        let (mut cache, cam) = (Cache::default(), stream(1));
        let now = Instant::now();
        let broken = NoStill::Decoder {
            reason: "state 0x2".to_owned(),
        };
        cache.insert(&cam, of(7), &Keyframe::Broken(broken), now);
        for limit in [SizeLimit::default(), within(20, 20)] {
            let kept = cache.of_keyframe(&cam, of(7), limit, now);
            assert!(matches!(kept, Some(Kept::Broken(_))), "{kept:?}");
        }
    }

    #[test]
    fn the_cache_is_bounded_in_bytes_and_streams() {
        let mut cache = Cache::default();
        let start = Instant::now();
        let image = Keyframe::Image(snapshot(1 << 20));
        for number in 0..60 {
            let now = start + Duration::from_millis(number as u64);
            cache.insert(&stream(number), of(0), &image, now);
            assert!(cache.bytes <= BYTES_MAX);
            assert_eq!(cache.bytes, counted(&cache));
        }
        let any = SizeLimit::default();
        assert!(cache.recent(&stream(0), any, start).is_none(), "the oldest");
        assert!(is_image(cache.recent(&stream(59), any, start)));
        let frame = decoded();
        for number in 100..150 {
            cache.insert(&stream(number), of(0), &frame, start + RECENT);
            assert!(cache.bytes <= BYTES_MAX);
        }
        assert_eq!(cache.bytes, counted(&cache));
        let small = Keyframe::Image(snapshot(1));
        for number in 0..2_000 {
            cache.insert(&stream(number), of(0), &small, start + 2 * RECENT);
        }
        assert_eq!(cache.streams.len(), STREAMS_MAX);
        assert_eq!(cache.bytes, counted(&cache));
        let huge = Keyframe::Image(snapshot(BYTES_MAX + 1));
        cache.insert(&stream(1), of(0), &huge, start);
        assert!(cache.recent(&stream(1), any, start).is_none(), "too large");
        assert_eq!(cache.bytes, counted(&cache));
    }

    #[test]
    fn whatever_is_asked_a_frame_becomes_images_of_few_sizes_within_the_limit() {
        for (width, height) in [
            (4096, 2304),
            (1920, 1080),
            (1080, 1920),
            (40, 30),
            (8, 4000),
        ] {
            let size = FrameSize::new(width, height);
            let mut sizes = std::collections::BTreeSet::new();
            for side in 16..=4096 {
                for limit in [within(side, None), within(None, side), within(side, 100)] {
                    let (fitted, made) = (limit.fit(size), size_within(size, limit));
                    assert!(
                        made.width <= fitted.width && made.height <= fitted.height,
                        "{size:?} {limit:?}"
                    );
                    sizes.insert(made);
                }
            }
            assert!(sizes.len() <= LENGTHS.len() + 1, "{size:?}: {sizes:?}");
            let pixels = sizes.iter().map(|size| size.pixels());
            let pixels: usize = pixels.sum();
            assert!(pixels < 4 * size.pixels(), "{size:?}: {pixels}");
        }
        for (size, limit, made) in [
            ((1920, 1080), within(640, None), (640, 360)),
            ((1920, 1080), within(192, 108), (192, 108)),
            ((1920, 1080), within(1_900, None), (1600, 900)),
            ((1920, 1080), within(None, 720), (1280, 720)),
            ((1080, 1920), within(640, None), (607, 1080)),
            ((704, 576), within(4096, None), (704, 576)),
        ] {
            let [size, made] = [size, made].map(|(width, height)| FrameSize::new(width, height));
            assert_eq!(size_within(size, limit), made);
        }
    }
}
