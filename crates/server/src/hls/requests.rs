//! The handlers: passes, waiting, and what a client is told that gets nothing.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{ConnectInfo, RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use glassline_access::auth::TOKEN_BYTES_MAX;
use glassline_hls::{Directives, DirectivesError};
use glassline_media::Track;
use glassline_runtime::{await_tracks, may_come};

use super::answers::{self, Keep};
use super::audience::ViewerKey;
use super::broadcast::Broadcast;
use super::pass::Opens;
use super::protocol::{Hls, NotServed};
use super::rendition::{FileName, NoFile, Rendition};
use super::rendition_key::is_carried;
use crate::app::App;
use crate::http::Unpassed;
use crate::http::extract::Path;
use crate::http::problem::Problem;
use crate::http::server::{RequestClient, Waiter};
use crate::sessions::ConnectionAddresses;

/// Longest time for which a request waits for the first parts of a stream: a keyframe may be ten seconds
/// away.
const PATIENCE: Duration = Duration::from_secs(12);

const CROWDED: &str = "as many requests as may wait for parts of streams do so already, in all or of this address: raise limits.viewers, or put a cache in front";

/// Keys of a query by which clients show their right, and which go on to the playlists.
pub(super) const CREDENTIALS: [&str; 2] = ["token", "jwt"];

/// Most bytes of a query that URIs of a playlist have: a token of an identity provider, and a span.
const KEPT_BYTES_MAX: usize = TOKEN_BYTES_MAX + 256;

/// Answers `GET /{stream}/hls/index.m3u8`: the Multivariant Playlist, with a pass.
pub(super) async fn index(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    waiter: Waiter,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let hls = service(&app);
    let waiting = begun(&app, connection, &name);
    let broadcast = hls.waiting(&waiter, waiting).await??;
    let pass = hls.key.issue(&name, Opens::Playlists, hls.unix());
    let query = kept_pairs(query.as_deref().unwrap_or_default(), &CREDENTIALS)?;
    let playlist = broadcast.multivariant(PATIENCE, &pass, &query);
    let playlist = hls.waiting(&waiter, playlist).await?;
    playlist.map(answers::index).ok_or_else(|| no_media(&name))
}

/// Answers `GET /{stream}/hls/{pass}/{playlist}`.
pub(super) async fn playlist(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    waiter: Waiter,
    Path((name, pass, playlist)): Path<(String, String, String)>,
    request: Request,
) -> Result<Response, Problem> {
    let client = RequestClient {
        addresses: connection,
        waiter,
    };
    let asked = PassedRequest::new(&app, &client, &request, &name, &pass);
    asked.playlist(&playlist).await
}

/// Answers `GET /{stream}/hls/{pass}/{rendition}/{file}`.
pub(super) async fn file(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    waiter: Waiter,
    Path((name, pass, rendition, file)): Path<(String, String, String, String)>,
    request: Request,
) -> Result<Response, Problem> {
    let client = RequestClient {
        addresses: connection,
        waiter,
    };
    let asked = PassedRequest::new(&app, &client, &request, &name, &pass);
    asked.file(&rendition, &file).await
}

/// A request with a pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct PassedRequest<'a> {
    app: &'a App,
    connection: ConnectionAddresses,
    waiter: &'a Waiter,
    headers: &'a HeaderMap,
    uri: &'a Uri,
    /// Name of the stream.
    name: &'a str,
    pass: &'a str,
}

impl<'a> PassedRequest<'a> {
    /// Creates the request that `client` makes of the stream `name`.
    pub(super) fn new<B>(
        app: &'a App,
        client: &'a RequestClient,
        request: &'a axum::http::Request<B>,
        name: &'a str,
        pass: &'a str,
    ) -> Self {
        Self {
            app,
            connection: client.addresses,
            waiter: &client.waiter,
            headers: request.headers(),
            uri: request.uri(),
            name,
            pass,
        }
    }

    /// Checks that the pass is valid, or that the request shows a right to read in its place. Returns who
    /// keeps the answer: a right in a header is not in the URL by which caches keep it.
    async fn check(&self, opens: Opens) -> Result<fn(u32) -> Keep, Problem> {
        let hls = service(self.app);
        if hls.key.is_valid(self.pass, self.name, opens, hls.unix()) {
            return Ok(Keep::ByAll);
        }
        let unpassed = Unpassed {
            connection: self.connection,
            headers: self.headers,
            uri: self.uri,
            protocol: "hls",
        };
        // Few requests come here, and the future of each has room for all that it may wait for.
        Box::pin(unpassed.may_read(self.app, self.name)).await?;
        Ok(match self.headers.contains_key(header::AUTHORIZATION) {
            true => Keep::ByClient,
            false => Keep::ByAll,
        })
    }

