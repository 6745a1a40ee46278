//! The decoder of the viewer of a story: it takes whole frames whose references it has.

use std::collections::{BTreeMap, BTreeSet};

use glassline_webrtc::Received;

use super::world::{Rates, Story, Tag};

/// A frame that the viewer decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub(super) ms: u64,
    pub(super) tag: Tag,
}

/// Packets of each frame that arrived.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    waiting: BTreeMap<Tag, Vec<u64>>,
    last: Option<Tag>,
    /// Numbers of the frames that were decoded, where layers are temporal ones.
    decoded: Option<BTreeSet<u64>>,
    /// Sequence number and PictureID of the packets of VP8.
    pub(super) numbers: BTreeMap<u64, (Tag, u16)>,
    /// Highest sequence number of what was decoded.
    sequence: u64,
    pub(super) shown: Vec<Shown>,
}

impl Decoder {
    /// Creates the decoder of a stream whose layers are temporal ones, or encodings of one video.
    pub(super) fn new(is_temporal: bool) -> Self {
        Self {
            decoded: is_temporal.then(BTreeSet::new),
            ..Self::default()
        }
    }

    pub(super) fn on_received(&mut self, received: &Received<'_>, story: &Story, ms: u64) {
        let Received::Rtp {
            sequence, packet, ..
        } = received
        else {
            return;
        };
        let payload = packet
            .payload
            .get(if story.is_temporal { 4.. } else { 0.. });
        let Some(first) = payload.and_then(<[u8]>::first_chunk::<8>) else {
            return;
        };
        let tag = Tag::read(*first);
        if story.is_temporal {
            let id = u16::from_be_bytes([packet.payload[2], packet.payload[3]]);
            self.numbers.insert(*sequence, (tag, id & 0x7fff));
        }
        self.take(tag, *sequence, &story.rates, ms);
    }

    fn take(&mut self, tag: Tag, sequence: u64, rates: &Rates, ms: u64) {
        let packets = self.waiting.entry(tag).or_default();
        if !packets.contains(&sequence) {
            packets.push(sequence);
        }
        loop {
            let whole = self
                .waiting
                .iter()
                .filter(|(tag, it)| it.len() == tag.payloads(rates).len());
            let decodable = whole
                .map(|(tag, it)| (*tag, it.iter().max()))
                .filter(|(tag, _)| {
                    let follows =
                        |last: Tag| last.layer == tag.layer && last.number + 1 == tag.number;
                    let is_known = match &self.decoded {
                        Some(decoded) => tag.reference().is_some_and(|it| decoded.contains(&it)),
                        None => self.last.is_some_and(follows),
                    };
                    tag.keyframe || is_known
                });
            let next = decodable.min_by_key(|(_, sequence)| *sequence);
            let Some((tag, Some(sequence))) = next else {
                return;
            };
            self.sequence = *sequence;
            // Frames that left before are not decoded any more.
            let left_later = |it: &Vec<u64>| it.iter().any(|it| *it > self.sequence);
            self.waiting.retain(|_, it| left_later(it));
            self.last = Some(tag);
            self.decoded.iter_mut().for_each(|it| {
                it.insert(tag.number);
            });
            self.shown.push(Shown { ms, tag });
        }
    }
}
