//! Talking to a camera: the player's button with Chromium's microphone, and the command line.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use glassline_media::{Codec, Track};
use glassline_transcode::{AudioSource, Decoder};
use libtest_mimic::Failed;

use crate::peers::{Peer, Test};
use crate::process::{PATIENCE, eventually, output_folder};
use crate::server::{Server, run_to_end};
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&the_page_speaks_at_cameras_and_offers_nothing_where_none_hears)
        .needs(&[Peer::Chromium]),
    Test::of(&a_file_with_opus_is_heard_by_every_camera).needs(&[Peer::Ffmpeg]),
];

/// A camera with a loudspeaker and without media of its own. The loudspeaker takes AAC alone if the
/// path is `/aac`, else PCMU.
struct Loudspeaker {
    address: SocketAddr,
    heard: Arc<Counters>,
}

#[derive(Default)]
struct Counters {
    /// Packets with anything but silence, in PCMU and in AAC.
    loud: AtomicUsize,
    loud_aac: AtomicUsize,
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
    let aac = Track::audio(Codec::Aac, 1).with_clock_rate(16_000);
    let mut decoder = Decoder::new(&AudioSource::of(&aac).ok()?).ok()?;
    let mut samples = Vec::new();
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
            if packet[1] & 0x7f == AAC_PAYLOAD_TYPE {
                // A header of two bytes and one of the frame's size.
                decoder.decode(payload.get(4..)?, &mut samples).ok()?;
                let is_loud = samples.iter().any(|it| it.abs() > 0.05);
                let loud = usize::from(is_loud);
                heard.loud_aac.fetch_add(loud, Ordering::Relaxed);
                continue;
            }
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
        let format = match text.lines().next()?.contains("/aac") {
            true => "97\r\na=rtpmap:97 mpeg4-generic/16000/1\r\na=fmtp:97 mode=AAC-hbr;config=1408",
            false => "0",
        };
        let sdp = format!(
            "v=0\r\ns=camera\r\nm=audio 0 RTP/AVP {format}\r\na=sendonly\r\na=control:back\r\n"
        );
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

/// Payload type of AAC in the camera's description.
const AAC_PAYLOAD_TYPE: u8 = 97;

const HOLD: &str = "document.getElementById('talk').dispatchEvent(new PointerEvent('pointerdown', { pointerId: 1 }))";
const LET_GO: &str = "document.getElementById('talk').dispatchEvent(new PointerEvent('pointerup', { pointerId: 1 }))";

fn the_page_speaks_at_cameras_and_offers_nothing_where_none_hears() -> Result<(), Failed> {
    let deaf = Server::serve(&["demo"])?;
    let loudspeaker = Loudspeaker::start()?;
    let server = Server::serve(&[
        &format!("door={}", deaf.rtsp_url("demo")),
        &format!("bell=rtsp://{}/", loudspeaker.address),
        &format!("gate=rtsp://{}/aac", loudspeaker.address),
    ])?;
    server.wait_for_state("door", "live")?;
    let browser = Browser::start_with(&["--use-fake-device-for-media-stream".to_owned()])?;

    // The button is there only for a camera that takes a voice.
    browser.open(&server.url("/door"))?;
    browser.wait_until(PATIENCE, "return window.glassline?.talk?.state === 'none'")?;
    browser.screenshot("talk-deaf")?;
    let problem = browser.run("return window.glassline.talk.problem")?;
    let says_why = problem
        .as_str()
        .is_some_and(|it| it.contains("no ONVIF back channel"));
    let is_hidden = browser.run("return document.getElementById('talk').hidden")?;
    if !says_why || is_hidden != true {
        return Err(format!("the page says {problem}, button hidden: {is_hidden}").into());
    }

    let heard = &loudspeaker.heard;
    speak(&browser, &server, "bell", || {
        heard.loud.load(Ordering::Relaxed) >= 20
    })?;
    speak(&browser, &server, "gate", || {
        heard.loud_aac.load(Ordering::Relaxed) >= 5
    })?;
    // The page is left, and with it the camera.
    browser.open(&server.url("/"))?;
    eventually(PATIENCE, || match heard.farewells.load(Ordering::Relaxed) {
        0 | 1 => Err("the camera is still talked at".to_owned()),
        _ => Ok(()),
    })?;
    Ok(())
}

/// Holds the button for the camera `name` until it has heard enough.
fn speak(
    browser: &Browser,
    server: &Server,
    name: &str,
    is_heard: impl Fn() -> bool,
) -> Result<(), Failed> {
    // This camera's media is down, and its page waits for it: the button's script is called by hand.
    browser.open(&server.url(&format!("/{name}")))?;
    browser.run(&format!(
        "document.getElementById('talk').hidden = false; window.talked = []; \
         import('/-/talk.js').then(({{ Talk }}) => {{ \
           new Talk(document.getElementById('talk'), '/{name}/talk', (state, problem) => {{ \
             window.talked.push(state); window.problem = problem; }}); }})",
    ))?;
    browser.wait_until(PATIENCE, "return window.talked.includes('idle')")?;
    browser.run(HOLD)?;
    let talks = browser.wait_until(PATIENCE, "return window.talked.at(-1) === 'talking'");
    if let Err(reason) = talks {
        let problem = browser.run("return window.problem")?;
        return Err(format!("{name}: {reason}: {problem}").into());
    }
    browser.screenshot(&format!("talk-{name}"))?;
    eventually(PATIENCE, || match is_heard() {
        true => Ok(()),
        false => Err(format!("{name} hears nothing")),
    })?;
    browser.run(LET_GO)?;
    browser.wait_until(PATIENCE, "return window.talked.at(-1) === 'silent'")?;
    Ok(())
}

fn a_file_with_opus_is_heard_by_every_camera() -> Result<(), Failed> {
    let folder = output_folder();
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let file = folder.join("talk.mkv").display().to_string();
    let tone = "sine=frequency=700:sample_rate=48000:duration=2,volume=6";
    let encoded = Command::new("ffmpeg")
        .args(["-v", "error", "-y", "-f", "lavfi", "-i", tone])
        .args(["-c:a", "libopus", &file])
        .status();
    if !encoded.is_ok_and(|status| status.success()) {
        return Err("FFmpeg encodes no Opus".into());
    }
    let loudspeaker = Loudspeaker::start()?;
    let heard = &loudspeaker.heard;
    let server = Server::serve(&[
        &format!("bell=rtsp://{}/", loudspeaker.address),
        &format!("gate=rtsp://{}/aac", loudspeaker.address),
    ])?;
    // Of 100 packets of 20 ms and of 31 frames of 64 ms.
    for (name, loud, least) in [("bell", &heard.loud, 60), ("gate", &heard.loud_aac, 20)] {
        let url = server.url(&format!("/{name}/talk"));
        let (status, printed) = run_to_end(&["publish", "--once", &file, &url])?;
        let count = loud.load(Ordering::Relaxed);
        if !status.success() || count < least {
            return Err(format!("{name} heard {count} packets; {status}: {printed}").into());
        }
    }
    Ok(())
}
