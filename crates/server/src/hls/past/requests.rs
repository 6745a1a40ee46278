//! The handlers: rights, passes, and what a client is told that gets nothing.

use std::time::{Instant, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::{ConnectInfo, RawQuery, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use glassline_access::auth::Action;
use glassline_hls::{RecordedForm, RecordedPlaylist, RecordedText};
use glassline_playback::{NoFootage, Playback, SegmentCutter, Subject, Wanted};
use glassline_recording::TimeRange;
use glassline_runtime::SourcePrefix;

use super::super::answers::{self, Keep};
use super::super::pass::Opens;
use super::super::protocol::{Hls, NotServed};
use super::super::requests::{CREDENTIALS, directives, kept_pairs, nothing, service};
use super::last_hours::Order;
use super::names::PastFile;
use super::{PlaylistBody, SEGMENT_MAX, SEGMENTS_MAX, multivariant, playlist_from, push};
use crate::app::App;
use crate::http::Unpassed;
use crate::http::extract::{Path, Query};
use crate::http::playback::{self, not_recorded, playback, wanted_part};
use crate::http::problem::Problem;
use crate::http::server::Waiter;
use crate::sessions::ConnectionAddresses;

/// Keys of the query that names a span.
const SPAN: [&str; 2] = ["start", "duration"];

/// Seconds for which caches keep the playlist of a span that is over.
const SPAN_KEPT_S: u32 = 60;

/// A span as a query names it.
#[derive(Debug, serde::Deserialize)]
pub(in super::super) struct SpanQuery {
    start: Option<String>,
    duration: Option<String>,
}

/// A request behind a pass.
struct Passed<'a> {
    connection: ConnectionAddresses,
    pass: &'a str,
    uri: &'a Uri,
    headers: &'a HeaderMap,
}

/// Answers `GET /{stream}/hls/dvr.m3u8`: the Multivariant Playlist of the last hours, with a pass.
pub(in super::super) async fn last_hours_index(
    State(app): State<App>,
    waiter: Waiter,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let hls = service(&app);
    let of = subject(&app, &name)?;
    let pass = hls.key.issue(&name, Opens::Past, hls.unix());
    let query = kept_pairs(query.as_deref().unwrap_or_default(), &CREDENTIALS)?;
    let hours = hls.past.of(&of.stream, Instant::now());
    let order = hls.order(of);
    let (wanted, uri) = (order.wanted(), format!("{pass}/dvr.m3u8{query}"));
    let index = hours.index(playback(&app)?, order, uri);
    let index = hls.waiting(&waiter, index).await?;
    index
        .map(answers::index)
        .map_err(|error| told(error, &name, &wanted))
}

/// Answers `GET /{stream}/hls/{pass}/dvr.m3u8`.
pub(in super::super) async fn last_hours(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    waiter: Waiter,
    Path((name, pass)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let hls = service(&app);
    let passed = Passed {
        connection,
        pass: &pass,
        uri: &uri,
        headers: &headers,
    };
    let keep = passed.checked(&app, &name, 1).await?;
    let of = subject(&app, &name)?;
    let query = query.unwrap_or_default();
    let shown = kept_pairs(&query, &CREDENTIALS)?;
    let keep = kept_with(keep, &shown);
    let form = RecordedForm {
        is_over: false,
        skip: directives(&query)?.skip,
        query: shown,
    };
    let hours = hls.past.of(&of.stream, Instant::now());
    let order = hls.order(of);
    let wanted = order.wanted();
    let playlist = hours.playlist(playback(&app)?, order);
    let playlist = hls.waiting(&waiter, playlist).await?;
    let playlist = playlist.map_err(|error| told(error, &name, &wanted))?;
    let place = playback(&app)?.place(waiter.source())?;
    hls.counters.playlists.add(1);
    let body = PlaylistBody::new(RecordedText::new(playlist, form), place);
    Ok(answers::recorded_playlist(body, keep, &headers))
}

/// Answers `GET /{stream}/hls/vod.m3u8`: the Multivariant Playlist of a span, with a pass.
pub(in super::super) async fn span_index(
    State(app): State<App>,
    waiter: Waiter,
    Path(name): Path<String>,
    Query(span): Query<SpanQuery>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let hls = service(&app);
    let (of, wanted) = (subject(&app, &name)?, span.wanted()?);
    let listed = listed(playback(&app)?, of, &wanted);
    let listed = hls.waiting(&waiter, listed).await?;
    let (cutter, playlist) = listed.map_err(|error| told(error, &name, &wanted))?;
    let pass = hls.key.issue(&name, Opens::Past, hls.unix());
    let keys = [&SPAN[..], &CREDENTIALS].concat();
    let query = kept_pairs(query.as_deref().unwrap_or_default(), &keys)?;
    let content = cutter.content();
    let index =
        content.and_then(|it| multivariant(&playlist, it, format!("{pass}/vod.m3u8{query}")));
    let index = index.ok_or_else(|| told(NoFootage::Nothing, &name, &wanted))?;
    Ok(answers::index(index))
}

/// Answers `GET /{stream}/hls/{pass}/vod.m3u8`.
pub(in super::super) async fn span(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    waiter: Waiter,
    Path((name, pass)): Path<(String, String)>,
    Query(span): Query<SpanQuery>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let hls = service(&app);
    let passed = Passed {
        connection,
        pass: &pass,
        uri: &uri,
        headers: &headers,
    };
    let keep = passed.checked(&app, &name, SPAN_KEPT_S).await?;
    let shown = kept_pairs(uri.query().unwrap_or_default(), &CREDENTIALS)?;
    let keep = kept_with(keep, &shown);
    let form = RecordedForm {
        is_over: true,
        skip: false,
        query: shown,
    };
    let (of, wanted) = (subject(&app, &name)?, span.wanted()?);
    let listed = listed(playback(&app)?, of, &wanted);
    let listed = hls.waiting(&waiter, listed).await?;
    let (_, playlist) = listed.map_err(|error| told(error, &name, &wanted))?;
    let place = playback(&app)?.place(waiter.source())?;
    hls.counters.playlists.add(1);
    let text = RecordedText::new(playlist.into(), form);
    let body = PlaylistBody::new(text, place);
    Ok(answers::recorded_playlist(body, keep, &headers))
}

/// Answers `GET /{stream}/hls/{pass}/past/{file}`.
pub(in super::super) async fn file(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    waiter: Waiter,
    Path((name, pass, file)): Path<(String, String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let hls = service(&app);
    let passed = Passed {
        connection,
        pass: &pass,
        uri: &uri,
        headers: &headers,
    };
    let keep = passed.checked(&app, &name, answers::FILES_KEPT_S).await?;
    let of = subject(&app, &name)?;
    let Some(asked) = PastFile::parse(&file) else {
        return Ok(nothing(&format!("'{name}' has no file of this name")));
    };
    let playback = playback(&app)?;
    let finding = async {
        match asked {
            PastFile::Initialization(start) => playback.initialization(of, start).await,
            PastFile::Segment(place) => playback.segment(of, place).await,
        }
    };
    let found = match hls.waiting(&waiter, finding).await? {
        Err(NoFootage::Nothing) => {
            return Ok(nothing("the recording that the file was a part of is gone"));
        }
        found => found?,
    };
    let length = found.length();
    let client = SourcePrefix::from(connection.peer.ip());
    let body = playback.read(found, 0..length, client)?;
    hls.counters.files.add(1);
    hls.counters.bytes.add(length);
    let body = Body::from_stream(body.into_chunks());
    Ok(answers::recorded_file(body, length, &file, keep, &headers))
}

impl Passed<'_> {
    /// Checks the pass, or else the right that the request shows. Returns how the answer is kept: caches
    /// of many clients keep what a pass opens, for `seconds`.
    async fn checked(&self, app: &App, name: &str, seconds: u32) -> Result<Keep, Problem> {
        let hls = service(app);
        let by_pass = hls.key.is_valid(self.pass, name, Opens::Past, hls.unix());
        if !by_pass {
            let unpassed = Unpassed {
                connection: self.connection,
                headers: self.headers,
                uri: self.uri,
                protocol: "hls",
            };
            unpassed.may_do(app, Action::Playback, name).await?;
        }
        Ok(match by_pass {
            true => Keep::ByAll(seconds),
            false => Keep::ByClient(seconds),
        })
    }
}

impl SpanQuery {
    fn wanted(&self) -> Result<Wanted, Problem> {
        let given = |key, value: &Option<String>| {
            let missing = || {
                Problem::bad_request(format!(
                    "the query has no `{key}`: `start` is a time, and `duration` a length"
                ))
            };
            value.clone().ok_or_else(missing)
        };
        let (start, duration) = (
            given("start", &self.start)?,
            given("duration", &self.duration)?,
        );
        wanted_part(&start, &duration, false)
    }
}

impl Hls {
    fn order(&self, of: Subject) -> Order {
        Order {
            of,
            window: self.lock().settings.dvr(),
            now: Instant::now(),
            wall: UNIX_EPOCH + self.unix(),
        }
    }
}

impl Order {
    fn wanted(&self) -> Wanted {
        Wanted {
            from: self.wall.checked_sub(self.window).unwrap_or(self.wall),
            to: self.wall,
            stops_at_gap: false,
        }
    }
}

/// Returns how a playlist is kept whose URIs end with `query`: the credentials of one client are for no
/// other.
const fn kept_with(keep: Keep, query: &str) -> Keep {
    match keep {
        Keep::ByAll(seconds) if !query.is_empty() => Keep::ByClient(seconds),
        keep => keep,
    }
}

/// Returns the playlist of a span, with what has cut it.
async fn listed(
    playback: &Playback,
    of: Subject,
    wanted: &Wanted,
) -> Result<(SegmentCutter, RecordedPlaylist), NoFootage> {
    let range = TimeRange {
        from: wanted.from,
        to: wanted.to,
    };
    let cutter = SegmentCutter::of_span(of, SEGMENT_MAX);
    let mut cut = playback.segments(cutter, range).await?;
    cut.new.retain(|it| range.touches(it.at, it.duration));
    if let Some(first) = cut.new.first_mut() {
        first.goes_on = true;
    }
    cut.new.truncate(SEGMENTS_MAX);
    let mut playlist = playlist_from(None);
    push(&mut playlist, &cut.new);
    match playlist.is_empty() {
        true => Err(NoFootage::Nothing),
        false => Ok((cut.cutter, playlist)),
    }
}

/// Returns the recordings of a stream, if this server plays any by HLS.
fn subject(app: &App, name: &str) -> Result<Subject, Problem> {
    if !service(app).lock().settings.enabled {
        return Err(NotServed::Disabled.into());
    }
    playback::subject(app, Some(name), None)
}

fn told(error: NoFootage, name: &str, wanted: &Wanted) -> Problem {
    match error {
        NoFootage::Nothing => not_recorded(name, wanted),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cache_hands_the_token_of_one_client_to_another() {
        assert_eq!(kept_with(Keep::ByAll(1), ""), Keep::ByAll(1));
        let with_token = kept_with(Keep::ByAll(1), "?token=a");
        assert_eq!(with_token, Keep::ByClient(1));
    }
}
