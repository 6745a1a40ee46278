//! The note in a recorded file about its stream, its time and its losses.

use std::time::{Duration, SystemTime};

use glassline_hub::StreamName;
use serde::{Deserialize, Serialize};

use crate::utc;

/// Beginning of our note, which tells it from others.
const IDENTIFIER: [u8; 16] = *b"glassline/file\0\0";

/// Most bytes of the text that is read: a name has 128, and a reason a few hundred.
const TEXT_BYTES_MAX: usize = 4096;

/// The identity of a recorded file, as the file itself states it. It stands in a note before the file's
/// parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Stream that the file is of.
    pub stream: StreamName,
    /// Layer of the stream's video, by its name; empty for the best one of each time.
    pub layer: String,
    /// Number of the run: files of one run have one line of decode times. It is the time at which the
    /// run began, in ms since 1970.
    pub run: u64,
    /// Number of the file within its run, from 0.
    pub number: u32,
    /// Wall-clock time of the first frame's presentation, to the microsecond.
    pub start: SystemTime,
    /// The reason why the file begins.
    pub beginning: Beginning,
}

/// The reason why a recorded file begins where it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "because")]
#[non_exhaustive]
pub enum Beginning {
    /// The recording began, or the stream's source did.
    Start,
    /// The file before had its full length.
    Length,
    /// Codec, size or parameters of a track changed.
    Parameters,
    /// The machine's clock was set, so the file before ends at another time than this one begins.
    Clock,
    /// Frames were lost before this file.
    Loss {
        /// Reason of the loss, as people read it.
        reason: String,
        /// Time for which frames are missing, in ms.
        lost_ms: u64,
    },
}

impl Beginning {
    /// Returns whether the file continues the previous file without a gap.
    pub const fn is_seamless(&self) -> bool {
        matches!(self, Self::Length | Self::Parameters)
    }

    /// Returns why frames are missing before the file, and for how long; `None` if none are.
    pub fn loss(&self) -> Option<(&str, Duration)> {
        match self {
            Self::Loss { reason, lost_ms } => Some((reason, Duration::from_millis(*lost_ms))),
            _ => None,
        }
    }
}

/// The header as its text has it.
#[derive(Debug, Serialize, Deserialize)]
struct Text {
    stream: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    layer: String,
    run: u64,
    number: u32,
    start_us: i64,
    begins: Beginning,
}

impl FileHeader {
    /// Returns the note.
    pub fn to_note(&self) -> Vec<u8> {
        let text = Text {
            stream: self.stream.to_string(),
            layer: self.layer.clone(),
            run: self.run,
            number: self.number,
            start_us: utc::micros(self.start),
            begins: self.beginning.clone(),
        };
        let text = serde_json::to_vec(&text).expect("plain data");
        [&IDENTIFIER[..], &text].concat()
    }

    /// Reads a note. Returns `None` if it is another one's, or damaged.
    pub fn of_note(note: &[u8]) -> Option<Self> {
        let text = note.strip_prefix(&IDENTIFIER)?;
        let text = text.get(..text.len().min(TEXT_BYTES_MAX))?;
        let text: Text = serde_json::from_slice(text).ok()?;
        Some(Self {
            stream: StreamName::parse(&text.stream).ok()?,
            layer: text.layer,
            run: text.run,
            number: text.number,
            start: utc::from_micros(text.start_us),
            beginning: text.begins,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written_and_no_other_box_is_one() {
        let beginning = Beginning::Loss {
            reason: "the disk is full".to_owned(),
            lost_ms: 1200,
        };
        let header = FileHeader {
            stream: StreamName::parse("site/cam1").expect("a name"),
            layer: "h".to_owned(),
            run: 1_796_047_385_123,
            number: 7,
            start: utc::from_micros(1_796_047_385_123_456),
            beginning,
        };
        let written = header.to_note();
        assert_eq!(FileHeader::of_note(&written), Some(header));
        for cut in 0..written.len() {
            assert_eq!(FileHeader::of_note(&written[..cut]), None);
        }
        assert_eq!(FileHeader::of_note(&[0; 40]), None);
    }
}
