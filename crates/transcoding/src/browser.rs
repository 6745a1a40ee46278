//! The tracks of a stream as browsers are offered them.

use std::fmt::Display;
use std::sync::Arc;

use glassline_hub::{KeyframeSize, Stream, TrackLayout, Transcode};
use glassline_media::{Codec, Kind, LayerIndex, PAYLOAD_BYTES_MAX, Track, TrackIndex, TrackLayer};
use glassline_transcode::{AudioSource, VideoSource};
use schemars::JsonSchema;
use serde::Serialize;

use super::hindrance::Hindrance;
use super::job::TranscodingCost;
use super::program;
use super::source::TranscodingSource;
use super::transcoders::{Transcoders, TranscodingLease, TranscodingRefusal};

/// The tracks of a stream as one browser can take them, index by index.
#[derive(Debug)]
pub struct BrowserTracks {
    /// Tracks in the order of the stream, with the codecs that the browser gets.
    pub tracks: Vec<Track>,
    /// Leases of what is transcoded in place of these tracks.
    pub substitutes: Substitutes,
    /// The video that the browser would get transcoded if it asked.
    pub on_request: Option<Hindered>,
}

/// The replacement of tracks that a viewer does not decode.
#[derive(Debug, Default)]
pub struct Substitutes {
    /// Leases of the tracks that are transcoded.
    pub leases: Vec<TranscodingLease>,
    /// Layers of the source in other codecs.
    pub layers: Vec<TrackLayer>,
}

/// Video that browsers cannot show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hindered {
    track: TrackIndex,
    /// Codec of the track as its source publishes it.
    pub codec: Codec,
    /// The reason why the browser cannot take the track.
    pub hindrance: Hindrance,
}

/// The wish of a viewer about video.
#[derive(Clone, Copy)]
pub struct VideoWish<'a> {
    /// Whether the viewer wants video at all.
    pub wants: bool,
    /// Whether the viewer asks for it to be transcoded.
    pub asks: bool,
    /// Returns whether the viewer decodes the codec of a track.
    pub decodes: &'a dyn Fn(&Track) -> bool,
}

/// How browsers receive a track, for the API and the pages.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct BrowserView {
    /// Codec in which browsers receive the track; null if they do not receive it.
    pub codec: Option<&'static str>,
    /// The reason why browsers do not receive the track, or what is missing of it, and what to do; null
    /// if nothing is.
    pub note: Option<String>,
    /// The reason why browsers do not show the video: `codec`, `b_frames` or `no_idr_frames`; null if
    /// nothing does.
    pub hindrance: Option<&'static str>,
    /// Whether `?transcode` makes browsers show the video.
    pub transcode: bool,
    /// The transcoding of the track while viewers need it; null without one.
    pub transcoding: Option<TranscodingCost>,
}

