use super::test_server::{self, Manners};
use super::*;
use crate::test_flags;

fn check(url: &str, seconds: &str) -> Report {
    let options: Options =
        test_flags::parse(&[url, "--seconds", seconds]).expect("flags that clap takes");
    options.check().expect("a playlist")
}

fn rules(report: &Report) -> Vec<String> {
    let json: serde_json::Value = serde_json::from_str(&report.json()).expect("JSON");
    let findings = json["findings"].as_array().expect("a list");
    findings
        .iter()
        .map(|it| it["rule"].as_str().expect("a name").to_owned())
        .collect()
}

#[test]
fn a_server_that_keeps_the_rules_has_no_error() {
    let address = test_server::start(Manners {
        redirects: true,
        ..Manners::default()
    });
    let report = check(&format!("http://{address}/moved.m3u8?signature=s"), "3");
    // A machine under load makes parts late, which is no matter of this test.
    let errors: Vec<_> = rules(&report)
        .into_iter()
        .filter(|it| !it.ends_with("-late"))
        .collect();
    // The fragments of the test have no initialization section.
    assert_eq!(
        errors,
        ["no-map", "not-compressed"],
        "{}",
        report.text(false, false)
    );
    let json: serde_json::Value = serde_json::from_str(&report.json()).expect("JSON");
    assert!(
        json["playlists"][0]["new_parts"].as_u64() >= Some(3),
        "{json}"
    );
}

#[test]
fn a_server_that_does_not_block_is_named_with_section_and_advice() {
    let address = test_server::start(Manners {
        answers_at_once: true,
        takes_any_directive: true,
        ..Manners::default()
    });
    let report = check(&format!("http://{address}/live.m3u8?signature=s"), "2");
    let found = rules(&report);
    for wanted in ["not-blocked", "part-without-msn", "too-far-ahead"] {
        assert!(found.iter().any(|it| it == wanted), "{wanted}: {found:?}");
    }
    assert!(report.has_errors());
    let text = report.text(false, false);
    assert!(
        text.contains("✗ not-blocked (§6.2.5.2)") && text.contains("change  hold a request"),
        "{text}"
    );
}

#[test]
fn what_is_no_playlist_is_a_failure_with_a_sentence() {
    let address = test_server::start(Manners::default());
    for (url, wanted) in [
        (
            format!("http://{address}/live.m3u8"),
            "is no playlist: the server answers 403",
        ),
        (
            format!("http://{address}/1.1.mp4?signature=s"),
            "is no playlist: line",
        ),
        (
            "http://127.0.0.1:1/x.m3u8".to_owned(),
            "cannot reach http://127.0.0.1:1/x.m3u8",
        ),
        ("rtsp://h/x".to_owned(), "is not an http or https URL"),
    ] {
        let options: Options =
            test_flags::parse(&[&url, "--seconds", "0"]).expect("flags that clap takes");
        let failure = options.check().expect_err(&url).to_string();
        assert!(failure.contains(wanted), "{url}: {failure}");
    }
}
