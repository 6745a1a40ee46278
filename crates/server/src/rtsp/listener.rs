//! Where clients come in: a port that all threads share.

use std::io;
use std::net::{SocketAddr, TcpListener};

use crate::config::Identity;

/// One port, opened once for each thread.
#[derive(Debug)]
pub struct Listener {
    local: SocketAddr,
    pub(super) listeners: Vec<TcpListener>,
    /// With one, those who come in speak TLS.
    pub(super) identity: Option<Identity>,
}

impl Listener {
    /// Opens `address` for `threads` threads; port 0 takes a free one.
    ///
    /// # Errors
    /// If the port is taken.
    pub fn open(
        address: SocketAddr,
        threads: usize,
        identity: Option<Identity>,
    ) -> io::Result<Self> {
        // Listeners that share a port would silently join those of another process,
        // and each would get half of the clients.
        glassline_net::tcp_port_is_free(address)?;
        let first = glassline_net::listen(address, true)?;
        let local = first.local_addr()?;
        let mut listeners = vec![first];
        for _ in 1..threads {
            listeners.push(glassline_net::listen(local, true)?);
        }
        Ok(Self {
            local,
            listeners,
            identity,
        })
    }

    /// What it shows to those who come in, inside TLS.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// What its URLs begin with.
    pub fn name(&self) -> &'static str {
        match self.identity {
            Some(_) => "rtsps",
            None => "rtsp",
        }
    }

    /// Where clients connect.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }
}
