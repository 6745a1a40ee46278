//! Chromium publishes temporal layers, and a viewer with little room gets fewer frames.

use std::time::Duration;

use glassline_client::impairment::{Impairment, ImpairmentProxy};
use libtest_mimic::Failed;

use crate::browser::{decoded, ensure};
use crate::peers::{Peer, Test};
use crate::server::Server;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "temporal_layers::alone::a_narrow_path_gets_fewer_frames_of_vp8_and_all_of_them_later",
        needs: &[Peer::Chromium],
        run: || a_narrow_path_gets_fewer_frames(("VP8", "L1T3"), 3),
    },
    Test {
        name: "temporal_layers::alone::a_narrow_path_gets_fewer_frames_of_vp9_with_spatial_layers",
        needs: &[Peer::Chromium],
        run: || a_narrow_path_gets_fewer_frames(("VP9", "L3T3_KEY"), 3),
    },
    Test {
        name: "temporal_layers::alone::a_narrow_path_gets_fewer_frames_of_av1",
        needs: &[Peer::Chromium],
        run: || a_narrow_path_gets_fewer_frames(("AV1", "L1T2"), 2),
    },
];

/// Long, for a browser that encodes on a busy machine.
const LONG: Duration = Duration::from_secs(240);

/// Returns a script by which the publishing page asks for layers.
fn asking_for(mode: &str) -> String {
    format!(
        "const add = RTCPeerConnection.prototype.addTransceiver;
         RTCPeerConnection.prototype.addTransceiver = function (track, init) {{
             if (init?.sendEncodings) init.sendEncodings[0].scalabilityMode = '{mode}';
             return add.call(this, track, init);
         }};"
    )
}

/// Starts a browser that sends its datagrams to `port` in place of the server's.
fn browser_through(port: u16) -> Result<Browser, Failed> {
    let browser = Browser::start()?;
    browser.run_in_every_page(&format!(
        "const set = RTCPeerConnection.prototype.setRemoteDescription;
         RTCPeerConnection.prototype.setRemoteDescription = function ({{ type, sdp }}) {{
             const lines = sdp.split('\\r\\n').filter((it) => !/^a=candidate.* tcp /i.test(it));
             const moved = lines.map((it) => it.replace(
                 /^(a=candidate:\\S+ \\d udp \\d+) \\S+ \\d+ /i, '$1 127.0.0.1 {port} '));
             return set.call(this, {{ type, sdp: moved.join('\\r\\n') }});
         }};"
    ))?;
    Ok(browser)
}

fn a_narrow_path_gets_fewer_frames((codec, mode): (&str, &str), layers: u64) -> Result<(), Failed> {
    let server = Server::serve(&[])?;
    let publisher = Browser::start()?;
    publisher.run_in_every_page(&asking_for(mode))?;
    publisher.open(&server.url("/studio/publish"))?;
    publisher.wait_until(LONG, "return window.publishing?.state === 'idle'")?;
    let offered = format!(
        "return [...document.getElementById('codec').options].some((it) => it.value === '{codec}')"
    );
    publisher.wait_until(LONG, &offered)?;
    publisher.run(&format!(
        "document.querySelector('input[name=source][value=test]').click();
         document.getElementById('codec').value = '{codec}';
         document.getElementById('size').value = '640x360';
         document.getElementById('rate').value = '30';
         document.getElementById('bitrate').value = '1.5';
         document.getElementById('start').click()"
    ))?;
    let arrives = "return publishing.state === 'live' && publishing.arrives?.fps > 0";
    publisher.wait_until(LONG, arrives)?;
    let narrow: Impairment = "delay=20ms rate=700kbit queue=200ms".parse()?;
    let proxy = ImpairmentProxy::start(&narrow, server.media())?;
    let viewer = browser_through(proxy.address().port())?;
    viewer.open(&server.url("/studio"))?;
    viewer.wait_until(LONG, "return glassline.state === 'live'")?;
    let track = server.stream("studio")?["tracks"][0].clone();
    ensure(track["temporal_layers"] == layers, "its layers", &track)?;
    let thin = viewer.wait_until(
        LONG,
        "return glassline.layer?.temporal_layers > 0 && glassline.layerNote",
    )?;
    let says = thin
        .as_str()
        .is_some_and(|it| it.starts_with("lower frame rate: the path"));
    ensure(says, "the page says it", &thin)?;
    let before = decoded(&viewer)?;
    let goes_on = format!("return glassline.framesDecoded > {}", before + 40);
    viewer.wait_until(LONG, &goes_on)?;
    // Another rate of the encoder fits the path.
    publisher.run(
        "document.getElementById('bitrate').value = '0.25';
         document.getElementById('bitrate').dispatchEvent(new Event('change', { bubbles: true }))",
    )?;
    viewer.wait_until(LONG, "return glassline.layer?.temporal_layers === null")?;
    let before = decoded(&viewer)?;
    let goes_on = format!("return glassline.framesDecoded > {}", before + 40);
    viewer.wait_until(LONG, &goes_on)?;
    Ok(())
}
