//! The size of a frame in pixels.

/// Width and height of a frame, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameSize {
    /// Pixels of a row.
    pub width: usize,
    /// Rows of the frame.
    pub height: usize,
}

impl FrameSize {
    /// Creates a size of `width` by `height` pixels.
    pub const fn new(width: usize, height: usize) -> Self {
        Self { width, height }
    }

    /// Returns the number of pixels, at most `usize::MAX`.
    pub const fn pixels(self) -> usize {
        self.width.saturating_mul(self.height)
    }

    /// Returns the size without its odd column and row.
    pub(crate) const fn even(self) -> Self {
        Self::new(self.width & !1, self.height & !1)
    }

    /// Returns the size of the planes of chrominance of 4:2:0, without an odd column and row.
    pub(crate) const fn half(self) -> Self {
        Self::new(self.width / 2, self.height / 2)
    }
}
