//! The collector of OpenTelemetry as people write it.

use crate::Config;

fn read(otlp: &str) -> Result<Config, String> {
    let text = format!("telemetry: {{otlp: {otlp}}}\n");
    Config::from_yaml(&text, "a.yml").map_err(|error| error.to_string())
}

#[test]
fn a_collector_that_cannot_work_is_refused_with_the_reason() {
    for (bad, why) in [
        ("{}", "endpoint"),
        ("{endpoint: 'collector:4318'}", "http://"),
        ("{endpoint: 'http://ann:pw@c:4318'}", "user"),
        ("{endpoint: 'http://c/?key=1'}", "no query"),
        ("{endpoint: 'http://c', interval_s: 0}", "interval_s"),
        ("{endpoint: 'http://c', timeout_s: 61}", "timeout_s"),
        ("{endpoint: 'http://c', sample: 1.5}", "sample"),
        ("{endpoint: 'http://c', sample: -0.1}", "sample"),
        ("{endpoint: 'http://c', sample: .nan}", "number"),
        ("{endpoint: 'http://c', headers: {'a b': c}}", "'a b'"),
        ("{endpoint: 'http://c', headers: {Host: c}}", "'Host'"),
        ("{endpoint: 'http://c', headers: {a: ' x'}}", "character 1"),
        ("{endpoint: 'http://c', intervall_s: 5}", "interval_s"),
    ] {
        let error = read(bad).expect_err(bad);
        assert!(error.contains(why), "{bad}: {error}");
    }
    assert!(read("null").is_ok());
}

#[test]
fn headers_are_read_and_never_printed() {
    let text = "{endpoint: 'http://127.0.0.1:4318', headers: {authorization: 'Bearer s3cret'}}";
    let config = read(text).expect("a collector");
    let otlp = config.telemetry.otlp.as_ref().expect("a collector");
    assert_eq!(otlp.headers["authorization"].reveal(), "Bearer s3cret");
    let shown = format!("{config:?}{}", config.to_yaml());
    assert!(
        !shown.contains("s3cret") && shown.contains("authorization"),
        "{shown}"
    );
}
