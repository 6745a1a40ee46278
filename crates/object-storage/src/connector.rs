//! The connections of the server under `object_store`, in place of a second HTTP client.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::header::CONTENT_LENGTH;
use bytes::Bytes;
use futures_util::stream;
use glassline_access::outbound::{Bounds, HttpClient};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Body, Frame};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient as StoreClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Bounds of one exchange: a part of 8 MiB over one Mbit/s takes 67 s, and no answer has more bytes
/// than a part.
const BOUNDS: Bounds = Bounds {
    time: Duration::from_secs(120),
    body_bytes: 16 << 20,
};

/// Parts of a file on their way at the same time, which bounds the memory of an upload.
pub(crate) const PARTS_IN_FLIGHT: usize = 3;

/// Bytes that are sent at once where the rate is limited.
const CHUNK_BYTES: usize = 16 << 10;

/// Hands `object_store` the connections of the server.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    client: HttpClient,
    pace: Option<Arc<Pace>>,
}

impl Connector {
    /// Creates a connector that sends at most `bytes_per_s` on all connections together; `None` sends as
    /// fast as the network takes it.
    pub(crate) fn new(client: HttpClient, bytes_per_s: Option<u64>) -> Self {
        let pace = bytes_per_s.map(|it| Arc::new(Pace::new(it)));
        Self { client, pace }
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<StoreClient> {
        Ok(StoreClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (mut parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let mut bounds = BOUNDS;
        let answer = match self.pace.clone().filter(|_| !body.is_empty()) {
            None => {
                let request = axum::http::Request::from_parts(parts, Full::new(body));
                self.client.fetch(request, bounds).await
            }
            Some(pace) => {
                // The other parts on their way take their share.
                bounds.time += pace.time_of(body.len() * PARTS_IN_FLIGHT);
                parts.headers.insert(CONTENT_LENGTH, body.len().into());
                let request = axum::http::Request::from_parts(parts, pace.paced(body));
                self.client.fetch(request, bounds).await
            }
        };
        match answer {
            Ok(answer) => Ok(answer.map(|body| {
                HttpResponseBody::new(Full::new(body).map_err(|never| match never {}))
            })),
            Err(error) => Err(HttpError::new(
                HttpErrorKind::Connect,
                Failed(error.to_string()),
            )),
        }
    }
}

/// The rate of all uploads together.
#[derive(Debug)]
struct Pace {
    bytes_per_s: u64,
    /// Instant from which on more may be sent.
    free_at: Mutex<Instant>,
}

impl Pace {
    fn new(bytes_per_s: u64) -> Self {
        Self {
            bytes_per_s: bytes_per_s.max(1),
            free_at: Mutex::new(Instant::now()),
        }
    }

    fn time_of(&self, bytes: usize) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.bytes_per_s as f64)
    }

    /// Waits until so many bytes may be sent.
    async fn pass(&self, bytes: usize) {
        let begin = {
            let mut free_at = self.free_at.lock();
            let begin = Instant::now().max(*free_at);
            *free_at = begin + self.time_of(bytes);
            begin
        };
        tokio::time::sleep_until(begin).await;
    }

    /// Returns a body that is sent at the rate.
    fn paced(self: Arc<Self>, body: Bytes) -> impl Body<Data = Bytes, Error = Infallible> + Send {
        StreamBody::new(stream::unfold(
            (self, body),
            |(pace, mut rest)| async move {
                if rest.is_empty() {
                    return None;
                }
                let chunk = rest.split_to(rest.len().min(CHUNK_BYTES));
                pace.pass(chunk.len()).await;
                Some((Ok(Frame::data(chunk)), (pace, rest)))
            },
        ))
    }
}

/// The text of a failed exchange.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Failed(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn parts_at_the_same_time_share_one_rate() {
        let pace = Arc::new(Pace::new(1 << 20));
        let begin = Instant::now();
        let parts = [2_usize, 3].map(|mib| {
            let body = Bytes::from(vec![mib as u8; mib << 20]);
            let sent = Arc::clone(&pace).paced(body.clone());
            tokio::spawn(async move {
                let sent = sent.collect().await.unwrap_or_else(|never| match never {});
                assert!(sent.to_bytes() == body);
            })
        });
        for part in parts {
            part.await.expect("whole");
        }
        let took = begin.elapsed().as_secs_f64();
        assert!((4.9..5.1).contains(&took), "5 MiB take {took} s");
    }
}
