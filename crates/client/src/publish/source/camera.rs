//! A camera or other RTSP server, pulled by retina, and called again when it closes the
//! connection. H.264, H.265 and AAC are taken, which retina depacketizes.

use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use glassline_media::{Codec, Kind, MediaTime, Track, TrackIndex, VideoParameters};
use retina::client::{
    Credentials, Demuxed, Described, InitialSequenceNumberPolicy, InitialTimestampPolicy,
    PlayOptions, Session, SessionOptions, SetupOptions, TcpTransportOptions,
};
use retina::codec::{CodecItem, FrameFormat, ParameterSetInsertion, ParametersRef, aac, h26x};

use super::{Error, Event, SourceContext};
use crate::publish::input::Camera;
use crate::publish::unit::Unit;

/// Longest wait for each step of the handshake and for the next packet.
const PATIENCE: Duration = Duration::from_secs(10);

/// First pause before calling again.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// Longest pause before calling again.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// A track of the camera that is sent.
struct Chosen {
    stream: usize,
    track: Track,
    clock: Clock,
}

/// Converts a track's timestamps to the timeline.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    /// Time on the timeline of the track's zero.
    zero: Option<MediaTime>,
}

impl Clock {
    /// Time on the timeline of a unit that came at `arrived` and is `elapsed` seconds into
    /// its track.
    fn place(&mut self, arrived: MediaTime, elapsed: f64) -> MediaTime {
        let elapsed = Duration::try_from_secs_f64(elapsed).unwrap_or_default();
        *self.zero.get_or_insert(arrived - elapsed) + elapsed
    }
}

