//! The role of a peer that receives a stream.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_egress::webrtc::{Delivery, LayerRequest, StreamSender};
use glassline_hub::{Demand, Stream, StreamName, TrackLayout, ViewerToken};
use glassline_latency::LayerView;
use glassline_media::{Bitrate, Kind, LayerIndex, Track, TrackLayer};
use glassline_transcoding::{Substitutes, TranscodingLease};
use glassline_webrtc::Session;

use super::own_stream::{OwnStream, Sources};

/// Shortest interval between two log lines that say that one viewer is too slow, so that logging
/// does not slow the shard down.
const SKIP_LOGGED: Duration = Duration::from_secs(10);

/// Time for which a viewer whose frames were skipped counts as one whose path is too narrow.
const WEAK: Duration = Duration::from_secs(30);

/// The remedy for viewers whose path carries less than the only layer of a stream.
pub(super) const LADDER_HELPS: &str = "`ladder: [360p]` at the source gives such viewers a lower one, and takes about a fifth of a core for 720p while they watch";

/// Returns whether the stream has video in a single encoding.
pub(super) fn lacks_layers(tracks: &[Track]) -> bool {
    let mut videos = tracks.iter().filter(|it| it.kind() == Kind::Video);
    videos.next().is_some_and(|it| it.layers.is_empty())
}

/// The state that only a viewer needs: its stream sender and its entry in the stream's viewer
/// count.
#[derive(Debug)]
pub(crate) struct Viewer {
    pub(super) sender: StreamSender,
    /// The stream's track layout that the session negotiated.
    layout: TrackLayout,
    /// The transcodings that the viewer's tracks need, which run while a viewer holds them.
    transcodings: Vec<TranscodingLease>,
    /// The tracks that the session negotiated, once the viewer has got another stream.
    own: Option<Box<OwnStream>>,
    /// Keeps a source on demand from the offer on; `None` if the session carries no media.
    demand: Option<Demand>,
    /// Counts the peer among the stream's viewers, from the handshake on.
    token: Option<ViewerToken>,
    last_skip_logged: Option<Instant>,
    /// Whether the viewer should get another layer that is not chosen yet.
    pub(super) is_moved: bool,
    /// Time at which the state of the path was published last.
    pub(super) path_shown: Option<Instant>,
}

impl Viewer {
    /// Creates a viewer of the stream that `demand` is for, over `session`, which negotiated tracks of
    /// `layout` and whose handshake has not begun. `substitutes` stand for the tracks that the viewer does not
    /// decode. Frames and repairs leave as `delivery` says.
    pub(crate) fn new(
        session: &Session,
        demand: Demand,
        layout: TrackLayout,
        substitutes: Substitutes,
        delivery: Delivery,
        now: Instant,
    ) -> Self {
        let Substitutes {
            leases: mut transcodings,
            layers,
        } = substitutes;
        let needs = transcodings.iter().map(|lease| TrackLayer {
            track: lease.track(),
            layer: LayerIndex::TRANSCODED,
        });
        let fixed: Vec<_> = needs.chain(layers).collect();
        let sender = StreamSender::new(session, demand.stream(), &fixed, delivery, now);
        // The offer may have had no use for a track.
        transcodings.retain(|lease| sender.transcoded().any(|it| it.track == lease.track()));
        Self {
            demand: (!sender.is_empty()).then_some(demand),
            sender,
            layout,
            transcodings,
            own: None,
            token: None,
            last_skip_logged: None,
            is_moved: false,
            path_shown: None,
        }
    }

    /// Returns the viewer with the request of its offer.
    pub(crate) fn requesting(mut self, request: LayerRequest, now: Instant) -> Self {
        self.request_layer(request, now);
        self
    }

    /// Takes a request for a layer of the video.
    pub(super) fn request_layer(&mut self, request: LayerRequest, now: Instant) {
        self.is_moved |= self.sender.set_request(request, now);
    }

