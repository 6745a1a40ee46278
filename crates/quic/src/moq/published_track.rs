//! One track of a broadcast at its publisher: its groups and frames.

use bytes::Bytes;
use glassline_media::{Kind, MediaTime};
use moq_net::{Timescale, Timestamp, broadcast, frame as wire, group, track};

use super::codec;
use super::control_datagrams;
use super::ended::Ended;
use super::frame;
use super::track_config::TrackConfig;
use super::write_error::WriteError;

/// Number of audio frames in one group: 100 ms of Opus.
const AUDIO_GROUP_FRAMES: usize = 5;

/// Most frames and bytes of a group without a further keyframe. The group ends before the peer
/// refuses it (8192 frames, 32 MiB).
const GROUP_FRAMES_MAX: usize = 8_000;
const GROUP_BYTES_MAX: usize = 30 << 20;

/// One track of a broadcast.
pub(super) struct PublishedTrack {
    pub(super) config: TrackConfig,
    pub(super) name: String,
    pub(super) number: u32,
    pub(super) codec: Option<String>,
    pub(super) producer: track::Producer,
    /// Whether the catalog names the track.
    pub(super) is_offered: bool,
    pub(super) group: Option<group::Producer>,
    group_frames: usize,
    group_bytes: usize,
    /// Bytes of the present group that were written before the track had a reader.
    pub(super) unread: u64,
    pub(super) skipped: u64,
    pub(super) aborted: u64,
    pub(super) written: u64,
}

/// A frame to be written to the send queue.
pub(super) struct Pieces<'a> {
    pub(super) time: MediaTime,
    pub(super) keyframe: bool,
    pub(super) pieces: &'a [Bytes],
    /// Length of all pieces together, in bytes.
    pub(super) bytes: usize,
}

impl PublishedTrack {
    /// Creates the track `place` of the broadcast `broadcast`.
    pub(super) fn new(
        producer: &broadcast::Producer,
        broadcast: &str,
        place: usize,
        config: TrackConfig,
    ) -> Result<Self, Ended> {
        let usual = || format!("{}{place}", config.track.kind());
        let name = config.name.clone().unwrap_or_else(usual);
        let info = track::Info::default()
            .with_timescale(Timescale::MICRO)
            .with_max_age(config.deadline)
            .with_priority(config.priority);
        let made = producer.create_track(name.as_str(), info);
        Ok(Self {
            number: control_datagrams::track_number(broadcast, &name),
            name,
            codec: codec::name_of(&config.track, &[]),
            config,
            producer: made.map_err(Ended::of)?,
            is_offered: true,
            group: None,
            group_frames: 0,
            group_bytes: 0,
            unread: 0,
            skipped: 0,
            aborted: 0,
            written: 0,
        })
    }

    /// Returns whether another track has the same codec.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        self.config.track.codec == other.config.track.codec
    }

    /// Writes a frame. Returns whether it entered the queue.
    pub(super) fn write(&mut self, frame: &Pieces<'_>) -> Result<bool, WriteError> {
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
