//! The cases that are counted. Every case runs once uncounted, until windows are open and
//! buffers have their size, and once inside a function that callgrind finds by its name.

use std::hint::black_box;

use crate::transfer::Transfer;

/// A case by name.
pub(crate) struct Case {
    /// Name in the baseline, and of the case's function without [`PREFIX`].
    pub(crate) name: &'static str,
    /// Description of one operation.
    pub(crate) about: &'static str,
    /// Number of operations that are counted together.
    pub(crate) operations: usize,
    /// Bytes of a message.
    message_bytes: usize,
    /// Number of channels that take turns.
    channels: usize,
    counted: fn(&mut Transfer, usize) -> u64,
}

/// Prefix of the functions that callgrind counts.
pub(crate) const PREFIX: &str = "counted_";
/// Name of the function that resets the counts.
pub(crate) const FENCE: &str = "count_from_here";

/// Defines the function `counted_NAME`, which callgrind counts.
macro_rules! counted {
    ($($counted:ident;)*) => {
        $(
            #[inline(never)]
            fn $counted(transfer: &mut Transfer, messages: usize) -> u64 {
                // Work after the call prevents a tail call, in which the function would not be
                // seen; the name keeps functions of equal bodies from being merged.
                let arrived = black_box(transfer.run(messages));
                arrived.wrapping_add(black_box(stringify!($counted)).len() as u64)
            }
        )*
    };
}

counted! {
    counted_small;
    counted_channels;
    counted_bulk;
}

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "small",
        about: "16 bytes, both ends",
        operations: 50_000,
        message_bytes: 16,
        channels: 1,
        counted: counted_small,
    },
    Case {
        name: "channels",
        about: "the same, 8 channels",
        operations: 50_000,
        message_bytes: 16,
        channels: 8,
        counted: counted_channels,
    },
    Case {
        name: "bulk",
        about: "64 KiB, both ends",
        operations: 200,
        message_bytes: 64 << 10,
        channels: 1,
        counted: counted_bulk,
    },
];

/// Runs all cases; called in the child process under callgrind.
pub(crate) fn run() -> Result<(), String> {
    for case in CASES {
        let mut transfer = Transfer::new(case.message_bytes, case.channels)?;
        transfer.run(case.operations);
        count_from_here();
        black_box((case.counted)(&mut transfer, case.operations));
    }
    Ok(())
}

/// Callgrind writes the counts until here to a file of their own.
#[inline(never)]
fn count_from_here() {
    black_box(());
}
