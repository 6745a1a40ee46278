//! The player's button to talk to a camera, with Chromium's microphone.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use libtest_mimic::Failed;

use crate::peers::{Peer, Test};
use crate::process::eventually;
use crate::server::Server;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[Test {
    name: "talk::the_page_speaks_at_a_camera_and_says_why_another_hears_nothing",
    needs: &[Peer::Chromium],
    run: the_page_speaks_at_a_camera_and_says_why_another_hears_nothing,
}];

/// Long, for a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A camera with a loudspeaker for PCMU and without media of its own.
struct Loudspeaker {
    address: SocketAddr,
    heard: Arc<Counters>,
}

#[derive(Default)]
struct Counters {
    /// Packets with anything but silence.
    loud: AtomicUsize,
    farewells: AtomicUsize,
}

impl Loudspeaker {
    fn start() -> Result<Self, String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = listener.map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let heard = Arc::<Counters>::default();
        let of_all = Arc::clone(&heard);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let heard = Arc::clone(&of_all);
                thread::spawn(move || serve(stream, &heard));
            }
        });
        Ok(Self { address, heard })
    }
}

/// Answers requests until the connection ends. A description without the back channel is refused.
fn serve(mut stream: TcpStream, heard: &Counters) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut first = [0];
        reader.read_exact(&mut first).ok()?;
        if first == *b"$" {
            let mut head = [0; 3];
            reader.read_exact(&mut head).ok()?;
            let mut packet = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
            reader.read_exact(&mut packet).ok()?;
            // 0xff and 0x7f are the zeros of µ-law; the smallest steps around them are noise.
            let is_loud = |byte: &u8| byte & 0x7f < 0x60;
            let payload = packet.get(12..)?;
            let is_loud = payload.iter().filter(|byte| is_loud(byte)).count() > payload.len() / 4;
            heard
                .loud
                .fetch_add(usize::from(is_loud), Ordering::Relaxed);
            continue;
        }
        let mut text = String::from_utf8_lossy(&first).into_owned();
        while !text.ends_with("\r\n\r\n") {
            if reader.read_line(&mut text).ok()? == 0 {
                return None;
            }
        }
        let sequence = text.lines().find(|line| line.starts_with("CSeq"))?;
        let sdp = "v=0\r\ns=camera\r\nm=audio 0 RTP/AVP 0\r\na=sendonly\r\na=control:back\r\n";
        let is_asked = text.contains("Require: www.onvif.org/ver20/backchannel");
        let (status, rest) = match text.split(' ').next()? {
            "DESCRIBE" if is_asked => {
                let length = sdp.len();
                (
                    "200 OK",
                    format!(
                        "Content-Type: application/sdp\r\nContent-Length: {length}\r\n\r\n{sdp}"
                    ),
                )
            }
            "DESCRIBE" => ("404 Not Found", "\r\n".to_owned()),
            "SETUP" => {
                let transport =
                    "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\nSession: 7\r\n\r\n";
                ("200 OK", transport.to_owned())
            }
            method => {
                heard
                    .farewells
                    .fetch_add(usize::from(method == "TEARDOWN"), Ordering::Relaxed);
                ("200 OK", "Session: 7\r\n\r\n".to_owned())
            }
        };
        let response = format!("RTSP/1.0 {status}\r\n{sequence}\r\n{rest}");
        stream.write_all(response.as_bytes()).ok()?;
    }
}

const HOLD: &str = "document.getElementById('talk').dispatchEvent(new PointerEvent('pointerdown', { pointerId: 1 }))";
const LET_GO: &str = "document.getElementById('talk').dispatchEvent(new PointerEvent('pointerup', { pointerId: 1 }))";

fn the_page_speaks_at_a_camera_and_says_why_another_hears_nothing() -> Result<(), Failed> {
    let deaf = Server::serve(&["demo"])?;
    let loudspeaker = Loudspeaker::start()?;
    let server = Server::serve(&[
        &format!("door={}", deaf.rtsp_url("demo")),
        &format!("bell=rtsp://{}/", loudspeaker.address),
    ])?;
    server.wait_for_state("door", "live")?;
    let browser = Browser::start_with(&["--use-fake-device-for-media-stream".to_owned()])?;

    // The button is there for every camera; whether a camera listens shows with the first word.
    browser.open(&server.url("/door"))?;
    browser.wait_until(PATIENCE, "return window.glassline?.talk?.state === 'idle'")?;
    browser.run(HOLD)?;
    browser.wait_until(PATIENCE, "return window.glassline.talk.problem !== null")?;
    browser.screenshot("talk-deaf")?;
    let note = browser.run("return document.getElementById('talk-note').innerText")?;
    let says_why = note
        .as_str()
        .is_some_and(|it| it.contains("no ONVIF back channel"));
    if !says_why {
        return Err(format!("the page says {note}").into());
    }

    // This camera's media is down, and its page waits for it: the button's script is called by hand.
    browser.open(&server.url("/bell"))?;
    browser.run(
        "document.getElementById('talk').hidden = false; window.talked = []; \
         import('/-/talk.js').then(({ Talk }) => { \
           new Talk(document.getElementById('talk'), '/bell/talk', (state, problem) => { \
             window.talked.push(state); window.problem = problem; }); })",
    )?;
    browser.wait_until(PATIENCE, "return window.talked.includes('idle')")?;
    browser.run(HOLD)?;
    let talks = browser.wait_until(PATIENCE, "return window.talked.at(-1) === 'talking'");
    if let Err(reason) = talks {
        let problem = browser.run("return window.problem")?;
        return Err(format!("{reason}: {problem}").into());
    }
    browser.screenshot("talk")?;
    let heard = &loudspeaker.heard;
    eventually(PATIENCE, || match heard.loud.load(Ordering::Relaxed) {
        0..20 => Err("the camera hears nothing".to_owned()),
        _ => Ok(()),
    })?;
    browser.run(LET_GO)?;
    browser.wait_until(PATIENCE, "return window.talked.at(-1) === 'silent'")?;
    // The page is left, and with it the camera.
    browser.open(&server.url("/"))?;
    eventually(PATIENCE, || match heard.farewells.load(Ordering::Relaxed) {
        0 => Err("the camera is still talked at".to_owned()),
        _ => Ok(()),
    })?;
    Ok(())
}
