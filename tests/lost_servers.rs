//! A server of a cluster is killed while clients are attached to it: they notice it, and go to another
//! one. Until then a balancer leads each of their connections to any server.

use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use serde_json::Value;

use crate::balancer::Balancer;
use crate::browser;
use crate::call::silent_call;
use crate::cluster::{publish, wait_for_each_other, wait_for_owner};
use crate::http::{Answer, exchange, request};
use crate::nats::Nats;
use crate::peers::{Peer, Test};
use crate::ports::free_port;
use crate::process::{PATIENCE, Running, eventually};
use crate::server::{Server, glassline};
use crate::signalling::chromium_offer;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&a_session_is_found_behind_a_balancer_that_knows_no_public_address)
        .needs(&[Peer::Nats]),
    Test::of(&a_balancer_sees_on_the_public_port_whether_a_server_drains).needs(&[Peer::Nats]),
    Test::of(&what_notices_a_loss_in_the_page_is_right).needs(&[Peer::Chromium]),
    Test::of(&the_page_behind_a_balancer_goes_to_another_server)
        .needs(&[Peer::Nats, Peer::Chromium])
        .alone(),
    Test::of(&the_page_of_a_server_goes_to_one_that_the_cluster_named)
        .needs(&[Peer::Nats, Peer::Chromium])
        .alone(),
    Test::of(&a_page_goes_to_a_server_that_came_after_it)
        .needs(&[Peer::Nats, Peer::Chromium])
        .alone(),
    Test::of(&a_publisher_goes_to_one_that_the_cluster_named)
        .needs(&[Peer::Nats])
        .alone(),
    Test::of(&participants_meet_again_at_another_server)
        .needs(&[Peer::Nats, Peer::Chromium])
        .alone(),
];

/// Longest time until a client is served again, on a machine with a load of 8. ICE alone takes more than
/// 15 s to notice the loss.
const BACK_WITHIN: Duration = Duration::from_secs(8);

const SDP: (&str, &str) = ("Content-Type", "application/sdp");

/// Whether viewers have an address of each server.
#[derive(Clone, Copy, PartialEq)]
enum Public {
    Yes,
    No,
}

fn node(name: &str, nats: &Nats, public: Public) -> Result<Server, String> {
    let [http, rtsp] = [free_port()?, free_port()?];
    let public = match public {
        Public::Yes => format!("{{http: 'http://127.0.0.1:{http}'}}"),
        Public::No => "{}".to_owned(),
    };
    let yaml = format!(
        "cluster: {{name: {name}, secret: shared-by-all, nats: '{}', linger_s: 2, public: {public}}}\n",
        nats.url()
    );
    Server::configured_on([http, rtsp], &yaml, &[])
}

fn nodes<const COUNT: usize>(
    names: [&str; COUNT],
    nats: &Nats,
    public: Public,
) -> Result<[Server; COUNT], String> {
    let mut started = Vec::new();
    for name in names {
        started.push(node(name, nats, public)?);
    }
    wait_for_each_other(&started.iter().collect::<Vec<_>>())?;
    started
        .try_into()
        .map_err(|_| "as many as names".to_owned())
}

fn expect(answer: &Answer, status: u16) -> Result<(), String> {
    match answer.status == status {
        true => Ok(()),
        false => Err(format!("{answer:?}, not {status}")),
    }
}

/// Sends one request, and returns a redirect as it is.
fn ask(method: &str, url: &str, headers: &[(&str, &str)], body: &str) -> Result<Answer, String> {
    exchange(method, url, headers, body.into(), 0)
}

