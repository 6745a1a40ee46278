//! Snapshots: the newest keyframe of a stream as a JPEG image.
//!
//! ```text
//! request ─► cache: younger than a second, or of this very keyframe? ─ yes ─► image
//!              │ no: one request a stream goes on, the others wait for it
//!              └─► newest keyframe in the hub ─► decoder, one at a time ─► cache ─► image
//! ```
//!
//! Decoding runs on threads for blocking work, never on those of media. A stream of which nobody wants
//! an image costs nothing.

mod cache;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_hub::{Demand, Prospect, State, Stream, StreamName};
use glassline_media::{Codec, Kind, MediaUnit, Track, TrackIndex};
use glassline_rtp::payload::is_recovery_point;
use glassline_transcode::{NoStill, SizeLimit, Still, still_of};
use tokio::sync::Semaphore;

use crate::runtime::{TaskWaker, await_tracks};
use cache::{Cache, Key, KeyframeId};

/// Keyframes that are decoded at a time. A decoder takes up to 250 MB for the largest picture with the
/// most reference frames that a stream may claim.
const DECODERS: usize = 1;

/// Longest wait of a request for its turn; a keyframe of 1080p takes some 30 ms.
const PATIENCE: Duration = Duration::from_secs(5);

/// The snapshots of all streams.
#[derive(Debug)]
pub(crate) struct Snapshots {
    cache: Mutex<Cache>,
    /// Streams whose keyframe is being decoded, so that one request a stream works.
    turns: Mutex<HashMap<StreamName, Arc<tokio::sync::Mutex<()>>>>,
    decoders: Semaphore,
}

/// An image with its entity tag.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) jpeg: Bytes,
    /// Strong entity tag of HTTP, the quotation marks included: of the bytes alone, so that it holds
    /// across restarts of the server.
    pub(crate) entity_tag: String,
}

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSnapshot {
    /// The stream carries none.
    #[error("the stream has no video")]
    NoVideo,
    /// The source comes when somebody watches.
    #[error(
        "nobody watches the stream, so that its source is not connected; ask with ?wake to connect it"
    )]
    Idle,
    /// None was published yet, or it left the ring; one has been requested from the source.
    #[error("there is no keyframe yet; one has been requested from the source")]
    NoKeyframe,
    /// Too many images are being made.
    #[error("the server makes as many images as it may; {PATIENCE:?} were not enough")]
    Busy,
    /// The keyframe does not become an image.
    #[error(transparent)]
    Undecodable(#[from] NoStill),
}

impl Default for Snapshots {
    fn default() -> Self {
        Self {
            cache: Mutex::default(),
            turns: Mutex::default(),
            decoders: Semaphore::new(DECODERS),
        }
    }
}

impl Snapshots {
    /// Returns the newest keyframe of `stream` within `limit`, or one that was newest within the last
    /// second.
    ///
    /// # Errors
    /// Returns [`NoSnapshot`].
    pub(crate) async fn of(
        &self,
        stream: &Arc<Stream>,
        limit: SizeLimit,
    ) -> Result<Arc<Snapshot>, NoSnapshot> {
        let key = Key {
            stream: stream.name().clone(),
            limit,
        };
        if let Some(recent) = self.cache().recent(&key, Instant::now()) {
            return Ok(recent);
        }
        let turn = self.turn(stream.name());
        let made = tokio::time::timeout(PATIENCE, async {
            let _alone = turn.lock().await;
            self.make(stream, &key).await
        });
        let made = made.await.unwrap_or(Err(NoSnapshot::Busy));
        drop(turn);
        self.turns()
            .retain(|_, waiting| Arc::strong_count(waiting) > 1);
        made
    }

    /// Connects the source of `stream` if it comes on demand, and waits for its first keyframe, but not
    /// longer than the server waits for a source. The caller holds the demand until it has its image.
    pub(crate) async fn wake(stream: &Arc<Stream>) -> Demand {
        let failures = stream.failures();
        let demand = await_tracks(stream).await;
        // The tracks may be known from the last time.
        let arrival = Arc::new(TaskWaker::default());
        let _subscription = stream.subscribe(Arc::clone(&arrival) as _);
        let keyframe = async {
            while stream.is_source_away() && stream.failures() == failures {
                arrival.woken().await;
            }
        };
        if stream.prospect() != Prospect::None {
            let _ = tokio::time::timeout(PATIENCE, keyframe).await;
        }
        demand
    }

    /// Makes the image, unless another request just has or the keyframe is still the same.
    async fn make(&self, stream: &Stream, key: &Key) -> Result<Arc<Snapshot>, NoSnapshot> {
        if let Some(recent) = self.cache().recent(key, Instant::now()) {
            return Ok(recent);
        }
        let (id, track, unit) = newest_keyframe(stream)?;
        if let Some(same) = self.cache().of_keyframe(key, id, Instant::now()) {
            return Ok(same);
        }
        let _permit = self.decoders.acquire().await;
        let limit = key.limit;
        let made = tokio::task::spawn_blocking(move || image(&track, &unit, limit)).await;
        let jpeg = made.map_err(|error| NoStill::Decoder {
            reason: error.to_string(),
        })??;
        let snapshot = Arc::new(Snapshot {
            entity_tag: entity_tag(&jpeg),
            jpeg,
        });
        self.cache()
            .insert(key.clone(), id, Arc::clone(&snapshot), Instant::now());
        Ok(snapshot)
    }

