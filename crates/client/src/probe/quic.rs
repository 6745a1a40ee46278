//! The QUIC handshake of a MoQ server.

use std::time::{Duration, Instant};

use glassline_congestion::Algorithm;
use glassline_quic::moq::{self, Address, ConnectError, Options, Role};
use glassline_quic::{ClientEndpoint, CongestionControl, Trust};

/// Longest time for which a session stays open. Its request needs no more than the handshake took.
const CLOSED_AFTER_MAX: Duration = Duration::from_millis(500);

/// Opens a session with the server at `host` and `port`, whatever its certificate is, and closes it.
/// Returns the time that this took. A server that refuses our rights has been reached.
///
/// # Errors
/// The reason, as a text.
pub async fn session(host: &str, port: u16, patience: Duration) -> Result<Duration, String> {
    let begun = Instant::now();
    let address = Address::parse(&format!("moq://{host}:{port}/doctor"));
    let address = address.map_err(|error| error.to_string())?;
    let endpoint = ClientEndpoint::new().map_err(|error| error.to_string())?;
    let options = Options {
        congestion: CongestionControl::new(Algorithm::Cubic),
        trust: Trust::Anyone,
        role: Role::Subscriber,
    };
    let connecting = moq::connect(&endpoint, &address, options);
    match tokio::time::timeout(patience, connecting).await {
        Ok(Ok(session)) => {
            let took = begun.elapsed();
            // A session that is closed before the server has read its request is a failure there.
            tokio::time::sleep(took.min(CLOSED_AFTER_MAX)).await;
            drop(session);
            Ok(took)
        }
        Ok(Err(ConnectError::Ended(_))) => Ok(begun.elapsed()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!(
            "no answer within {} s",
            patience.as_secs_f64().ceil()
        )),
    }
}
