//! A TURN server in memory that implements enough of RFC 8656 to test a client.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use turn_client_proto::stun::types::attribute::{
    AttributeStaticType, ErrorCode, Nonce, PasswordAlgorithmValue, PasswordAlgorithms, Realm,
    Username, XorMappedAddress,
};
use turn_client_proto::stun::types::message::{
    IntegrityAlgorithm, LongTermKeyCredentials, Message, MessageClass, MessageIntegrityCredentials,
    MessageWriteVec,
};
use turn_client_proto::stun::types::prelude::{MessageWrite, MessageWriteExt};
use turn_client_proto::types::attribute::{
    ChannelNumber, Lifetime, RequestedTransport, XorPeerAddress, XorRelayedAddress,
};
use turn_client_proto::types::message::{ALLOCATE, CHANNEL_BIND, CREATE_PERMISSION, REFRESH};

use super::Credentials;

pub(crate) const REALM: &str = "test.example";

#[derive(Debug)]
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    credentials: MessageIntegrityCredentials,
    /// Whether SHA-256 is offered (RFC 8489 §9.2.4).
    pub(crate) offers_sha256: bool,
    /// Number of times that the nonce has changed; its text contains this number.
    pub(crate) nonce: u32,
    pub(crate) allocations: BTreeMap<SocketAddr, Allocation>,
    /// Integrity algorithms of the requests, in order.
    pub(crate) integrity: Vec<IntegrityAlgorithm>,
    /// Number of requests with a nonce that was no longer valid.
    pub(crate) stale: u32,
    /// Number of allocations that were released.
    pub(crate) deleted: u32,
    /// Number of requests to refresh an allocation.
    pub(crate) refreshed: u32,
}

#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) relayed: SocketAddr,
    pub(crate) channels: BTreeMap<u16, SocketAddr>,
}

/// Source, destination and bytes of a datagram.
pub(crate) type Datagram = (SocketAddr, SocketAddr, Vec<u8>);

impl TestServer {
    pub(crate) fn new(address: SocketAddr, credentials: &Credentials) -> Self {
        let key = LongTermKeyCredentials::new(
            credentials.username.clone(),
            credentials.password.clone(),
            REALM.to_owned(),
        );
        Self {
            address,
            credentials: MessageIntegrityCredentials::LongTerm(key),
            offers_sha256: false,
            nonce: 0,
            allocations: BTreeMap::new(),
            integrity: Vec::new(),
            stale: 0,
            deleted: 0,
            refreshed: 0,
        }
    }

    /// Handles a datagram, and returns the datagrams that are sent in return.
    pub(crate) fn handle(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        bytes: &[u8],
    ) -> Option<Datagram> {
        if to != self.address {
            return self.handle_peer(from, to, bytes);
        }
        if bytes[0] & 0xc0 != 0 {
            let channel = u16::from_be_bytes([bytes[0], bytes[1]]);
            let length = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
            let allocation = self.allocations.get(&from)?;
            let peer = *allocation.channels.get(&channel)?;
            return Some((allocation.relayed, peer, bytes[4..4 + length].to_vec()));
        }
        let message = Message::from_bytes(bytes).expect("a STUN message");
        assert!(message.has_class(MessageClass::Request), "{message}");
        Some((self.address, from, self.answer(from, &message)))
    }

    fn handle_peer(&self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) -> Option<Datagram> {
        let mut allocations = self.allocations.iter();
        let (client, allocation) = allocations.find(|(_, it)| it.relayed == to)?;
        let mut channels = allocation.channels.iter();
        // Without a channel there is no permission either.
        let (channel, _) = channels.find(|(_, peer)| **peer == from)?;
        let length = u16::try_from(bytes.len()).expect("a datagram");
        let mut frame = channel.to_be_bytes().to_vec();
        frame.extend(length.to_be_bytes());
        frame.extend(bytes);
        Some((self.address, *client, frame))
    }

    /// Prefix by which a nonce indicates that algorithms are offered (RFC 8489 §9.2).
    fn nonce_text(&self) -> String {
        match self.offers_sha256 {
            true => format!("obMatJos2gAAA{}", self.nonce),
            false => format!("n{}", self.nonce),
        }
    }

    fn refuse(&self, request: &Message<'_>, code: u16) -> Vec<u8> {
        let mut answer = Message::builder_error(request, MessageWriteVec::new());
        let reason = ErrorCode::new(code, "refused").expect("a code");
        answer.add_attribute(&reason).expect("room");
        let realm = Realm::new(REALM).expect("a realm");
        answer.add_attribute(&realm).expect("room");
        let nonce = Nonce::new(&self.nonce_text()).expect("a nonce");
        answer.add_attribute(&nonce).expect("room");
        if self.offers_sha256 {
            let offered = [PasswordAlgorithmValue::SHA256, PasswordAlgorithmValue::MD5];
            let algorithms = PasswordAlgorithms::new(&offered);
            answer.add_attribute(&algorithms).expect("room");
        }
        answer.finish()
    }

    fn answer(&mut self, from: SocketAddr, request: &Message<'_>) -> Vec<u8> {
        let Ok(nonce) = request.attribute::<Nonce>() else {
            return self.refuse(request, 401);
        };
        if nonce.nonce() != self.nonce_text() {
            self.stale += 1;
            return self.refuse(request, 438);
        }
        assert!(request.has_attribute(Username::TYPE), "{request}");
        let Ok(integrity) = request.validate_integrity(&self.credentials) else {
            return self.refuse(request, 401);
        };
        self.integrity.push(integrity);
        if request.has_method(CHANNEL_BIND) && !self.allocations.contains_key(&from) {
            // Allocation Mismatch (RFC 8656 §5): the client released it meanwhile.
            return self.refuse(request, 437);
        }
        let mut answer = Message::builder_success(request, MessageWriteVec::new());
        let id = request.transaction_id();
        let lifetime = Lifetime::new(600);
        if request.has_method(ALLOCATE) {
            let transport = request.attribute::<RequestedTransport>();
            let transport = transport.expect("RFC 8656 §7.1 demands it");
            assert_eq!(transport.protocol(), RequestedTransport::UDP);
            let port = 50_000 + u16::try_from(self.allocations.len()).expect("a few");
            let relayed = SocketAddr::new(self.address.ip(), port);
            let new = Allocation {
                relayed,
                channels: BTreeMap::new(),
            };
            let allocation = self.allocations.entry(from).or_insert(new);
            let relayed = XorRelayedAddress::new(allocation.relayed, id);
            answer.add_attribute(&relayed).expect("room");
            let mapped = XorMappedAddress::new(from, id);
            answer.add_attribute(&mapped).expect("room");
            answer.add_attribute(&lifetime).expect("room");
        } else if request.has_method(REFRESH) {
            let wanted = request.attribute::<Lifetime>().map(|it| it.seconds());
            if wanted == Ok(0) {
                self.deleted += 1;
                self.allocations.remove(&from);
            } else {
                self.refreshed += 1;
            }
            answer.add_attribute(&lifetime).expect("room");
        } else if request.has_method(CHANNEL_BIND) {
            let channel = request.attribute::<ChannelNumber>().expect("a channel");
            let peer = request.attribute::<XorPeerAddress>().expect("a peer");
            let allocation = self.allocations.get_mut(&from).expect("an allocation");
            let peer = peer.addr(id);
            allocation.channels.insert(channel.channel(), peer);
        } else {
            assert!(request.has_method(CREATE_PERMISSION), "{request}");
        }
        answer
            .add_message_integrity(&self.credentials, integrity)
            .expect("room");
        answer.finish()
    }
}
