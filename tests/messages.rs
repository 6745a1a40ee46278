//! Messages beside a stream, through the server, with Chromium as publisher and as viewers.

use libtest_mimic::Failed;
use serde_json::{Value, json};

use crate::browser::{PATIENCE, ensure};
use crate::http;
use crate::peers::{Peer, Test};
use crate::process::eventually;
use crate::server::Server;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] =
    &[Test::of(&chromium_publishes_to_viewers_and_hears_them).needs(&[Peer::Chromium])];

fn chromium_publishes_to_viewers_and_hears_them() -> Result<(), Failed> {
    let server = Server::configured("webrtc: {data: {viewers: write}}", &["demo"])?;
    let browser = Browser::start()?;
    browser.open(&server.url("/"))?;
    browser.run(include_str!("../peers/relayed_messages.js"))?;
    browser.run("relayed.publish('demo'); relayed.watch('demo'); relayed.watch('demo')")?;
    until(&browser, "relayed.ready(2)")?;
    let sizes = browser.run("return relayed.viewers.map(({ limit }) => limit)")?;
    ensure(
        sizes == json!([262_144, 262_144]),
        "max-message-size",
        &sizes,
    )?;

    browser.run("relayed.say('speed 3 m/s'); relayed.show(); relayed.command(1)")?;
    until(
        &browser,
        "relayed.report.got.every((got) => got.length === 2)",
    )?;
    until(&browser, "relayed.report.commands.length === 2")?;
    let report = browser.run("return relayed.report")?;
    for got in each(&report["got"]) {
        let both = ["speed 3 m/s", "snapshot"].map(Value::from);
        ensure(both.iter().all(|it| each(got).contains(it)), "got", &report)?;
    }
    ensure(report["commands"][0] == "stop, says 1", "a text", &report)?;
    for opened in each(&report["opened"]) {
        let telemetry = json!({
            "label": "telemetry", "protocol": "", "ordered": false, "maxRetransmits": 0,
        });
        let snapshots = json!({
            "label": "snapshots", "protocol": "bytes", "ordered": true, "maxRetransmits": null,
        });
        let both = [telemetry, snapshots];
        ensure(
            both.iter().all(|it| each(opened).contains(it)),
            "like",
            &report,
        )?;
    }

    // The publisher connects again, and a viewer joins later.
    browser.run("relayed.publish('demo'); relayed.watch('demo')")?;
    until(&browser, "relayed.ready(3)")?;
    browser.run("relayed.say('I am back')")?;
    let all = "relayed.report.got.every((got) => got.includes('I am back'))";
    until(&browser, all)?;
    let frames = "(relayed.measure(), relayed.report.frames.filter((it) => it > 5).length === 3)";
    until(&browser, frames)?;
    let report = browser.run("return relayed.report")?;
    ensure(report["got"][2] == json!(["I am back"]), "no past", &report)?;
    ensure(
        report["opened"][0].as_array().map(Vec::len) == Some(2),
        "channels",
        &report,
    )?;
    // The figure is updated once a second.
    let counted = eventually(PATIENCE, || {
        let viewers = http::get_json(&server.admin_url("/api/v1/webrtc/viewers"))?;
        let sent = each(&viewers["viewers"]).iter();
        let sent = sent.filter_map(|it| it["data"]["messages_sent"].as_u64());
        let mut sent: Vec<u64> = sent.collect();
        sent.sort_unstable();
        (sent == [1, 3, 3])
            .then_some(())
            .ok_or_else(|| viewers.to_string())
    });
    counted.map_err(Failed::from)
}

/// Waits until `condition` holds in the page without an error there.
pub(crate) fn until(browser: &Browser, condition: &str) -> Result<(), String> {
    let script = format!("return relayed.report.error ?? ({condition})");
    let value = browser.wait_until(PATIENCE, &script).map_err(|reason| {
        match browser.run("return JSON.stringify(relayed.report)") {
            Ok(report) => format!("{reason}; {report}"),
            Err(_) => reason,
        }
    })?;
    match value {
        Value::String(error) => Err(error),
        _ => Ok(()),
    }
}

fn each(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}
