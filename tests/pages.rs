//! The pages of viewers beside the instruments: video first, video alone in another page, and a wall of
//! many streams.

use std::process::Command;

use libtest_mimic::Failed;

use crate::browser::{PATIENCE, ensure};
use crate::peers::{Peer, Test};
use crate::process::output_folder;
use crate::server::Server;
use crate::webdriver::Browser;

const NEEDS: &[Peer] = &[Peer::Chromium];

pub(crate) const TESTS: &[Test] = &[
    Test::of(&the_player_shows_video_first_and_keeps_its_details_open_for_those_who_want_them)
        .needs(NEEDS),
    Test::of(&the_volume_is_kept_and_the_keys_change_it).needs(NEEDS),
    Test::of(&an_embedded_player_is_video_alone).needs(NEEDS),
    Test::of(&a_wall_shows_the_streams_that_fit_and_plays_the_one_that_is_clicked).needs(NEEDS),
    Test::of(&a_page_plays_whose_address_has_name_and_password).needs(NEEDS),
    Test::of(&the_list_says_of_each_codec_why_browsers_refuse_it)
        .needs(&[Peer::Chromium, Peer::Ffmpeg]),
];

/// Presses a key on the page, as a person does.
fn press(browser: &Browser, key: &str) -> Result<(), String> {
    let event =
        format!("dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}', bubbles: true }}))");
    browser.run(&format!("document.body.{event}")).map(drop)
}

fn the_player_shows_video_first_and_keeps_its_details_open_for_those_who_want_them()
-> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let browser = Browser::start()?;
    browser.open(&server.url("/demo"))?;
    let line = "return /Delay \\d+\\sms/.test(document.getElementById('line').textContent)";
    browser.wait_until(PATIENCE, line)?;
    let shows = "return document.getElementById('instruments').checkVisibility()";
    let at_first = browser.run(shows)?;
    ensure(at_first == false, "the instruments wait", &at_first)?;
    let share = browser.run(
        "const video = document.getElementById('video').getBoundingClientRect();
         return video.width * video.height / (innerWidth * innerHeight)",
    )?;
    ensure(
        share.as_f64() > Some(0.5),
        "the video has most of the window",
        &share,
    )?;
    browser.screenshot("player-video")?;
    press(&browser, "d")?;
    let opened = browser.run(shows)?;
    ensure(opened == true, "the key opens the instruments", &opened)?;
    browser.open(&server.url("/demo"))?;
    let again = browser.run(shows)?;
    ensure(again == true, "the page remembers the choice", &again)?;
    let label = browser.run("return document.getElementById('details').ariaExpanded")?;
    ensure(
        label == "true",
        "a screen reader hears that they are open",
        &label,
    )
}

fn the_volume_is_kept_and_the_keys_change_it() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let browser = Browser::start()?;
    browser.open(&server.url("/demo"))?;
    browser.wait_until(PATIENCE, "return glassline.state === 'live'")?;
    // The first key makes a muted page heard, from silence on.
    for _ in 0..3 {
        press(&browser, "ArrowUp")?;
    }
    let sound =
        "const { muted, volume } = document.getElementById('video'); return [muted, volume]";
    let heard = browser.run(sound)?;
    ensure(
        heard[0] == false && heard[1] == 0.3,
        "three steps of a tenth",
        &heard,
    )?;
    for _ in 0..4 {
        press(&browser, "ArrowDown")?;
    }
    let silent = browser.run(sound)?;
    ensure(silent[0] == true, "no volume is mute", &silent)?;
    browser.open(&server.url("/demo"))?;
    let kept = browser.run(sound)?;
    ensure(
        kept[0] == true && kept[1] == 0.1,
        "the last volume is kept",
        &kept,
    )
}

fn an_embedded_player_is_video_alone() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let browser = Browser::start()?;
    browser.open(&server.url("/demo"))?;
    browser.wait_until(PATIENCE, "return glassline.state === 'live'")?;
    browser.run("document.getElementById('embed').click()")?;
    let line = browser.run("return document.querySelector('#embedding code').textContent")?;
    let text = line.as_str().unwrap_or_default();
    let address = text.split('"').nth(1).unwrap_or_default().to_owned();
    let is_page = address == server.url("/demo?embed");
    ensure(
        text.starts_with("<iframe ") && is_page,
        "a line for a page",
        &line,
    )?;
    browser.open(&address)?;
    browser.wait_until(PATIENCE, "return glassline.state === 'live'")?;
    let shown = browser.run(
        "const { width, height } = document.getElementById('video').getBoundingClientRect();
         const shows = (it) => document.querySelector(it).checkVisibility();
         return [width === innerWidth, height === innerHeight, shows('.topbar'), shows('.line'), shows('#sound')]",
    )?;
    browser.screenshot("embedded")?;
    let expected = serde_json::json!([true, true, false, false, true]);
    ensure(shown == expected, "the video fills the frame", &shown)
}

