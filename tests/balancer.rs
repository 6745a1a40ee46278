//! A balancer as simple as one can be: each connection goes to the next server that accepts it.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::server::Server;

/// A balancer in front of servers. It ends with the process.
pub(crate) struct Balancer {
    address: SocketAddr,
}

impl Balancer {
    pub(crate) fn in_front_of(servers: &[&Server]) -> Result<Self, String> {
        let addresses = servers.iter().map(|it| address_of(&it.url("")));
        let addresses: Vec<SocketAddr> = addresses.collect::<Result<_, _>>()?;
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let turn = Arc::new(AtomicUsize::new(0));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (addresses, turn) = (addresses.clone(), Arc::clone(&turn));
                std::thread::spawn(move || lead(client, &addresses, &turn));
            }
        });
        Ok(Self { address })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

fn address_of(url: &str) -> Result<SocketAddr, String> {
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    address.parse().map_err(|error| format!("{url}: {error}"))
}

/// Passes bytes both ways until one end closes.
fn lead(client: TcpStream, servers: &[SocketAddr], turn: &AtomicUsize) {
    let first = turn.fetch_add(1, Ordering::Relaxed);
    let mut tries = (0..servers.len()).map(|it| servers[(first + it) % servers.len()]);
    let Some(server) = tries.find_map(|it| TcpStream::connect(it).ok()) else {
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
