//! One stream as files, from the first request until nobody has asked for a while.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use glassline_config::Hls as Settings;
use glassline_hls::{AudioRendition, MultivariantPlaylist, RenditionReport, SegmentRate, Variant};
use glassline_hub::Stream;
use glassline_media::{Kind, Track, TrackIndex, TrackLayer};
use glassline_runtime::TaskWaker;
use tokio::sync::watch;

use super::aac;
use super::audience::Viewers;
use super::on_demand::{OnDemand, aac_layers, rungs};
use super::rendition::{Rendition, playlist_name};
use super::rendition_key::{RenditionKey, is_carried, layers_of};

/// A stream with its renditions, as requests see it.
#[derive(Debug)]
pub(super) struct Broadcast {
    pub(super) stream: Arc<Stream>,
    pub(super) settings: Settings,
    renditions: RwLock<Vec<Arc<Rendition>>>,
    pub(super) viewers: Mutex<Viewers>,
    begun: Instant,
    /// Number of the first segment of each rendition, once it is known.
    pub(super) first_segment: OnceLock<u64>,
    /// Milliseconds from the beginning to the latest request.
    used_ms: AtomicU64,
    /// Number of renditions and parts so far, for those who wait for the first.
    grown: watch::Sender<u64>,
    /// Woken when the task is to end.
    pub(super) stop: TaskWaker,
    pub(super) on_demand: OnDemand,
    /// Bytes of all files, as they were counted last.
    pub(super) bytes: AtomicU64,
}

impl Broadcast {
    pub(super) fn new(stream: Arc<Stream>, settings: Settings, now: Instant) -> Self {
        Self {
            stream,
            settings,
            renditions: RwLock::default(),
            viewers: Mutex::default(),
            begun: now,
            first_segment: OnceLock::new(),
            used_ms: AtomicU64::new(0),
            grown: watch::Sender::new(0),
            stop: TaskWaker::default(),
            on_demand: OnDemand::default(),
            bytes: AtomicU64::new(0),
        }
    }

    /// Notes a request.
    pub(super) fn note_use(&self, now: Instant) {
        let ms = now.saturating_duration_since(self.begun).as_millis();
        let ms = u64::try_from(ms).unwrap_or(u64::MAX);
        self.used_ms.fetch_max(ms, Ordering::Relaxed);
    }

    /// Returns the time since the latest request.
    pub(super) fn idle(&self, now: Instant) -> Duration {
        let used = Duration::from_millis(self.used_ms.load(Ordering::Relaxed));
        now.saturating_duration_since(self.begun)
            .saturating_sub(used)
    }

    /// Has the rendition called `name` made, if it is one that is made on demand.
    pub(super) fn want(&self, name: &str) {
        self.on_demand.offer(&self.stream.tracks());
        self.on_demand.note(name, Instant::now());
    }

    pub(super) fn add(&self, rendition: Arc<Rendition>) {
        let mut all = self
            .renditions
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        all.push(rendition);
        all.sort_by_key(|it| it.key);
    }

    /// Tells those who wait for the first parts that there are more.
    pub(super) fn grow(&self) {
        self.grown.send_modify(|number| *number += 1);
    }

    pub(super) fn renditions(&self) -> Vec<Arc<Rendition>> {
        let all = self
            .renditions
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        all.clone()
    }

