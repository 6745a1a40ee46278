//! Voices that go to the loudspeakers of cameras (ONVIF's back channel).
//!
//! ```text
//! POST /{stream}/talk ─► Loudspeakers::connect: DESCRIBE, SETUP, PLAY ─► Loudspeaker: VoiceFormat
//! browser ─► shard: Talker ─ voice_queue, 500 ms ─┬─ G.711 as it is ────► Loudspeaker::play ─► camera
//!                                                 └─► TranscodedVoice ─► AAC ──┘
//! ```
//!
//! The connection is another one than that of the camera's media, which stays as it is. A voice in the
//! camera's G.711 passes as it comes. Otherwise it is transcoded, on a thread of its own: to AAC for a
//! camera that takes nothing else, and to G.711 for a talker that sends Opus alone. One voice at a time
//! speaks at a camera.

mod format;
mod loudspeaker;
mod queue;
mod transcoding;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::StreamName;
use glassline_media::Codec;
use parking_lot::Mutex;

pub(crate) use format::VoiceFormat;
use glassline_ingest::{CameraFailure, CameraSource, Input, SourceSpec};
pub(crate) use loudspeaker::Loudspeaker;
pub(crate) use queue::{VoicePacket, VoiceReceiver, VoiceSender, voice_queue};

/// A talker's voice: the packets, and their codec.
#[derive(Debug)]
pub(crate) struct Voice {
    /// Codec of the packets: Opus or G.711.
    pub(crate) codec: Codec,
    pub(crate) packets: VoiceReceiver,
}

/// The reason why nobody can talk at a stream.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TalkError {
    /// The stream does not come from a camera that the server dials.
    #[error(
        "'{0}' does not come from a camera of this server: a source rtsp://… under that name is needed"
    )]
    NoCamera(StreamName),
    /// Somebody else talks.
    #[error("somebody else talks at '{0}': wait until the other end has finished")]
    Busy(StreamName),
    /// The camera has no back channel.
    #[error("the camera of '{0}' has no loudspeaker for others (no ONVIF back channel)")]
    NoBackChannel(StreamName),
    /// The camera takes neither G.711 nor AAC-LC.
    #[error(
        "the camera of '{stream}' takes {offered}; G.711 (PCMU, PCMA) of 8 kHz or AAC-LC is needed: choose it in the camera's settings for audio"
    )]
    NoCodec {
        /// Name of the stream.
        stream: StreamName,
        /// The codecs that the camera takes.
        offered: String,
    },
    /// The voice cannot be transcoded for the camera.
    #[error("cannot talk at '{stream}': {reason}")]
    Voice {
        /// Name of the stream.
        stream: StreamName,
        /// The reason why it is not transcoded.
        reason: glassline_transcode::VoiceError,
    },
    /// The camera does not answer as it should.
    #[error("cannot talk at '{stream}': {failure}")]
    Camera {
        /// Name of the stream.
        stream: StreamName,
        /// Failure of the connection, as the log has it.
        failure: Box<CameraFailure>,
    },
}

/// Time for which a camera's answer is kept: pages ask for each viewer who may talk.
const ANSWER_KEPT: Duration = Duration::from_secs(600);

/// A camera, and what it said of its back channel.
#[derive(Clone, Debug)]
struct Camera {
    source: CameraSource,
    /// Held while the camera is asked, so that it is asked once.
    answer: Arc<tokio::sync::Mutex<Option<Answer>>>,
}

/// The answer of a camera about its back channel.
#[derive(Clone, Copy, Debug)]
struct Answer {
    takes_voice: bool,
    at: Instant,
}

/// The cameras that the server dials, as ends of voices.
#[derive(Debug, Default)]
pub(crate) struct Loudspeakers {
    cameras: Mutex<HashMap<StreamName, Camera>>,
    busy: Mutex<HashSet<StreamName>>,
}

/// Returns the camera of a source, if the camera may take a voice: over RTSP alone.
fn loudspeaker(source: &Input) -> Option<&CameraSource> {
    source.camera().filter(|camera| camera.is_rtsp())
}

/// The right to be the one who talks at a camera; given back when dropped.
#[derive(Debug)]
struct Turn {
    loudspeakers: Arc<Loudspeakers>,
    stream: StreamName,
}

impl Camera {
    fn new(source: &CameraSource) -> Self {
        Self {
            source: source.clone(),
            answer: Arc::default(),
        }
    }
}

impl Loudspeakers {
    /// Creates the loudspeakers of the cameras among the sources.
    pub(crate) fn new(sources: &[SourceSpec]) -> Self {
        let cameras = sources.iter().filter_map(|source| {
            let camera = loudspeaker(&source.input)?;
            Some((source.name.clone(), Camera::new(camera)))
        });
        Self {
            cameras: Mutex::new(cameras.collect()),
            busy: Mutex::default(),
        }
    }

    /// Notes that the source of a stream is another one now; `None` if it has none any more.
    pub(crate) fn set(&self, stream: &StreamName, source: Option<&Input>) {
        let mut cameras = self.cameras.lock();
        match source.and_then(loudspeaker) {
            Some(camera) => drop(cameras.insert(stream.clone(), Camera::new(camera))),
            None => drop(cameras.remove(stream)),
        }
    }

    fn camera(&self, stream: &StreamName) -> Result<Camera, TalkError> {
        let camera = self.cameras.lock().get(stream).cloned();
        camera.ok_or_else(|| TalkError::NoCamera(stream.clone()))
    }

    /// Returns whether the camera of `stream` takes a voice. The camera is asked if its last answer is
    /// older than ten minutes.
    ///
    /// # Errors
    /// Returns the [`TalkError`] to answer with.
    pub(crate) async fn ask(&self, stream: &StreamName) -> Result<bool, TalkError> {
        let Camera { source, answer } = self.camera(stream)?;
        let mut answer = answer.lock().await;
        if let Some(answer) = answer.filter(|it| it.at.elapsed() < ANSWER_KEPT) {
            return Ok(answer.takes_voice);
        }
        let takes_voice = Loudspeaker::ask(&source, stream).await?;
        let at = Instant::now();
        *answer = Some(Answer { takes_voice, at });
        Ok(takes_voice)
    }

    /// Connects to the loudspeaker of the camera of `stream`.
    ///
    /// # Errors
    /// Returns the [`TalkError`] to answer with.
    pub(crate) async fn connect(
        self: &Arc<Self>,
        stream: &StreamName,
    ) -> Result<Loudspeaker, TalkError> {
        let camera = self.camera(stream)?;
        let turn = self.take_turn(stream)?;
        Loudspeaker::connect(&camera.source, turn).await
    }

    fn take_turn(self: &Arc<Self>, stream: &StreamName) -> Result<Turn, TalkError> {
        let mut busy = self.busy.lock();
        if !busy.insert(stream.clone()) {
            return Err(TalkError::Busy(stream.clone()));
        }
        Ok(Turn {
            loudspeakers: Arc::clone(self),
            stream: stream.clone(),
        })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let busy = &self.loudspeakers.busy;
        let mut busy = busy.lock();
        busy.remove(&self.stream);
    }
}
