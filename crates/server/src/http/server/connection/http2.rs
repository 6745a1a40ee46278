//! Serves HTTP/2 on one connection (RFC 9113), with the deadlines of HTTP/1.1.
//!
//! All requests of a connection are worked on in its task, so that they end with it.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};

use super::super::activity::{Activity, Closed, Deadlines};
use super::super::ending::Ending;
use super::super::observed_stream::ObservedStream;
use super::until_closed::{ServedConnection, until_closed};
use super::{BUFFER_BYTES_MAX, HEADER_BYTES_MAX, Requests};

/// Most requests of one connection at the same time. A page asks for some twenty files at once.
pub(super) const STREAMS_MAX: u32 = 64;

/// Bytes of a request's body, and of all bodies of a connection, that a client may send before a
/// handler reads them. A body has at most 256 KiB.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;

/// Most requests that wait to be taken and were canceled already (CVE-2023-44487), and most that the
/// server had to cancel for errors of the client (CVE-2025-8671). Beyond, the connection ends.
const RESETS_MAX: usize = 32;

/// As the function of the same name for HTTP/1.1.
pub(super) async fn serve<S>(
    stream: ObservedStream<S>,
    requests: Requests,
    activity: &Activity,
    deadlines: Deadlines,
    ending: Ending,
) -> Closed
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    activity.note_multiplexed();
    let tasks = RequestTasks::default();
    let connection = http2::Builder::new(tasks.clone())
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(HEADER_BYTES_MAX as u32)
        .max_send_buf_size(BUFFER_BYTES_MAX)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(RESETS_MAX)
        .serve_connection(TokioIo::new(stream), requests);
    let mut connection = pin!(connection);
    let mut served = MultiplexedConnection {
        connection: connection.as_mut(),
        tasks,
        running: FuturesUnordered::new(),
    };
    let closed = until_closed(&mut served, activity, &deadlines, ending).await;
    let closed = closed.unwrap_or(Closed::Ended);
    if closed == Closed::Idle {
        // The client learns that no request was lost (RFC 9113 §6.8).
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(deadlines.linger, connection).await;
    }
    closed
}

/// A connection with several requests at a time, which are worked on in its task.
struct MultiplexedConnection<'a, S> {
    connection: Pin<&'a mut http2::Connection<TokioIo<ObservedStream<S>>, Requests, RequestTasks>>,
    tasks: RequestTasks,
    running: FuturesUnordered<RequestTask>,
}

impl<S> ServedConnection for MultiplexedConnection<'_, S>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.connection.as_mut().poll(context).map(drop)
    }

    fn poll_requests(&mut self, context: &mut Context<'_>) {
        self.tasks.poll(&mut self.running, context);
    }

    fn end(&mut self) {
        self.connection.as_mut().graceful_shutdown();
    }
}

type RequestTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The requests of one connection that were begun and are not polled yet.
#[derive(Clone, Default)]
struct RequestTasks(Arc<Mutex<Vec<RequestTask>>>);

impl RequestTasks {
    /// Works on all requests until each waits for something.
    fn poll(&self, running: &mut FuturesUnordered<RequestTask>, context: &mut Context<'_>) {
        loop {
            let mut begun = self.0.lock();
            running.extend(begun.drain(..));
            drop(begun);
            match running.poll_next_unpin(context) {
                Poll::Ready(Some(())) => {}
                Poll::Ready(None) | Poll::Pending => return,
            }
        }
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for RequestTasks {
    fn execute(&self, task: F) {
        let mut begun = self.0.lock();
        begun.push(Box::pin(task));
    }
}
