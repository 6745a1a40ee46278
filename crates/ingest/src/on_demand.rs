//! Cameras that are connected only while somebody needs their stream.

use std::sync::Arc;
use std::time::Duration;

use glassline_hub::{Prospect, State, Stream, Wake};
use glassline_runtime::TaskWaker;

/// When a camera is to be connected: always, or while somebody needs its stream.
pub(crate) struct OnDemand<'a> {
    stream: &'a Arc<Stream>,
    /// Time without receivers after which the camera is left; `None` if it stays connected.
    idle: Option<Duration>,
    changed: Arc<TaskWaker>,
}

/// Makes a stream idle whose camera comes when somebody needs it, so that requests wait for it.
pub(crate) fn begin_idle(stream: &Stream) {
    stream.set_state(State::Idle);
    if stream.prospect() == Prospect::None {
        stream.set_prospect(Prospect::OnDemand);
    }
}

impl<'a> OnDemand<'a> {
    /// Watches `stream`, which begins idle if there is an `idle` time.
    pub(crate) fn new(stream: &'a Arc<Stream>, idle: Option<Duration>) -> Self {
        let changed = Arc::new(TaskWaker::default());
        if idle.is_some() {
            let watcher = Arc::clone(&changed) as Arc<dyn Wake>;
            stream.watch(&watcher);
        }
        Self {
            stream,
            idle,
            changed,
        }
    }

    /// Waits until somebody needs the stream. No timer runs meanwhile.
    pub(crate) async fn needed(&self) {
        while self.idle.is_some() && !self.stream.is_demanded() {
            self.changed.woken().await;
        }
        if self.stream.state() == State::Idle {
            self.stream.set_state(State::Connecting);
        }
    }

    /// Waits until nobody has needed the stream for the idle time.
    pub(crate) async fn unneeded(&self) {
        let Some(idle) = self.idle else {
            return std::future::pending().await;
        };
        loop {
            while self.stream.is_demanded() {
                self.changed.woken().await;
            }
            let waiting = async {
                while !self.stream.is_demanded() {
                    self.changed.woken().await;
                }
            };
            if tokio::time::timeout(idle, waiting).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use glassline_hub::{Limits, StreamName};

    use super::*;

    const IDLE: Duration = Duration::from_millis(100);

    fn stream() -> Arc<Stream> {
        let name = StreamName::parse("cam").expect("a name");
        Stream::unlisted(name, Limits::default())
    }

    #[tokio::test]
    async fn a_camera_is_left_once_nobody_came_back_for_the_idle_time() {
        let stream = stream();
        begin_idle(&stream);
        let on_demand = OnDemand::new(&stream, Some(IDLE));
        assert_eq!(stream.state(), State::Idle);
        let demand = stream.demand();
        on_demand.needed().await;
        assert_eq!(stream.state(), State::Connecting);
        let mut leaving = std::pin::pin!(on_demand.unneeded());
        let early = tokio::time::timeout(IDLE * 3, &mut leaving).await;
        assert!(early.is_err(), "somebody watches");
        drop(demand);
        let back = stream.demand();
        let early = tokio::time::timeout(IDLE * 3, &mut leaving).await;
        assert!(early.is_err(), "somebody came back");
        let since = std::time::Instant::now();
        drop(back);
        leaving.await;
        assert!(since.elapsed() >= IDLE);
    }

    #[tokio::test]
    async fn a_camera_that_stays_connected_is_always_needed() {
        let stream = stream();
        let always = OnDemand::new(&stream, None);
        assert_eq!(stream.state(), State::Connecting);
        always.needed().await;
        let left = tokio::time::timeout(IDLE * 3, always.unneeded()).await;
        assert!(left.is_err(), "nobody needs it, and it stays");
    }
}