    fn turn(&self, name: &StreamName) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(self.turns().entry(name.clone()).or_default())
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turns(&self) -> std::sync::MutexGuard<'_, HashMap<StreamName, Arc<tokio::sync::Mutex<()>>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the newest keyframe of the stream's first video track; requests one if there is none.
fn newest_keyframe(stream: &Stream) -> Result<(KeyframeId, Track, Arc<MediaUnit>), NoSnapshot> {
    if stream.state() == State::Idle {
        return Err(NoSnapshot::Idle);
    }
    let layout = stream.layout();
    let tracks = stream.tracks();
    let mut videos =
        TrackIndex::enumerate(tracks.iter()).filter(|(_, it)| it.kind() == Kind::Video);
    let (index, track) = videos.next().ok_or(NoSnapshot::NoVideo)?;
    if track.codec != Codec::Jpeg {
        still_of(track)?;
    }
    let Some(unit) = stream.since_keyframe(index).into_iter().next() else {
        stream.request_keyframe();
        return Err(NoSnapshot::NoKeyframe);
    };
    let id = KeyframeId {
        layout,
        index: unit.index,
    };
    Ok((id, track.clone(), unit))
}

/// Returns the picture of `unit` as a JPEG file. A frame of Motion JPEG is one already, and stays in
/// its size.
fn image(track: &Track, unit: &MediaUnit, limit: SizeLimit) -> Result<Bytes, NoStill> {
    let coded = unit.coded_frame().ok_or(NoStill::Decoder {
        reason: "the source sends packets, not frames".to_owned(),
    })?;
    let coded = coded.to_vec();
    match track.codec {
        Codec::Jpeg => Ok(coded.into()),
        _ => match Still::of_h264(&coded, limit) {
            Err(NoStill::Decoder { .. }) if is_recovery_point(track.codec, unit) => {
                let reason = "a recovery point of intra refresh, and no IDR picture".to_owned();
                Err(NoStill::Decoder { reason })
            }
            made => made.map(|still| still.jpeg.into()),
        },
    }
}

/// Returns the entity tag of an image: FNV-1a of 64 bits, since nobody gains by a collision but a
/// stale picture of a stream of his own.
fn entity_tag(jpeg: &[u8]) -> String {
    let hash = jpeg.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("\"{hash:016x}\"")
}

#[cfg(test)]
mod tests {
    use glassline_hub::Hub;

    use super::*;

    fn stream(hub: &Hub) -> Arc<Stream> {
        let name = StreamName::parse("cam").expect("a name");
        hub.admit(name).expect("room")
    }

    #[tokio::test]
    async fn a_stream_without_keyframe_is_asked_for_one() {
        let hub = Hub::default();
        let stream = stream(&hub);
        let tracks = vec![Track::audio(Codec::Opus, 2), Track::new(Codec::H264)];
        let publisher = stream.publish(tracks, Instant::now()).expect("free");
        assert!(!publisher.keyframe_wanted());
        let snapshots = Snapshots::default();
        let refused = snapshots.of(&stream, SizeLimit::default()).await;
        assert!(
            matches!(refused, Err(NoSnapshot::NoKeyframe)),
            "{refused:?}"
        );
        assert!(publisher.keyframe_wanted());
        assert!(snapshots.turns().is_empty(), "nothing is kept of it");
    }

    #[tokio::test]
    async fn what_cannot_be_decoded_is_named() {
        let hub = Hub::default();
        let stream = stream(&hub);
        let snapshots = Snapshots::default();
        let refused = snapshots.of(&stream, SizeLimit::default()).await;
        assert!(matches!(refused, Err(NoSnapshot::NoVideo)), "no source yet");
        let audio = vec![Track::audio(Codec::Opus, 2)];
        drop(stream.publish(audio, Instant::now()).expect("free"));
        let refused = snapshots.of(&stream, SizeLimit::default()).await;
        assert!(matches!(refused, Err(NoSnapshot::NoVideo)), "{refused:?}");
        let video = vec![Track::new(Codec::Vp9)];
        let publisher = stream.publish(video, Instant::now()).expect("free");
        let refused = snapshots.of(&stream, SizeLimit::default()).await;
        let refused = refused.expect_err("VP9").to_string();
        assert!(refused.contains("VP9"), "{refused}");
        drop(publisher);
    }

    #[test]
    fn tags_are_of_the_bytes() {
        assert_eq!(entity_tag(b""), "\"cbf29ce484222325\"");
        assert_eq!(entity_tag(b"a"), "\"af63dc4c8601ec8c\"");
    }
}
