//! What those who watch and the thread that reads say to each other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use glassline_hub::PublishError;
use glassline_media::MediaTime;

use super::play::Play;

/// Shared by a reading and its users.
#[derive(Debug, Default)]
pub(super) struct Control(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    order: Order,
    /// Counts orders: what an older one read is not published any more.
    generation: u64,
    told: Told,
    users: usize,
    gone: bool,
}

/// What the reading tells.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) started: Option<Result<Started, Failure>>,
    /// Where in the file the newest burst lies.
    pub(super) position: Duration,
}

/// What a reading is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Order {
    #[default]
    Pause,
    Play(Play),
}

/// How a reading began that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Started {
    /// Where in the file: the keyframe before what was asked for, for `Range`.
    pub from: Duration,
    /// Where it ends, if before the file's end.
    pub until: Option<Duration>,
    /// In effect, which is near what was asked for.
    pub scale: f64,
    /// In effect.
    pub speed: f64,
    /// Where `from` lies on the stream's timeline, for the timestamps of `RTP-Info`.
    pub time: MediaTime,
    /// For each track the number of the first packet (see
    /// [`MediaUnit::first_packet`](glassline_media::MediaUnit::first_packet)) that belongs to it.
    pub first_packets: Vec<u64>,
}

/// Why a reading broke off.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The file changed under it, or the disk failed.
    #[error(transparent)]
    File(#[from] Arc<glassline_demux::Error>),
    /// The stream has another source.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

impl Control {
    /// With one user.
    pub(super) fn new() -> Self {
        let control = Self::default();
        control.lock().users = 1;
        control
    }

    /// Gives an order. When this returns nothing of the one before is published
    /// any more.
    pub(super) fn order(&self, order: Order) {
        let mut inner = self.lock();
        inner.order = order;
        inner.generation += 1;
        if order != Order::Pause {
            inner.told.started = None;
        }
    }

    /// The present order, if it is not the one of `generation`.
    pub(super) fn new_order(&self, generation: u64) -> Option<(u64, Order)> {
        let inner = self.lock();
        (inner.generation != generation).then_some((inner.generation, inner.order))
    }

    /// Orders `play`, unless something was ordered before that still holds.
    pub(super) fn order_first(&self, play: Play) -> bool {
        let mut inner = self.lock();
        let has_failed = matches!(inner.told.started, Some(Err(_)));
        let is_first = inner.generation == 0 || has_failed;
        if is_first {
            inner.order = Order::Play(play);
            inner.generation += 1;
            inner.told.started = None;
        }
        is_first
    }

    /// Does `publish` while no other order can come, unless there is one already.
    pub(super) fn publish<T>(
        &self,
        generation: u64,
        publish: impl FnOnce(&mut Told) -> T,
    ) -> Option<T> {
        let mut inner = self.lock();
        (inner.generation == generation).then(|| publish(&mut inner.told))
    }

    pub(super) fn fail(&self, failure: Failure) {
        self.lock().told.started = Some(Err(failure));
    }

    pub(super) fn started(&self) -> Option<Result<Started, Failure>> {
        self.lock().told.started.clone()
    }

    pub(super) fn position(&self) -> Duration {
        self.lock().told.position
    }

    /// One more user, if the reading is still there.
    pub(super) fn join(&self) -> bool {
        let mut inner = self.lock();
        if !inner.gone {
            inner.users += 1;
        }
        !inner.gone
    }

    pub(super) fn leave(&self) {
        let mut inner = self.lock();
        inner.users = inner.users.saturating_sub(1);
    }

    pub(super) fn has_users(&self) -> bool {
        self.lock().users > 0
    }

    /// Says that the reading goes, unless somebody joined meanwhile.
    pub(super) fn go(&self) -> bool {
        let mut inner = self.lock();
        inner.gone = inner.users == 0;
        inner.gone
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
