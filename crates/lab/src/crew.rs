//! The viewers' pool under the names that the laboratory uses, until the pool has
//! them itself: WHEP only, all of them counting, nobody misbehaving.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use glassline_client::viewers as today;
use glassline_media::Histogram;
use url::Url;

pub(crate) use today::{Flow, Id, Mode, State, Wait};

/// What viewers join.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// A WHEP URL.
    Whep(Url),
    /// One that takes `POST /doSignaling`.
    DoSignaling(Url),
    /// An RTSP URL.
    Rtsp {
        /// Where.
        url: Url,
        /// How media travels.
        transport: RtspTransport,
    },
}

/// How RTSP media travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtspTransport {
    /// Interleaved.
    Tcp,
    /// Pairs of ports.
    Udp,
}

impl Endpoint {
    /// By scheme and last path segment.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("'{text}' is no URL: {error}"))?;
        match url.scheme() {
            "rtsp" => Ok(Self::Rtsp {
                url,
                transport: RtspTransport::Tcp,
            }),
            "http" | "https" if url.path().ends_with("/doSignaling") => Ok(Self::DoSignaling(url)),
            "http" | "https" => Ok(Self::Whep(url)),
            other => Err(format!(
                "'{text}': viewers join http, https and rtsp, not {other}"
            )),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Whep(url) | Self::DoSignaling(url) | Self::Rtsp { url, .. }) = self;
        let mut shown = url.clone();
        // Both fail only for URLs that have neither.
        let _ = shown.set_password(None);
        shown.fmt(f)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Conduct {
    #[default]
    Good,
    Stall,
    Vanish,
    Garbage,
}

#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub(crate) endpoint: Endpoint,
    pub(crate) mode: Mode,
    pub(crate) conduct: Conduct,
}

#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub(crate) id: Id,
    pub(crate) mode: Mode,
    pub(crate) conduct: Conduct,
    pub(crate) state: State,
    pub(crate) failure: Option<Arc<str>>,
    pub(crate) join_time: Option<Duration>,
    pub(crate) video: Flow,
    pub(crate) audio: Flow,
    pub(crate) frames: u64,
    pub(crate) damaged: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) wait: Wait,
    pub(crate) token: Option<String>,
    pub(crate) signalling_threads: usize,
    pub(crate) receive_buffer: usize,
    pub(crate) gro: bool,
}

#[derive(Debug)]
pub(crate) struct Pool {
    pool: today::Pool,
    gaps: std::sync::Mutex<std::collections::BTreeMap<Duration, u64>>,
}

impl Pool {
    pub(crate) fn start(options: Options) -> std::io::Result<Self> {
        if options.gro {
            tracing::warn!("--gro does nothing yet");
        }
        let pool = today::Pool::start(today::Options {
            mode: Mode::Count,
            wait: options.wait,
            token: options.token,
            signalling_threads: options.signalling_threads,
            receive_buffer: options.receive_buffer,
            ..today::Options::default()
        })?;
        Ok(Self {
            pool,
            gaps: Default::default(),
        })
    }

    pub(crate) fn join(&self, join: Join) -> Id {
        let Endpoint::Whep(url) = join.endpoint else {
            unreachable!(
                "the plan's check refuses {} {:?} {:?}",
                join.endpoint, join.mode, join.conduct
            )
        };
        self.pool.join(url.as_str()).expect("an http URL")
    }

    pub(crate) fn progress(&self) -> Vec<Progress> {
        let viewers = self.pool.snapshot().into_iter();
        viewers
            .map(|viewer| Progress {
                id: viewer.id,
                mode: Mode::Count,
                conduct: Conduct::Good,
                state: viewer.state,
                failure: viewer.failure.map(Arc::from),
                join_time: viewer.join_time,
                video: viewer.video,
                audio: viewer.audio,
                frames: viewer.frames,
                damaged: viewer.damaged,
            })
            .collect()
    }

    pub(crate) fn take_gaps(&self) -> Histogram {
        let mut all = std::collections::BTreeMap::<Duration, u64>::new();
        for viewer in self.pool.snapshot() {
            for (gap, count) in viewer.gaps.buckets() {
                *all.entry(gap).or_default() += count;
            }
        }
        let mut before = self.gaps.lock().expect("nobody panics with it");
        let mut grown = Histogram::new();
        for (gap, count) in &all {
            let known = before.get(gap).copied().unwrap_or(0);
            for _ in known..*count {
                grown.record(*gap);
            }
        }
        *before = all;
        grown
    }

    #[expect(clippy::unused_self, reason = "it will have some")]
    pub(crate) fn take_delays(&self) -> Histogram {
        Histogram::new()
    }
}
