//! A camera with several streams of one picture: a connection for each, and a stream of the hub whose video
//! has them as layers.
//!
//! ```text
//! main ─ session ─► LayerSink ─┐                 ┌► layer 1, and the base layer while it is alive
//! sub  ─ session ─► LayerSink ─┴► Publication ───┼► layer 2: in the codec of main, or in another one
//!            ▲                        │          └► audio of the first session that plays
//!            └─ needed, or not ◄──────┴─ layers that the hub's receivers read
//! ```
//!
//! Each connection is made, left and made again on its own. A layer that nobody reads is left after some
//! seconds, and comes back when somebody reads it.

mod camera_layer;
mod clock;
mod layer_sink;
mod publication;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use glassline_hub::{SourceNote, State, Stream, Wake};
use glassline_media::{Track, TrackIndex};
use parking_lot::Mutex;

use super::sink::{Share, Sink};
use super::{Life, RtspCamera};
use crate::on_demand::{self, Supply};
use crate::{CameraSource, pulled};
use layer_sink::LayerSink;
use publication::{Demands, Publication};

/// Time in which nobody reads a layer after which its connection is left.
const UNREAD: Duration = Duration::from_secs(5);

/// Publishes the layers of `camera` into `stream` until the server is stopped. Requests that come before
/// the first poll wait for a camera on demand, too.
pub(super) fn run(
    camera: &CameraSource,
    stream: &Arc<Stream>,
    life: &Life,
) -> BoxFuture<'static, ()> {
    if camera.on_demand.is_some() {
        on_demand::begin_idle(stream);
    }
    let layers = camera.layers();
    let rids = layers.iter().map(|(rid, _)| rid.clone()).collect();
    let publication = Publication::new(Arc::clone(stream), rids, Instant::now());
    let publication = Arc::new(Mutex::new(publication));
    let idle_of_camera = camera.on_demand;
    let pulling = layers.into_iter().enumerate().map(|(layer, (_, camera))| {
        let share = LayerShare {
            publication: Arc::clone(&publication),
            stream: Arc::clone(stream),
            layer,
            is_on_demand: idle_of_camera.is_some(),
        };
        let idle = match layer {
            0 => idle_of_camera.map(|idle| idle.max(UNREAD)),
            _ => Some(UNREAD),
        };
        let source = RtspCamera {
            camera,
            share: Arc::new(share.clone()),
            udp_ports: life.udp_ports,
            transport: None,
        };
        let life = pulled::Life {
            supervisor: Arc::clone(&life.supervisor),
            stopped: life.stopped.clone(),
            idle,
        };
        pulled::supply(source, share, life)
    });
    let pulling: Vec<_> = pulling.collect();
    join_all(pulling).map(drop).boxed()
}

/// One layer of a camera, as its connection sees it.
#[derive(Clone, Debug)]
struct LayerShare {
    publication: Arc<Mutex<Publication>>,
    stream: Arc<Stream>,
    /// Place of the layer; 0 for the main stream.
    layer: usize,
    /// Whether the camera is connected only while somebody needs its stream.
    is_on_demand: bool,
}

impl Share for LayerShare {
    fn begin(&self, note: SourceNote, tracks: Vec<Track>) -> Box<dyn Sink> {
        Box::new(LayerSink::new(self.clone(), note, tracks))
    }

    fn needs_video(&self) -> bool {
        true
    }
}

impl Supply for LayerShare {
    fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    fn is_needed(&self) -> bool {
        let demands = Demands {
            is_demanded: !self.is_on_demand || self.stream.is_demanded(),
            read: self.stream.layers_read(TrackIndex(0)),
        };
        self.publication.lock().needs(self.layer, demands)
    }

    fn watch(&self, watcher: &Arc<dyn Wake>) {
        self.stream.watch(watcher);
        self.publication.lock().watch(watcher);
    }

    fn state(&self) -> State {
        self.publication.lock().state(self.layer)
    }

    fn set_state(&self, state: State) {
        self.publication
            .lock()
            .set_state(self.layer, state, Instant::now());
    }
}
