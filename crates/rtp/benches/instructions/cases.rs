//! The cases that are counted. Every case runs once uncounted, until buffers have their size, and
//! once inside a function that callgrind finds by its name.

use std::hint::black_box;

use glassline_media::Codec;

use crate::camera::Camera;

/// A case by name.
pub(crate) struct Case {
    /// Name in the baseline, and of the case's function without [`PREFIX`].
    pub(crate) name: &'static str,
    /// Description of one operation.
    pub(crate) about: &'static str,
    /// Number of operations that are counted together.
    pub(crate) operations: usize,
    codec: Codec,
    counted: fn(&mut Camera, usize) -> u64,
}

/// Prefix of the functions that callgrind counts.
pub(crate) const PREFIX: &str = "counted_";
/// Name of the function that resets the counts.
pub(crate) const FENCE: &str = "count_from_here";

/// Number of packets of each case.
const PACKETS: usize = 9_000;

/// Defines the function `counted_NAME`, which callgrind counts.
macro_rules! counted {
    ($($counted:ident;)*) => {
        $(
            #[inline(never)]
            fn $counted(camera: &mut Camera, packets: usize) -> u64 {
                // Work after the call prevents a tail call, in which the function would not be
                // seen; the name keeps functions of equal bodies from being merged.
                let received = black_box(camera.send(packets));
                received.wrapping_add(black_box(stringify!($counted)).len() as u64)
            }
        )*
    };
}

counted! {
    counted_h264;
    counted_h265;
    counted_opus;
}

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "h264",
        about: "H.264 of 2.5 Mbit/s",
        operations: PACKETS,
        codec: Codec::H264,
        counted: counted_h264,
    },
    Case {
        name: "h265",
        about: "H.265 of 2.5 Mbit/s",
        operations: PACKETS,
        codec: Codec::H265,
        counted: counted_h265,
    },
    Case {
        name: "opus",
        about: "Opus of 64 kbit/s",
        operations: PACKETS,
        codec: Codec::Opus,
        counted: counted_opus,
    },
];

/// Runs all cases; called in the child process under callgrind.
pub(crate) fn run() -> Result<(), String> {
    for case in CASES {
        let mut camera = Camera::new(case.codec)?;
        camera.send(case.operations);
        count_from_here();
        black_box((case.counted)(&mut camera, case.operations));
    }
    Ok(())
}

/// Callgrind writes the counts until here to a file of their own.
#[inline(never)]
fn count_from_here() {
    black_box(());
}
