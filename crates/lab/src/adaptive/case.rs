//! Cases: a path, the flows that share it, and the moment that matters.

use std::time::Duration;

use super::moment::Moment;
use super::path::LinkSchedule;
use super::source::PublishedVideo;
use super::target::Target;

/// A scene that every arm plays.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name on the command line.
    pub name: &'static str,
    /// One sentence that says what happens.
    pub about: &'static str,
    /// Length of a run.
    pub duration: Duration,
    /// Way of most media.
    pub forward: LinkSchedule,
    /// Way of most feedback.
    pub backward: LinkSchedule,
    /// Flows on the path.
    pub flows: Vec<Flow>,
    /// The change of the path whose consequences are measured.
    pub moment: Option<Moment>,
    /// Bounds that we want to keep.
    pub targets: Vec<Target>,
}

/// Traffic on the path.
#[derive(Clone, Debug)]
pub struct Flow {
    /// When the flow begins.
    pub start: Duration,
    /// Further delay of the flow each way.
    pub extra: Duration,
    /// Traffic of the flow.
    pub traffic: Traffic,
}

/// Traffic that a flow sends.
#[derive(Clone, Debug)]
pub enum Traffic {
    /// A viewer and the stream that it watches.
    Viewer(Viewing),
    /// A TCP flow with CUBIC that never ends.
    Bulk,
    /// TCP flows with CUBIC, one after the other, with pauses between them.
    Web {
        /// Mean time between the end of a flow and the start of the next.
        pause: Duration,
    },
}

/// A viewer and the stream that it watches.
#[derive(Clone, Debug)]
pub struct Viewing {
    /// Publisher of the stream.
    pub source: PublishedVideo,
    /// Whether the media goes backward, and the feedback forward.
    pub is_reversed: bool,
    /// When the publisher films nothing.
    pub pause: Option<Moment>,
    /// Interval of the viewer's transport feedback; `None` for the usual one.
    pub feedback: Option<Duration>,
}

impl Case {
    /// Returns the round trip of the flow at this place without a queue, at `time`.
    pub(super) fn round_trip(&self, place: usize, time: Duration) -> Duration {
        let delay = |way: &LinkSchedule| way.conditions(time).delay;
        delay(&self.forward) + delay(&self.backward) + self.flows[place].extra * 2
    }
}

impl Flow {
    /// Returns a viewer from the start on.
    pub(super) fn viewer(source: PublishedVideo) -> Self {
        Self {
            start: Duration::ZERO,
            extra: Duration::ZERO,
            traffic: Traffic::Viewer(Viewing {
                source,
                is_reversed: false,
                pause: None,
                feedback: None,
            }),
        }
    }

    /// Returns a TCP flow from the start on.
    pub(super) const fn bulk() -> Self {
        Self {
            start: Duration::ZERO,
            extra: Duration::ZERO,
            traffic: Traffic::Bulk,
        }
    }

    /// Returns the flow with another start in seconds.
    #[must_use]
    pub(super) fn from(mut self, seconds: u64) -> Self {
        self.start = Duration::from_secs(seconds);
        self
    }

    /// Returns the flow with a further delay each way in ms.
    #[must_use]
    pub(super) fn farther(mut self, ms: u64) -> Self {
        self.extra = Duration::from_millis(ms);
        self
    }
}
