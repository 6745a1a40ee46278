//! A reload of rights: verifiers are made ready first, with keys and certificates read, and put in force
//! together with the users.

use std::sync::atomic::Ordering;

use super::known_tokens::KnownTokens;
use super::user_table::Layers;
use super::verifiers::Verifiers;
use super::{Auth, KeyRingError, Users};

/// A section `auth` that is ready to be put in force.
#[derive(Debug)]
pub struct PreparedAuth {
    auth: Auth,
    verifiers: Verifiers,
}

impl Users {
    /// Makes `auth` ready to be put in force: reads keys and certificates. Nothing has changed until
    /// [`apply`](Self::apply).
    ///
    /// # Errors
    /// Returns [`KeyRingError`] if a file cannot be used.
    pub async fn prepare(&self, auth: &Auth) -> Result<PreparedAuth, KeyRingError> {
        let before = self.table().verifiers.clone();
        let verifiers = Verifiers::of(auth, &before);
        verifiers.load(&before).await?;
        let auth = auth.clone();
        Ok(PreparedAuth { auth, verifiers })
    }

    /// Puts users, tokens, provider and webhook in force at once. Returns false if they are the same
    /// as before. What was granted before must be checked again, since
    /// [`generation`](Self::generation) has changed.
    pub fn apply(&self, prepared: PreparedAuth) -> bool {
        let PreparedAuth { auth, verifiers } = prepared;
        if verifiers.have_ends() {
            self.have_ends.store(true, Ordering::Relaxed);
        }
        self.change(|layers: &mut Layers| {
            layers.configured = auth.users;
            layers.tokens = KnownTokens::new(&auth.tokens);
            layers.verifiers = verifiers;
        })
    }
}
