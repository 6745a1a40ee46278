//! The dashboard for operators, in Chromium, and what axe-core finds on every page.

use std::fs;
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::Value;

use crate::browser::ensure;
use crate::http;
use crate::peers::{self, Peer, Test};
use crate::process::{Running, eventually};
use crate::server::{Server, run_to_end, write_file};
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&shows_streams_viewers_and_failures_and_ends_a_viewer)
        .needs(&[Peer::Chromium, Peer::Ffmpeg]),
    Test::of(&a_phone_adds_a_camera_by_keyboard_and_shows_a_load_test).needs(&[Peer::Chromium]),
    Test::of(&the_form_takes_folders_and_the_password_of_a_camera_over_http)
        .needs(&[Peer::Chromium]),
    Test::of(&thirteen_streams_show_the_five_that_are_broken_first).needs(&[Peer::Chromium]),
    Test::of(&the_first_token_is_shown_once_and_signs_its_maker_in).needs(&[Peer::Chromium]),
    Test::of(&comes_back_after_a_restart_of_the_server).needs(&[Peer::Chromium]),
    Test::of(&an_operator_signs_in_and_out).needs(&[Peer::Chromium]),
    Test::of(&axe_finds_nothing_serious_on_any_page).needs(&[Peer::Chromium, Peer::Axe]),
];

/// Long, for a busy machine.
const LONG: Duration = Duration::from_secs(120);

fn dashboard_of(server: &Server) -> Result<Browser, Failed> {
    let browser = Browser::start()?;
    browser.open(&server.admin_url("/"))?;
    browser.wait_until(LONG, &format!("{TEXT}.includes('LIVE')"))?;
    Ok(browser)
}

const TEXT: &str = "return document.body.innerText";

fn ffmpeg_watches(server: &Server) -> Result<Running, Failed> {
    let mut command = Command::new("ffmpeg");
    command.args([
        "-hide_banner",
        "-loglevel",
        "error",
        "-rtsp_transport",
        "tcp",
    ]);
    command.args(["-i", &server.rtsp_url("demo"), "-f", "null", "-"]);
    Ok(Running::start("ffmpeg", command)?)
}

fn shows_streams_viewers_and_failures_and_ends_a_viewer() -> Result<(), Failed> {
    let server = Server::serve(&["demo", "door=rtsp://127.0.0.1:1/none"])?;
    let mut viewer = ffmpeg_watches(&server)?;
    // A connection that fails, and its reason.
    let refused = http::request(
        "POST",
        &server.url("/nowhere/whep"),
        &[("content-type", "application/sdp")],
        "v=0\r\n",
    )?;
    ensure(refused.status >= 400, "no such stream", &Value::Null)?;
    let browser = dashboard_of(&server)?;
    for words in ["UNREACHABLE", "1280×720", "Opus stereo", "1 rtsp"] {
        browser.wait_until(LONG, &format!("{TEXT}.includes('{words}')"))?;
    }
    // What is out of sight has no text as people see it.
    let listed = "return document.getElementById('events').textContent.includes('nowhere')";
    browser.wait_until(LONG, listed)?;
    for kept in ["[data-name=demo] .name", "[data-name=demo] .picture a"] {
        let href = browser.run(&format!("return document.querySelector('{kept}').href"))?;
        ensure(href == server.url("/demo"), "it opens the player", &href)?;
    }
    let thumbnail = "return document.querySelector('[data-name=demo] img').naturalWidth > 0";
    browser.wait_until(LONG, thumbnail)?;
    // The stages come once a second, and the heat map has a choice of them.
    let heat = "return document.querySelector('#heat-stage option[value=send]') !== null";
    browser.wait_until(LONG, heat)?;
    let drawn = "const canvas = document.getElementById('heat');
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(data.buffer)).size > 4";
    browser.wait_until(LONG, drawn)?;
    browser.screenshot("dashboard")?;

    browser.run("document.querySelector('#viewers button').click()")?;
    eventually(LONG, || match server.rtsp_clients()?.len() {
        0 => Ok(()),
        clients => Err(format!("{clients} RTSP clients")),
    })?;
    viewer.wait(LONG)?;
    browser.wait_until(LONG, "return !document.getElementById('no-viewers').hidden")?;
    Ok(())
}

const TAB: char = '\u{e004}';
const ENTER: char = '\u{e007}';

