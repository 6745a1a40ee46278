//! The session with one camera that receives a voice.

use std::time::Instant;

use glassline_hub::StreamName;
use glassline_ingest::{CameraConnection, CameraFailure, CameraSource, Purpose};
use glassline_media::{Ssrc, TrackIndex};
use glassline_rtp::{HEADER_BYTES, Header, write_header};
use glassline_rtsp::client::{Closed, Event, RequestedTransport};
use glassline_rtsp::sdp::Description;
use glassline_transcode::VoiceTranscoder;

use super::transcoding::TranscodedVoice;
use super::{TalkError, Turn, Voice, VoiceFormat, VoiceReceiver};

/// Status of a camera without back channel (RFC 2326 §7.1.1, option not supported).
const OPTION_NOT_SUPPORTED: u16 = 551;

/// Size of the buffer for what a camera sends: responses, and reports that are not read.
const READ_BYTES: usize = 16 << 10;

/// A camera that is ready to receive a voice.
#[derive(Debug)]
pub(crate) struct Loudspeaker {
    /// Given back before the connection closes, so that a client that sees its end may talk.
    turn: Turn,
    connection: CameraConnection,
    choice: Choice,
    buffer: Vec<u8>,
}

/// The track of a back channel, and the format that is sent.
#[derive(Clone, Copy, Debug)]
struct Choice {
    track: TrackIndex,
    format: VoiceFormat,
    payload_type: u8,
}

/// A voice on its way to the connection.
enum Payloads {
    /// In the camera's codec as it comes.
    Forwarded(VoiceReceiver),
    Transcoded(TranscodedVoice),
}

