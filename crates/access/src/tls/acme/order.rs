//! One order of a certificate, from the account to the chain (RFC 8555 §7.1).

use std::sync::Arc;
use std::time::Duration;

use instant_acme::{
    Account, AuthorizationHandle, AuthorizationStatus, ChallengeType, Error, Identifier,
    NewAccount, NewOrder, Order, OrderStatus, RetryPolicy,
};

use super::error::detail;
use super::kept::{Issued, Kept};
use super::transport::Transport;
use super::{Acme, AcmeError, AcmeName, ChallengeKind, Challenges};

/// Port to which an authority connects for TLS-ALPN-01 (RFC 8737 §3).
const HTTPS_PORT: u16 = 443;

/// Profile for certificates of a week, the only one in which Let's Encrypt has addresses.
const SHORT_LIVED: &str = "shortlived";

/// How often and for how long the authority is asked for the progress of an order.
const POLLING: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .backoff(1.5)
    .timeout(Duration::from_secs(120));

/// The authority and what this server orders there.
#[derive(Debug)]
pub(super) struct Authority {
    settings: Acme,
    transport: Transport,
    challenges: Arc<Challenges>,
    kind: ChallengeKind,
}

impl Authority {
    /// Creates the client; `https_port` is the port of HTTPS, if it listens.
    pub(super) fn new(settings: Acme, transport: Transport, https_port: Option<u16>) -> Self {
        let usual = match https_port {
            Some(HTTPS_PORT) => ChallengeKind::TlsAlpn01,
            _ => ChallengeKind::Http01,
        };
        Self {
            kind: settings.challenge.unwrap_or(usual),
            settings,
            transport,
            challenges: Arc::default(),
        }
    }

    pub(super) const fn settings(&self) -> &Acme {
        &self.settings
    }

    pub(super) const fn challenges(&self) -> &Arc<Challenges> {
        &self.challenges
    }

    pub(super) fn directory(&self) -> &str {
        &self.settings.directory
    }