fn a_phone_adds_a_camera_by_keyboard_and_shows_a_load_test() -> Result<(), Failed> {
    let state = write_file(&format!("dashboard-{}.json", std::process::id()), b"")?;
    fs::remove_file(&state)?;
    let yaml = format!("admin: {{state_file: '{state}', sources: {{loopback: true}}}}\n");
    let server = Server::configured(&yaml, &["demo"])?;
    let browser = dashboard_of(&server)?;
    browser.resize([390, 844])?;
    browser.run("document.querySelector('#add summary').focus()")?;
    browser.press(&format!(
        "{ENTER}{TAB}door{TAB}rtsp://127.0.0.1:1/none{ENTER}"
    ))?;
    let refused = "return !document.getElementById('add-address-problem').hidden
        && document.activeElement.id === 'add-address'";
    browser.wait_until(LONG, refused)?;
    // The focus is where the mistake is, and typing replaces what is marked there.
    let address = server.rtsp_url("demo");
    browser.run("document.activeElement.select()")?;
    browser.press(&format!("{address}{ENTER}"))?;
    browser.wait_until(LONG, &format!("{TEXT}.includes('door is added')"))?;
    browser.wait_until(LONG, &format!("{TEXT}.includes('from a camera')"))?;
    browser.run("document.querySelector('[data-name=door] .more summary').focus()")?;
    browser.press(&ENTER.to_string())?;
    let offered = browser.run(
        "return [...document.querySelectorAll('[data-name=door] .more > button')]
           .filter((it) => !it.hidden).map((it) => it.firstChild.textContent).join()",
    )?;
    ensure(
        offered == "Restart,Keyframe,Edit,Delete",
        "what fits a camera that was added here",
        &offered,
    )?;
    browser.run("document.querySelector('[data-name=door] .restart').focus()")?;
    browser.press(&ENTER.to_string())?;
    eventually(LONG, || {
        let overview = http::request("GET", &server.admin_url("/api/v1/overview"), &[], "")?;
        match overview.json()?["streams"]["door"]["sources"].as_u64() {
            Some(2..) => Ok(()),
            sources => Err(format!("{sources:?} sources")),
        }
    })?;
    browser.run("document.getElementById('reload').click()")?;
    let is_told =
        "return document.getElementById('reloads').textContent.includes('Nothing changed')";
    browser.wait_until(LONG, is_told)?;
    // A single sample has no span, and the chart's axis showed years.
    browser.run(
        "import('/-/load_charts.js').then(({ timeScale }) => {
           const times = [1790000000];
           const options = { width: 300, height: 100, series: [{}, {}], scales: { x: timeScale(times) } };
           const chart = new uPlot(options, [times, [1]], document.createElement('div'));
           setTimeout(() => { window.axis = chart.scales.x; });
         })",
    )?;
    let minute = "return window.axis !== undefined && window.axis.max - window.axis.min === 60";
    browser.wait_until(LONG, minute)?;
    let too_wide = "return document.documentElement.scrollWidth - innerWidth";
    let too_wide = browser.run(too_wide)?;
    ensure(
        too_wide == 0,
        "nothing is beside a phone's screen",
        &too_wide,
    )?;
    // The figures of a load test appear on the page that is open.
    let (url, admin) = (server.url("/demo/whep"), server.admin_url(""));
    let (pid, ramp) = (server.id().to_string(), ["--ramp", "2", "--hold", "2s"]);
    let mut test = vec![
        "bench",
        "viewers",
        &url,
        "--server-pid",
        &pid,
        "--report-to",
        &admin,
    ];
    test.extend(ramp);
    let (status, printed) = run_to_end(&test)?;
    ensure(status.success(), "the load test ends well", &printed.into())?;
    let is_named = "return document.getElementById('bench-name').textContent.includes('with the load test of')";
    browser.wait_until(LONG, is_named)?;
    browser.screenshot("dashboard-phone")?;
    Ok(())
}

fn the_form_takes_folders_and_the_password_of_a_camera_over_http() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let browser = dashboard_of(&server)?;
    browser.run(
        "window.sent = [];
         const before = window.fetch;
         window.fetch = (url, options) => { sent.push(options?.body ?? ''); return before(url, options); };
         document.querySelector('#add summary').focus()",
    )?;
    let address = "http://127.0.0.1:1/mjpg/video.mjpg";
    browser.press(&format!(
        "{ENTER}{TAB}site/yard{TAB}{address}{TAB}ann{TAB}p/w{ENTER}"
    ))?;
    let tried =
        "return sent.some((it) => it.includes('http://ann:p%2Fw@127.0.0.1:1/mjpg/video.mjpg'))";
    browser.wait_until(LONG, tried)?;
    browser.open(&server.url("/"))?;
    let is_valid = browser.run(
        "const field = document.getElementById('publish-name');
         field.value = 'site/yard';
         return field.checkValidity()",
    )?;
    ensure(is_valid == true, "a folder is part of a name", &is_valid)
}

