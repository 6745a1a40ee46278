//! Snapshots: the newest keyframe of a stream as a JPEG image.
//!
//! ```text
//! request ─► cache: younger than a second, or of this very keyframe? ─ yes ─► image
//!              │ no: wait for the turn of the client's address, then for the decoder
//!              └─► newest keyframe in the hub ─► decoded once ─► cache ─► scaled, encoded ─► cache
//! ```
//!
//! Of a source with intra refresh, the frames from a recovery point on are decoded, until the picture is
//! right. A request waits for those that are missing without a decoder.
//!
//! Decoding runs on threads for blocking work, never on those of media. It cannot be canceled, so turn
//! and decoder go with the work, and what was made is kept although nobody waits any more: a client that
//! asks and hangs up again and again costs what one costs that waits. Addresses take turns, so that one
//! which asks for everything delays another one by one image. A stream of which nobody wants an image
//! costs nothing.

mod cache;
mod frames;
mod start;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_hub::{Demand, LayerWish, NoSuchLayer, Prospect, Stream};
use glassline_media::{Codec, Kind, LayerIndex, Track};
use glassline_transcode::{DecodedKeyframe, NoStill, RECOVERY_FRAMES_MAX, SizeLimit, still_of};
use parking_lot::Mutex;

pub use cache::size_within;
use cache::{Cache, Kept, Keyframe, KeyframeId, RECENT, Subject};
use frames::FrameReaders;
pub use frames::{MEDIA_TYPE as FRAMES, NoFrames};
use glassline_runtime::{
    BlockingPlace, BlockingPool, SourcePrefix, TaskWaker, await_tracks, shrink,
};
use start::Start;

/// Keyframes that are decoded at a time. A decoder takes up to 250 MB for the largest picture with the
/// most reference frames that a stream may claim.
const DECODERS: usize = 1;

/// Longest wait of a request for its image; a keyframe of 1080p takes some 30 ms.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest wait for the frames with which the picture behind a recovery point is right; encoders with
/// intra refresh take a second or two.
const RECOVERY: Duration = Duration::from_secs(4);

/// The snapshots of all streams.
#[derive(Debug)]
pub struct Snapshots {
    cache: Arc<Mutex<Cache>>,
    /// One place for each address that waits for an image.
    turns: Mutex<HashMap<SourcePrefix, BlockingPool>>,
    decoders: BlockingPool,
    frame_readers: FrameReaders,
}

/// An image with its entity tag.
#[derive(Debug)]
pub struct Snapshot {
    /// The image in the format JPEG.
    pub jpeg: Bytes,
    /// Strong entity tag of HTTP, the quotation marks included: of the bytes alone, so that it holds
    /// across restarts of the server.
    pub entity_tag: String,
}

/// The reason why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum NoSnapshot {
    /// The stream carries none.
    #[error("the stream has no video")]
    NoVideo,
    /// The source comes when somebody watches.
    #[error(
        "nobody watches the stream, so that its source is not connected; ask with ?wake to connect it"
    )]
    Idle,
    /// The stream has no layer that is asked for.
    #[error(transparent)]
    NoLayer(#[from] NoSuchLayer),
    /// None was published yet, or it left the ring; one has been requested from the source.
    #[error("there is no keyframe yet; one has been requested from the source")]
    NoKeyframe,
    /// Its source has recovery points in place of keyframes, and no picture is right yet.
    #[error(
        "the source sends recovery points (intra refresh) in place of keyframes, and its picture was not \
         right within {RECOVERY:?} and {RECOVERY_FRAMES_MAX} frames: try again, or switch intra refresh off"
    )]
    Refreshing,
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
            cache: Arc::default(),
            turns: Mutex::default(),
            decoders: BlockingPool::new(DECODERS),
            frame_readers: FrameReaders::default(),
        }
    }
}

/// An image that is to be made.
struct Order {
    cache: Arc<Mutex<Cache>>,
    subject: Subject,
    limit: SizeLimit,
    of: KeyframeId,
    material: Material,
}

/// The material of an image.
enum Material {
    /// The keyframe is decoded.
    Frame(Arc<DecodedKeyframe>),
    /// The keyframe, or the frames from a recovery point on, as the source coded them.
    Coded(Start),
}

