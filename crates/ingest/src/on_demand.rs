//! Sources that are connected only while somebody needs what they bring.

use std::sync::Arc;
use std::time::Duration;

use glassline_hub::{Prospect, State, Stream, Wake};
use glassline_runtime::TaskWaker;

/// Everything that a source is connected for: a stream, or a layer of one.
pub(crate) trait Supply: Send + Sync {
    /// Returns the stream to which the source contributes.
    fn stream(&self) -> &Arc<Stream>;

    /// Returns whether anybody needs the source now.
    fn is_needed(&self) -> bool {
        self.stream().is_demanded()
    }

    /// Wakes `watcher` when the source may be needed, or needed no more.
    fn watch(&self, watcher: &Arc<dyn Wake>) {
        Stream::watch(self.stream(), watcher);
    }

    /// Returns what the source is doing.
    fn state(&self) -> State {
        Stream::state(self.stream())
    }

    /// Sets what the source is doing, while it does not publish.
    fn set_state(&self, state: State) {
        Stream::set_state(self.stream(), state);
    }
}

impl Supply for Arc<Stream> {
    fn stream(&self) -> &Self {
        self
    }
}

/// When a source is to be connected: always, or while somebody needs it.
pub(crate) struct OnDemand<'a> {
    supply: &'a dyn Supply,
    /// Time in which nobody needs the source after which it is left; `None` if it stays connected.
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
    /// Watches `supply`, which begins idle if there is an `idle` time.
    pub(crate) fn new(supply: &'a dyn Supply, idle: Option<Duration>) -> Self {
        let changed = Arc::new(TaskWaker::default());
        if idle.is_some() {
            let watcher = Arc::clone(&changed) as Arc<dyn Wake>;
            supply.watch(&watcher);
        }
        Self {
            supply,
            idle,
            changed,
        }
    }

    /// Waits until somebody needs the source. No timer runs meanwhile.
    pub(crate) async fn needed(&self) {
        while self.idle.is_some() && !self.supply.is_needed() {
            self.changed.woken().await;
        }
        if self.supply.state() == State::Idle {
            self.supply.set_state(State::Connecting);
        }
    }

    /// Waits until nobody has needed the source for the idle time.
    pub(crate) async fn unneeded(&self) {
        let Some(idle) = self.idle else {
            return std::future::pending().await;
        };
        loop {
            while self.supply.is_needed() {
                self.changed.woken().await;
            }
            let waiting = async {
                while !self.supply.is_needed() {
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
