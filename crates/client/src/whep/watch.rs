//! Notices a server that is lost. A server that was killed says no goodbye, and ICE takes a quarter of
//! a minute to notice its death.
//!
//! ```text
//! media or RTCP arrives, STUN is answered ─► alive
//! nothing of these for 2 s ─► GET of the session ─┬► answered: the stream is at rest
//!                                                 └► no answer, or refused: the server is lost
//! ```
//!
//! Now and then the session is asked for while it works, too: the cluster may have other servers than at
//! its beginning.
//!
//! A server alone, in no cluster, is waited for while it does not answer: it may stand still, and there
//! is no other one.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use url::Url;

use super::Error;
use glassline_trust::Trust;

/// Time without a sign of life after which the session is asked for.
const SILENCE: Duration = Duration::from_secs(2);

/// Time that the server has to answer then.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time after which the other servers of the cluster are asked for again.
const REFRESH: Duration = Duration::from_secs(30);

/// A session at a server, and how to ask for it.
#[derive(Clone, Debug)]
pub(crate) struct SessionAddress {
    pub(crate) location: Url,
    pub(crate) token: Option<String>,
    pub(crate) trust: Trust,
}

impl SessionAddress {
    /// Returns whether the session's name begins with that of a server of a cluster.
    fn names_server(&self) -> bool {
        let segments = self.location.path_segments();
        let session = segments.and_then(|mut it| it.next_back());
        session.is_some_and(|it| it.contains('.'))
    }
}

/// The answer about a session.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SessionAnswer {
    /// The server has the session; others can take it over.
    Exists(Vec<Url>),
    /// The server does not know the session; the reason says so.
    Unknown(String),
    /// The server cannot be reached, or a proxy answers for it.
    Silent(String),
    /// The server has not answered in time.
    Late(String),
    /// The server answers something else, as those do that have no such request.
    Other,
}

/// Decides when a session is asked for, and whether it is lost.
#[derive(Debug)]
struct Lifeline {
    /// When something of the server arrived, or the server was asked.
    heard: Instant,
    /// Whether the server has answered about a session that exists. Other servers may answer 404 to
    /// such a request at any time.
    knows_sessions: bool,
    /// Whether other servers may take the session over.
    is_in_cluster: bool,
}

impl Lifeline {
    fn is_silent(&mut self, now: Instant, heard: Instant) -> bool {
        self.heard = self.heard.max(heard);
        now.saturating_duration_since(self.heard) >= SILENCE
    }

    /// Takes the answer about the session, which was asked for at `asked`. Returns why it is lost.
    fn on_answer(&mut self, now: Instant, asked: Instant, told: SessionAnswer) -> Option<String> {
        let has_spoken = self.heard > asked;
        match told {
            SessionAnswer::Exists(_) => self.knows_sessions = true,
            SessionAnswer::Other => {}
            SessionAnswer::Silent(why) if !has_spoken => return Some(why),
            SessionAnswer::Unknown(why) if !has_spoken && self.knows_sessions => return Some(why),
            SessionAnswer::Late(why) if !has_spoken && self.is_in_cluster => return Some(why),
            SessionAnswer::Silent(_) | SessionAnswer::Late(_) | SessionAnswer::Unknown(_) => {}
        }
        self.heard = self.heard.max(now);
        None
    }
}

/// Watches over the server of one session.
#[derive(Debug)]
pub(crate) struct SessionWatch {
    asked: SessionAddress,
    lifeline: Lifeline,
    question: Option<Question>,
    refresh_due: Instant,
    /// URLs at other servers that take the offer of this session.
    alternates: Vec<Url>,
}

/// A request for the session.
#[derive(Debug)]
struct Question {
    asked: Instant,
    /// Whether nothing of the server arrived before, so that a refusal means its loss.
    is_of_silence: bool,
    answer: Arc<OnceLock<SessionAnswer>>,
}

impl SessionWatch {
    /// Watches from now on. The session is asked for once, to learn how its server answers.
    pub(crate) fn start(asked: SessionAddress, now: Instant) -> Self {
        let mut watch = Self {
            lifeline: Lifeline {
                heard: now,
                knows_sessions: false,
                is_in_cluster: asked.names_server(),
            },
            asked,
            question: None,
            refresh_due: now,
            alternates: Vec::new(),
        };
        watch.ask(now, false);
        watch
    }

