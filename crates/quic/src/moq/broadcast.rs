//! A broadcast at its publisher.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use glassline_media::{Bitrate, Kind, MediaTime, TrackIndex};
use moq_net::{Timestamp, broadcast, kio, origin, track};

use super::awaited_broadcast::AwaitedBroadcast;
use super::catalog::{self, OfferedRendition};
use super::ended::Ended;
use super::frame::{self, Frame};
use super::keyframe_requests::Registration;
use super::origin::Origin;
use super::published_track::{Pieces, PublishedTrack};
use super::track_config::TrackConfig;
use super::transport::Link;
use super::write_error::WriteError;
use super::{codec, frame::BYTES_MAX};

/// A broadcast that is being published. It ends when this value is dropped.
#[derive(derive_more::Debug)]
#[debug("Broadcast {{ name: {name:?}, .. }}")]
pub struct Broadcast {
    name: String,
    producer: broadcast::Producer,
    catalog: track::Producer,
    tracks: Vec<PublishedTrack>,
    /// Wall-clock time at media time zero, since 1970.
    clock: Option<Duration>,
    /// Connection whose peer echoes frames; `None` where a broadcast has many readers.
    link: Option<Arc<Link>>,
    /// Where requests of the readers of a collection come; those of a single reader come by `link`.
    requests: Option<Registration>,
    /// Whether the catalog was written and the broadcast announced.
    is_announced: bool,
    _origin: Origin,
}

impl Origin {
    /// Publishes a broadcast of `track_configs` under `name`. It is announced with the first
    /// keyframe.
    ///
    /// # Errors
    /// [`Ended`] if the name is invalid, or these broadcasts have ended.
    pub fn publish(&self, name: &str, track_configs: Vec<TrackConfig>) -> Result<Broadcast, Ended> {
        Broadcast::new(self, name, track_configs, None)
    }
}

impl AwaitedBroadcast {
    /// Gives the broadcast its tracks. The catalog is written by [`Broadcast::announce`], or with the
    /// first keyframe, and the readers go on with it.
    ///
    /// # Errors
    /// [`Ended`] if these broadcasts have ended.
    pub fn with_tracks(self, track_configs: Vec<TrackConfig>) -> Result<Broadcast, Ended> {
        Broadcast::of(self, track_configs, None)
    }
}

impl Broadcast {
    pub(super) fn new(
        origin: &Origin,
        name: &str,
        track_configs: Vec<TrackConfig>,
        link: Option<Arc<Link>>,
    ) -> Result<Self, Ended> {
        let awaited = AwaitedBroadcast::new(origin, name)?;
        Self::of(awaited, track_configs, link)
    }

    /// Gives a broadcast its tracks.
    fn of(
        awaited: AwaitedBroadcast,
        track_configs: Vec<TrackConfig>,
        link: Option<Arc<Link>>,
    ) -> Result<Self, Ended> {
        let AwaitedBroadcast {
            name,
            producer,
            catalog,
            origin,
        } = awaited;
        let mut tracks = Vec::with_capacity(track_configs.len());
        for (place, config) in track_configs.into_iter().enumerate() {
            tracks.push(PublishedTrack::new(&producer, &name, place, config)?);
        }
        let is_video = |it: &&PublishedTrack| it.config.track.kind() == Kind::Video;
        let numbers = tracks.iter().filter(is_video).map(|it| it.number);
        let requests = match link {
            Some(_) => None,
            None => Some(origin.keyframe_requests.register(&name, numbers.collect())),
        };
        Ok(Self {
            name,
            producer,
            catalog,
            tracks,
            clock: None,
            link,
            requests,
            is_announced: false,
            _origin: origin,
        })
    }

    /// Returns the broadcast's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the wall-clock time `at` of media time `time`. Readers with a synchronized clock
    /// can then measure how long frames were under way. Call this before the first frame.
    pub fn set_clock(&mut self, time: MediaTime, at: SystemTime) {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let into = Duration::from_nanos(u64::try_from(time.nanos()).unwrap_or(0));
        self.clock = since.checked_sub(into);
    }