/// Calls `camera`; returns its tracks, video first, and delivers what it sends from then on.
pub(super) async fn play(
    camera: &Camera,
    context: &SourceContext,
    carries: fn(Codec) -> bool,
) -> Result<Vec<Track>, Error> {
    let (session, chosen) = call(camera, carries).await?;
    let tracks: Vec<Track> = chosen.iter().map(|it| it.track.clone()).collect();
    let (context, camera, kinds) = (context.clone(), camera.clone(), tracks.clone());
    tokio::spawn(async move {
        let mut connected = Some((session, chosen));
        let mut backoff = BACKOFF_MIN;
        while !context.control.is_stopped() {
            let why = match connected.take() {
                Some((session, chosen)) => {
                    backoff = BACKOFF_MIN;
                    match receive(session, chosen, &context, &camera).await {
                        Ok(()) => return,
                        Err(why) => why,
                    }
                }
                None => match call(&camera, carries).await {
                    Ok((session, chosen)) if fits(&chosen, &kinds) => {
                        connected = Some((session, chosen));
                        continue;
                    }
                    Ok(_) => {
                        let why = "the camera now sends other tracks: restart publishing";
                        camera.failed(why.to_owned())
                    }
                    Err(why) => why,
                },
            };
            if matches!(&why, Error::Camera { lasting: true, .. }) {
                // If the session is gone, nothing needs the event.
                let _ = context.events.send(Event::Ended(Err(why))).await;
                return;
            }
            tracing::warn!("{why}; reconnecting in {} s", backoff.as_secs());
            tokio::time::sleep(backoff).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    });
    Ok(tracks)
}

fn fits(chosen: &[Chosen], tracks: &[Track]) -> bool {
    let codecs = chosen.iter().map(|it| it.track.codec);
    codecs.eq(tracks.iter().map(|it| it.codec))
}

async fn call(
    camera: &Camera,
    carries: fn(Codec) -> bool,
) -> Result<(Demuxed, Vec<Chosen>), Error> {
    let credentials = camera
        .user
        .as_ref()
        .map(|(username, password)| Credentials {
            username: username.clone(),
            password: password.clone(),
        });
    let options = SessionOptions::default()
        .creds(credentials)
        .user_agent(concat!("glassline/", env!("CARGO_PKG_VERSION")).to_owned());
    let describe = Session::describe(camera.url.clone(), options);
    let mut session = step(camera, "DESCRIBE", describe).await?;
    let chosen = choose(&session, carries);
    if chosen.is_empty() {
        let streams = session.streams().iter();
        let offered = streams.map(retina::client::Stream::encoding_name);
        let offered = offered.collect::<Vec<_>>().join(", ");
        let why = format!(
            "the camera offers {offered}, but only H.264, H.265 and AAC can be sent: change its \
             settings"
        );
        return Err(camera.refused(why));
    }
    let format = FrameFormat {
        h26x_framing: h26x::Framing::AnnexB,
        parameter_set_insertion: ParameterSetInsertion::EachKeyFrame,
        aac_framing: aac::Framing::Raw,
    };
    for chosen in &chosen {
        let transport = retina::client::Transport::Tcp(TcpTransportOptions::default());
        let setup = SetupOptions::default()
            .transport(transport)
            .frame_format(format);
        step(camera, "SETUP", session.setup(chosen.stream, setup)).await?;
    }
    // What cameras write into RTP-Info is wrong too often to insist on it.
    let play = PlayOptions::default()
        .initial_timestamp(InitialTimestampPolicy::Ignore)
        .initial_seq(InitialSequenceNumberPolicy::Ignore);
    let playing = step(camera, "PLAY", session.play(play)).await?;
    let demuxed = playing.demuxed();
    Ok((demuxed.map_err(|error| camera.of(&error))?, chosen))
}

async fn step<T>(
    camera: &Camera,
    what: &str,
    doing: impl Future<Output = Result<T, retina::Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(PATIENCE, doing).await {
        Ok(done) => done.map_err(|error| camera.of(&error)),
        Err(_) => {
            let seconds = PATIENCE.as_secs();
            Err(camera.failed(format!("no response to {what} within {seconds} s")))
        }
    }
}

/// The first video track and the first audio track that can be sent.
fn choose(session: &Session<Described>, carries: fn(Codec) -> bool) -> Vec<Chosen> {
    let (mut video, mut audio) = (None, None);
    for (stream, offered) in session.streams().iter().enumerate() {
        let name = offered.encoding_name();
        let codec = Codec::from_encoding_name(name).filter(|codec| {
            matches!(codec, Codec::H264 | Codec::H265 | Codec::Aac) && carries(*codec)
        });
        let track = codec.and_then(|codec| track_of(codec, offered));
        let place = match track.as_ref().map(Track::kind) {
            Some(Kind::Video) => &mut video,
            Some(_) => &mut audio,
            None => {
                tracing::warn!(
                    "leaving out the camera's {} track: {name} cannot be sent",
                    offered.media()
                );
                continue;
            }
        };
        if place.is_none() {
            *place = track.map(|track| Chosen {
                stream,
                track,
                clock: Clock::default(),
            });
        }
    }
    video.into_iter().chain(audio).collect()
}

/// Description of the track; `None` for AAC without its configuration.
fn track_of(codec: Codec, offered: &retina::client::Stream) -> Option<Track> {
    let parameters = offered.parameters();
    if codec != Codec::Aac {
        let size = match parameters {
            Some(ParametersRef::Video(video)) => video.pixel_dimensions(),
            _ => (0, 0),
        };
        let mut track = Track::new(codec);
        track.video = VideoParameters {
            width: size.0,
            height: size.1,
            ..VideoParameters::default()
        };
        return Some(track);
    }
    let Some(ParametersRef::Audio(audio)) = parameters else {
        return None;
    };
    let config: String = audio
        .extra_data()
        .iter()
        .map(|it| format!("{it:02x}"))
        .collect();
    let channels = offered.channels().map_or(1, NonZeroU16::get);
    let track = Track::audio(codec, u8::try_from(channels).unwrap_or(u8::MAX));
    let format = format!(
        "streamtype=5;profile-level-id=1;mode=AAC-hbr;sizelength=13;indexlength=3;\
         indexdeltalength=3;config={config}"
    );
    (!config.is_empty()).then(|| {
        track
            .with_clock_rate(audio.clock_rate())
            .with_format_parameters(format)
    })
}

/// Delivers units until the camera fails, or the session takes none any more.
async fn receive(
    mut session: Demuxed,
    mut chosen: Vec<Chosen>,
    context: &SourceContext,
    camera: &Camera,
) -> Result<(), Error> {
    loop {
        let item = match tokio::time::timeout(PATIENCE, session.next()).await {
            Ok(Some(item)) => item.map_err(|error| camera.of(&error))?,
            Ok(None) => return Err(camera.failed("the camera closed the connection".to_owned())),
            Err(_) => {
                let seconds = PATIENCE.as_secs();
                return Err(camera.failed(format!("no packet arrived for {seconds} s")));
            }
        };
        let (stream, elapsed, keyframe, data) = match item {
            CodecItem::VideoFrame(frame) => (
                frame.stream_id(),
                frame.timestamp().elapsed_secs(),
                frame.is_random_access_point(),
                Bytes::copy_from_slice(frame.data()),
            ),
            CodecItem::AudioFrame(frame) => (
                frame.stream_id(),
                frame.timestamp().elapsed_secs(),
                true,
                Bytes::copy_from_slice(frame.data()),
            ),
            _ => continue,
        };
        let Some(number) = chosen.iter().position(|it| it.stream == stream) else {
            continue;
        };
        let made = Instant::now();
        let unit = Unit {
            track: TrackIndex(number),
            time: chosen[number]
                .clock
                .place(context.timeline.place(made), elapsed),
            keyframe,
            data,
            made,
        };
        if context.control.is_stopped() || context.events.send(Event::Unit(unit)).await.is_err() {
            return Ok(());
        }
    }
}

/// Most characters of a camera's text in an error.
const REASON_CHARS_MAX: usize = 200;

impl Camera {
    fn failed(&self, why: String) -> Error {
        self.error(why, false)
    }

    fn refused(&self, why: String) -> Error {
        self.error(why, true)
    }

    fn error(&self, why: String, lasting: bool) -> Error {
        let url = self.url.to_string();
        Error::Camera { url, why, lasting }
    }

    /// Error for a failure of retina. After a refusal the camera is not called again, because
    /// cameras lock users out.
    fn of(&self, error: &retina::Error) -> Error {
        match error.status_code() {
            Some(401 | 403) => {
                let why = "the camera refuses access: check user and password in its URL";
                self.refused(why.to_owned())
            }
            Some(404) => {
                let why = "the camera has no stream of that name (404): check the URL's path";
                self.failed(why.to_owned())
            }
            _ => {
                // The first line says what happened; the others are details for a log.
                let text = error.to_string();
                let first = text.lines().next().unwrap_or_default();
                self.failed(first.chars().take(REASON_CHARS_MAX).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_track_begins_when_it_comes_and_keeps_its_own_time() {
        let at = |ms: i64| MediaTime::from_nanos(ms * 1_000_000);
        let mut clock = Clock::default();
        assert_eq!(clock.place(at(500), 0.0), at(500));
        assert_eq!(clock.place(at(700), 0.04), at(540), "late by the network");
        assert_eq!(clock.place(at(700), -1.0), at(500), "never before it began");
    }
}
