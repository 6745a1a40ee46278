use super::*;

use std::sync::atomic::{AtomicUsize, Ordering};

use glassline_runtime::Counter;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::auth::{Access, Auth, Listener, Login, LoginError, Requester, Users};
use crate::outbound::WebUrl;

/// A webhook that answers by the stream's name: `slow` never, `broken` with half of an object,
/// `wrong` with 401, `other` with 403, `error` with 500, `short` for one second, all others with 200.
struct Hook {
    url: WebUrl,
    questions: Arc<AtomicUsize>,
}

impl Hook {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let questions = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&questions);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let mut got = Vec::new();
                    while !got.ends_with(b"}") {
                        let read = stream.read_buf(&mut got).await;
                        if read.is_ok_and(|it| it == 0) {
                            return;
                        }
                    }
                    let got = String::from_utf8_lossy(&got).into_owned();
                    let is = |name: &str| got.contains(&format!("\"stream\":\"{name}\""));
                    let (status, body) = match () {
                        () if is("slow") => return std::future::pending().await,
                        () if is("broken") => (200, "{"),
                        () if is("wrong") => (401, ""),
                        () if is("other") => (403, ""),
                        () if is("error") => (500, ""),
                        () if is("short") => (200, r#"{"ttl_s": 1}"#),
                        () => (200, r#"{"user": "Ann"}"#),
                    };
                    // The others of the test come meanwhile.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    let answer = format!(
                        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n\
                         Content-Length: {}\r\n\r\n{body}",
                        body.len()
                    );
                    let _ = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        let url = WebUrl::parse(&format!("http://{address}/may")).expect("a URL");
        Self { url, questions }
    }

    fn count(&self) -> usize {
        self.questions.load(Ordering::SeqCst)
    }

    fn settings(&self) -> Webhook {
        Webhook {
            deadline_ms: 10_000,
            ..Webhook::at(self.url.clone())
        }
    }
}

fn question(last: u8, stream: &str) -> Question {
    Question {
        by: Requester::direct([192, 0, 2, last].into(), Listener::Http),
        action: Action::Read,
        protocol: "http",
        name: Some(stream.to_owned()),
        is_folder: false,
        credential: Credential::Token("a-token".to_owned()),
        query: None,
        user_agent: None,
    }
}

fn users(webhook: Webhook) -> Arc<Users> {
    Arc::new(Users::new(&Auth {
        webhook: Some(webhook),
        ..Auth::default()
    }))
}

#[tokio::test]
async fn equal_questions_are_asked_once_and_remembered() {
    let hook = Hook::start().await;
    let users = users(hook.settings());
    let asked = (0..50).map(|_| {
        let users = Arc::clone(&users);
        tokio::spawn(async move { users.log_in_by_asking(question(1, "cam")).await })
    });
    let mut names = Vec::new();
    for asked in asked.collect::<Vec<_>>() {
        names.push(asked.await.expect("no panic").expect("allowed"));
    }
    names.dedup();
    let [name] = &names[..] else {
        panic!("{names:?}")
    };
    assert_eq!(
        users.log_in_by_asking(question(1, "cam")).await.as_ref(),
        Ok(name)
    );
    assert_eq!(hook.count(), 1);
    assert!(users.may(name, Access::Read, "cam"));
    assert!(!users.may(name, Access::Read, "cam2") && !users.may(name, Access::Publish, "cam"));
    let other = users
        .log_in_by_asking(question(2, "cam"))
        .await
        .expect("allowed");
    assert_ne!(*name, other, "another address is another question");
    let (counters, is_held_back) = users.webhook().expect("there is one");
    let counts = [&counters.allowed, &counters.cached, &counters.denied].map(Counter::get);
    assert_eq!((counts, is_held_back), ([2, 50, 0], false));
}

