//! Selection of the `m=` lines of an offer that are accepted, and their use.

use glassline_media::{Kind, Track, TrackIndex};

use super::error::{NegotiationError, list};
use super::options::AnswerOptions;
use crate::sdp::description::SessionDescription;
use crate::sdp::format::{self, Format};

/// Returns the lines of video and audio that are accepted; none if the offer has only data and
/// data is wanted.
pub(super) fn accepted_lines(
    offer: &SessionDescription,
    options: &AnswerOptions<'_>,
    has_data: bool,
) -> Result<Vec<AcceptedLine>, NegotiationError> {
    let tracks = options.tracks;
    let nothing = tracks.is_empty() && options.receive.is_empty();
    if has_data && (nothing || !has_media(offer, options)) {
        return Ok(Vec::new());
    }
    if options.data && nothing {
        return Err(NegotiationError::NoData {
            offered: offered_lines(offer),
        });
    }
    let mut accepted = choose(offer, tracks);
    let received = assign_receiving(offer, options.receive, &mut accepted);
    // A peer that only sends may have no use for our tracks.
    if received == 0 && tracks.is_empty() {
        let kinds: Vec<&str> = options.receive.iter().map(|kind| kind.as_str()).collect();
        return Err(NegotiationError::NothingSent {
            wanted: kinds.join(" or "),
            offered: offered_lines(offer),
        });
    }
    if received == 0 {
        check_playable(offer, tracks)?;
        check_accepted(offer, tracks, &accepted)?;
    }
    Ok(accepted)
}

/// Returns whether an `m=` line wants to receive video or audio, or sends what is received.
fn has_media(offer: &SessionDescription, options: &AnswerOptions<'_>) -> bool {
    let kinds = [Kind::Video, Kind::Audio];
    let mut received = options.receive.iter();
    (0..offer.media.len()).any(|line| kinds.iter().any(|&kind| wants(offer, line, kind)))
        || received.any(|&kind| (0..offer.media.len()).any(|line| sends(offer, line, kind)))
}

pub(super) fn offered_lines(offer: &SessionDescription) -> Vec<String> {
    (0..offer.media.len())
        .map(|line| format!("{}: {}", offer.media_name(line), state(offer, line)))
        .collect()
}

fn is_playable(track: &Track) -> bool {
    track.is_played_by_browsers() && !track.video.reordered
}

/// Returns whether an `m=` line of `offer` wants to receive media of this kind.
pub fn receives_kind(offer: &SessionDescription, kind: Kind) -> bool {
    (0..offer.media.len()).any(|line| wants(offer, line, kind))
}

/// Returns whether an `m=` line of `offer` can receive the codec of `track`, whatever the order of its
/// frames.
pub fn receives_codec(offer: &SessionDescription, track: &Track) -> bool {
    let mut lines = offer.media.iter().enumerate();
    lines.any(|(line, media)| {
        wants(offer, line, track.kind()) && format::choose(media, track).is_some()
    })
}

fn check_playable(offer: &SessionDescription, tracks: &[Track]) -> Result<(), NegotiationError> {
    let mut video = tracks.iter().filter(|track| track.kind() == Kind::Video);
    let wanted = receives_kind(offer, Kind::Video);
    let shown = video.clone().any(is_playable);
    let reordered = video.find(|it| it.video.reordered && it.codec.is_played_by_browsers());
    let audio = tracks.iter().any(is_playable);
    match reordered.filter(|_| !shown && (wanted || !audio)) {
        Some(track) => Err(NegotiationError::Reordered { codec: track.codec }),
        None if !audio && !shown => {
            let codecs: Vec<String> = tracks.iter().map(|it| it.codec.to_string()).collect();
            Err(NegotiationError::NothingPlayable { has: list(&codecs) })
        }
        None => Ok(()),
    }
}

/// An accepted `m=` line of video or audio.
pub(super) struct AcceptedLine {
    pub(super) line: usize,
    /// Index of our track that is sent on the line.
    pub(super) track: Option<TrackIndex>,
    /// Whether media of the peer is received on the line.
    pub(super) receives: bool,
    pub(super) format: Format,
    /// Further formats in which the peer may send.
    pub(super) more: Vec<Format>,
}

