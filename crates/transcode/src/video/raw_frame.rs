//! A frame before an encoder, as decoders and programs put it out.

use openh264::formats::YUVSource;

use crate::FrameSize;

/// A frame of 8 bits and 4:2:0 in the memory of whoever decoded it, plane after plane.
pub(crate) struct RawFrame<'a> {
    pub(super) planes: [&'a [u8]; 3],
    /// Samples from row to row, of luminance and of chrominance.
    pub(super) strides: [usize; 2],
    pub(crate) size: FrameSize,
}

impl YUVSource for RawFrame<'_> {
    fn dimensions(&self) -> (usize, usize) {
        (self.size.width, self.size.height)
    }

    fn strides(&self) -> (usize, usize, usize) {
        let [luminance, chrominance] = self.strides;
        (luminance, chrominance, chrominance)
    }

    fn y(&self) -> &[u8] {
        self.planes[0]
    }

    fn u(&self) -> &[u8] {
        self.planes[1]
    }

    fn v(&self) -> &[u8] {
        self.planes[2]
    }
}
