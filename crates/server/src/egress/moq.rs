//! Streams of the hub for those who read over QUIC.
//!
//! ```text
//! hub ─ bursts ─► Depacketiser, a track ─ units ─► Broadcast ─► every session that reads it
//! ```
//!
//! A stream is announced while it is live, and put together only while somebody reads
//! it, once for all of them. Who is slow loses the oldest groups, and nobody else does.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use bytes::Bytes;
use glassline_hub::{Hub, State, Stream, StreamName, Wake};
use glassline_media::{Bitrate, Burst, Kind, MediaTime, Track};
use glassline_quic::moq::{self, Broadcast, Frame, Lane, Offer};
use glassline_rtp::payload::Depacketiser;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::runtime::{Clock, Counter};

/// How often the hub's streams are looked through.
const LOOK: Duration = Duration::from_millis(250);

/// A group that is so far behind the newest is given up.
const DEADLINE: Duration = Duration::from_secs(2);

/// How long a stream is put together after the last one who read it.
const LINGER: Duration = Duration::from_secs(5);

/// Units whose time is remembered while they are put together.
const UNDER_WAY: usize = 16;

/// Announces the hub's live streams in `offer` until the server stops.
pub(crate) async fn run(
    hub: Arc<Hub>,
    offer: Offer,
    left_out: Arc<Counter>,
    clock: Clock,
    mut stopped: watch::Receiver<bool>,
) {
    let mut offered: HashMap<StreamName, JoinHandle<()>> = HashMap::new();
    let mut ticks = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = stopped.wait_for(|stop| *stop) => break,
        }
        offered.retain(|_, task| !task.is_finished());
        for stream in hub.streams() {
            if !is_live(&stream) || offered.contains_key(stream.name()) {
                continue;
            }
            let name = stream.name().clone();
            let serving = serve(stream, offer.clone(), Arc::clone(&left_out), clock);
            offered.insert(name, tokio::spawn(serving));
        }
    }
    for task in offered.into_values() {
        task.abort();
    }
}

fn is_live(stream: &Stream) -> bool {
    matches!(stream.state(), State::Live { .. })
}

/// Rings when the stream has something new.
struct Bell(Notify);

impl Wake for Bell {
    fn wake(&self) {
        self.0.notify_one();
    }
}

/// Offers one stream for as long as it is live and its tracks stay what they are.
async fn serve(stream: Arc<Stream>, offer: Offer, left_out: Arc<Counter>, clock: Clock) {
    let tracks = stream.tracks();
    let carried = |it: &(usize, &Track)| moq::is_carried(it.1.codec);
    let lanes: Vec<_> = tracks.iter().enumerate().filter(carried).collect();
    let bell = Arc::new(Bell(Notify::new()));
    let mut subscription = stream.subscribe(Arc::clone(&bell) as Arc<dyn Wake>);
    let codecs = |tracks: &[Track]| tracks.iter().map(|it| it.codec).collect::<Vec<_>>();
    let before = codecs(&tracks);
    let goes_on = || is_live(&stream) && codecs(&stream.tracks()) == before;
    if lanes.is_empty() {
        while goes_on() {
            bell.0.notified().await;
        }
        return;
    }
    let name = stream.name().as_str();
    let made = lanes
        .iter()
        .map(|(_, track)| lane(track, &stream))
        .collect();
    let mut broadcast = match offer.publish(name, made) {
        Ok(broadcast) => broadcast,
        Err(error) => {
            tracing::warn!(stream = name, %error, "not offered over QUIC");
            return;
        }
    };
    if let Some(zero) = clock_of(&stream) {
        broadcast.set_clock(zero.0, UNIX_EPOCH + clock.wall().unix(zero.1));
    }
    let Ok(mut outlets) = lanes
        .iter()
        .enumerate()
        .map(|(place, (index, track))| Outlet::new(place, *index, track))
        .collect::<Result<Vec<_>, _>>()
    else {
        tracing::warn!(stream = name, "a track cannot be put together for QUIC");
        return;
    };
    // Where its parameter sets are known it can be announced before anybody reads.
    let _ = broadcast.announce();
    let mut arrived = Vec::new();
    let mut wanted_at: Option<Instant> = None;
    let mut is_on = false;
    while goes_on() {
        if broadcast.is_wanted() || !broadcast.is_announced() {
            wanted_at = Some(Instant::now());
        }
        let lingers = wanted_at.is_some_and(|at| at.elapsed() < LINGER);
        if !lingers {
            is_on = false;
            // Bursts that nobody reads wake nobody but this loop, once in a while.
            tokio::select! {
                () = broadcast.wanted() => {}
                () = tokio::time::sleep(LINGER) => {}
            }
            subscription.poll(&mut arrived);
            arrived.clear();
            continue;
        }
        if !is_on {
            is_on = true;
            subscription.poll(&mut arrived);
            arrived.clear();
            for outlet in &mut outlets {
                outlet.begin(&stream, &mut broadcast, &left_out);
            }
        }
        bell.0.notified().await;
        subscription.poll(&mut arrived);
        for burst in arrived.drain(..) {
            if let Some(outlet) = outlets.iter_mut().find(|it| it.index == burst.track) {
                outlet.push(&burst, &mut broadcast, &left_out);
            }
        }
    }
    broadcast.finish();
}

