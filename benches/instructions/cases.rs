//! The cases that are counted. Every case runs once uncounted, to fill caches and pools, and once
//! inside a function that callgrind finds by its name.

use std::hint::black_box;

use crate::lab::{Lab, PACKETS, SESSIONS};

/// A case by name.
pub(crate) struct Case {
    /// Name in the baseline, and of the case's function without [`PREFIX`].
    pub(crate) name: &'static str,
    /// Description of one operation.
    pub(crate) about: &'static str,
    /// Number of operations that are counted together.
    pub(crate) operations: usize,
    run: fn(&mut Lab) -> u64,
    counted: fn(&mut Lab) -> u64,
}

/// Prefix of the functions that callgrind counts.
pub(crate) const PREFIX: &str = "counted_";
/// Name of the function that resets the counts.
pub(crate) const FENCE: &str = "count_from_here";

/// Defines the function `counted_NAME`, which callgrind counts.
macro_rules! counted {
    ($($counted:ident => $run:ident;)*) => {
        $(
            #[inline(never)]
            fn $counted(lab: &mut Lab) -> u64 {
                // Work after the call prevents a tail call, in which the function would not be
                // seen.
                black_box(lab.$run()).wrapping_add(1)
            }
        )*
    };
}

counted! {
    counted_seal => seal;
    counted_send => send;
    counted_retransmit => retransmit;
    counted_report => receiver_reports;
    counted_feedback => transport_feedback;
    counted_stun => keep_alives;
    counted_rtsp => write_to_rtsp_clients;
    counted_rtp => depacketize;
}

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "seal",
        about: "seal a packet",
        operations: SESSIONS * PACKETS,
        run: Lab::seal,
        counted: counted_seal,
    },
    Case {
        name: "send",
        about: "seal and send one",
        operations: SESSIONS * PACKETS,
        run: Lab::send,
        counted: counted_send,
    },
    Case {
        name: "retransmit",
        about: "seal one again (RTX)",
        operations: SESSIONS,
        run: Lab::retransmit,
        counted: counted_retransmit,
    },
    Case {
        name: "report",
        about: "a receiver report",
        operations: SESSIONS,
        run: Lab::receiver_reports,
        counted: counted_report,
    },
    Case {
        name: "feedback",
        about: "a TWCC feedback, under congestion control",
        operations: SESSIONS,
        run: Lab::transport_feedback,
        counted: counted_feedback,
    },
    Case {
        name: "stun",
        about: "a STUN keep-alive",
        operations: SESSIONS,
        run: Lab::keep_alives,
        counted: counted_stun,
    },
    Case {
        name: "rtsp",
        about: "a packet to RTSP/TCP",
        operations: SESSIONS * PACKETS,
        run: Lab::write_to_rtsp_clients,
        counted: counted_rtsp,
    },
    Case {
        name: "rtp",
        about: "depacketize a packet",
        operations: SESSIONS * PACKETS,
        run: Lab::depacketize,
        counted: counted_rtp,
    },
];

/// Runs all cases; called in the child process under callgrind.
pub(crate) fn run() -> Result<(), String> {
    let mut lab = Lab::new()?;
    for case in CASES {
        (case.run)(&mut lab);
        lab.refill();
        count_from_here();
        black_box((case.counted)(&mut lab));
        lab.refill();
    }
    Ok(())
}

/// Callgrind writes the counts until here to a file of their own.
#[inline(never)]
fn count_from_here() {
    black_box(());
}
