//! Records as bytes: what one message of the reliable channel is.
//!
//! ```text
//! message   version (1) · 1 · flags                              hello; flag 1: tell me your records, 2: say hello
//!           version (1) · 2 · dropped · base · record, record …  at most 1,024
//! record    1 spoken · 2 heard · 3 came again · 4 capture called · 5 playout called, then its fields
//! ```
//!
//! Numbers are LEB128, signed ones zigzag. A time is the difference from the one before it
//! in the message, in nanoseconds; the first is from `base`, which is since the teller's
//! epoch. What rarely changes is told as the difference from the record before: a frame
//! takes about 40 bytes.
//!
//! Whatever is outside of its bounds makes the whole message [`Malformed`].

use std::time::Duration;

use glassline_media::Ssrc;
use thiserror::Error;

use crate::stamps::{Again, CameAgain, Heard, Operation, Record, SignalDelay, Spoken};

/// The version that is spoken here.
pub const VERSION: u8 = 1;

/// Bytes of a message that is taken; those that are made are shorter.
pub const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// Records of a message.
const RECORDS_MAX: usize = 1024;
/// What is made fits into a packet of the association.
const MADE_BYTES: usize = 1_000;
/// 146 years after the epoch: sums of such do not overflow.
const STAMP_NS_MAX: u64 = 1 << 62;
/// Between the first time of a record and any other.
const SPAN_NS_MAX: u64 = 60_000_000_000;
/// What a packet may hold, and what a filter may delay.
const SOUND_MAX: Duration = Duration::from_secs(1);
/// What decoding may take, for instance while a machine sleeps.
const OPERATION_MAX: Duration = Duration::from_secs(60);

const HELLO: u8 = 1;
const RECORDS: u8 = 2;
const ASKS: u8 = 1;
const ALONE: u8 = 2;

const SPOKEN: u8 = 1;
const HEARD: u8 = 2;
const CAME_AGAIN: u8 = 3;
const CAPTURE_CALLED: u8 = 4;
const PLAYOUT_CALLED: u8 = 5;

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

/// The first message of an end. `is_alone`: it has heard no hello itself, and wants one.
pub fn hello(asks: bool, is_alone: bool) -> Vec<u8> {
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let flags = flag(asks, ASKS) | flag(is_alone, ALONE);
    vec![VERSION, HELLO, flags]
}

/// Reads a message.
///
/// # Errors
/// What is wrong with it; nothing of it counts then.
pub fn parse(message: &[u8]) -> Result<Message, Malformed> {
    let bytes = message.len();
    if bytes > MESSAGE_BYTES_MAX {
        return Err(Malformed::TooLong { bytes });
    }
    let mut reader = Reader {
        rest: message,
        last: Last::default(),
    };
    let theirs = reader.byte("a version")?;
    if theirs != VERSION {
        return Err(Malformed::Version { theirs });
    }
    match reader.byte("a kind")? {
        HELLO => {
            let flags = reader.byte("a hello")?;
            // Flags of later versions, and what follows them, are no concern of ours.
            Ok(Message::Hello {
                asks: flags & ASKS != 0,
                is_alone: flags & ALONE != 0,
            })
        }
        RECORDS => reader.records(),
        kind => Err(Malformed::Kind {
            kind,
            of: "message",
        }),
    }
}

/// A message of records that is being made.
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    last: Last,
    records: usize,
}

/// Why a record is not in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unwritten {
    /// It belongs into the next.
    #[error("the message is full")]
    Full,
    /// No far end would take it: a clock jumped, or a machine slept.
    #[error("the record has values that cannot be told")]
    OutOfRange,
}

impl Writer {
    /// Begins a message: so many records were not told so far, and times are about `base`.
    pub fn new(dropped: u64, base: u64) -> Self {
        let mut writer = Self {
            bytes: vec![VERSION, RECORDS],
            last: Last {
                at: base.min(STAMP_NS_MAX - 1),
                ..Last::default()
            },
            records: 0,
        };
        writer.number(dropped);
        writer.number(writer.last.at);
        writer
    }

