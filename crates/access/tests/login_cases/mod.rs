//! Servers that know credentials in different ways, and guesses that none of them accepts: every
//! listener counts each guess once.

use std::sync::Arc;

use glassline_access::auth::{
    Account, Action, Auth, Credential, Listener, LoginError, Name, Pattern, Requester, Secret,
    Users, Webhook,
};
use glassline_access::outbound::WebUrl;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Names that a client may ask for; no stream can have the last one.
pub(crate) const STREAMS: [&str; 2] = ["cam", "cam*"];

/// Guesses after which the address must have been told to wait.
const GUESSES: usize = 30;

/// A server with some ways to know credentials.
#[derive(Debug)]
pub(crate) struct LoginCase {
    name: String,
    auth: Auth,
}

/// Returns a case for each kind of credential and server.
pub(crate) async fn all() -> Vec<LoginCase> {
    let ann = Account {
        read: vec![Pattern::parse("*").expect("a pattern")],
        publish: vec![Pattern::parse("*").expect("a pattern")],
        ..Account::new(Name::parse("ann").expect("a name"), "pw", &[3; 16])
    };
    let url = refusing_webhook().await;
    let webhooks = [
        None,
        Some(vec![Action::Read]),
        Some(vec![Action::Publish]),
        Some(vec![Action::Call]),
        Some(vec![Action::Read, Action::Publish, Action::Call]),
    ];
    let mut cases = Vec::new();
    for actions in webhooks {
        for bits in 0..8_u8 {
            let has = |bit: u8| bits & bit != 0;
            let webhook = actions.clone().map(|actions| Webhook {
                actions,
                ..Webhook::at(url.clone())
            });
            let auth = Auth {
                read_token: has(1).then(|| Secret::new("look-1234567").expect("a token")),
                publish_token: has(2).then(|| Secret::new("show-1234567").expect("a token")),
                users: has(4).then(|| ann.clone()).into_iter().collect(),
                webhook,
                ..Auth::default()
            };
            cases.push(LoginCase {
                name: format!("read, publish, users {bits:03b}, webhook {actions:?}"),
                auth,
            });
        }
    }
    cases
}

impl LoginCase {
    /// Asks as a client of `listener` with nothing, and with guesses of each kind; `ask` returns the
    /// status of the answer.
    ///
    /// # Panics
    /// A guess is not counted once, or guesses are not limited.
    pub(crate) async fn walk(
        &self,
        listener: Listener,
        what: &str,
        ask: impl AsyncFn(&Arc<Users>, Credential) -> u16,
    ) {
        let guess = |kind: usize, number: usize| {
            let secret = format!("guess-{number}");
            let password = |user: &str| Credential::Password {
                user: user.to_owned(),
                password: secret.clone(),
            };
            match kind {
                0 => Credential::Token(secret.clone()),
                1 => password("ann"),
                _ => password("bob"),
            }
        };
        let knows_any = self.auth != Auth::default();
        for kind in 0..3 {
            let users = Arc::new(Users::new(&self.auth));
            let counts = || {
                let counters = users.failures().of(listener);
                (counters.wrong.get(), counters.limited.get())
            };
            ask(&users, Credential::Nothing).await;
            let case = format!("{} {what}: {} of kind {kind}", listener.as_str(), self.name);
            assert_eq!(counts(), (0, 0), "{case}: nothing is no guess");
            let mut last = 0;
            for number in 0..GUESSES {
                let before = counts();
                last = ask(&users, guess(kind, number)).await;
                let (wrong, limited) = counts();
                let counted = (wrong - before.0) + (limited - before.1);
                let expected = if last == 200 || !knows_any {
                    0..=1
                } else {
                    1..=1
                };
                assert!(expected.contains(&counted), "{case}: {counted} of {last}");
            }
            if last != 200 && knows_any {
                assert_eq!(last, 429, "{case}");
            }
        }
    }
}

/// Starts a webhook that knows nobody.
async fn refusing_webhook() -> WebUrl {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut got = Vec::new();
                while !got.ends_with(b"}") {
                    if stream.read_buf(&mut got).await.is_ok_and(|it| it == 0) {
                        return;
                    }
                }
                let answer = "HTTP/1.1 401 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    WebUrl::parse(&format!("http://{address}/may")).expect("a URL")
}

#[tokio::test]
async fn a_credential_of_an_operator_that_nothing_accepts_is_one_failure() {
    let by = Requester::direct([192, 0, 2, 1].into(), Listener::Admin);
    for case in all().await {
        let ask = async |users: &Arc<Users>, credential: Credential| {
            let operator = match credential {
                Credential::Nothing => Err(LoginError::Wrong),
                Credential::Token(token) => users.operator_by_token(&by, &token).await,
                Credential::Password { user, password } => {
                    users.operator_by_password(&by, &user, &password).await
                }
            };
            match operator {
                Ok(_) => 200,
                Err(LoginError::Limited { .. }) => 429,
                Err(_) => 401,
            }
        };
        case.walk(Listener::Admin, "operator", ask).await;
    }
}
