//! OpenH264's decoder, through its raw interface: the wrapper does not pass the number of a frame
//! through, by which a picture finds its time again behind the reordering.

use std::ptr::null_mut;

use openh264::OpenH264API;
use openh264::decoder::{Decoder as Cisco, DecoderConfig, Flush};
use openh264_sys2::{
    DECODER_OPTION_ERROR_CON_IDC, ERROR_CON_DISABLE, ERROR_CON_IDC, ERROR_CON_SLICE_COPY,
    SBufferInfo, dsDataErrorConcealed, dsRefLost,
};

use super::raw_frame::RawFrame;
use crate::FrameSize;

/// A decoder of one stream. It has no threads of its own.
pub(crate) struct Decoder {
    cisco: Cisco,
    /// Bits of a state with which a picture is taken nevertheless.
    pardoned: i32,
}

/// A decoded frame in the decoder's memory.
pub(crate) struct Decoded<'a> {
    pub(crate) frame: RawFrame<'a>,
    /// Number of the coded frame.
    pub(crate) number: u64,
}

impl Decoder {
    /// Creates a decoder; the error is OpenH264's text.
    pub(crate) fn new() -> Result<Self, String> {
        let config = DecoderConfig::new().flush_after_decode(Flush::NoFlush);
        let cisco = Cisco::with_api_config(OpenH264API::from_source(), config);
        let cisco = cisco.map_err(|error| error.to_string())?;
        Ok(Self { cisco, pardoned: 0 })
    }

    /// Sets whether pictures are made whose references are missing: a grey picture stands for them. A
    /// decoder that starts at a recovery point needs that, because the pictures until it has recovered
    /// refer to earlier ones. OpenH264 calls all later ones concealed, too.
    pub(crate) fn conceal(&mut self, conceals: bool) {
        let (mut method, pardoned) = match conceals {
            true => (ERROR_CON_SLICE_COPY, dsRefLost | dsDataErrorConcealed),
            false => (ERROR_CON_DISABLE, 0),
        };
        self.pardoned = pardoned;
        self.set_concealment(&mut method);
    }

    #[expect(unsafe_code, reason = "the wrapper does not offer the option")]
    fn set_concealment(&mut self, method: &mut ERROR_CON_IDC) {
        // SAFETY: the decoder is initialised, and reads a number of this type for this option during
        // the call; it is borrowed mutably, so no other call runs.
        let result = unsafe {
            self.cisco
                .raw_api()
                .set_option(DECODER_OPTION_ERROR_CON_IDC, (&raw mut *method).cast())
        };
        debug_assert_eq!(result, 0, "an initialised decoder takes the option");
    }