fn lane(track: &Track, stream: &Stream) -> Lane {
    let lane = Lane::new(track.clone()).with_deadline(DEADLINE);
    let rate = stream.bitrate(Instant::now());
    // The stream's whole rate is told for its picture: sound is little of it.
    if track.kind() == Kind::Video && rate > Bitrate::default() {
        lane.with_bitrate(rate)
    } else {
        lane
    }
}

/// A media time of the stream, and when it was due by the stream's own clock.
fn clock_of(stream: &Stream) -> Option<(MediaTime, Instant)> {
    let anchor = stream.accounted_track();
    let latest = stream.since_keyframe(anchor).pop()?;
    Some((latest.time, latest.stamps.reference))
}

/// One track, from bursts back to units.
struct Outlet {
    /// In the broadcast.
    place: usize,
    /// In the stream.
    index: usize,
    is_sound: bool,
    clock_rate: u32,
    depacketiser: Depacketiser,
    /// Timestamps of units under way, and their time.
    under_way: VecDeque<(u32, MediaTime)>,
    /// The next burst.
    next: u64,
}

impl Outlet {
    fn new(
        place: usize,
        index: usize,
        track: &Track,
    ) -> Result<Self, glassline_rtp::payload::Unreceivable> {
        Ok(Self {
            place,
            index,
            is_sound: track.kind() == Kind::Audio,
            clock_rate: track.clock_rate,
            depacketiser: Depacketiser::new(track)?,
            under_way: VecDeque::new(),
            next: 0,
        })
    }

    /// Begins with the newest keyframe, and the sound of now.
    fn begin(&mut self, stream: &Arc<Stream>, broadcast: &mut Broadcast, left_out: &Counter) {
        if self.is_sound {
            return;
        }
        for burst in stream.since_keyframe(self.index) {
            self.push(&burst, broadcast, left_out);
        }
    }

    fn push(&mut self, burst: &Burst, broadcast: &mut Broadcast, left_out: &Counter) {
        if burst.index < self.next {
            return;
        }
        self.next = burst.index + 1;
        let timestamp = wrapped(burst.time.ticks(self.clock_rate));
        if self.under_way.back().is_none_or(|(it, _)| *it != timestamp) {
            if self.under_way.len() == UNDER_WAY {
                self.under_way.pop_front();
            }
            self.under_way.push_back((timestamp, burst.time));
        }
        for (place, payload) in burst.payloads().enumerate() {
            let sequence = burst.first_packet + place as u64;
            self.depacketiser
                .push(sequence, timestamp, burst.marker(place), payload);
        }
        while let Some(unit) = self.depacketiser.poll() {
            let known = self.under_way.iter().find(|(it, _)| *it == unit.timestamp);
            let frame = Frame {
                time: known.map_or(burst.time, |(_, time)| *time),
                keyframe: unit.keyframe || self.is_sound,
                data: Bytes::from(unit.data),
            };
            if let Err(error) = broadcast.write(self.place, &frame) {
                tracing::debug!(%error, "a frame is left out for QUIC");
                left_out.add(1);
            }
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "RTP time wraps"
)]
const fn wrapped(ticks: i64) -> u32 {
    ticks as u32
}
