//! The right that each route for viewers needs, and what its requests lead to.
//!
//! A route states its rules where it is declared ([`ViewerRoutes`](super::viewer_routes)), and the layers
//! in front of the handlers look at nothing else: no layer compares paths.

use std::collections::HashMap;

use axum::http::Method;

use glassline_access::auth::Action;
use glassline_events::failures::ClientRole;

/// The right that a request needs, and who checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// No right is needed, and the name and the site of the request do not count: balancers and
    /// authorities ask by names of their own.
    Nothing,
    /// No right is needed: files of pages are equal for everybody.
    Open,
    /// The right to read the stream in the path or in the query; any stream if none is named.
    Read,
    /// The right to publish the stream in the path.
    Publish,
    /// The right to do this to the stream in the path, or in the query.
    Do(Action),
    /// The right to read the stream in the path, or to publish it: publishers need not be allowed to watch.
    ReadOrPublish,
    /// The right to speak in the room in the path, which the handler checks: it draws the voice's name.
    Room,
    /// The session's unguessable name in the path, which the handler looks up.
    Session,
    /// A ticket for the recordings of the stream in the query: only servers of the cluster ask.
    Server,
    /// The stream key of a POST, which the handler checks; later requests need the session's name.
    Key,
}

/// The errand that a client can continue at another server when this one is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errand {
    /// To watch the stream in the path.
    Watch,
    /// To publish, with the publisher's own credentials.
    Publish,
    /// To be in the room in the path.
    Join,
}

/// The part that a route has in a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// No connection depends on its requests.
    Aside,
    /// A POST has the offer of such a client.
    Offer(ClientRole),
    /// A PATCH changes the ICE of such a client's session.
    Session(ClientRole),
}

/// The wish of a request that leads to a connection, or keeps one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// An offer is to be answered: a POST.
    Connection,
    /// ICE candidates or an ICE restart of a session: a PATCH.
    IceChange,
}

/// All that a route says of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// The path as it is declared; empty for requests without a route.
    pub(super) path: &'static str,
    /// The name of the protocol that a webhook is told.
    pub(super) protocol: &'static str,
    right: Right,
    /// The right that a page needs, which GET returns here.
    page: Option<Right>,
    step: Step,
    errand: Option<Errand>,
    /// Whether a query with an instant, `?at=`, makes a POST one for what was recorded.
    takes_instants: bool,
}

/// The rules of all routes by their paths.
pub(super) type RulesByPath = HashMap<&'static str, Rules>;

impl From<Right> for Rules {
    fn from(right: Right) -> Self {
        Self {
            path: "",
            protocol: "http",
            right,
            page: None,
            step: Step::Aside,
            errand: None,
            takes_instants: false,
        }
    }
}

impl Right {
    /// Returns the rules of a route that takes offers of such clients.
    pub(crate) fn offers_of(self, role: ClientRole) -> Rules {
        Rules {
            step: Step::Offer(role),
            ..self.into()
        }
    }

    /// Returns the rules of a route of the sessions that such clients have.
    pub(crate) fn sessions_of(self, role: ClientRole) -> Rules {
        Rules {
            step: Step::Session(role),
            ..self.into()
        }
    }
}

impl Rules {
    /// Lets answers name the servers where the client can go on with `errand`: answers to a POST, or
    /// to a GET of a session.
    pub(crate) const fn going_on_with(mut self, errand: Errand) -> Self {
        self.errand = Some(errand);
        self
    }

    /// Lets a POST ask for what was recorded by an instant in its query, with the right to recordings.
    pub(crate) const fn with_instants(mut self) -> Self {
        self.takes_instants = true;
        self
    }

    /// Returns these rules as those of `path`, where a page needs the right `page`.
    pub(super) const fn declared(
        self,
        path: &'static str,
        protocol: &'static str,
        page: Option<Right>,
    ) -> Self {
        Self {
            path,
            protocol,
            page,
            ..self
        }
    }

    /// Returns the right that the page of the route needs, if there is one.
    pub(super) const fn page(&self) -> Option<Right> {
        self.page
    }

    /// Returns the right that a request of `method` with this query needs.
    pub(super) fn right(&self, method: &Method, query: Option<&str>) -> Right {
        if self.takes_instants && method == Method::POST && instant(query).is_some() {
            return Right::Do(Action::Playback);
        }
        let page = self.page.filter(|_| is_get(method));
        page.unwrap_or(self.right)
    }

    /// Returns the key of queries that name a stream, where no path does: that of `/doSignaling`, or that
    /// of recordings, as MediaMTX has it.
    pub(super) const fn key_of_stream(&self) -> &'static str {
        match self.right {
            Right::Do(_) | Right::Server => "path",
            _ => "stream",
        }
    }

    /// Returns whether a request of `method` asks for a page.
    pub(super) fn is_page(&self, method: &Method) -> bool {
        self.page.is_some() && is_get(method)
    }

    /// Returns who a request of `method` comes from, and what it wants; `None` for requests that no
    /// connection depends on.
    pub(super) fn client(&self, method: &Method) -> Option<(ClientRole, Wanted)> {
        match (self.step, method) {
            (Step::Offer(role), &Method::POST) => Some((role, Wanted::Connection)),
            (Step::Session(role), &Method::PATCH) => Some((role, Wanted::IceChange)),
            _ => None,
        }
    }

    /// Returns what the client of a request of `method` can go on with at another server.
    pub(super) fn errand(&self, method: &Method) -> Option<Errand> {
        let is_told = match self.step {
            Step::Session(_) => is_get(method),
            Step::Offer(_) | Step::Aside => method == Method::POST,
        };
        self.errand.filter(|_| is_told)
    }

    /// Returns what an offer here can be sent to another server for, with a ticket. A publisher goes
    /// by itself.
    pub(super) fn transferable(&self) -> Option<Errand> {
        let takes_offers = matches!(self.step, Step::Offer(_));
        self.errand
            .filter(|errand| takes_offers && *errand != Errand::Publish)
    }

    /// Returns whether only servers of the cluster ask here.
    pub(super) fn is_for_servers(&self) -> bool {
        self.right == Right::Server
    }

    /// Returns whether a request of `method` may be answered when something changes: that for the
    /// participants of a room.
    pub(super) fn waits_for_changes(&self, method: &Method) -> bool {
        let is_of_participant = matches!(self.step, Step::Session(ClientRole::Participant));
        is_of_participant && method == Method::GET
    }
}

/// Returns the instant that a query names: `at=TIME`.
pub(super) fn instant(query: Option<&str>) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(query?.as_bytes());
    let (_, text) = pairs.find(|(key, _)| key == "at")?;
    Some(text.into_owned())
}

fn is_get(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}
