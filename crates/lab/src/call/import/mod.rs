//! Logs and traces of other engines, as the tables of a call.
//!
//! ```text
//! file ─ first bytes ─┬─ lines with markers ─► markers: joined by timestamp and number
//!                     └─ trace events (JSON) ─► chromium: spans, joined in order
//! ```
//!
//! Files are streamed; a line or an event is bounded, and so is what is kept of it.
//! What cannot be understood is counted, and the first of it named by file and line.

use std::io::{self, BufRead, Read as _};

use thiserror::Error;

use super::report::Report;
use super::stage::Stage;
use super::table::Delays;

mod chromium;
mod events;
mod fifo;
mod markers;
#[cfg(test)]
mod tests;

/// A longer line is cut, and counts as malformed.
const LINE_BYTES_MAX: usize = 64 << 10;

/// What tells a trace from a log.
const BEGIN_BYTES: u64 = 512;

/// Malformed lines that are named.
const NAMED_MAX: usize = 5;

/// What a file turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A log with the markers of the study's instrumented WebRTC.
    Markers,
    /// Chromium's trace events as JSON.
    Trace,
}

/// Why a file was not taken.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Refused {
    /// It could not be read.
    #[error("{name}: {error}")]
    Read {
        /// The file.
        name: String,
        /// Why not.
        error: io::Error,
    },
    /// It is packed.
    #[error("{name}: compressed with gzip; unpack it first: gunzip {name}")]
    Gzip {
        /// The file.
        name: String,
    },
    /// A trace in Perfetto's own format.
    #[error(
        "{name}: not text; if it is a trace of Perfetto, record or convert it as JSON (chrome --trace-startup-format=json, or traceconv json)"
    )]
    Binary {
        /// The file.
        name: String,
    },
    /// Nothing that is known is in it.
    #[error(
        "{name}: neither a marker of an instrumented WebRTC (SendRtp:, Packet received:, Recording delay: …) nor an event of Chromium's `webrtc` category in {lines} lines"
    )]
    Nothing {
        /// The file.
        name: String,
        /// So long.
        lines: u64,
    },
}

/// Reads logs and traces, one after the other, of one call or of both of its ends.
#[derive(Debug, Default)]
pub struct Importer {
    names: Vec<String>,
    markers: markers::Markers,
    trace: chromium::Trace,
    trouble: Trouble,
}

/// What was not understood.
#[derive(Debug, Default)]
struct Trouble {
    malformed: u64,
    named: Vec<String>,
}

impl Trouble {
    fn malformed(&mut self, name: &str, line: u64, why: impl std::fmt::Display) {
        self.malformed += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(format!("{name}:{line}: {why}"));
        }
    }
}

impl Importer {
    /// Nothing read.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads `input` to its end; `name` is what notes call it.
    pub fn read(&mut self, name: &str, mut input: impl BufRead) -> Result<Format, Refused> {
        let failed = |error| Refused::Read {
            name: name.to_owned(),
            error,
        };
        let mut begin = Vec::new();
        let mut first = input.by_ref().take(BEGIN_BYTES);
        first.read_to_end(&mut begin).map_err(failed)?;
        let format = match begin.as_slice() {
            [0x1f, 0x8b, ..] => {
                return Err(Refused::Gzip {
                    name: name.to_owned(),
                });
            }
            begin if begin.contains(&0) => {
                return Err(Refused::Binary {
                    name: name.to_owned(),
                });
            }
            begin => detect(begin),
        };
        let input = begin.as_slice().chain(input);
        let (found, lines) = match format {
            Format::Trace => self.trace.read(name, input, &mut self.trouble),
            Format::Markers => self.markers.read(name, input, &mut self.trouble),
        }
        .map_err(failed)?;
        if found == 0 {
            let name = name.to_owned();
            return Err(Refused::Nothing { name, lines });
        }
        self.names.push(name.to_owned());
        Ok(format)
    }

    /// The tables of all that was read.
    pub fn finish(self) -> Report {
        let Trouble { malformed, named } = self.trouble;
        let more = malformed - named.len() as u64;
        let mut delays = vec![Delays::default(); Stage::ALL.len()];
        let mut notes = named;
        if more > 0 {
            notes.push(format!("{more} more were malformed"));
        }
        let copies = self.markers.finish(&mut delays, &mut notes);
        self.trace.finish(&mut delays, &mut notes);
        let stages = Stage::ALL.into_iter().zip(&delays);
        let stages = stages.filter(|(_, delays)| !delays.is_absent());
        Report {
            source: self.names.join(", "),
            direction: None,
            peer: None,
            stages: stages.map(|(stage, delays)| delays.table(stage)).collect(),
            waterfall: Vec::new(),
            copies,
            frames: Vec::new(),
            malformed,
            notes,
        }
    }
}

/// By the first bytes. Logs may begin with a bracket, too: `[000:042] …`.
fn detect(begin: &[u8]) -> Format {
    let begin = begin.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begin);
    let mut visible = begin.iter().filter(|byte| !byte.is_ascii_whitespace());
    match (visible.next(), visible.next()) {
        (Some(b'{'), Some(b'"' | b'}')) | (Some(b'['), Some(b'{' | b']')) => Format::Trace,
        _ => Format::Markers,
    }
}

/// The next line without its end, cut after [`LINE_BYTES_MAX`]; `None` at the end of
/// the file. True: it was longer.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    let mut is_longer = false;
    let mut is_any = false;
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(is_any.then_some(is_longer));
        }
        is_any = true;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let room = LINE_BYTES_MAX - line.len();
        line.extend_from_slice(&part[..part.len().min(room)]);
        is_longer |= part.len() > room;
        let read = part.len() + usize::from(end.is_some());
        input.consume(read);
        if end.is_some() {
            return Ok(Some(is_longer));
        }
    }
}