impl Snapshots {
    /// Returns the newest keyframe of `stream` within `limit`, or one that was newest within the last
    /// second, for a client of the network `client`: that of the layer that `wish` names, or else of the
    /// smallest layer that is large enough.
    ///
    /// # Errors
    /// Returns [`NoSnapshot`].
    pub async fn of(
        &self,
        stream: &Arc<Stream>,
        wish: Option<&LayerWish>,
        limit: SizeLimit,
        client: SourcePrefix,
    ) -> Result<Arc<Snapshot>, NoSnapshot> {
        let layer = layer_for(stream, wish, limit)?;
        let subject = Subject {
            stream: stream.name().clone(),
            layer,
        };
        if let Some(recent) = self.recent(&subject, limit) {
            return recent;
        }
        let made = tokio::time::timeout(PATIENCE, async {
            let turn = self.turn(client).await;
            self.make(stream, subject, limit, turn).await
        });
        made.await.unwrap_or(Err(NoSnapshot::Busy))
    }

    /// Connects the source of `stream` if it comes on demand, and waits for its first keyframe, but not
    /// longer than the server waits for a source. The caller holds the demand until it has its image.
    pub async fn wake(stream: &Arc<Stream>) -> Demand {
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

    /// Returns the parts of a body with the pictures of a stream of Motion JPEG as they come, for a client
    /// of the network `client`.
    ///
    /// # Errors
    /// Returns [`NoFrames`].
    pub fn frames(
        &self,
        stream: &Arc<Stream>,
        client: SourcePrefix,
    ) -> Result<impl futures_util::Stream<Item = Bytes> + Send + use<>, NoFrames> {
        self.frame_readers.read(stream, client)
    }

    /// Returns what is known of a keyframe that was the newest within the last second, if that needs
    /// no work.
    fn recent(
        &self,
        subject: &Subject,
        limit: SizeLimit,
    ) -> Option<Result<Arc<Snapshot>, NoSnapshot>> {
        match self.cache.lock().recent(subject, limit, Instant::now())? {
            Kept::Image(image) => Some(Ok(image)),
            Kept::Broken(why) => Some(Err(why.into())),
            Kept::Frame(..) => None,
        }
    }

    /// Waits until no other image is being made for the address.
    async fn turn(&self, client: SourcePrefix) -> BlockingPlace {
        let turns = {
            let mut turns = self.turns.lock();
            turns.retain(|_, turns| turns.is_used());
            shrink(&mut turns);
            let turn = turns.entry(client);
            turn.or_insert_with(|| BlockingPool::new(1)).clone()
        };
        turns.place().await
    }

    /// Makes the image, unless another request just has or the keyframe is still the same.
    async fn make(
        &self,
        stream: &Arc<Stream>,
        subject: Subject,
        limit: SizeLimit,
        turn: BlockingPlace,
    ) -> Result<Arc<Snapshot>, NoSnapshot> {
        let mut start = Start::newest(stream, subject.layer)?;
        if !start.is_complete() {
            let completing = tokio::time::timeout(RECOVERY, start.complete(stream));
            completing.await.unwrap_or(Err(NoSnapshot::Refreshing))?;
        }
        let decoder = self.decoders.place().await;
        let (of, material) = match self.look(stream, &subject, limit, start)? {
            Look::Image(image) => return Ok(image),
            Look::Work(of, material) => (of, material),
        };
        let order = Order {
            cache: Arc::clone(&self.cache),
            subject,
            limit,
            of,
            material,
        };
        let making = decoder.run(move || {
            let _turn = turn;
            order.carry_out()
        });
        let made = making.await.map_err(|panicked| NoStill::Decoder {
            reason: panicked.to_string(),
        })?;
        Ok(made?)
    }

    /// Returns the image, or the least that it can be made of.
    ///
    /// `start`: where decoding begins, unless a newer start has come meanwhile.
    fn look(
        &self,
        stream: &Stream,
        subject: &Subject,
        limit: SizeLimit,
        start: Start,
    ) -> Result<Look, NoSnapshot> {
        let recent = self.cache.lock().recent(subject, limit, Instant::now());
        if let Some(kept) = recent {
            return Look::of(kept);
        }
        let newest = Start::newest(stream, subject.layer)?;
        let start = if newest.is_complete() { newest } else { start };
        let of = start.of;
        let kept = self
            .cache
            .lock()
            .of_keyframe(subject, of, limit, Instant::now());
        match kept {
            Some(kept) => Look::of(kept),
            None => Ok(Look::Work(of, Material::Coded(start))),
        }
    }
}

/// The result of a look at cache and stream.
enum Look {
    Image(Arc<Snapshot>),
    Work(KeyframeId, Material),
}

impl Look {
    fn of(kept: Kept) -> Result<Self, NoSnapshot> {
        match kept {
            Kept::Image(image) => Ok(Self::Image(image)),
            Kept::Frame(of, frame) => Ok(Self::Work(of, Material::Frame(frame))),
            Kept::Broken(why) => Err(why.into()),
        }
    }
}

impl Order {
    /// Makes the image, and keeps it. Takes some 10 ms for each million of pixels.
    fn carry_out(self) -> Result<Arc<Snapshot>, NoStill> {
        let frame = match self.material {
            Material::Frame(frame) => frame,
            Material::Coded(ref start) => {
                let keyframe = start.decode();
                self.keep(&keyframe);
                match keyframe {
                    Keyframe::Image(image) => return Ok(image),
                    Keyframe::Broken(why) => return Err(why),
                    Keyframe::Decoded(frame) => frame,
                }
            }
        };
        let size = size_within(frame.size(), self.limit);
        let image = Arc::new(Snapshot::of(frame.still(size)?.jpeg.into()));
        self.cache
            .lock()
            .insert_image(&self.subject, self.of, size, Arc::clone(&image));
        Ok(image)
    }