/// Returns the first line of the bundle that the `accepted` lines belong to, if that line is free to be
/// accepted without media in either direction.
///
/// The offer's transport belongs to that line (RFC 9143 §7.2.1). Chromium with `max-bundle`, and
/// aiortc, fail if the line is rejected, although RFC 9143 §7.3.3 lets another one take its place.
pub(super) fn transport_line(
    offer: &SessionDescription,
    accepted: &[usize],
) -> Option<AcceptedLine> {
    let mid = offer.media[*accepted.first()?].attributes.mid()?;
    let tag = offer.bundle_of(mid)?.first()?;
    let line = offer
        .media
        .iter()
        .position(|media| media.attributes.mid() == Some(tag))?;
    let media = &offer.media[line];
    let is_free = !accepted.contains(&line) && !media.is_rejected() && media.is_secure_rtp();
    Some(AcceptedLine {
        line,
        track: None,
        receives: false,
        format: is_free.then(|| format::receivable(media))??,
        more: Vec::new(),
    })
}

fn choose(offer: &SessionDescription, tracks: &[Track]) -> Vec<AcceptedLine> {
    let mut accepted: Vec<AcceptedLine> = Vec::new();
    let playable = TrackIndex::enumerate(tracks).filter(|(_, it)| is_playable(it));
    for (index, track) in playable {
        let found = offer.media.iter().enumerate().find_map(|(line, media)| {
            let free = accepted.iter().all(|it| it.line != line);
            let format = (free && wants(offer, line, track.kind()) && media.is_secure_rtp())
                .then(|| format::choose(media, track))??;
            Some(AcceptedLine {
                track: Some(index),
                line,
                receives: false,
                format,
                more: Vec::new(),
            })
        });
        accepted.extend(found);
    }
    accepted
}

/// Finds a line for each kind that is received, among `accepted` or another one. Returns how many
/// were found.
fn assign_receiving(
    offer: &SessionDescription,
    kinds: &[Kind],
    accepted: &mut Vec<AcceptedLine>,
) -> usize {
    let mut count = 0;
    for &kind in kinds {
        let found = (0..offer.media.len()).find_map(|line| {
            if !sends(offer, line, kind) || !offer.media[line].is_secure_rtp() {
                return None;
            }
            match accepted.iter().position(|it| it.line == line) {
                Some(index) => Some((index, None)),
                None => {
                    let format = format::receivable(&offer.media[line])?;
                    Some((accepted.len(), Some((line, format))))
                }
            }
        });
        let Some((index, new)) = found else { continue };
        count += 1;
        match new {
            None => accepted[index].receives = true,
            Some((line, format)) => accepted.push(AcceptedLine {
                line,
                track: None,
                receives: true,
                format,
                more: Vec::new(),
            }),
        }
    }
    count
}

/// Returns whether the `m=` line wants to receive this kind of media.
fn wants(offer: &SessionDescription, line: usize, kind: Kind) -> bool {
    offer.media.get(line).is_some_and(|media| {
        media.media_kind() == Some(kind) && !media.is_rejected() && offer.direction(line).receives()
    })
}

/// Returns whether the peer sends this kind of media on the `m=` line.
fn sends(offer: &SessionDescription, line: usize, kind: Kind) -> bool {
    offer.media.get(line).is_some_and(|media| {
        media.media_kind() == Some(kind) && !media.is_rejected() && offer.direction(line).sends()
    })
}

fn check_accepted(
    offer: &SessionDescription,
    tracks: &[Track],
    accepted: &[AcceptedLine],
) -> Result<(), NegotiationError> {
    let sent = |kind| {
        let mut chosen = accepted.iter().filter_map(|it| tracks.get(it.track?.get()));
        chosen.any(|track| track.kind() == kind)
    };
    for kind in [Kind::Video, Kind::Audio] {
        let mut ours = tracks.iter().filter(|track| is_playable(track));
        let Some(track) = ours.find(|track| track.kind() == kind) else {
            continue;
        };
        let mut wanting = (0..offer.media.len()).filter(|&line| wants(offer, line, kind));
        let needed = kind == Kind::Video || accepted.is_empty();
        let Some(line) = wanting.next().filter(|_| needed && !sent(kind)) else {
            continue;
        };
        return Err(match offer.media.get(line) {
            Some(media) if !media.is_secure_rtp() => NegotiationError::NoSecureTransport {
                media: offer.media_name(line),
                protocol: media.protocol.clone(),
            },
            _ => NegotiationError::NoCodec {
                kind,
                wanted: format::wanted(track),
                offered: format::offered(offer.media.iter(), kind),
            },
        });
    }
    if accepted.is_empty() {
        let playable = tracks.iter().filter(|track| is_playable(track));
        let mut kinds: Vec<&str> = playable.map(|track| track.kind().as_str()).collect();
        kinds.dedup();
        return Err(NegotiationError::NoMedia {
            wanted: kinds.join(" or "),
            offered: offered_lines(offer),
        });
    }
    Ok(())
}

fn state(offer: &SessionDescription, line: usize) -> &'static str {
    match offer.media.get(line) {
        Some(media) if media.is_rejected() => "port 0",
        _ => offer.direction(line).as_str(),
    }
}
