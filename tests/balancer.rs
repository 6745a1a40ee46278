//! A balancer as simple as one can be: each connection goes to the next server that is ready and accepts
//! it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::server::Server;

/// Longest wait for a server to say whether it is ready.
const CHECK: Duration = Duration::from_secs(2);

/// A balancer in front of servers. It ends with the process.
pub(crate) struct Balancer {
    address: SocketAddr,
}

/// A server behind the balancer.
#[derive(Clone, Copy)]
struct Target {
    address: SocketAddr,
    /// Its public port of HTTP, which says whether it takes new clients.
    health: SocketAddr,
}

impl Balancer {
    /// Leads connections of HTTP.
    pub(crate) fn in_front_of(servers: &[&Server]) -> Result<Self, String> {
        Self::to(servers, |it| address_of(&it.url("")))
    }

    /// Leads connections of RTSP.
    pub(crate) fn for_rtsp(servers: &[&Server]) -> Result<Self, String> {
        Self::to(servers, |it| address_of(&it.rtsp_url("")))
    }

    fn to(
        servers: &[&Server],
        address: impl Fn(&Server) -> Result<SocketAddr, String>,
    ) -> Result<Self, String> {
        let targets = servers.iter().map(|it| {
            Ok(Target {
                address: address(it)?,
                health: address_of(&it.url(""))?,
            })
        });
        let targets: Vec<Target> = targets.collect::<Result<_, String>>()?;
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let turn = Arc::new(AtomicUsize::new(0));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (targets, turn) = (targets.clone(), Arc::clone(&turn));
                std::thread::spawn(move || lead(client, &targets, &turn));
            }
        });
        Ok(Self { address })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The RTSP URL of a stream.
    pub(crate) fn rtsp_url(&self, stream: &str) -> String {
        format!("rtsp://{}/{stream}", self.address)
    }
}

fn address_of(url: &str) -> Result<SocketAddr, String> {
    let (_, address) = url.split_once("://").ok_or(url)?;
    let address = address.trim_end_matches('/');
    address.parse().map_err(|error| format!("{url}: {error}"))
}

/// Passes bytes both ways until one end closes.
fn lead(client: TcpStream, targets: &[Target], turn: &AtomicUsize) {
    let first = turn.fetch_add(1, Ordering::Relaxed);
    let tries = (0..targets.len()).map(|it| targets[(first + it) % targets.len()]);
    let mut ready = tries.filter(|it| is_ready(it.health).unwrap_or(false));
    let Some(server) = ready.find_map(|it| TcpStream::connect(it.address).ok()) else {
        return;
    };
    let (Ok(mut from_client), Ok(mut to_server)) = (client.try_clone(), server.try_clone()) else {
        return;
    };
    std::thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Both);
    });
    let (mut from_server, mut to_client) = (server, client);
    let _ = io::copy(&mut from_server, &mut to_client);
    let _ = to_client.shutdown(Shutdown::Both);
}

/// Returns whether a server takes new clients.
fn is_ready(health: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect(health)?;
    stream.set_read_timeout(Some(CHECK))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: balancer\r\nConnection: close\r\n\r\n")?;
    let mut status = [0; 12];
    stream.read_exact(&mut status)?;
    Ok(status.ends_with(b" 200"))
}
