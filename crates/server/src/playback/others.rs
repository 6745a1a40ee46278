//! What the servers of a cluster ask each other about recordings.
//!
//! ```text
//! Playback ─ Question ─► OtherServers (http) ─ QUIC ─► Playback::answer, of that server's catalogue alone
//! ```
//!
//! A question is about one stream, and its answer has a bounded size. Bytes of files are asked for as they are
//! read, so that a clip of several servers is put together like one of several files.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use glassline_cmaf::{FragmentEntry, read_index};
use glassline_hub::StreamName;
use glassline_recording::{NewMark, TimeRange};
use serde::{Deserialize, Serialize};

/// Longest wait for an answer while a file of another server is read.
const READ_WITHIN: Duration = Duration::from_secs(5);

/// Most bytes of a file that are asked for at once.
pub(super) const BYTES_MAX: u32 = 1 << 20;

/// Other servers of the cluster, each with recordings of its own.
pub(crate) trait OtherServers: fmt::Debug + Send + Sync {
    /// Returns the names of all of them, whether they answer or not.
    fn names(&self) -> Vec<String>;

    /// Asks a server about a stream. Fails with the reason as people read it.
    fn ask<'a>(
        &'a self,
        server: &'a str,
        stream: &'a StreamName,
        question: &'a Question,
    ) -> BoxFuture<'a, Result<Bytes, String>>;
}

/// A question about the recordings of a stream. Times are in microseconds since 1970.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Question {
    /// Which files and marks are within a range?
    Holdings { from_us: u64, to_us: u64 },
    /// Which fragments has a file? A file that is gone has an empty answer.
    Fragments { file: PathBuf },
    /// Which bytes has a file there?
    Bytes {
        file: PathBuf,
        offset: u64,
        bytes: u32,
    },
    /// How long did the stages take within a range, of which the first 25 hours are told?
    Stages { from_us: u64, to_us: u64 },
    /// A span is to be marked.
    Mark {
        from_us: u64,
        to_us: u64,
        label: String,
        for_ever: bool,
    },
}

impl Question {
    pub(super) fn holdings(range: TimeRange) -> Self {
        Self::Holdings {
            from_us: micros(range.from),
            to_us: micros(range.to),
        }
    }

    pub(super) fn stages(range: TimeRange) -> Self {
        Self::Stages {
            from_us: micros(range.from),
            to_us: micros(range.to),
        }
    }

    pub(super) fn mark(mark: &NewMark) -> Self {
        Self::Mark {
            from_us: micros(mark.from),
            to_us: micros(mark.to),
            label: mark.label.clone(),
            for_ever: mark.is_for_ever,
        }
    }
}

/// Another server of the cluster that has recordings of a stream.
#[derive(Clone, Debug)]
pub(super) struct OtherServer {
    pub(super) all: Arc<dyn OtherServers>,
    pub(super) name: Arc<str>,
}

/// A file of another server.
#[derive(Clone, Debug)]
pub(super) struct DistantFile {
    pub(super) server: OtherServer,
    pub(super) stream: StreamName,
    pub(super) path: PathBuf,
    /// Size of the file, as that server said.
    pub(super) bytes: u64,
}

impl DistantFile {
    /// Returns the fragments of the file; `None` if it is gone. Blocks.
    pub(super) fn fragments(&self) -> io::Result<Option<Vec<FragmentEntry>>> {
        let file = self.path.clone();
        let answer = self.ask(&Question::Fragments { file })?;
        if answer.is_empty() {
            return Ok(None);
        }
        let index = read_index(&answer);
        let damaged = || io::Error::other("its list of fragments is damaged");
        index.ok_or_else(damaged).map(Some)
    }

    /// Reads bytes at `offset`, as many as `buffer` has room for, or fewer. Blocks.
    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = u32::try_from(buffer.len()).unwrap_or(BYTES_MAX);
        let answer = self.ask(&Question::Bytes {
            file: self.path.clone(),
            offset,
            bytes: wanted.min(BYTES_MAX),
        })?;
        let count = answer.len().min(buffer.len());
        buffer[..count].copy_from_slice(&answer[..count]);
        Ok(count)
    }

    fn ask(&self, question: &Question) -> io::Result<Bytes> {
        let OtherServer { all, name } = &self.server;
        let asked = async {
            let asked = all.ask(name, &self.stream, question);
            tokio::time::timeout(READ_WITHIN, asked).await
        };
        // The threads that read disks wait for other servers, too.
        let answer = tokio::runtime::Handle::current().block_on(asked);
        let answer = answer.unwrap_or_else(|_| Err("no answer within 5 s".to_owned()));
        answer.map_err(|why| io::Error::other(format!("the server '{name}': {why}")))
    }
}

/// Returns the microseconds since 1970.
pub(super) fn micros(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the time so many microseconds after 1970, or the last one that can be written.
pub(super) fn time(micros: u64) -> SystemTime {
    let last = super::always().to;
    let at = UNIX_EPOCH.checked_add(Duration::from_micros(micros));
    at.unwrap_or(last).min(last)
}
