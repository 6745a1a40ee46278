//! The work of one viewer: to follow the playlists of its tracks, and to load part after part.
//!
//! A viewer behaves as hls.js does with low latency: it chooses a variant and stays with it, begins
//! PART-HOLD-BACK before the end, loads parts as they are listed, and asks for each playlist with a request
//! that the server holds. Without low latency, it loads segments and asks again after half a target duration.
//! A playlist that has ended plays from its beginning, and is loaded in real time some way ahead.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hls::judge::Directive;
use glassline_hls::reader::{
    ByteRange, DateTime, Map, MediaPlaylist, MultivariantPlaylist, Playlist, Position,
    Surroundings, read,
};
use url::Url;

use super::Watching;
use super::connection::{Answer, Connections};
use crate::hls::{parameters_of, with_parameters};

/// Longest time for one answer: a server may hold a request for three target durations.
const PATIENCE: Duration = Duration::from_secs(30);

/// Target Durations by which the media of a playlist that has ended is loaded before it plays.
const AHEAD_TARGETS: u32 = 3;

/// Pause before a request is made again that failed, and how often.
const PAUSE: Duration = Duration::from_millis(500);
const FAILURES_MAX: u32 = 5;

/// Watches until the stream ends; returns why.
pub(super) async fn watch(connections: &Connections, url: &Url, watching: &Watching) -> String {
    match begin(connections, url, watching).await {
        Ok(tracks) => {
            watching.begin(tracks.len());
            let mut tracks = tracks.into_iter().enumerate();
            let first = tracks
                .next()
                .map(|(index, it)| it.follow(connections, index, watching));
            let second = tracks
                .next()
                .map(|(index, it)| it.follow(connections, index, watching));
            match (first, second) {
                (Some(first), Some(second)) => {
                    tokio::select! {
                        ended = first => ended,
                        ended = second => ended,
                    }
                }
                (Some(first), None) => first.await,
                _ => "the playlist names no media".to_owned(),
            }
        }
        Err(reason) => reason,
    }
}

/// Loads the playlists: of video, and of audio if it has its own.
async fn begin(
    connections: &Connections,
    url: &Url,
    watching: &Watching,
) -> Result<Vec<Track>, String> {
    let answer = load(connections, url, watching).await?;
    let base = answer.url.clone();
    match read_playlist(&answer)? {
        Playlist::Media(playlist) => Ok(vec![Track::new(base, playlist)]),
        Playlist::Multivariant(playlist) => {
            let mut tracks = Vec::new();
            for uri in chosen(&playlist) {
                let url = base
                    .join(&uri)
                    .map_err(|error| format!("the URI '{uri}': {error}"))?;
                let answer = load(connections, &url, watching).await?;
                match read_playlist(&answer)? {
                    Playlist::Media(playlist) => tracks.push(Track::new(answer.url, playlist)),
                    Playlist::Multivariant(_) => {
                        return Err(format!("'{uri}' is a multivariant playlist"));
                    }
                }
            }
            Ok(tracks)
        }
    }
}

/// URIs of the first variant and of its audio.
fn chosen(playlist: &MultivariantPlaylist) -> Vec<String> {
    let Some(variant) = playlist.variants.first() else {
        return Vec::new();
    };
    let group = playlist
        .renditions
        .iter()
        .filter(|it| Some(&it.group) == variant.audio.as_ref());
    let audio = group
        .clone()
        .find(|it| it.is_default)
        .or(group.clone().next());
    let audio = audio.and_then(|it| it.uri.clone());
    [Some(variant.uri.clone()), audio]
        .into_iter()
        .flatten()
        .collect()
}

/// A media playlist that is followed.
struct Track {
    /// Address that answered: URIs are relative to it, and the next playlist comes from there. A redirection
    /// loses the parameters of a request that is held.
    url: Url,
    playlist: MediaPlaylist,
    next: Position,
    map: Option<Arc<Map>>,
    pace: Option<Pace>,
}

/// How far a playlist that has ended is loaded.
struct Pace {
    began: Instant,
    loaded: Duration,
}

/// The part or segment that is loaded next.
struct Item {
    uri: String,
    range: Option<ByteRange>,
    duration: Duration,
    date: Option<DateTime>,
    map: Option<Arc<Map>>,
    after: Position,
}

impl Track {
    fn new(url: Url, playlist: MediaPlaylist) -> Self {
        Self {
            next: start(&playlist),
            url,
            playlist,
            map: None,
            pace: None,
        }
    }