    /// Returns the URLs at other servers that were named last.
    pub(crate) fn alternates(&self) -> &[Url] {
        &self.alternates
    }

    /// Looks whether the server is lost, and asks it if need be; `heard`: when something of it arrived
    /// last. Returns why it is lost.
    pub(crate) fn look(&mut self, now: Instant, heard: Instant) -> Option<String> {
        let is_silent = self.lifeline.is_silent(now, heard);
        if let Some(question) = &self.question {
            let told = question.answer.get()?.clone();
            let question = self.question.take()?;
            if let SessionAnswer::Exists(alternates) = &told
                && !alternates.is_empty()
            {
                self.alternates.clone_from(alternates);
            }
            let lost = self.lifeline.on_answer(now, question.asked, told);
            return lost.filter(|_| question.is_of_silence);
        }
        if is_silent || self.refresh_due <= now {
            self.ask(now, is_silent);
        }
        None
    }

    fn ask(&mut self, now: Instant, is_of_silence: bool) {
        self.refresh_due = now + REFRESH;
        let answer = Arc::new(OnceLock::new());
        let (asked, to) = (self.asked.clone(), Arc::clone(&answer));
        let asking = move || {
            to.get_or_init(|| ask(&asked));
        };
        let thread = std::thread::Builder::new().name("session watch".to_owned());
        if thread.spawn(asking).is_err() {
            // A system without threads is no sign of the server's death.
            answer.get_or_init(|| SessionAnswer::Other);
        }
        self.question = Some(Question {
            asked: now,
            is_of_silence,
            answer,
        });
    }
}

