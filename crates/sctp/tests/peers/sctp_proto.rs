use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use ::sctp_proto::{
    Association, AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig, Event,
    Payload, PayloadProtocolIdentifier, ReliabilityType, ServerConfig, StreamEvent, Transmit,
    TransportConfig,
};
use bytes::Bytes;
use glassline_sctp::{Reliability, SendOptions};

use super::{Figures, Happened, Peer, Setup};

/// The SCTP that str0m uses.
pub(crate) struct SctpProto {
    endpoint: Endpoint,
    association: Option<(AssociationHandle, Association)>,
    transport: Arc<TransportConfig>,
    streams: BTreeSet<u16>,
    happened: VecDeque<Happened>,
    packets: VecDeque<Bytes>,
}

impl SctpProto {
    pub(crate) fn new(setup: Setup) -> Self {
        let transport = TransportConfig::default()
            .with_max_receive_buffer_size(setup.window as u32)
            .with_max_send_message_size(1 << 20)
            .with_max_receive_message_size(1 << 20);
        let transport = Arc::new(transport);
        let mut endpoint = EndpointConfig::new();
        // Headers of packet and chunk are not counted.
        endpoint.max_payload_size(setup.mtu as u32 - 28);
        let mut server = ServerConfig::new();
        server.transport = transport.clone();
        Self {
            endpoint: Endpoint::new(Arc::new(endpoint), Some(Arc::new(server))),
            association: None,
            transport,
            streams: BTreeSet::new(),
            happened: VecDeque::new(),
            packets: VecDeque::new(),
        }
    }

    fn drain(&mut self) {
        let Some((handle, association)) = &mut self.association else {
            return;
        };
        while let Some(event) = association.poll() {
            let happened = match event {
                Event::Connected => Happened::Connected,
                Event::AssociationLost { reason } => Happened::Closed(reason.to_string()),
                Event::HandshakeFailed { reason } => Happened::Closed(reason.to_string()),
                // A reset of either end removes the stream: what was unread would be lost
                // to the application, so it is read here.
                Event::Stream(StreamEvent::Finished { id }) => {
                    self.streams.remove(&id);
                    Happened::PeerReset(vec![id])
                }
                Event::Stream(StreamEvent::ResetComplete { id }) => Happened::Reset(vec![id]),
                Event::Stream(StreamEvent::Opened { .. }) => {
                    while let Some(stream) = association.accept_stream() {
                        self.streams.insert(stream.stream_identifier());
                    }
                    continue;
                }
                Event::Stream(StreamEvent::Readable { id }) => {
                    let happened = &mut self.happened;
                    read(association, id, |message| happened.push_back(message));
                    continue;
                }
                _ => continue,
            };
            self.happened.push_back(happened);
        }
        while let Some(event) = association.poll_endpoint_event() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                association.handle_event(event);
            }
        }
    }

    fn queue(&mut self, transmit: Transmit) {
        if let Payload::RawEncode(packets) = transmit.payload {
            self.packets.extend(packets);
        }
    }
}

fn read(association: &mut Association, stream: u16, mut message: impl FnMut(Happened)) {
    let Ok(mut reader) = association.stream(stream) else {
        return;
    };
    while let Ok(Some(chunks)) = reader.read_sctp() {
        let mut data = vec![0; chunks.len()];
        let len = chunks.read(&mut data).expect("the buffer is as long");
        data.truncate(len);
        let data = Bytes::from(data);
        message(Happened::Message { stream, data });
    }
}

fn address() -> SocketAddr {
    "192.0.2.1:5000".parse().expect("an address")
}

impl Peer for SctpProto {
    fn connect(&mut self, _now: Instant) {
        let mut config = ClientConfig::new();
        config.transport = self.transport.clone();
        let connecting = self.endpoint.connect(config, address());
        self.association = Some(connecting.expect("it can connect"));
    }

    fn handle(&mut self, packet: &[u8], now: Instant) {
        let packet = Bytes::copy_from_slice(packet);
        match self.endpoint.handle(now, address(), None, None, packet) {
            Some((handle, DatagramEvent::NewAssociation(association))) => {
                self.association = Some((handle, association));
            }
            Some((_, DatagramEvent::AssociationEvent(event))) => {
                if let Some((_, association)) = &mut self.association {
                    association.handle_event(event);
                }
            }
            None => {}
        }
        self.drain();
    }

    fn end_batch(&mut self, _now: Instant) {}

    fn transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        while self.packets.is_empty() {
            self.drain();
            let association = self.association.as_mut();
            let transmit = self.endpoint.poll_transmit().or_else(|| {
                let (_, association) = association?;
                association.poll_transmit(now)
            });
            let Some(transmit) = transmit else {
                return false;
            };
            self.queue(transmit);
        }
        let packet = self.packets.pop_front().expect("there is one");
        out.clear();
        out.extend_from_slice(&packet);
        true
    }

    fn deadline(&self) -> Option<Instant> {
        let (_, association) = self.association.as_ref()?;
        association.poll_timeout()
    }

    fn on_deadline(&mut self, now: Instant) {
        if let Some((_, association)) = &mut self.association {
            association.handle_timeout(now);
        }
        self.drain();
    }

    fn poll(&mut self, _now: Instant) -> Option<Happened> {
        self.drain();
        if let Some((_, association)) = &mut self.association {
            // A message that another's arrival completed is not announced.
            for &stream in &self.streams {
                let happened = &mut self.happened;
                read(association, stream, |message| happened.push_back(message));
            }
        }
        self.happened.pop_front()
    }

    fn send(&mut self, stream: u16, data: &Bytes, options: SendOptions, _now: Instant) -> bool {
        let ppid = PayloadProtocolIdentifier::Binary;
        let (_, association) = self.association.as_mut().expect("connected");
        if self.streams.insert(stream) {
            // This fails if the peer has opened the stream already, which is as good.
            let _ = association.open_stream(stream, ppid);
        }
        let (kind, value) = match options.reliability {
            Reliability::Limited { retransmissions } => (ReliabilityType::Rexmit, retransmissions),
            Reliability::Timed { lifetime } => {
                (ReliabilityType::Timed, lifetime.as_millis() as u32)
            }
            _ => (ReliabilityType::Reliable, 0),
        };
        let mut stream = association.stream(stream).expect("it is open");
        // sctp-proto does not limit what waits.
        if stream
            .buffered_amount()
            .is_ok_and(|bytes| bytes > SEND_BUFFER)
        {
            return false;
        }
        stream
            .set_reliability_params(options.unordered, kind, value)
            .expect("it is open");
        stream.write_with_ppi(data, ppid).is_ok()
    }

    fn buffered(&mut self, stream: u16) -> usize {
        let Some((_, association)) = &mut self.association else {
            return 0;
        };
        let stream = association.stream(stream);
        stream.map_or(0, |stream| stream.buffered_amount().unwrap_or(0))
    }

    fn reset(&mut self, stream: u16, _now: Instant) {
        let (_, association) = self.association.as_mut().expect("connected");
        let mut stream = association.stream(stream).expect("it is open");
        stream.close().expect("it is established");
    }

    fn shutdown(&mut self, _now: Instant) {
        if let Some((_, association)) = &mut self.association {
            association.shutdown().expect("it is established");
        }
    }

    fn figures(&self) -> Figures {
        Figures::default()
    }
}

const SEND_BUFFER: usize = 4 << 20;
