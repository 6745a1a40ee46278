//! `glassline call`: a voice call from a terminal.

mod devices;
mod loopback;
mod options;
mod tables;
mod talk;
mod terminal;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use glassline_client::call::{
    CallError, Config, Dial, DialError, Ended, JoinError, MediaTransport, Server, dial,
};
use glassline_client::ways::Ways;

use crate::bench::interrupt;
use crate::exit::{Failure, INTERRUPTED, THRESHOLD_MISSED};
use crate::output;
pub(crate) use options::Options;
use options::Target;
use tables::Tables;
use talk::Talk;
use terminal::{Key, Terminal};

pub(crate) fn run(options: &Options, quiet: bool) -> Result<ExitCode, Failure> {
    if options.lists_devices() {
        return devices::list();
    }
    match options.target()? {
        Target::Loopback => loopback::run(options, quiet),
        Target::Listen(address) => Session::new(options, quiet)?.listen(address),
        Target::Url(url) => Session::new(options, quiet)?.dial(&to_dial(options, url)),
        Target::Room(url) => Session::new(options, quiet)?.join(&to_dial(options, url)),
    }
}

fn to_dial(options: &Options, url: url::Url) -> Dial {
    Dial {
        url,
        trust: options.trust(),
        token: options.token.clone(),
        impairment: options.impair.clone(),
    }
}

/// State of the command while it runs.
struct Session<'a> {
    options: &'a Options,
    config: Config,
    stop: Arc<AtomicBool>,
    terminal: Terminal,
    tables: Tables<'a>,
}

/// How a call ended.
enum CallEnd {
    /// We hung up, or the time was over.
    Ended,
    /// We hung up or the time was over, and a `--fail-if` condition was met.
    ConditionMet,
    /// The user pressed Ctrl-C.
    Interrupted,
    /// The other end hung up (`why` is `None`), or the call failed. `muted` is what the user had
    /// chosen, and `alternates` the URLs of a room at other servers.
    Lost {
        why: Option<CallError>,
        muted: bool,
        alternates: Vec<url::Url>,
    },
}

impl CallEnd {
    fn code(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Ended | Self::Lost { why: None, .. } => Ok(ExitCode::SUCCESS),
            Self::ConditionMet => Ok(ExitCode::from(THRESHOLD_MISSED)),
            Self::Interrupted => Ok(ExitCode::from(INTERRUPTED)),
            Self::Lost { why: Some(why), .. } => Err(Failure::runtime(why)),
        }
    }
}

impl<'a> Session<'a> {
    fn new(options: &'a Options, quiet: bool) -> Result<Self, Failure> {
        // Opened once before anybody is called, so that wrong files and flags are reported first.
        devices::open(options)?;
        Ok(Self {
            options,
            config: options.config(),
            stop: interrupt::listen()?,
            terminal: Terminal::new(quiet),
            tables: Tables::open(options)?,
        })
    }

    fn dial(&mut self, ask: &Dial) -> Result<ExitCode, Failure> {
        self.terminal.say(&format!("calling {}", ask.url));
        let dialled = dial(ask, &self.config).map_err(|error| match error {
            DialError::Unresolved(_) => Failure::usage(error),
            error => Failure::runtime(error),
        })?;
        if !dialled.transport.speaks() {
            self.terminal
                .say("the other end accepts no audio: you hear it, but it does not hear you");
        }
        self.call(dialled.transport, ask.url.as_str())?.code()
    }

    /// Joins a room of a server.
    ///
    /// With real devices, the call joins again when the server ends it or is silent for too long.
    /// With WAV files it does not, since the audio of a file must not be sent twice.
    fn join(&mut self, ask: &Dial) -> Result<ExitCode, Failure> {
        self.terminal.say(&format!("joining {}", ask.url));
        let mut talk = self.enter(ask).map_err(join_failure)?;
        let options = self.options;
        let mut ways = Ways::new(ask.url.clone(), RETRY_MAX);
        let in_person = options.audio.wav_in.is_none() && options.audio.wav_out.is_none();
        loop {
            match self.follow(talk, ask.url.as_str())? {
                CallEnd::Lost {
                    why,
                    muted,
                    alternates,
                } if in_person && may_be_the_network(why.as_ref()) => {
                    ways.name(alternates);
                    let why = why.map_or_else(
                        || "the server ended the call".to_owned(),
                        |it| it.to_string(),
                    );
                    self.terminal.say(&format!("{why}; joining again"));
                    self.config.muted = muted;
                }
                end => return end.code(),
            }
            talk = match self.enter_again(ask, &mut ways)? {
                Ok(talk) => talk,
                Err(end) => return end.code(),
            };
        }
    }

