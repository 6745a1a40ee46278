use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use glassline_hub::{PublishError, Publisher, Stream};
use glassline_media::{Kind, MediaUnit, Track, VideoParameters};
use glassline_rtp::SequenceExtender;
use glassline_rtp::payload::Unreceivable;
use glassline_rtsp::sdp::{Description, Format, Media};
use retina::client::{
    Credentials, Described, InitialSequenceNumberPolicy, InitialTimestampPolicy, PacketItem,
    PlayOptions, Playing, Session, SessionOptions, SetupOptions, TcpTransportOptions,
    UdpTransportOptions,
};
use retina::codec::ParametersRef;

use crate::ingest::{Assembler, Packet, RtspSource, Transport, Unusable, track_of};

/// For each step of the handshake; a camera on the same continent needs a tenth.
const STEP: Duration = Duration::from_secs(5);

/// A camera without a keyframe for so long cannot be watched by anyone new.
const KEYFRAME: Duration = Duration::from_secs(20);

/// Text that a camera may put into an error.
const REASON_CHARS_MAX: usize = 200;

/// Calls `camera` and publishes what it sends, until something fails.
pub(super) async fn pull(camera: &RtspSource, stream: &Arc<Stream>) -> Failure {
    let (session, chosen) = match connect(camera, stream).await {
        Ok(connected) => connected,
        Err(failure) => return failure,
    };
    match receive(session, &chosen, camera.timeout, stream).await {
        Ok(never) => match never {},
        Err(failure) => failure,
    }
}

/// A track of the camera that is taken: its place there and what it is.
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
        tracing::info!(stream = %stream.name(), skipped = others, "tracks left out");
    }
    for track in &chosen {
        let transport = match camera.transport {
            Transport::Tcp => retina::client::Transport::Tcp(TcpTransportOptions::default()),
            Transport::Udp => retina::client::Transport::Udp(UdpTransportOptions::default()),
        };
        let setup = SetupOptions::default().transport(transport);
        step("SETUP", session.setup(track.stream_id, setup)).await?;
    }
    // What cameras write into RTP-Info is wrong too often to insist on it.
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

/// The first frame and the first audio that we can carry, video first, and
/// the names of all others with the reason.
///
/// What each track is comes from the description itself: retina keeps neither
/// its format parameters as they are nor the codecs that it cannot take apart.
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

/// The format of retina's stream in the description as we read it. retina leaves
/// out `m=` lines that it cannot read, so places alone do not tell.
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

/// The size of the frame, which retina reads from parameter sets.
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
) -> Result<Never, Failure> {
    let began = Instant::now();
    let mut receiver = Receiver::new(chosen, stream, began)?;
    loop {
        let deadline = tokio::time::Instant::from_std(receiver.heard + timeout);
        match tokio::time::timeout_at(deadline, session.next()).await {
            Ok(Some(item)) => receiver.take(&item.map_err(|error| Failure::rtsp(&error))?),
            Ok(None) => return Err(Failure::HungUp),
            Err(_) => return Err(Failure::Silent { timeout }),
        }
        receiver.publish()?;
        if receiver.publisher.is_none() && began.elapsed() > KEYFRAME {
            return Err(Failure::NoKeyframe);
        }
    }
}

/// What becomes of a playing camera's packets.
struct Receiver<'a> {
    stream: &'a Arc<Stream>,
    /// The camera's number of each track.
    stream_ids: Vec<usize>,
    /// Of each track. retina gives packets in order, and drops those that come late.
    sequences: Vec<SequenceExtender>,
    assembler: Assembler,
    bursts: Vec<MediaUnit>,
    publisher: Option<Publisher>,
    /// When the first track was last heard. It rules: a microphone may be
    /// switched off, and a camera whose video stands still is down though its
    /// audio goes on.
    heard: Instant,
}