    /// Decodes the access unit `number`. Returns the next picture in the order of display, if it is
    /// known by now. Pictures are never flushed: `FlushFrame` of OpenH264 2.7 loses their buffers if
    /// the decoder has no threads.
    ///
    /// # Errors
    /// Returns OpenH264's state, a sum of bits.
    #[expect(unsafe_code, reason = "the wrapper hides the number of the picture")]
    pub(crate) fn decode(&mut self, unit: &[u8], number: u64) -> Result<Option<Decoded<'_>>, i32> {
        let Ok(bytes) = i32::try_from(unit.len()) else {
            return Err(-1);
        };
        let mut planes = [null_mut::<u8>(); 3];
        let mut info = SBufferInfo {
            // 0 stands for no number.
            uiInBsTimeStamp: number + 1,
            ..SBufferInfo::default()
        };
        // SAFETY: `unit` is valid for `bytes` bytes during the call, and the decoder copies what it
        // keeps of it; `planes` has room for the three pointers that it writes, `info` is a valid
        // structure, and the decoder is borrowed mutably, so no other call runs.
        let state = unsafe {
            self.cisco.raw_api().decode_frame_no_delay(
                unit.as_ptr(),
                bytes,
                planes.as_mut_ptr().cast(),
                &raw mut info,
            )
        };
        match state & !self.pardoned {
            0 => Ok(self.output(planes, &info)),
            _ => Err(state),
        }
    }

    /// Returns the picture that a call put out; it is valid until the next call, which needs the
    /// decoder mutably.
    #[expect(unsafe_code, reason = "the pictures are in the decoder's memory")]
    fn output(&mut self, planes: [*mut u8; 3], info: &SBufferInfo) -> Option<Decoded<'_>> {
        if info.iBufferStatus != 1 || planes.iter().any(|plane| plane.is_null()) {
            return None;
        }
        // SAFETY: with `iBufferStatus` 1 the decoder has filled in this member of the union.
        let buffer = unsafe { info.UsrData.sSystemBuffer };
        let known = |value: i32| usize::try_from(value).ok().filter(|value| *value > 0);
        let (width, height) = (known(buffer.iWidth)?, known(buffer.iHeight)?);
        let (stride, chroma_stride) = (known(buffer.iStride[0])?, known(buffer.iStride[1])?);
        if stride < width || chroma_stride < width / 2 || height < 2 {
            return None;
        }
        let plane = |plane: *mut u8, stride: usize, width: usize, rows: usize| {
            // SAFETY: the decoder's picture has `rows` rows, `stride` bytes apart, of which each has
            // `width` bytes (`SSysMEMBuffer`); nobody writes them before the decoder's next call,
            // which the borrow of the decoder prevents while the picture lives.
            unsafe { std::slice::from_raw_parts(plane, stride * (rows - 1) + width) }
        };
        let [y, u, v] = planes;
        let frame = RawFrame {
            planes: [
                plane(y, stride, width, height),
                plane(u, chroma_stride, width / 2, height / 2),
                plane(v, chroma_stride, width / 2, height / 2),
            ],
            strides: [stride, chroma_stride],
            size: FrameSize::new(width, height),
        };
        Some(Decoded {
            frame,
            number: info.uiOutYuvTimeStamp.wrapping_sub(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use openh264::formats::YUVSource as _;

    use super::*;

    /// The output of a decoder for a picture in memory: its size and both strides.
    fn info(status: i32, (width, height): (i32, i32), strides: [i32; 2]) -> SBufferInfo {
        let mut info = SBufferInfo {
            iBufferStatus: status,
            uiOutYuvTimeStamp: 8,
            ..SBufferInfo::default()
        };
        info.UsrData.sSystemBuffer = openh264_sys2::SSysMEMBuffer {
            iWidth: width,
            iHeight: height,
            iFormat: 23,
            iStride: strides,
        };
        info
    }

    #[test]
    fn frames_have_the_rows_that_the_decoder_states() {
        let mut decoder = Decoder::new().expect("a decoder");
        let mut memory: [Vec<u8>; 3] = [0, 60, 120].map(|first| (first..first + 56).collect());
        let planes = memory.each_mut().map(Vec::as_mut_ptr);
        for (size, strides, lengths) in [
            ((4, 4), [4, 2], [16, 4]),
            ((4, 4), [5, 3], [19, 5]),
            ((6, 2), [8, 4], [14, 3]),
            ((5, 5), [7, 2], [33, 4]),
            ((2, 8), [7, 9], [51, 28]),
        ] {
            let info = info(1, size, strides);
            let shown = decoder.output(planes, &info).expect("a picture");
            let bytes = |first: u8, count: u8| (first..first + count).collect::<Vec<_>>();
            assert_eq!(shown.frame.y(), bytes(0, lengths[0]), "{size:?}");
            assert_eq!(shown.frame.u(), bytes(60, lengths[1]), "{size:?}");
            assert_eq!(shown.frame.v(), bytes(120, lengths[1]), "{size:?}");
            let (width, height) = (size.0 as usize, size.1 as usize);
            assert_eq!(shown.frame.size, FrameSize::new(width, height));
            assert_eq!(shown.frame.dimensions(), (width, height));
            let [luminance, chrominance] = strides.map(|it| it as usize);
            assert_eq!(shown.frame.strides(), (luminance, chrominance, chrominance));
            assert_eq!(shown.number, 7, "numbers begin with 1");
        }
    }

    #[test]
    fn frames_that_contradict_themselves_are_none() {
        let mut decoder = Decoder::new().expect("a decoder");
        let mut memory = [(); 3].map(|()| vec![0; 64]);
        let planes = memory.each_mut().map(Vec::as_mut_ptr);
        for (status, size, strides) in [
            (0, (4, 4), [4, 2]),
            (2, (4, 4), [4, 2]),
            (1, (0, 4), [4, 2]),
            (1, (-4, 4), [4, 2]),
            (1, (4, 0), [4, 2]),
            (1, (4, 1), [4, 2]),
            (1, (4, 4), [0, 2]),
            (1, (4, 4), [3, 2]),
            (1, (4, 4), [2, 2]),
            (1, (4, 4), [4, 1]),
            (1, (8, 4), [8, 2]),
            (1, (1, 4), [4, 0]),
            (1, (4, 4), [4, -2]),
        ] {
            let info = info(status, size, strides);
            let shown = decoder.output(planes, &info);
            assert!(shown.is_none(), "{status} {size:?} {strides:?}");
        }
        let info = info(1, (4, 4), [4, 2]);
        for missing in 0..3 {
            let mut planes = planes;
            planes[missing] = null_mut();
            assert!(decoder.output(planes, &info).is_none(), "{missing}");
        }
    }
}
