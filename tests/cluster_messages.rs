//! Messages beside a stream of a cluster: real processes, one `nats-server`, and Chromium at both ends.

use libtest_mimic::Failed;

use crate::browser::PATIENCE as PAGE;
use crate::cluster::{publish, wait_for_each_other, wait_for_owner};
use crate::messages::until;
use crate::nats::Nats;
use crate::peers::{Peer, Test};
use crate::server::Server;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] =
    &[
        Test::of(&a_viewer_of_another_server_hears_one_publisher_after_the_other_and_answers)
            .needs(&[Peer::Nats, Peer::Chromium]),
    ];

fn node(name: &str, nats: &Nats) -> Result<Server, String> {
    let cluster = format!("{{name: {name}, secret: shared, nats: '{}'}}", nats.url());
    let data = "webrtc: {data: {viewers: write, queue_ms: 60000}}";
    Server::configured(&format!("cluster: {cluster}\n{data}\n"), &[])
}

/// Opens a page of `server` that may publish messages and watch.
fn open(browser: &Browser, server: &Server) -> Result<(), String> {
    browser.open(&server.url("/"))?;
    browser.run(include_str!("../peers/relayed_messages.js"))?;
    Ok(())
}

/// Publishes messages at `server`, and lets the viewer answer first, so that messages pass.
fn exchange(publisher: &Browser, viewer: &Browser, server: &Server) -> Result<(), String> {
    open(publisher, server)?;
    publisher.run("relayed.publish('cam')")?;
    until(publisher, "relayed.ready(0)")?;
    viewer.run("relayed.viewers.length || relayed.watch('cam')")?;
    until(
        viewer,
        "relayed.report.got.length === 1 && relayed.viewers[0].limit > 0",
    )?;
    viewer.run("relayed.command(0)")?;
    until(publisher, "relayed.report.commands.length === 2")
}

fn a_viewer_of_another_server_hears_one_publisher_after_the_other_and_answers() -> Result<(), Failed>
{
    let nats = Nats::start()?;
    let [first, edge, second] = [
        node("first", &nats)?,
        node("edge", &nats)?,
        node("second", &nats)?,
    ];
    wait_for_each_other(&[&first, &edge, &second])?;
    let media = publish(&first, "/cam/whip")?;
    first.wait_for_state("cam", "live")?;
    wait_for_owner(&edge, "cam", "first")?;
    let [publisher, viewer] = [Browser::start()?, Browser::start()?];
    open(&viewer, &edge)?;
    exchange(&publisher, &viewer, &first)?;
    publisher.run("relayed.say('speed 3 m/s'); relayed.show()")?;
    let both = "['speed 3 m/s', 'snapshot'].every((it) => relayed.report.got[0].includes(it))";
    until(&viewer, both)?;

    // The server of the first publisher is lost, and the stream comes back at another one.
    drop((first, media));
    let _media = publish(&second, "/cam/whip")?;
    wait_for_owner(&edge, "cam", "second")?;
    let frames = "(relayed.measure(), relayed.report.frames[0])";
    let before = viewer.run(&format!("return {frames}"))?;
    let goes_on = format!("return ({frames}) > {} + 5", before.as_u64().unwrap_or(0));
    viewer.wait_until(PAGE, &goes_on)?;
    exchange(&publisher, &viewer, &second)?;
    publisher.run("relayed.say('second'); relayed.show()")?;
    until(&viewer, "relayed.report.got[0].length >= 4")?;
    let got = viewer.run("return relayed.report.got[0].slice(2).sort()")?;
    match got == serde_json::json!(["second", "snapshot"]) {
        true => Ok(()),
        false => Err(got.to_string().into()),
    }
}
