//! The tracks of a stream as browsers are offered them.

use std::fmt::Display;
use std::sync::Arc;

use glassline_hub::{KeyframeSize, Stream, TrackLayout};
use glassline_media::{Kind, PAYLOAD_BYTES_MAX, Track, TrackIndex};
use glassline_transcode::{AudioSource, VideoSource};
use schemars::JsonSchema;
use serde::Serialize;

use super::hindrance::Hindrance;
use super::source::TranscodingSource;
use super::transcoders::{Transcoders, TranscodingLease};

/// The tracks of a stream as browsers can take them, index by index.
#[derive(Debug)]
pub(crate) struct BrowserTracks {
    pub(crate) tracks: Vec<Track>,
    /// Leases of the tracks that are transcoded.
    pub(crate) leases: Vec<TranscodingLease>,
}

/// How browsers receive a track, for the API and the pages.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct BrowserView {
    /// Codec in which browsers receive the track; null if they do not receive it.
    pub(crate) codec: Option<&'static str>,
    /// Why browsers do not receive the track, or what is missing of it, and what to do; null if
    /// nothing is.
    pub(crate) note: Option<String>,
}

impl Transcoders {
    /// Returns `tracks` of `stream` as browsers can take them. Audio that they cannot play is
    /// transcoded if there is no other audio and a decoder for it, and with `transcodes_video` video
    /// that browsers decode and cannot show.
    ///
    /// # Errors
    /// Returns why the video is not transcoded that was asked for, and what to do.
    pub(crate) fn for_browsers(
        self: &Arc<Self>,
        stream: &Arc<Stream>,
        layout: TrackLayout,
        tracks: &[Track],
        transcodes_video: bool,
    ) -> Result<BrowserTracks, String> {
        let mut offered = BrowserTracks {
            tracks: tracks.to_vec(),
            leases: Vec::new(),
        };
        for (index, track) in needing(tracks) {
            let source = match AudioSource::of(track) {
                Ok(source) => source,
                Err(reason) => {
                    tracing::info!(stream = %stream.name(), "a browser gets no audio: {reason}");
                    continue;
                }
            };
            let source = TranscodingSource::Audio(source);
            match self.lease(stream, layout, index, source) {
                Ok(lease) => {
                    offered.tracks[index] = source.transcoded();
                    offered.leases.push(lease);
                }
                Err(reason) => {
                    tracing::warn!(stream = %stream.name(), "a browser gets no audio: {reason}");
                }
            }
        }
        for (index, _) in TrackIndex::enumerate(tracks) {
            if let Some(note) = oversized_keyframe(stream, index) {
                tracing::warn!(stream = %stream.name(), "a browser may show nothing: {note}");
            }
        }
        if transcodes_video {
            let mut hindered = TrackIndex::enumerate(tracks).filter_map(|(index, track)| {
                Hindrance::of(stream, index, track).map(|hindrance| (index, track, hindrance))
            });
            if let Some((index, track, hindrance)) = hindered.next() {
                let refused = |reason: &dyn Display| format!("{reason}; {}", hindrance.remedy());
                let source = VideoSource::of(track).map_err(|reason| refused(&reason))?;
                let source = TranscodingSource::Video(source, hindrance);
                let lease = self.lease(stream, layout, index, source);
                offered
                    .leases
                    .push(lease.map_err(|reason| refused(&reason))?);
                offered.tracks[index] = source.transcoded();
            }
        }
        Ok(offered)
    }

    /// Returns how browsers receive each of `tracks`.
    pub(crate) fn browser_views(
        &self,
        stream: &Arc<Stream>,
        layout: TrackLayout,
        tracks: &[Track],
    ) -> Vec<BrowserView> {
        let needing: Vec<_> = needing(tracks).map(|(index, _)| index).collect();
        let views = TrackIndex::enumerate(tracks).map(|(index, track)| {
            if let Some(hindrance) = Hindrance::of(stream, index, track) {
                let refusal = match VideoSource::of(track) {
                    Ok(_) => self
                        .refusal(stream, layout, index, Kind::Video)
                        .map(|it| it.to_string()),
                    Err(reason) => Some(reason.to_string()),
                };
                return BrowserView::hindered(
                    track,
                    hindrance,
                    refusal,
                    self.trouble(stream, layout, index),
                );
            }
            if !needing.contains(&index) {
                let mut view = view_of(track);
                view.note = view.note.or_else(|| oversized_keyframe(stream, index));
                return view;
            }
            match AudioSource::of(track) {
                Err(reason) => BrowserView::refused(reason.to_string()),
                Ok(source) => match self.refusal(stream, layout, index, Kind::Audio) {
                    Some(reason) => BrowserView::refused(reason.to_string()),
                    None => BrowserView {
                        codec: Some(source.transcoded().codec.encoding_name()),
                        note: self
                            .trouble(stream, layout, index)
                            .or_else(|| source.loss())
                            .or_else(|| source.mixdown()),
                    },
                },
            }
        });
        views.collect()
    }
}

