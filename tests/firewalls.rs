//! Browsers whose network lets no UDP through, or leads elsewhere.

use std::time::Duration;

use libtest_mimic::Failed;

use crate::browser::PATIENCE;
use crate::coturn::Coturn;
use crate::http;
use crate::namespace::{HERE, Neighbor, browser_of, drop_udp};
use crate::peers::{Peer, Test};
use crate::server::Server;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&a_browser_without_udp_plays_over_tcp).needs(&[Peer::Chromium]),
    Test::of(&a_browser_without_udp_plays_through_a_turn_server)
        .needs(&[Peer::Chromium, Peer::Coturn]),
    Test::of(&a_firewall_that_drops_udp_is_passed)
        .needs(&[Peer::Chromium, Peer::Coturn, Peer::Namespaces])
        .in_namespace(LONG),
    Test::of(&a_browser_whose_default_route_is_a_vpn_plays)
        .needs(&[Peer::Chromium, Peer::Namespaces])
        .in_namespace(LONG),
    Test::of(&a_browser_prefers_udp).needs(&[Peer::Chromium]),
];

/// Long, for a browser in a namespace on a busy machine.
const LONG: Duration = Duration::from_secs(240);

/// Chromium opens no UDP socket under this policy, as if a firewall dropped all UDP.
const NO_UDP: &str = "--webrtc-ip-handling-policy=disable_non_proxied_udp";

/// WebRTC plays. Until it has connected, HLS may.
const PLAYS: &str = "return glassline.how === 'webrtc' && glassline.framesDecoded > 30";

/// Returns the protocol of the only viewer's path, from the server's API.
fn protocol(server: &Server) -> Result<String, Failed> {
    let viewers = http::get_json(&server.admin_url("/api/v1/webrtc/viewers"))?;
    let protocol = viewers["viewers"][0]["path"]["remote"]["protocol"].as_str();
    let protocol = protocol.ok_or_else(|| format!("no path: {viewers}"))?;
    Ok(protocol.to_owned())
}

fn a_browser_without_udp_plays_over_tcp() -> Result<(), Failed> {
    let server = Server::demo()?;
    let browser = Browser::start_with(&[NO_UDP.to_owned()])?;
    browser.open(&server.printed_url()?)?;
    browser.wait_until(PATIENCE, PLAYS)?;
    let first = browser.run("return glassline.firstFrameMs")?;
    println!("first frame over TCP {first} ms");
    let at_live = browser.run("return glassline.framesDecoded")?;
    let script = format!(
        "return glassline.framesDecoded > {} && glassline.sessions === 1",
        at_live.as_u64().unwrap_or_default() + 100
    );
    browser.wait_until(PATIENCE, &script)?;
    let protocol = protocol(&server)?;
    if protocol != "tcp" {
        return Err(format!("the browser plays over {protocol}").into());
    }
    Ok(())
}

/// The credentials of the TURN server are made from the secret that both servers know.
fn a_browser_without_udp_plays_through_a_turn_server() -> Result<(), Failed> {
    let coturn = Coturn::with_secret("north-wind")?;
    let yaml = format!(
        "media: {{tcp: false}}\n\
         webrtc: {{ice_servers: [{{url: 'turn:127.0.0.1:{}?transport=tcp', secret: north-wind}}]}}\n",
        coturn.plain
    );
    let server = Server::configured(&yaml, &["demo=demo"])?;
    let browser = Browser::start_with(&[NO_UDP.to_owned()])?;
    browser.open(&server.printed_url()?)?;
    browser.wait_until(PATIENCE, PLAYS)?;
    let first = browser.run("return glassline.firstFrameMs")?;
    println!("first frame through TURN {first} ms");
    let protocol = protocol(&server)?;
    if protocol != "udp" {
        return Err(format!("the TURN server sends over {protocol}").into());
    }
    Ok(())
}

/// The browser's machine sends UDP, and none of it arrives: first at a server with media over TCP, then
/// at one without, beside a TURN server.
fn a_firewall_that_drops_udp_is_passed() -> Result<(), Failed> {
    let neighbor = Neighbor::start()?;
    drop_udp(None)?;
    let here = format!("http: {{address: '{HERE}:0'}}\n");
    let with_tcp = format!("{here}media: {{address: '{HERE}:0'}}\n");
    let with_tcp = Server::configured(&with_tcp, &["demo=demo"])?;
    let coturn = Coturn::at(HERE, "north-wind")?;
    let with_turn = format!(
        "{here}media: {{address: '{HERE}:0', tcp: false}}\n\
         webrtc: {{ice_servers: [{{url: 'turn:{HERE}:{}?transport=tcp', secret: north-wind}}]}}\n",
        coturn.plain
    );
    let with_turn = Server::configured(&with_turn, &["demo=demo"])?;
    let browser = browser_of(&neighbor)?;
    for (server, wanted) in [(&with_tcp, "tcp"), (&with_turn, "udp")] {
        browser.open(&server.url("/demo").replace("127.0.0.1", HERE))?;
        browser.wait_until(LONG, PLAYS)?;
        let first = browser.run("return glassline.firstFrameMs")?;
        println!("first frame {first} ms, the server's path by {wanted}");
        let protocol = protocol(server)?;
        if protocol != wanted {
            return Err(format!("the server sends over {protocol}, not {wanted}").into());
        }
    }
    Ok(())
}

/// The page comes by one interface, while the default route leads into a tunnel that ends nowhere: a
/// browser that gathers candidates of the default route alone would find no path (mediamtx#3522).
fn a_browser_whose_default_route_is_a_vpn_plays() -> Result<(), Failed> {
    let neighbor = Neighbor::start()?;
    for line in [
        "link add vpn0 type veth peer name vpn1",
        "address add 203.0.113.2/24 dev vpn0",
        "link set vpn0 up",
        "link set vpn1 up",
        "route replace default via 203.0.113.1 dev vpn0",
    ] {
        neighbor.ip(line)?;
    }
    let yaml = format!("http: {{address: '{HERE}:0'}}\nmedia: {{address: '{HERE}:0'}}\n");
    let server = Server::configured(&yaml, &["demo=demo"])?;
    let browser = browser_of(&neighbor)?;
    browser.open(&server.url("/demo").replace("127.0.0.1", HERE))?;
    browser.wait_until(LONG, PLAYS)?;
    let first = browser.run("return glassline.firstFrameMs")?;
    println!("first frame {first} ms, by {}", protocol(&server)?);
    Ok(())
}

fn a_browser_prefers_udp() -> Result<(), Failed> {
    let server = Server::demo()?;
    let browser = Browser::start()?;
    browser.open(&server.printed_url()?)?;
    browser.wait_until(PATIENCE, PLAYS)?;
    // Chromium checks every candidate for some seconds before it keeps one.
    std::thread::sleep(Duration::from_secs(3));
    let protocol = protocol(&server)?;
    if protocol != "udp" {
        return Err(format!("the browser plays over {protocol}").into());
    }
    Ok(())
}
