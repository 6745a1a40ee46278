//! Data channels with WebRTC stacks that share no code with ours: Chromium, Pion and aiortc, each
//! as offerer and as answerer.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use glassline_webrtc::{Cipher, CipherChoice, CloseReason};
use libtest_mimic::Failed;
use serde_json::{Value, json};

use crate::channel_host::{Host, MESSAGE_MAX, SIZES, Story, Terms};
use crate::peers::{self, Peer, Test};
use crate::process::{Running, eventually};
use crate::webdriver::Browser;

/// Long, for a debug build here and an interpreter at the peer, and longer than the peers' own
/// time-outs, whose messages say more.
const PATIENCE: Duration = Duration::from_secs(240);

/// Expected behavior of a peer on the channels that it opens.
#[derive(Clone, Copy)]
struct Plan {
    channels: usize,
    /// Number of these channels that are negotiated.
    negotiated: usize,
    /// Bytes that return on each channel.
    bytes: fn(&str) -> u64,
}

/// Channels: ordered, unordered, and negotiated.
const USUAL: Plan = Plan {
    channels: 3,
    negotiated: 1,
    // In addition to the sizes there is a text of two bytes, which a page counts as one.
    bytes: |_| total() as u64 + 2,
};

/// One channel with messages of 1 MiB, and eight with 256 KiB each, all at the same time.
const LARGE: Plan = Plan {
    channels: 9,
    negotiated: 0,
    bytes: |label| if label == "whole" { 4 << 20 } else { 2 << 20 },
};

pub(crate) const TESTS: &[Test] = &[
    Test::of(&chromium_offers).needs(&[Peer::Chromium]),
    Test::of(&chromium_answers).needs(&[Peer::Chromium]),
    Test::of(&chromium_with_chacha20).needs(&[Peer::Chromium]),
    Test::of(&pion_offers).needs(&[Peer::PionChannels]),
    Test::of(&pion_answers).needs(&[Peer::PionChannels]),
    Test::of(&pion_with_a_larger_buffer_offers_whole_mebibytes).needs(&[Peer::PionChannels]),
    Test::of(&pion_with_a_larger_buffer_answers_with_whole_mebibytes).needs(&[Peer::PionChannels]),
    Test::of(&aiortc_offers).needs(&[Peer::Aiortc]),
    Test::of(&aiortc_answers).needs(&[Peer::Aiortc]),
];

fn chromium_offers() -> Result<(), Failed> {
    chromium(Role::Offers, Terms::default())
}

fn chromium_answers() -> Result<(), Failed> {
    chromium(Role::Answers, Terms::default())
}

fn chromium_with_chacha20() -> Result<(), Failed> {
    let terms = Terms {
        cipher: CipherChoice::Only(Cipher::ChaCha20Poly1305),
        ..Terms::default()
    };
    chromium(Role::Offers, terms)
}

fn pion_offers() -> Result<(), Failed> {
    program("pion", peers::go("channels")?, Role::Offers, false)
}

fn pion_answers() -> Result<(), Failed> {
    program("pion", peers::go("channels")?, Role::Answers, false)
}

fn pion_with_a_larger_buffer_offers_whole_mebibytes() -> Result<(), Failed> {
    program("pion", peers::go("channels")?, Role::Offers, true)
}

fn pion_with_a_larger_buffer_answers_with_whole_mebibytes() -> Result<(), Failed> {
    program("pion", peers::go("channels")?, Role::Answers, true)
}

fn aiortc_offers() -> Result<(), Failed> {
    program(
        "aiortc",
        peers::aiortc("aiortc_channels.py")?,
        Role::Offers,
        false,
    )
}

fn aiortc_answers() -> Result<(), Failed> {
    program(
        "aiortc",
        peers::aiortc("aiortc_channels.py")?,
        Role::Answers,
        false,
    )
}

/// Role of the peer.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Offers,
    Answers,
}

fn chromium(role: Role, terms: Terms) -> Result<(), Failed> {
    let browser = Browser::start()?;
    browser.run(include_str!("../peers/data_channels.js"))?;
    let host = match role {
        Role::Offers => {
            let offer = browser.run("return peer.offer()")?;
            let offer = offer.as_str().ok_or("the page gave no offer")?;
            let (host, answer) = Host::accept(offer, terms)?;
            browser.run(&format!("return peer.accept({})", json!(answer)))?;
            host
        }
        Role::Answers => {
            let dialled = Host::dial(terms)?;
            let answer = browser.run(&format!("return peer.answer({})", json!(dialled.offer)))?;
            let answer = answer.as_str().ok_or("the page gave no answer")?;
            dialled.answered(answer)?
        }
    };
    let done = eventually(PATIENCE, || {
        let report = browser.run("return peer.report")?;
        let story = host.story();
        match (&report["error"], &story.problem) {
            (Value::Null, None) if report["done"] == true && story.verified == total() => {
                Ok(report)
            }
            _ => Err(format!("{report}; {story:?}")),
        }
    })?;
    browser.run("peer.connection.close()")?;
    judge(&host, &done, USUAL, terms.cipher)
}

