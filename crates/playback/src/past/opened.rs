//! One recorded file of the past that is played.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use glassline_cmaf::{FragmentEntry, FrameReader, ReadError};
use glassline_media::{Kind, MediaTime, Track, TrackIndex};

use super::super::NoFootage;
use super::super::assembly::OpenFootage;
use super::super::growing_files::FileOpener;
use super::super::holdings::PlacedFile;
use super::super::plan::{OpenedFile, time_of};

/// A recorded file with the frames that are read from it.
#[derive(Debug)]
pub(super) struct OpenedPast {
    pub(super) placed: PlacedFile,
    pub(super) reader: FrameReader<OpenFootage>,
    /// For each track of the file the index of the track that it continues; `None` for one that is not
    /// played.
    pub(super) indices: Vec<Option<TrackIndex>>,
}

impl OpenedPast {
    /// Opens a file to play `tracks` of it, or all that it has; `None` if the file was deleted, or has
    /// nothing yet.
    pub(super) fn open(
        opener: &FileOpener,
        placed: PlacedFile,
        tracks: &[Track],
    ) -> Result<Option<Self>, NoFootage> {
        let Some(opened) = OpenedFile::open(opener, &placed)? else {
            return Ok(None);
        };
        let reader = FrameReader::new(opened.file, &placed.file.path);
        let reader = reader.map_err(|error| unreadable(&placed, &error))?;
        let indices = reader.tracks().map(|track| {
            let mut wanted = TrackIndex::enumerate(tracks);
            let found = wanted.find(|(_, it)| it.has_form_of(track));
            found.map(|(index, _)| index)
        });
        Ok(Some(Self {
            indices: indices.collect(),
            reader,
            placed,
        }))
    }

    /// Returns whether this is the file at the place of `other`.
    pub(super) fn is(&self, other: &PlacedFile) -> bool {
        let placed = &self.placed;
        placed.file.path == other.file.path && placed.server() == other.server()
    }

    /// Looks for fragments that were written since the file was opened, of which the index says now what
    /// `known` has. Returns whether there are any. A failure shows when the frames are read.
    pub(super) fn refresh(&mut self, known: Option<&PlacedFile>) -> bool {
        if let Some(known) = known {
            let footage = self.reader.file().source().footage();
            footage.note_size(known.file.bytes);
            self.placed.file.is_closed = known.file.is_closed;
        }
        self.reader.refresh().is_ok_and(|new| new > 0)
    }

    /// Returns the tracks of the file as its first frames describe them.
    pub(super) fn described(&mut self) -> Result<Vec<Track>, NoFootage> {
        /// Frames among which the first of each track is looked for.
        const FRAMES_MAX: usize = 200;
        self.reader.seek(0);
        let mut unseen: Vec<bool> = self.reader.tracks().map(|_| true).collect();
        for _ in 0..FRAMES_MAX {
            let read = self.reader.next_frame();
            let Some(frame) = read.map_err(|error| unreadable(&self.placed, &error))? else {
                break;
            };
            unseen[frame.track.get()] = false;
            if !unseen.contains(&true) {
                break;
            }
        }
        Ok(self.reader.tracks().cloned().collect())
    }

    /// Returns the name of the codec of the file's video if that is none of the tracks that are played.
    pub(super) fn other_video(&self) -> Option<String> {
        let mut tracks = self.reader.tracks().zip(&self.indices);
        let other = tracks.find(|(track, index)| track.kind() == Kind::Video && index.is_none());
        other.map(|(track, _)| track.codec.to_string())
    }

    pub(super) fn fragments(&self) -> &[FragmentEntry] {
        self.reader.file().fragments()
    }

    /// Returns the time of the first frame of a fragment, since 1970.
    pub(super) fn position(&self, entry: &FragmentEntry) -> MediaTime {
        position(time_of(self.reader.file(), self.placed.file.start, entry))
    }

    /// Returns the place of the last fragment at or before `at` that a decoder can start with.
    pub(super) fn keyframe_at_or_before(&self, at: MediaTime) -> Option<usize> {
        let fits = |it: &FragmentEntry| it.starts_with_sync && self.position(it) <= at;
        self.fragments().iter().rposition(fits)
    }

    /// Returns the place of the first fragment after `at` that a decoder can start with.
    pub(super) fn keyframe_after(&self, at: MediaTime) -> Option<usize> {
        let fits = |it: &FragmentEntry| it.starts_with_sync && self.position(it) > at;
        self.fragments().iter().position(fits)
    }

    /// Returns the place of the fragment with which the file goes on where another recorder's ended, at `end`:
    /// a decoder can start with it, and of those that begin about then or later it is the one closest to the
    /// end.
    pub(super) fn takes_over_at(&self, end: MediaTime) -> Option<usize> {
        let since_1970 = end.saturating_since(MediaTime::ZERO);
        let time = |it: &FragmentEntry| self.position(it).saturating_since(MediaTime::ZERO);
        FragmentEntry::taking_over(self.fragments(), since_1970, time)
    }

    pub(super) fn position_at(&self, place: usize) -> Option<MediaTime> {
        self.fragments().get(place).map(|it| self.position(it))
    }

    /// Returns whether the file has what is between two positions.
    pub(super) fn has(&self, from: MediaTime, to: MediaTime) -> bool {
        let end = self
            .fragments()
            .last()
            .map(|it| self.position(it) + it.duration);
        position(self.placed.file.start) <= from && end.is_some_and(|end| to <= end)
    }
}

/// Returns the reason why a file gives no frames.
pub(super) fn unreadable(placed: &PlacedFile, error: &ReadError) -> NoFootage {
    match error {
        // The text names the server.
        ReadError::Io { error, .. } if placed.server.is_some() => {
            NoFootage::Away(error.to_string())
        }
        _ => NoFootage::Unreadable(format!("{}: {error}", placed.file.path.display())),
    }
}

/// Returns an instant as a position, which counts from 1970.
pub(super) fn position(at: SystemTime) -> MediaTime {
    MediaTime::ZERO + at.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns the instant of a position.
pub(super) fn instant(at: MediaTime) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(u64::try_from(at.nanos()).unwrap_or(0))
}
