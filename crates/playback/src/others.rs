//! What the servers of a cluster ask each other about recordings.
//!
//! ```text
//! Playback ─ Question ─► OtherServers (http) ─ QUIC ─► Playback::answer, of that server's catalogue alone
//! ```
//!
//! A question is about one stream, and its answer has a bounded size. A server that did not answer in time is
//! not asked again for a few seconds, so that whoever plays what others have waits for it once.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use glassline_hub::StreamName;
use glassline_recording::{NewMark, TimeRange};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use super::missing::{Missing, MissingPart, PartKind};

/// Longest wait for what another server has.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Longest wait for an answer while a file of another server is read.
const READ_WITHIN: Duration = Duration::from_secs(5);

/// Time for which a server that did not answer in time is not asked again.
const SILENCE: Duration = Duration::from_secs(5);

/// Most bytes of a file that are asked for at once.
pub(super) const BYTES_MAX: u32 = 1 << 20;

/// Other servers of the cluster, each with recordings of its own.
pub trait OtherServers: fmt::Debug + Send + Sync {
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
pub enum Question {
    /// Which files and marks are within a range?
    Holdings {
        /// First microsecond of the range.
        from_us: u64,
        /// Last microsecond of the range.
        to_us: u64,
    },
    /// Which files are next to an instant: so many that begin at or before it, and so many after it, of a
    /// layer or of all?
    Around {
        /// The instant that the files are next to.
        at_us: u64,
        /// Name of the layer; `None` for all of them.
        layer: Option<String>,
        /// Most files on each side of the instant.
        count: u32,
    },
    /// Which fragments has a file? A file that is gone has an empty answer.
    Fragments {
        /// Path of the file at the server that is asked.
        file: PathBuf,
    },
    /// Which bytes has a file there?
    Bytes {
        /// Path of the file at the server that is asked.
        file: PathBuf,
        /// Place of the first byte in the file.
        offset: u64,
        /// Number of bytes that are wanted.
        bytes: u32,
    },
    /// How long did the stages take within a range, of which the first 25 hours are told?
    Stages {
        /// First microsecond of the range.
        from_us: u64,
        /// Last microsecond of the range.
        to_us: u64,
    },
    /// A span is to be marked.
    Mark {
        /// First microsecond of the span.
        from_us: u64,
        /// Last microsecond of the span.
        to_us: u64,
        /// Text that people give the mark.
        label: String,
        /// Whether the files of the span are never deleted.
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

    /// Creates the question for the delays by stage within `range`.
    pub fn stages(range: TimeRange) -> Self {
        Self::Stages {
            from_us: micros(range.from),
            to_us: micros(range.to),
        }
    }

    /// Creates the question that marks a span of a stream.
    pub fn mark(mark: &NewMark) -> Self {
        Self::Mark {
            from_us: micros(mark.from),
            to_us: micros(mark.to),
            label: mark.label.clone(),
            for_ever: mark.is_for_ever,
        }
    }

    /// Returns whether the answer is a part of a file, not of an index.
    const fn reads_file(&self) -> bool {
        matches!(self, Self::Fragments { .. } | Self::Bytes { .. })
    }
}

/// The other servers of the cluster, with those that are silent.
#[derive(Debug)]
pub(crate) struct Others {
    servers: Arc<dyn OtherServers>,
    /// Threads that may wait ask on this runtime.
    runtime: Handle,
    /// The servers that did not answer in time, when asked about their index, and for bytes of their files.
    silent: Mutex<HashMap<Addressee, Silence>>,
}

/// A server as it is asked: about its index, or for bytes of its files. One may be slow while the other is not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Addressee {
    server: Arc<str>,
    reads_file: bool,
}

/// A server that did not answer in time.
#[derive(Debug)]
struct Silence {
    /// Instant from which the server is asked again.
    until: Instant,
    why: String,
}

impl Others {
    /// Creates the way to `servers`. Needs the runtime that has the connections.
    pub(crate) fn new(servers: Arc<dyn OtherServers>) -> Self {
        Self {
            servers,
            runtime: Handle::current(),
            silent: Mutex::default(),
        }
    }

    /// Asks all servers at the same time, and reads their answers. Those without an answer are missing.
    pub(super) async fn ask_all<T>(
        self: &Arc<Self>,
        stream: &StreamName,
        question: &Question,
        read: impl Fn(&[u8]) -> Result<T, serde_json::Error>,
    ) -> (Vec<(OtherServer, T)>, Missing) {
        let servers = self.servers.names().into_iter().map(|name| OtherServer {
            others: Arc::clone(self),
            name: name.into(),
        });
        let asked = servers.map(|server| async move {
            let answer = server.ask(stream, question).await;
            (server, answer)
        });
        let (mut answers, mut missing) = (Vec::new(), Missing::default());
        for (server, answer) in join_all(asked).await {
            let read = answer.and_then(|json| {
                let read = read(&json);
                read.map_err(|error| format!("its answer cannot be read: {error}"))
            });
            match read {
                Ok(read) => answers.push((server, read)),
                Err(why) => missing.0.push(MissingPart {
                    kind: PartKind::Server,
                    name: server.name.to_string(),
                    why,
                }),
            }
        }
        (answers, missing)
    }

    /// Returns the runtime on which threads that may wait ask.
    pub(super) const fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Returns why a server is not asked, if it did not answer in time a moment ago.
    fn silence(&self, of: &Addressee) -> Option<String> {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.retain(|_, it| Instant::now() < it.until);
        silent.get(of).map(|it| it.why.clone())
    }

    fn note_silent(&self, of: Addressee, why: &str) {
        let silence = Silence {
            until: Instant::now() + SILENCE,
            why: why.to_owned(),
        };
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.insert(of, silence);
    }
}

/// Another server of the cluster that has recordings of a stream.
#[derive(Clone, Debug)]
pub(super) struct OtherServer {
    others: Arc<Others>,
    pub(super) name: Arc<str>,
}

impl OtherServer {
    /// Asks the server about a stream. Fails with the reason as people read it, without the server's name.
    pub(super) async fn ask(
        &self,
        stream: &StreamName,
        question: &Question,
    ) -> Result<Bytes, String> {
        let reads_file = question.reads_file();
        let addressee = Addressee {
            server: Arc::clone(&self.name),
            reads_file,
        };
        if let Some(why) = self.others.silence(&addressee) {
            return Err(why);
        }
        let within = if reads_file {
            READ_WITHIN
        } else {
            ANSWER_WITHIN
        };
        let asked = self.others.servers.ask(&self.name, stream, question);
        let answer = tokio::time::timeout(within, asked).await;
        answer.unwrap_or_else(|_| {
            let why = format!("no answer within {} s", within.as_secs());
            self.others.note_silent(addressee, &why);
            Err(why)
        })
    }

    /// Asks the server like [`Self::ask`], on a thread that may wait. The error names the server.
    pub(super) fn ask_and_wait(
        &self,
        stream: &StreamName,
        question: &Question,
    ) -> std::io::Result<Bytes> {
        let answer = self.others.runtime.block_on(self.ask(stream, question));
        let name = &self.name;
        answer.map_err(|why| std::io::Error::other(format!("the server '{name}': {why}")))
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
