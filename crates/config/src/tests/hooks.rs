//! Hooks as people write them.

use crate::Config;

#[test]
fn hooks_that_do_not_fit_together_are_refused() {
    let read = |text: &str| {
        let text = format!("hooks: [{text}]\n");
        Config::from_yaml(&text, "a.yml").map_err(|error| error.to_string())
    };
    for good in [
        "{on: [publish, source_down], command: [/bin/true, loud]}",
        "{on: [first_viewer], url: 'https://a/b', secret: s, streams: [cam*], retries: 0}",
    ] {
        assert!(read(good).is_ok(), "{:?}", read(good));
    }
    for (bad, why) in [
        ("{on: [publish]}", "either"),
        (
            "{on: [publish], command: [/a], url: 'https://a/'}",
            "either",
        ),
        ("{on: [publish], command: [tell]}", "whole path"),
        ("{on: [publish], command: []}", "whole path"),
        (
            "{on: [publish], command: [/a], secret: s}",
            "belong to `url`",
        ),
        ("{on: [], command: [/a]}", "list events"),
        ("{on: [publishing], command: [/a]}", "publishing"),
        ("{command: [/a]}", "on"),
        ("{on: [publish], command: [/a], timeout_s: 0}", "timeout_s"),
        ("{on: [publish], url: 'https://a/', retries: 11}", "retries"),
        ("{on: [publish], url: 'https://ann:pw@a/'}", "user"),
    ] {
        let error = read(bad).expect_err(bad);
        assert!(error.contains(why), "{bad}: {error}");
    }
}
