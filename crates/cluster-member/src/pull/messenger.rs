//! The messages beside a stream that is pulled: from the server that the stream is pulled from, while
//! somebody here needs them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Stream, Wake};
use glassline_messages::{MessageLinks, PublisherClaim, PulledPublisher, Upstream};
use glassline_quic::moq::{
    MESSAGES_VERSION, MessageOpener, MessageReceiver, MessageSender, MessageStreamError,
};
use glassline_runtime::{Part, Supervisor, TaskWaker};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

/// Interval at which it is looked whether messages are still needed, while they pass.
const NEED_INTERVAL: Duration = Duration::from_secs(1);

/// Time after which messages are asked for again where they ended, and where they were refused.
const RETRY: Duration = Duration::from_millis(500);
const RETRY_REFUSED: Duration = Duration::from_secs(10);

/// Where the messages of a stream come from.
#[derive(Clone, Debug)]
pub(super) struct MessageSource {
    /// Host of the server, for the log.
    pub(super) host: String,
    /// Epoch and process under which the stream is published.
    pub(super) claim: PublisherClaim,
    /// Opens streams of messages; `None` if the server knows no messages of this version.
    pub(super) opener: Option<MessageOpener>,
}

impl MessageSource {
    fn is_same_way(&self, other: &Self) -> bool {
        match (&self.opener, &other.opener) {
            (Some(one), Some(other)) => one.is_same(other),
            (None, None) => self.host == other.host,
            _ => false,
        }
    }
}

/// Brings the messages of a stream that is pulled. It ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Messenger {
    source: watch::Sender<Option<MessageSource>>,
    task: JoinHandle<()>,
}

impl Messenger {
    /// Begins to look whether anybody needs the messages of `stream`. Must be called within tokio.
    pub(super) fn start(
        links: &Arc<MessageLinks>,
        stream: &Arc<Stream>,
        supervisor: &Arc<Supervisor>,
    ) -> Self {
        let (source, sources) = watch::channel(None);
        let bringing = Bringing::new(links, stream, sources);
        let (supervisor, name) = (Arc::clone(supervisor), stream.name().clone());
        let task = tokio::spawn(async move {
            let running = bringing.run();
            if supervisor.catch_task(Part::Quic, running).await.is_err() {
                tracing::error!(
                    stream = %name,
                    "passing messages beside a pulled stream panicked: none pass until it is pulled anew"
                );
            }
        });
        Self { source, task }
    }

    /// Takes the messages from `source` from now on; `None` takes none.
    pub(super) fn set_source(&self, source: Option<MessageSource>) {
        self.source.send_if_modified(|present| {
            let is_same = match (&*present, &source) {
                (Some(one), Some(other)) => one.claim == other.claim && one.is_same_way(other),
                (None, None) => true,
                _ => false,
            };
            *present = source;
            !is_same
        });
    }
}

impl Drop for Messenger {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task of a [`Messenger`].
struct Bringing {
    stream: Arc<Stream>,
    upstream: Upstream,
    publisher: Arc<PulledPublisher>,
    sources: watch::Receiver<Option<MessageSource>>,
    /// Woken when somebody begins to need messages.
    needed: Arc<TaskWaker>,
    /// The text that was logged last, so that nothing is logged again and again.
    told: Option<String>,
}

impl Bringing {
    fn new(
        links: &Arc<MessageLinks>,
        stream: &Arc<Stream>,
        sources: watch::Receiver<Option<MessageSource>>,
    ) -> Self {
        let upstream = Upstream::new(links, stream.name());
        Self {
            stream: Arc::clone(stream),
            publisher: Arc::clone(upstream.publisher()),
            upstream,
            sources,
            needed: Arc::default(),
            told: None,
        }
    }