#[tokio::test]
async fn without_a_cache_each_question_is_asked_and_names_the_same_holder() {
    let hook = Hook::start().await;
    let users = users(Webhook {
        cache_s: 0,
        ..hook.settings()
    });
    let first = users.log_in_by_asking(question(1, "cam")).await;
    assert_eq!(users.log_in_by_asking(question(1, "cam")).await, first);
    assert_eq!(hook.count(), 2);
}

#[tokio::test]
async fn rights_end_when_the_answer_says_so() {
    let hook = Hook::start().await;
    let users = users(hook.settings());
    let name = users
        .log_in_by_asking(question(1, "short"))
        .await
        .expect("allowed");
    assert!(!users.has_ended(&name) && users.have_ends());
    let until = users.until(&name).expect("it has an end");
    assert!(until <= Instant::now() + Duration::from_secs(1));
    tokio::time::sleep_until(until.into()).await;
    assert!(users.has_ended(&name) && !users.may(&name, Access::Read, "short"));
    assert!(users.expire(Instant::now()));
    users
        .log_in_by_asking(question(1, "short"))
        .await
        .expect("asked again");
    assert_eq!(hook.count(), 2);
}

#[tokio::test]
async fn what_is_no_clear_answer_lets_nobody_in() {
    let hook = Hook::start().await;
    let users = users(hook.settings());
    for (stream, expected) in [
        ("wrong", LoginError::Wrong),
        ("other", LoginError::Refused),
        ("error", LoginError::NoAnswer { retry_after: RETRY }),
        ("broken", LoginError::NoAnswer { retry_after: RETRY }),
        ("cam*", LoginError::Wrong),
    ] {
        assert_eq!(
            users.log_in_by_asking(question(1, stream)).await,
            Err(expected),
            "{stream}"
        );
    }
    assert_eq!(hook.count(), 4, "a name with `*` is not asked about");
    let nothing = Question {
        credential: Credential::Nothing,
        ..question(1, "cam")
    };
    assert_eq!(
        users.log_in_by_asking(nothing.clone()).await,
        Err(LoginError::Wrong)
    );
    assert_eq!(hook.count(), 4, "nor one who shows nothing");
    let nameless = Question {
        name: None,
        ..question(1, "cam")
    };
    let holder = users
        .log_in_by_asking(nameless)
        .await
        .expect("allowed, and nothing");
    assert!(!users.has_rights(&holder));
    let with_query = Question {
        query: Some("key=1".to_owned()),
        ..nothing
    };
    assert!(users.log_in_by_asking(with_query).await.is_ok());
    let publish = Question {
        action: Action::Publish,
        ..question(1, "cam")
    };
    let reading = self::users(Webhook {
        actions: vec![Action::Read],
        ..hook.settings()
    });
    assert_eq!(
        reading.log_in_by_asking(publish).await,
        Err(LoginError::Wrong)
    );
}

#[tokio::test]
async fn a_question_that_hangs_delays_no_other_and_ends_at_the_deadline() {
    let hook = Hook::start().await;
    let users = users(Webhook {
        deadline_ms: 1000,
        ..hook.settings()
    });
    // A stranger has many of them under way.
    let hanging: Vec<_> = (0..100)
        .map(|number| {
            let users = Arc::clone(&users);
            let slow = Question {
                query: Some(number.to_string()),
                ..question(66, "slow")
            };
            tokio::spawn(async move { users.log_in_by_asking(slow).await })
        })
        .collect();
    while hook.count() < 8 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    users
        .log_in_by_asking(question(1, "cam"))
        .await
        .expect("not delayed");
    assert!(
        hanging.iter().all(|it| !it.is_finished()),
        "it did not wait for them"
    );
    for hanging in hanging {
        let refused = hanging.await.expect("no panic").expect_err("no answer");
        assert!(refused.retry_after().is_some(), "{refused}");
    }
    assert!(hook.count() <= 8 + 1 + 8, "at most eight at a time");
}

