//! Payloads of which the picture numbers are moved for one viewer.

use glassline_media::Codec;
use glassline_rtp::payload::NumberShift;

/// Most bytes that the buffer keeps from one packet to the next.
const ROOM_BYTES_MAX: usize = glassline_media::PAYLOAD_BYTES_MAX;

/// A buffer for one payload at a time. It is empty for a viewer that was never moved to another layer.
#[derive(Debug, Default)]
pub(super) struct MovedPayload(Vec<u8>);

impl MovedPayload {
    /// Returns the payload as the viewer gets it: the shared one, unless numbers are moved in it.
    #[inline]
    pub(super) fn payload<'a>(
        &'a mut self,
        codec: Codec,
        shared: &'a [u8],
        by: &NumberShift,
    ) -> &'a [u8] {
        match by.is_none() {
            true => shared,
            false => self.moved(codec, shared, by),
        }
    }

    #[cold]
    fn moved(&mut self, codec: Codec, shared: &[u8], by: &NumberShift) -> &[u8] {
        self.0.clear();
        self.0.shrink_to(ROOM_BYTES_MAX);
        self.0.extend_from_slice(shared);
        by.rewrite(codec, &mut self.0);
        &self.0
    }
}