    /// Writes a frame of the track with index `track` into the send queue. Frames before the
    /// first keyframe, and those between a dropped group and the next keyframe, are skipped.
    ///
    /// # Errors
    /// [`WriteError`] says whether later frames can still be written.
    pub fn write(&mut self, track: TrackIndex, frame: &Frame) -> Result<(), WriteError> {
        let pieces = std::slice::from_ref(&frame.data);
        self.write_pieces(track, frame.time, frame.keyframe, pieces)
    }

    /// Writes a frame that lies in several pieces of memory, as [`write`](Self::write) does.
    /// The pieces are shared, not copied together.
    ///
    /// # Errors
    /// The errors of [`write`](Self::write).
    pub fn write_pieces(
        &mut self,
        track: TrackIndex,
        time: MediaTime,
        keyframe: bool,
        pieces: &[Bytes],
    ) -> Result<(), WriteError> {
        let frame = Pieces {
            time,
            keyframe,
            pieces,
            bytes: pieces.iter().map(Bytes::len).sum(),
        };
        if frame.bytes > BYTES_MAX {
            return Err(WriteError::Long { bytes: frame.bytes });
        }
        let tracks = self.tracks.len();
        let published = self
            .tracks
            .get_mut(track.get())
            .ok_or(WriteError::NoSuchTrack { track, tracks })?;
        let mut is_news = false;
        if published.codec.is_none() && frame.keyframe {
            // This copy happens once per track.
            let whole = frame.pieces.concat();
            published.codec = codec::name_of(&published.config.track, &whole);
            is_news = published.config.layer_of.is_some() && published.codec.is_some();
        }
        if !published.write(&frame)? {
            // Nothing more can be read of the track before its next keyframe.
            if let Some(requests) = &self.requests {
                requests.request();
            }
            return Ok(());
        }
        if let Some(link) = &self.link {
            // A reader begins with the present group, whenever it subscribes.
            if published.producer.is_used() {
                let queued = std::mem::take(&mut published.unread);
                link.queue.written.fetch_add(queued, Ordering::Relaxed);
            }
            let micros = frame::micros(frame.time);
            link.control
                .note_sent(published.number, micros, Instant::now());
        }
        if !self.is_announced || is_news {
            self.write_catalog()?;
        }
        Ok(())
    }

    /// Aborts the present group of `track`: its unsent bytes are never sent. The track
    /// continues at its next keyframe.
    ///
    /// Bytes of other tracks in the send queue count as dropped, too; abort the track that has
    /// nearly all of them.
    pub fn abort_group(&mut self, track: TrackIndex) {
        if let Some(published) = self.tracks.get_mut(track.get())
            && let Some(group) = published.group.take()
        {
            published.aborted += 1;
            let _ = group.abort(moq_net::Error::Old);
            published.unread = 0;
            if let Some(link) = &self.link {
                link.queue.drop_waiting();
            }
        }
    }

    /// Announces a new highest bitrate of `track` in the catalog.
    ///
    /// # Errors
    /// [`WriteError::Ended`] if the broadcast has ended.
    pub fn set_bitrate(&mut self, track: TrackIndex, bitrate: Bitrate) -> Result<(), WriteError> {
        if let Some(published) = self.tracks.get_mut(track.get()) {
            published.config.bitrate = Some(bitrate);
        }
        if self.is_announced {
            self.write_catalog()
        } else {
            Ok(())
        }
    }

    /// Returns the bytes of frames that entered the send queue of `track`.
    pub fn written(&self, track: TrackIndex) -> u64 {
        self.tracks.get(track.get()).map_or(0, |it| it.written)
    }

    /// Returns the number of frames of `track` that were skipped because no keyframe came
    /// before them.
    pub fn skipped(&self, track: TrackIndex) -> u64 {
        self.tracks.get(track.get()).map_or(0, |it| it.skipped)
    }

    /// Announces the broadcast before its first frame, if the parameter sets are known already.
    ///
    /// # Errors
    /// [`WriteError::Ended`] if the broadcast has ended.
    pub fn announce(&mut self) -> Result<(), WriteError> {
        if self.is_announced {
            Ok(())
        } else {
            self.write_catalog()
        }
    }

