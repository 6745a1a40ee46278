//! Pictures made smaller: each sample is the mean of those that it covers, weighted by how much.
//!
//! ```text
//! rows of the source ─ weights of a row ─► one line of sums ─ weights of a column ─► row of the picture
//! ```

use openh264::formats::YUVSource;

use crate::FrameSize;

/// Sum of the weights of a sample: 8 bits, so that two passes over samples of 8 bits fit 24.
const WEIGHTS: usize = 256;

/// A picture in a smaller size, made of larger ones one after the other.
pub(super) struct Scaler {
    luminance: PlaneScaler,
    chrominance: PlaneScaler,
    frame: ScaledFrame,
}

/// A picture of 8 bits and 4:2:0 in memory of its own.
pub(super) struct ScaledFrame {
    size: FrameSize,
    planes: [Vec<u8>; 3],
}

/// The way from one size of a plane to a smaller one.
struct PlaneScaler {
    rows: Spans,
    columns: Spans,
    /// Weighted sums of the rows that one row covers.
    line: Vec<u16>,
}

/// The samples that each sample of a smaller line covers, and their weights.
struct Spans {
    from: usize,
    /// For each sample, the first that it covers, and the place of that one's weight.
    firsts: Vec<(usize, usize)>,
    weights: Vec<u16>,
}

impl Scaler {
    /// Prepares to make pictures of `from` into pictures of `to`. Both have an even width and height, and
    /// `to` is in no direction the larger one.
    pub(super) fn new(from: FrameSize, to: FrameSize) -> Self {
        let (half_from, half_to) = (from.half(), to.half());
        let plane = |size: FrameSize| vec![0; size.pixels()];
        Self {
            luminance: PlaneScaler::new(from, to),
            chrominance: PlaneScaler::new(half_from, half_to),
            frame: ScaledFrame {
                size: to,
                planes: [plane(to), plane(half_to), plane(half_to)],
            },
        }
    }

    /// Returns whether the scaler takes pictures of `size`.
    pub(super) fn takes(&self, size: FrameSize) -> bool {
        let PlaneScaler { rows, columns, .. } = &self.luminance;
        FrameSize::new(columns.from, rows.from) == size
    }

    /// Makes the picture of `source`, which has the size that was prepared for.
    pub(super) fn scale(&mut self, source: &impl YUVSource) {
        let (stride, u_stride, v_stride) = source.strides();
        let [y, u, v] = &mut self.frame.planes;
        self.luminance.scale(source.y(), stride, y);
        self.chrominance.scale(source.u(), u_stride, u);
        self.chrominance.scale(source.v(), v_stride, v);
    }

    /// Returns the picture that was made last.
    pub(super) const fn frame(&self) -> &ScaledFrame {
        &self.frame
    }
}

impl YUVSource for ScaledFrame {
    fn dimensions(&self) -> (usize, usize) {
        (self.size.width, self.size.height)
    }

    fn strides(&self) -> (usize, usize, usize) {
        let half = self.size.width / 2;
        (self.size.width, half, half)
    }

    fn y(&self) -> &[u8] {
        &self.planes[0]
    }

    fn u(&self) -> &[u8] {
        &self.planes[1]
    }

    fn v(&self) -> &[u8] {
        &self.planes[2]
    }
}

impl PlaneScaler {
    fn new(from: FrameSize, to: FrameSize) -> Self {
        Self {
            rows: Spans::new(from.height, to.height),
            columns: Spans::new(from.width, to.width),
            line: vec![0; from.width],
        }
    }

    fn scale(&mut self, source: &[u8], stride: usize, to: &mut [u8]) {
        let (width, columns) = (self.columns.from, &self.columns);
        let rows = to.chunks_exact_mut(columns.firsts.len());
        for (y, row) in rows.enumerate() {
            self.line.fill(0);
            let (first, weights) = self.rows.of(y);
            for (covered, weight) in weights.iter().enumerate() {
                let start = (first + covered) * stride;
                let covered = &source[start..start + width];
                for (sum, sample) in self.line.iter_mut().zip(covered) {
                    // At most 255 times the weights of a sample: 65,280.
                    *sum += u16::from(*sample) * weight;
                }
            }
            for (x, sample) in row.iter_mut().enumerate() {
                let (first, weights) = columns.of(x);
                let sums = &self.line[first..first + weights.len()];
                let weighted = sums.iter().zip(weights);
                let weighted = weighted.map(|(sum, weight)| u32::from(*sum) * u32::from(*weight));
                let mean = (weighted.sum::<u32>() + (1 << 15)) >> 16;
                *sample = u8::try_from(mean).unwrap_or(u8::MAX);
            }
        }
    }
}

