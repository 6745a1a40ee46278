//! One Media Playlist of a stream, with its files and those who wait for them.

use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use glassline_hls::{
    Answer, Directives, MediaPlaylist, NewPart, Numbers, RenditionReport, SegmentRate, Terms,
};
use tokio::sync::watch;

use super::files::{Files, Pieces};
use super::rendition_key::RenditionKey;

/// One encoding of one track as files.
#[derive(Debug)]
pub(super) struct Rendition {
    /// Name of the playlist and of the folder of its files.
    pub(super) name: String,
    pub(super) key: RenditionKey,
    state: Mutex<State>,
    /// The newest part, for the playlists of other renditions.
    report: Mutex<Option<RenditionReport>>,
    /// The requests that wait, which look after each change.
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct State {
    playlist: MediaPlaylist,
    files: Files,
    /// Number of changes so far.
    version: u64,
    /// Number of the next initialization.
    next_header: u64,
    description: Description,
    /// The text of the playlist and of its delta update, once somebody has asked.
    texts: [Option<Arc<PlaylistText>>; 2],
    /// Whether the server gives the stream up, without an end of the stream.
    is_closed: bool,
}

/// The attributes of a rendition in the Multivariant Playlist.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Description {
    pub(super) codec: String,
    pub(super) size: Option<(u16, u16)>,
    pub(super) channels: Option<u16>,
    pub(super) frame_rate: Option<f64>,
}

/// The text of a playlist, made once for everybody who asks before the next change.
#[derive(Debug)]
pub(super) struct PlaylistText {
    pub(super) plain: Bytes,
    gzip: OnceLock<Bytes>,
    pub(super) entity_tag: String,
}

/// The reason why a request is not answered with what it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoFile {
    /// The client asks for what no playlist announces.
    TooFarAhead,
    /// The awaited part did not come in three Target Durations.
    Late,
    /// The file is gone, or never was.
    Gone,
    /// The server gives the stream up.
    Closed,
}

/// A file of a rendition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileName {
    Header(u64),
    Part(u64),
    Segment(u64),
}

impl FileName {
    /// Reads `i7.mp4`, `p7.m4s` or `s7.m4s`.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let number = |text: &str| {
            let is_plain = text.bytes().all(|it| it.is_ascii_digit());
            text.parse().ok().filter(|_| is_plain)
        };
        if let Some(header) = name.strip_prefix('i') {
            return Some(Self::Header(number(header.strip_suffix(".mp4")?)?));
        }
        let (kind, rest) = name.split_at_checked(1)?;
        let number = number(rest.strip_suffix(".m4s")?)?;
        match kind {
            "p" => Some(Self::Part(number)),
            "s" => Some(Self::Segment(number)),
            _ => None,
        }
    }
}

impl PlaylistText {
    fn new(text: String, entity_tag: String) -> Self {
        Self {
            plain: text.into(),
            gzip: OnceLock::new(),
            entity_tag,
        }
    }

    /// Returns the text compressed (RFC 1952).
    pub(super) fn gzip(&self) -> Bytes {
        let compress = || {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            // Writing to memory cannot fail.
            let _ = encoder.write_all(&self.plain);
            encoder.finish().unwrap_or_default().into()
        };
        self.gzip.get_or_init(compress).clone()
    }
}

/// The beginning of a rendition.
#[derive(Debug)]
pub(super) struct NewRendition {
    pub(super) key: RenditionKey,
    pub(super) terms: Terms,
    pub(super) first: Numbers,
    pub(super) folder: Arc<str>,
    pub(super) header: Bytes,
    pub(super) description: Description,
}

impl Rendition {
    pub(super) fn new(new: NewRendition) -> Self {
        let mut files = Files::default();
        files.push_header(new.first.part, new.header);
        let map = map_name(new.first.part);
        let state = State {
            playlist: MediaPlaylist::new(new.terms, new.first, new.folder, map),
            files,
            version: 0,
            next_header: new.first.part + 1,
            description: new.description,
            texts: [None, None],
            is_closed: false,
        };
        Self {
            name: new.key.name(),
            key: new.key,
            state: Mutex::new(state),
            report: Mutex::new(None),
            changed: watch::Sender::new(()),
        }
    }

