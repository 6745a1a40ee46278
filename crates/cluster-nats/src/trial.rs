//! A trial of the options: each server is tried once.

use crate::connection::{ConnectFailure, Connection};
use crate::engine::{NOT_SYNCED, check_buckets};
use crate::monitoring;
use crate::options::Options;

/// The outcome of trying one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Address of the server.
    pub server: String,
    /// Warnings about its settings, or why it cannot be used.
    pub outcome: Result<Vec<String>, ConnectFailure>,
}

/// Connects to each of the servers, and makes or compares the buckets. Takes some seconds a server at
/// most.
pub async fn try_servers(options: &Options) -> Vec<Tried> {
    let mut all = Vec::new();
    for server in &options.servers {
        let outcome = match Connection::open(options, server, |_| {}).await {
            Ok(connection) => check_buckets(&connection, options, server).await,
            Err(failure) => Err(failure),
        };
        all.push(Tried {
            server: server.to_string(),
            outcome: outcome.map(|checked| checked.warnings),
        });
    }
    if let (Some(url), Some(last)) = (&options.monitoring, all.last_mut())
        && let Ok(warnings) = &mut last.outcome
    {
        match monitoring::sync_always(url).await {
            Ok(true) => {}
            Ok(false) => warnings.push(NOT_SYNCED.to_owned()),
            Err(error) => warnings.push(format!("{url}: {error}")),
        }
    }
    all
}
