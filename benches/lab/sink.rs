//! Sockets that receive the floor's packets, as the viewers of a load test do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use glassline_net::{Options, ReceiveBatch, UdpSocket};

use crate::generator::{RECEIVE_BUFFER_BYTES, SWEEP};

/// Receives and counts on a thread of its own until dropped.
pub(crate) struct Sink {
    addresses: Vec<SocketAddr>,
    received: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sink {
    /// `count` sockets on loopback, looked at as often as our viewers look: the
    /// sender must not pay for waking a receiver in one case only.
    pub(crate) fn open(count: usize) -> Result<Self, String> {
        let options = Options {
            receive_buffer: Some(RECEIVE_BUFFER_BYTES),
            ..Options::default()
        };
        // On any address, as our viewers: that makes the kernel note each
        // datagram's destination.
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        let sockets: Result<Vec<_>, _> =
            (0..count).map(|_| UdpSocket::bind(any, &options)).collect();
        let sockets = sockets.map_err(|error| error.to_string())?;
        let loopback = |socket: &UdpSocket| ([127, 0, 0, 1], socket.local_addr().port()).into();
        let addresses = sockets.iter().map(loopback).collect();
        let received = Arc::new(AtomicU64::new(0));
        let over = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let (received, over) = (Arc::clone(&received), Arc::clone(&over));
            move || {
                let mut batch = ReceiveBatch::new(ReceiveBatch::CAPACITY_MAX);
                while !over.load(Ordering::Relaxed) {
                    for socket in &sockets {
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
        });
        Ok(Self {
            addresses,
            received,
            over,
            thread: Some(thread),
        })
    }

    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Datagrams so far, one sweep late.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
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
