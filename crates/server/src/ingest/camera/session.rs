use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use glassline_hub::{PublishError, Publisher, Stream};
use glassline_media::{Kind, MediaUnit, Track, TrackIndex, VideoParameters};
use glassline_rtp::SequenceExtender;
use glassline_rtp::payload::UnsupportedFormat;
use glassline_rtsp::sdp::{Description, Format, Media};
use retina::client::{
    Credentials, Described, InitialSequenceNumberPolicy, InitialTimestampPolicy, PacketItem,
    PlayOptions, Playing, Session, SessionOptions, SetupOptions, TcpTransportOptions,
    UdpTransportOptions,
};
use retina::codec::ParametersRef;

use crate::ingest::{Assembler, Packet, RtspSource, Transport, Unusable, track_of};

/// Longest time for each step of the RTSP handshake; a camera on the same continent needs a tenth
/// of it.
const STEP: Duration = Duration::from_secs(5);

/// Longest time without a keyframe. Without keyframes no new viewer can start to watch.
const KEYFRAME: Duration = Duration::from_secs(20);

/// Most characters of an error that a camera's text may take.
const REASON_CHARS_MAX: usize = 200;

/// Connects to `camera` and publishes what it sends until something fails. Returns the failure.
/// `live_since` is set to the time of the first unit that was published.
pub(super) async fn pull(
    camera: &RtspSource,
    stream: &Arc<Stream>,
    live_since: &mut Option<Instant>,
) -> Failure {
    let (session, chosen) = match connect(camera, stream).await {
        Ok(connected) => connected,
        Err(failure) => return failure,
    };
    match receive(session, &chosen, camera.timeout, stream, live_since).await {
        Ok(never) => match never {},
        Err(failure) => failure,
    }
}

/// A track of the camera that is used: its index in retina and its description.
struct Chosen {
    stream_id: usize,
    track: Track,
}

async fn connect(
    camera: &RtspSource,
    stream: &Arc<Stream>,
) -> Result<(Session<Playing>, Vec<Chosen>), Failure> {
    let anonymous = camera.user.is_none() && camera.password.is_none();
    let credentials = (!anonymous).then(|| Credentials {
        username: camera.user.clone().unwrap_or_default(),
        password: camera.password.clone().unwrap_or_default(),
    });
    let options = SessionOptions::default()
        .creds(credentials)
        .user_agent(concat!("glassline/", env!("CARGO_PKG_VERSION")).to_owned());
    let describe = Session::describe(camera.url.clone(), options);
    let mut session = step("DESCRIBE", describe).await?;
    let (chosen, others) = choose(&session);
    let others = others.join(", ");
    if chosen.is_empty() {
        return Err(Failure::NothingUsable { offered: others });
    }
    if !others.is_empty() {
        tracing::info!(stream = %stream.name(), skipped = others, "tracks of the camera left out");
    }
    for track in &chosen {
        let transport = match camera.transport {
            Transport::Tcp => retina::client::Transport::Tcp(TcpTransportOptions::default()),
            Transport::Udp => retina::client::Transport::Udp(UdpTransportOptions::default()),
        };
        let setup = SetupOptions::default().transport(transport);
        step("SETUP", session.setup(track.stream_id, setup)).await?;
    }
    // RTP-Info headers of cameras are wrong too often to require correct ones.
    let play = PlayOptions::default()
        .initial_timestamp(InitialTimestampPolicy::Ignore)
        .initial_seq(InitialSequenceNumberPolicy::Ignore);
    let session = step("PLAY", session.play(play)).await?;
    Ok((session, chosen))
}

async fn step<T>(
    what: &'static str,
    doing: impl Future<Output = Result<T, retina::Error>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(STEP, doing).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(Failure::rtsp(&error)),
        Err(_) => Err(Failure::NoAnswer { what }),
    }
}

