//! QUIC streams as moq-net polls them, raw or within a WebTransport session.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use web_transport_trait::poll;

use super::error::{Error, wire_code};

/// Most bytes of an incomplete message that are kept. A SETUP may have as many; no other message of
/// a peer that means well comes near. Without this limit moq-net keeps 64 MiB for each request.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// A stream for sending.
pub(super) struct SendStream {
    stream: noq::SendStream,
    is_web: bool,
    stopped: Option<Pin<Box<noq::Stopped>>>,
    /// Whether the stream was finished or reset.
    is_over: bool,
}

impl SendStream {
    pub(super) const fn new(stream: noq::SendStream, is_web: bool) -> Self {
        Self {
            stream,
            is_web,
            stopped: None,
            is_over: false,
        }
    }

    fn code(&self, code: u32) -> noq::VarInt {
        wire_code(code, self.is_web)
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        // noq would finish the stream, and the peer would take half a group for a whole one.
        if !self.is_over {
            let _ = self.stream.reset(self.code(0));
        }
    }
}

impl poll::SendStream for SendStream {
    type Error = Error;

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Error>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes));
        Poll::Ready(written.map_err(|error| match error {
            noq::WriteError::Stopped(code) => Error::stream(code, self.is_web),
            noq::WriteError::ConnectionLost(error) => Error::of(error, self.is_web),
            _ => Error::Gone,
        }))
    }

    fn set_priority(&mut self, order: u8) {
        let _ = self.stream.set_priority(order.into());
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.is_over = true;
        self.stream.finish().map_err(|_| Error::Gone)
    }

    fn reset(&mut self, code: u32) {
        self.is_over = true;
        let _ = self.stream.reset(self.code(code));
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let stream = &self.stream;
        let stopped = self
            .stopped
            .get_or_insert_with(|| Box::pin(stream.stopped()));
        let how = ready!(stopped.as_mut().poll(cx));
        self.stopped = None;
        Poll::Ready(match how {
            Ok(None) => Ok(()),
            Ok(Some(code)) => Err(Error::stream(code, self.is_web)),
            Err(noq::StoppedError::ConnectionLost(error)) => Err(Error::of(error, self.is_web)),
            Err(_) => Err(Error::Gone),
        })
    }
}

/// A stream for receiving.
pub(super) struct RecvStream {
    stream: noq::RecvStream,
    is_web: bool,
    /// First byte of the stream, if that was read to learn what the stream is for.
    first: Option<u8>,
}

impl RecvStream {
    pub(super) const fn new(stream: noq::RecvStream, is_web: bool) -> Self {
        Self::begun(stream, is_web, None)
    }

    /// Wraps a stream of which the `first` byte was read already.
    pub(super) const fn begun(stream: noq::RecvStream, is_web: bool, first: Option<u8>) -> Self {
        Self {
            stream,
            is_web,
            first,
        }
    }

    fn error(&self, error: noq::ReadError) -> Error {
        match error {
            noq::ReadError::Reset(code) => Error::stream(code, self.is_web),
            noq::ReadError::ConnectionLost(error) => Error::of(error, self.is_web),
            _ => Error::Gone,
        }
    }
}

impl poll::RecvStream for RecvStream {
    type Error = Error;

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut [u8],
    ) -> Poll<Result<Option<usize>, Error>> {
        if to.is_empty() {
            return Poll::Ready(Ok(Some(0)));
        }
        if let Some(first) = self.first.take() {
            to[0] = first;
            return Poll::Ready(Ok(Some(1)));
        }
        let read = ready!(self.stream.poll_read(cx, to));
        Poll::Ready(match read {
            Ok(0) => Ok(None),
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => Err(self.error(error)),
        })
    }

    /// Reads what is missing of a message into the buffer in which moq-net keeps the message.
    fn poll_read_buf<B: BufMut>(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut B,
    ) -> Poll<Result<Option<usize>, Error>> {
        // The buffer is a `BytesMut`, whose room shrinks by what it holds.
        let held = BytesMut::new().remaining_mut();
        let held = held.saturating_sub(buffer.remaining_mut());
        if held > MESSAGE_BYTES_MAX {
            self.stop(0);
            return Poll::Ready(Err(Error::Long));
        }
        // As much as moq-net has room for: what follows a message is often a frame, which is read
        // without a copy.
        let room = buffer.chunk_mut().len();
        let chunk = ready!(self.poll_read_chunk(cx, room))?;
        Poll::Ready(Ok(chunk.map(|chunk| {
            let bytes = chunk.len();
            buffer.put(chunk);
            bytes
        })))
    }

    fn poll_read_chunk(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
    ) -> Poll<Result<Option<Bytes>, Error>> {
        if max == 0 {
            return Poll::Ready(Ok(Some(Bytes::new())));
        }
        if let Some(first) = self.first.take() {
            return Poll::Ready(Ok(Some(Bytes::copy_from_slice(&[first]))));
        }
        let read = ready!(pin!(self.stream.read_chunk(max)).poll(cx));
        Poll::Ready(read.map_err(|error| self.error(error)))
    }

    fn stop(&mut self, code: u32) {
        let _ = self.stream.stop(wire_code(code, self.is_web));
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let how = ready!(pin!(self.stream.received_reset()).poll(cx));
        Poll::Ready(match how {
            Ok(None) => Ok(()),
            Ok(Some(code)) => Err(Error::stream(code, self.is_web)),
            Err(noq::ResetError::ConnectionLost(error)) => Err(Error::of(error, self.is_web)),
            Err(_) => Err(Error::Gone),
        })
    }
}
