//! Sources that several servers have in their configuration: each is run by the one server that is
//! told to.

use std::sync::Arc;
use std::time::Duration;

use glassline_hub::{Prospect, State, Stream};
use tokio::sync::watch;

use super::SourceSpec;
use super::source_parts::{Parts, Ready, Surroundings, prepare};

/// Pause before a source that cannot be opened is tried again.
const PAUSE: Duration = Duration::from_secs(3);

/// A source that runs while this server is told to.
pub(super) struct SharedSource {
    pub(super) spec: SourceSpec,
    pub(super) stream: Arc<Stream>,
    pub(super) surroundings: Surroundings,
    /// Whether this server is told to run the source.
    pub(super) permitted: watch::Receiver<bool>,
}

impl SharedSource {
    /// Runs the source whenever it is permitted, until `stopped` becomes true. `ready` is the source
    /// as it was opened at the server's start. Requests that come before the first poll wait, too.
    pub(super) fn run(
        self,
        ready: Ready,
        stopped: watch::Receiver<bool>,
    ) -> impl Future<Output = ()> + Send {
        // Another server may have it, so that viewers wait.
        if self.stream.prospect() == Prospect::None {
            self.stream.set_prospect(Prospect::OnDemand);
        }
        if !self.stream.is_published() {
            self.stream.set_state(State::Idle);
        }
        self.run_whenever_permitted(ready, stopped)
    }

    async fn run_whenever_permitted(mut self, ready: Ready, mut stopped: watch::Receiver<bool>) {
        let mut ready = Some(ready);
        loop {
            // A dropped sender means that the server ends.
            let permitted = async {
                if self.permitted.wait_for(|it| *it).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = permitted => {}
                _ = stopped.wait_for(|stop| *stop) => return,
            }
            let opened = tokio::select! {
                opened = self.open(ready.take()) => opened,
                _ = stopped.wait_for(|stop| *stop) => return,
            };
            if let Some(ready) = opened {
                self.run_once(ready, &mut stopped).await;
            }
        }
    }

    /// Returns the source once it is open; `None` after a pause if it cannot be opened.
    async fn open(&self, ready: Option<Ready>) -> Option<Ready> {
        if ready.is_some() {
            return ready;
        }
        match prepare(self.spec.clone(), &self.surroundings.supervisor).await {
            Ok((_, ready)) => Some(ready),
            Err(error) => {
                tracing::warn!(%error, "source down");
                let detail = error.to_string();
                self.stream.set_state(State::Down { detail });
                tokio::time::sleep(PAUSE).await;
                None
            }
        }
    }

    /// Runs the source while it is permitted and the server goes on, and waits until it has ended: a
    /// camera is told goodbye.
    async fn run_once(&mut self, ready: Ready, server_stopped: &mut watch::Receiver<bool>) {
        let (stop, stopped) = watch::channel(false);
        let mut running = Parts::default();
        let stream = Arc::clone(&self.stream);
        self.stream.set_state(State::Connecting);
        let surroundings = self.surroundings.clone();
        if let Err(error) = running.start(ready, stream, surroundings, stopped) {
            tracing::error!(%error, "cannot start a thread for a source");
            return tokio::time::sleep(PAUSE).await;
        }
        tokio::select! {
            _ = self.permitted.wait_for(|it| !*it) => {}
            _ = server_stopped.wait_for(|stop| *stop) => {}
        }
        drop(stop);
        running.wait().await;
        if !self.stream.is_published() {
            self.stream.set_state(State::Idle);
        }
    }
}