fn a_session_is_found_behind_a_balancer_that_knows_no_public_address() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let [a, b] = nodes(["a", "b"], &nats, Public::No)?;
    let _cam = publish(&a, "/cam/whip")?;
    a.wait_for_state("cam", "live")?;
    wait_for_owner(&b, "cam", "a")?;
    let offer = chromium_offer()?;
    let made = request("POST", &a.url("/cam/whep"), &[SDP], offer.as_str())?;
    expect(&made, 201)?;
    let session = made.header("location").ok_or("no Location")?.to_owned();
    // Every request of the session, at the server that does not have it.
    let at_b = |below: &str| b.url(&format!("{session}{below}"));
    expect(&ask("GET", &at_b(""), &[], "")?, 204)?;
    let clock = ask("GET", &at_b("/clock"), &[], "")?;
    expect(&clock, 200)?;
    if clock.json()?["server"] != "a" {
        return Err(format!("not the clock of a: {clock:?}").into());
    }
    let report = r#"{"offset_ns": 0, "error_ns": 1, "frames": [], "unmatched": 0, "lost": 0}"#;
    let json = ("Content-Type", "application/json");
    // A viewer that has not connected has no frames, which its own server says in the same words.
    let here = ask(
        "POST",
        &a.url(&format!("{session}/report")),
        &[json],
        report,
    )?;
    let there = ask("POST", &at_b("/report"), &[json], report)?;
    if (here.status, &here.body) != (there.status, &there.body) {
        return Err(format!("{there:?}, not {here:?}").into());
    }
    let malformed = ask("POST", &at_b("/report"), &[json], "{")?;
    expect(&malformed, 400)?;
    let fragment = ("Content-Type", "application/trickle-ice-sdpfrag");
    let candidates = "a=ice-ufrag:abcd\r\na=ice-pwd:0123456789012345678901\r\n";
    let changed = ask("PATCH", &at_b(""), &[fragment], candidates)?;
    // Such credentials would be a restart, which needs a header: the server of the session says so.
    expect(&changed, 428)?;
    expect(&ask("DELETE", &at_b(""), &[], "")?, 200)?;
    expect(&ask("DELETE", &a.url(&session), &[], "")?, 404)?;
    // Whoever guesses names gets nowhere, and learns who is meant where nobody is.
    let guessed = ask("DELETE", &b.url("/cam/whep/a.0000"), &[], "")?;
    expect(&guessed, 404)?;
    let unknown = ask("DELETE", &b.url("/cam/whep/nobody.0000"), &[], "")?;
    expect(&unknown, 404)?;
    if !unknown.body.contains("cluster.nats") {
        return Err(format!("{unknown:?} names no key").into());
    }
    // A server that is gone is named, with the key that helps, in less time than clients wait.
    let made = request("POST", &a.url("/cam/whep"), &[SDP], offer.as_str())?;
    let session = made.header("location").ok_or("no Location")?.to_owned();
    a.signal("-KILL")?;
    let asked = Instant::now();
    let lost = ask("GET", &b.url(&session), &[], "")?;
    expect(&lost, 502)?;
    if !lost.body.contains("cluster.public.http") || asked.elapsed() > Duration::from_secs(4) {
        return Err(format!("{lost:?} after {:?}", asked.elapsed()).into());
    }
    eventually(PATIENCE, || {
        expect(&ask("GET", &b.url(&session), &[], "")?, 410)
    })?;
    Ok(())
}

fn a_balancer_sees_on_the_public_port_whether_a_server_drains() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let yaml = format!(
        "auth: {{read_token: look}}\nhttp: {{hosts: [play.example]}}\n\
         cluster: {{name: a, secret: shared-by-all, nats: '{}', drain_s: 20}}\n",
        nats.url()
    );
    let [http, rtsp] = [free_port()?, free_port()?];
    let a = Server::configured_on([http, rtsp], &yaml, &[])?;
    let b = node("b", &nats, Public::No)?;
    wait_for_each_other(&[&a, &b])?;
    let _cam = publish(&b, "/cam/whip")?;
    // A balancer has no token, and asks by whatever name it likes.
    let host = ("Host", "balancer.invalid");
    let ready = request("GET", &a.url("/readyz"), &[host], "")?;
    expect(&ready, 200)?;
    if ready.body != "ready\n" {
        return Err(format!("{ready:?}").into());
    }
    let admin = a.admin_url("");
    let drain = ["cluster", "drain", "--within", "20", "--admin", &admin];
    let _draining = Running::start("drain", glassline(&drain))?;
    eventually(PATIENCE, || {
        let answer = request("GET", &a.url("/readyz"), &[host], "")?;
        expect(&answer, 503)?;
        match answer.body.as_str() {
            "not ready\n" => Ok(()),
            _ => Err(format!("a stranger learns more: {answer:?}")),
        }
    })?;
    Ok(())
}

