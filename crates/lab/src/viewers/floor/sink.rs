use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use glassline_net::{Options, ReceiveBatch, UdpSocket};

use crate::viewers::{RECEIVE_BUFFER_BYTES, SWEEP, floor::Error};

/// Sockets that receive the floor's packets, as the viewers of a load test do, on
/// a thread of its own until dropped.
pub(super) struct Sink {
    addresses: Vec<SocketAddr>,
    received: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sink {
    /// `count` sockets on loopback, looked at as often as our viewers look: the
    /// sender must not pay for waking a receiver in one case only.
    pub(super) fn open(count: usize) -> Result<Self, Error> {
        let options = Options {
            receive_buffer: Some(RECEIVE_BUFFER_BYTES),
            receive_timestamps: true,
            ..Options::default()
        };
        // On any address, as our viewers: that makes the kernel note each
        // datagram's destination.
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

    /// Datagrams so far, one sweep late.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Waits until nothing comes any more, at most a second.
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
            // Its panic has been printed.
            let _ = thread.join();
        }
    }
}
