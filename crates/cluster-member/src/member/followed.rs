//! What the cluster has to know of the hub's streams: whether somebody needs them, and whether their
//! own source sends.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use glassline_cluster::{Access, Moment, PublisherId, StreamName as Name, ViewDecision, ViewerId};
use glassline_hub::{Stream, StreamName, Wake as _};
use glassline_ingest::stream_names;
use tokio::sync::oneshot;

use super::{Core, Member};
use crate::identity::{Mark, Provenances};

/// Interval at which the hub's streams are looked at. A publisher without a frame for a second loses
/// its name to another one.
pub(super) const LOOK: Duration = Duration::from_millis(250);

/// Time from its claim on in which a publisher counts as sending although nothing came yet: it
/// connects, or its first keyframe is on its way.
const BEGINS_WITHIN: Duration = Duration::from_secs(10);

/// Pause before the cluster is asked again for a stream that is needed and nowhere.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// A stream that this server publishes, pulls, or is asked for.
#[derive(Debug, Default)]
pub(super) struct Followed {
    stream: Weak<Stream>,
    interest: Interest,
    ask_at: Option<Instant>,
    /// The viewers who wait until it is known whether the cluster has the stream.
    waiting: Vec<oneshot::Sender<ViewDecision>>,
    pub(super) own: Option<Own>,
    /// Whether the stream is a source of the configuration.
    pub(super) is_configured: bool,
}

/// The claim of this server.
#[derive(Debug)]
pub(super) struct Own {
    /// `None` for a source of the configuration.
    pub(super) publisher: Option<PublisherId>,
    pub(super) since: Instant,
    /// The provenance under which other servers get the stream; `None` while they do not.
    pub(super) mark: Option<(StreamName, Mark)>,
}

/// Whether the core knows that somebody needs the stream here. All viewers count as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Interest {
    #[default]
    None,
    Pending(ViewerId),
    Counted,
}

impl Followed {
    /// Notes that the claim of `publisher` is over, or that of the source for `None`.
    pub(super) fn give_up(&mut self, publisher: Option<PublisherId>, provenances: &Provenances) {
        let own = self.own.take_if(|own| own.publisher == publisher);
        if let Some((name, mark)) = own.and_then(|own| own.mark) {
            provenances.end(&name, mark);
        }
    }

    /// Notes the core's decision about the viewers here.
    pub(super) fn decided(&mut self, viewer: ViewerId, decision: &ViewDecision, now: Instant) {
        if self.interest != Interest::Pending(viewer) {
            return;
        }
        self.interest = match decision {
            ViewDecision::Here => Interest::Counted,
            _ => {
                self.ask_at = Some(now + ASK_AGAIN);
                Interest::None
            }
        };
        for waiting in self.waiting.drain(..) {
            // Whoever asked may have left.
            let _ = waiting.send(decision.clone());
        }
    }
}

impl Core {
    /// Looks at `stream` from now on: whether somebody needs it here, and how many watch it.
    pub(super) fn follow(&mut self, name: &Name, stream: &Arc<Stream>) -> &mut Followed {
        let followed = self.followed.entry(name.clone()).or_default();
        followed.stream = Arc::downgrade(stream);
        followed
    }
}

impl Member {
    /// Asks the cluster for a stream that viewers of this server wait for.
    pub(super) fn seek(
        &self,
        name: &Name,
        stream: &Arc<Stream>,
    ) -> oneshot::Receiver<ViewDecision> {
        let (answer, decision) = oneshot::channel();
        self.with_core(|core, now| {
            let viewer = core.viewer();
            let followed = core.follow(name, stream);
            match followed.interest {
                Interest::Counted => {
                    let _ = answer.send(ViewDecision::Here);
                }
                Interest::Pending(_) => followed.waiting.push(answer),
                Interest::None => {
                    followed.waiting.push(answer);
                    followed.interest = Interest::Pending(viewer);
                    core.node.view(now, viewer, name, Access::Here);
                }
            }
        });
        decision
    }

    /// Returns the hub's stream of a name, which is made for what is pulled; `None` if the hub has no
    /// room or the name is none of this server's.
    pub fn stream_of(&self, name: &Name) -> Option<Arc<Stream>> {
        let name = stream_names::parse(name.as_str()).ok()?;
        if let Some(stream) = self.hub.stream(name.as_str()) {
            return Some(stream);
        }
        self.hub.admit_on_demand(name).ok()
    }

    /// Looks at all streams: tells the core who needs them, and which own sources send.
    pub fn look(&self) {
        self.measure(Instant::now());
        let load = self.load();
        self.with_core(|core, now| {
            core.node.set_load(load);
            core.note_headroom(load.headroom);
            let mut followed = std::mem::take(&mut core.followed);
            followed.retain(|name, followed| self.look_at(core, now, name, followed));
            core.followed = followed;
        });
    }

    /// Looks at one stream. Returns false if there is nothing to follow any more.
    fn look_at(&self, core: &mut Core, now: Moment, name: &Name, followed: &mut Followed) -> bool {
        let known = followed.stream.upgrade();
        let stream = match known {
            Some(stream) => Some(stream),
            None => self.look_for(name, followed),
        };
        let is_needed = stream.as_ref().is_some_and(|it| it.is_demanded());
        match followed.interest {
            Interest::None if is_needed && followed.ask_at.is_none_or(|at| at <= now.at) => {
                let viewer = core.viewer();
                followed.interest = Interest::Pending(viewer);
                core.node.view(now, viewer, name, Access::Here);
            }
            Interest::Counted if !is_needed => {
                followed.interest = Interest::None;
                core.node.viewer_left(now, name);
            }
            _ => {}
        }
        let viewers = stream.as_ref().map_or(0, |stream| stream.viewers());
        let viewers = u32::try_from(viewers).unwrap_or(u32::MAX);
        core.node.set_viewers(now, name, viewers);
        if let Some(own) = &followed.own {
            let silent = stream.as_deref().and_then(|it| it.silent_for(now.at));
            if let Some(at) = silent.and_then(|silent| now.at.checked_sub(silent)) {
                core.node.media_arrived(now, name, at);
            }
            if sends(own, silent, now.at) {
                core.node.frame_arrived(now, name);
            }
        }
        let is_idle = followed.interest == Interest::None && followed.waiting.is_empty();
        stream.is_some() || followed.own.is_some() || followed.is_configured || !is_idle
    }

    /// Looks whether the hub has the stream by now.
    fn look_for(&self, name: &Name, followed: &mut Followed) -> Option<Arc<Stream>> {
        let stream = self.hub.stream(name.as_str())?;
        followed.stream = Arc::downgrade(&stream);
        Some(stream)
    }

    /// Wakes the driver.
    pub fn wake(&self) {
        self.changed.wake();
    }
}

/// Whether the source of this server's own claim sends.
fn sends(own: &Own, silent: Option<Duration>, now: Instant) -> bool {
    // A camera that is down or on demand stays with the server that is connected to it.
    if own.publisher.is_none() {
        return true;
    }
    match silent {
        Some(silent) => silent < 2 * LOOK,
        None => now.saturating_duration_since(own.since) < BEGINS_WITHIN,
    }
}
