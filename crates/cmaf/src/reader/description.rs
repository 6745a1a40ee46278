//! The `moov` box of a header, back into tracks.

use bytes::Bytes;
use glassline_media::Kind;

use crate::boxes::{BoxView, Fields};
use crate::header::Header;
use crate::track::CmafTrack;

/// Most tracks of a header.
const TRACKS_MAX: usize = 64;

/// Parses the body of the `moov` box of a header of fragments; the error says what is wrong.
pub(super) fn header(movie: &[u8]) -> Result<Header, &'static str> {
    if BoxView::find(movie, b"mvex").is_none() {
        return Err("its header is not that of fragments");
    }
    let tracks = BoxView::all(movie).filter(|it| it.kind == *b"trak");
    let tracks: Vec<_> = tracks.take(TRACKS_MAX + 1).collect();
    if tracks.is_empty() || tracks.len() > TRACKS_MAX {
        return Err("its header has no track, or too many");
    }
    let tracks = (1..).zip(tracks).map(|(number, it)| track(number, it.body));
    let tracks: Option<Vec<_>> = tracks.collect();
    tracks
        .map(Header::new)
        .ok_or("the description of a track is cut off, or not as this program writes it")
}

fn track(number: u32, body: &[u8]) -> Option<CmafTrack> {
    let mut header = BoxView::find(body, b"tkhd")?.fields();
    let (version, _) = header.version()?;
    let _times = (header.wide(version)?, header.wide(version)?);
    if header.u32()? != number {
        return None;
    }
    let mut media = BoxView::at_path(body, &[b"mdia", b"mdhd"])?.fields();
    let (version, _) = media.version()?;
    let _times = (media.wide(version)?, media.wide(version)?);
    let timescale = media.u32().filter(|rate| *rate > 0)?;
    let handler = BoxView::at_path(body, &[b"mdia", b"hdlr"])?;
    let kind = match handler.body.get(8..12)? {
        b"vide" => Kind::Video,
        b"soun" => Kind::Audio,
        _ => return None,
    };
    let list = BoxView::at_path(body, &[b"mdia", b"minf", b"stbl", b"stsd"])?;
    let entry = BoxView::first(list.body.get(8..)?)?;
    let size = match kind {
        Kind::Video => {
            let mut fields = Fields(entry.body.get(24..)?);
            (fields.u16()?, fields.u16()?)
        }
        _ => (0, 0),
    };
    Some(CmafTrack {
        kind,
        timescale,
        size,
        entry: Bytes::copy_from_slice(entry.whole),
    })
}
