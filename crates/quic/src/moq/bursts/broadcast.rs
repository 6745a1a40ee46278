//! A broadcast for other servers, at the server that offers it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use glassline_media::{Kind, MediaTime, MediaUnit, Track, TrackLayer};
use moq_net::{Timescale, Timestamp, broadcast, frame as wire, group, kio, track};

use super::catalog::{DrawnCode, Provenance, UnitCatalog};
use super::object::{self, SentStamps};
use super::{NodeClock, nanos};
use crate::moq::catalog::TRACK;
use crate::moq::control_datagrams;
use crate::moq::ended::Ended;
use crate::moq::keyframe_requests::Registration;
use crate::moq::message_stream::MESSAGES_VERSION;
use crate::moq::origin::Origin;

/// Number of audio units in one group: 200 ms of Opus.
const AUDIO_GROUP_UNITS: usize = 10;

/// Most units and bytes of a group without a further keyframe. The group ends before the reader
/// refuses it.
const GROUP_UNITS_MAX: usize = 8_000;
const GROUP_BYTES_MAX: usize = 30 << 20;

const CATALOG_PRIORITY: u8 = 100;
const AUDIO_PRIORITY: u8 = 80;
const VIDEO_PRIORITY: u8 = 60;

/// Counts broadcasts of the process, so that the tracks of each have names of their own.
static BROADCASTS: AtomicU64 = AtomicU64::new(0);

/// A stream that is offered to other servers. It ends when this value is dropped.
#[derive(derive_more::Debug)]
#[debug("UnitBroadcast {{ name: {name:?}, .. }}")]
pub struct UnitBroadcast {
    name: String,
    clock: NodeClock,
    deadline: Duration,
    producer: broadcast::Producer,
    catalog: track::Producer,
    layers: Vec<LayerTrack>,
    /// Number of the description; tracks of another codec get other names.
    description: u64,
    tracks: Vec<Track>,
    requests: Option<Registration>,
    origin: Origin,
}

/// A track of the broadcast: one layer of a track of the stream.
struct LayerTrack {
    of: TrackLayer,
    is_audio: bool,
    producer: track::Producer,
    group: Option<group::Producer>,
    group_units: usize,
    group_bytes: usize,
}

impl Origin {
    /// Makes a broadcast of the stream `name` for the servers that ask for it, without tracks yet.
    /// Groups that are older than the newest one by more than `deadline` are dropped.
    ///
    /// # Errors
    /// [`Ended`] if the collection has ended.
    pub fn units(
        &self,
        name: &str,
        clock: NodeClock,
        deadline: Duration,
    ) -> Result<UnitBroadcast, Ended> {
        let number = BROADCASTS.fetch_add(1, Ordering::Relaxed);
        // Only requests lead to the broadcast, so its own name is never seen.
        let producer = self.producer.create_broadcast(format!("{number}/{name}"));
        let producer = producer.map_err(Ended::of)?;
        let info = track::Info::default().with_priority(CATALOG_PRIORITY);
        let catalog = producer.create_track(TRACK, info).map_err(Ended::of)?;
        Ok(UnitBroadcast {
            name: name.to_owned(),
            clock,
            deadline,
            producer,
            catalog,
            layers: Vec::new(),
            description: number << 16,
            tracks: Vec::new(),
            requests: None,
            origin: self.clone(),
        })
    }
}

impl UnitBroadcast {
    pub(super) const fn producer(&self) -> &broadcast::Producer {
        &self.producer
    }

    /// Describes the stream to its readers: first, and whenever its tracks have changed. Tracks that
    /// go on keep their groups; if a codec or a number of layers differs, all tracks begin anew.
    ///
    /// # Errors
    /// [`Ended`] if the broadcast has ended.
    pub fn describe(
        &mut self,
        provenance: &Provenance,
        tracks: &[Track],
        code: Option<DrawnCode>,
    ) -> Result<(), Ended> {
        let goes_on = self.tracks.len() == tracks.len()
            && self.tracks.iter().zip(tracks).all(|(old, new)| {
                old.is_continued_by(new) && old.layer_count() == new.layer_count()
            });
        if !goes_on {
            self.description += 1;
            self.begin_tracks(tracks)?;
        }
        self.tracks = tracks.to_vec();
        let layers = tracks.iter().enumerate().map(|(index, track)| {
            let names = (0..track.layer_count()).map(|layer| self.track_name(index, layer));
            names.collect()
        });
        let catalog = UnitCatalog {
            provenance: provenance.clone(),
            tracks: tracks.to_vec(),
            layers: layers.collect(),
            messages: MESSAGES_VERSION.into(),
            code,
        };
        let written = self.catalog.write_frame(Timestamp::now(), catalog.write());
        written.map_err(Ended::of)?;
        Ok(())
    }

    fn track_name(&self, track: usize, layer: usize) -> String {
        format!("{track}.{layer}-{:x}", self.description)
    }

