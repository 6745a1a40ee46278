//! What the listener does while sessions go on: figures, and certificates in time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_runtime::calendar;
use tokio::sync::watch;

use super::certificate_source::{self, CertificateSource};
use super::shared::Shared;

/// Measures sessions once a second, makes another certificate in time, and uses the one of the
/// store when that changes.
pub(super) async fn look_after(
    source: CertificateSource,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    let mut changes = source.watch();
    loop {
        let has_changed = tokio::select! {
            _ = ticks.tick() => false,
            () = certificate_source::changed(&mut changes) => true,
            _ = stopped.wait_for(|stop| *stop) => return,
        };
        shared.accounts.measure(Instant::now());
        let now = calendar::now();
        let is_due = match source.tend(now) {
            Ok(is_due) => is_due,
            Err(error) => {
                tracing::error!(%error, "cannot make the next QUIC certificate");
                false
            }
        };
        if !is_due && !has_changed {
            continue;
        }
        shared.next_fingerprint.replace(source.next());
        let renewed = source.identity(now);
        match renewed.and_then(|it| shared.renew(&it)) {
            Ok(true) => {
                let sha256 = shared.fingerprint();
                tracing::info!(%sha256, "QUIC certificate renewed: clients that pin it need this fingerprint");
            }
            Ok(false) => {
                if let Some(sha256) = source.next() {
                    tracing::info!(%sha256, "QUIC certificate announced: in three days clients that pin it need this fingerprint");
                }
            }
            Err(error) => {
                tracing::error!(%error, "cannot renew the QUIC certificate: the previous one stays in use");
            }
        }
    }
}
