//! Thumbnails of recorded times: the keyframe before, as a JPEG image.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use glassline_cmaf::{RecordedFile, RecordedFragment};
use glassline_media::Kind;
use glassline_runtime::BlockingPool;
use glassline_transcode::{DecodedKeyframe, NoStill, SizeLimit};
use glassline_transcoding::snapshots::size_within;

use super::growing_files::FileOpener;
use super::plan::{OpenedFile, Wanted};
use super::stretch::Stretch;
use super::{NoFootage, Playback, Subject};

/// Thumbnails that are made at a time.
const DECODERS: usize = 1;

/// Most bytes of the thumbnails that are kept.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// Largest keyframe that becomes a thumbnail, in bytes.
const KEYFRAME_BYTES_MAX: u32 = 8 << 20;

/// The thumbnails that were made last, and the threads that make them.
#[derive(Debug)]
pub(super) struct Thumbnails {
    decoders: BlockingPool,
    kept: Mutex<Kept>,
}

/// Thumbnails by their keyframes, the oldest first.
#[derive(Debug, Default)]
struct Kept {
    thumbnails: VecDeque<(ThumbnailKey, Bytes)>,
    bytes: usize,
}

/// A keyframe, and the size of its thumbnail.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ThumbnailKey {
    file: std::path::PathBuf,
    offset: u64,
    limit: SizeLimit,
}

/// A thumbnail that is wanted.
#[derive(Clone, Debug)]
pub struct ThumbnailOrder {
    /// The recorded stream that is shown.
    pub of: Subject,
    /// Time that the thumbnail is to show.
    pub at: SystemTime,
    /// Largest size of the image in pixels.
    pub limit: SizeLimit,
}

/// A keyframe in H.264.
struct Keyframe {
    key: ThumbnailKey,
    annex_b: Vec<u8>,
}

impl Default for Thumbnails {
    fn default() -> Self {
        Self {
            decoders: BlockingPool::new(DECODERS),
            kept: Mutex::default(),
        }
    }
}

impl Playback {
    /// Returns the thumbnail of a time as JPEG.
    ///
    /// # Errors
    /// Returns [`NoFootage`] if nothing was recorded then, or has no thumbnail.
    pub async fn thumbnail(&self, order: ThumbnailOrder) -> Result<Bytes, NoFootage> {
        let ThumbnailOrder { of, at, limit } = order;
        let wanted = Wanted {
            from: at,
            to: at + Duration::from_millis(1),
            stops_at_gap: true,
        };
        let found = self.stretches(&of, wanted.range()).await?;
        let (opener, stretches) = (self.opener(&of), found.items);
        let threads = self.threads_of(&stretches);
        let finding = threads
            .reads
            .run(move || Keyframe::find(&opener, &stretches, &wanted, limit));
        let keyframe = finding.await.map_err(|_| NoFootage::Panicked)?;
        let keyframe = keyframe.map_err(|error| error.without(&found.missing))?;
        if let Some(kept) = self.thumbnails.kept(&keyframe.key) {
            return Ok(kept);
        }
        let key = keyframe.key.clone();
        let decoding = self.thumbnails.decoders.run(move || {
            let decoded = DecodedKeyframe::of_h264(&keyframe.annex_b)?;
            let size = size_within(decoded.size(), limit);
            Ok::<_, NoStill>(Bytes::from(decoded.still(size)?.jpeg))
        });
        let thumbnail = decoding.await.map_err(|_| NoFootage::Panicked)??;
        self.thumbnails.keep(key, thumbnail.clone());
        Ok(thumbnail)
    }
}

impl Keyframe {
    /// Reads the keyframe before the time of a thumbnail. Blocks.
    fn find(
        opener: &FileOpener,
        stretches: &[Stretch],
        wanted: &Wanted,
        limit: SizeLimit,
    ) -> Result<Self, NoFootage> {
        for placed in stretches.iter().flat_map(|it| &it.files) {
            let Some(opened) = OpenedFile::open(opener, placed)? else {
                continue;
            };
            let file = &placed.file;
            let Some(entry) = opened.fragments(wanted).first() else {
                continue;
            };
            let unreadable = |error: glassline_cmaf::ReadError| {
                NoFootage::Unreadable(format!("{}: {error}", file.path.display()))
            };
            let fragment = opened.file.fragment(entry).map_err(unreadable)?;
            let annex_b = annex_b(&opened.file, &fragment).map_err(unreadable)?;
            let key = ThumbnailKey {
                file: file.path.clone(),
                offset: entry.offset,
                limit,
            };
            return Ok(Self {
                key,
                annex_b: annex_b.ok_or_else(|| NoStill::Decoder {
                    reason: "the recording has no video in H.264".to_owned(),
                })?,
            });
        }
        Err(NoFootage::Nothing)
    }
}

/// Returns the first frame of video in a fragment with its parameter sets, each behind a start code; `None`
/// if it is not in H.264.
fn annex_b(
    file: &RecordedFile<impl glassline_cmaf::ReadAt>,
    fragment: &RecordedFragment,
) -> Result<Option<Vec<u8>>, glassline_cmaf::ReadError> {
    let tracks = file.header().tracks();
    let is_video = |it: &&glassline_cmaf::RecordedTrack| {
        let track = tracks.get(it.track.position);
        track.is_some_and(|it| it.kind() == Kind::Video)
    };
    let Some(track) = fragment.tracks.iter().find(is_video) else {
        return Ok(None);
    };
    let sets = parameter_sets(&file.header().segment());
    let sample = track.samples().next();
    let sample = sample.filter(|it| it.sample.size <= KEYFRAME_BYTES_MAX);
    let (Some(mut out), Some(sample)) = (sets, sample) else {
        return Ok(None);
    };
    let bytes = file.read(sample.offset, sample.sample.size as usize)?;
    let mut rest = &bytes[..];
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let Some((unit, behind)) = behind.split_at_checked(length) else {
            break;
        };
        put_unit(&mut out, unit);
        rest = behind;
    }
    Ok(Some(out))
}

/// Returns the parameter sets of the first H.264 configuration of a header (ISO/IEC 14496-15 §5.3.3.1).
fn parameter_sets(header: &[u8]) -> Option<Vec<u8>> {
    let at = header.windows(4).position(|it| it == b"avcC")? + 4;
    let record = header.get(at..)?;
    let mut out = Vec::new();
    let mut rest = record.get(5..)?;
    for mask in [0x1f, 0xff] {
        let (count, behind) = rest.split_first()?;
        rest = behind;
        for _ in 0..count & mask {
            let (length, behind) = rest.split_first_chunk::<2>()?;
            let (set, behind) = behind.split_at_checked(u16::from_be_bytes(*length).into())?;
            put_unit(&mut out, set);
            rest = behind;
        }
    }
    Some(out)
}

fn put_unit(out: &mut Vec<u8>, unit: &[u8]) {
    out.extend_from_slice(&[0, 0, 0, 1]);
    out.extend_from_slice(unit);
}

impl Thumbnails {
    fn kept(&self, key: &ThumbnailKey) -> Option<Bytes> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.thumbnails.iter().find(|(it, _)| it == key);
        found.map(|(_, thumbnail)| thumbnail.clone())
    }

    fn keep(&self, key: ThumbnailKey, thumbnail: Bytes) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += thumbnail.len();
        kept.thumbnails.push_back((key, thumbnail));
        while kept.bytes > KEPT_BYTES_MAX {
            let Some((_, oldest)) = kept.thumbnails.pop_front() else {
                break;
            };
            kept.bytes -= oldest.len();
        }
    }
}