    /// Returns the name under which lists have the viewer of `stream`: that of the stream for which its
    /// session was made.
    pub(super) fn listed_under<'a>(&'a self, stream: &'a Stream) -> &'a StreamName {
        let own = self.own.as_ref();
        own.map_or_else(|| stream.name(), |own| &own.name)
    }

    /// Starts to send media, because the session has keys now.
    pub(super) fn start(&mut self, session: &mut Session, stream: &Arc<Stream>, now: Instant) {
        self.token = Some(stream.add_viewer());
        self.transcodings
            .iter_mut()
            .for_each(TranscodingLease::start);
        self.sender.start(session, stream, now);
        self.is_moved |= self.sender.settle_request(stream, now) || self.sender.is_moving();
    }

    /// Makes the viewer of `from` one of `to`, which [`start`](Self::start) begins. Returns false, and
    /// changes nothing, if `to` has no unit yet, or no video that the session negotiated.
    pub(super) fn go_over(
        &mut self,
        session: &Session,
        from: &Stream,
        to: &Arc<Stream>,
        now: Instant,
    ) -> bool {
        let own = self.own.take();
        let own = own.unwrap_or_else(|| {
            Box::new(OwnStream::new(
                from,
                &self.transcodings,
                self.sender.fixed(),
            ))
        });
        let layout = to.layout();
        let found = own.sources(session, to);
        self.own = Some(own);
        let Some(Sources {
            layers,
            fixed,
            transcodings,
        }) = found
        else {
            return false;
        };
        let sender = self.sender.go_over(session, from, to, &layers, &fixed, now);
        let Some(sender) = sender.filter(|it| !it.is_reordered(&to.tracks())) else {
            return false;
        };
        (self.sender, self.transcodings, self.layout) = (sender, transcodings, layout);
        (self.demand, self.token) = (Some(to.demand()), None);
        self.path_shown = None;
        true
    }

    /// Returns whether the viewer negotiated tracks that the stream no longer has in `layout`, or gets
    /// one of its `tracks` transcoded that needs it no more.
    pub(super) fn is_superseded(&self, layout: TrackLayout, tracks: &[Track]) -> bool {
        let mut transcodings = self.transcodings.iter();
        self.layout < layout && !self.sender.is_empty()
            || transcodings.any(|lease| lease.is_in_vain(tracks))
    }

    /// Returns the layer of `stream` that the viewer gets by its path, and why, as the API shows it.
    pub(super) fn layer_view(
        &self,
        session: &Session,
        stream: &Stream,
        now: Instant,
    ) -> Option<LayerView> {
        let tracks = stream.tracks();
        let Some(report) = self.sender.layer_report() else {
            let since = self.last_skip_logged?;
            let time = now.saturating_duration_since(since);
            let is_weak = time < WEAK && lacks_layers(&tracks);
            return is_weak.then(|| LayerView {
                rid: None,
                temporal_layers: None,
                estimate_bps: None,
                reason: format!("the path carries less than the only layer; {LADDER_HELPS}"),
                seconds: time.as_secs(),
                mid: String::new(),
            });
        };
        let layers = &tracks.get(report.layer.track.get())?.layers;
        let place = usize::from(report.layer.layer.0).checked_sub(1);
        let layer = place.and_then(|place| layers.get(place));
        Some(LayerView {
            rid: layer.map(|it| it.rid.clone()),
            temporal_layers: report.temporal_layers,
            estimate_bps: report.estimate.map(Bitrate::bps),
            reason: report.reason.to_string(),
            seconds: now.saturating_duration_since(report.since).as_secs(),
            mid: session.senders()[report.sender.0].mid.clone(),
        })
    }

    /// Returns whether the log should say at `now` that units were dropped.
    pub(super) fn log_skip(&mut self, now: Instant) -> bool {
        let quiet = self
            .last_skip_logged
            .is_none_or(|at| now.saturating_duration_since(at) > SKIP_LOGGED);
        if quiet {
            self.last_skip_logged = Some(now);
        }
        quiet
    }
}
