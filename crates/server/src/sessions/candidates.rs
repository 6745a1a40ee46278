//! The server's own ICE candidates in an answer.

use std::net::{IpAddr, SocketAddr};

use glassline_webrtc::TransportAddress;

use super::negotiator::Negotiator;
use crate::addresses;

impl Negotiator {
    /// Returns the server's media addresses for a peer whose request arrived at `reached`. For a peer
    /// that `shuns_loopback` there is another address of this machine beside those of the loopback
    /// interface.
    pub(super) fn candidates(
        &self,
        reached: IpAddr,
        shuns_loopback: bool,
    ) -> Vec<TransportAddress> {
        let media = self.settings.media;
        let ips = self.shared.addresses.ips(media.ip(), reached);
        // Others get none: a second address may lead the datagrams of one peer to two shards.
        let is_shunned = shuns_loopback && ips.iter().all(IpAddr::is_loopback);
        let own = is_shunned.then(addresses::beside_loopback).flatten();
        let at = |ip: &IpAddr| SocketAddr::new(*ip, media.port());
        let udp = ips.iter().chain(&own).map(at).map(TransportAddress::udp);
        let tcp = ips.iter().map(at).map(TransportAddress::tcp);
        let tcp = tcp.filter(|_| self.settings.media_tcp);
        udp.chain(tcp).collect()
    }
}
