//! Recordings by HLS: the last hours of a stream up to now, and spans that are over.
//!
//! ```text
//!  GET dvr.m3u8 ────────────────► right to playback ─► pass for the past
//!  GET vod.m3u8?start=&duration= ─┘                       │
//!  GET PASS/dvr.m3u8 ─────────────► LastHours ◄─ SegmentCutter ◄─ files of the catalogue, as they grow
//!  GET PASS/past/s1796…-952-81734.m4s ─► those bytes of the file
//! ```
//!
//! Segments stand in files as they are sent, and their names say where. So a server keeps nothing but the
//! numbers of the last hours, for all viewers of a stream. The live playlists have a right of their own:
//! whoever may watch live gets nothing of the past by it.

mod last_hours;
mod names;
mod playlist_body;
pub(super) mod requests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use glassline_hls::{MultivariantPlaylist, Numbers, RecordedPlaylist, RecordedSegment, Variant};
use glassline_hub::StreamName;
use glassline_playback::{Segment, SegmentContent};

use last_hours::LastHours;
pub(super) use playlist_body::PlaylistBody;

/// Streams whose last hours are listed at a time. Beyond, the one that was asked for least lately begins
/// anew.
const LISTS_MAX: usize = 256;

/// Longest segment of a playlist that nobody has read: players take ten seconds well.
const SEGMENT_MAX: Duration = Duration::from_millis(10_450);

/// Least Target Duration in seconds: that of segments that end at keyframes.
const TARGET_MIN: u32 = 4;

/// Most segments of a playlist: a day of such.
const SEGMENTS_MAX: usize = 24 * 3600 / 4;

/// The last hours of all streams that somebody asked for.
#[derive(Debug, Default)]
pub(super) struct Past(Mutex<HashMap<StreamName, Listed>>);

#[derive(Debug)]
struct Listed {
    hours: Arc<LastHours>,
    used: Instant,
}

impl Past {
    /// Returns the last hours of a stream.
    fn of(&self, stream: &StreamName, now: Instant) -> Arc<LastHours> {
        // Each change leaves the table whole.
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = lists.get_mut(stream) {
            found.used = now;
            return Arc::clone(&found.hours);
        }
        if lists.len() >= LISTS_MAX
            && let Some((oldest, _)) = lists.iter().min_by_key(|(_, it)| it.used)
        {
            let oldest = oldest.clone();
            lists.remove(&oldest);
        }
        let hours = Arc::<LastHours>::default();
        let listed = Listed {
            hours: Arc::clone(&hours),
            used: now,
        };
        lists.insert(stream.clone(), listed);
        hours
    }
}

/// Adds segments to a playlist.
fn push(playlist: &mut RecordedPlaylist, segments: &[Segment]) {
    for segment in segments {
        let place = &segment.place;
        playlist.push(RecordedSegment {
            uri: names::segment(place),
            map: names::initialization(place.file).into(),
            date: since_1970(segment.at),
            duration: segment.duration,
            bytes: place.bytes,
            goes_on: segment.goes_on,
        });
    }
}

/// Returns an empty playlist of segments that begin with `first`, with numbers that are greater than those
/// of a playlist that began earlier.
fn playlist_from(first: Option<&Segment>) -> RecordedPlaylist {
    let at = first.map_or(Duration::ZERO, |it| since_1970(it.at));
    RecordedPlaylist::new(TARGET_MIN, Numbers::at(at))
}

/// Returns the Multivariant Playlist of a Media Playlist at `uri`.
fn multivariant(
    playlist: &RecordedPlaylist,
    content: SegmentContent,
    uri: String,
) -> Option<String> {
    let variant = Variant {
        uri,
        codec: content.codecs,
        rate: playlist.rate()?,
        size: content
            .size
            .map(|(width, height)| (width.into(), height.into())),
        frame_rate: None,
    };
    let multivariant = MultivariantPlaylist {
        video: vec![variant],
        audio: Vec::new(),
    };
    Some(multivariant.text())
}

fn since_1970(at: SystemTime) -> Duration {
    at.duration_since(UNIX_EPOCH).unwrap_or_default()
}