impl Spans {
    /// Divides `from` samples among `to` samples, which are no more.
    fn new(from: usize, to: usize) -> Self {
        let mut spans = Self {
            from,
            firsts: Vec::with_capacity(to),
            weights: Vec::new(),
        };
        for at in 0..to {
            // In parts of a sample, of which each has `to`.
            let (start, end) = (at * from, (at + 1) * from);
            let (first, last) = (start / to, (end - 1) / to);
            spans.firsts.push((first, spans.weights.len()));
            let mut given = 0;
            for sample in first..=last {
                let covered = end.min((sample + 1) * to) - start;
                // What rounding takes from one sample the next one gets.
                let due = covered * WEIGHTS / from;
                spans.weights.push(u16::try_from(due - given).unwrap_or(0));
                given = due;
            }
        }
        spans
    }

    /// Returns the first sample that sample `at` covers, and the weights from that one on.
    fn of(&self, at: usize) -> (usize, &[u16]) {
        let (first, start) = self.firsts[at];
        let end = self
            .firsts
            .get(at + 1)
            .map_or(self.weights.len(), |it| it.1);
        (first, &self.weights[start..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture whose luminance rises from column to column, and whose rows are `stride` apart.
    struct Rising {
        size: FrameSize,
        stride: usize,
        y: Vec<u8>,
        chrominance: Vec<u8>,
    }

    impl Rising {
        fn new(size: FrameSize, stride: usize) -> Self {
            let sample = |at: usize| u8::try_from(at % stride * 200 / size.width).unwrap_or(255);
            Self {
                size,
                stride,
                y: (0..stride * size.height).map(sample).collect(),
                chrominance: vec![77; stride * size.height / 2],
            }
        }
    }

    impl YUVSource for Rising {
        fn dimensions(&self) -> (usize, usize) {
            (self.size.width, self.size.height)
        }
        fn strides(&self) -> (usize, usize, usize) {
            (self.stride, self.stride, self.stride)
        }
        fn y(&self) -> &[u8] {
            &self.y
        }
        fn u(&self) -> &[u8] {
            &self.chrominance
        }
        fn v(&self) -> &[u8] {
            &self.chrominance
        }
    }

    #[test]
    fn a_smaller_frame_has_the_brightness_of_the_larger_one_in_each_place() {
        let from = FrameSize::new(192, 108);
        for to in [
            FrameSize::new(128, 72),
            FrameSize::new(96, 54),
            FrameSize::new(64, 36),
            FrameSize::new(50, 28),
            FrameSize::new(192, 108),
            FrameSize::new(2, 2),
        ] {
            let mut scaler = Scaler::new(from, to);
            assert!(scaler.takes(from) && !scaler.takes(FrameSize::new(192, 106)));
            scaler.scale(&Rising::new(from, 200));
            let frame = scaler.frame();
            assert_eq!(frame.dimensions(), (to.width, to.height));
            for (place, sample) in frame.y().iter().enumerate() {
                let middle = (place % to.width * 2 + 1) * 200 / (to.width * 2);
                let apart = middle.abs_diff(usize::from(*sample));
                assert!(apart <= 2, "{to:?} at {place}: {sample}, not {middle}");
            }
            let [u, v] = [frame.u(), frame.v()];
            assert!(u.iter().chain(v).all(|it| *it == 77), "{to:?}");
        }
    }

    #[test]
    fn the_weights_of_each_sample_are_whole() {
        for (from, to) in [
            (1080, 720),
            (1080, 540),
            (1080, 500),
            (7, 7),
            (5, 3),
            (9, 1),
            (1919, 2),
        ] {
            let spans = Spans::new(from, to);
            let mut next = 0;
            for at in 0..to {
                let (first, weights) = spans.of(at);
                let sum: usize = weights.iter().copied().map(usize::from).sum();
                assert_eq!(sum, WEIGHTS, "{at} of {to} from {from}");
                assert!(first == next || first + 1 == next, "no gap");
                next = first + weights.len();
            }
            assert_eq!(next, from);
        }
    }
}