    /// Changes the playlist or the files.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let changed = change(&mut state);
        state.version += 1;
        state.texts = [None, None];
        let first = state.playlist.first_segment();
        state.files.trim(first);
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) =
            state.playlist.report(self.playlist_name());
        drop(state);
        self.changed.send_replace(());
        changed
    }

    /// Adds a part.
    pub(super) fn push(&self, part: NewPart, bytes: Bytes) {
        self.change(|state| {
            let pushed = state.playlist.push(part);
            state.files.push_part(pushed, bytes);
        });
    }

    /// Adds a segment without media.
    pub(super) fn push_gap(&self, duration: Duration, date: Duration) {
        self.change(|state| state.playlist.push_gap(duration, date));
    }

    /// Begins another sequence of timestamps.
    pub(super) fn discontinue(&self) {
        self.change(|state| state.playlist.discontinue());
    }

    /// Begins a segment with another initialization.
    pub(super) fn set_header(&self, header: Bytes, description: Description) {
        self.change(|state| {
            let number = state.next_header;
            state.next_header += 1;
            state.files.push_header(number, header);
            state.description = description;
            state.playlist.set_map(map_name(number));
        });
    }

    /// Puts files that are announced from now on below `folder`.
    pub(super) fn set_folder(&self, folder: Arc<str>) {
        self.lock().playlist.set_folder(folder);
    }

    /// Drops the oldest segment. Returns whether there was one that clients can do without.
    pub(super) fn shorten(&self) -> bool {
        self.change(|state| state.playlist.shorten())
    }

    /// Ends the playlist: the stream is over.
    pub(super) fn end(&self) {
        self.change(|state| state.playlist.end());
    }

    /// Answers everybody who waits: the server serves the stream no more.
    pub(super) fn close(&self) {
        self.change(|state| state.is_closed = true);
    }

    /// Returns whether the open segment ends before a keyframe; see
    /// [`MediaPlaylist::ends_at_keyframe`].
    pub(super) fn ends_at_keyframe(&self, pending: Duration, group: Duration) -> bool {
        self.lock().playlist.ends_at_keyframe(pending, group)
    }

    /// Returns whether the open segment has no room for a part of this duration.
    pub(super) fn is_full_for(&self, part: Duration) -> bool {
        self.lock().playlist.is_full_for(part)
    }

    pub(super) fn target(&self) -> Duration {
        self.lock().playlist.terms().target()
    }

    /// Returns the bytes of all files.
    pub(super) fn bytes(&self) -> usize {
        self.lock().files.bytes()
    }

    pub(super) fn description(&self) -> Description {
        self.lock().description.clone()
    }

    pub(super) fn rate(&self) -> Option<SegmentRate> {
        self.lock().playlist.rate()
    }

    pub(super) fn report(&self) -> Option<RenditionReport> {
        let report = self.report.lock();
        report.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the name of the playlist.
    pub(super) fn playlist_name(&self) -> String {
        playlist_name(&self.name)
    }

    /// Returns the playlist, once it has what `directives` ask for. The reports of the other playlists
    /// are taken with `reports`.
    pub(super) async fn playlist(
        &self,
        directives: &Directives,
        reports: impl Fn() -> Vec<RenditionReport>,
    ) -> Result<Arc<PlaylistText>, NoFile> {
        self.wait_for(|state| match state.playlist.answer(directives) {
            Answer::Wait => None,
            Answer::TooFarAhead => Some(Err(NoFile::TooFarAhead)),
            Answer::Now => Some(Ok(state.text(state.playlist.skips(directives), &reports))),
        })
        .await
    }

    /// Returns a file. The part that the playlist hints is waited for.
    pub(super) async fn file(&self, name: FileName) -> Result<Pieces, NoFile> {
        self.wait_for(|state| {
            let found = match name {
                FileName::Header(number) => state.files.header(number),
                FileName::Segment(number) => state.files.segment(number),
                FileName::Part(number) if number == state.playlist.next_part() => {
                    return match state.playlist.is_ended() {
                        true => Some(Err(NoFile::Gone)),
                        false => None,
                    };
                }
                FileName::Part(number) => state.files.part(number),
            };
            Some(found.ok_or(NoFile::Gone))
        })
        .await
    }

    /// Looks after each change, until there is a result. Nothing is waited for longer than three Target
    /// Durations (§6.2.5.2).
    async fn wait_for<T>(
        &self,
        look: impl Fn(&mut State) -> Option<Result<T, NoFile>>,
    ) -> Result<T, NoFile> {
        // Most files are there.
        if let Some(found) = self.look(&look) {
            return found;
        }
        let mut changed = self.changed.subscribe();
        let patience = self.target() * 3;
        let waiting = async {
            loop {
                changed.mark_unchanged();
                if let Some(found) = self.look(&look) {
                    return found;
                }
                if changed.changed().await.is_err() {
                    return Err(NoFile::Closed);
                }
            }
        };
        let waited = tokio::time::timeout(patience, waiting).await;
        waited.unwrap_or(Err(NoFile::Late))
    }

    fn look<T>(
        &self,
        look: impl Fn(&mut State) -> Option<Result<T, NoFile>>,
    ) -> Option<Result<T, NoFile>> {
        let mut state = self.lock();
        match look(&mut state) {
            None if state.is_closed => Some(Err(NoFile::Closed)),
            found => found,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change leaves the state whole, so a panic of one request concerns no other.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn text(
        &mut self,
        skip: bool,
        reports: &impl Fn() -> Vec<RenditionReport>,
    ) -> Arc<PlaylistText> {
        let place = &mut self.texts[usize::from(skip)];
        let text = place.get_or_insert_with(|| {
            let text = self.playlist.text(skip, &reports());
            let (next, version) = (self.playlist.next_part(), self.version);
            let kind = if skip { "delta" } else { "whole" };
            let entity_tag = format!("W/\"{next}-{version}-{kind}\"");
            Arc::new(PlaylistText::new(text, entity_tag))
        });
        Arc::clone(text)
    }
}

/// Returns the name of the playlist of the rendition called `name`.
pub(super) fn playlist_name(name: &str) -> String {
    format!("{name}.m3u8")
}

fn map_name(number: u64) -> Arc<str> {
    format!("i{number}.mp4").into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::mpsc::{self, TryRecvError};

    use futures_util::FutureExt as _;
    use glassline_media::{Codec, Track, TrackIndex};

    use super::*;

    fn rendition() -> Rendition {
        let tracks = [Track::new(Codec::Vp8)];
        Rendition::new(NewRendition {
            key: RenditionKey::of(&tracks, TrackIndex(0).into()),
            terms: Terms {
                target: 1,
                part_target: Duration::from_millis(200),
                part_hold_back: Duration::from_millis(600),
                window: Duration::ZERO,
                independent: false,
            },
            first: Numbers {
                segment: 1,
                part: 1,
                discontinuity: 0,
            },
            folder: Arc::from("files"),
            header: Bytes::new(),
            description: Description {
                codec: "vp8".to_owned(),
                size: None,
                channels: None,
                frame_rate: None,
            },
        })
    }

    #[test]
    fn playlists_that_are_read_beside_changes_have_another_tag_for_each_text() {
        let (rendition, asked) = (rendition(), Directives::default());
        let second = Duration::from_secs(1);
        let change = &|date| {
            let part = NewPart {
                duration: Duration::from_millis(200),
                bytes: 4,
                independent: true,
                begins_segment: true,
                date,
            };
            rendition.push(part, Bytes::from_static(b"part"));
            // The number of the next part stays.
            rendition.push_gap(second, date + second);
        };
        change(second);
        let (reading, read) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut date = second;
                while read.try_recv() != Err(TryRecvError::Disconnected) {
                    date += second * 2;
                    change(date);
                    // The lock goes to whoever takes it first.
                    std::thread::yield_now();
                }
            });
            let (_reading, mut texts) = (reading, HashMap::new());
            while texts.len() < 100 {
                let found = rendition.playlist(&asked, Vec::new).now_or_never();
                let found = found.expect("nothing to wait for").expect("a playlist");
                let text = texts.entry(found.entity_tag.clone());
                let text = text.or_insert_with(|| found.plain.clone());
                assert_eq!(*text, found.plain, "{}", found.entity_tag);
            }
        });
    }

    #[test]
    fn names_of_files_are_numbers_with_a_kind() {
        for (name, expected) in [
            ("i7.mp4", Some(FileName::Header(7))),
            ("p70.m4s", Some(FileName::Part(70))),
            ("s17960118990.m4s", Some(FileName::Segment(17_960_118_990))),
            ("s.m4s", None),
            ("s+1.m4s", None),
            ("i7.m4s", None),
            ("x7.m4s", None),
            ("ä.m4s", None),
            ("", None),
        ] {
            assert_eq!(FileName::parse(name), expected, "{name}");
        }
    }
}
