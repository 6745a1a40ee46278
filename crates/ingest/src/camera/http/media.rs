//! What the body of an answer holds, and its way to the publisher.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use glassline_demux::{MotionJpeg, PushedDemuxer};
use glassline_hub::{SourceNote, Stream};
use glassline_media::{Codec, LayerIndex, MediaTime, Temporal, Track, TrackIndex};
use glassline_rtp::units::TimedUnit;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::request::{Answer, Requests};
use crate::CameraSource;
use crate::camera::failure::Failure;
use crate::live_publisher::{Destination, LivePublisher};
use crate::pace::Pace;
use crate::publishing::KEYFRAME;
use crate::sendable;

/// First bytes of each picture, and of each packet of a transport stream.
const FRAME: [u8; 2] = [0xff, 0xd8];
const PACKET: u8 = 0x47;

/// Name of a transport stream in errors.
const TRANSPORT_STREAM: &str = "the transport stream";

/// Most bytes of a picture that is fetched by itself.
const FRAME_BYTES_MAX: usize = 16 << 20;

/// Receives what one camera answers.
pub(super) struct Media<'a> {
    pub(super) camera: &'a CameraSource,
    pub(super) stream: &'a Arc<Stream>,
    pub(super) live: &'a mut Option<LivePublisher>,
    pub(super) live_since: &'a mut Option<Instant>,
    /// Time zero of pictures, which have no times of their own.
    pub(super) begun: Instant,
}

/// The body of an answer.
struct Body<'a> {
    camera: &'a CameraSource,
    incoming: Incoming,
}

impl Body<'_> {
    /// Waits for the next bytes; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let timeout = self.camera.timeout;
        loop {
            let frame = tokio::time::timeout(timeout, self.incoming.frame()).await;
            let silent = |_| Failure::Silent {
                timeout,
                stranger: None,
            };
            let Some(frame) = frame.map_err(silent)? else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| Failure::of_http(&error))?;
            if let Ok(bytes) = frame.into_data()
                && !bytes.is_empty()
            {
                return Ok(Some(bytes));
            }
        }
    }
}

