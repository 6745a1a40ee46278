//! Requests to a camera over HTTP: credentials, redirections, and what an answer means.

use bytes::Bytes;
use glassline_rtsp::auth::{Authorizer, Challenge};
use glassline_rtsp::message::{Headers, Method};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use url::{Position, Url};

use crate::CameraSource;
use crate::camera::connection::connect;
use crate::camera::failure::Failure;
use crate::camera::limits::STEP;
use crate::camera::route::Route;

/// Largest head of an answer, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Most header fields of an answer.
const FIELDS_MAX: usize = 100;

/// Asks one camera again and again: the way to it and the credentials are kept.
pub(super) struct Requests<'a> {
    camera: &'a CameraSource,
    route: Route,
    authorizer: Option<Authorizer>,
}

/// An answer with media.
pub(super) struct Answer {
    /// Media type in lower case, without parameters; empty if the camera states none.
    pub(super) media_type: String,
    pub(super) body: Incoming,
}

impl<'a> Requests<'a> {
    pub(super) fn new(camera: &'a CameraSource) -> Self {
        Self {
            camera,
            route: Route::new(camera),
            authorizer: None,
        }
    }

    /// Sends a request, also where the camera redirects to, and returns the answer once its head is
    /// there.
    ///
    /// # Errors
    /// Returns why there is no media.
    pub(super) async fn get(&mut self) -> Result<Answer, Failure> {
        loop {
            let answered = self.get_here().await;
            let answer = answered.map_err(|failure| self.located(failure))?;
            let Some(location) = redirection(&answer)? else {
                return Ok(Answer {
                    media_type: media_type(answer.headers()),
                    body: answer.into_body(),
                });
            };
            let location = match self.route.url.join(&location) {
                Ok(url) => url.to_string(),
                Err(_) => location,
            };
            self.route = self.route.to(self.camera, &location)?;
            self.authorizer = None;
            tracing::info!(camera = %self.camera, target = self.route.target(), "the camera redirects");
        }
    }

    /// Sends a request, and once more if the camera wants other credentials.
    async fn get_here(&mut self) -> Result<Response<Incoming>, Failure> {
        let answer = self.send().await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return checked(answer);
        }
        let Some(user) = self.route.user.clone() else {
            return Err(self.route.withheld().unwrap_or(Failure::NoCredentials));
        };
        let strongest = Challenge::strongest(challenges(answer.headers()));
        let Some(challenge) = strongest else {
            return Err(Failure::UnknownChallenge);
        };
        self.authorizer = Some(Authorizer::new(user, challenge, rand::random()));
        checked(self.send().await?)
    }

    /// Sends one request on a connection of its own.
    async fn send(&mut self) -> Result<Response<Incoming>, Failure> {
        let request = self.request()?;
        let (socket, ..) = connect(self.camera, &self.route).await?;
        let exchange = async {
            let mut builder = http1::Builder::new();
            builder
                .max_buf_size(HEAD_BYTES_MAX)
                .max_headers(FIELDS_MAX)
                .ignore_invalid_headers_in_responses(true)
                .allow_spaces_after_header_name_in_responses(true)
                .allow_obsolete_multiline_headers_in_responses(true);
            let (mut sender, connection) = builder.handshake(TokioIo::new(socket)).await?;
            // The task ends with the answer; failures of the connection are failures of the answer.
            tokio::spawn(connection);
            sender.send_request(request).await
        };
        match tokio::time::timeout(STEP, exchange).await {
            Ok(answered) => answered.map_err(|error| Failure::of_http(&error)),
            Err(_) => Err(Failure::NoAnswer {
                what: "answer the request",
            }),
        }
    }

    fn request(&mut self) -> Result<Request<Empty<Bytes>>, Failure> {
        let url = &self.route.url;
        let path = &url[Position::BeforePath..Position::AfterQuery];
        let mut request = Request::new(Empty::new());
        let unusable = |_| Failure::Http(format!("'{}' cannot be asked for", self.route.target()));
        *request.uri_mut() = path.parse().map_err(unusable)?;
        let credentials = self
            .authorizer
            .as_mut()
            .map(|it| it.answer(&Method::Get, path, &[]).to_string());
        let agent = concat!("glassline/", env!("CARGO_PKG_VERSION")).to_owned();
        let fields = [
            (header::HOST, Some(authority(url))),
            (header::USER_AGENT, Some(agent)),
            (header::ACCEPT, Some("*/*".to_owned())),
            (header::AUTHORIZATION, credentials),
        ];
        for (name, value) in fields {
            let Some(value) = value else { continue };
            let value = HeaderValue::from_str(&value);
            let value = value.map_err(|_| Failure::Http(format!("no {name} can be sent")))?;
            request.headers_mut().insert(name, value);
        }
        Ok(request)
    }

    fn located(&self, failure: Failure) -> Failure {
        match self.route.is_redirected() {
            true => failure.at_target(self.route.target()),
            false => failure,
        }
    }
}

/// Returns host and port as a request names them.
fn authority(url: &Url) -> String {
    url[Position::BeforeHost..Position::AfterPort].to_owned()
}

/// Returns the challenges that a 401 has.
fn challenges(fields: &HeaderMap) -> Vec<Challenge> {
    let mut headers = Headers::new();
    for value in fields.get_all(header::WWW_AUTHENTICATE) {
        let value = String::from_utf8_lossy(value.as_bytes());
        headers.push("WWW-Authenticate", &value);
    }
    Challenge::parse_all(&headers)
}

/// Returns the answer if it has media, or redirects.
fn checked(answer: Response<Incoming>) -> Result<Response<Incoming>, Failure> {
    let status = answer.status();
    match status.as_u16() {
        code @ (401 | 403) => Err(Failure::RefusedByHttp { code }),
        404 => Err(Failure::NoSuchPath),
        _ if status.is_success() || status.is_redirection() => Ok(answer),
        code => {
            let reason = status.canonical_reason().unwrap_or("an unknown status");
            Err(Failure::Http(format!("it answered {code} ({reason})")))
        }
    }
}

/// Returns the URL to which an answer redirects.
fn redirection(answer: &Response<Incoming>) -> Result<Option<String>, Failure> {
    if !answer.status().is_redirection() {
        return Ok(None);
    }
    let location = answer.headers().get(header::LOCATION);
    let location = location.and_then(|it| it.to_str().ok());
    match location {
        Some(location) => Ok(Some(location.to_owned())),
        None => Err(Failure::Redirection(
            "the camera redirects, but names no URL (no Location)".to_owned(),
        )),
    }
}

fn media_type(fields: &HeaderMap) -> String {
    let value = fields.get(header::CONTENT_TYPE);
    let value = value.and_then(|it| it.to_str().ok()).unwrap_or_default();
    let bare = value.split(';').next().unwrap_or_default();
    bare.trim().to_ascii_lowercase()
}