    /// Returns the pause that the authority's latest refusal asked for, once.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        self.transport.take_retry_after()
    }

    /// Returns the account that is kept, or makes one.
    ///
    /// # Errors
    /// Returns [`AcmeError`] if the authority does not answer or refuses.
    pub(super) async fn account(&self, kept: &Kept) -> Result<Account, AcmeError> {
        let Some(credentials) = kept.account(self.directory())? else {
            return self.new_account(kept).await;
        };
        let builder = Account::builder_with_http(Box::new(self.transport.clone()));
        let account = builder.from_credentials(credentials).await;
        account.map_err(|error| self.fault(error))
    }

    /// Makes an account and keeps it.
    ///
    /// # Errors
    /// As [`account`](Self::account).
    pub(super) async fn new_account(&self, kept: &Kept) -> Result<Account, AcmeError> {
        let builder = Account::builder_with_http(Box::new(self.transport.clone()));
        let contact = self.settings.email.as_ref();
        let contact: Vec<String> = contact
            .map(|it| format!("mailto:{it}"))
            .into_iter()
            .collect();
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        let account = NewAccount {
            contact: &contact,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let directory = self.directory().to_owned();
        let created = builder.create(&account, directory, None).await;
        let (account, credentials) = created.map_err(|error| self.fault(error))?;
        kept.keep_account(self.directory(), credentials).await?;
        Ok(account)
    }

    /// Orders a certificate and answers the challenges.
    ///
    /// # Errors
    /// Returns [`AcmeError`] with the name, the challenge and what to do.
    pub(super) async fn order(&self, account: &Account) -> Result<Issued, AcmeError> {
        let names = self.settings.names.iter();
        let identifiers: Vec<Identifier> = names.map(AcmeName::identifier).collect();
        let mut wanted = NewOrder::new(&identifiers);
        if let Some(profile) = self.profile(account) {
            wanted = wanted.profile(profile);
        }
        let fault = |error| self.fault(error);
        let mut order = account.new_order(&wanted).await.map_err(fault)?;
        let answers = self.challenges.begin();
        self.answer(&mut order).await?;
        match order.poll_ready(&POLLING).await {
            Ok(OrderStatus::Ready) => {}
            Ok(_) | Err(Error::Api(_)) => return Err(self.failure(&mut order).await),
            Err(error) => return Err(fault(error)),
        }
        drop(answers);
        let key = order.finalize().await.map_err(fault)?;
        let chain = order.poll_certificate(&POLLING).await.map_err(fault)?;
        Ok(Issued { chain, key })
    }

    /// Returns the profile to ask for; `None` leaves it to the authority.
    fn profile(&self, account: &Account) -> Option<&str> {
        if let Some(profile) = &self.settings.profile {
            return Some(profile);
        }
        let is_address = |name: &AcmeName| matches!(name, AcmeName::Address(_));
        let has_address = self.settings.names.iter().any(is_address);
        let is_offered = account
            .profiles()
            .any(|profile| profile.name == SHORT_LIVED);
        (has_address && is_offered).then_some(SHORT_LIVED)
    }

    /// Prepares an answer for each name that is not verified yet, and tells the authority to look.
    async fn answer(&self, order: &mut Order) -> Result<(), AcmeError> {
        let kind = match self.kind {
            ChallengeKind::Http01 => ChallengeType::Http01,
            ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
        };
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(|error| self.fault(error))?;
            if authorization.status == AuthorizationStatus::Valid {
                continue;
            }
            let name = name_of(&authorization);
            let offered = authorization.challenges.iter();
            let offered: Vec<String> = offered.map(|it| label(&it.r#type)).collect();
            let Some(mut challenge) = authorization.challenge(kind.clone()) else {
                return Err(AcmeError::NotOffered {
                    name,
                    kind: self.kind,
                    offered: offered.join(", "),
                });
            };
            let key_authorization = challenge.key_authorization();
            match self.kind {
                ChallengeKind::Http01 => {
                    let token = challenge.token.clone();
                    let answer = key_authorization.as_str();
                    self.challenges.answer_http(&token, answer);
                }
                ChallengeKind::TlsAlpn01 => {
                    let digest = key_authorization.digest();
                    self.challenges.answer_tls(&name, digest.as_ref())?;
                }
            }
            challenge.set_ready().await.map_err(|error| match error {
                Error::Api(problem) => self.challenge_failed(name.clone(), detail(&problem)),
                error => self.fault(error),
            })?;
        }
        Ok(())
    }

    /// Returns why the order failed: the first name that the authority could not verify.
    async fn failure(&self, order: &mut Order) -> AcmeError {
        let mut authorizations = order.authorizations();
        while let Some(Ok(mut authorization)) = authorizations.next().await {
            if let Err(error) = authorization.refresh().await {
                return self.fault(error);
            }
            if authorization.status == AuthorizationStatus::Valid {
                continue;
            }
            let mut problems = authorization.challenges.iter();
            if let Some(problem) = problems.find_map(|challenge| challenge.error.as_ref()) {
                return self.challenge_failed(name_of(&authorization), detail(problem));
            }
        }
        let problem = order.state().error.clone();
        match problem {
            Some(problem) => self.fault(Error::Api(problem)),
            None => self.fault(Error::Str("the order is invalid, without a reason")),
        }
    }

    const fn challenge_failed(&self, name: AcmeName, problem: String) -> AcmeError {
        AcmeError::Challenge {
            name,
            kind: self.kind,
            problem,
        }
    }

    fn fault(&self, error: Error) -> AcmeError {
        let directory = self.directory().to_owned();
        match error {
            Error::Api(problem) => AcmeError::Refused {
                names: self.settings.names_text(),
                problem,
            },
            Error::Timeout(_) => AcmeError::Slow { directory },
            error => AcmeError::Unreachable {
                directory,
                reason: error.to_string(),
            },
        }
    }
}

fn name_of(authorization: &AuthorizationHandle<'_>) -> AcmeName {
    match authorization.identifier().identifier {
        Identifier::Ip(address) => AcmeName::Address(*address),
        Identifier::Dns(host) => AcmeName::Host(host.clone()),
        other => AcmeName::Host(format!("{other:?}")),
    }
}

/// Returns the name of a kind of challenge in ACME.
fn label(kind: &ChallengeType) -> String {
    match kind {
        ChallengeType::Http01 => "http-01".to_owned(),
        ChallengeType::Dns01 => "dns-01".to_owned(),
        ChallengeType::TlsAlpn01 => "tls-alpn-01".to_owned(),
        ChallengeType::Unknown(name) => name.clone(),
        other => format!("{other:?}"),
    }
}