    async fn follow(
        mut self,
        connections: &Connections,
        index: usize,
        watching: &Watching,
    ) -> String {
        let mut failures = 0;
        loop {
            let stepped = self.step(connections, index, watching).await;
            match stepped {
                Ok(true) => failures = 0,
                Ok(false) => return "the playlist has ended".to_owned(),
                Err(_) if failures < FAILURES_MAX => {
                    failures += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                Err(reason) => return reason,
            }
        }
    }

    /// Loads what is listed, then the playlist again; false at its end.
    async fn step(
        &mut self,
        connections: &Connections,
        index: usize,
        watching: &Watching,
    ) -> Result<bool, String> {
        if self.next.sequence < self.playlist.first_listed() {
            // Too slow: what came next is no longer there.
            self.next = start(&self.playlist);
            watching.jumped();
        }
        while let Some(item) = self.item() {
            if self.playlist.is_ended {
                self.keep_pace().await;
            }
            if item.map.is_some() && item.map != self.map {
                self.map.clone_from(&item.map);
                if let Some(map) = &item.map {
                    self.media(connections, &map.uri, map.byte_range, watching)
                        .await?;
                }
            }
            self.media(connections, &item.uri, item.range, watching)
                .await?;
            watching.arrived(index, item.duration, item.date);
            if let Some(pace) = &mut self.pace {
                pace.loaded += item.duration;
            }
            self.next = item.after;
        }
        if self.playlist.is_ended {
            return Ok(false);
        }
        self.reload(connections, watching).await?;
        Ok(true)
    }

    /// Waits until a player would load what comes next of a playlist that has ended.
    async fn keep_pace(&mut self) {
        let target = self.playlist.target_duration;
        let ahead = AHEAD_TARGETS * target.unwrap_or(Duration::from_secs(2));
        let pace = self.pace.get_or_insert_with(|| Pace {
            began: Instant::now(),
            loaded: Duration::ZERO,
        });
        let due = pace.began + pace.loaded.saturating_sub(ahead);
        tokio::time::sleep_until(due.into()).await;
    }

    /// The part or segment at the present position.
    fn item(&mut self) -> Option<Item> {
        loop {
            let Position { sequence, part } = self.next;
            let at = usize::try_from(part).ok()?;
            let parts = self.playlist.parts(sequence);
            let date = self.date(sequence);
            let segment = self.playlist.segment(sequence);
            let map = match segment {
                Some(segment) => segment.map.clone(),
                None => self.playlist.open.map.clone(),
            };
            if let Some(part) = parts.get(at) {
                let before: Duration = parts[..at].iter().map(|it| it.duration).sum();
                return Some(Item {
                    uri: part.uri.clone(),
                    range: part.byte_range,
                    duration: part.duration,
                    date: date.map(|it| it.after(before)),
                    map,
                    after: Position::new(sequence, self.next.part + 1),
                });
            }
            let segment = segment?;
            let after = Position::new(sequence + 1, 0);
            if part > 0 {
                // All parts of this segment are loaded.
                self.next = after;
                continue;
            }
            return Some(Item {
                uri: segment.uri.clone(),
                range: segment.byte_range,
                duration: segment.duration,
                date,
                map,
                after,
            });
        }
    }

    /// Date of a segment's first sample.
    fn date(&self, sequence: u64) -> Option<DateTime> {
        let index = sequence.checked_sub(self.playlist.first_listed())?;
        self.playlist
            .dates()
            .get(usize::try_from(index).ok()?)
            .copied()
            .flatten()
    }

    async fn media(
        &self,
        connections: &Connections,
        uri: &str,
        range: Option<ByteRange>,
        watching: &Watching,
    ) -> Result<(), String> {
        let url = self
            .url
            .join(uri)
            .map_err(|error| format!("the URI '{uri}': {error}"))?;
        let range = range.map(|it| (it.offset, it.length));
        let asked = tokio::time::timeout(PATIENCE, connections.get(&url, range)).await;
        let answer =
            asked.map_err(|_| format!("'{uri}' did not come in {} s", PATIENCE.as_secs()))??;
        watching.requested(answer.requests, answer.bytes);
        match answer.status {
            200 | 206 => Ok(()),
            status => Err(format!("'{uri}' is answered with {status}")),
        }
    }

    async fn reload(
        &mut self,
        connections: &Connections,
        watching: &Watching,
    ) -> Result<(), String> {
        let directive = match (self.playlist.can_block(), self.playlist.part_target) {
            (true, Some(_)) => Directive::part(self.playlist.next_position()),
            (true, None) => Directive::segment(self.playlist.next_sequence()),
            (false, _) => {
                let target = self
                    .playlist
                    .target_duration
                    .unwrap_or(Duration::from_secs(2));
                tokio::time::sleep(target / 2).await;
                Directive::default()
            }
        };
        let url = with_parameters(&self.url, &directive.parameters());
        let answer = load(connections, &url, watching).await?;
        let Playlist::Media(playlist) = read_playlist(&answer)? else {
            return Err("the media playlist became a multivariant one".to_owned());
        };
        if directive.sequence.is_some() && playlist.next_position() <= self.playlist.next_position()
        {
            // A server that does not hold requests must not be asked in a tight loop.
            tokio::time::sleep(PAUSE).await;
        }
        (self.playlist, self.url) = (playlist, answer.url);
        Ok(())
    }
}

/// Where playing begins: at the hold-back from the end, with low latency at an independent part; at the
/// beginning of a playlist that has ended.
fn start(playlist: &MediaPlaylist) -> Position {
    if playlist.is_ended {
        return Position::new(playlist.first_listed(), 0);
    }
    let target = playlist.target_duration.unwrap_or(Duration::from_secs(2));
    let control = playlist.server_control.clone().unwrap_or_default();
    let part_hold_back = control.part_hold_back.filter(|_| playlist.has_parts());
    let hold_back = part_hold_back.unwrap_or(control.hold_back.unwrap_or(3 * target));
    let mut from_end = Duration::ZERO;
    let next = playlist.next_sequence();
    for sequence in (playlist.first_listed()..=next).rev() {
        let parts = playlist.parts(sequence);
        for (index, part) in parts.iter().enumerate().rev() {
            from_end += part.duration;
            if part_hold_back.is_some()
                && from_end >= hold_back
                && (part.is_independent || index == 0)
            {
                return Position::new(sequence, index as u64);
            }
        }
        if let Some(segment) = playlist.segment(sequence).filter(|_| parts.is_empty()) {
            from_end += segment.duration;
        }
        if from_end >= hold_back && sequence < next {
            return Position::new(sequence, 0);
        }
    }
    Position::new(playlist.first_listed(), 0)
}

async fn load(connections: &Connections, url: &Url, watching: &Watching) -> Result<Answer, String> {
    let shown = glassline_url::shown(url);
    let asked = tokio::time::timeout(PATIENCE, connections.get(url, None)).await;
    let answer = asked.map_err(|_| format!("{shown}: no answer in {} s", PATIENCE.as_secs()))??;
    watching.requested(answer.requests, answer.bytes);
    match answer.status {
        200 => Ok(answer),
        status => Err(format!("{shown} answers {status}")),
    }
}

fn read_playlist(answer: &Answer) -> Result<Playlist, String> {
    let query = parameters_of(&answer.url);
    let surroundings = Surroundings {
        variables: None,
        query: &query,
    };
    let shown = glassline_url::shown(&answer.url);
    let reading = read(&answer.body, surroundings).map_err(|fault| format!("{shown}: {fault}"))?;
    Ok(reading.playlist)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media(text: &str) -> MediaPlaylist {
        match read(text.as_bytes(), Surroundings::default())
            .expect("a playlist")
            .playlist
        {
            Playlist::Media(playlist) => playlist,
            other => panic!("{other:?}"),
        }
    }

    const HEAD: &str = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n";

    #[test]
    fn playing_begins_at_an_independent_part_before_the_hold_back() {
        let part = |name: &str, independent: &str| {
            format!("#EXT-X-PART:DURATION=0.5,URI=\"{name}\"{independent}\n")
        };
        let yes = ",INDEPENDENT=YES";
        let text = format!(
            "{HEAD}#EXT-X-PART-INF:PART-TARGET=0.5\n#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=1.5\n\
             #EXT-X-MEDIA-SEQUENCE:5\n#EXTINF:2,\na\n{}{}{}{}#EXTINF:2,\nb\n{}{}",
            part("b0", yes),
            part("b1", ""),
            part("b2", yes),
            part("b3", ""),
            part("c0", yes),
            part("c1", ""),
        );
        // 1.5 s before the end is b3, and b2 is the independent part before.
        assert_eq!(start(&media(&text)), Position::new(6, 2));
    }

    #[test]
    fn without_parts_playing_begins_three_target_durations_before_the_end() {
        let segments: String = (0..6).map(|it| format!("#EXTINF:2,\n{it}\n")).collect();
        assert_eq!(
            start(&media(&format!("{HEAD}{segments}"))),
            Position::new(3, 0)
        );
        assert_eq!(
            start(&media(&format!("{HEAD}#EXTINF:2,\na\n"))),
            Position::new(0, 0)
        );
    }

    #[test]
    fn the_first_variant_plays_with_the_default_of_its_audio() {
        let text = "#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"x\",URI=\"x\"\n\
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"y\",DEFAULT=YES,URI=\"y\"\n\
            #EXT-X-STREAM-INF:BANDWIDTH=1,AUDIO=\"a\"\nv\n#EXT-X-STREAM-INF:BANDWIDTH=2\nw\n";
        let reading = read(text.as_bytes(), Surroundings::default()).expect("a playlist");
        let Playlist::Multivariant(playlist) = reading.playlist else {
            panic!("it has variants");
        };
        assert_eq!(chosen(&playlist), ["v", "y"]);
    }
}