    /// Keeps a keyframe, and sees to it that its samples are forgotten soon.
    fn keep(&self, keyframe: &Keyframe) {
        let mut cache = self.cache.lock();
        cache.insert(&self.subject, self.of, keyframe, Instant::now());
        if !cache.begin_to_release() {
            return;
        }
        drop(cache);
        let cache = Arc::clone(&self.cache);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(RECENT).await;
                if !cache.lock().release(Instant::now()) {
                    return;
                }
            }
        });
    }
}

impl Snapshot {
    fn of(jpeg: Bytes) -> Self {
        Self {
            entity_tag: entity_tag(&jpeg),
            jpeg,
        }
    }
}

/// Returns the layer of which an image within `limit` is made: the one that `wish` names, else the smallest
/// that is large enough. A layer that is not sent now is not woken for an image; the best one stands for it.
fn layer_for(
    stream: &Stream,
    wish: Option<&LayerWish>,
    limit: SizeLimit,
) -> Result<LayerIndex, NoSnapshot> {
    let tracks = stream.tracks();
    let Some(video) = tracks.iter().find(|it| it.kind() == Kind::Video) else {
        return Ok(LayerIndex::BASE);
    };
    let is_sent = |layer: LayerIndex| {
        let place = usize::from(layer.0).checked_sub(1);
        let described = place.and_then(|it| video.layers.get(it));
        described.is_none_or(|it| it.absence.is_none())
    };
    if let Some(wish) = wish {
        let named = stream.named_layer(wish)?.layer;
        return Ok(if is_sent(named) {
            named
        } else {
            LayerIndex::BASE
        });
    }
    let is_decodable = |track: &Track| track.codec == Codec::Jpeg || still_of(track).is_ok();
    let is_enough = |(width, height): (u16, u16)| {
        limit.width.is_some_and(|it| it <= width) || limit.height.is_some_and(|it| it <= height)
    };
    let layers = video.layers.iter().enumerate();
    let layers = layers.map(|(place, it)| (LayerIndex::of_encoding(place), it.size));
    let sent = layers
        .filter(|(layer, _)| is_sent(*layer) && video.of_layer(*layer).is_some_and(is_decodable));
    let sent: Vec<_> = sent
        .filter_map(|(layer, size)| Some((size?, layer)))
        .collect();
    let enough = sent.iter().filter(|(size, _)| is_enough(*size));
    let largest = sent.iter().max().filter(|_| !is_decodable(video));
    let found = enough.min().or(largest);
    Ok(found.map_or(LayerIndex::BASE, |(_, layer)| *layer))
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
mod tests;