fn ask(asked: &SessionAddress) -> SessionAnswer {
    let token = asked.token.as_deref();
    match super::alternates_of(&asked.location, token, asked.trust, PATIENCE) {
        Ok(alternates) => SessionAnswer::Exists(alternates),
        Err(error @ Error::Unreachable { .. }) if error.is_late() => {
            SessionAnswer::Late(error.to_string())
        }
        Err(error @ Error::Unreachable { .. }) => SessionAnswer::Silent(error.to_string()),
        Err(error @ Error::Refused { status, .. }) => match status {
            404 | 410 => SessionAnswer::Unknown(error.to_string()),
            // 501 is the answer of a server that has no such request.
            500 | 502..=504 => SessionAnswer::Silent(error.to_string()),
            _ => SessionAnswer::Other,
        },
        Err(_) => SessionAnswer::Other,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;
    use crate::test_http::{read_request, response};

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn told(text: &str) -> SessionAnswer {
        match text {
            "exists" => SessionAnswer::Exists(Vec::new()),
            "unknown" => SessionAnswer::Unknown("gone".to_owned()),
            "silent" => SessionAnswer::Silent("refused".to_owned()),
            "late" => SessionAnswer::Late("no answer".to_owned()),
            _ => SessionAnswer::Other,
        }
    }

    #[test]
    fn silence_and_a_refusal_are_a_loss_and_each_alone_is_none() {
        let start = Instant::now();
        let lifeline = || Lifeline {
            heard: start,
            knows_sessions: true,
            is_in_cluster: true,
        };
        // A stream at rest: nothing comes, and the server has the session.
        let mut at_rest = lifeline();
        for round in 1..100 {
            let now = start + at(2_000 * round);
            assert!(at_rest.is_silent(now, start), "{round}");
            assert_eq!(at_rest.on_answer(now, now, told("exists")), None);
            assert!(!at_rest.is_silent(now + at(1_999), start), "{round}");
        }
        // Media comes: whatever the answer is, the session works.
        let mut busy = lifeline();
        for answer in ["unknown", "silent"] {
            let asked = start + at(2_000);
            assert!(!busy.is_silent(asked + at(1), asked + at(1)));
            assert_eq!(busy.on_answer(asked + at(5), asked, told(answer)), None);
        }
        // Nothing comes, and the request fails or is refused.
        for answer in ["unknown", "silent", "late"] {
            let mut lost = lifeline();
            assert!(!lost.is_silent(start + at(1_999), start));
            let asked = start + at(2_000);
            assert!(lost.is_silent(asked, start));
            let why = lost.on_answer(asked + at(5), asked, told(answer));
            assert!(why.is_some(), "{answer}");
        }
    }

    #[test]
    fn a_server_that_has_no_such_request_is_not_lost_by_its_answers() {
        let start = Instant::now();
        let mut lifeline = Lifeline {
            heard: start,
            knows_sessions: false,
            is_in_cluster: false,
        };
        let asked = start + at(2_000);
        // The last one stands still, and has the session when it goes on.
        for answer in ["unknown", "other", "late"] {
            assert_eq!(lifeline.on_answer(asked, asked, told(answer)), None);
        }
        let mut lifeline = Lifeline {
            heard: start,
            knows_sessions: false,
            is_in_cluster: false,
        };
        let why = lifeline.on_answer(asked, asked, told("silent"));
        assert_eq!(why.as_deref(), Some("refused"));
    }

    /// Answers each request with the next status, and a header that follows on a line of its own, and
    /// then listens no more.
    fn serve(answers: &'static [&'static str]) -> Url {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let port = listener.local_addr().expect("bound").port();
        std::thread::spawn(move || {
            for status in answers {
                let (mut stream, _) = listener.accept().expect("a client");
                read_request(&stream);
                let (status, headers) = match status.split_once('\n') {
                    Some((status, header)) => (status, vec![header]),
                    None => (*status, Vec::new()),
                };
                let answer = response(status, &headers, "");
                stream.write_all(answer.as_bytes()).expect("a reader");
            }
        });
        Url::parse(&format!("http://127.0.0.1:{port}/cam/whip/a.1")).expect("a URL")
    }

    /// Looks until the question is answered.
    fn settle(watch: &mut SessionWatch, now: Instant) -> Option<String> {
        while watch.question.is_some() {
            if let Some(why) = watch.look(now, now - SILENCE) {
                return Some(why);
            }
            std::thread::yield_now();
        }
        None
    }

    #[test]
    fn a_session_that_its_server_forgot_is_lost_once_nothing_arrives() {
        for (answers, is_lost) in [
            (&["204 No Content", "404 Not Found"][..], true),
            (&["204 No Content", "502 Bad Gateway"], true),
            (&["204 No Content"], true),
            (&["204 No Content", "204 No Content"], false),
            (&["404 Not Found", "404 Not Found"], false),
            (&["405 Method Not Allowed", "405 Method Not Allowed"], false),
        ] {
            let start = Instant::now();
            let asked = SessionAddress {
                location: serve(answers),
                token: None,
                trust: Trust::System,
            };
            let mut watch = SessionWatch::start(asked, start);
            assert_eq!(settle(&mut watch, start), None, "{answers:?}");
            let later = start + SILENCE;
            assert_eq!(watch.look(later, start), None, "the server is asked first");
            let why = settle(&mut watch, later);
            assert_eq!(why.is_some(), is_lost, "{answers:?}: {why:?}");
        }
    }

    #[test]
    fn servers_that_come_later_are_named_to_a_session_that_works() {
        let start = Instant::now();
        let asked = SessionAddress {
            location: serve(&[
                "204 No Content",
                "204 No Content\nLink: <http://192.0.2.2/cam/whip>; rel=\"alternate\"",
                "404 Not Found",
            ]),
            token: None,
            trust: Trust::System,
        };
        let mut watch = SessionWatch::start(asked, start);
        let mut works_at = |now| {
            let mut losses = vec![watch.look(now, now)];
            while watch.question.is_some() {
                losses.push(watch.look(now, now));
                std::thread::yield_now();
            }
            assert!(losses.iter().all(Option::is_none), "media arrives");
            let named = watch.alternates().iter();
            named.map(Url::to_string).collect::<Vec<_>>()
        };
        assert!(works_at(start).is_empty());
        assert!(works_at(start + REFRESH / 2).is_empty(), "not asked yet");
        let named = ["http://192.0.2.2/cam/whip"];
        assert_eq!(works_at(start + REFRESH), named);
        assert_eq!(works_at(start + 2 * REFRESH), named, "a refusal is no loss");
    }
}