fn thirteen_streams_show_the_five_that_are_broken_first() -> Result<(), Failed> {
    let live = (0..8).map(|number| format!("cam{number}=demo"));
    let broken = (0..5).map(|number| format!("zoo{number}=rtsp://127.0.0.1:1/none"));
    let sources: Vec<String> = live.chain(broken).collect();
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let server = Server::serve(&sources)?;
    let browser = dashboard_of(&server)?;
    let sorted = "zoo0 zoo1 zoo2 zoo3 zoo4 cam0 cam1 cam2 cam3 cam4 cam5 cam6 cam7";
    let are = |names: &str| {
        format!(
            "const rows = [...document.querySelectorAll('#streams tbody tr')].filter((it) => !it.hidden);
             return rows.map(({{ dataset }}) => dataset.name).join(' ') === '{names}'"
        )
    };
    browser.wait_until(LONG, &are(sorted))?;
    browser.screenshot("dashboard-thirteen")?;
    let first = browser.run(
        "return document.getElementById('streams').getBoundingClientRect().top
           < document.getElementById('load').getBoundingClientRect().top",
    )?;
    ensure(first == true, "streams come before charts", &first)?;
    let boxed = browser.run(
        "const list = document.getElementById('streams'); return list.scrollHeight - list.clientHeight",
    )?;
    ensure(boxed == 0, "the list is no box within the page", &boxed)?;
    browser.click(".tile.bad")?;
    browser.wait_until(LONG, &are("zoo0 zoo1 zoo2 zoo3 zoo4"))?;
    browser.click(".tile.bad")?;
    browser.wait_until(LONG, &are(sorted))?;
    // The lines of a stream that the server fetches are not for publishers.
    let lines =
        browser.run("return document.getElementById('lines').textContent.includes('OBS')")?;
    ensure(lines == false, "no lines of OBS", &lines)?;
    browser.run(
        "document.getElementById('add').open = true;
         const { name, address } = document.getElementById('add-form').elements;
         name.value = 'gate'; address.value = '192.168.1.20/main';",
    )?;
    browser.click("#add-form .main")?;
    let advice = "return document.getElementById('add-address-problem').textContent
        === 'Write rtsp:// in front: rtsp://192.168.1.20/main'";
    browser.wait_until(LONG, advice)?;
    // The chart has what was before the page: the server keeps it.
    eventually(LONG, || {
        let history = http::get_json(&server.admin_url("/api/v1/history"))?;
        match history["broken"]
            .as_array()
            .is_some_and(|it| it.contains(&5.into()))
        {
            true => Ok(()),
            false => Err(format!("no sample yet: {history}")),
        }
    })?;
    browser.open(&server.admin_url("/"))?;
    let described = "return /at most \\d/.test(document.getElementById('load').ariaLabel)";
    browser.wait_until(LONG, described)?;
    Ok(())
}

fn the_first_token_is_shown_once_and_signs_its_maker_in() -> Result<(), Failed> {
    let state = write_file(
        &format!("dashboard-{}-logins.json", std::process::id()),
        b"",
    )?;
    fs::remove_file(&state)?;
    let server = Server::configured(&format!("admin: {{state_file: '{state}'}}\n"), &["demo"])?;
    let browser = dashboard_of(&server)?;
    browser.run(
        "const form = document.getElementById('login-form');
         form.parentElement.open = true;
         form.elements.kind.value = 'token';
         form.elements.name.value = 'ci';
         form.elements.role.value = 'admin';
         form.requestSubmit();",
    )?;
    let shown = "return document.querySelector('#made-token code')?.textContent.startsWith('glt_') === true";
    browser.wait_until(LONG, shown)?;
    // The port is closed now, and this browser is the administrator.
    for words in ["ci, admin", "Sign out"] {
        browser.wait_until(LONG, &format!("{TEXT}.includes('{words}')"))?;
    }
    let refused = http::request("GET", &server.admin_url("/api/v1/overview"), &[], "")?;
    ensure(
        refused.status == 401,
        "others need a role",
        &refused.status.into(),
    )?;
    browser.run("document.querySelector('#logins .buttons button:last-child').click()")?;
    let warned = "return document.querySelector('dialog')?.textContent.includes('last administrator') === true";
    browser.wait_until(LONG, warned)?;
    browser.screenshot("dashboard-logins")?;
    browser.run("document.querySelector('dialog .danger').click()")?;
    // The server keeps it, and says why.
    let kept = "return /make an admin first/.test(document.getElementById('notice').textContent)";
    browser.wait_until(LONG, kept)?;
    Ok(())
}

