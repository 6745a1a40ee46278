//! A broadcast at its reader.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_media::{Kind, MediaTime};
use moq_net::{broadcast, group, track};

use super::catalog::{self, Catalog, CatalogError, Document, Rendition};
use super::control_datagrams;
use super::ended::Ended;
use super::frame::{self, BYTES_MAX, FrameError};
use super::lag::Lag;
use super::transport::Link;

/// Time that a catalog or a subscription may take.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

const CATALOG_PRIORITY: u8 = 100;
const AUDIO_PRIORITY: u8 = 80;
const FRAME_PRIORITY: u8 = 60;

/// A broadcast of the peer.
#[derive(derive_more::Debug)]
#[debug("BroadcastReader {{ name: {:?}, .. }}", self.tracks.name)]
pub struct BroadcastReader {
    tracks: BroadcastTracks,
    catalogs: track::Ordered,
    group: Option<(group::Consumer, bool)>,
    document: Document,
}

/// The tracks of a peer's broadcast, to subscribe to them at any time.
#[derive(Clone, derive_more::Debug)]
#[debug("BroadcastTracks {{ name: {name:?}, .. }}")]
pub struct BroadcastTracks {
    name: String,
    broadcast: broadcast::Consumer,
    link: Arc<Link>,
    /// Whether the publisher asks for echoes of frames.
    echoes: bool,
}

impl BroadcastReader {
    pub(super) async fn new(
        name: &str,
        broadcast: broadcast::Consumer,
        link: Arc<Link>,
    ) -> Result<Self, SubscribeError> {
        let track = broadcast.track(catalog::TRACK).map_err(Ended::of)?;
        let wanted = track::Subscription::default().with_priority(CATALOG_PRIORITY);
        let subscribed = tokio::time::timeout(RESPONSE_TIMEOUT, track.subscribe(wanted)).await;
        let catalogs = subscribed
            .map_err(|_| SubscribeError::NoCatalog)?
            .map_err(Ended::of)?;
        let tracks = BroadcastTracks {
            name: name.to_owned(),
            broadcast,
            link,
            echoes: false,
        };
        Ok(Self {
            tracks,
            catalogs: catalogs.ordered(),
            group: None,
            document: Document::default(),
        })
    }

    /// Returns the broadcast's name.
    pub fn name(&self) -> &str {
        &self.tracks.name
    }

    /// Returns the catalog, and then each changed catalog; `None` at the end of the broadcast.
    ///
    /// # Errors
    /// [`SubscribeError`] if the publisher's catalog is invalid, or the session has ended.
    pub async fn catalog(&mut self) -> Result<Option<Catalog>, SubscribeError> {
        loop {
            let Some((group, is_first)) = &mut self.group else {
                match self.catalogs.next_group().await.map_err(Ended::of)? {
                    Some(group) => self.group = Some((group, true)),
                    None => return Ok(None),
                }
                continue;
            };
            match read(group, catalog::BYTES_MAX as u64).await {
                Ok(Some(document)) => {
                    let catalog = self.document.take(&document, *is_first)?;
                    *is_first = false;
                    self.tracks.echoes = catalog.echoes;
                    return Ok(Some(catalog));
                }
                // The group was superseded or has ended; the loop takes the next one, if there
                // is one.
                Ok(None) | Err(GroupError::Late) => self.group = None,
                Err(GroupError::Long(bytes)) => {
                    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                    return Err(CatalogError::Long { bytes }.into());
                }
            }
        }
    }

    /// Returns the tracks, which are those of the catalog that was returned last.
    pub fn tracks(&self) -> BroadcastTracks {
        self.tracks.clone()
    }

    /// Subscribes to a track, as [`BroadcastTracks::read`] does.
    ///
    /// # Errors
    /// [`SubscribeError`] if the broadcast has no such track.
    pub async fn read(
        &self,
        rendition: &Rendition,
        deadline: Duration,
    ) -> Result<TrackReader, SubscribeError> {
        self.tracks.read(rendition, deadline).await
    }

    /// Waits until the broadcast has ended.
    pub async fn ended(&self) {
        self.tracks.broadcast.closed().await;
    }
}

impl BroadcastTracks {
    /// Subscribes to a track, from its newest keyframe on. Groups that are older than the
    /// newest one by more than `deadline` are skipped. Dropping the reader ends the subscription.
    ///
    /// # Errors
    /// [`SubscribeError`] if the broadcast has no such track.
    pub async fn read(
        &self,
        rendition: &Rendition,
        deadline: Duration,
    ) -> Result<TrackReader, SubscribeError> {
        let track = self.broadcast.track(&rendition.name).map_err(Ended::of)?;
        let is_audio = rendition.track.kind() == Kind::Audio;
        let wanted = track::Subscription::default()
            .with_max_age(deadline)
            .with_priority(if is_audio {
                AUDIO_PRIORITY
            } else {
                FRAME_PRIORITY
            });
        let subscribed = tokio::time::timeout(RESPONSE_TIMEOUT, track.subscribe(wanted)).await;
        let track = subscribed
            .map_err(|_| SubscribeError::NoTrack {
                name: rendition.name.clone(),
            })?
            .map_err(Ended::of)?;
        Ok(TrackReader {
            rendition: rendition.clone(),
            is_audio,
            track: track.ordered(),
            group: None,
            next: None,
            late: 0,
            told_late: 0,
            number: control_datagrams::track_number(&self.name, &rendition.name),
            link: Arc::clone(&self.link),
            echoes: self.echoes,
            echoed_at: None,
            lag: Lag::new(deadline),
        })
    }
}

