//! The last hours of one stream as a playlist that goes on.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use glassline_hls::RecordedPlaylist;
use glassline_playback::{NoFootage, Playback, SegmentCutter, Subject};
use glassline_recording::TimeRange;
use tokio::sync::Mutex;

use super::{SEGMENT_MAX, SEGMENTS_MAX, multivariant, playlist_from, push, since_1970};

/// Time after which files are looked at again: fragments come once a second.
const FRESH: Duration = Duration::from_secs(1);

/// The segments of the last hours, with their numbers, since somebody asked for them.
#[derive(Debug, Default)]
pub(super) struct LastHours(Mutex<Option<State>>);

#[derive(Debug)]
struct State {
    cutter: SegmentCutter,
    /// Shared with the answers that are being sent.
    playlist: Arc<RecordedPlaylist>,
    looked: Instant,
}

/// A wish for the last hours of a stream.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) of: Subject,
    /// Duration of the playlist.
    pub(super) window: Duration,
    /// The present by both clocks.
    pub(super) now: Instant,
    pub(super) wall: SystemTime,
}

impl LastHours {
    /// Returns the Multivariant Playlist, whose Media Playlist is at `uri`.
    pub(super) async fn index(
        &self,
        playback: &Playback,
        order: Order,
        uri: String,
    ) -> Result<String, NoFootage> {
        let mut state = self.0.lock().await;
        let state = refreshed(&mut state, playback, order).await?;
        let content = state.cutter.content();
        let index = content.and_then(|it| multivariant(&state.playlist, it, uri));
        index.ok_or(NoFootage::Nothing)
    }

    /// Returns the Media Playlist.
    pub(super) async fn playlist(
        &self,
        playback: &Playback,
        order: Order,
    ) -> Result<Arc<RecordedPlaylist>, NoFootage> {
        let mut state = self.0.lock().await;
        let state = refreshed(&mut state, playback, order).await?;
        Ok(Arc::clone(&state.playlist))
    }
}

/// Looks for what has come, unless that was done just now. After an error, all is as before.
async fn refreshed<'a>(
    state: &'a mut Option<State>,
    playback: &Playback,
    order: Order,
) -> Result<&'a mut State, NoFootage> {
    let Order {
        of,
        window,
        now,
        wall,
    } = order;
    let is_fresh = |it: &State| now.saturating_duration_since(it.looked) < FRESH;
    if !state.as_ref().is_some_and(is_fresh) {
        let from = wall.checked_sub(window).unwrap_or(wall);
        // The clocks of cameras and of this machine may differ.
        let range = TimeRange {
            from,
            to: wall + window,
        };
        let cutter = state.as_ref().map(|it| it.cutter.clone());
        let cutter = cutter.unwrap_or_else(|| SegmentCutter::following(of, SEGMENT_MAX));
        let mut cut = playback.segments(cutter, range).await?;
        let mut playlist = state
            .take()
            .map_or_else(|| playlist_from(cut.new.first()).into(), |it| it.playlist);
        let changed = Arc::make_mut(&mut playlist);
        push(changed, &cut.new);
        changed.trim(since_1970(from.max(cut.oldest)), SEGMENTS_MAX);
        // From now on, somebody has read the Target Duration.
        cut.cutter.limit(playlist.longest());
        *state = Some(State {
            cutter: cut.cutter,
            playlist,
            looked: now,
        });
    }
    match state {
        Some(state) if !state.playlist.is_empty() => Ok(state),
        _ => Err(NoFootage::Nothing),
    }
}
