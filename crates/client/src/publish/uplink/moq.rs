//! MoQ: publishes a broadcast in one session, and divides it into groups.

use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

use glassline_media::{Bitrate, Kind, MediaTime, Track, TrackIndex};
use glassline_quic::moq::{
    self, Address, Broadcast, Frame, Options, Role, Session, SessionStats, TrackConfig, WriteError,
};
use glassline_quic::{ClientEndpoint, CongestionControl};
use glassline_trust::Trust;

use super::futures::BoxFuture;
use super::{Error, Feedback, Settings, Uplink, UplinkFigures, layers};
use crate::publish::dispatch::Path;
use crate::publish::queue::SendAction;

/// Bytes that may wait in the session before QUIC takes them. The rest waits in the send
/// queue, where it can be dropped by the group.
const ROOM_BYTES: u64 = 16 << 10;

/// Priority of the best encoding of the video, which is that of other video; audio has 80.
const LAYER_PRIORITY: u8 = 60;

/// Most layers whose priorities differ.
const LAYERS_MAX: u8 = 10;

/// A broadcast that is being published.
pub(super) struct Moq {
    /// Kept while the session lives.
    endpoint: ClientEndpoint,
    session: Session,
    broadcast: Broadcast,
    stats: SessionStats,
    /// Bytes handed to the session since the statistics were taken.
    handed: u64,
    /// Number of the open group of each track.
    open: Vec<Option<u64>>,
}

/// Connects and announces `tracks`.
pub(super) async fn connect(
    address: &Address,
    trust: Trust,
    tracks: &[Track],
    settings: &Settings,
) -> Result<Moq, Error> {
    let endpoint = ClientEndpoint::new().map_err(Error::Socket)?;
    let options = Options {
        congestion: CongestionControl::new(settings.algorithm),
        trust,
        role: Role::Publisher,
    };
    let session = moq::connect(&endpoint, address, options).await;
    let session = session.map_err(Box::new)?;
    let mut broadcast = session.publish(address.name(), configs(tracks, settings))?;
    let now = MediaTime::ZERO + settings.zero.elapsed();
    broadcast.set_clock(now, SystemTime::now());
    Ok(Moq {
        endpoint,
        stats: session.stats(),
        session,
        broadcast,
        handed: 0,
        open: vec![None; tracks.len()],
    })
}

/// Returns how the tracks are sent: of several encodings of the video the lowest first.
fn configs(tracks: &[Track], settings: &Settings) -> Vec<TrackConfig> {
    let layers = layers::named(tracks);
    let configs = TrackIndex::enumerate(tracks).map(|(index, track)| {
        let config = TrackConfig::new(track.clone()).with_deadline(settings.deadline);
        let place = layers.iter().position(|it| it.track == index);
        match (place, track.kind()) {
            (Some(place), _) => {
                let below = u8::try_from(place).unwrap_or(LAYERS_MAX);
                let config = config.named(&layers[place].name);
                let config = config.with_priority(LAYER_PRIORITY + below.min(LAYERS_MAX));
                match place {
                    0 => config,
                    _ => config.as_layer_of(layers[0].track),
                }
            }
            (None, Kind::Video) => config.with_bitrate(settings.bitrate_max),
            (None, _) => config,
        }
    });
    configs.collect()
}

impl Uplink for Moq {
    fn path(&mut self, _: Instant) -> Path {
        self.stats = self.session.stats();
        self.handed = 0;
        let seen = &self.stats.congestion;
        Path {
            backlog_bytes: self.stats.backlog,
            written_bytes_total: self.stats.sent,
            deliverable: seen.deliverable_rate,
            app_limited: seen.app_limited,
            policed: seen.policed,
        }
    }

    fn figures(&self) -> UplinkFigures {
        let seen = &self.stats.congestion;
        let trips = &self.stats.round_trips;
        UplinkFigures {
            sent_bytes: seen.totals.sent,
            delivered_bytes: seen.totals.delivered,
            lost_bytes: seen.totals.lost,
            transport_rtt: seen.smoothed_rtt,
            // An answer that is overdue says more than the last one.
            app_rtt: trips.latest.max(trips.waiting),
            is_wanted: self.broadcast.has_reader(),
            feedback: Some(Feedback::Quic),
        }
    }

    fn room(&mut self) -> u64 {
        let in_flight = self.stats.congestion.in_flight;
        let waiting = self.stats.backlog.saturating_sub(in_flight) + self.handed;
        ROOM_BYTES.saturating_sub(waiting)
    }

    fn execute(&mut self, action: SendAction) -> Result<(), Error> {
        match action {
            SendAction::Send { group, unit, .. } => {
                // What nobody reads waits nowhere.
                if self.broadcast.is_read(unit.track) {
                    self.handed += unit.data.len() as u64;
                }
                if let Some(open) = self.open.get_mut(unit.track.get()) {
                    *open = Some(group);
                }
                let frame = Frame {
                    time: unit.time,
                    keyframe: unit.keyframe,
                    data: unit.data,
                };
                self.broadcast
                    .write(unit.track, &frame)
                    .map_err(|error| match error {
                        WriteError::Ended(ended) => Error::Ended(ended),
                        other => Error::Unit(other.to_string()),
                    })
            }
            SendAction::Reset { track, group } => {
                // Older groups are complete on our side; MoQ's own deadline ends them.
                let open = self.open.get_mut(track.get());
                if let Some(open) = open.filter(|open| **open == Some(group)) {
                    *open = None;
                    self.broadcast.abort_group(track);
                }
                Ok(())
            }
        }
    }

    fn tell_bitrate(&mut self, rate: Bitrate) {
        self.session.report_bitrate(rate);
    }

    fn take_keyframe_request(&mut self) -> bool {
        self.broadcast.take_keyframe_request()
    }

    fn ended(&mut self) -> Option<Error> {
        let ended = pin!(self.session.ended());
        // This is polled regularly, so no waker is needed.
        match ended.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ended) => Some(Error::Ended(ended)),
            Poll::Pending => None,
        }
    }

    fn finish(self: Box<Self>) -> BoxFuture<()> {
        Box::pin(async move {
            self.broadcast.finish();
            self.session.close().await;
            let goodbye = Duration::from_secs(1);
            // The peer may be gone already.
            let _ = tokio::time::timeout(goodbye, self.endpoint.idle()).await;
        })
    }
}