    fn begin_tracks(&mut self, tracks: &[Track]) -> Result<(), Ended> {
        for mut old in self.layers.drain(..) {
            old.end_group();
            let _ = old.producer.finish();
        }
        let mut numbers = Vec::new();
        for (index, track) in tracks.iter().enumerate() {
            let is_audio = track.kind() == Kind::Audio;
            let info = track::Info::default()
                .with_timescale(Timescale::MICRO)
                .with_max_age(self.deadline)
                .with_priority(if is_audio {
                    AUDIO_PRIORITY
                } else {
                    VIDEO_PRIORITY
                });
            for layer in 0..track.layer_count() {
                let name = self.track_name(index, layer);
                if !is_audio {
                    numbers.push(control_datagrams::track_number(&self.name, &name));
                }
                let producer = self.producer.create_track(name.as_str(), info.clone());
                self.layers.push(LayerTrack {
                    of: TrackLayer {
                        track: glassline_media::TrackIndex(index),
                        layer: glassline_media::LayerIndex(u8::try_from(layer).unwrap_or(u8::MAX)),
                    },
                    is_audio,
                    producer: producer.map_err(Ended::of)?,
                    group: None,
                    group_units: 0,
                    group_bytes: 0,
                });
            }
        }
        self.requests = Some(self.origin.keyframe_requests.register(&self.name, numbers));
        Ok(())
    }

    /// Writes a unit, sharing its bytes. Units before the first keyframe of their layer, and those
    /// between a dropped group and the next keyframe, are skipped. Returns whether the unit was
    /// written.
    pub fn write(&mut self, unit: &MediaUnit) -> bool {
        let layer = self
            .layers
            .iter_mut()
            .find(|it| it.of == unit.track_layer());
        let written = layer.is_some_and(|layer| layer.write(unit, self.clock));
        if !written && let Some(requests) = &self.requests {
            requests.request();
        }
        written
    }

    /// Waits until a server reads a track.
    pub async fn reader_joined(&self) {
        kio::wait(|waiter| {
            let mut demands = self.layers.iter().map(|it| it.producer.demand());
            match demands.any(|it| it.poll_used(waiter).is_ready()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// Returns the layers that servers read now.
    pub fn layers_read(&self) -> Vec<TrackLayer> {
        let read = self.layers.iter().filter(|it| it.producer.is_used());
        read.map(|it| it.of).collect()
    }

    /// Waits until servers read other layers than `known`.
    pub async fn layers_changed(&self, known: &[TrackLayer]) {
        kio::wait(|waiter| {
            let mut layers = self.layers.iter();
            let is_other = layers.any(|it| match known.contains(&it.of) {
                true => it.producer.poll_unused(waiter).is_ready(),
                false => it.producer.demand().poll_used(waiter).is_ready(),
            });
            match is_other {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// Returns whether a server reads any track.
    pub fn has_reader(&self) -> bool {
        self.layers.iter().any(|it| it.producer.is_used())
    }

    /// Waits until a reader needs a keyframe. All requests before the call count as one.
    pub async fn keyframe_requested(&self) {
        match &self.requests {
            Some(requests) => requests.requested().await,
            None => std::future::pending().await,
        }
    }

    /// Ends the broadcast. Units in the send queue are still sent.
    pub fn finish(mut self) {
        for layer in &mut self.layers {
            layer.end_group();
            let _ = layer.producer.finish();
        }
        let _ = self.catalog.finish();
        self.producer.close();
    }
}

impl LayerTrack {
    fn end_group(&mut self) {
        if let Some(group) = self.group.take() {
            let _ = group.finish();
        }
    }

    fn write(&mut self, unit: &MediaUnit, clock: NodeClock) -> bool {
        let begins = match self.is_audio {
            true => self.group_units >= AUDIO_GROUP_UNITS || self.group.is_none(),
            false => unit.keyframe && unit.first,
        };
        let parts = unit.parts();
        let is_full = self.group_units >= GROUP_UNITS_MAX
            || self.group_bytes + parts.data.len() > GROUP_BYTES_MAX;
        if begins {
            self.end_group();
            self.group = self.producer.append_group().ok();
            (self.group_units, self.group_bytes) = (0, 0);
        } else if is_full {
            self.end_group();
        }
        let Some(group) = &mut self.group else {
            return false;
        };
        let header = object::header(&parts, sent_stamps(unit, clock));
        let end = object::end(&parts);
        let Ok(timestamp) = Timestamp::from_micros(micros(unit.time)) else {
            return false;
        };
        let size = header.len() + parts.data.len() + end.as_ref().map_or(0, Bytes::len);
        let info = wire::Info {
            size: size as u64,
            timestamp,
        };
        let written = (|| {
            let mut chunks = group.create_frame(info)?;
            chunks.write(header)?;
            chunks.write(parts.data)?;
            if let Some(end) = end {
                chunks.write(end)?;
            }
            chunks.finish()
        })();
        if written.is_err() {
            // The group is lost, but the track may continue.
            self.group = None;
            return false;
        }
        self.group_units += 1;
        self.group_bytes += size;
        true
    }
}

/// Returns the time in microseconds, which only orders groups. A stream's timeline begins near zero,
/// and may begin before it.
fn micros(time: MediaTime) -> u64 {
    u64::try_from(time.nanos().max(0) / 1000).unwrap_or(0)
}

fn sent_stamps(unit: &MediaUnit, clock: NodeClock) -> SentStamps {
    let relay = unit.stamps.relay;
    SentStamps {
        published_ns: clock.stamp(unit.stamps.published),
        ingest_ns: nanos(unit.stamps.ingest()),
        relay_ns: relay.map(|it| (nanos(it.delay), nanos(it.error))),
    }
}
