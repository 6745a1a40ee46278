//! The overview for all dashboards that are open: made at most once a second, by whichever asks
//! first, and not at all while nobody looks.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::response::sse::Event;
use bytes::Bytes;
use futures_util::stream::{self, Stream};
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::merge_patch;
use super::overview::{self, Usage};
use crate::app::App;

/// Interval between two overviews.
const PERIOD: Duration = Duration::from_secs(1);

/// Age from which an overview is made anew; below [`PERIOD`], since timers have jitter.
const STALE: Duration = Duration::from_millis(750);

/// The latest overview, shared by all open dashboards.
#[derive(Debug, Default)]
pub(in crate::http) struct Overviews {
    latest: Mutex<Option<Latest>>,
}

/// An overview, and the way to it from the one before.
#[derive(Debug)]
struct Latest {
    number: u64,
    usage: Usage,
    made: Instant,
    tree: Map<String, Value>,
    /// The tree as JSON, written when somebody asks for all of it.
    whole: OnceLock<Bytes>,
    /// Merge patch from overview `number - 1`; `None` if nothing changed.
    patch: Option<Arc<str>>,
}

/// A dashboard that listens.
struct Listener {
    overviews: Arc<Overviews>,
    app: App,
    ticks: Interval,
    /// Number of the overview that the dashboard shows.
    shown: Option<u64>,
}

impl Overviews {
    /// Returns the events of one dashboard: `overview` with the whole tree at first and after a gap,
    /// then `change` with a merge patch (RFC 7396) each second.
    pub(super) fn events(
        self: Arc<Self>,
        app: App,
    ) -> impl Stream<Item = Result<Event, Infallible>> + Send + use<> {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let listener = Listener {
            overviews: self,
            app,
            ticks,
            shown: None,
        };
        stream::unfold(listener, |mut listener| async move {
            let event = listener.next().await;
            Some((Ok(event), listener))
        })
    }

    /// Returns the latest overview as JSON, or a new one if it is stale.
    pub(super) async fn latest(&self, app: &App) -> Bytes {
        let mut latest = self.latest.lock().await;
        refresh(app, &mut latest).await.whole()
    }
}

/// Makes `latest` anew if it is stale, and returns it.
async fn refresh<'a>(app: &App, latest: &'a mut Option<Latest>) -> &'a Latest {
    let now = Instant::now();
    let is_fresh = |it: &Latest| now.saturating_duration_since(it.made) < STALE;
    if !latest.as_ref().is_some_and(is_fresh) {
        let next = Latest::make(app, latest.as_ref(), now).await;
        *latest = Some(next);
    }
    latest.as_ref().expect("it is there now")
}

impl Latest {
    async fn make(app: &App, before: Option<&Self>, now: Instant) -> Self {
        let usage = Usage::now(now);
        let overview = overview::of(app, usage, before.map(|it| it.usage)).await;
        let tree = match serde_json::to_value(overview) {
            Ok(Value::Object(tree)) => tree,
            other => unreachable!("an overview is an object of names and numbers: {other:?}"),
        };
        let patch = before.and_then(|before| merge_patch::between(&before.tree, &tree));
        Self {
            number: before.map_or(0, |before| before.number + 1),
            usage,
            made: now,
            tree,
            whole: OnceLock::new(),
            patch: patch.map(|patch| patch.to_string().into()),
        }
    }

    fn whole(&self) -> Bytes {
        let write = || serde_json::to_vec(&self.tree).expect("a tree of JSON can be written");
        self.whole.get_or_init(|| write().into()).clone()
    }
}

impl Listener {
    /// Returns the next event: there is at least one a second, so that the dashboard knows that the
    /// server is there.
    async fn next(&mut self) -> Event {
        self.ticks.tick().await;
        let mut latest = self.overviews.latest.lock().await;
        let latest = refresh(&self.app, &mut latest).await;
        let before = self.shown.replace(latest.number);
        match before {
            Some(before) if before == latest.number => Event::default().comment("unchanged"),
            Some(before) if before + 1 == latest.number => match &latest.patch {
                Some(patch) => Event::default().event("change").data(patch),
                None => Event::default().comment("unchanged"),
            },
            _ => {
                let whole = latest.whole();
                let whole = str::from_utf8(&whole).expect("JSON is text");
                Event::default().event("overview").data(whole)
            }
        }
    }
}
