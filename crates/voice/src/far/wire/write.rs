//! Writing of messages to the far end.

use glassline_media::Ssrc;
use thiserror::Error;

use super::form::{
    CAPTURE_CALLED, DUPLICATE, HELLO, Last, MADE_BYTES, PLAYED, PLAYOUT_CALLED, RECORDS,
    RECORDS_MAX, SENT, STAMP_NS_MAX, VERSION, WANTS_HELLO, WANTS_RECORDS, check, ns,
};
use crate::stamps::{DuplicateReason, Operation, PlayoutStamps, Record, SendStamps, SignalDelay};

/// Writes the first message of an end. `wants_records`: the end wants records. `wants_hello`:
/// the end has received no hello yet, and wants one.
pub fn hello(wants_records: bool, wants_hello: bool) -> Vec<u8> {
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let flags = flag(wants_records, WANTS_RECORDS) | flag(wants_hello, WANTS_HELLO);
    vec![VERSION, HELLO, flags]
}

/// Writer of a message of records.
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    last: Last,
    records: usize,
}

/// The reason why a record was not written into the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unwritten {
    /// The message is full; the record belongs into the next one.
    #[error("the message is full")]
    Full,
    /// A value is outside of the bounds that the far end accepts: a clock jumped, or a
    /// machine slept.
    #[error("the record has values outside the protocol's bounds")]
    OutOfRange,
}

impl Writer {
    /// Begins a message. `dropped` records could not be sent so far; times are near `base`.
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
    /// [`Unwritten`] says why the record was not appended; the message stays as it was.
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

    /// Whether the message has no record.
    pub const fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Returns the bytes of the message.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    fn record(&mut self, record: &Record<u64>) {
        match record {
            Record::Sent(ssrc, it) => self.send_stamps(*ssrc, it),
            Record::Played(it) => self.playout_stamps(it),
            Record::Duplicate(it) => {
                self.bytes.push(DUPLICATE);
                self.ssrc(it.ssrc);
                self.number(it.timestamp.into());
                self.time(it.at);
                self.bytes.push(match it.why {
                    DuplicateReason::Duplicate => 0,
                    DuplicateReason::Retransmission => 1,
                    DuplicateReason::Redundant => 2,
                    DuplicateReason::Late => 3,
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

    fn send_stamps(&mut self, ssrc: Ssrc, it: &SendStamps<u64>) {
        let steps = [it.enqueued, it.paced, it.handed_over, it.dequeued, it.sent];
        let mut flags = u8::from(it.encoded_something) << 5;
        for (place, step) in steps.iter().enumerate() {
            flags |= u8::from(step.is_some()) << place;
        }
        self.bytes.extend([SENT, flags]);
        self.ssrc(ssrc);
        self.change(it.timestamp, |last| &mut last.sent);
        self.change(ns(it.duration), |last| &mut last.duration);
        self.signal(it.signal, |last| &mut last.sent_signal);
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

    fn playout_stamps(&mut self, it: &PlayoutStamps<u64>) {
        let operation = match it.operation {
            Operation::Normal => 0,
            Operation::Late => 1,
            Operation::Repeated => 2,
        };
        let flags = operation << 1 | u8::from(it.sequence.is_some());
        self.bytes.extend([PLAYED, flags]);
        self.ssrc(it.ssrc);
        self.change(it.timestamp, |last| &mut last.played);
        if let Some(sequence) = it.sequence {
            self.change(sequence.into(), |last| &mut last.sequence);
        }
        self.signal(it.signal, |last| &mut last.played_signal);
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

    /// Writes a signed number in zigzag form, so that small numbers of either sign are short.
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