/// The work of the page's modules, in times that the script gives.
const IN_THE_PAGE: &str = r#"
const [{ Lifeline }, { Servers }, { linksOf }, { ServerClock }, { Pauses }, { Problem }] = await Promise.all(
  ['lifeline', 'servers', 'links', 'clock', 'pauses', 'api'].map((it) => import(`/-/${it}.js`)));
const wrong = [];
const is = (what, found, wanted) => {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) wrong.push(`${what}: ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`);
};

// A stream at rest: no media, and an answer to a check each 2.5 s at most.
const life = new Lifeline(0);
life.count(10, 0);
is('not silent at once', life.isSilent(1999), false);
is('silent after 2 s', life.isSilent(2000), true);
life.count(10, 2000);
is('the same count is no sign', life.isSilent(2000), true);
life.count(11, 2100);
is('one more is', life.isSilent(4099), false);
life.heard(-Infinity);
life.heard(3000);
is('media counts from when it came', [life.isSilent(4999), life.isSilent(5000)], [false, true]);
is('recent', [life.isRecent(3700), life.isRecent(3800)], [true, false]);

const answer = (link) => new Response('', { headers: { link } });
is('links', linksOf('<stun:a>; rel="ice-server", <http://b/x?ticket=1>; rel="alternate"', 'alternate').map(({ url }) => url), ['http://b/x?ticket=1']);
const servers = new Servers('/cam/whep', 'transcode');
is('own first', servers.present(0), '/cam/whep?transcode');
is('no other one', servers.next(0), null);
servers.note(answer('<http://b/cam/whep?ticket=1>; rel="alternate", <http://c/cam/whep?ticket=2>; rel="alternate"'), 0);
servers.note(answer(''), 0);
const tried = [];
for (let i = 0; i < 4; i += 1) {
  tried.push([servers.present(1), servers.isOwn(1)]);
  const pause = servers.next(1);
  if (pause !== null && !(pause >= 0 && pause <= 100)) wrong.push(`pause ${pause}`);
}
is('a round', tried, [['/cam/whep?transcode', true], ['http://b/cam/whep?ticket=1&transcode', false], ['http://c/cam/whep?ticket=2&transcode', false], ['/cam/whep?transcode', true]]);
is('tickets end', [servers.present(28001), servers.isOwn(28001)], ['/cam/whep?transcode', true]);

// 1,000 viewers of a server that is gone do not come back at the same instant.
const firsts = Array.from({ length: 1000 }, () => new Pauses().explain(new Error('lost'), 0).waitMs);
const slots = Array(10).fill(0);
for (const ms of firsts) slots[Math.min(9, Math.floor((ms - 100) / 30))] += 1;
if (!firsts.every((ms) => ms >= 100 && ms <= 400) || !slots.every((it) => it > 40 && it < 200)) wrong.push(`pauses ${slots}`);
// While the cluster moves the stream, nobody waits for long; later the pauses grow.
const pauses = new Pauses();
const none = new Problem(404, 'No such stream', null);
const moving = Array.from({ length: 20 }, () => pauses.explain(none, 5000).waitMs);
if (!moving.every((ms) => ms >= 200 && ms <= 800)) wrong.push(`moving ${moving}`);

// Answers of several servers: those of another one than the session's are dropped.
const clocks = { a: 5_000_000, b: 2_384_700_000_000 };
let turn = 0;
window.fetch = async (url) => {
  const server = ['a', 'b'][turn % 2];
  turn += 1;
  const ns = clocks[server] + Math.round(performance.now() * 1e6);
  return { redirected: false, url, json: async () => ({ server, received_ns: ns, sent_ns: ns }) };
};
const clock = new ServerClock();
clock.follow({ resource: '/cam/whep/a.123', server: 'a' });
await clock.restart();
const estimate = clock.estimate();
if (!(Math.abs(estimate.offsetMs - 5) < 5 && clock.exchanges === 4)) wrong.push(`clock ${JSON.stringify(estimate)} of ${clock.exchanges}`);
return wrong.join('; ') || 'right';
"#;