impl Transcoders {
    /// Returns `tracks` of `stream` as a browser can take them. Audio that browsers cannot play is
    /// transcoded if there is no other audio and a decoder for it. Video that this browser cannot show
    /// is transcoded if the viewer asks for it, or if that is configured.
    ///
    /// # Errors
    /// Returns why the video is not transcoded that is due, and what to do.
    pub fn for_browsers(
        self: &Arc<Self>,
        stream: &Arc<Stream>,
        layout: TrackLayout,
        tracks: &[Track],
        wish: VideoWish<'_>,
    ) -> Result<BrowserTracks, String> {
        let mut offered = BrowserTracks {
            tracks: tracks.to_vec(),
            substitutes: Substitutes::default(),
            on_request: None,
        };
        self.offer_audio(stream, layout, tracks, &mut offered);
        for (index, _) in TrackIndex::enumerate(tracks) {
            if let Some(note) = oversized_keyframe(stream, index) {
                tracing::warn!(stream = %stream.name(), "a browser may show nothing: {note}");
            }
        }
        let Some(hindered) = hindered(stream, tracks, wish) else {
            return Ok(offered);
        };
        let refused = |reason: &dyn Display| format!("{reason}; {}", hindered.hindrance.remedy());
        let (choice, track) = (self.choice(stream), hindered.track);
        let other = in_another_codec(&tracks[track], |it| (wish.decodes)(it));
        if let Some((layer, described)) = other.filter(|_| !wish.asks) {
            offered.tracks[track] = described.clone();
            offered.substitutes.layers.push(TrackLayer { track, layer });
            return Ok(offered);
        }
        let source = self.video_source(&tracks[track]);
        let is_of_use = |source: &VideoSource| (wish.decodes)(&source.transcoded());
        if source.as_ref().is_ok_and(|source| !is_of_use(source)) {
            return Ok(offered);
        }
        match (choice, wish.asks) {
            (Transcode::Always, _) | (Transcode::Auto, true) => {
                let source = source.map_err(|reason| refused(&reason))?;
                let source = TranscodingSource::Video(source, hindered.hindrance);
                let lease = self.lease(stream, layout, track, source);
                let leases = &mut offered.substitutes.leases;
                leases.push(lease.map_err(|reason| refused(&reason))?);
                offered.tracks[track] = source.transcoded();
            }
            (Transcode::Auto, false) => {
                let is_possible = source.is_ok() && self.transcodes_video();
                offered.on_request = is_possible.then_some(hindered);
            }
            (Transcode::Never, true) => return Err(refused(&TranscodingRefusal::Never)),
            (Transcode::Never, false) => {}
        }
        Ok(offered)
    }

    /// Has the audio transcoded that browsers cannot play.
    fn offer_audio(
        self: &Arc<Self>,
        stream: &Arc<Stream>,
        layout: TrackLayout,
        tracks: &[Track],
        offered: &mut BrowserTracks,
    ) {
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
                    offered.substitutes.leases.push(lease);
                }
                Err(reason) => {
                    tracing::warn!(stream = %stream.name(), "a browser gets no audio: {reason}");
                }
            }
        }
    }

    /// Returns who gets the video of `stream` transcoded.
    pub fn choice(&self, stream: &Stream) -> Transcode {
        let general = || self.video_rules().choice;
        stream.transcode().unwrap_or_else(general)
    }

    /// Returns the video of a track that can be transcoded.
    pub(super) fn video_source(&self, track: &Track) -> Result<VideoSource, String> {
        let source = VideoSource::of(track).map_err(|reason| reason.to_string())?;
        if source.needs_program() {
            program::find(&self.video_rules().ffmpeg).map_err(|missing| {
                format!("{} is decoded by FFmpeg, and {missing}", track.codec)
            })?;
        }
        Ok(source)
    }

    /// Returns how browsers receive each of `tracks`.
    pub fn browser_views(
        &self,
        stream: &Arc<Stream>,
        layout: TrackLayout,
        tracks: &[Track],
    ) -> Vec<BrowserView> {
        let needing: Vec<_> = needing(tracks).map(|(index, _)| index).collect();
        let views = TrackIndex::enumerate(tracks).map(|(index, track)| {
            let mut view = if track.kind() == Kind::Video
                && let Some(hindrance) = Hindrance::of(stream, index, track)
            {
                self.hindered_view(stream, layout, index, track, hindrance)
            } else if needing.contains(&index) {
                self.audio_view(stream, layout, index, track)
            } else {
                let mut view = view_of(track);
                view.note = view.note.or_else(|| oversized_keyframe(stream, index));
                view
            };
            view.transcoding = self.cost(stream, layout, index);
            view
        });
        views.collect()
    }

    fn audio_view(
        &self,
        stream: &Arc<Stream>,
        layout: TrackLayout,
        index: TrackIndex,
        track: &Track,
    ) -> BrowserView {
        match AudioSource::of(track) {
            Err(reason) => BrowserView::refused(reason.to_string()),
            Ok(source) => match self.refusal(stream, layout, index, Kind::Audio) {
                Some(reason) => BrowserView::refused(reason.to_string()),
                None => BrowserView {
                    note: self
                        .trouble(stream, layout, index)
                        .or_else(|| source.loss())
                        .or_else(|| source.mixdown()),
                    ..BrowserView::received(source.transcoded().codec)
                },
            },
        }
    }

    /// Returns how browsers receive video that they cannot show as it is.
    fn hindered_view(
        &self,
        stream: &Arc<Stream>,
        layout: TrackLayout,
        index: TrackIndex,
        track: &Track,
        hindrance: Hindrance,
    ) -> BrowserView {
        let choice = self.choice(stream);
        let never = || (choice == Transcode::Never).then(|| TranscodingRefusal::Never.to_string());
        let source = self.video_source(track);
        let full = || self.refusal(stream, layout, index, Kind::Video);
        let refusal = source
            .as_ref()
            .err()
            .cloned()
            .or_else(never)
            .or_else(|| full().map(|it| it.to_string()));
        let trouble = self.trouble(stream, layout, index);
        if let Some((_, other)) = in_another_codec(track, |_| true) {
            return BrowserView::received(other.codec);
        }
        if choice == Transcode::Always
            && refusal.is_none()
            && let Ok(source) = source
        {
            return BrowserView {
                note: trouble,
                ..BrowserView::received(source.transcoded().codec)
            };
        }
        let transcode = refusal.is_none();
        let remedy = match (refusal, trouble) {
            (None, Some(trouble)) => format!("with ?transcode: {trouble}"),
            (Some(refusal), _) if choice == Transcode::Always => refusal,
            (Some(refusal), _) => format!("?transcode does not help: {refusal}"),
            (None, None) => ENCODED_AGAIN.to_owned(),
        };
        let (codec, effect) = (track.codec, hindrance.effect());
        let note = format!("{codec} {effect}; {}; {remedy}", hindrance.remedy());
        BrowserView {
            hindrance: Some(hindrance.as_str()),
            transcode,
            ..BrowserView::refused(note)
        }
    }
}

