//! Serves HTTP on one connection, to its end or to a deadline.

mod http2;
mod until_closed;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use axum::response::Response;
use axum::{Error, Router};
use futures_util::FutureExt as _;
use futures_util::future::Either;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Scheme;
use super::activity::{Activity, Closed, Deadlines, RequestId, WaitsFor};
use super::ending::Ending;
use super::handlers::{DirectHandler, Handlers, RequestClient};
use super::observed_stream::ObservedStream;
use super::waits::{ConnectionWaits, Waiter};
use crate::sessions::ConnectionAddresses;
use until_closed::{ServedConnection, until_closed};

/// Largest header of a request, in bytes: browsers add the cookies of everything else on the host.
const HEADER_BYTES_MAX: usize = 32 << 10;

/// Largest buffer of a connection in each direction, in bytes.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Bytes that a client may still send after the last response, until the connection is closed.
const LINGER_BYTES_MAX: usize = 1 << 20;

/// Answer to a client whose request header does not end (RFC 9110 §15.5.9).
const TIMEOUT_RESPONSE: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// The version of HTTP that both ends have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// HTTP/1.1, and HTTP/1.0 of old programs.
    Http1,
    /// HTTP/2 (RFC 9113).
    Http2,
}

/// The way by which a client has reached the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached {
    pub(super) version: Version,
    pub(super) addresses: ConnectionAddresses,
    pub(super) scheme: Scheme,
}

impl Reached {
    pub(super) const fn new(
        version: Version,
        addresses: ConnectionAddresses,
        scheme: Scheme,
    ) -> Self {
        Self {
            version,
            addresses,
            scheme,
        }
    }
}

/// Serves requests of `stream` with `handlers` until the client leaves, a deadline passes, another
/// connection takes this one's place, or the server ends it. A request that is being worked on is still
/// answered after that.
pub(super) async fn serve<S>(
    stream: S,
    handlers: Handlers,
    reached: Reached,
    activity: Arc<Activity>,
    deadlines: Deadlines,
    ending: Ending,
) -> Closed
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let requests = Requests {
        router: TowerToHyperService::new(handlers.router),
        direct: handlers.direct,
        addresses: reached.addresses,
        scheme: reached.scheme,
        activity: Arc::clone(&activity),
        waits: match reached.version {
            Version::Http1 => None,
            Version::Http2 => Some(ConnectionWaits::of(http2::STREAMS_MAX)),
        },
    };
    let stream = ObservedStream::new(stream, Arc::clone(&activity));
    if reached.version == Version::Http2 {
        return http2::serve(stream, requests, &activity, deadlines, ending).await;
    }
    let mut connection = http1::Builder::new()
        // The deadline of this module counts from the accepted connection, and tells an unfinished
        // header from a pause between two requests.
        .header_read_timeout(None)
        .max_header_size(HEADER_BYTES_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), requests);
    let closed = until_closed(&mut connection, &activity, &deadlines, ending).await;
    let Some(closed) = closed else {
        return Closed::Ended;
    };
    let has_partial_header = activity.has_partial_header();
    let mut stream = connection.into_parts().io.into_inner().stream;
    match closed {
        Closed::Ended => {
            activity.begin_to_linger(Instant::now());
            linger(&mut stream, &activity, deadlines).await
        }
        Closed::Header if has_partial_header => {
            // There is room for it: nothing was sent yet, or all of it was taken.
            let sent = |context: &mut Context<'_>| {
                Poll::Ready(Pin::new(&mut stream).poll_write(context, TIMEOUT_RESPONSE))
            };
            let _ = poll_fn(sent).await;
            closed
        }
        _ => closed,
    }
}

impl<S> ServedConnection for http1::Connection<TokioIo<ObservedStream<S>>, Requests>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.poll_without_shutdown(context).map(drop)
    }

    fn end(&mut self) {
        Pin::new(self).graceful_shutdown();
    }
}

