//! A broadcast at its publisher.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use glassline_media::{Bitrate, Kind, MediaTime, TrackIndex};
use moq_net::{Timescale, Timestamp, broadcast, frame as wire, group, kio, origin, track};

use super::awaited_broadcast::AwaitedBroadcast;
use super::catalog::{self, OfferedRendition};
use super::control_datagrams;
use super::ended::Ended;
use super::frame::{self, Frame};
use super::keyframe_requests::Registration;
use super::origin::Origin;
use super::track_config::TrackConfig;
use super::transport::Link;
use super::{codec, frame::BYTES_MAX};

/// Number of audio frames in one group: 100 ms of Opus.
const AUDIO_GROUP_FRAMES: usize = 5;

/// Most frames and bytes of a group without a further keyframe. The group ends before the peer
/// refuses it (8192 frames, 32 MiB).
const GROUP_FRAMES_MAX: usize = 8_000;
const GROUP_BYTES_MAX: usize = 30 << 20;

/// A broadcast that is being published. It ends when this value is dropped.
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

struct PublishedTrack {
    config: TrackConfig,
    name: String,
    number: u32,
    codec: Option<String>,
    producer: track::Producer,
    group: Option<group::Producer>,
    group_frames: usize,
    group_bytes: usize,
    /// Bytes of the present group that were written before the track had a reader.
    unread: u64,
    skipped: u64,
    aborted: u64,
    written: u64,
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
            let usual = || format!("{}{place}", config.track.kind());
            let track_name = config.name.clone().unwrap_or_else(usual);
            let info = track::Info::default()
                .with_timescale(Timescale::MICRO)
                .with_max_age(config.deadline)
                .with_priority(config.priority);
            let made = producer.create_track(track_name.as_str(), info);
            tracks.push(PublishedTrack {
                number: control_datagrams::track_number(&name, &track_name),
                name: track_name,
                codec: codec::name_of(&config.track, &[]),
                config,
                producer: made.map_err(Ended::of)?,
                group: None,
                group_frames: 0,
                group_bytes: 0,
                unread: 0,
                skipped: 0,
                aborted: 0,
                written: 0,
            });
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
        if published.codec.is_none() && frame.keyframe {
            // This copy happens once per track.
            let whole = frame.pieces.concat();
            published.codec = codec::name_of(&published.config.track, &whole);
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
        if !self.is_announced {
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

    /// Waits until a reader subscribes to a track.
    pub async fn reader_joined(&self) {
        kio::wait(|waiter| {
            let mut demands = self.tracks.iter().map(|it| it.producer.demand());
            match demands.any(|it| it.poll_used(waiter).is_ready()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
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
        for published in &self.tracks {
            let Some(codec) = &published.codec else {
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

/// A frame to be written to the send queue.
struct Pieces<'a> {
    time: MediaTime,
    keyframe: bool,
    pieces: &'a [Bytes],
    /// Length of all pieces together, in bytes.
    bytes: usize,
}

impl PublishedTrack {
    /// Writes a frame. Returns whether it entered the queue.
    fn write(&mut self, frame: &Pieces<'_>) -> Result<bool, WriteError> {
        let is_audio = self.config.track.kind() == Kind::Audio;
        let is_full = self.group_frames >= GROUP_FRAMES_MAX
            || self.group_bytes + frame.bytes > GROUP_BYTES_MAX;
        let begins = if is_audio {
            self.group_frames >= AUDIO_GROUP_FRAMES || self.group.is_none()
        } else {
            frame.keyframe
        };
        if begins {
            if let Some(group) = self.group.take() {
                let _ = group.finish();
            }
            self.group = Some(self.producer.append_group().map_err(Ended::of)?);
            (self.group_frames, self.group_bytes) = (0, 0);
            if !self.producer.is_used() {
                self.unread = 0;
            }
        } else if is_full && let Some(group) = self.group.take() {
            // Without keyframes no reader can join, and a reader accepts no larger group.
            let _ = group.finish();
        }
        let Some(group) = &mut self.group else {
            self.skipped += 1;
            return Ok(false);
        };
        let header = frame::header(frame.time);
        let size = header.len() + frame.bytes;
        let timestamp = Timestamp::from_micros(frame::micros(frame.time));
        let info = wire::Info {
            size: size as u64,
            timestamp: timestamp.map_err(|_| WriteError::Time { time: frame.time })?,
        };
        let written = (|| {
            let mut chunks = group.create_frame(info)?;
            chunks.write(header)?;
            for piece in frame.pieces {
                chunks.write(piece.clone())?;
            }
            chunks.finish()
        })();
        if let Err(error) = written {
            // The group is lost, but the track may continue.
            self.group = None;
            if self.producer.is_closed() {
                return Err(Ended::of(error).into());
            }
            self.aborted += 1;
            return Ok(false);
        }
        self.group_frames += 1;
        self.group_bytes += size;
        self.written += size as u64;
        self.unread += size as u64;
        Ok(true)
    }
}

impl std::fmt::Debug for Broadcast {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broadcast")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The reason why a frame was not written.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The caller named a track that does not exist.
    #[error("there is no track {track}; the broadcast has {tracks}")]
    NoSuchTrack {
        /// Index of the track.
        track: TrackIndex,
        /// Number of tracks in the broadcast.
        tracks: usize,
    },
    /// The frame is too long.
    #[error("the frame has {bytes} bytes; at most {BYTES_MAX} are allowed")]
    Long {
        /// Length of the frame in bytes.
        bytes: usize,
    },
    /// The frame's time cannot be written.
    #[error("the frame's time of {} s cannot be sent", time.nanos() / 1_000_000_000)]
    Time {
        /// Presentation time of the frame.
        time: MediaTime,
    },
    /// The broadcast or its session has ended.
    #[error(transparent)]
    Ended(#[from] Ended),
}