fn what_notices_a_loss_in_the_page_is_right() -> Result<(), Failed> {
    let server = Server::demo()?;
    let browser = Browser::start()?;
    browser.open(&server.url("/trust"))?;
    let script = format!("return (async () => {{ {IN_THE_PAGE} }})()");
    let told = browser.run(&script)?;
    match told.as_str() {
        Some("right") => Ok(()),
        _ => Err(told.to_string().into()),
    }
}

fn page(browser: &Browser) -> Result<Value, String> {
    browser.run("return glassline")
}

/// The name of the server that a page plays from.
const PLAYS_FROM: &str = "return glassline.state === 'live' && glassline.server";

/// The requests of the page since its server was killed: when each began after that, in ms, and how long
/// it took. The new session has its first frame some time after the last one of them.
const REQUESTS_SINCE: &str = "return performance.getEntriesByType('resource') \
    .filter((it) => it.startTime + it.duration > window.killedMs && it.name.includes('/whep')) \
    .map((it) => `${Math.round(it.startTime - window.killedMs)}+${Math.round(it.duration)}`) \
    .concat(`session ${Math.round(glassline.joinMs)}`).join(', ')";

/// Kills the server that a page plays from, one of `servers`, and waits until the page plays from
/// another one. Returns the time without a frame.
fn kill_under(browser: &Browser, servers: &[(&str, &Server)]) -> Result<Duration, String> {
    let playing = browser.wait_until(browser::PATIENCE, PLAYS_FROM)?;
    let mut attached = servers.iter().filter(|(name, _)| playing == *name);
    let (name, server) = attached.next().ok_or(format!("plays from {playing}"))?;
    browser.run("performance.clearResourceTimings(); window.killedMs = performance.now()")?;
    server.signal("-KILL")?;
    let killed = Instant::now();
    let back = format!(
        "return glassline.state === 'live' && glassline.server !== '{name}' && glassline.joinMs !== null"
    );
    browser.wait_until(BACK_WITHIN, &back)?;
    Ok(killed.elapsed())
}

fn the_page_behind_a_balancer_goes_to_another_server() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let [a, b, c] = nodes(["a", "b", "c"], &nats, Public::No)?;
    // The owner of the stream lives on.
    let _cam = publish(&a, "/cam/whip")?;
    a.wait_for_state("cam", "live")?;
    wait_for_owner(&b, "cam", "a")?;
    wait_for_owner(&c, "cam", "a")?;
    let balancer = Balancer::in_front_of(&[&b, &c])?;
    let browser = Browser::start()?;
    browser.open(&balancer.url("/cam"))?;
    browser.wait_until(browser::PATIENCE, PLAYS_FROM)?;
    // The clock is that of one server, whichever answers, and so is the delay.
    let joined = "return glassline.state === 'live' && glassline.endToEnd?.count > 0 && glassline.reports >= 4 && glassline.clock";
    browser.wait_until(browser::PATIENCE, joined)?;
    let seen = page(&browser)?;
    let delay_ms = seen["endToEnd"]["p50_ms"].as_f64().unwrap_or(f64::MAX);
    if delay_ms.abs() > 2_000.0 {
        return Err(format!("a false delay of {delay_ms} ms: {seen}").into());
    }
    let gap = kill_under(&browser, &[("b", &b), ("c", &c)]);
    let gap = gap.map_err(|error| format!("{error}: {:?}", page(&browser)))?;
    let requests = browser.run(REQUESTS_SINCE)?;
    println!("the page played again {gap:?} after the kill: {requests}");
    Ok(())
}

