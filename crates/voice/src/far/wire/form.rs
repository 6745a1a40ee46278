//! Message types and bounds, shared by reading and writing.

use std::time::Duration;

use thiserror::Error;

use crate::stamps::{Record, SignalDelay};

/// Version of the protocol.
pub const VERSION: u8 = 1;

/// Longest message that is accepted, in bytes; messages made here are shorter.
pub const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// Most records in a message.
pub(super) const RECORDS_MAX: usize = 1024;
/// Longest message that is made, in bytes; it fits into one packet of the SCTP association.
pub(super) const MADE_BYTES: usize = 1_000;
/// Bound on stamps, in ns: 146 years after the epoch. Sums of two do not overflow.
pub(super) const STAMP_NS_MAX: u64 = 1 << 62;
/// Largest difference between the first time of a record and any other, in ns.
pub(super) const SPAN_NS_MAX: u64 = 60_000_000_000;
/// Longest audio in a packet and longest delay of a filter.
pub(super) const AUDIO_MAX: Duration = Duration::from_secs(1);
/// Longest duration of decoding, mixing or resampling; a machine may sleep meanwhile.
pub(super) const OPERATION_MAX: Duration = Duration::from_secs(60);

/// Type number of a hello message.
pub(super) const HELLO: u8 = 1;
/// Type number of a message with records.
pub(super) const RECORDS: u8 = 2;
/// Flag of a hello: the sender wants records.
pub(super) const WANTS_RECORDS: u8 = 1;
/// Flag of a hello: the sender has received no hello.
pub(super) const WANTS_HELLO: u8 = 2;

pub(super) const SENT: u8 = 1;
pub(super) const PLAYED: u8 = 2;
pub(super) const DUPLICATE: u8 = 3;
pub(super) const CAPTURE_CALLED: u8 = 4;
pub(super) const PLAYOUT_CALLED: u8 = 5;

/// The reason why a message is malformed, a fault of the far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The message is longer than [`MESSAGE_BYTES_MAX`].
    #[error("a message of {bytes} bytes; at most {MESSAGE_BYTES_MAX} are accepted")]
    TooLong {
        /// Length of the message, in bytes.
        bytes: usize,
    },
    /// The message ends within a field.
    #[error("the message ends within {what}")]
    Truncated {
        /// Name of the field.
        what: &'static str,
    },
    /// The message has another version of this protocol, or is none of it.
    #[error("protocol version {theirs}; this end has version {VERSION}")]
    Version {
        /// Version in the message.
        theirs: u8,
    },
    /// A type that is not defined: of a message, a record, a reason or an operation.
    #[error("{kind} is not a known {of}")]
    Kind {
        /// Number in the message.
        kind: u8,
        /// The item that the number should name.
        of: &'static str,
    },
    /// A value outside its bounds.
    #[error("{what} of {value} is out of range")]
    OutOfRange {
        /// Name of the field.
        what: &'static str,
        /// Value in the message.
        value: u64,
    },
    /// The message has more records than one may have.
    #[error("more than {RECORDS_MAX} records in a message")]
    TooMany,
}

/// A message between the two ends of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// First message of each end.
    Hello {
        /// Whether the sender wants records.
        wants_records: bool,
        /// Whether the sender has received no hello yet.
        wants_hello: bool,
    },
    /// Records of the sender.
    Records {
        /// Records that the sender could not send so far.
        dropped: u64,
        /// Records in the order in which they were made.
        records: Vec<Record<u64>>,
    },
}

/// Previous values, which the differences in a message refer to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Last {
    pub(super) at: u64,
    pub(super) ssrc: u32,
    pub(super) sent: u64,
    pub(super) duration: u64,
    pub(super) sent_signal: [u64; 3],
    pub(super) played: u64,
    pub(super) sequence: u64,
    pub(super) played_signal: [u64; 3],
}

/// Checks the values of a record that could have any size.
pub(super) fn check(record: &Record<u64>) -> Result<(), Malformed> {
    let first = record.at();
    let mut is_possible = first < STAMP_NS_MAX;
    let mut furthest = first;
    // The converted record is not needed: only its times are checked.
    let _ = record.map_times(|at| {
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
        Record::Sent(_, it) => {
            audio(it.signal)?;
            at_most(AUDIO_MAX, "a duration", &[it.duration])
        }
        Record::Played(it) => {
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