#[tokio::test]
async fn a_webhook_that_is_down_is_left_alone_and_refuses() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let url = WebUrl::parse(&format!("http://{address}/")).expect("a URL");
    let users = users(Webhook::at(url));
    for number in 0..20 {
        let refused = users
            .log_in_by_asking(question(number, "cam"))
            .await
            .expect_err("nobody decides");
        assert!(matches!(refused, LoginError::NoAnswer { .. }), "{refused}");
    }
    let (counters, is_held_back) = users.webhook().expect("there is one");
    assert!(is_held_back);
    assert!(counters.held_back.get() >= 10, "{counters:?}");
    assert!(counters.failed.get() >= 5, "{counters:?}");
}

#[tokio::test]
async fn guesses_are_bounded_and_cost_the_webhook_little() {
    let hook = Hook::start().await;
    let users = users(hook.settings());
    let guess = |number: usize| Question {
        credential: Credential::Token(format!("guess-{number}")),
        ..question(1, "wrong")
    };
    let mut limited = 0;
    for number in 0..40 {
        match users.log_in_by_asking(guess(number)).await {
            Err(LoginError::Limited { .. }) => limited += 1,
            other => assert_eq!(other, Err(LoginError::Wrong)),
        }
    }
    assert!(limited >= 10, "{limited}");
    assert!(hook.count() <= 30, "{}", hook.count());
    users
        .log_in_by_asking(question(2, "cam"))
        .await
        .expect("another address");
    // A player that repeats what it has guesses nothing.
    for _ in 0..40 {
        let again = Question {
            by: Requester::direct([192, 0, 2, 3].into(), Listener::Http),
            ..guess(0)
        };
        assert_eq!(users.log_in_by_asking(again).await, Err(LoginError::Wrong));
    }
}

#[tokio::test]
async fn a_guess_whose_client_leaves_costs_as_much_as_another() {
    let hook = Hook::start().await;
    let users = users(hook.settings());
    let mut limited = 0;
    for number in 0..40 {
        let guess = || Question {
            credential: Credential::Token(format!("guess-{number}")),
            ..question(1, "wrong")
        };
        let mut login = Login::new(guess().by);
        let asking = users.ask(&mut login, guess());
        let left = tokio::time::timeout(Duration::ZERO, asking).await;
        assert!(!matches!(left, Ok(Ok(_))), "nobody is let in");
        drop(login);
        // Another client of the address comes for the answer.
        match users.log_in_by_asking(guess()).await {
            Err(LoginError::Limited { .. }) => limited += 1,
            other => assert_eq!(other, Err(LoginError::Wrong)),
        }
    }
    assert!(limited >= 10, "{limited}");
}

#[tokio::test]
async fn what_users_and_tokens_open_is_not_asked_about() {
    let hook = Hook::start().await;
    let account = crate::auth::Account::new(
        crate::auth::Name::parse("ann").expect("a name"),
        "pw",
        &[3; 16],
    );
    let users = Users::new(&Auth {
        read_token: crate::auth::Secret::new("look-1234567").ok(),
        users: vec![account],
        webhook: Some(hook.settings()),
        ..Auth::default()
    });
    assert!(users.checks_here("ann") && !users.checks_here("bob"));
    let by = question(1, "cam").by;
    let mut login = Login::new(by);
    let read = [Access::Read];
    assert_eq!(
        users.verify_token(&mut login, &read, "look-1234567"),
        Ok(())
    );
    // A token that the webhook knows is no failure.
    let wrong = users.verify_token(&mut login, &read, "a-token");
    assert_eq!(wrong, Err(LoginError::Wrong));
    assert_eq!(hook.count(), 0);
    assert!(users.ask(&mut login, question(1, "cam")).await.is_ok());
    assert_eq!(users.conclude(login, true), Ok(()));
    assert_eq!(users.failures().of(Listener::Http).wrong.get(), 0);
    let here = Requester::direct([127, 0, 0, 1].into(), Listener::Http);
    assert!(!users.is_open(Access::Publish, &here) && !users.is_open(Access::Read, &here));
}