fn the_page_of_a_server_goes_to_one_that_the_cluster_named() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let [a, b] = nodes(["a", "b"], &nats, Public::Yes)?;
    let _cam = publish(&a, "/cam/whip")?;
    a.wait_for_state("cam", "live")?;
    wait_for_owner(&b, "cam", "a")?;
    let browser = Browser::start()?;
    // Served where it asks, so that its own server is the one that is killed.
    browser.open(&b.url("/cam"))?;
    let played = "return glassline.state === 'live' && glassline.reports >= 2";
    browser.wait_until(browser::PATIENCE, played)?;
    let playing = browser.run(PLAYS_FROM)?;
    if playing != "a" {
        return Err(format!("plays from {playing}").into());
    }
    // The publisher dies with its server, and goes to the other one.
    a.signal("-KILL")?;
    let killed = Instant::now();
    let back = "return glassline.state === 'live' && glassline.server === 'b'";
    let back = browser.wait_until(BACK_WITHIN, back);
    back.map_err(|error| format!("{error}: {:?}", page(&browser)))?;
    println!(
        "the page played again {:?} after the kill",
        killed.elapsed()
    );
    Ok(())
}

fn a_page_goes_to_a_server_that_came_after_it() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let owner = node("owner", &nats, Public::No)?;
    let first = node("first", &nats, Public::Yes)?;
    wait_for_each_other(&[&owner, &first])?;
    let _cam = publish(&owner, "/cam/whip")?;
    owner.wait_for_state("cam", "live")?;
    wait_for_owner(&first, "cam", "owner")?;
    let browser = Browser::start()?;
    browser.open(&first.url("/cam"))?;
    let played = "return glassline.state === 'live' && glassline.reports >= 2";
    browser.wait_until(browser::PATIENCE, played)?;
    // The policy of the page does not have this one.
    let second = node("second", &nats, Public::Yes)?;
    let all = [&owner, &first, &second];
    wait_for_each_other(&all)?;
    wait_for_owner(&second, "cam", "owner")?;
    // Each report names the servers that there are.
    browser.run("window.known = glassline.reports")?;
    let named = "return glassline.reports >= window.known + 3";
    browser.wait_until(browser::PATIENCE, named)?;
    let gap = kill_under(&browser, &[("first", &first)])?;
    println!("the page played again {gap:?} after the kill");
    let playing = browser.run(PLAYS_FROM)?;
    match playing == "second" {
        true => Ok(()),
        false => Err(format!("plays from {playing}").into()),
    }
}

fn a_publisher_goes_to_one_that_the_cluster_named() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let [a, b] = nodes(["a", "b"], &nats, Public::Yes)?;
    let _cam = publish(&a, "/cam/whip")?;
    a.wait_for_state("cam", "live")?;
    wait_for_owner(&b, "cam", "a")?;
    a.signal("-KILL")?;
    let killed = Instant::now();
    let taken = eventually(BACK_WITHIN, || b.wait_for_state("cam", "live"));
    taken?;
    wait_for_owner(&b, "cam", "b")?;
    println!("published again {:?} after the kill", killed.elapsed());
    Ok(())
}

fn participants_meet_again_at_another_server() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let [a, b] = nodes(["a", "b"], &nats, Public::Yes)?;
    let _ann = Running::start("ann", silent_call(&[&a.url("/call/team"), "--name", "ann"]))?;
    wait_for_owner(&b, "call~team", "a")?;
    let flags = [
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
    ];
    let browser = Browser::start_with(&flags.map(str::to_owned))?;
    // A page of the server that lives, and a call that knows the other one alone.
    browser.open(&b.url("/call/team"))?;
    browser.wait_until(browser::PATIENCE, "return window.call !== undefined")?;
    browser.run("document.getElementById('name').value = 'bob'")?;
    browser.run("document.getElementById('dial').click()")?;
    let met = "return window.call.state === 'live' && window.call.others.size === 1";
    let waited = browser.wait_until(browser::PATIENCE, met);
    waited?;
    a.signal("-KILL")?;
    let killed = Instant::now();
    wait_for_owner(&b, "call~team", "b")?;
    let again = "return window.call.state === 'live' && window.call.others.size === 1 \
                 && new URL(window.call.session.resource, location.href).port === location.port";
    let waited = browser.wait_until(BACK_WITHIN, again);
    waited?;
    println!("they met again {:?} after the kill", killed.elapsed());
    Ok(())
}