impl Media<'_> {
    /// Asks the camera, and publishes what it answers until something fails.
    pub(super) async fn receive(mut self) -> Result<Infallible, Failure> {
        let mut requests = Requests::new(self.camera);
        let Answer { media_type, body } = requests.get().await?;
        let mut body = Body {
            camera: self.camera,
            incoming: body,
        };
        match &*media_type {
            "image/jpeg" | "image/jpg" | "image/pjpeg" => self.single_frames(requests, body).await,
            it if it.starts_with("multipart/") => self.frames(&[], body).await,
            "text/html" | "text/plain" | "application/json" | "application/xml" | "text/xml" => {
                Err(Failure::NoMedia { media_type })
            }
            _ => match body.next().await?.ok_or(Failure::HungUp)? {
                first if first.first() == Some(&PACKET) => {
                    self.transport_stream(&first, body).await
                }
                first if first.starts_with(&FRAME) || first.starts_with(b"--") => {
                    self.frames(&first, body).await
                }
                _ => Err(Failure::NoMedia { media_type }),
            },
        }
    }

    /// Publishes pictures that follow each other in one body, which begins with `first`.
    async fn frames(&mut self, first: &[u8], mut body: Body<'_>) -> Result<Infallible, Failure> {
        let mut splitter = MotionJpeg::default();
        splitter.push(first).map_err(Failure::Frames)?;
        // When the first byte of the present picture came.
        let mut arrived = Instant::now();
        let mut latest = arrived;
        loop {
            while let Some(frame) = splitter.next_frame() {
                self.publish_frame(&frame, arrived)?;
                latest = Instant::now();
                arrived = latest;
            }
            if latest.elapsed() > KEYFRAME {
                return Err(Failure::NoFrame);
            }
            let bytes = body.next().await?.ok_or(Failure::HungUp)?;
            if splitter.is_between() {
                arrived = Instant::now();
            }
            splitter.push(&bytes).map_err(Failure::Frames)?;
        }
    }

    /// Publishes a picture, and fetches it again and again.
    async fn single_frames(
        &mut self,
        mut requests: Requests<'_>,
        first: Body<'_>,
    ) -> Result<Infallible, Failure> {
        let mut body = first;
        let mut ticks = tokio::time::interval(self.camera.interval());
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            let arrived = Instant::now();
            let frame = tokio::time::timeout(KEYFRAME, whole(&mut body)).await;
            let frame = frame.unwrap_or(Err(Failure::NoFrame))?;
            if !frame.starts_with(&FRAME) {
                return Err(Failure::NoFrame);
            }
            self.publish_frame(&frame, arrived)?;
            ticks.tick().await;
            body.incoming = requests.get().await?.body;
        }
    }

    /// Publishes a transport stream, which begins with `first`.
    async fn transport_stream(
        &mut self,
        first: &[u8],
        mut body: Body<'_>,
    ) -> Result<Infallible, Failure> {
        let mut demuxer = PushedDemuxer::transport_stream(Path::new(TRANSPORT_STREAM));
        demuxer.push(first).map_err(Failure::Demux)?;
        let mut pace = Pace::new(self.begun);
        loop {
            while let Some(frame) = demuxer.next_frame() {
                if self.live.is_none() {
                    let warnings = demuxer.take_warnings();
                    let left_out = warnings.iter().map(ToString::to_string).collect();
                    self.begin(left_out, demuxer.tracks().to_vec());
                    pace = Pace::new(Instant::now());
                }
                tokio::time::sleep_until(pace.due(frame.decode_time).into()).await;
                pace.catch_up(frame.decode_time, Instant::now());
                self.publish(TimedUnit {
                    track: frame.track,
                    time: pace.media_time(frame.time),
                    decode_time: Some(pace.media_time(frame.decode_time)),
                    keyframe: frame.keyframe,
                    after_loss: frame.after_loss,
                    temporal: Temporal::default(),
                    data: frame.data.into(),
                    received: Instant::now(),
                })?;
            }
            if self.live_since.is_none() && self.begun.elapsed() > KEYFRAME {
                let live = self.live.as_ref();
                let lack = live.map(LivePublisher::lack).unwrap_or_default();
                return Err(Failure::NoKeyframe { lack });
            }
            let bytes = body.next().await?.ok_or(Failure::HungUp)?;
            demuxer.push(&bytes).map_err(Failure::Demux)?;
        }
    }

    /// Publishes a picture whose first byte arrived at `arrived`.
    fn publish_frame(&mut self, frame: &Bytes, arrived: Instant) -> Result<(), Failure> {
        let track = Track::new(Codec::Jpeg);
        if self.live.is_none() {
            if let Some(why) = sendable::refusal(&track, frame) {
                return Err(Failure::Uncarried(why));
            }
            self.begin(Vec::new(), vec![track]);
        }
        let time = arrived.saturating_duration_since(self.begun).as_nanos();
        self.publish(TimedUnit {
            track: TrackIndex(0),
            time: MediaTime::from_nanos(i64::try_from(time).unwrap_or(i64::MAX)),
            decode_time: None,
            keyframe: true,
            after_loss: false,
            temporal: Temporal::default(),
            data: frame.to_vec(),
            received: arrived,
        })
    }

    fn begin(&mut self, left_out: Vec<String>, tracks: Vec<Track>) {
        let protocol = "http";
        let note = SourceNote { protocol, left_out };
        let destination = Destination::Stream(Arc::clone(self.stream));
        *self.live = Some(LivePublisher::new(destination, note, tracks));
    }

    fn publish(&mut self, unit: TimedUnit) -> Result<(), Failure> {
        let Some(live) = self.live else {
            return Ok(());
        };
        live.publish(unit, LayerIndex::BASE, Instant::now());
        live.refused()?;
        if self.live_since.is_none()
            && let Some(since) = live.live_since()
        {
            tracing::info!(stream = %self.stream.name(), "camera live");
            *self.live_since = Some(since);
        }
        Ok(())
    }
}

/// Waits for a whole body.
async fn whole(body: &mut Body<'_>) -> Result<Bytes, Failure> {
    let mut whole = Vec::new();
    while let Some(bytes) = body.next().await? {
        if whole.len() + bytes.len() > FRAME_BYTES_MAX {
            return Err(Failure::NoFrame);
        }
        whole.extend_from_slice(&bytes);
    }
    Ok(whole.into())
}
