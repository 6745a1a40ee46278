//! Imports logs and traces of other WebRTC engines as the delay tables of a call.
//!
//! ```text
//! file ─ first bytes ─┬─ lines with markers ─► markers: joined by timestamp and number
//!                     └─ trace events (JSON) ─► chromium: spans, joined in order
//! ```
//!
//! Files are streamed; lines, events and the records kept of them are bounded. Text that is not
//! understood is counted, and the first few places are named by file and line.

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

/// Longest line, in bytes. A longer one is cut and counts as malformed.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Bytes at the begin of a file by which a trace is told from a log.
const BEGIN_BYTES: u64 = 512;

/// Malformed lines that are named in the notes; later ones are only counted.
const NAMED_MAX: usize = 5;

/// Format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A log with the markers of the study's instrumented WebRTC.
    Markers,
    /// Chromium's trace events as JSON.
    Trace,
}

/// Reason why a file could not be imported.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Refused {
    /// The file could not be read.
    #[error("{name}: {error}")]
    Read {
        /// Name of the file.
        name: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The file is compressed with gzip.
    #[error("{name}: compressed with gzip; unpack it first: gunzip {name}")]
    Gzip {
        /// Name of the file.
        name: String,
    },
    /// The file is a trace in Perfetto's binary format.
    #[error(
        "{name}: not text; if it is a trace of Perfetto, record or convert it as JSON (chrome --trace-startup-format=json, or traceconv json)"
    )]
    Binary {
        /// Name of the file.
        name: String,
    },
    /// The file holds no known marker or event.
    #[error(
        "{name}: neither a marker of an instrumented WebRTC (SendRtp:, Packet received:, Recording delay: …) nor an event of Chromium's `webrtc` category in {lines} lines"
    )]
    Nothing {
        /// Name of the file.
        name: String,
        /// Lines that were read.
        lines: u64,
    },
}

/// Reads logs and traces one after the other, from one end of a call or from both.
#[derive(Debug, Default)]
pub struct Importer {
    names: Vec<String>,
    markers: markers::Markers,
    trace: chromium::Trace,
    trouble: Trouble,
}

/// Count and first places of text that was not understood.
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
    /// An importer that has read nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads `input` to its end. `name` is the file's name in notes.
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

    /// Tables of all files that were read.
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

/// Detects the format by the first bytes. Logs may begin with a bracket, too: `[000:042] …`.
fn detect(begin: &[u8]) -> Format {
    let begin = begin.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begin);
    let mut visible = begin.iter().filter(|byte| !byte.is_ascii_whitespace());
    match (visible.next(), visible.next()) {
        (Some(b'{'), Some(b'"' | b'}')) | (Some(b'['), Some(b'{' | b']')) => Format::Trace,
        _ => Format::Markers,
    }
}

/// Reads the next line without its end, cut after [`LINE_BYTES_MAX`]. Returns whether the line
/// was longer; `None` at the end of the file.
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
