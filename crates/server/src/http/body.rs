//! Reads the body of a request, after the right to send it was checked.
//!
//! A handler takes the body unread and calls [`read`] when it knows that the request is allowed and
//! has something to change. Until then a stranger's body costs no memory and no time.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{StatusCode, header};
use futures_util::StreamExt;
use tokio::time::Instant;

use super::problem::Problem;

/// Largest request body, in bytes: an offer has 64 kB at most, a report of 1000 frames 150 kB.
const BYTES_MAX: usize = 256 << 10;

/// The times that a client has to send a body.
#[derive(Clone, Copy, Debug)]
struct Deadlines {
    /// For the whole body: the largest one takes 30 s at 70 kbit/s.
    total: Duration,
    /// From any part of the body to the next.
    progress: Duration,
}

const DEADLINES: Deadlines = Deadlines {
    total: Duration::from_secs(30),
    progress: Duration::from_secs(10),
};

/// Reads the whole body.
///
/// # Errors
/// Returns 413 for a body of more than 256 KiB, 408 for a client that sends too slowly, and 400 for
/// a body that breaks off.
pub(super) async fn read(body: Body) -> Result<Bytes, Problem> {
    read_within(body, DEADLINES).await
}

async fn read_within(body: Body, deadlines: Deadlines) -> Result<Bytes, Problem> {
    // What a header announces is refused before any of it is read.
    if body.size_hint().lower() > BYTES_MAX as u64 {
        return Err(too_large());
    }
    let end = Instant::now() + deadlines.total;
    let mut parts = body.into_data_stream();
    let mut bytes = Vec::new();
    loop {
        let until = end.min(Instant::now() + deadlines.progress);
        let part = tokio::time::timeout_at(until, parts.next()).await;
        match part.map_err(|_| too_slow(deadlines))? {
            None => return Ok(bytes.into()),
            Some(Err(error)) => {
                return Err(Problem::bad_request(format!("the body broke off: {error}")));
            }
            Some(Ok(part)) if bytes.len() + part.len() > BYTES_MAX => return Err(too_large()),
            Some(Ok(part)) => bytes.extend_from_slice(&part),
        }
    }
}

fn too_large() -> Problem {
    let detail = format!(
        "the body may have {} KiB at most; split a report into several",
        BYTES_MAX >> 10
    );
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "Body too large", detail)
        .header(header::CONNECTION, "close")
}

fn too_slow(Deadlines { total, progress }: Deadlines) -> Problem {
    let detail = format!(
        "a body must be sent within {} s, with no pause of {} s",
        total.as_secs(),
        progress.as_secs()
    );
    Problem::new(StatusCode::REQUEST_TIMEOUT, "Body too slow", detail)
        .header(header::CONNECTION, "close")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    use futures_util::stream;

    const SHORT: Deadlines = Deadlines {
        total: Duration::from_millis(400),
        progress: Duration::from_millis(100),
    };

    fn status(read: Result<Bytes, Problem>) -> u16 {
        read.map_or_else(|problem| problem.status().as_u16(), |_| 200)
    }

    #[tokio::test]
    async fn a_body_of_any_allowed_size_is_read() {
        for size in [0, 1, BYTES_MAX] {
            let read = read(Body::from(vec![7; size])).await.expect("allowed");
            assert_eq!(read.len(), size);
        }
        assert_eq!(status(read(Body::from(vec![7; BYTES_MAX + 1])).await), 413);
    }

    #[tokio::test]
    async fn a_body_of_unknown_size_ends_at_the_limit() {
        let endless = stream::repeat_with(|| io::Result::Ok(Bytes::from_static(&[0; 4096])));
        assert_eq!(status(read(Body::from_stream(endless)).await), 413);
    }

    #[tokio::test]
    async fn a_body_that_stops_or_trickles_is_given_up() {
        let stopped = stream::pending::<io::Result<Bytes>>();
        assert_eq!(
            status(read_within(Body::from_stream(stopped), SHORT).await),
            408
        );
        let trickle = stream::unfold((), async |()| {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((io::Result::Ok(Bytes::from_static(b"x")), ()))
        });
        let trickle = Body::from_stream(Box::pin(trickle));
        assert_eq!(status(read_within(trickle, SHORT).await), 408);
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_a_bad_request() {
        let broken = stream::once(async { Err::<Bytes, _>(io::Error::other("gone")) });
        assert_eq!(status(read(Body::from_stream(broken)).await), 400);
    }
}