    /// Appends a record.
    ///
    /// # Errors
    /// The message stays as it was.
    pub fn push(&mut self, record: &Record<u64>) -> Result<(), Unwritten> {
        if self.records == RECORDS_MAX {
            return Err(Unwritten::Full);
        }
        check(record).map_err(|_| Unwritten::OutOfRange)?;
        let (length, last) = (self.bytes.len(), self.last);
        self.record(record);
        if self.bytes.len() > MADE_BYTES {
            self.bytes.truncate(length);
            self.last = last;
            return Err(Unwritten::Full);
        }
        self.records += 1;
        Ok(())
    }

    /// Nothing is in it.
    pub const fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// The message.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    fn record(&mut self, record: &Record<u64>) {
        match record {
            Record::Spoken(ssrc, it) => self.spoken(*ssrc, it),
            Record::Heard(it) => self.heard(it),
            Record::CameAgain(it) => {
                self.bytes.push(CAME_AGAIN);
                self.ssrc(it.ssrc);
                self.number(it.timestamp.into());
                self.time(it.at);
                self.bytes.push(match it.why {
                    Again::Duplicate => 0,
                    Again::Retransmission => 1,
                    Again::Redundant => 2,
                    Again::Late => 3,
                });
            }
            Record::CaptureCalled(at) => {
                self.bytes.push(CAPTURE_CALLED);
                self.time(*at);
            }
            Record::PlayoutCalled(at) => {
                self.bytes.push(PLAYOUT_CALLED);
                self.time(*at);
            }
        }
    }

    fn spoken(&mut self, ssrc: Ssrc, it: &Spoken<u64>) {
        let steps = [it.enqueued, it.paced, it.handed_over, it.dequeued, it.sent];
        let mut flags = u8::from(it.encoded_something) << 5;
        for (place, step) in steps.iter().enumerate() {
            flags |= u8::from(step.is_some()) << place;
        }
        self.bytes.extend([SPOKEN, flags]);
        self.ssrc(ssrc);
        self.change(it.timestamp, |last| &mut last.spoken);
        self.change(ns(it.duration), |last| &mut last.duration);
        self.signal(it.signal, |last| &mut last.spoken_signal);
        let first = [
            it.captured,
            it.delivered,
            it.framed,
            it.preprocessed,
            it.encode_began,
            it.encoded,
        ];
        for at in first.into_iter().chain(steps.into_iter().flatten()) {
            self.time(at);
        }
    }

    fn heard(&mut self, it: &Heard<u64>) {
        let operation = match it.operation {
            Operation::Normal => 0,
            Operation::Late => 1,
            Operation::Repeated => 2,
        };
        let flags = operation << 1 | u8::from(it.sequence.is_some());
        self.bytes.extend([HEARD, flags]);
        self.ssrc(it.ssrc);
        self.change(it.timestamp, |last| &mut last.heard);
        if let Some(sequence) = it.sequence {
            self.change(sequence.into(), |last| &mut last.sequence);
        }
        self.signal(it.signal, |last| &mut last.heard_signal);
        for at in [
            it.arrived,
            it.opened,
            it.inserted,
            it.pulled,
            it.called,
            it.played,
        ] {
            self.time(at);
        }
        for took in [it.decode, it.mix, it.resample] {
            self.number(ns(took));
        }
    }

    fn signal(&mut self, signal: SignalDelay, of: fn(&mut Last) -> &mut [u64; 3]) {
        let parts = [signal.resample, signal.preprocess, signal.encode];
        for (place, part) in parts.map(ns).into_iter().enumerate() {
            let last = std::mem::replace(&mut of(&mut self.last)[place], part);
            self.signed(part.wrapping_sub(last));
        }
    }

    fn ssrc(&mut self, ssrc: Ssrc) {
        let last = std::mem::replace(&mut self.last.ssrc, ssrc.0);
        self.number((ssrc.0 ^ last).into());
    }

    fn time(&mut self, at: u64) {
        self.change(at, |last| &mut last.at);
    }

    fn change(&mut self, value: u64, of: fn(&mut Last) -> &mut u64) {
        let last = std::mem::replace(of(&mut self.last), value);
        self.signed(value.wrapping_sub(last));
    }

    /// Zigzag: small numbers of either sign are short.
    fn signed(&mut self, difference: u64) {
        let signed = difference.cast_signed();
        self.number((signed << 1 ^ signed >> 63).cast_unsigned());
    }

    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

