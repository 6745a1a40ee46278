//! The pictures of Motion JPEG as they come, one part of a multipart body each.
//!
//! A reader gets the newest picture whenever it has room: a slow one gets fewer, and nothing waits for
//! it. A stream of which nobody reads pictures costs nothing.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use glassline_hub::{Demand, Stream, Subscription, TrackLayout};
use glassline_media::{Codec, Kind, TrackIndex};
use glassline_runtime::{FairPlaces, SourcePrefix, TaskWaker};
use tokio::time::Instant;

/// Media type of the body.
pub const MEDIA_TYPE: &str = "multipart/x-mixed-replace; boundary=picture";

/// Most readers, and most of one address: a browser has six connections to a server.
const READERS_MAX: usize = 256;
const READERS_OF_ADDRESS_MAX: usize = 16;

/// Shortest time between two pictures of one reader.
const INTERVAL: Duration = Duration::from_millis(50);

/// Longest answer. The next one asks for the right to view again.
const SPAN: Duration = Duration::from_secs(60);

/// The readers of pictures.
#[derive(Debug)]
pub(super) struct FrameReaders(FairPlaces<SourcePrefix>);

impl Default for FrameReaders {
    fn default() -> Self {
        Self(FairPlaces::new(READERS_MAX, READERS_OF_ADDRESS_MAX))
    }
}

/// The reason why a stream has no pictures.
#[derive(Debug, thiserror::Error)]
pub enum NoFrames {
    /// The stream carries no video.
    #[error("the stream has no video")]
    NoVideo,
    /// The video is of a codec that is played otherwise.
    #[error(
        "the stream's video is {0}, which has no pictures of its own: play it by WebRTC or RTSP"
    )]
    Codec(Codec),
}

/// The reading of one reader.
struct Reading {
    stream: Arc<Stream>,
    track: TrackIndex,
    layout: TrackLayout,
    /// Number of the picture that was read last.
    last: Option<u64>,
    next_at: Instant,
    end_at: Instant,
    arrival: Arc<TaskWaker>,
    _subscription: Subscription,
    _demand: Demand,
}

impl FrameReaders {
    /// Returns the parts of a body with the pictures of `stream` for a client of the network `client`.
    ///
    /// # Errors
    /// Returns [`NoFrames`].
    pub(super) fn read(
        &self,
        stream: &Arc<Stream>,
        client: SourcePrefix,
    ) -> Result<impl stream::Stream<Item = Bytes> + Send + use<>, NoFrames> {
        self.read_until(stream, client, Instant::now() + SPAN)
    }

    fn read_until(
        &self,
        stream: &Arc<Stream>,
        client: SourcePrefix,
        end_at: Instant,
    ) -> Result<impl stream::Stream<Item = Bytes> + Send + use<>, NoFrames> {
        let layout = stream.layout();
        let tracks = stream.tracks();
        let mut videos =
            TrackIndex::enumerate(tracks.iter()).filter(|(_, it)| it.kind() == Kind::Video);
        let (track, video) = videos.next().ok_or(NoFrames::NoVideo)?;
        if video.codec != Codec::Jpeg {
            return Err(NoFrames::Codec(video.codec));
        }
        let arrival = Arc::new(TaskWaker::default());
        let reading = Reading {
            stream: Arc::clone(stream),
            track,
            layout,
            last: None,
            next_at: Instant::now(),
            end_at,
            _subscription: stream.subscribe(Arc::clone(&arrival) as _),
            arrival,
            _demand: stream.demand(),
        };
        let place = self.0.admit_newest(&client);
        let frames = stream::unfold(reading, async |mut reading| {
            let part = reading.next().await?;
            Some((part, reading))
        });
        Ok(frames.take_until(async move { place.displaced().await }))
    }
}

impl Reading {
    /// Waits for the next picture; `None` once the time is over, or the stream has other tracks.
    async fn next(&mut self) -> Option<Bytes> {
        tokio::time::sleep_until(self.next_at).await;
        loop {
            if self.stream.layout() != self.layout || Instant::now() >= self.end_at {
                return None;
            }
            let newest = self.stream.latest_keyframe(self.track);
            if let Some(unit) = newest.filter(|unit| Some(unit.index) != self.last) {
                self.last = Some(unit.index);
                self.next_at = Instant::now() + INTERVAL;
                if let Some(frame) = unit.coded_frame() {
                    return Some(part(&frame.to_vec()));
                }
            }
            let waiting = tokio::time::timeout_at(self.end_at, self.arrival.woken());
            let _ = waiting.await;
        }
    }
}