/// Returns the first video track and the first audio track that the server can carry, video first,
/// and the names of all other tracks with the reason why they are left out.
///
/// The tracks are read from the session description itself: retina keeps neither its format
/// parameters unchanged nor the codecs that it cannot depacketize.
fn choose(session: &Session<Described>) -> (Vec<Chosen>, Vec<String>) {
    let mut video = None;
    let mut audio = None;
    let mut others = Vec::new();
    let description = Description::parse(session.sdp()).unwrap_or_default();
    for (stream_id, offered) in session.streams().iter().enumerate() {
        let kind = offered.media();
        let usable = description_of(&description, session.streams(), stream_id).map_or_else(
            || Err(Unusable::Unknown(offered.encoding_name().to_owned())),
            track_of,
        );
        let mut track = match usable {
            Ok(track) => track,
            Err(unusable) => {
                others.push(format!("{kind} {unusable}"));
                continue;
            }
        };
        size(&mut track.video, offered);
        let place = match track.kind() {
            Kind::Video => &mut video,
            Kind::Audio => &mut audio,
            Kind::Text => {
                others.push(format!("{kind} {}", track.codec));
                continue;
            }
        };
        if place.is_none() {
            *place = Some(Chosen { stream_id, track });
        } else {
            others.push(format!("second {kind} {}", track.codec));
        }
    }
    (video.into_iter().chain(audio).collect(), others)
}

/// Returns the format of one of retina's streams in the description as this server parses it.
/// retina leaves out `m=` lines that it cannot parse, so an index is not enough to find it.
fn description_of<'a>(
    description: &'a Description,
    streams: &[retina::client::Stream],
    stream_id: usize,
) -> Option<&'a Format> {
    let alike = |media: &str, payload_type: u8, it: &Media| {
        it.name.eq_ignore_ascii_case(media)
            && it
                .format()
                .is_some_and(|it| it.payload_type == payload_type)
    };
    let offered = streams.get(stream_id)?;
    let (media, payload_type) = (offered.media(), offered.rtp_payload_type());
    let before = streams[..stream_id].iter();
    let number = before
        .filter(|it| it.media() == media && it.rtp_payload_type() == payload_type)
        .count();
    let mut tracks = description.tracks.iter();
    let mut found = tracks.by_ref().filter(|it| alike(media, payload_type, it));
    found.nth(number)?.format()
}

/// Sets the video's width and height, which retina reads from parameter sets.
fn size(video: &mut VideoParameters, offered: &retina::client::Stream) {
    if let Some(ParametersRef::Video(parameters)) = offered.parameters() {
        (video.width, video.height) = parameters.pixel_dimensions();
    }
}

enum Never {}

async fn receive(
    mut session: Session<Playing>,
    chosen: &[Chosen],
    timeout: Duration,
    stream: &Arc<Stream>,
    live_since: &mut Option<Instant>,
) -> Result<Never, Failure> {
    let began = Instant::now();
    let mut receiver = Receiver::new(chosen, stream, began)?;
    loop {
        let deadline = tokio::time::Instant::from_std(receiver.last_received + timeout);
        match tokio::time::timeout_at(deadline, session.next()).await {
            Ok(Some(item)) => receiver.take(&item.map_err(|error| Failure::rtsp(&error))?),
            Ok(None) => return Err(Failure::HungUp),
            Err(_) => return Err(Failure::Silent { timeout }),
        }
        receiver.publish(live_since)?;
        if receiver.publisher.is_none() && began.elapsed() > KEYFRAME {
            return Err(Failure::NoKeyframe);
        }
    }
}

/// Publishes the packets of a playing camera.
struct Receiver<'a> {
    stream: &'a Arc<Stream>,
    /// Index of each track in the camera's description.
    stream_ids: Vec<usize>,
    /// Extends the sequence numbers of each track. retina returns packets in order and drops late
    /// ones.
    sequences: Vec<SequenceExtender>,
    assembler: Assembler,
    media_units: Vec<MediaUnit>,
    publisher: Option<Publisher>,
    /// Arrival of the first track's latest packet. The first track decides: a microphone may be
    /// switched off, but a camera whose video stands still is down even if its audio continues.
    last_received: Instant,
}

impl<'a> Receiver<'a> {
    fn new(
        chosen: &[Chosen],
        stream: &'a Arc<Stream>,
        now: Instant,
    ) -> Result<Self, UnsupportedFormat> {
        let tracks = chosen.iter().map(|chosen| chosen.track.clone()).collect();
        Ok(Self {
            stream,
            stream_ids: chosen.iter().map(|chosen| chosen.stream_id).collect(),
            sequences: vec![SequenceExtender::new(); chosen.len()],
            assembler: Assembler::new(tracks)?,
            media_units: Vec::new(),
            publisher: None,
            last_received: now,
        })
    }

    fn take(&mut self, item: &PacketItem) {
        match item {
            PacketItem::Rtp(packet) => self.packet(packet),
            PacketItem::Rtcp(compound) => self.report(compound),
            _ => {}
        }
    }