impl BrowserView {
    const fn received(codec: Codec) -> Self {
        Self {
            codec: Some(codec.encoding_name()),
            note: None,
            hindrance: None,
            transcode: false,
            transcoding: None,
        }
    }

    const fn refused(note: String) -> Self {
        Self {
            codec: None,
            note: Some(note),
            hindrance: None,
            transcode: false,
            transcoding: None,
        }
    }
}

/// Returns the video that a viewer cannot show; `None` if the viewer wants none, or can show another
/// video of the stream.
fn hindered(stream: &Stream, tracks: &[Track], wish: VideoWish<'_>) -> Option<Hindered> {
    let videos = || TrackIndex::enumerate(tracks).filter(|(_, track)| track.kind() == Kind::Video);
    let hindrance = |index, track: &Track| {
        let foreign = || (!(wish.decodes)(track)).then_some(Hindrance::Viewer);
        Hindrance::of(stream, index, track).or_else(foreign)
    };
    if !wish.wants || videos().any(|(index, track)| hindrance(index, track).is_none()) {
        return None;
    }
    let (track, codec, hindrance) =
        videos().find_map(|(index, track)| Some((index, track.codec, hindrance(index, track)?)))?;
    Some(Hindered {
        track,
        codec,
        hindrance,
    })
}

/// Returns the best layer of a track, with its description, that has another codec, browsers can show and
/// the viewer `decodes`.
fn in_another_codec(
    track: &Track,
    decodes: impl Fn(&Track) -> bool,
) -> Option<(LayerIndex, &Track)> {
    let layers = track.layers.iter().enumerate();
    let mut others = layers.filter_map(|(place, layer)| {
        let described = layer.other_codec.as_deref()?;
        let is_shown = described.is_played_by_browsers() && !described.video.reordered;
        (layer.is_available() && is_shown && decodes(described))
            .then_some((LayerIndex::of_encoding(place), described))
    });
    others.next()
}

/// The advice to viewers about video that browsers cannot show.
pub const ENCODED_AGAIN: &str =
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
    match track.is_played_by_browsers() {
        true => BrowserView::received(codec),
        false => BrowserView::refused(format!("browsers do not play {codec}")),
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