fn comes_back_after_a_restart_of_the_server() -> Result<(), Failed> {
    let mut server = Server::serve(&["demo"])?;
    let browser = dashboard_of(&server)?;
    server.kill_and_start_again()?;
    let state =
        |state: &str| format!("return document.getElementById('link').dataset.state === '{state}'");
    browser.wait_until(LONG, &state("reconnecting"))?;
    browser.wait_until(LONG, &state("live"))?;
    Ok(())
}

/// Token of the operator who signs in.
const TOKEN: &str = "0123456789abcdef-operator";

/// Starts a server whose admin port requires a role.
fn guarded() -> Result<Server, String> {
    let token = format!("{{name: shift, role: operator, token: {TOKEN}}}");
    Server::configured(&format!("auth: {{tokens: [{token}]}}\n"), &["demo"])
}

fn an_operator_signs_in_and_out() -> Result<(), Failed> {
    let server = guarded()?;
    let browser = Browser::start()?;
    browser.open(&server.admin_url("/"))?;
    let at = |path: &str| format!("return location.pathname === '{path}'");
    browser.wait_until(LONG, &at("/sign-in"))?;
    let by_token = "document.querySelector('[value=token]').click()";
    browser.wait_until(
        LONG,
        &format!("{by_token}; return !document.getElementById('by-token').hidden"),
    )?;
    let enter = |token: &str| {
        browser.run(&format!(
            "const field = document.querySelector('[name=token]'); field.value = '{token}'"
        ))?;
        browser.click("button[type=submit]")
    };
    enter("wrong-0123456789")?;
    browser.wait_until(LONG, &format!("{TEXT}.includes('This token is wrong')"))?;
    browser.screenshot("sign-in")?;
    enter(TOKEN)?;
    for words in ["LIVE", "shift, operator", "Sign out"] {
        browser.wait_until(LONG, &format!("{TEXT}.includes('{words}')"))?;
    }
    // The request goes by cookie, and is one of this page.
    let keyframe = "return import('/-/api.js').then(({ change }) =>
        change('/api/v1/streams/demo/keyframe', { method: 'POST' })).then(({ status }) => status)";
    let status = browser.run(keyframe)?;
    ensure(status == 204, "an operator may ask for a keyframe", &status)?;
    let refused = "return import('/-/api.js').then(({ request }) =>
        request('/api/v1/audit')).then(() => 200, ({ status }) => status)";
    let status = browser.run(refused)?;
    ensure(status == 403, "the audit log is for admins", &status)?;
    let hidden = browser.run("return document.cookie")?;
    ensure(hidden == "", "no script reads the cookie", &hidden)?;
    browser.run("document.getElementById('sign-out').click()")?;
    browser.wait_until(LONG, &at("/sign-in"))?;
    browser.open(&server.admin_url("/"))?;
    browser.wait_until(LONG, &at("/sign-in"))?;
    Ok(())
}

/// Finds what axe-core calls serious or critical, by the rules of WCAG 2.2 AA.
pub(crate) const AXE: &str = "return axe.run(document, {
        runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']
    }).then(({ violations }) => violations
        .filter(({ impact }) => ['serious', 'critical'].includes(impact))
        .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`))";

fn axe_finds_nothing_serious_on_any_page() -> Result<(), Failed> {
    let server = Server::serve(&["demo", "door=rtsp://127.0.0.1:1/none"])?;
    let guarded = guarded()?;
    let axe = peers::axe()?;
    let browser = dashboard_of(&server)?;
    let pages = [
        ("dashboard", server.admin_url("/")),
        ("API", server.admin_url("/api")),
        ("sign in", guarded.admin_url("/sign-in")),
        ("index", server.url("/")),
        ("player", server.url("/demo")),
        ("embedded player", server.url("/demo?embed")),
        ("wall", server.url("/-/wall")),
        ("publish", server.url("/studio/publish")),
        ("calls", server.url("/call")),
    ];
    let mut findings = Vec::new();
    for (name, url) in pages {
        for theme in ["dark", "light"] {
            browser.open(&url)?;
            browser.run(&format!(
                "localStorage.setItem('glassline-theme', '{theme}')"
            ))?;
            browser.open(&url)?;
            // What a page shows at first comes from the server.
            std::thread::sleep(Duration::from_secs(1));
            browser.run(&axe)?;
            let found = browser.run(AXE)?;
            let found = found.as_array().into_iter().flatten();
            findings.extend(found.map(|it| format!("{name}, {theme}: {it}")));
        }
    }
    if findings.is_empty() {
        return Ok(());
    }
    Err(findings.join("\n").into())
}