    fn enter(&self, ask: &Dial) -> Result<Talk, JoinFailure> {
        let devices = devices::open(self.options).map_err(JoinFailure::Devices)?;
        let talk = Talk::room(ask.clone(), &self.config, devices);
        talk.map_err(JoinFailure::Join)
    }

    /// Joins the room again as soon as a server accepts, unless the user stops the command.
    #[expect(clippy::disallowed_methods, reason = "a command may wait")]
    fn enter_again(
        &self,
        ask: &Dial,
        ways: &mut Ways<url::Url>,
    ) -> Result<Result<Talk, CallEnd>, Failure> {
        let mut pause = ways.lost();
        loop {
            let next = Instant::now() + pause;
            while Instant::now() < next {
                if interrupt::is_stopped(&self.stop) {
                    return Ok(Err(CallEnd::Interrupted));
                }
                if self.terminal.key() == Some(Key::HangUp) {
                    return Ok(Err(CallEnd::Ended));
                }
                std::thread::sleep(POLL);
            }
            let url = with_own_name(ways.present(), &ask.url);
            let dial = Dial { url, ..ask.clone() };
            match self.enter(&dial) {
                Ok(talk) => return Ok(Ok(talk)),
                // What another server was named for may have become invalid: the user's URL decides.
                Err(JoinFailure::Join(why)) if !ways.is_own() => {
                    tracing::debug!(%why, "not joined at another server");
                }
                Err(JoinFailure::Join(JoinError::Dial(DialError::Refused(why))))
                    if why.is_transient() =>
                {
                    tracing::debug!(%why, "not joined yet");
                }
                Err(why) => return Err(join_failure(why)),
            }
            pause = ways.failed();
        }
    }

    /// Takes calls, one after the other, until Ctrl-C.
    #[expect(clippy::disallowed_methods, reason = "a command may wait")]
    fn listen(&mut self, address: std::net::SocketAddr) -> Result<ExitCode, Failure> {
        let server = Server::start(address, self.config.clone()).map_err(Failure::runtime)?;
        output::print(&format!("{}\n", server.url()))?;
        let url = server.url();
        self.terminal.say(&format!(
            "call it with `glassline call {url}`, or open the URL in a browser; Ctrl-C ends this command"
        ));
        while !interrupt::is_stopped(&self.stop) {
            let Some(incoming) = server.poll() else {
                std::thread::sleep(POLL);
                continue;
            };
            self.terminal.say(&format!("{} is calling", incoming.peer));
            let peer = incoming.peer.to_string();
            match self.call(incoming.transport, &peer).and_then(CallEnd::code) {
                _ if interrupt::is_stopped(&self.stop) => break,
                ended if self.options.once => return ended,
                Ok(_) => {}
                Err(error) => tracing::warn!("{error}"),
            }
            drop(incoming.slot);
        }
        Ok(ExitCode::from(INTERRUPTED))
    }

    /// Runs one call with one other end.
    fn call(&mut self, transport: MediaTransport, peer: &str) -> Result<CallEnd, Failure> {
        let devices = devices::open(self.options)?;
        let talk = Talk::direct(transport, self.config.clone(), devices);
        self.follow(talk.map_err(Failure::runtime)?, peer)
    }

