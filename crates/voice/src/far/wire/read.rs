//! Reading of messages from the far end.

use std::time::Duration;

use glassline_media::Ssrc;

use super::form::{
    CAPTURE_CALLED, DUPLICATE, HELLO, Last, MESSAGE_BYTES_MAX, Malformed, Message, PLAYED,
    PLAYOUT_CALLED, RECORDS, RECORDS_MAX, SENT, VERSION, WANTS_HELLO, WANTS_RECORDS, check,
};
use crate::stamps::{
    DuplicateReason, DuplicateRecord, Operation, PlayoutStamps, Record, SendStamps, SignalDelay,
};

/// Parses a message.
///
/// # Errors
/// [`Malformed`] says what is wrong; the message is refused as a whole.
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
            // Flags of later versions, and bytes after them, are ignored.
            Ok(Message::Hello {
                wants_records: flags & WANTS_RECORDS != 0,
                wants_hello: flags & WANTS_HELLO != 0,
            })
        }
        RECORDS => reader.records(),
        kind => Err(Malformed::Kind {
            kind,
            of: "message type",
        }),
    }
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
            SENT => self.send_stamps()?,
            PLAYED => Record::Played(self.playout_stamps()?),
            DUPLICATE => Record::Duplicate(DuplicateRecord {
                ssrc: self.ssrc()?,
                timestamp: self.within(u32::MAX.into(), "a timestamp")? as u32,
                at: self.time()?,
                why: match self.byte("a reason")? {
                    0 => DuplicateReason::Duplicate,
                    1 => DuplicateReason::Retransmission,
                    2 => DuplicateReason::Redundant,
                    3 => DuplicateReason::Late,
                    kind => {
                        return Err(Malformed::Kind {
                            kind,
                            of: "duplicate reason",
                        });
                    }
                },
            }),
            CAPTURE_CALLED => Record::CaptureCalled(self.time()?),
            PLAYOUT_CALLED => Record::PlayoutCalled(self.time()?),
            kind => {
                return Err(Malformed::Kind {
                    kind,
                    of: "record type",
                });
            }
        })
    }

    fn send_stamps(&mut self) -> Result<Record<u64>, Malformed> {
        let flags = self.byte("flags")?;
        if flags >= 1 << 6 {
            let of = "set of frame flags";
            return Err(Malformed::Kind { kind: flags, of });
        }
        let ssrc = self.ssrc()?;
        let timestamp = self.change("a timestamp", |last| &mut last.sent)?;
        let duration = self.change("a duration", |last| &mut last.duration)?;
        let signal = self.signal(|last| &mut last.sent_signal)?;
        let mut stamps = SendStamps {
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
            &mut stamps.enqueued,
            &mut stamps.paced,
            &mut stamps.handed_over,
            &mut stamps.dequeued,
            &mut stamps.sent,
        ];
        for (place, step) in steps.into_iter().enumerate() {
            if flags & 1 << place != 0 {
                *step = Some(self.time()?);
            }
        }
        Ok(Record::Sent(ssrc, stamps))
    }

    fn playout_stamps(&mut self) -> Result<PlayoutStamps<u64>, Malformed> {
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
        let timestamp = self.change("a timestamp", |last| &mut last.played)?;
        let mut sequence = None;
        if flags & 1 != 0 {
            let value = self.change("a sequence number", |last| &mut last.sequence)?;
            let what = "a sequence number";
            let number = u16::try_from(value);
            sequence = Some(number.map_err(|_| Malformed::OutOfRange { what, value })?);
        }
        let signal = self.signal(|last| &mut last.played_signal)?;
        let stamps = PlayoutStamps {
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
        Ok(PlayoutStamps {
            decode: Duration::from_nanos(self.number("an operation")?),
            mix: Duration::from_nanos(self.number("an operation")?),
            resample: Duration::from_nanos(self.number("an operation")?),
            ..stamps
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
