use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use glassline_net::{Options, ReceiveBatch, UdpSocket};

use crate::viewers::{RECEIVE_BUFFER_BYTES, SWEEP, floor::Error};

/// Sockets that receive the floor's packets, like the viewers of a load test, on a thread of
/// their own until dropped.
pub(super) struct Sink {
    addresses: Vec<SocketAddr>,
    received: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sink {
    /// Opens `count` sockets on loopback. They are polled as often as our viewers poll, so that
    /// waking a receiver costs the sender the same in both cases.
    pub(super) fn open(count: usize) -> Result<Self, Error> {
        let options = Options {
            receive_buffer: Some(RECEIVE_BUFFER_BYTES),
            receive_timestamps: true,
            ..Options::default()
        };
        // Bound to any address like our viewers, so that the kernel notes each datagram's
        // destination.
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        let sockets: Result<Vec<_>, _> =
            (0..count).map(|_| UdpSocket::bind(any, &options)).collect();
        let sockets = sockets?;
        let loopback = |socket: &UdpSocket| ([127, 0, 0, 1], socket.local_addr().port()).into();
        let addresses = sockets.iter().map(loopback).collect();
        let received = Arc::new(AtomicU64::new(0));
        let over = Arc::new(AtomicBool::new(false));
        let thread = thread::Builder::new()
            .name("floor-sink".to_owned())
            .spawn({
                let (received, over) = (Arc::clone(&received), Arc::clone(&over));
                move || drain(&sockets, &received, &over)
            })
            .map_err(Error::Thread)?;
        Ok(Self {
            addresses,
            received,
            over,
            thread: Some(thread),
        })
    }

    pub(super) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Number of datagrams received until the last sweep.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Waits until no more datagrams arrive, at most a second.
    pub(super) fn settle(&self) {
        let mut before = self.received();
        for _ in 0..10 {
            thread::sleep(SWEEP + Duration::from_millis(80));
            let now = self.received();
            if now == before {
                return;
            }
            before = now;
        }
    }
}

fn drain(sockets: &[UdpSocket], received: &AtomicU64, over: &AtomicBool) {
    let mut batch = ReceiveBatch::new(ReceiveBatch::CAPACITY_MAX);
    while !over.load(Ordering::Relaxed) {
        for socket in sockets {
            while let Ok(count) = socket.receive_batch(&mut batch)
                && count > 0
            {
                received.fetch_add(count as u64, Ordering::Relaxed);
                if count < batch.capacity() {
                    break;
                }
            }
        }
        thread::sleep(SWEEP);
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed already.
            let _ = thread.join();
        }
    }
}