    /// Runs the call until it ends, its time is over, or the user stops it.
    #[expect(clippy::disallowed_methods, reason = "a command may wait")]
    fn follow(&mut self, mut talk: Talk, peer: &str) -> Result<CallEnd, Failure> {
        let mut notes = self.tables.begin(&talk);
        let mut connected = None;
        let mut muted = self.config.muted;
        let mut end = CallEnd::Ended;
        while talk.call().ended().is_none() {
            if interrupt::is_stopped(&self.stop) {
                end = CallEnd::Interrupted;
                break;
            }
            let figures = talk.call().figures();
            talk.print_changes(&self.terminal);
            if figures.is_connected && connected.is_none() {
                connected = Some(Instant::now());
                self.terminal.connected(&figures);
            }
            let since = connected.map(|at: Instant| at.elapsed());
            if since
                .zip(self.options.time)
                .is_some_and(|(it, most)| it >= most)
            {
                break;
            }
            match self.terminal.key() {
                Some(Key::Mute) => {
                    muted = !muted;
                    talk.call().set_muted(muted);
                }
                Some(Key::HangUp) => break,
                None => {}
            }
            notes.poll(&talk);
            let whole = notes.mouth_to_ear_ms();
            self.terminal
                .show(&figures, since, muted, talk.others(), whole);
            std::thread::sleep(POLL);
        }
        // Read first: hanging up removes a leg's voice from the figures.
        let listening = talk.call().figures().listening;
        let ended = talk.end();
        let mut figures = talk.call().figures();
        figures.listening = listening.or(figures.listening);
        self.terminal
            .end(&figures, connected.map(|at| at.elapsed()));
        notes.poll(&talk);
        let misses = self.tables.finish(notes, &figures, peer)?;
        for miss in &misses {
            eprintln!("{miss}");
        }
        let end = match ended {
            Ok(Ended::ByUs) => end,
            Ok(Ended::ByPeer) => {
                self.terminal.say("the other end hung up");
                CallEnd::Lost {
                    why: None,
                    muted,
                    alternates: talk.alternates(),
                }
            }
            Err(why) => CallEnd::Lost {
                why: Some(why),
                muted,
                alternates: talk.alternates(),
            },
        };
        Ok(match end {
            CallEnd::Ended | CallEnd::Lost { why: None, .. } if !misses.is_empty() => {
                CallEnd::ConditionMet
            }
            end => end,
        })
    }
}

/// The reason why joining a room failed.
enum JoinFailure {
    Devices(Failure),
    Join(JoinError),
}

fn join_failure(why: JoinFailure) -> Failure {
    match why {
        JoinFailure::Devices(failure) => failure,
        JoinFailure::Join(error @ JoinError::Dial(DialError::Unresolved(_))) => {
            Failure::usage(error)
        }
        JoinFailure::Join(error) => Failure::runtime(error),
    }
}

/// Whether the network may be the reason, so that another try may succeed; a hang-up is no
/// reason.
const fn may_be_the_network(why: Option<&CallError>) -> bool {
    matches!(
        why,
        None | Some(
            CallError::NotConnected { .. }
                | CallError::Vanished { .. }
                | CallError::ServerLost(_)
                | CallError::Closed(_)
        )
    )
}

/// Longest pause between tries to join a room again.
const RETRY_MAX: Duration = Duration::from_millis(1_500);
/// Time between two polls of a call.
const POLL: Duration = Duration::from_millis(50);

/// Returns `way` with the participant's name in `own`: a server that another one named knows no name.
fn with_own_name(way: &url::Url, own: &url::Url) -> url::Url {
    let name_in = |url: &url::Url| {
        let mut pairs = url.query_pairs();
        pairs.find_map(|(key, name)| (key == "name").then(|| name.into_owned()))
    };
    let mut url = way.clone();
    if name_in(way).is_none()
        && let Some(name) = name_in(own)
    {
        url.query_pairs_mut().append_pair("name", &name);
    }
    url
}

#[cfg(test)]
mod tests {
    use super::with_own_name;

    #[test]
    fn a_participant_keeps_its_name_at_another_server() {
        let url = |text: &str| url::Url::parse(text).expect("a URL");
        let own = url("http://a/call/team?name=Eve%20B");
        let named = with_own_name(&url("http://b/call/team?ticket=t"), &own);
        assert_eq!(named.as_str(), "http://b/call/team?ticket=t&name=Eve+B");
        assert_eq!(with_own_name(&own, &own), own);
        let nameless = url("http://a/call/team");
        let way = url("http://b/call/team");
        assert_eq!(with_own_name(&way, &nameless), way);
    }
}
