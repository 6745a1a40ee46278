//! Credentials: how a client answers a 401.

use std::time::Instant;

use super::super::exchange::{AnsweredRequest, Attempt};
use super::{Closed, Core, State};
use crate::auth::{Authorization, Authorizer, Challenge};
use crate::message::Response;

impl Core {
    /// Sends a request again that was answered with 401: once with credentials, and once more if
    /// the server gives a fresh nonce. Many servers do so without `stale=true`.
    ///
    /// # Errors
    /// Returns why there are no credentials to send.
    pub(super) fn log_in(
        &mut self,
        now: Instant,
        answered: AnsweredRequest,
        response: &Response,
    ) -> Result<(), Closed> {
        let AnsweredRequest { request, attempt } = answered;
        let user = self.user.clone().ok_or(Closed::CredentialsMissing)?;
        let challenges = Challenge::parse_all(&response.headers);
        let challenge = Challenge::strongest(challenges).ok_or_else(|| {
            let offered = response.headers.get("WWW-Authenticate");
            Closed::UnknownAuthentication {
                offered: offered.unwrap_or("nothing").to_owned(),
            }
        })?;
        let shown = request.headers.get("Authorization");
        let attempt = match shown.map(Authorization::parse) {
            None => Attempt::Challenged,
            Some(Some(shown)) if attempt != Attempt::Renewed && challenge.is_new_to(&shown) => {
                Attempt::Renewed
            }
            Some(_) => return Err(Closed::CredentialsRefused { user: user.name }),
        };
        self.authorizer = Some(Authorizer::new(user, challenge, self.config.secret));
        self.transmit(now, request, attempt);
        Ok(())
    }

    /// Returns whether the server may answer on another connection: it ended this one after its
    /// 401, before it read the credentials.
    pub(in crate::client) fn may_reopen(&self) -> bool {
        let was_challenged = self.exchange.attempt() == Some(Attempt::Challenged);
        self.state == State::Asking && was_challenged && !self.is_reopened
    }

    /// Returns why the session ends with its connection.
    pub(in crate::client) fn ended(&self) -> Closed {
        match (self.state, self.exchange.attempt(), &self.user) {
            (State::Leaving, ..) => Closed::Left,
            // The server closed the connection behind the 401.
            (_, Some(Attempt::Renewed), Some(user)) => Closed::CredentialsRefused {
                user: user.name.clone(),
            },
            _ => Closed::ConnectionEnded {
                waiting_for: self.exchange.method().cloned(),
            },
        }
    }
}
