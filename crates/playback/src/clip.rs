//! Parts of the past as bodies: in fragments, or as one file with an index.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use glassline_cmaf::{CmafTrack, Header, SpanBuilder, SpanCut, SpanError};

use super::assembly::{Assembly, Piece};
use super::growing_files::FileOpener;
use super::missing::Missing;
use super::plan::{OpenedFile, Plan, Wanted};
use super::stretch::Stretch;
use super::{Listed, NoFootage, Playback, Subject};

/// A part of the past, ready to be read.
#[derive(Debug)]
pub struct Clip {
    /// The pieces that the body is made of.
    pub assembly: Assembly,
    /// Time of the first frame.
    pub from: SystemTime,
    /// End of the last frame.
    pub to: SystemTime,
    /// Media type with the codecs, as browsers ask for it.
    pub media_type: String,
    /// The servers of the cluster that may have more of the part.
    pub missing: Missing,
}

/// The form of a clip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClipForm {
    /// Fragments of one header. The clip ends where the parameters change.
    Fragments,
    /// One file with an index of all frames, in which every player seeks.
    Whole(SpanCut),
}

impl Playback {
    /// Returns what is wanted of a stream as a clip.
    ///
    /// # Errors
    /// Returns [`NoFootage`] if there is none.
    pub async fn clip(
        &self,
        of: Subject,
        wanted: Wanted,
        form: ClipForm,
    ) -> Result<Clip, NoFootage> {
        let Listed { items, missing } = self.stretches(&of, wanted.range()).await?;
        let opener = self.opener(&of);
        let threads = self.threads_of(&items);
        // The place goes with the work, which takes as much memory as the index that it makes.
        let index = match form {
            ClipForm::Fragments => None,
            ClipForm::Whole(_) => Some(threads.indexes.place().await),
        };
        let making = threads.reads.run(move || match form {
            ClipForm::Fragments => {
                let plan = Plan::of(&opener, &items, &wanted)?;
                Ok(Clip {
                    assembly: plan.assembly(),
                    from: plan.from,
                    to: plan.to,
                    media_type: media_type(&plan.header),
                    missing: Missing::default(),
                })
            }
            ClipForm::Whole(cut) => {
                let _index = index;
                whole(&opener, &items, &wanted, cut)
            }
        });
        let made = making.await.map_err(|_| NoFootage::Panicked)?;
        match made {
            Ok(clip) => Ok(Clip { missing, ..clip }),
            Err(error) => Err(NoFootage::without(error, &missing)),
        }
    }
}

/// Makes one file of the stretches.
fn whole(
    opener: &FileOpener,
    stretches: &[Stretch],
    wanted: &Wanted,
    cut: SpanCut,
) -> Result<Clip, NoFootage> {
    let stretches = match wanted.stops_at_gap {
        true => &stretches[..stretches.len().min(1)],
        false => stretches,
    };
    let since_1970 = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let range = since_1970(wanted.from)..since_1970(wanted.to);
    let mut builder = SpanBuilder::new(range, cut);
    let (mut footage, mut types) = (Vec::new(), None);
    let mut server = None;
    for placed in stretches.iter().flat_map(|it| &it.files) {
        let Some(opened) = OpenedFile::open(opener, placed)? else {
            continue;
        };
        match placed.server() == server {
            true => builder.add(&opened.file)?,
            false => builder.add_of_another(&opened.file)?,
        }
        server = placed.server();
        footage.push(opened.footage);
        types.get_or_insert_with(|| media_type(opened.file.header()));
    }
    let span = builder.finish()?;
    let mut assembly = Assembly::default();
    assembly.push(Piece::Bytes(span.head));
    for slice in span.slices {
        assembly.push(Piece::Slice {
            of: footage[slice.file].clone(),
            offset: slice.offset,
            bytes: slice.bytes,
        });
    }
    let gaps: Duration = span
        .gaps
        .iter()
        .map(|gap| gap.end.saturating_sub(gap.start))
        .sum();
    let from = UNIX_EPOCH + span.wall_clock;
    Ok(Clip {
        assembly,
        from,
        to: from + span.duration + gaps,
        media_type: types.unwrap_or_default(),
        missing: Missing::default(),
    })
}

/// Returns the media type of a header with its codecs.
fn media_type(header: &Header) -> String {
    let has_video = header
        .tracks()
        .iter()
        .any(|it: &CmafTrack| it.size().is_some());
    let kind = if has_video { "video" } else { "audio" };
    format!("{kind}/mp4; codecs=\"{}\"", header.codec_strings())
}

impl From<SpanError> for NoFootage {
    fn from(error: SpanError) -> Self {
        match error {
            SpanError::Empty { .. } => Self::Nothing,
            SpanError::TooLong { .. } => Self::TooLong(error.to_string()),
            other => Self::Unreadable(other.to_string()),
        }
    }
}
