//! The built-in clip of one server of a cluster, watched at another one.

use libtest_mimic::Failed;

use crate::browser;
use crate::cluster::{wait_for_engine, wait_for_owner};
use crate::nats::Nats;
use crate::peers::{Peer, Test};
use crate::server::Server;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] =
    &[
        Test::of(&a_page_on_a_pulled_clip_reads_the_number_in_its_frames)
            .needs(&[Peer::Nats, Peer::Chromium]),
    ];

fn a_page_on_a_pulled_clip_reads_the_number_in_its_frames() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let node = |name: &str, sources: &[&str]| {
        let yaml = format!(
            "cluster: {{name: {name}, secret: shared-by-all, nats: '{}'}}\n",
            nats.url()
        );
        Server::configured(&yaml, sources)
    };
    let a = node("a", &["clip=demo"])?;
    a.wait_for_state("clip", "live")?;
    // The clip began before this server did.
    let b = node("b", &[])?;
    wait_for_engine(&b, "connected")?;
    wait_for_owner(&b, "clip", "a")?;
    let browser = Browser::start()?;
    browser.open(&b.url("/clip"))?;
    let read = browser.wait_until(
        browser::PATIENCE,
        "return glassline.glassToGlass?.count > 30",
    );
    let page = browser.run("return glassline")?;
    read.map_err(|error| format!("{error}: {page}"))?;
    // The number says when the frame was due at the other server, by this server's clock.
    let whole = page["glassToGlass"]["p50_ms"].as_f64().unwrap_or(f64::MAX);
    let accounted = page["endToEnd"]["p50_ms"].as_f64().unwrap_or_default();
    match (whole - accounted).abs() < 100.0 {
        true => Ok(()),
        false => Err(format!("{whole} ms, of which {accounted} are accounted for").into()),
    }
}