    /// Returns whether the broadcast was announced.
    pub const fn is_announced(&self) -> bool {
        self.is_announced
    }

    /// Returns the tracks that have a reader.
    pub fn tracks_read(&self) -> Vec<TrackIndex> {
        let tracks = TrackIndex::enumerate(&self.tracks);
        let read = tracks.filter(|(_, it)| it.producer.is_used());
        read.map(|(track, _)| track).collect()
    }

    /// Waits until other tracks have a reader than `known`.
    pub async fn readers_changed(&self, known: &[TrackIndex]) {
        kio::wait(|waiter| {
            let mut tracks = TrackIndex::enumerate(&self.tracks);
            let is_other = tracks.any(|(track, it)| match known.contains(&track) {
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

    /// States whether the catalog names `track`; it does until this is called.
    ///
    /// # Errors
    /// [`WriteError::Ended`] if the broadcast has ended.
    pub fn set_offered(&mut self, track: TrackIndex, is_offered: bool) -> Result<(), WriteError> {
        let Some(published) = self.tracks.get_mut(track.get()) else {
            return Ok(());
        };
        let was_offered = std::mem::replace(&mut published.is_offered, is_offered);
        match self.is_announced && was_offered != is_offered {
            true => self.write_catalog(),
            false => Ok(()),
        }
    }

    /// Returns whether `track` has a reader.
    pub fn is_read(&self, track: TrackIndex) -> bool {
        self.tracks
            .get(track.get())
            .is_some_and(|it| it.producer.is_used())
    }

    /// Returns whether any track has a reader.
    pub fn has_reader(&self) -> bool {
        self.tracks.iter().any(|it| it.producer.is_used())
    }

    /// Returns whether the reader asked for a keyframe since the last call.
    pub fn take_keyframe_request(&self) -> bool {
        let taken = |link: &Arc<Link>| link.control.take_keyframe_request();
        self.link.as_ref().is_some_and(taken)
    }

    /// Waits until a reader of a collection needs a keyframe: it has asked for one, or the present
    /// group has ended without one. All requests before the call count as one. Waits forever if the
    /// broadcast has one reader, whose requests [`take_keyframe_request`](Self::take_keyframe_request)
    /// returns.
    pub async fn keyframe_requested(&self) {
        match &self.requests {
            Some(requests) => requests.requested().await,
            None => std::future::pending().await,
        }
    }

    /// Ends the broadcast. Frames in the send queue are still sent.
    pub fn finish(mut self) {
        for published in &mut self.tracks {
            if let Some(group) = published.group.take() {
                let _ = group.finish();
            }
            let _ = published.producer.finish();
        }
        let _ = self.catalog.finish();
        self.producer.close();
    }

    /// Writes the catalog once the codec name of every track is known, and announces the
    /// broadcast.
    fn write_catalog(&mut self) -> Result<(), WriteError> {
        let mut offered = Vec::with_capacity(self.tracks.len());
        for published in self.tracks.iter().filter(|it| it.is_offered) {
            let best = published.config.layer_of;
            let best = best.and_then(|best| self.tracks.get(best.get()));
            let codec = match best.filter(|it| it.is_alike(published)) {
                Some(best) => &best.codec,
                None => &published.codec,
            };
            let Some(codec) = codec else {
                if best.is_some() {
                    // A layer in another codec follows once it was read.
                    continue;
                }
                return Ok(());
            };
            offered.push(OfferedRendition {
                name: &published.name,
                track: &published.config.track,
                codec,
                bitrate: published.config.bitrate,
            });
        }
        let document = catalog::write(&offered, self.clock, self.link.is_some());
        self.catalog
            .write_frame(Timestamp::now(), document)
            .map_err(Ended::of)?;
        if !self.is_announced {
            self.is_announced = true;
            let route = origin::Route::default();
            self.producer.announce(route).map_err(Ended::of)?;
        }
        Ok(())
    }
}