    pub(super) async fn playlist(&self, playlist: &str) -> Result<Response, Problem> {
        let (hls, name) = (service(self.app), self.name);
        let keep = self.check(Opens::Playlists).await?;
        let directives = directives(self.uri.query().unwrap_or_default())?;
        let Some(rendition) = playlist.strip_suffix(".m3u8") else {
            return Ok(nothing(&format!(
                "there is no playlist called '{playlist}'"
            )));
        };
        let broadcast = match present(self.app, name) {
            Some(present) => present,
            None => {
                let beginning = begun(self.app, self.connection, name);
                Box::pin(hls.waiting(self.waiter, beginning)).await??
            }
        };
        broadcast.want(rendition);
        let rendition = match broadcast.rendition(rendition) {
            Some(found) => Some(found),
            None => {
                let awaited = broadcast.awaited(rendition, PATIENCE);
                Box::pin(hls.waiting(self.waiter, awaited)).await?
            }
        };
        note_viewer(&broadcast, self.connection, self.headers);
        let Some(rendition) = rendition else {
            return Ok(nothing(&format!(
                "'{name}' has no playlist called '{playlist}' now"
            )));
        };
        let reports = || broadcast.reports(&rendition);
        let waiting = rendition.playlist(&directives, reports);
        let found = hls.waiting(self.waiter, waiting).await?;
        broadcast.note_use(Instant::now());
        let target = u32::try_from(rendition.target().as_secs()).unwrap_or(1);
        let kept = if directives.segment.is_some() {
            target * 6
        } else {
            1
        };
        match found {
            Ok(text) => {
                hls.counters.playlists.add(1);
                Ok(answers::playlist(&text, keep(kept), self.headers))
            }
            Err(refusal) => Ok(hls.refused(refusal, &rendition)),
        }
    }

    pub(super) async fn file(&self, rendition: &str, file: &str) -> Result<Response, Problem> {
        let (hls, name) = (service(self.app), self.name);
        let keep = self.check(Opens::Files).await?;
        let broadcast = hls.find(name);
        let rendition = broadcast.and_then(|it| it.rendition(rendition));
        let (Some(rendition), Some(asked)) = (rendition, FileName::parse(file)) else {
            return Ok(nothing(&format!("'{name}' has no file of this name now")));
        };
        match hls.waiting(self.waiter, rendition.file(asked)).await? {
            Ok(pieces) => {
                let bytes: usize = pieces.iter().map(bytes::Bytes::len).sum();
                hls.counters.files.add(1);
                hls.counters.bytes.add(bytes as u64);
                let keep = keep(answers::FILES_KEPT_S);
                let kind = rendition.key.kind;
                Ok(answers::file(pieces, kind, file, keep, self.headers))
            }
            Err(refusal) => Ok(hls.refused(refusal, &rendition)),
        }
    }
}

/// Returns the broadcast of the stream with this name, if it has begun.
fn present(app: &App, name: &str) -> Option<Arc<Broadcast>> {
    let present = service(app).find(name)?;
    let stream = app.hub.stream(name)?;
    Arc::ptr_eq(&stream, &present.stream).then_some(present)
}

/// Returns the broadcast of a stream, which is connected for it if it comes on demand, or pulled from
/// another server of the cluster.
async fn begun(
    app: &App,
    connection: ConnectionAddresses,
    name: &str,
) -> Result<Arc<Broadcast>, Problem> {
    if let Some(present) = present(app, name) {
        return Ok(present);
    }
    let pulled = match (app.hub.stream(name), app.sessions.directory()) {
        (None, Some(directory)) => directory.begin(name, connection.peer.ip()),
        _ => None,
    };
    let _pulled = match &pulled {
        Some(stream) => Some(await_tracks(stream).await),
        None => None,
    };
    let stream = app.hub.stream(name);
    let stream = stream.ok_or_else(|| Problem::no_stream(name))?;
    let _demand = match may_come(&stream) {
        true => Some(await_tracks(&stream).await),
        false => None,
    };
    if stream.tracks().is_empty() {
        let status = stream.status(Instant::now());
        return Err(Problem::not_live(stream.name(), &stream.state(), status));
    }
    if !stream.tracks().iter().any(is_carried) {
        return Err(not_carried(name, &stream.tracks()));
    }
    service(app).begin(&stream).map_err(Problem::from)
}

pub(super) fn service(app: &App) -> &Hls {
    app.services.get().expect("it is in the list of protocols")
}

/// Counts the client among the viewers of the stream.
fn note_viewer(broadcast: &Broadcast, connection: ConnectionAddresses, headers: &HeaderMap) {
    let agent = headers.get(header::USER_AGENT);
    let agent = agent.map_or(&b""[..], |it| it.as_bytes());
    let key = ViewerKey::new(connection.peer.ip(), agent);
    broadcast
        .viewers()
        .note(key, &broadcast.stream, Instant::now());
}

