//! Hooks: commands and webhooks that are told what happens to streams.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use glassline_access::auth::Pattern;
use glassline_config::{EventKind, Hook, Secret, WebUrl};
use serde_json::Value;

use crate::peer::{Peer, SOON};
use crate::running::{Running, STREAM};
use crate::source::{Film, Source};

/// A request that a receiver of webhooks got: head and body.
type Got = (String, String);

/// Starts a receiver that answers with `statuses` in turn, the last one for ever.
fn receiver(statuses: &'static [u16]) -> (SocketAddr, Receiver<Got>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let (sender, got) = channel();
    // The thread ends with the process.
    std::thread::spawn(move || receive(&listener, statuses, &sender));
    (address, got)
}

fn receive(listener: &TcpListener, statuses: &[u16], sender: &Sender<Got>) {
    for (number, stream) in listener.incoming().enumerate() {
        let mut stream = stream.expect("a connection");
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|it| it > 0) {
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).expect("text").to_lowercase();
        let length = head.split("content-length: ").nth(1);
        let length = length.and_then(|it| it.lines().next()?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).expect("a body");
        let status = statuses.get(number).or(statuses.last()).expect("one");
        let _ = write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
        let body = String::from_utf8(body).expect("text");
        if sender.send((head, body)).is_err() {
            return;
        }
    }
}

fn hook(on: &[EventKind]) -> Hook {
    Hook {
        on: on.to_vec(),
        streams: vec![Pattern::parse("*").expect("a pattern")],
        command: None,
        url: None,
        secret: None,
        roots: None,
        timeout_s: 20,
        retries: 3,
    }
}

fn to(address: SocketAddr, on: &[EventKind]) -> Hook {
    Hook {
        url: WebUrl::parse(&format!("http://{address}/told?by=cam")).ok(),
        ..hook(on)
    }
}

fn next(got: &Receiver<Got>) -> (String, Value) {
    let (head, body) = got.recv_timeout(SOON).expect("an event in time");
    (head, serde_json::from_str(&body).expect("JSON"))
}

/// Waits until a metric has this value for these labels.
fn await_metric(running: &Running, name: &str, labels: &str, value: u64) {
    let end = Instant::now() + SOON;
    loop {
        let values = running.metric(name);
        if values
            .iter()
            .any(|(at, count)| at == labels && *count == value)
        {
            return;
        }
        assert!(Instant::now() < end, "{values:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_webhook_is_told_of_publishers_and_viewers_in_their_order_with_a_signature() {
    let (address, got) = receiver(&[204]);
    let secret = "a secret of both".replace(' ', "-");
    let running = Running::with(1, |config| {
        let on = [
            EventKind::Publish,
            EventKind::FirstViewer,
            EventKind::LastViewer,
            EventKind::Unpublish,
        ];
        config.hooks = vec![Hook {
            secret: Secret::new(&secret).ok(),
            ..to(address, &on)
        }];
    });
    let source = Source::start(&running.stream(), Film::default());
    let (head, event) = next(&got);
    assert!(head.starts_with("post /told?by=cam "), "{head}");
    assert!(head.contains("x-glassline-event: publish\r\n"), "{head}");
    assert_eq!(event["event"], "publish");
    assert_eq!(event["stream"], STREAM);
    assert!(
        event["time_ms"]
            .as_u64()
            .is_some_and(|it| it > 1_600_000_000_000)
    );
    let peer = Peer::joined(&running);
    let (head, body) = got.recv_timeout(SOON).expect("an event in time");
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, body.as_bytes());
    let tag: String = tag
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert!(
        head.contains(&format!("x-glassline-signature: sha256={tag}\r\n")),
        "{head}"
    );
    assert!(body.contains("\"first_viewer\""), "{body}");
    assert_eq!(peer.delete().status, 200);
    assert_eq!(next(&got).1["event"], "last_viewer");
    drop(source);
    assert_eq!(next(&got).1["event"], "unpublish");
    await_metric(
        &running,
        "hook_events_total",
        "event=\"unpublish\",result=\"done\"",
        1,
    );
}

#[test]
fn a_webhook_that_fails_is_repeated_and_one_that_refuses_is_not() {
    let (address, got) = receiver(&[503, 204]);
    let (refusing, refused) = receiver(&[404]);
    let running = Running::with(1, |config| {
        config.hooks = vec![
            to(address, &[EventKind::Publish]),
            to(refusing, &[EventKind::Publish]),
        ];
    });
    let _source = Source::start(&running.stream(), Film::default());
    assert_eq!(next(&got).1, next(&got).1, "the same event again");
    assert_eq!(next(&refused).1["event"], "publish");
    await_metric(
        &running,
        "hook_events_total",
        "event=\"publish\",result=\"done\"",
        1,
    );
    await_metric(
        &running,
        "hook_events_total",
        "event=\"publish\",result=\"failed\"",
        1,
    );
    assert_eq!(running.total("hook_retries_total"), 1);
    assert!(refused.try_recv().is_err(), "it is not asked again");
}

#[cfg(unix)]
#[test]
fn a_slow_command_holds_up_neither_media_nor_other_hooks() {
    let number: u64 = rand::random();
    let out: PathBuf = std::env::temp_dir().join(format!("glassline-hooks-{number:x}"));
    let command = |script: &str| {
        let out = out.display().to_string();
        Some(["/bin/sh", "-c", script, &out].map(str::to_owned).to_vec())
    };
    let running = Running::with(1, |config| {
        let slow = Hook {
            command: command("sleep 600"),
            timeout_s: 300,
            ..hook(&[EventKind::Publish])
        };
        let other = Hook {
            command: command("echo \"$1 $2\" >> \"$0\""),
            ..hook(&[EventKind::Publish, EventKind::FirstViewer])
        };
        let elsewhere = Hook {
            streams: vec![Pattern::parse("hall").expect("a pattern")],
            command: command("echo wrong >> \"$0\""),
            ..hook(&[EventKind::Publish])
        };
        config.hooks = vec![slow, other, elsewhere];
    });
    let _source = Source::start(&running.stream(), Film::default());
    let _peer = Peer::joined(&running);
    let end = Instant::now() + SOON;
    let written = || std::fs::read_to_string(&out).unwrap_or_default();
    while written().lines().count() < 2 {
        assert!(Instant::now() < end, "{}", written());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(written(), "publish cam\nfirst_viewer cam\n");
    std::fs::remove_file(&out).expect("it is there");
}