impl Loudspeaker {
    /// Asks a camera whether it takes a voice: up to its description.
    pub(super) async fn ask(camera: &CameraSource, stream: &StreamName) -> Result<bool, TalkError> {
        let failed = |failure| TalkError::Camera {
            stream: stream.clone(),
            failure: Box::new(failure),
        };
        let mut connection = CameraConnection::open(camera, Purpose::Talk)
            .await
            .map_err(failed)?;
        let mut buffer = vec![0; READ_BYTES];
        let chosen = 'asked: loop {
            exchange(&mut connection, &mut buffer)
                .await
                .map_err(failed)?;
            while let Some(event) = connection.client.poll_event() {
                match event {
                    Event::Described(description) => {
                        break 'asked choose(&description, stream).map(drop);
                    }
                    Event::Closed(Closed::Redirected { location }) => {
                        let followed = connection.follow(camera, &location).await;
                        followed.map_err(failed)?;
                    }
                    Event::Closed(reason) => {
                        break 'asked Err(refused(&connection, reason, stream));
                    }
                    _ => {}
                }
            }
        };
        connection.leave().await;
        match chosen {
            Ok(()) => Ok(true),
            Err(TalkError::NoBackChannel(_) | TalkError::NoCodec { .. }) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// Connects to a camera, up to the response to PLAY.
    pub(super) async fn connect(camera: &CameraSource, turn: Turn) -> Result<Self, TalkError> {
        let stream = turn.stream.clone();
        let failed = |failure| TalkError::Camera {
            stream: stream.clone(),
            failure: Box::new(failure),
        };
        let mut connection = CameraConnection::open(camera, Purpose::Talk)
            .await
            .map_err(failed)?;
        let mut buffer = vec![0; READ_BYTES];
        let mut choice = None;
        loop {
            exchange(&mut connection, &mut buffer)
                .await
                .map_err(failed)?;
            while let Some(event) = connection.client.poll_event() {
                match event {
                    Event::Described(description) => {
                        let chosen = choose(&description, &stream)?;
                        let wanted = [(chosen.track, RequestedTransport::Interleaved)];
                        connection.client.set_up(Instant::now(), &wanted);
                        choice = Some(chosen);
                    }
                    Event::SetUp { .. } | Event::LeftOut { .. } | Event::Recording => {}
                    Event::Playing { .. } => {
                        let Some(choice) = choice.take() else {
                            continue;
                        };
                        return Ok(Self {
                            connection,
                            choice,
                            turn,
                            buffer,
                        });
                    }
                    Event::Closed(Closed::Redirected { location }) => {
                        let followed = connection.follow(camera, &location).await;
                        followed.map_err(failed)?;
                        choice = None;
                    }
                    Event::Closed(reason) => return Err(refused(&connection, reason, &stream)),
                }
            }
        }
    }

    /// Returns the format that the camera takes.
    pub(crate) const fn format(&self) -> VoiceFormat {
        self.choice.format
    }

    /// Sends what comes to the camera, until the voice ends or the camera fails; then leaves the
    /// camera. Returns the number of packets that were sent.
    ///
    /// # Errors
    /// Returns the failure of the camera, or why the voice is not transcoded for it.
    pub(crate) async fn play(mut self, voice: Voice) -> Result<u64, TalkError> {
        let mut payloads = match self.payloads(voice) {
            Ok(payloads) => payloads,
            Err(error) => {
                self.leave().await;
                return Err(error);
            }
        };
        let sent = self.send_all(&mut payloads).await;
        if let Payloads::Transcoded(voice) = payloads {
            voice.end().await;
        }
        match sent {
            Ok(sent) => {
                self.leave().await;
                Ok(sent)
            }
            Err(failure) => {
                let stream = self.turn.stream.clone();
                let failure = Box::new(failure);
                Err(TalkError::Camera { stream, failure })
            }
        }
    }

    /// Returns the voice in the camera's codec: as it is, or transcoded.
    fn payloads(&self, voice: Voice) -> Result<Payloads, TalkError> {
        let format = self.choice.format;
        if voice.codec == format.codec() {
            return Ok(Payloads::Forwarded(voice.packets));
        }
        let transcoder = VoiceTranscoder::new(voice.codec, format.target());
        let transcoder = transcoder.map_err(|reason| TalkError::Voice {
            stream: self.turn.stream.clone(),
            reason,
        })?;
        let voice = TranscodedVoice::start(voice.packets, transcoder);
        Ok(Payloads::Transcoded(voice))
    }

    /// Sends payloads until there are no more. Returns the number of packets.
    async fn send_all(&mut self, payloads: &mut Payloads) -> Result<u64, CameraFailure> {
        let Choice {
            track,
            format,
            payload_type,
        } = self.choice;
        let mut header = Header {
            payload_type,
            marker: true,
            sequence: rand::random(),
            timestamp: 0,
            ssrc: Ssrc(rand::random()),
        };
        // What is transcoded counts from zero.
        let base: u32 = rand::random();
        let mut packet = Vec::new();
        let mut sent = 0;
        loop {
            packet.clear();
            packet.resize(HEADER_BYTES, 0);
            let next = async {
                match payloads {
                    Payloads::Forwarded(voice) => {
                        let voice = voice.recv().await?;
                        packet.extend_from_slice(&voice.payload);
                        Some(voice.timestamp)
                    }
                    Payloads::Transcoded(voice) => {
                        let frame = voice.recv().await?;
                        format.write_payload(&frame.data, &mut packet);
                        Some(base.wrapping_add(format.timestamp(frame.timestamp)))
                    }
                }
            };
            tokio::select! {
                next = next => {
                    let Some(timestamp) = next else {
                        return Ok(sent);
                    };
                    header.timestamp = timestamp;
                    header.marker = format.marks_all() || sent == 0;
                    write_header(&mut packet, &header, &[]);
                    header.sequence = header.sequence.wrapping_add(1);
                    sent += u64::from(self.connection.client.send_media(track, &packet));
                    self.connection.send().await?;
                }
                turned = exchange(&mut self.connection, &mut self.buffer) => turned?,
            }
            if let Some(Event::Closed(reason)) = self.connection.client.poll_event() {
                return Err(self.connection.failure(reason));
            }
        }
    }

    /// Ends the session with TEARDOWN.
    pub(crate) async fn leave(mut self) {
        self.connection.leave().await;
    }
}

/// Sends what waits, and waits for bytes of the camera or a deadline. May be dropped while it waits.
async fn exchange(
    connection: &mut CameraConnection,
    buffer: &mut [u8],
) -> Result<(), CameraFailure> {
    connection.send().await?;
    let deadline = connection.client.poll_timeout();
    let wake = async {
        match deadline {
            Some(at) => tokio::time::sleep_until(at.into()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        read = connection.read(buffer) => match read? {
            0 => connection.client.handle_end(),
            // The camera's reports are of no use to a talker.
            count => connection.client.handle_data(Instant::now(), &buffer[..count], |_| {}),
        },
        () = wake => {}
    }
    connection.client.handle_timeout(Instant::now());
    Ok(())
}

/// Chooses the first format of the back channel that is G.711, which has no delay of its own, else the
/// first one of AAC.
fn choose(description: &Description, stream: &StreamName) -> Result<Choice, TalkError> {
    let (mut chosen, mut others) = (None, Vec::new());
    for (track, media) in description.back_channels() {
        for offered in &media.formats {
            let format = match VoiceFormat::of(offered) {
                Ok(format) => format,
                Err(other) => {
                    others.push(other);
                    continue;
                }
            };
            let choice = Choice {
                track,
                format,
                payload_type: offered.payload_type,
            };
            match format {
                VoiceFormat::Pcmu | VoiceFormat::Pcma => return Ok(choice),
                VoiceFormat::Aac(_) => chosen = chosen.or(Some(choice)),
            }
        }
    }
    chosen.ok_or_else(|| match others.is_empty() {
        true => TalkError::NoBackChannel(stream.clone()),
        false => TalkError::NoCodec {
            stream: stream.clone(),
            offered: others.join(" and "),
        },
    })
}

/// Returns why a camera refused to be talked at.
fn refused(connection: &CameraConnection, reason: Closed, stream: &StreamName) -> TalkError {
    match reason {
        Closed::Refused { status, .. } if status.0 == OPTION_NOT_SUPPORTED => {
            TalkError::NoBackChannel(stream.clone())
        }
        Closed::NothingToPlay => TalkError::NoBackChannel(stream.clone()),
        reason => TalkError::Camera {
            stream: stream.clone(),
            failure: Box::new(connection.failure(reason)),
        },
    }
}
