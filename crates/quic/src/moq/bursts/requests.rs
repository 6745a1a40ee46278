//! Streams that other servers ask for.

use moq_net::origin;

use super::broadcast::UnitBroadcast;
use super::catalog::{NodeName, PATH_MAX};
use crate::moq::ended::Ended;
use crate::moq::origin::Origin;
use crate::moq::refusal::Refusal;

/// The requests of other servers for streams of a collection. Other broadcasts of the collection are
/// found as ever. Requests that nobody takes any more are refused when this value is dropped.
#[derive(derive_more::Debug)]
#[debug("NodeRequests {{ .. }}")]
pub struct NodeRequests(origin::Dynamic);

/// Another server's request for a stream.
#[derive(derive_more::Debug)]
#[debug("NodeRequest {{ asking: {asking:?}, name: {name:?}, .. }}")]
pub struct NodeRequest {
    asking: Vec<NodeName>,
    name: String,
    request: origin::Request,
}

/// The reason why a server does not get the stream that it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestRefusal {
    /// There is no such stream.
    #[error("the server has no such stream")]
    NotFound,
    /// Servers would pull the stream from each other in a circle, or over too many servers.
    #[error("{}", Refusal::Loop)]
    Loop,
    /// Another owner of the stream's name has a newer claim.
    #[error("{}", Refusal::Superseded)]
    Superseded,
}

impl RequestRefusal {
    pub(super) fn error(self) -> moq_net::Error {
        match self {
            Self::NotFound => moq_net::Error::NotFound,
            Self::Loop => Refusal::Loop.error(),
            Self::Superseded => Refusal::Superseded.error(),
        }
    }

    /// Returns the meaning of an error that a subscription ended with.
    pub(super) fn of(error: &moq_net::Error) -> Option<Self> {
        use moq_net::{Error, StreamError};
        let code = match error {
            Error::NotFound | Error::Unroutable => return Some(Self::NotFound),
            Error::Stream(StreamError::NotFound) => return Some(Self::NotFound),
            Error::App(code) | Error::Stream(StreamError::App(code)) => *code,
            _ => return None,
        };
        [Self::Loop, Self::Superseded]
            .into_iter()
            .find(|it| matches!(it.error(), Error::App(own) if own == code))
    }
}

impl Origin {
    /// Begins to take requests of other servers for streams of this collection.
    ///
    /// # Errors
    /// [`Ended`] if the collection has ended.
    pub fn serve_nodes(&self) -> Result<NodeRequests, Ended> {
        let dynamic = self.producer.dynamic("", origin::Route::default());
        dynamic.map(NodeRequests).map_err(Ended::of)
    }
}

impl NodeRequests {
    /// Returns the next request; `None` once the collection has ended. Requests that cannot be read
    /// are refused.
    pub async fn next(&self) -> Option<NodeRequest> {
        loop {
            let request = self.0.requested_broadcast().await.ok()?;
            match read_path(request.path().as_str()) {
                Some((asking, name)) => {
                    return Some(NodeRequest {
                        asking,
                        name,
                        request,
                    });
                }
                None => request.reject(moq_net::Error::NotFound),
            }
        }
    }
}

impl NodeRequest {
    /// Returns the servers that ask, from the one that wants the stream for its viewers to the one
    /// whose session this is.
    pub fn asking(&self) -> &[NodeName] {
        &self.asking
    }

    /// Returns the name of the stream.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether `node` must refuse the request, because it asks already, or because too many
    /// servers do.
    pub fn is_loop(&self, node: &NodeName) -> bool {
        self.asking.len() >= PATH_MAX || self.asking.contains(node)
    }

    /// Gives the broadcast to the server that asks. Any number of requests may be given the same one.
    pub fn accept(self, broadcast: &UnitBroadcast) {
        self.request.accept(broadcast.producer());
    }

    /// Refuses the request.
    pub fn refuse(self, why: RequestRefusal) {
        self.request.reject(why.error());
    }
}

/// Returns the path by which the servers `asking` ask for the stream `name`. With a number of its own
/// each attempt gets a broadcast of its own, and no end of an earlier one.
pub(super) fn path(asking: &[NodeName], attempt: u64, name: &str) -> String {
    let mut path = String::new();
    for node in asking {
        path.push_str(node.as_str());
        path.push(',');
    }
    path.push_str(&format!("{attempt:x}/{name}"));
    path
}

/// Reads such a path.
fn read_path(path: &str) -> Option<(Vec<NodeName>, String)> {
    let (asking, name) = path.split_once('/')?;
    let (asking, attempt) = asking.rsplit_once(',')?;
    u64::from_str_radix(attempt, 16).ok()?;
    let asking: Vec<NodeName> = asking
        .split(',')
        .take(PATH_MAX + 1)
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    Some((asking, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_asking_servers_and_the_name_are_read_from_the_path() {
        let nodes = ["edge", "relay_1"].map(|it| it.parse::<NodeName>().expect("a name"));
        let path = path(&nodes, u64::MAX, "hall/cam 1");
        let (asking, name) = read_path(&path).expect("a path");
        assert_eq!(
            (asking.as_slice(), name.as_str()),
            (&nodes[..], "hall/cam 1")
        );
        for path in [
            "cam",
            "edge/cam",
            ",1/cam",
            "edge,/cam",
            "edge,x/cam",
            "a b,1/cam",
        ] {
            assert!(read_path(path).is_none(), "{path}");
        }
        let many = read_path("a,b,c,d,e,f,g,1/cam").expect("cut short").0;
        assert_eq!(many.len(), PATH_MAX + 1, "enough to be refused");
    }

    #[test]
    fn refusals_are_known_again_by_their_codes() {
        for refusal in [
            RequestRefusal::NotFound,
            RequestRefusal::Loop,
            RequestRefusal::Superseded,
        ] {
            assert_eq!(RequestRefusal::of(&refusal.error()), Some(refusal));
        }
        assert_eq!(RequestRefusal::of(&Refusal::Busy.error()), None);
    }
}
