//! Groups of good viewers: what they watch, their process, and the samples that it printed.

use std::process::Command;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::configuration::Configuration;
use super::error::Error;
use super::plan::Plan;
use super::program::{Log, Program};
use super::watch::Sample;

/// Where the stream of a group comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The server plays it.
    Server,
    /// `glassline publish` sends it over QUIC.
    Quic,
    /// FFmpeg sends it over RTSP.
    Rtsp,
}

/// Good viewers of one kind, in one process.
#[derive(Debug)]
pub(super) struct ViewerGroup {
    pub(super) name: &'static str,
    pub(super) origin: Origin,
    /// Frames a second of the stream.
    pub(super) frame_rate: f64,
    pub(super) viewers: usize,
    pub(super) program: Program,
    samples: Arc<Mutex<Vec<Sample>>>,
}

/// The streams that a group watches.
#[derive(Clone, Debug)]
pub(super) struct GroupSpec {
    pub(super) name: &'static str,
    pub(super) origin: Origin,
    pub(super) frame_rate: f64,
    /// One URL for each viewer.
    pub(super) urls: Vec<String>,
}

impl GroupSpec {
    /// Groups of a run; viewers of WHEP get what the others leave.
    pub(super) fn all(plan: &Plan, configuration: &Configuration, has_ffmpeg: bool) -> Vec<Self> {
        let each = (plan.viewers / 6).max(1);
        let group = |name, origin, frame_rate, urls: Vec<String>| Self {
            name,
            origin,
            frame_rate,
            urls,
        };
        let mut rtsp = vec![configuration.rtsp_url("demo"); each];
        rtsp.extend(vec![configuration.rtsps_url("demo"); each]);
        let mut groups = vec![
            group("rtsp", Origin::Server, DEMO_FRAME_RATE, rtsp),
            group(
                "quic",
                Origin::Quic,
                DEMO_FRAME_RATE,
                vec![configuration.whep(QUIC_STREAM); each],
            ),
        ];
        if has_ffmpeg {
            let urls = vec![configuration.whep(RTSP_STREAM); each];
            groups.push(group("push", Origin::Rtsp, FFMPEG_FRAME_RATE, urls));
        }
        let others: usize = groups.iter().map(|group| group.urls.len()).sum();
        let rest = plan.viewers.saturating_sub(others).max(each);
        let urls = vec![configuration.whep("demo"); rest];
        groups.insert(0, group("whep", Origin::Server, DEMO_FRAME_RATE, urls));
        groups
    }
}

/// Frames a second of the built-in stream.
const DEMO_FRAME_RATE: f64 = 30.0;

/// Frames a second of the stream that FFmpeg makes.
pub(super) const FFMPEG_FRAME_RATE: f64 = 15.0;

/// Name of the stream that is published over QUIC.
pub(super) const QUIC_STREAM: &str = "quic";

/// Name of the stream that is published over RTSP.
pub(super) const RTSP_STREAM: &str = "push";

impl ViewerGroup {
    /// Starts the process of the group.
    pub(super) fn start(
        plan: &Plan,
        configuration: &Configuration,
        spec: &GroupSpec,
    ) -> Result<Self, Error> {
        let mut command = Command::new(&plan.program);
        command.args(["--quiet", "bench", "chaos-viewers"]);
        command.args(&spec.urls);
        command.env("GLASSLINE_READ_TOKEN", &configuration.read_token);
        let samples = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&samples);
        let log = plan.folder.join(format!("viewers-{}.log", spec.name));
        let program = Program::start(spec.name, command, Log::File(&log), move |line| {
            if let Ok(sample) = serde_json::from_str(line) {
                kept.lock().push(sample);
            }
        })?;
        Ok(Self {
            name: spec.name,
            origin: spec.origin,
            frame_rate: spec.frame_rate,
            viewers: spec.urls.len(),
            program,
            samples,
        })
    }

    /// All samples so far.
    pub(super) fn samples(&self) -> Vec<Sample> {
        self.samples.lock().clone()
    }

    /// Whether each viewer received frames in the newest sample, which began at `since_ms` or
    /// later.
    pub(super) fn has_video(&self, since_ms: u64) -> bool {
        self.last().is_some_and(|last| {
            let has_frames = last.frames.iter().all(|count| *count > 0);
            last.from_ms >= since_ms && last.frozen == 0 && has_frames
        })
    }

    /// Returns the newest sample; `None` before the first.
    pub(super) fn last(&self) -> Option<Sample> {
        self.samples.lock().last().cloned()
    }
}
