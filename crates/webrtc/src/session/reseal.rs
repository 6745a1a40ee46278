//! The tags that a sender without RTX keeps, to retransmit exactly the same packets.

use crate::srtp::Tag;

/// Tags of a sender's last packets, see [`Outbound::reseal`](crate::srtp::Outbound::reseal).
#[derive(Debug)]
pub(super) struct ResealRing {
    tags: [(u64, Tag); RESEAL_MAX],
}

/// Number of tags: about a second of 3 Mbit/s.
const RESEAL_MAX: usize = 512;

impl Default for ResealRing {
    fn default() -> Self {
        Self {
            tags: [(u64::MAX, Tag::default()); RESEAL_MAX],
        }
    }
}

impl ResealRing {
    #[inline]
    pub(super) fn remember(&mut self, index: u64, tag: Tag) {
        self.tags[Self::slot(index)] = (index, tag);
    }

    #[inline]
    pub(super) fn find(&self, index: u64) -> Option<Tag> {
        let (held, tag) = self.tags[Self::slot(index)];
        (held == index).then_some(tag)
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the remainder is below 512"
    )]
    fn slot(index: u64) -> usize {
        (index % RESEAL_MAX as u64) as usize
    }
}