    /// Brings messages until the pull is over.
    async fn run(mut self) {
        let watcher = Arc::clone(&self.needed) as Arc<dyn Wake>;
        self.publisher.watch(&watcher);
        // A viewer of nothing but messages needs the stream, too.
        let mut demand = None;
        loop {
            let source = self.sources.borrow_and_update().clone();
            if !self.publisher.is_needed() {
                self.upstream.rest();
                demand = None;
                self.needed.woken().await;
                continue;
            }
            demand.get_or_insert_with(|| self.stream.demand());
            let wait = match source {
                Some(source) => self.bring(&source).await,
                None => {
                    // What viewers send waits for the next source, as long as there are viewers: the
                    // demand would keep a pull without source for ever.
                    self.upstream.begin();
                    Some(NEED_INTERVAL)
                }
            };
            // The needs may end, too: then nothing is lost by looking late.
            let waiting = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            let has_changed = self.sources.has_changed();
            match has_changed {
                Ok(true) => {}
                Err(_) => return,
                Ok(false) => tokio::select! {
                    changed = self.sources.changed() => if changed.is_err() { return },
                    () = waiting => {}
                },
            }
        }
    }

    /// Brings messages from `source` until it is another one or nobody needs them. Returns when to look
    /// again; `None` if that depends on the source alone.
    async fn bring(&mut self, source: &MessageSource) -> Option<Duration> {
        let Some(opener) = &source.opener else {
            self.upstream.rest();
            let why = format!(
                "the server knows no version {MESSAGES_VERSION} of messages: use servers of one version"
            );
            self.tell(&source.host, &why);
            return Some(RETRY_REFUSED);
        };
        self.publisher.follow(source.claim, Instant::now());
        self.upstream.begin();
        let ended = match opener.open().await {
            Ok((sender, receiver)) => {
                let (stream, host) = (self.stream.name(), &source.host);
                tracing::debug!(%stream, host, "messages of the pulled stream pass");
                self.pass(source, sender, receiver).await?
            }
            Err(error) => error,
        };
        match &ended {
            MessageStreamError::Refused(why) => {
                self.upstream.rest();
                self.tell(&source.host, &why.to_string());
                Some(RETRY_REFUSED)
            }
            _ => Some(RETRY),
        }
    }

    /// Passes messages both ways. Returns why they ended; `None` if the source is another one, or nobody
    /// needs messages any more.
    async fn pass(
        &mut self,
        source: &MessageSource,
        sender: MessageSender,
        receiver: MessageReceiver,
    ) -> Option<MessageStreamError> {
        let mut ticks = tokio::time::interval(NEED_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut running = std::pin::pin!(self.upstream.run(sender, receiver));
        loop {
            tokio::select! {
                ended = &mut running => return Some(ended),
                changed = self.sources.changed() => {
                    changed.ok()?;
                    let present = self.sources.borrow_and_update().clone();
                    match present.filter(|present| present.is_same_way(source)) {
                        Some(present) => self.publisher.follow(present.claim, Instant::now()),
                        None => {
                            self.sources.mark_changed();
                            return None;
                        }
                    }
                }
                _ = ticks.tick() => {
                    if !self.publisher.is_needed() {
                        self.sources.mark_changed();
                        return None;
                    }
                }
            }
        }
    }

    fn tell(&mut self, host: &str, why: &str) {
        let now = format!("{host}: {why}");
        if self.told.as_ref() != Some(&now) {
            let stream = self.stream.name();
            tracing::warn!(%stream, host, why, "messages of the pulled stream do not pass");
            self.told = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use glassline_hub::{Limits, StreamName};
    use glassline_messages::Side;

    use super::*;

    async fn until(is_so: impl Fn() -> bool) {
        let looking = async {
            while !is_so() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(20), looking).await;
        found.expect("within 20 s");
    }

    #[tokio::test]
    async fn a_pull_without_source_is_not_kept_by_a_viewer_that_left() {
        let name = StreamName::parse("cam").expect("a name");
        let stream = Stream::unlisted(name.clone(), Limits::default());
        let links = MessageLinks::new(None);
        let supervisor = Supervisor::start().expect("a thread");
        let messenger = Messenger::start(&links, &stream, &supervisor);
        messenger.set_source(None);
        let wake = Arc::new(TaskWaker::default()) as Arc<dyn Wake>;
        let viewer = links.brokers.of(&name).subscribe(Side::Viewers, wake);
        until(|| stream.is_demanded()).await;
        drop(viewer);
        until(|| !stream.is_demanded()).await;
    }
}