    fn packet(&mut self, packet: &retina::rtp::ReceivedPacket) {
        let Some(track) = self.track(packet.stream_id()) else {
            return;
        };
        let received = packet.ctx().received();
        if track == TrackIndex(0) {
            self.last_received = received;
        }
        let packet = Packet {
            track,
            sequence: self.sequences[track].extend(packet.sequence_number()),
            timestamp: on_wire(packet.timestamp()),
            marker: packet.mark(),
            payload: packet.payload(),
            received,
        };
        self.assembler.push(&packet, &mut self.media_units);
    }

    fn report(&mut self, compound: &retina::rtcp::ReceivedCompoundPacket) {
        let report = compound
            .pkts()
            .find_map(|packet| packet.as_sender_report().ok().flatten());
        let track = self.track(compound.stream_id());
        if let (Some(track), Some(report), Some(timestamp)) =
            (track, report, compound.rtp_timestamp())
        {
            let ntp = report.ntp_timestamp().0;
            self.assembler.sender_report(track, ntp, on_wire(timestamp));
        }
    }

    fn publish(&mut self, live_since: &mut Option<Instant>) -> Result<(), PublishError> {
        if let Some(publisher) = &mut self.publisher
            && let Some(tracks) = self.assembler.take_redescribed()
        {
            publisher.describe(tracks)?;
        }
        for media_unit in self.media_units.drain(..) {
            let publisher = match &mut self.publisher {
                Some(publisher) => publisher,
                // Nobody can watch before the first keyframe, so the stream is not live until then.
                None if self.assembler.starts(&media_unit) => {
                    let tracks = self.assembler.tracks().to_vec();
                    self.publisher
                        .insert(self.stream.publish(tracks, Instant::now())?)
                }
                None => continue,
            };
            publisher.push(media_unit, Instant::now())?;
            if live_since.is_none() {
                let (stream, tracks) = (self.stream.name(), self.assembler.tracks().len());
                tracing::info!(%stream, tracks, "camera live");
                *live_since = Some(Instant::now());
            }
        }
        Ok(())
    }

    fn track(&self, stream_id: usize) -> Option<TrackIndex> {
        let mut ids = self.stream_ids.iter();
        ids.position(|id| *id == stream_id).map(TrackIndex)
    }
}

/// retina extends timestamps; the low 32 bits are those of the wire.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the low bits are wanted"
)]
fn on_wire(timestamp: retina::Timestamp) -> u32 {
    timestamp.timestamp() as u32
}

/// The reason why a camera is down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Failure {
    /// The camera did not answer in time.
    #[error("the camera did not answer {what} within {} s", STEP.as_secs())]
    NoAnswer { what: &'static str },
    /// The camera refused a request or sent invalid RTSP, or the network failed.
    #[error("{0}")]
    Rtsp(String),
    /// The camera refused the credentials (status 401 or 403).
    #[error("the camera refuses the credentials: check user and password in its URL")]
    Refused,
    /// The camera has no stream of this path (status 404).
    #[error("the camera has no stream at this path (404): check the end of its URL")]
    NoSuchPath,
    /// The camera offers only media that the server cannot carry.
    #[error("the camera offers no media that this server can carry: {offered}")]
    NothingUsable { offered: String },
    /// The connection is open, but no packets arrive.
    #[error("no packet from the camera for {} s", timeout.as_secs_f64())]
    Silent { timeout: Duration },
    /// The camera closed the connection.
    #[error("the camera closed the connection")]
    HungUp,
    /// Frames arrive, but none that a decoder can start with.
    #[error("no keyframe with parameter sets within {} s", KEYFRAME.as_secs())]
    NoKeyframe,
    /// The payload format of a track is not supported. Tracks are checked before, so this means
    /// that the check and the depacketizer disagree.
    #[error(transparent)]
    Format(#[from] UnsupportedFormat),
    /// The hub refused the stream.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

impl Failure {
    /// Returns whether trying again soon does harm: cameras lock users out after repeated failures.
    pub(super) fn is_lasting(&self) -> bool {
        matches!(self, Self::Refused)
    }

    fn rtsp(error: &retina::Error) -> Self {
        // The first line names the problem. The lines below name connection and packet, for a log.
        let text = error.to_string();
        tracing::debug!(error = %text, "camera: RTSP error");
        match error.status_code() {
            Some(401 | 403) => return Self::Refused,
            Some(404) => return Self::NoSuchPath,
            _ => {}
        }
        let first = text.lines().next().unwrap_or_default();
        Self::Rtsp(first.chars().take(REASON_CHARS_MAX).collect())
    }
}
