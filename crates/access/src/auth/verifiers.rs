//! What is checked beside users and known tokens: the tokens for all streams, the tokens of an
//! identity provider, and the webhook.

use std::sync::Arc;

use super::jwt::TokenVerifier;
use super::webhook::Asker;
use super::{Access, Action, Auth, KeyRingError, Secret};

/// The tokens for all streams, the identity provider and the webhook of a configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct Verifiers {
    pub(super) read_token: Option<Secret>,
    pub(super) publish_token: Option<Secret>,
    /// Verifies the tokens of an identity provider; `None` if none is configured.
    pub(super) jwt: Option<Arc<TokenVerifier>>,
    /// Asks the service that decides about rights; `None` if none is configured.
    pub(super) webhook: Option<Arc<Asker>>,
}

impl Verifiers {
    /// Returns those of `auth`. What is the same as in `before` goes on, with its keys and answers.
    pub(super) fn of(auth: &Auth, before: &Self) -> Self {
        let same_jwt = before
            .jwt
            .as_ref()
            .filter(|it| Some(it.settings()) == auth.jwt.as_ref());
        let new_jwt = || Some(Arc::new(TokenVerifier::new(auth.jwt.as_ref()?)));
        let same_webhook = before.webhook.as_ref();
        let same_webhook = same_webhook.filter(|it| Some(it.settings()) == auth.webhook.as_ref());
        let new_webhook = || {
            let counters = before.webhook.as_ref().map(|it| Arc::clone(it.counters()));
            let settings = auth.webhook.as_ref()?;
            Some(Asker::with_counters(settings, counters.unwrap_or_default()))
        };
        Self {
            read_token: auth.read_token.clone(),
            publish_token: auth.publish_token.clone(),
            jwt: same_jwt.cloned().or_else(new_jwt),
            webhook: same_webhook.cloned().or_else(new_webhook),
        }
    }

    /// Reads the keys and the certificates of what `before` does not have.
    ///
    /// # Errors
    /// Returns [`KeyRingError`] if a file cannot be used.
    pub(super) async fn load(&self, before: &Self) -> Result<(), KeyRingError> {
        if let Some(webhook) = &self.webhook {
            webhook.load().map_err(KeyRingError::Webhook)?;
        }
        match &self.jwt {
            Some(verifier) if !self.has_verifier_of(before) => verifier.ring().load().await,
            _ => Ok(()),
        }
    }

    /// Returns whether streams are read only with a credential even without users.
    pub(super) fn guard_reading(&self) -> bool {
        let asks = |it: &Arc<Asker>| it.decides(Action::from(Access::Read));
        self.read_token.is_some() || self.jwt.is_some() || self.webhook.as_ref().is_some_and(asks)
    }

    /// Returns whether rights may end by themselves.
    pub(super) const fn have_ends(&self) -> bool {
        self.jwt.is_some() || self.webhook.is_some()
    }

    /// Returns whether the tokens of this provider are those of `other`, too.
    pub(super) fn has_provider_of(&self, other: &Self) -> bool {
        match (&self.jwt, &other.jwt) {
            (Some(one), Some(other)) => one.settings().has_same_tokens(other.settings()),
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    /// Returns whether this webhook decides as that of `other` does.
    pub(super) fn has_webhook_of(&self, other: &Self) -> bool {
        match (&self.webhook, &other.webhook) {
            (Some(one), Some(other)) => one.settings().asks_the_same(other.settings()),
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    fn has_verifier_of(&self, other: &Self) -> bool {
        self.jwt.as_ref().map(Arc::as_ptr) == other.jwt.as_ref().map(Arc::as_ptr)
    }
}

impl PartialEq for Verifiers {
    /// Returns whether both are the same in force, not only equal.
    fn eq(&self, other: &Self) -> bool {
        self.read_token == other.read_token
            && self.publish_token == other.publish_token
            && self.has_verifier_of(other)
            && self.webhook.as_ref().map(Arc::as_ptr) == other.webhook.as_ref().map(Arc::as_ptr)
    }
}
