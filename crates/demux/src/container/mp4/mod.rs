//! MP4, QuickTime and their kin (ISO/IEC 14496-12), whole or in fragments.
//!
//! This project has its own parser for the reasons that hold for Matroska: an index needs
//! locations, errors name the byte, and lengths are checked against the file's own. The
//! description (`moov`, `moof`) is read into memory, which is bounded; the media stay in the
//! file.

mod boxes;
mod description;
mod entries;
mod fragments;
mod movie;
mod sample_form;
mod samples;
mod track;

pub use sample_form::SampleForm;

use crate::Data;
use crate::container::indexed_track::IndexedTrackBuilder;
use crate::container::{Container, InOnePiece, Primed};
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::window::Window;
use boxes::{Head, Kind};
use movie::Movie;

/// Longest description in bytes: that of a day of video and audio has 80 MB.
const DESCRIPTION_BYTES_MAX: u64 = 256 << 20;

/// Reads and indexes a file.
pub(crate) fn open(data: Box<dyn Data>, warnings: &mut Warnings) -> Result<Container, Fault> {
    let mut window = Window::new(data)?;
    let movie = read(&mut window, warnings)?;
    let Some(movie) = movie else {
        let reason = "it has no moov box: it is no MP4 file, or its recording was interrupted";
        let end = window.file_bytes();
        return Err(Fault::at(end, Reason::NothingToPlay(reason.to_owned())));
    };
    movie.warn(warnings);
    let mut primed = Vec::new();
    for state in movie.tracks {
        if let Some(indexed) = IndexedTrackBuilder::finish(state.builder, true, warnings) {
            // Audio before time zero of the edit list must not be played.
            let priming_ns = indexed.first_ns().min(0).saturating_neg();
            primed.push(Primed {
                indexed,
                priming_ns,
            });
        }
    }
    Container::new(Box::new(InOnePiece(window.into_data())), primed)
}

/// Reads the outermost boxes.
fn read(window: &mut Window, warnings: &mut Warnings) -> Result<Option<Movie>, Fault> {
    let mut movie: Option<Movie> = None;
    let mut at = 0;
    let limit = window.file_bytes();
    while at < limit {
        let bytes = window.peek(at, Head::BYTES_MAX)?;
        let cut = bytes.len() < Head::BYTES_MAX;
        let Some(head) = Head::parse(bytes, at, limit) else {
            if cut && movie.is_some() {
                warnings.add(Some(at), WarningReason::Truncated);
                break;
            }
            return Err(Fault::at(at, Reason::Damaged("no MP4 box begins here")));
        };
        let described = matches!(&head.kind, b"moov" | b"moof");
        if head.end > limit {
            if described && movie.is_none() {
                let reason = "the file ends inside the description of its tracks";
                return Err(Fault::at(at, Reason::Damaged(reason)));
            }
            warnings.add(Some(at), WarningReason::Truncated);
            break;
        }
        if described {
            let body = description(window, &head)?;
            match (head.kind, &mut movie) {
                (Kind::MOVIE, None) => {
                    movie = Some(Movie::read(&body, head.body, window, warnings)?);
                }
                (Kind::MOVIE, Some(_)) => {
                    let reason = WarningReason::OtherStream("a second description of its tracks");
                    warnings.add(Some(at), reason);
                }
                (_, Some(movie)) => movie.add_fragment(&body, &head, window, warnings)?,
                (_, None) => {
                    let reason = "a fragment comes before the description of the tracks";
                    return Err(Fault::at(at, Reason::Damaged(reason)));
                }
            }
        }
        at = head.end;
    }
    Ok(movie)
}

fn description(window: &mut Window, head: &Head) -> Result<Vec<u8>, Fault> {
    let length = head.end - head.body;
    if length > DESCRIPTION_BYTES_MAX {
        let (what, limit) = ("the description of the tracks", DESCRIPTION_BYTES_MAX);
        let fault = Fault::too_large(head.body, "an MP4 file", what, limit, "bytes");
        return Err(fault);
    }
    window.load(head.body, usize::try_from(length).unwrap_or(0))
}