fn part(frame: &[u8]) -> Bytes {
    let length = frame.len();
    let head = format!("--picture\r\nContent-Type: image/jpeg\r\nContent-Length: {length}\r\n\r\n");
    [head.as_bytes(), frame, b"\r\n"].concat().into()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::pin::pin;

    use futures_util::FutureExt as _;
    use glassline_demux::MotionJpeg;
    use glassline_hub::{Hub, Publisher, StreamName};
    use glassline_media::{MediaTime, MediaUnit, Stamps, Track, UnitBuilder};
    use glassline_rtp::payload::Packetizer;

    use super::*;

    static FILM: &[u8] = include_bytes!("../../../demux/samples/jpeg-pcm.mov");

    const CLIENT: SourcePrefix = SourcePrefix::V4(Ipv4Addr::LOCALHOST);

    /// A stream of Motion JPEG.
    struct Camera {
        stream: Arc<Stream>,
        publisher: Publisher,
        frames: Vec<Bytes>,
    }

    impl Camera {
        fn new() -> Self {
            let mut splitter = MotionJpeg::default();
            splitter.push(FILM).expect("pictures");
            let name = StreamName::parse("cam").expect("a name");
            let stream = Hub::default().admit(name).expect("room");
            let tracks = vec![Track::new(Codec::Jpeg)];
            let publisher = stream.publish(tracks, std::time::Instant::now());
            Self {
                publisher: publisher.expect("free"),
                stream,
                frames: std::iter::from_fn(|| splitter.next_frame()).collect(),
            }
        }

        /// Returns a frame as RTP carries it, which has a head of its own.
        fn unit(&self, number: usize) -> MediaUnit {
            let mut builder = UnitBuilder::default();
            let mut packetizer = Packetizer::new(&Track::new(Codec::Jpeg));
            let packetized = packetizer.packetize(&self.frames[number], &mut builder);
            packetized.expect("a usual picture");
            let time = MediaTime::from_nanos(i64::try_from(number).expect("few") * 40_000_000);
            let stamps = Stamps::arrived(std::time::Instant::now());
            let unit = builder.build(TrackIndex(0), time, true, stamps);
            unit.expect("a unit")
        }

        fn publish(&mut self, number: usize) {
            let (unit, now) = (self.unit(number), std::time::Instant::now());
            self.publisher.push(unit, now).expect("room");
        }

        fn expected(&self, number: usize) -> Bytes {
            let unit = self.unit(number);
            part(&unit.coded_frame().expect("a whole frame").to_vec())
        }
    }

    #[tokio::test]
    async fn a_reader_gets_the_newest_frame_whenever_there_is_room_until_the_time_is_over() {
        let mut camera = Camera::new();
        camera.publish(0);
        let readers = FrameReaders::default();
        let end_at = Instant::now() + Duration::from_secs(1);
        let reading = readers.read_until(&camera.stream, CLIENT, end_at);
        let reading = reading.expect("Motion JPEG");
        let mut reading = pin!(reading);
        assert!(camera.stream.is_demanded());
        assert_eq!(reading.next().await, Some(camera.expected(0)));
        assert_eq!(reading.next().now_or_never(), None, "none is sent twice");
        camera.publish(1);
        camera.publish(2);
        assert_eq!(reading.next().await, Some(camera.expected(2)));
        assert_eq!(reading.next().await, None);
        assert!(Instant::now() >= end_at);
    }

    #[tokio::test]
    async fn an_address_has_its_share_of_readers_and_the_newest_ones_read() {
        let mut camera = Camera::new();
        camera.publish(0);
        let readers = FrameReaders::default();
        let read = || Box::pin(readers.read(&camera.stream, CLIENT).expect("Motion JPEG"));
        let mut all: Vec<_> = (0..=READERS_OF_ADDRESS_MAX).map(|_| read()).collect();
        let newest = all.pop().expect("one").next().await;
        assert_eq!(newest, Some(camera.expected(0)));
        assert_eq!(all[0].next().await, None, "the oldest made room");
        assert!(all[1].next().await.is_some());
    }

    #[tokio::test]
    async fn other_video_has_no_frames() {
        let name = StreamName::parse("cam").expect("a name");
        let stream = Hub::default().admit(name).expect("room");
        let readers = FrameReaders::default();
        let refused = readers.read(&stream, CLIENT).err().expect("no source yet");
        assert!(matches!(refused, NoFrames::NoVideo));
        let tracks = vec![Track::new(Codec::H264)];
        let _publisher = stream.publish(tracks, std::time::Instant::now());
        let refused = readers.read(&stream, CLIENT).err().expect("H.264");
        assert!(refused.to_string().contains("264"), "{refused}");
    }
}
