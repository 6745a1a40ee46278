//! The session with one camera that receives a voice.

use std::time::{Duration, Instant};

use glassline_hub::StreamName;
use glassline_media::{Codec, Ssrc, TrackIndex};
use glassline_rtp::{HEADER_BYTES, Header, write_header};
use glassline_rtsp::client::{Closed, Event, RequestedTransport};
use glassline_rtsp::sdp::Description;
use tokio::io::AsyncReadExt as _;
use tokio::sync::mpsc;

use super::{CODECS, TalkError, Turn, VoicePacket};
use crate::ingest::{CameraConnection, CameraFailure, Purpose, RtspSource};

/// Status of a camera without back channel (RFC 2326 §7.1.1, option not supported).
const OPTION_NOT_SUPPORTED: u16 = 551;

/// Longest time for the end of a session.
const FAREWELL: Duration = Duration::from_secs(1);

/// Size of the buffer for what a camera sends: responses, and reports that are not read.
const READ_BYTES: usize = 16 << 10;

/// A camera that is ready to receive a voice.
#[derive(Debug)]
pub(crate) struct Loudspeaker {
    /// Given back before the connection closes, so that a client that sees its end may talk.
    turn: Turn,
    connection: CameraConnection,
    track: TrackIndex,
    codec: Codec,
    payload_type: u8,
    buffer: Vec<u8>,
}

/// The track of a back channel, and the format that is sent.
struct Choice {
    track: TrackIndex,
    codec: Codec,
    payload_type: u8,
}

impl Loudspeaker {
    /// Connects to a camera, up to the response to PLAY.
    pub(super) async fn connect(camera: &RtspSource, turn: Turn) -> Result<Self, TalkError> {
        let stream = turn.stream.clone();
        let failed = |failure| TalkError::Camera {
            stream: stream.clone(),
            failure,
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
                    Event::SetUp { .. } => {}
                    Event::Playing { .. } => {
                        let Some(choice) = choice.take() else {
                            continue;
                        };
                        return Ok(Self {
                            connection,
                            track: choice.track,
                            codec: choice.codec,
                            payload_type: choice.payload_type,
                            turn,
                            buffer,
                        });
                    }
                    Event::Closed(reason) => return Err(refused(reason, &stream)),
                }
            }
        }
    }

    /// Returns the codec that the camera takes.
    pub(crate) const fn codec(&self) -> Codec {
        self.codec
    }

    /// Sends what comes to the camera, until the voice ends or the camera fails; then leaves the
    /// camera. Returns the number of packets that were sent.
    ///
    /// # Errors
    /// Returns the failure of the camera.
    pub(crate) async fn play(
        mut self,
        mut voice: mpsc::Receiver<VoicePacket>,
    ) -> Result<u64, TalkError> {
        let mut sequence: u16 = rand::random();
        let ssrc = Ssrc(rand::random());
        let mut packet = Vec::new();
        let mut sent = 0;
        loop {
            let turned = tokio::select! {
                next = voice.recv() => match next {
                    Some(next) => {
                        let header = Header {
                            payload_type: self.payload_type,
                            // A talkspurt begins (RFC 3551 §4.1).
                            marker: sent == 0,
                            sequence,
                            timestamp: next.timestamp,
                            ssrc,
                        };
                        packet.resize(HEADER_BYTES, 0);
                        write_header(&mut packet, &header, &[]);
                        packet.extend_from_slice(&next.payload);
                        sequence = sequence.wrapping_add(1);
                        sent += u64::from(self.connection.client.send_media(self.track, &packet));
                        self.connection.send().await
                    }
                    None => break,
                },
                turned = exchange(&mut self.connection, &mut self.buffer) => turned,
            };
            let end = turned.and_then(|()| match self.connection.client.poll_event() {
                Some(Event::Closed(reason)) => Err(CameraFailure::of(reason)),
                _ => Ok(()),
            });
            if let Err(failure) = end {
                let stream = self.turn.stream.clone();
                return Err(TalkError::Camera { stream, failure });
            }
        }
        self.leave().await;
        Ok(sent)
    }

    /// Ends the session with TEARDOWN, for whose response the camera has a second.
    pub(crate) async fn leave(mut self) {
        self.connection.client.leave(Instant::now());
        let leaving = async {
            while !self.connection.client.is_closed() {
                if exchange(&mut self.connection, &mut self.buffer)
                    .await
                    .is_err()
                {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(FAREWELL, leaving).await;
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
        read = connection.socket.read(buffer) => match read {
            Ok(0) => connection.client.handle_end(),
            // The camera's reports are of no use to a talker.
            Ok(count) => connection.client.handle_data(Instant::now(), &buffer[..count], |_| {}),
            Err(error) => return Err(CameraFailure::Connection(error)),
        },
        () = wake => {}
    }
    connection.client.handle_timeout(Instant::now());
    Ok(())
}

/// Chooses the first format of the back channel that browsers send.
fn choose(description: &Description, stream: &StreamName) -> Result<Choice, TalkError> {
    let mut offered = Vec::new();
    for (track, media) in TrackIndex::enumerate(&description.tracks) {
        if !media.back_channel {
            continue;
        }
        for format in &media.formats {
            let name = &format.encoding_name;
            let codec = Codec::from_encoding_name(name);
            let codec = codec.filter(|it| CODECS.contains(it) && format.clock_rate == 8_000);
            if let Some(codec) = codec {
                return Ok(Choice {
                    track,
                    codec,
                    payload_type: format.payload_type,
                });
            }
            offered.push(format!("{name} of {} Hz", format.clock_rate));
        }
    }
    match offered.is_empty() {
        true => Err(TalkError::NoBackChannel(stream.clone())),
        false => Err(TalkError::NoCodec {
            stream: stream.clone(),
            offered: offered.join(" and "),
        }),
    }
}

/// Returns why a camera refused to be talked at.
fn refused(reason: Closed, stream: &StreamName) -> TalkError {
    match reason {
        Closed::Refused { status, .. } if status.0 == OPTION_NOT_SUPPORTED => {
            TalkError::NoBackChannel(stream.clone())
        }
        Closed::NothingToPlay => TalkError::NoBackChannel(stream.clone()),
        reason => TalkError::Camera {
            stream: stream.clone(),
            failure: CameraFailure::of(reason),
        },
    }
}
