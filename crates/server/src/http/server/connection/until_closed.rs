//! What ends a connection of either version: the client, a deadline, another connection that needs
//! the place, or the server.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use tokio::time::Sleep;

use super::super::activity::{Activity, Closed, Deadlines};
use super::super::ending::{Ending, drains};

/// A connection that works on its requests while it is polled.
pub(super) trait ServedConnection {
    /// Reads, and writes answers. Ready when the connection has ended.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Works on requests that have no task of their own.
    fn poll_requests(&mut self, _context: &mut Context<'_>) {}

    /// Takes no further requests, and ends behind those that were begun.
    fn end(&mut self);
}

/// Polls `connection` until it ends or something ends it. Returns `None` where the server stops and
/// no request is under way.
pub(super) async fn until_closed(
    connection: &mut impl ServedConnection,
    activity: &Activity,
    deadlines: &Deadlines,
    ending: Ending,
) -> Option<Closed> {
    let mut sleep = pin!(tokio::time::sleep(deadlines.header));
    let Ending {
        mut stopped,
        mut drain,
    } = ending;
    let (mut is_stopping, mut is_draining, mut is_told) = (false, false, false);
    loop {
        let step = poll_fn(|context| {
            loop {
                if connection.poll(context).is_ready() {
                    return Poll::Ready(Closed::Ended);
                }
                // Whoever comes during a drain is answered once.
                if is_told || !is_draining || !activity.has_asked() {
                    break;
                }
                is_told = true;
                connection.end();
            }
            connection.poll_requests(context);
            // The requests may have moved the connection's deadline.
            poll_deadline(activity, deadlines, sleep.as_mut(), context)
        });
        tokio::select! {
            biased;
            closed = step => return Some(closed),
            () = activity.evicted() => return Some(Closed::Evicted),
            _ = stopped.wait_for(|stop| *stop), if !is_stopping => {
                if !activity.has_request() {
                    return None;
                }
                is_stopping = true;
                connection.end();
            }
            () = drains(&mut drain), if !is_draining => is_draining = true,
        }
    }
}

/// Completes when the connection's deadline has passed, which moves with its activity.
fn poll_deadline(
    activity: &Activity,
    deadlines: &Deadlines,
    mut sleep: Pin<&mut Sleep>,
    context: &mut Context<'_>,
) -> Poll<Closed> {
    let Some((at, closed)) = activity.deadline(deadlines) else {
        return Poll::Pending;
    };
    let at = tokio::time::Instant::from_std(at);
    if at < sleep.deadline() {
        sleep.as_mut().reset(at);
    }
    // A deadline moves with each request. The timer follows when it fires.
    loop {
        ready!(sleep.as_mut().poll(context));
        if sleep.deadline() >= at {
            return Poll::Ready(closed);
        }
        sleep.as_mut().reset(at);
    }
}
