//! Finds the events in a trace one object at a time, without holding the whole trace in memory.
//!
//! The input is `{"traceEvents": [{…}, {…}], …}` or `[{…}, {…}`. A trace that ends early, since
//! its browser was killed, is read as far as it goes.

use std::io::{self, BufRead};

/// Longest event, in bytes. A longer one is skipped and counts as malformed.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// Deepest nesting that is followed; a trace needs five levels.
const DEPTH_MAX: usize = 128;

/// Bytes of a key that are kept for comparison.
const KEY_BYTES_MAX: usize = 32;

/// Result of reading one object of the event list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanResult {
    /// An event that begins in this line.
    Event(u64),
    /// An event that cannot be read: its line, and why.
    Malformed(u64, &'static str),
}

/// The objects of a trace's event list.
#[derive(Debug)]
pub(super) struct Objects<R> {
    input: R,
    scanner: Scanner,
}

impl<R: BufRead> Objects<R> {
    pub(super) fn new(input: R) -> Self {
        let scanner = Scanner {
            line: 1,
            ..Scanner::default()
        };
        Self { input, scanner }
    }

    /// Line that was read last, from 1.
    pub(super) const fn line(&self) -> u64 {
        self.scanner.line
    }

    /// Reads the bytes of the next event into `out`; returns `None` at the end of the input.
    pub(super) fn next(&mut self, out: &mut Vec<u8>) -> io::Result<Option<ScanResult>> {
        out.clear();
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                return Ok(self.scanner.unfinished());
            }
            let mut found = None;
            let mut read = 0;
            for byte in buffer {
                read += 1;
                found = self.scanner.take(*byte, out);
                if found.is_some() {
                    break;
                }
            }
            self.input.consume(read);
            if found.is_some() {
                return Ok(found);
            }
        }
    }
}

/// State of scanning: brackets and strings only. The content of events is parsed elsewhere.
#[derive(Debug, Default)]
struct Scanner {
    line: u64,
    /// Open brackets, the outermost first.
    open: Vec<u8>,
    /// Number of open brackets beyond [`DEPTH_MAX`], which are not in `open`.
    deeper: u64,
    /// Number of brackets around each event, while the event list is open.
    events: Option<usize>,
    in_string: bool,
    is_escaped: bool,
    /// The last string outside of events, which may be a key.
    key: Vec<u8>,
    /// First line of the event that is being read.
    event: Option<u64>,
    is_longer: bool,
}

impl Scanner {
    fn take(&mut self, byte: u8, out: &mut Vec<u8>) -> Option<ScanResult> {
        self.line += u64::from(byte == b'\n');
        if self.event.is_some() {
            self.is_longer |= out.len() >= EVENT_BYTES_MAX;
            if !self.is_longer {
                out.push(byte);
            }
        }
        match byte {
            _ if self.in_string => self.within_string(byte),
            b'"' => {
                self.in_string = true;
                self.key.clear();
            }
            b'{' | b'[' => self.opened(byte, out),
            b'}' | b']' => return self.closed(),
            _ => {}
        }
        None
    }

    fn within_string(&mut self, byte: u8) {
        if self.is_escaped {
            self.is_escaped = false;
        } else if byte == b'\\' {
            self.is_escaped = true;
        } else if byte == b'"' {
            self.in_string = false;
        } else if self.event.is_none() && self.key.len() < KEY_BYTES_MAX {
            self.key.push(byte);
        }
    }

    fn opened(&mut self, byte: u8, out: &mut Vec<u8>) {
        let is_named = self.open == b"{" && self.key == b"traceEvents";
        if byte == b'[' && self.event.is_none() && (self.open.is_empty() || is_named) {
            self.events = Some(self.open.len() + 1);
        }
        if byte == b'{' && self.event.is_none() && self.events == Some(self.open.len()) {
            self.event = Some(self.line);
            self.is_longer = false;
            out.clear();
            out.push(byte);
        }
        if self.open.len() < DEPTH_MAX {
            self.open.push(byte);
        } else {
            self.deeper += 1;
        }
    }

    fn closed(&mut self) -> Option<ScanResult> {
        if self.deeper > 0 {
            self.deeper -= 1;
            return None;
        }
        self.open.pop();
        let around = self.events?;
        if self.open.len() < around {
            // The end of the event list, or an unmatched bracket.
            self.events = None;
            let line = self.event.take()?;
            return Some(ScanResult::Malformed(line, "brackets that do not match"));
        }
        if self.open.len() > around {
            return None;
        }
        let line = self.event.take()?;
        Some(match self.is_longer {
            true => ScanResult::Malformed(line, "an event longer than 1 MiB"),
            false => ScanResult::Event(line),
        })
    }

    fn unfinished(&mut self) -> Option<ScanResult> {
        let line = self.event.take()?;
        Some(ScanResult::Malformed(
            line,
            "the file ends within this event",
        ))
    }
}
