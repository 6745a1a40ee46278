//! How other servers reach this one, as its record in NATS says.

use glassline_cluster::Region;
use glassline_cluster::record::{NodeRecord, NodeState};
use glassline_quic::Fingerprint;
use glassline_quic::moq::NodeAddress;

/// Where other servers reach this one.
#[derive(Clone, Debug)]
pub struct Reachable {
    /// Host name or address of the QUIC listener.
    pub host: String,
    /// Its UDP port.
    pub port: u16,
    /// Random number of this process.
    pub incarnation: u64,
    /// Region of this server.
    pub region: Region,
    /// Base of the URLs for viewers over HTTP; `None` if there is none.
    pub http: Option<String>,
    /// Base of the URLs for viewers over RTSP; `None` if there is none.
    pub rtsp: Option<String>,
}

impl Reachable {
    /// Returns the record of a server that has this certificate.
    pub fn record(&self, sha256: Fingerprint) -> NodeRecord {
        let host = &self.host;
        let quic = match host.contains(':') {
            true => format!("[{host}]:{}", self.port),
            false => format!("{host}:{}", self.port),
        };
        NodeRecord {
            quic,
            sha256: sha256.to_string(),
            http: self.http.clone(),
            rtsp: self.rtsp.clone(),
            ..unreachable(self.incarnation, self.region.clone())
        }
    }
}

/// Returns the record of a server that does not listen yet.
pub(super) fn unreachable(incarnation: u64, region: Region) -> NodeRecord {
    NodeRecord {
        inc: incarnation,
        quic: String::new(),
        sha256: String::new(),
        http: None,
        rtsp: None,
        region,
        state: NodeState::Serving,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Reads the address of another server; `None` if it is malformed or the server does not listen yet.
pub(super) fn address(record: &NodeRecord) -> Option<NodeAddress> {
    let (host, port) = record.quic.rsplit_once(':')?;
    let host = host.trim_matches(['[', ']']);
    if host.is_empty() {
        return None;
    }
    Some(NodeAddress {
        host: host.to_owned(),
        port: port.parse().ok()?,
        sha256: record.sha256.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_leads_back_to_its_server() {
        let sha256 = Fingerprint([7; 32]);
        for host in ["192.0.2.1", "2001:db8::1", "node-a.example"] {
            let reachable = Reachable {
                host: host.to_owned(),
                port: 4443,
                incarnation: 5,
                region: Region::new("eu").expect("a name"),
                http: Some("https://public".to_owned()),
                rtsp: None,
            };
            let record = reachable.record(sha256);
            let found = address(&record).expect("an address");
            assert_eq!((found.host.as_str(), found.port), (host, 4443));
            assert_eq!(found.sha256, sha256);
            assert_eq!(record.http.as_deref(), Some("https://public"));
            for quic in ["", ":4443", "host", "host:port", "host:99999"] {
                let quic = quic.to_owned();
                let malformed = NodeRecord {
                    quic,
                    ..record.clone()
                };
                assert!(address(&malformed).is_none(), "{}", malformed.quic);
            }
        }
        let region = Region::new("eu").expect("a name");
        assert!(address(&unreachable(1, region)).is_none());
    }
}