/// What differences are from.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    at: u64,
    ssrc: u32,
    spoken: u64,
    duration: u64,
    spoken_signal: [u64; 3],
    heard: u64,
    sequence: u64,
    heard_signal: [u64; 3],
}

struct Reader<'a> {
    rest: &'a [u8],
    last: Last,
}

impl Reader<'_> {
    fn records(&mut self) -> Result<Message, Malformed> {
        let dropped = self.number("what was dropped")?;
        self.last.at = self.number("a base")?;
        let mut records = Vec::new();
        while !self.rest.is_empty() {
            if records.len() == RECORDS_MAX {
                return Err(Malformed::TooMany);
            }
            let record = self.record()?;
            check(&record)?;
            records.push(record);
        }
        Ok(Message::Records { dropped, records })
    }

    fn record(&mut self) -> Result<Record<u64>, Malformed> {
        Ok(match self.byte("a record")? {
            SPOKEN => self.spoken()?,
            HEARD => Record::Heard(self.heard()?),
            CAME_AGAIN => Record::CameAgain(CameAgain {
                ssrc: self.ssrc()?,
                timestamp: self.within(u32::MAX.into(), "a timestamp")? as u32,
                at: self.time()?,
                why: match self.byte("a reason")? {
                    0 => Again::Duplicate,
                    1 => Again::Retransmission,
                    2 => Again::Redundant,
                    3 => Again::Late,
                    kind => return Err(Malformed::Kind { kind, of: "reason" }),
                },
            }),
            CAPTURE_CALLED => Record::CaptureCalled(self.time()?),
            PLAYOUT_CALLED => Record::PlayoutCalled(self.time()?),
            kind => return Err(Malformed::Kind { kind, of: "record" }),
        })
    }

    fn spoken(&mut self) -> Result<Record<u64>, Malformed> {
        let flags = self.byte("flags")?;
        if flags >= 1 << 6 {
            let of = "frame";
            return Err(Malformed::Kind { kind: flags, of });
        }
        let ssrc = self.ssrc()?;
        let timestamp = self.change("a timestamp", |last| &mut last.spoken)?;
        let duration = self.change("a duration", |last| &mut last.duration)?;
        let signal = self.signal(|last| &mut last.spoken_signal)?;
        let mut spoken = Spoken {
            timestamp,
            duration: Duration::from_nanos(duration),
            captured: self.time()?,
            delivered: self.time()?,
            framed: self.time()?,
            preprocessed: self.time()?,
            encode_began: self.time()?,
            encoded: self.time()?,
            enqueued: None,
            paced: None,
            handed_over: None,
            dequeued: None,
            sent: None,
            signal,
            encoded_something: flags & 1 << 5 != 0,
        };
        let steps = [
            &mut spoken.enqueued,
            &mut spoken.paced,
            &mut spoken.handed_over,
            &mut spoken.dequeued,
            &mut spoken.sent,
        ];
        for (place, step) in steps.into_iter().enumerate() {
            if flags & 1 << place != 0 {
                *step = Some(self.time()?);
            }
        }
        Ok(Record::Spoken(ssrc, spoken))
    }

    fn heard(&mut self) -> Result<Heard<u64>, Malformed> {
        let flags = self.byte("flags")?;
        let operation = match flags >> 1 {
            0 => Operation::Normal,
            1 => Operation::Late,
            2 => Operation::Repeated,
            kind => {
                let of = "operation";
                return Err(Malformed::Kind { kind, of });
            }
        };
        let ssrc = self.ssrc()?;
        let timestamp = self.change("a timestamp", |last| &mut last.heard)?;
        let mut sequence = None;
        if flags & 1 != 0 {
            let value = self.change("a sequence number", |last| &mut last.sequence)?;
            let what = "a sequence number";
            let number = u16::try_from(value);
            sequence = Some(number.map_err(|_| Malformed::OutOfRange { what, value })?);
        }
        let signal = self.signal(|last| &mut last.heard_signal)?;
        let heard = Heard {
            ssrc,
            timestamp,
            sequence,
            arrived: self.time()?,
            opened: self.time()?,
            inserted: self.time()?,
            pulled: self.time()?,
            decode: Duration::ZERO,
            mix: Duration::ZERO,
            resample: Duration::ZERO,
            called: self.time()?,
            played: self.time()?,
            operation,
            signal,
        };
        Ok(Heard {
            decode: Duration::from_nanos(self.number("an operation")?),
            mix: Duration::from_nanos(self.number("an operation")?),
            resample: Duration::from_nanos(self.number("an operation")?),
            ..heard
        })
    }

    fn signal(&mut self, of: fn(&mut Last) -> &mut [u64; 3]) -> Result<SignalDelay, Malformed> {
        let mut parts = [Duration::ZERO; 3];
        for (place, part) in parts.iter_mut().enumerate() {
            let difference = self.signed("a signal's delay")?;
            let last = &mut of(&mut self.last)[place];
            *last = last.wrapping_add(difference);
            *part = Duration::from_nanos(*last);
        }
        let [resample, preprocess, encode] = parts;
        Ok(SignalDelay {
            resample,
            preprocess,
            encode,
        })
    }

    fn ssrc(&mut self) -> Result<Ssrc, Malformed> {
        let difference = self.within(u32::MAX.into(), "an SSRC")?;
        self.last.ssrc ^= difference as u32;
        Ok(Ssrc(self.last.ssrc))
    }

    fn time(&mut self) -> Result<u64, Malformed> {
        self.change("a time", |last| &mut last.at)
    }

    fn change(
        &mut self,
        what: &'static str,
        of: fn(&mut Last) -> &mut u64,
    ) -> Result<u64, Malformed> {
        let difference = self.signed(what)?;
        let last = of(&mut self.last);
        *last = last.wrapping_add(difference);
        Ok(*last)
    }

    fn signed(&mut self, what: &'static str) -> Result<u64, Malformed> {
        let number = self.number(what)?;
        Ok(number >> 1 ^ (number & 1).wrapping_neg())
    }

    fn within(&mut self, most: u64, what: &'static str) -> Result<u64, Malformed> {
        let value = self.number(what)?;
        match value <= most {
            true => Ok(value),
            false => Err(Malformed::OutOfRange { what, value }),
        }
    }

    fn number(&mut self, what: &'static str) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(what)?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed::OutOfRange {
            what,
            value: u64::MAX,
        })
    }

    fn byte(&mut self, what: &'static str) -> Result<u8, Malformed> {
        let (byte, rest) = self
            .rest
            .split_first()
            .ok_or(Malformed::Truncated { what })?;
        self.rest = rest;
        Ok(*byte)
    }
}

/// Everything in a record that could be of any size.
fn check(record: &Record<u64>) -> Result<(), Malformed> {
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
    let sound = |signal: SignalDelay| {
        let parts = [signal.resample, signal.preprocess, signal.encode];
        at_most(SOUND_MAX, "a signal's delay", &parts)
    };
    match record {
        Record::Spoken(_, it) => {
            sound(it.signal)?;
            at_most(SOUND_MAX, "a duration", &[it.duration])
        }
        Record::Heard(it) => {
            sound(it.signal)?;
            let took = [it.decode, it.mix, it.resample];
            at_most(OPERATION_MAX, "an operation", &took)
        }
        _ => Ok(()),
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