impl<'a> Receiver<'a> {
    fn new(chosen: &[Chosen], stream: &'a Arc<Stream>, now: Instant) -> Result<Self, Unreceivable> {
        let tracks = chosen.iter().map(|chosen| chosen.track.clone()).collect();
        Ok(Self {
            stream,
            stream_ids: chosen.iter().map(|chosen| chosen.stream_id).collect(),
            sequences: vec![SequenceExtender::new(); chosen.len()],
            assembler: Assembler::new(tracks)?,
            bursts: Vec::new(),
            publisher: None,
            heard: now,
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
        if track == 0 {
            self.heard = received;
        }
        let packet = Packet {
            track,
            sequence: self.sequences[track].extend(packet.sequence_number()),
            timestamp: on_wire(packet.timestamp()),
            marker: packet.mark(),
            payload: packet.payload(),
            received,
        };
        self.assembler.push(&packet, &mut self.bursts);
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

    fn publish(&mut self) -> Result<(), PublishError> {
        if let Some(publisher) = &mut self.publisher
            && let Some(tracks) = self.assembler.take_redescribed()
        {
            publisher.describe(tracks)?;
        }
        for burst in self.bursts.drain(..) {
            let publisher = match &mut self.publisher {
                Some(publisher) => publisher,
                // Nobody can watch before the first keyframe, so the stream is not live yet.
                None if self.assembler.starts(&burst) => {
                    let tracks = self.assembler.tracks().to_vec();
                    tracing::info!(stream = %self.stream.name(), tracks = tracks.len(), "camera live");
                    self.publisher
                        .insert(self.stream.publish(tracks, Instant::now())?)
                }
                None => continue,
            };
            publisher.push(burst, Instant::now())?;
        }
        Ok(())
    }

    fn track(&self, stream_id: usize) -> Option<usize> {
        self.stream_ids.iter().position(|id| *id == stream_id)
    }
}

/// retina widens timestamps; the low bits are those of the wire.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the low bits are wanted"
)]
fn on_wire(timestamp: retina::Timestamp) -> u32 {
    timestamp.timestamp() as u32
}

/// Why a camera is down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Failure {
    /// It let us wait.
    #[error("the camera did not answer {what} within {} s", STEP.as_secs())]
    NoAnswer { what: &'static str },
    /// It said no, or something that is no RTSP, or the network failed.
    #[error("{0}")]
    Rtsp(String),
    /// 401 or 403.
    #[error("the camera refuses us: check user and password in its URL")]
    Refused,
    /// 404.
    #[error("the camera has nothing at this path (404): check the end of its URL")]
    NoSuchPath,
    /// Only what cannot be carried.
    #[error("the camera offers nothing that can be taken: {offered}")]
    NothingUsable { offered: String },
    /// The connection stands, but nothing comes.
    #[error("no packet from the camera for {} s", timeout.as_secs_f64())]
    Silent { timeout: Duration },
    /// The connection ended in good order.
    #[error("the camera hung up")]
    HungUp,
    /// Frames come, but none that a decoder can start with.
    #[error("no keyframe with parameter sets within {} s", KEYFRAME.as_secs())]
    NoKeyframe,
    /// The track was checked before; should it change, it is told.
    #[error(transparent)]
    Format(#[from] Unreceivable),
    /// The hub does not take it.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

impl Failure {
    /// Asking again soon does harm: cameras lock users out who fail too often.
    pub(super) fn is_lasting(&self) -> bool {
        matches!(self, Self::Refused)
    }

    fn rtsp(error: &retina::Error) -> Self {
        // The first line says what; those below name connection and packet, for a log.
        let text = error.to_string();
        tracing::debug!(error = %text, "RTSP");
        match error.status_code() {
            Some(401 | 403) => return Self::Refused,
            Some(404) => return Self::NoSuchPath,
            _ => {}
        }
        let first = text.lines().next().unwrap_or_default();
        Self::Rtsp(first.chars().take(REASON_CHARS_MAX).collect())
    }
}