fn a_wall_shows_the_streams_that_fit_and_plays_the_one_that_is_clicked() -> Result<(), Failed> {
    let server = Server::serve(&[
        "cam1=demo",
        "cam2=demo",
        "yard=demo",
        "cam3=rtsp://127.0.0.1:1/none",
    ])?;
    let browser = Browser::start()?;
    browser.open(&server.url("/-/wall?streams=cam*"))?;
    let shown_frames = "return [...document.querySelectorAll('.tile')].filter((it) => \
                    it.querySelector('img').naturalWidth === 640).length === 2";
    browser.wait_until(PATIENCE, shown_frames)?;
    let shown = browser.run(
        "return [...document.querySelectorAll('.tile')].map((it) => \
         [it.querySelector('.name').textContent, it.dataset.state])",
    )?;
    let expected = serde_json::json!([["cam1", "live"], ["cam2", "live"], ["cam3", "unreachable"]]);
    ensure(shown == expected, "the streams that fit", &shown)?;
    browser.screenshot("wall")?;
    // A picture is replaced by a newer one.
    browser.run("window.first = document.querySelector('.tile img').src")?;
    browser.wait_until(
        PATIENCE,
        "return document.querySelector('.tile img').src !== first",
    )?;
    browser.run("document.querySelectorAll('.tile')[1].click()")?;
    let plays = "return document.getElementById('frame').contentWindow.glassline?.state === 'live'";
    browser.wait_until(PATIENCE, plays)?;
    let stream = "return document.getElementById('frame').contentWindow.glassline?.stream";
    let large = browser.run(stream)?;
    ensure(large == "cam2", "the tile that was clicked", &large)?;
    browser.screenshot("wall-large")?;
    browser.run("document.getElementById('previous').click()")?;
    browser.wait_until(PATIENCE, &format!("{stream} === 'cam1'"))?;
    browser.run("document.getElementById('close').click()")?;
    // The session ends with its page.
    let viewers = || {
        let list = crate::http::get_json(&server.url("/api/v1/streams/cam1"))?;
        match list["viewers"].as_u64() {
            Some(0) => Ok(()),
            _ => Err(format!("cam1 still has {} viewers", list["viewers"])),
        }
    };
    crate::process::eventually(PATIENCE, viewers)?;
    Ok(())
}

fn a_page_plays_whose_address_has_name_and_password() -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    let browser = Browser::start()?;
    let url = server.url("/demo");
    browser.open(&url.replacen("://", "://ann:secret@", 1))?;
    browser.wait_until(PATIENCE, "return glassline.state === 'live'")?;
    Ok(())
}

/// Makes a film of MPEG-4 visual, and returns its path.
fn film_of_mpeg4() -> Result<String, String> {
    let folder = output_folder();
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let path = folder.join("mpeg4.mp4").display().to_string();
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-y", "-f", "lavfi", "-i"]);
    command.args(["testsrc=size=320x240:rate=25", "-t", "4", "-g", "25"]);
    let status = command.args(["-c:v", "mpeg4", &path]).status();
    match status
        .map_err(|error| format!("ffmpeg: {error}"))?
        .success()
    {
        true => Ok(path),
        false => Err(format!("ffmpeg made no {path}")),
    }
}

fn the_list_says_of_each_codec_why_browsers_refuse_it() -> Result<(), Failed> {
    let film = film_of_mpeg4()?;
    let server = Server::serve(&[
        &format!("film={film}"),
        &format!("never={film}?transcode=never"),
        "demo",
    ])?;
    let browser = Browser::start()?;
    browser.open(&server.url("/"))?;
    for (name, said) in [
        (
            "film",
            "browsers do not play MPEG-4; viewers can choose Play it anyway",
        ),
        ("never", "browsers do not play MPEG-4"),
        ("demo", ""),
    ] {
        let row = format!(
            "const rows = [...document.querySelectorAll('#rows tr')];
             const row = rows.find((it) => it.innerText.includes('{name}') && /Live/.test(it.innerText));
             return row && /×/.test(row.innerText) && (row.querySelector('.warned')?.innerText ?? '') === '{said}'"
        );
        browser.wait_until(PATIENCE, &row)?;
    }
    Ok(())
}
