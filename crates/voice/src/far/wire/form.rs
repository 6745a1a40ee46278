//! What a message is, in either direction: its kinds, its bounds, and what was told last.

use std::time::Duration;

use thiserror::Error;

use crate::stamps::{Record, SignalDelay};

/// The version that is spoken here.
pub const VERSION: u8 = 1;

/// Bytes of a message that is taken; those that are made are shorter.
pub const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// Records of a message.
pub(super) const RECORDS_MAX: usize = 1024;
/// What is made fits into a packet of the association.
pub(super) const MADE_BYTES: usize = 1_000;
/// 146 years after the epoch: sums of such do not overflow.
pub(super) const STAMP_NS_MAX: u64 = 1 << 62;
/// Between the first time of a record and any other.
pub(super) const SPAN_NS_MAX: u64 = 60_000_000_000;
/// What a packet may hold, and what a filter may delay.
pub(super) const AUDIO_MAX: Duration = Duration::from_secs(1);
/// What decoding may take, for instance while a machine sleeps.
pub(super) const OPERATION_MAX: Duration = Duration::from_secs(60);

pub(super) const HELLO: u8 = 1;
pub(super) const RECORDS: u8 = 2;
pub(super) const ASKS: u8 = 1;
pub(super) const ALONE: u8 = 2;

pub(super) const SPOKEN: u8 = 1;
pub(super) const HEARD: u8 = 2;
pub(super) const CAME_AGAIN: u8 = 3;
pub(super) const CAPTURE_CALLED: u8 = 4;
pub(super) const PLAYOUT_CALLED: u8 = 5;

/// Why a message is none of ours: the far end's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Longer than [`MESSAGE_BYTES_MAX`].
    #[error("a message of {bytes} bytes; {MESSAGE_BYTES_MAX} is the most")]
    TooLong {
        /// So long.
        bytes: usize,
    },
    /// It ends where more must come.
    #[error("a message that ends within {what}")]
    Truncated {
        /// Within this.
        what: &'static str,
    },
    /// Another version of this protocol, or something else.
    #[error("version {theirs} of stamps; {VERSION} is spoken here")]
    Version {
        /// Theirs.
        theirs: u8,
    },
    /// No such message, or no such record.
    #[error("{kind} is no kind of {of}")]
    Kind {
        /// Theirs.
        kind: u8,
        /// Of what.
        of: &'static str,
    },
    /// A value that cannot be.
    #[error("{what} of {value} is out of range")]
    OutOfRange {
        /// Of this.
        what: &'static str,
        /// Theirs.
        value: u64,
    },
    /// More records than a message may have.
    #[error("more than {RECORDS_MAX} records in a message")]
    TooMany,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The first of each end.
    Hello {
        /// It wants to be told records.
        asks: bool,
        /// It has heard no hello yet.
        is_alone: bool,
    },
    /// What happened at that end.
    Records {
        /// How many it could not tell so far.
        dropped: u64,
        /// In the order in which they came about.
        records: Vec<Record<u64>>,
    },
}

/// What differences are from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Last {
    pub(super) at: u64,
    pub(super) ssrc: u32,
    pub(super) spoken: u64,
    pub(super) duration: u64,
    pub(super) spoken_signal: [u64; 3],
    pub(super) heard: u64,
    pub(super) sequence: u64,
    pub(super) heard_signal: [u64; 3],
}

/// Everything in a record that could be of any size.
pub(super) fn check(record: &Record<u64>) -> Result<(), Malformed> {
    let first = record.at();
    let mut is_possible = first < STAMP_NS_MAX;
    let mut furthest = first;
    // Nothing is made of it: only looked at.
    let _ = record.placed(|at| {
        is_possible &= at < STAMP_NS_MAX && at.abs_diff(first) <= SPAN_NS_MAX;
        if at.abs_diff(first) > furthest.abs_diff(first) {
            furthest = at;
        }
        Some(at)
    });
    if !is_possible {
        let what = "a time";
        return Err(Malformed::OutOfRange {
            what,
            value: furthest,
        });
    }
    let at_most = |most: Duration, what, all: &[Duration]| {
        let over = all.iter().find(|it| **it > most);
        over.map_or(Ok(()), |over| {
            let value = ns(*over);
            Err(Malformed::OutOfRange { what, value })
        })
    };
    let audio = |signal: SignalDelay| {
        let parts = [signal.resample, signal.preprocess, signal.encode];
        at_most(AUDIO_MAX, "a signal's delay", &parts)
    };
    match record {
        Record::Spoken(_, it) => {
            audio(it.signal)?;
            at_most(AUDIO_MAX, "a duration", &[it.duration])
        }
        Record::Heard(it) => {
            audio(it.signal)?;
            let took = [it.decode, it.mix, it.resample];
            at_most(OPERATION_MAX, "an operation", &took)
        }
        _ => Ok(()),
    }
}

pub(super) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