impl Hls {
    /// Returns the result of `work`, which takes a place among the requests that wait: of its connection, of
    /// its address, and of all.
    pub(super) async fn waiting<T>(
        &self,
        waiter: &Waiter,
        work: impl Future<Output = T>,
    ) -> Result<T, Problem> {
        use futures_util::FutureExt as _;
        let mut work = std::pin::pin!(work);
        if let Some(done) = work.as_mut().now_or_never() {
            return Ok(done);
        }
        let turned_away = |detail: &str| {
            self.counters.turned_away.add(1);
            Problem::try_later("Too many requests wait", detail)
        };
        let of_connection = waiter.connection_place();
        let _of_connection = of_connection.map_err(|error| turned_away(&error.to_string()))?;
        let place = self.waits.admit(&waiter.source());
        let place = place.ok_or_else(|| turned_away(CROWDED))?;
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = place.displaced() => Err(turned_away(CROWDED)),
        }
    }

    fn refused(&self, refusal: NoFile, rendition: &Rendition) -> Response {
        let problem = match refusal {
            NoFile::TooFarAhead => Problem::bad_request(format!(
                "the playlist '{}' is more than two segments, or three seconds of parts, behind what is asked for",
                rendition.playlist_name()
            )),
            NoFile::Late => {
                self.counters.late.add(1);
                let detail = "the source sent nothing for three Target Durations: ask again";
                Problem::try_later("Late", detail)
            }
            NoFile::Closed => Problem::try_later(
                "Begun anew",
                "the server dropped the segments of this stream: read index.m3u8 again",
            ),
            NoFile::Gone => {
                return nothing("the file has left the playlist, or no playlist announces it");
            }
        };
        answers::kept_shortly(problem.into_response())
    }
}

pub(super) fn nothing(detail: &str) -> Response {
    let problem = Problem::new(StatusCode::NOT_FOUND, "No such file", detail);
    answers::kept_shortly(problem.into_response())
}

/// The codecs that HLS carries.
const CARRIED: &str = "H.264, H.265, VP8, VP9, AV1, AAC, Opus, G.711 and 16-bit PCM";

fn not_carried(name: &str, tracks: &[Track]) -> Problem {
    let codecs: Vec<_> = tracks.iter().map(|it| it.codec.to_string()).collect();
    let detail = format!(
        "'{name}' has {}, and HLS carries {CARRIED}: have the source send one of them",
        codecs.join(" and ")
    );
    Problem::new(StatusCode::NOT_FOUND, "No codec for HLS", detail)
}

fn no_media(name: &str) -> Problem {
    let detail = format!(
        "'{name}' sent no keyframe and no audio that HLS carries for {} s; it carries {CARRIED}",
        PATIENCE.as_secs()
    );
    Problem::try_later("Nothing to play", detail)
}

impl From<NotServed> for Problem {
    fn from(reason: NotServed) -> Self {
        match reason {
            NotServed::Disabled => Self::new(
                StatusCode::NOT_FOUND,
                "No HLS",
                "HLS is turned off here: set hls.enabled in the configuration",
            ),
            NotServed::Stopped => Self::try_later("Server stops", "the server stops"),
            NotServed::Full => Self::try_later(
                "Memory full",
                "the segments of other streams take hls.total_mib: raise it, or ask later",
            ),
        }
    }
}

/// Reads the Delivery Directives of a query.
pub(super) fn directives(query: &str) -> Result<Directives, Problem> {
    let pairs: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).collect();
    let pairs = pairs.iter().map(|(key, value)| (&**key, &**value));
    Directives::of(pairs).map_err(|error: DirectivesError| Problem::bad_request(error.to_string()))
}

/// Returns the pairs of a query with these `keys` as the query of URIs in playlists. Players, which send no
/// other headers or cookies of their own, so show credentials again once their pass has ended.
///
/// # Errors
/// Returns status 400 for pairs that are longer than any credential: they stand behind thousands of URIs.
pub(super) fn kept_pairs(query: &str, keys: &[&str]) -> Result<String, Problem> {
    let pairs = query.split('&').filter(|pair| {
        let key = pair.split('=').next().unwrap_or_default();
        keys.contains(&key)
    });
    let kept: Vec<String> = pairs.map(|it| it.replace('"', "%22")).collect();
    let kept = match kept.is_empty() {
        true => String::new(),
        false => format!("?{}", kept.join("&")),
    };
    match kept.len() <= KEPT_BYTES_MAX {
        true => Ok(kept),
        false => Err(Problem::bad_request(format!(
            "the query has {} bytes that each URI of the playlist would have, and {KEPT_BYTES_MAX} are allowed: show one token",
            kept.len()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_the_query_go_on_and_nothing_else() {
        let shown_again = |query| kept_pairs(query, &CREDENTIALS).expect("short");
        assert_eq!(shown_again("token=a%26b&width=3"), "?token=a%26b");
        assert_eq!(
            shown_again("jwt=a\"b"),
            "?jwt=a%22b",
            "the end of a quoted text"
        );
        assert_eq!(shown_again("_HLS_msn=3&muted"), "");
        assert_eq!(shown_again(""), "");
    }

    #[test]
    fn what_is_longer_than_a_credential_does_not_get_behind_thousands_of_uris() {
        let status = |length: usize| {
            let kept = kept_pairs(&format!("token={}", "a".repeat(length)), &CREDENTIALS);
            kept.map_or_else(|problem| problem.status().as_u16(), |_| 200)
        };
        assert_eq!(status(TOKEN_BYTES_MAX), 200);
        assert_eq!(status(KEPT_BYTES_MAX), 400);
    }
}