/// Runs a peer that exchanges descriptions through files; with `large`, it sends messages of a
/// mebibyte.
fn program(name: &str, mut command: Command, role: Role, large: bool) -> Result<(), Failed> {
    let folder = Folder::new(name)?;
    command.arg(&folder.0).arg(match role {
        Role::Offers => "offer",
        Role::Answers => "answer",
    });
    let (plan, terms) = match large {
        false => (USUAL, Terms::default()),
        true => {
            command.arg("large");
            let piece_max = MESSAGE_MAX;
            let cipher = CipherChoice::default();
            (LARGE, Terms { cipher, piece_max })
        }
    };
    let (mut peer, host) = match role {
        Role::Offers => {
            let peer = Running::start(name, command)?;
            let (host, answer) = Host::accept(&folder.described(&peer)?, terms)?;
            folder.describe(&answer)?;
            (peer, host)
        }
        Role::Answers => {
            let dialled = Host::dial(terms)?;
            folder.describe(&dialled.offer)?;
            let peer = Running::start(name, command)?;
            let host = dialled.answered(&folder.described(&peer)?)?;
            (peer, host)
        }
    };
    let status = peer.wait(PATIENCE);
    let printed = peer.printed();
    let story = host.story();
    let status = status.map_err(|reason| format!("{reason}; {story:?}"))?;
    let report = printed.lines().find(|line| line.starts_with('{'));
    let report =
        report.ok_or_else(|| format!("{name} ended with {status}: {printed}; {story:?}"))?;
    let report = serde_json::from_str(report).map_err(|error| format!("{error}: {printed}"))?;
    judge(&host, &report, plan, terms.cipher)
}

/// Checks that both ends got everything back, and that ours saw the peer's close. The close is
/// one datagram without retransmission, so that on a busy machine silence is accepted, too.
fn judge(host: &Host, report: &Value, plan: Plan, cipher: CipherChoice) -> Result<(), Failed> {
    let story = eventually(PATIENCE, || {
        let story = host.story();
        match story.end {
            Some(CloseReason::Peer | CloseReason::Vanished) => Ok(story),
            _ => Err(format!("the peer did not say goodbye: {story:?}; {report}")),
        }
    })?;
    println!("{report}; {story:?}");
    let told = || Failed::from(format!("{report}; {story:?}"));
    let exercised = report["channels"].as_object().ok_or_else(told)?;
    let complete = |(label, it): (&String, &Value)| {
        let all = (plan.bytes)(label);
        it["bytes"] == all || it["bytes"] == all - 1
    };
    if exercised.len() != plan.channels || !exercised.iter().all(complete) {
        return Err(told());
    }
    let in_band = plan.channels - plan.negotiated;
    if report["closed"] != plan.channels || story.opened.len() != in_band {
        return Err(told());
    }
    if story.problem.is_some() || story.verified != total() || story.forged > 0 {
        return Err(told());
    }
    check_cipher(&story, cipher).ok_or_else(told)
}

fn check_cipher(story: &Story, cipher: CipherChoice) -> Option<()> {
    match cipher {
        CipherChoice::Only(forced) => (story.cipher? == forced.as_str()).then_some(()),
        CipherChoice::Prefer(_) => story.cipher.map(drop),
    }
}

fn total() -> usize {
    SIZES.iter().sum()
}

/// Folder in which two programs exchange their descriptions.
struct Folder(PathBuf);

impl Folder {
    /// Creates a folder of its own for each call, since several tests run at a time.
    fn new(name: &str) -> Result<Self, String> {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let unique = format!("glassline-channels-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        // Files of a run that was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }

    /// Reads the peer's description.
    fn described(&self, peer: &Running) -> Result<String, String> {
        let path = self.0.join("local.sdp");
        eventually(PATIENCE, || {
            fs::read_to_string(&path)
                .map_err(|error| format!("{}: {error}; it said {}", path.display(), peer.printed()))
        })
    }

    /// Writes the description for the peer, atomically.
    fn describe(&self, sdp: &str) -> Result<(), String> {
        let part = self.0.join("remote.part");
        fs::write(&part, sdp)
            .and_then(|()| fs::rename(&part, self.0.join("remote.sdp")))
            .map_err(|error| format!("{}: {error}", part.display()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A remaining folder does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}