/// A subscribed track of a broadcast.
#[derive(derive_more::Debug)]
#[debug("TrackReader {{ rendition: {:?}, .. }}", self.rendition.name)]
pub struct TrackReader {
    rendition: Rendition,
    is_audio: bool,
    track: track::Ordered,
    /// The current group, and the index of its next frame.
    group: Option<(group::Consumer, usize)>,
    /// Sequence number of the next group, if none is missing.
    next: Option<u64>,
    late: u64,
    told_late: u64,
    number: u32,
    /// Connection on which frames are echoed and keyframes requested.
    link: Arc<Link>,
    /// Whether the publisher asks for echoes.
    echoes: bool,
    echoed_at: Option<Instant>,
    lag: Lag,
}

/// A frame that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedFrame {
    /// Presentation time on the publisher's timeline.
    pub time: MediaTime,
    /// Whether a decoder can start here: the frame is the first of its group, or audio.
    pub keyframe: bool,
    /// Whether frames of the track before this one were skipped.
    pub after_loss: bool,
    /// Coded data as RTP payload formats take it: a byte stream of Annex B, or a packet without
    /// headers.
    pub data: Bytes,
    /// When the last byte arrived.
    pub arrived: Instant,
}

impl TrackReader {
    /// Returns the next frame in order; `None` at the end of the track.
    ///
    /// # Errors
    /// [`SubscribeError`] if the publisher sent an invalid frame, or the session has ended.
    pub async fn next(&mut self) -> Result<Option<ReceivedFrame>, SubscribeError> {
        loop {
            let Some((group, place)) = &mut self.group else {
                match self.track.next_group().await.map_err(Ended::of)? {
                    Some(group) => self.begin(group),
                    None => return Ok(None),
                }
                continue;
            };
            match read(group, BYTES_MAX as u64).await {
                Ok(Some(frame)) => {
                    let is_first = *place == 0;
                    *place += 1;
                    return self.take(frame, is_first).map(Some);
                }
                Ok(None) => self.group = None,
                Err(GroupError::Late) => {
                    self.late += 1;
                    self.group = None;
                }
                Err(GroupError::Long(bytes)) => return Err(FrameError::Long { bytes }.into()),
            }
        }
    }

    /// Returns the number of groups that were skipped, wholly or in part, because newer ones
    /// arrived.
    pub const fn late(&self) -> u64 {
        self.late
    }

    /// Returns the rendition of the track.
    pub const fn rendition(&self) -> &Rendition {
        &self.rendition
    }

    /// Asks the publisher for a keyframe. Only publishers of this project understand the request. A
    /// reader that falls behind by more than its deadline asks by itself.
    pub fn request_keyframe(&self) {
        let request = control_datagrams::keyframe_request_of(self.number);
        let _ = self.link.send_datagram(&request);
    }

    fn begin(&mut self, group: group::Consumer) {
        self.lag.begin();
        let sequence = group.sequence;
        if let Some(next) = self.next {
            self.late += sequence.saturating_sub(next);
        }
        self.next = Some(sequence.saturating_add(1));
        let place = usize::try_from(group.index()).unwrap_or(usize::MAX);
        self.group = Some((group, place));
    }

    fn take(&mut self, frame: Bytes, is_first: bool) -> Result<ReceivedFrame, SubscribeError> {
        let arrived = Instant::now();
        let (time, data) = frame::parse(frame, self.rendition.framing)?;
        let micros = frame::micros(time);
        self.echo(micros, arrived);
        if !self.is_audio && self.lag.take(time, arrived) {
            self.request_keyframe();
        }
        let after_loss = self.late > self.told_late;
        self.told_late = self.late;
        Ok(ReceivedFrame {
            time,
            keyframe: is_first || self.is_audio,
            after_loss,
            data,
            arrived,
        })
    }

    /// Echoes a frame, once a second.
    fn echo(&mut self, micros: u64, arrived: Instant) {
        if !self.echoes {
            return;
        }
        let last = self.echoed_at;
        if last
            .is_none_or(|last| arrived.saturating_duration_since(last) >= control_datagrams::PERIOD)
        {
            self.echoed_at = Some(arrived);
            let _ = self.link.send_datagram(&control_datagrams::echo(
                self.number,
                micros,
                arrived.elapsed(),
            ));
        }
    }
}

pub(super) enum GroupError {
    /// One of the ends dropped the group.
    Late,
    /// A frame announces this length in bytes, which is too long.
    Long(u64),
}

/// Reads the next frame of a group, if its announced length is at most `max` bytes.
pub(super) async fn read(
    group: &mut group::Consumer,
    max: u64,
) -> Result<Option<Bytes>, GroupError> {
    let Some(mut frame) = group.next_frame().await.map_err(|_| GroupError::Late)? else {
        return Ok(None);
    };
    if frame.size > max {
        return Err(GroupError::Long(frame.size));
    }
    frame
        .read_all()
        .await
        .map(Some)
        .map_err(|_| GroupError::Late)
}

/// The reason why a broadcast cannot be read any further.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The catalog is invalid. The publisher is at fault.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// A frame is invalid. The publisher is at fault.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The publisher sent no catalog in time.
    #[error("the publisher sent no catalog within {} s", RESPONSE_TIMEOUT.as_secs())]
    NoCatalog,
    /// The publisher's catalog names a track that the broadcast does not have.
    #[error("the catalog names track `{name}`, but the broadcast does not have it")]
    NoTrack {
        /// Name of the track.
        name: String,
    },
    /// The session was opened for publishing only.
    #[error("the session was opened to publish only")]
    PublishOnly,
    /// The broadcast or the session has ended.
    #[error(transparent)]
    Ended(#[from] Ended),
}