impl BrowserView {
    /// Returns how browsers receive video that they cannot show: not without `?transcode`, and with it
    /// unless there is a `refusal`.
    fn hindered(
        track: &Track,
        hindrance: Hindrance,
        refusal: Option<String>,
        trouble: Option<String>,
    ) -> Self {
        let (codec, effect) = (track.codec, hindrance.effect());
        let remedy = match (refusal, trouble) {
            (_, Some(trouble)) => format!("with ?transcode: {trouble}"),
            (Some(refusal), None) => format!("?transcode does not help: {refusal}"),
            (None, None) => ENCODED_AGAIN.to_owned(),
        };
        Self::refused(format!(
            "{codec} {effect}; {}; {remedy}",
            hindrance.remedy()
        ))
    }

    const fn refused(note: String) -> Self {
        Self {
            codec: None,
            note: Some(note),
        }
    }
}

/// What viewers can do about video that browsers cannot show.
pub(crate) const ENCODED_AGAIN: &str =
    "?transcode behind the URL of the page or of WHEP has the server encode H.264 again";

/// Most packets of a frame that libwebrtc joins: the size of its packet buffer, in Chromium, Safari and
/// Firefox alike.
const FRAME_PACKETS_MAX: usize = 2_048;

/// Returns why browsers show nothing of a track whose latest keyframe is too large for them.
fn oversized_keyframe(stream: &Stream, track: TrackIndex) -> Option<String> {
    if stream.tracks().get(track.get())?.kind() != Kind::Video {
        return None;
    }
    let KeyframeSize { packets, bytes } = stream.keyframe_size(track)?;
    let mb = |bytes: usize| bytes as f64 / 1e6;
    (packets > FRAME_PACKETS_MAX).then(|| {
        format!(
            "the latest keyframe has {:.1} MB in {packets} packets, and browsers join at most \
             {FRAME_PACKETS_MAX} packets, {:.1} MB: lower resolution or quality at the source \
             (ffmpeg: -crf, -maxrate with -bufsize; cameras: maximum bitrate)",
            mb(bytes),
            mb(FRAME_PACKETS_MAX * PAYLOAD_BYTES_MAX),
        )
    })
}

/// Returns how browsers receive a track that is not transcoded.
fn view_of(track: &Track) -> BrowserView {
    let codec = track.codec;
    let plays = track.is_played_by_browsers();
    BrowserView {
        codec: plays.then(|| codec.encoding_name()),
        note: (!plays).then(|| format!("browsers do not play {codec}")),
    }
}

/// Returns the audio tracks that browsers cannot play, unless there is audio that they can.
fn needing(tracks: &[Track]) -> impl Iterator<Item = (TrackIndex, &Track)> {
    let audio = |track: &&Track| track.kind() == Kind::Audio;
    let has_playable = tracks
        .iter()
        .filter(audio)
        .any(Track::is_played_by_browsers);
    TrackIndex::enumerate(tracks)
        .filter(move |(_, track)| !has_playable && track.kind() == Kind::Audio)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use glassline_hub::{Limits, StreamName};
    use glassline_media::{Codec, MediaTime, Stamps, UnitBuilder};

    use super::*;

    fn note_of(packets: usize, keyframe: bool) -> Option<String> {
        let name = StreamName::parse("cam").expect("good");
        let stream = Stream::unlisted(name, Limits::default());
        let now = Instant::now();
        let mut publisher = stream
            .publish(vec![Track::new(Codec::Vp8)], now)
            .expect("nobody else publishes");
        let mut builder = UnitBuilder::default();
        for _ in 0..packets {
            builder.push(&[7; PAYLOAD_BYTES_MAX]);
        }
        let stamps = Stamps::arrived(now);
        let unit = builder.build(TrackIndex(0), MediaTime::ZERO, keyframe, stamps);
        let pushed = publisher.push(unit.expect("packets"), now);
        pushed.expect("a track of the stream");
        oversized_keyframe(&stream, TrackIndex(0))
    }

    /// Chromium showed nothing of keyframes of 3.2 MB, and nothing said why.
    #[test]
    fn a_keyframe_of_more_packets_than_browsers_join_is_named() {
        assert_eq!(note_of(2_048, true), None);
        assert_eq!(note_of(2_049, false), None, "another frame");
        let note = note_of(2_809, true).expect("too large");
        assert!(note.contains("3.2 MB in 2809 packets"), "{note}");
        assert!(note.contains("2048 packets, 2.4 MB"), "{note}");
    }
}
