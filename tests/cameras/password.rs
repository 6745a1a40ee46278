//! Passwords of cameras with signs that mean something in a URL.

use std::net::TcpListener;

use libtest_mimic::{Failed, Trial};
use serde_json::json;

use super::test_server::TestServer;
use crate::http;

/// The part of each password that must never be seen.
const SECRET: &str = "secret9";

/// Passwords as people write them, unescaped (mediamtx#2973, mediamtx#2069, opencv-python#848).
const PASSWORDS: [&str; 9] = [
    "12345/secret9",
    "554#secret9",
    "12?secret9",
    "s/secret9",
    "pa#secret9",
    "p@secret9",
    "p%zzsecret9",
    "p^secret9",
    "p:secret9",
];

pub(super) fn trial() -> Trial {
    Trial::test("cameras::password::is_never_shown", || {
        crate::sharing::beside(is_never_shown)
    })
}

/// A source whose password is not escaped is refused or dialled; API, answers and log never show it.
fn is_never_shown() -> Result<(), Failed> {
    let server = TestServer::alone("")?;
    // Nobody answers here, and nobody else is asked.
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    for (index, password) in PASSWORDS.iter().enumerate() {
        let source = format!("rtsp://admin:{password}@{address}/live");
        let path = format!("/api/v1/sources/pw{index}");
        let answer = server.change("PUT", &path, json!({"source": source}).to_string())?;
        let shown = ["sources", "streams", "events"].map(|what| {
            let url = server.admin_url(&format!("/api/v1/{what}"));
            http::get(&url).map(|it| it.body)
        });
        let log = server.printed();
        for text in shown.into_iter().chain([Ok(answer.body.clone()), Ok(log)]) {
            let text = text?;
            if let Some(line) = text.lines().find(|line| line.contains(SECRET)) {
                return Err(format!("{password}: {line}").into());
            }
        }
        let is_refused_in_words = answer.status == 422 && answer.body.contains('%');
        if !(matches!(answer.status, 200 | 201) || is_refused_in_words) {
            let told = "no word of how to write it:";
            return Err(format!("{password}: {told} {} {}", answer.status, answer.body).into());
        }
    }
    Ok(())
}