    /// Returns the rendition with the playlist `name` without `.m3u8`.
    pub(super) fn rendition(&self, name: &str) -> Option<Arc<Rendition>> {
        let all = self
            .renditions
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|it| it.name == name).cloned()
    }

    /// Waits for a rendition of this name, for at most `patience`: it comes with its first keyframe. One that
    /// neither the source has nor anybody was offered is not waited for.
    pub(super) async fn awaited(&self, name: &str, patience: Duration) -> Option<Arc<Rendition>> {
        let mut grown = self.grown.subscribe();
        let is_settled = |_: &u64| self.rendition(name).is_some() || !self.may_come(name);
        let _ = tokio::time::timeout(patience, grown.wait_for(is_settled)).await;
        self.rendition(name)
    }

    /// Returns whether a rendition of this name may come. A source that is away may return with any.
    fn may_come(&self, name: &str) -> bool {
        let tracks = self.stream.tracks();
        let is_named = |layer: TrackLayer| RenditionKey::of(&tracks, layer).name() == name;
        self.stream.is_source_away()
            || tracks.is_empty()
            || self.on_demand.has(name)
            || layers_of(&tracks).into_iter().any(is_named)
    }

    /// Waits until each track that can be carried has a part: for video for at most `patience`, and for audio
    /// beside it no longer than [`AUDIO_PATIENCE`], since some cameras announce audio and send none. Returns
    /// the Multivariant Playlist of what is there by then, whose URIs begin with `folder` and end with
    /// `query`; `None` if nothing is.
    pub(super) async fn multivariant(
        &self,
        patience: Duration,
        folder: &str,
        query: &str,
    ) -> Option<String> {
        let mut grown = self.grown.subscribe();
        let is_video = |track: &Track| track.kind() == Kind::Video;
        let is_complete = || self.have_parts(|_| true);
        let leading = grown.wait_for(|_| self.have_parts(is_video) || is_complete());
        let _ = tokio::time::timeout(patience, leading).await;
        let others = grown.wait_for(|_| is_complete());
        let _ = tokio::time::timeout(AUDIO_PATIENCE.min(patience), others).await;
        let uri = |name: &str| format!("{folder}/{name}.m3u8{query}");
        let playlist = self.described(uri);
        let is_empty = playlist.video.is_empty() && playlist.audio.is_empty();
        (!is_empty).then(|| playlist.text())
    }

    /// Returns whether each track that can be carried has a part, of those that `counts` returns true for;
    /// false if there is no such track.
    fn have_parts(&self, counts: impl Fn(&Track) -> bool) -> bool {
        let (renditions, tracks) = (self.renditions(), self.stream.tracks());
        let has = |index: TrackIndex| {
            let mut of_track = renditions
                .iter()
                .filter(|it| it.key.track(&tracks) == Some(index));
            of_track.any(|it| it.rate().is_some())
        };
        let counted = TrackIndex::enumerate(&*tracks);
        let counted = counted.filter(|(_, it)| is_carried(it) && counts(it));
        let mut counted = counted.peekable();
        counted.peek().is_some() && counted.all(|(index, _)| has(index))
    }

    fn described(&self, uri: impl Fn(&str) -> String) -> MultivariantPlaylist {
        let mut playlist = MultivariantPlaylist::default();
        let renditions = self.renditions();
        let tracks = self.stream.tracks();
        self.on_demand.offer(&tracks);
        // Those of tracks that the present source does not have are nothing to begin with.
        let is_of_source = |it: &&Arc<Rendition>| it.key.is_in(&tracks);
        for rendition in renditions.iter().filter(is_of_source) {
            let Some(rate) = rendition.rate() else {
                continue;
            };
            let uri = uri(&rendition.name);
            match rendition.key.kind {
                Kind::Video => playlist.video.push(variant(rendition, uri, rate)),
                _ => playlist.audio.push(audio(rendition, uri, rate)),
            }
        }
        let is_there = |uri: &String, list: &[Variant]| list.iter().any(|it| it.uri == *uri);
        for rung in rungs(&tracks) {
            let uri = uri(&RenditionKey::of(&tracks, rung.layer).name());
            if !playlist.video.is_empty() && !is_there(&uri, &playlist.video) {
                let frame_rate = playlist.video.first().and_then(|it| it.frame_rate);
                playlist.video.push(rung.variant(uri, frame_rate));
            }
        }
        for name in self.made_on_demand() {
            playlist.audio.push(made_audio(uri(&name), name));
        }
        // Players begin with the first variant.
        let pixels = |it: &Variant| {
            it.size
                .map(|(width, height)| u64::from(width) * u64::from(height))
        };
        playlist
            .video
            .sort_by_key(|it| std::cmp::Reverse(pixels(it)));
        playlist
    }

    /// Returns the names of the audio in AAC that is made once somebody asks for it.
    fn made_on_demand(&self) -> Vec<String> {
        let tracks = self.stream.tracks();
        let layers = aac_layers(&tracks);
        layers
            .map(|it| RenditionKey::of(&tracks, it).name())
            .collect()
    }

    /// Returns the newest parts of all renditions but `own`. One that nobody has asked for yet begins with
    /// the part that its report names.
    pub(super) fn reports(&self, own: &Rendition) -> Vec<RenditionReport> {
        let renditions = self.renditions();
        let others = renditions.iter().filter(|it| it.name != own.name);
        let mut reports: Vec<_> = others.filter_map(|it| it.report()).collect();
        let Some(first) = self.first_segment.get() else {
            return reports;
        };
        for name in self.made_on_demand() {
            let uri = playlist_name(&name);
            if name != own.name && reports.iter().all(|it| it.uri != uri) {
                reports.push(RenditionReport {
                    uri,
                    segment: *first,
                    part: Some(0),
                });
            }
        }
        reports
    }

    pub(super) fn viewers(&self) -> MutexGuard<'_, Viewers> {
        self.viewers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers everybody who waits.
    pub(super) fn close(&self) {
        self.renditions().iter().for_each(|it| it.close());
        self.grow();
    }
}

/// Longest time for which the parts of audio are waited for, once those of video are there.
const AUDIO_PATIENCE: Duration = Duration::from_secs(1);

/// Returns audio in AAC as it will be, once somebody asks for it.
fn made_audio(uri: String, name: String) -> AudioRendition {
    AudioRendition {
        uri,
        group: name,
        name: "Audio".to_owned(),
        codec: aac::CODEC.to_owned(),
        rate: SegmentRate {
            // Headers of fragments, and frames that need more than the mean.
            peak: aac::BITRATE * 5 / 4,
            average: aac::BITRATE * 11 / 10,
        },
        channels: 1,
    }
}

fn variant(rendition: &Rendition, uri: String, rate: SegmentRate) -> Variant {
    let description = rendition.description();
    Variant {
        uri,
        codec: description.codec,
        rate,
        size: description
            .size
            .map(|(width, height)| (width.into(), height.into())),
        frame_rate: description.frame_rate,
    }
}

fn audio(rendition: &Rendition, uri: String, rate: SegmentRate) -> AudioRendition {
    let description = rendition.description();
    AudioRendition {
        uri,
        group: rendition.name.clone(),
        name: "Audio".to_owned(),
        codec: description.codec,
        rate,
        channels: description
            .channels
            .map_or(1, |it| u8::try_from(it).unwrap_or(1)),
    }
}