/// Ends the direction to the client, and waits for the client to end the other one. To close both
/// at once would reset the connection while a body that nobody reads is still arriving, and the
/// client might lose the response (RFC 9112 §9.6).
async fn linger<S>(stream: &mut S, activity: &Activity, deadlines: Deadlines) -> Closed
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let drained = async {
        poll_fn(|context| Pin::new(&mut *stream).poll_shutdown(context)).await?;
        let mut left = LINGER_BYTES_MAX;
        let mut buffer = vec![0; 4 << 10];
        while left > 0 {
            let count = read(stream, &mut buffer).await?;
            if count == 0 {
                break;
            }
            left = left.saturating_sub(count);
        }
        io::Result::Ok(())
    };
    tokio::select! {
        // An error says that the client is gone, too.
        _ = tokio::time::timeout(deadlines.linger, drained) => Closed::Ended,
        () = activity.evicted() => Closed::Evicted,
    }
}

async fn read(stream: &mut (impl AsyncRead + Unpin), buffer: &mut [u8]) -> io::Result<usize> {
    poll_fn(|context| {
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    })
    .await
}

/// Hands the requests of one connection to their handlers.
struct Requests {
    router: TowerToHyperService<Router>,
    direct: Option<Arc<dyn DirectHandler>>,
    addresses: ConnectionAddresses,
    scheme: Scheme,
    activity: Arc<Activity>,
    /// Absent on a connection with one request at a time.
    waits: Option<ConnectionWaits>,
}

impl Service<Request<Incoming>> for Requests {
    type Response = hyper::Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let mut progress = RequestProgress::begin(&self.activity);
        let answered = self.answer(request, progress.id);
        Box::pin(async move {
            let response: Response = answered.await?;
            if response.status() < StatusCode::BAD_REQUEST {
                progress.activity.note_granted();
            }
            progress.is_answered = true;
            progress.note(WaitsFor::Reader(Instant::now()));
            Ok(response.map(|body| ResponseBody { body, progress }))
        })
    }
}

impl Requests {
    /// Has a request answered, by the routes unless a handler before them takes it.
    fn answer(
        &self,
        request: Request<Incoming>,
        id: RequestId,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send + use<> {
        let direct = self.direct.as_ref();
        let Some(direct) = direct.filter(|_| request.body().is_end_stream()) else {
            return Either::Right(self.route(request, id));
        };
        let (parts, body) = request.into_parts();
        let request = Request::from_parts(parts, ());
        if !direct.takes(self.addresses, &request) {
            return Either::Right(self.route(request.map(|()| body), id));
        }
        let client = RequestClient {
            addresses: self.addresses,
            waiter: Waiter::direct(self.addresses, self.waits.clone()),
        };
        Either::Left(direct.answer(client, request).map(Ok))
    }

    fn route(
        &self,
        request: Request<Incoming>,
        id: RequestId,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send + use<> {
        let activity = Arc::clone(&self.activity);
        let mut request = request.map(|body| RequestBody { body, activity, id });
        let extensions = request.extensions_mut();
        extensions.insert(ConnectInfo(self.addresses));
        extensions.insert(self.scheme);
        if let Some(waits) = &self.waits {
            extensions.insert(waits.clone());
        }
        self.router.call(request)
    }
}

/// A request in progress; dropped when the response is complete or nobody waits for it.
struct RequestProgress {
    activity: Arc<Activity>,
    id: RequestId,
    /// Whether a response was made; otherwise the client gave the request up.
    is_answered: bool,
}

impl RequestProgress {
    fn begin(activity: &Arc<Activity>) -> Self {
        Self {
            id: activity.begin_request(Instant::now()),
            activity: Arc::clone(activity),
            is_answered: false,
        }
    }

    fn note(&self, waits_for: WaitsFor) {
        self.activity.note_waiting(self.id, waits_for);
    }
}

impl Drop for RequestProgress {
    fn drop(&mut self) {
        let now = Instant::now();
        if !self.is_answered {
            self.activity.note_canceled(now);
        }
        self.activity.end_request(self.id, now);
    }
}

/// The body of a request, which notes while more of it is waited for.
struct RequestBody {
    body: Incoming,
    activity: Arc<Activity>,
    id: RequestId,
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let waits_for = match &polled {
            Poll::Pending => WaitsFor::Body,
            Poll::Ready(_) => WaitsFor::Server,
        };
        self.activity.note_waiting(self.id, waits_for);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response. Its request is in progress until the body was taken.
struct ResponseBody {
    body: Body,
    progress: RequestProgress,
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        // Within HTTP/2 the next part is asked for only when the client has room for it.
        let waits_for = match &polled {
            Poll::Pending => WaitsFor::Server,
            Poll::Ready(_) => WaitsFor::Reader(Instant::now()),
        };
        self.progress.note(waits_for);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
