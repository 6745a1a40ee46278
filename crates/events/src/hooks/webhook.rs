//! Webhooks: one POST of JSON for each event, signed if a secret is configured.

use std::time::Duration;

use axum::http::{Request, StatusCode, header};
use bytes::Bytes;
use glassline_access::outbound::{
    Bounds, BoxError, ClientError, HttpClient, SIGNATURE, Signer, WebUrl,
};
use http_body_util::Full;

use super::event::Event;
use super::settings::Hook;

/// Largest answer that is read, in bytes. Its content does not matter.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Sends the events of one hook.
#[derive(Debug)]
pub(super) struct Webhook {
    client: HttpClient,
    url: WebUrl,
    signer: Option<Signer>,
    bounds: Bounds,
}

/// The reason why an event was not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum WebhookError {
    /// Another attempt may work.
    #[error("{0}")]
    Retry(BoxError),
    /// The receiver does not want it.
    #[error("status {0}")]
    Refused(StatusCode),
}

impl Webhook {
    /// Creates the sender of `hook`, whose URL is `url`.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the file of trusted certificates cannot be used.
    pub(super) fn new(hook: &Hook, url: &WebUrl) -> Result<Self, ClientError> {
        let secret = hook.secret.as_ref();
        let signer = secret.map(|it| Signer::new(it.reveal().as_bytes()));
        Ok(Self {
            client: HttpClient::new(hook.roots.as_deref())?,
            url: url.clone(),
            signer,
            bounds: Bounds {
                time: hook.timeout(),
                body_bytes: ANSWER_BYTES_MAX,
            },
        })
    }

    /// Sends `event` once.
    ///
    /// # Errors
    /// Returns [`WebhookError`], which tells whether another attempt may work.
    pub(super) async fn send(&self, event: &Event) -> Result<(), WebhookError> {
        let body = serde_json::to_vec(event).expect("an event is plain data");
        let mut request = Request::post(self.url.as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .header("x-glassline-event", event.kind.as_str());
        if let Some(signer) = &self.signer {
            request = request.header(SIGNATURE, signer.sign(&body));
        }
        let request = request.body(Full::new(Bytes::from(body)));
        let request = request.map_err(|error| WebhookError::Retry(error.into()))?;
        let answer = self.client.fetch(request, self.bounds).await;
        let status = answer.map_err(WebhookError::Retry)?.status();
        if status.is_success() {
            return Ok(());
        }
        let may_change = status.is_server_error()
            || matches!(
                status,
                StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT
            );
        match may_change {
            true => Err(WebhookError::Retry(format!("status {status}").into())),
            false => Err(WebhookError::Refused(status)),
        }
    }
}

/// Returns the pause before attempt number `attempt`, counted from 1 for the first repetition: 1 s,
/// doubled up to 60 s.
pub(super) fn pause(attempt: u32) -> Duration {
    let doublings = attempt.saturating_sub(1).min(6);
    Duration::from_secs(1 << doublings).min(Duration::from_secs(60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_minute() {
        let pauses: Vec<u64> = (1..=10).map(|attempt| pause(attempt).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
    }
}
