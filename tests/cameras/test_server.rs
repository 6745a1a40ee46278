//! The server that cases play in: one for all of them, or one of their own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use serde_json::Value;

use crate::http;
use crate::process::output_folder;
use crate::server::Server;

/// A server in which sources may be cameras of this machine.
pub(crate) struct TestServer(Arc<Server>);

/// The server of all cases that run now; the last one of them ends it.
static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());

/// Turns of the cases at the admin port, which has few places: one for changes, which the server makes
/// one after another, and one for looks.
static CHANGES: Mutex<()> = Mutex::new(());
static LOOKS: Mutex<()> = Mutex::new(());

impl TestServer {
    pub(crate) fn shared() -> Result<TestServer, String> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = shared.upgrade() {
            return Ok(TestServer(server));
        }
        let server = TestServer::alone("")?;
        *shared = Arc::downgrade(&server.0);
        Ok(server)
    }

    /// Starts a server of its own, with more configuration in YAML.
    pub(crate) fn alone(more: &str) -> Result<TestServer, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cameras-{}-{number}.json", std::process::id());
        let state = output_folder().join(name);
        let yaml = format!(
            "{more}admin:\n  sources: {{loopback: true}}\n  state_file: {}\n",
            state.display()
        );
        Ok(TestServer(Arc::new(Server::configured(&yaml, &[])?)))
    }

    pub(crate) fn rtsp_url(&self, stream: &str) -> String {
        self.0.rtsp_url(stream)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        self.0.url(path)
    }

    pub(crate) fn admin_url(&self, path: &str) -> String {
        self.0.admin_url(path)
    }

    /// Sends a request that changes something to the admin port, when it is this case's turn.
    pub(crate) fn change(
        &self,
        method: &str,
        path: &str,
        body: String,
    ) -> Result<http::Answer, String> {
        let _turn = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = [("Content-Type", "application/json")];
        http::request(method, &self.admin_url(path), &kind, body)
    }

    pub(crate) fn printed(&self) -> String {
        self.0.printed()
    }

    pub(crate) fn stream(&self, name: &str) -> Result<Value, String> {
        let _turn = LOOKS.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.stream(name)
    }

    /// Ends the server, which is that of one case, by SIGTERM.
    pub(crate) fn terminate(&mut self, timeout: Duration) -> Result<(), String> {
        let server = Arc::get_mut(&mut self.0).ok_or("others use the server, too")?;
        server.stop(timeout).map(drop)
    }
}
