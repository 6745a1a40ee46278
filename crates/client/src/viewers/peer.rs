use std::os::fd::RawFd;
use std::time::Instant;

use glassline_media::WallClock;
use glassline_net::ReceiveBatch;

use super::counts::Counts;
use super::job::{Dialled, Job};
use super::{
    Conduct, Endpoint, Id, Join, Options, Progress, RtspTransport, State, Viewer, rtsp, webrtc,
};

/// One viewer: how it is connected, and its counts.
pub(super) struct Peer {
    id: Id,
    join: Join,
    /// The deadline that is set for it.
    pub(super) armed: Option<Instant>,
    line: Option<Line>,
    counts: Counts,
}

/// What a viewer has while it is connected. Both kinds have the same verbs.
enum Line {
    WebRtc(Box<webrtc::Line>),
    Rtsp(Box<rtsp::Line>),
}

/// What the viewers of a thread share, for its room.
pub(super) struct Buffers {
    batch: ReceiveBatch,
    control: Vec<u8>,
    stream: Vec<u8>,
}

impl Buffers {
    pub(super) fn new(options: &Options) -> Self {
        let batch = if options.gro {
            ReceiveBatch::for_coalescing(32)
        } else {
            ReceiveBatch::new(32)
        };
        Self {
            batch,
            control: Vec::with_capacity(2048),
            stream: vec![0; rtsp::STREAM_BUFFER_BYTES],
        }
    }

    fn for_webrtc(&mut self) -> webrtc::Buffers<'_> {
        webrtc::Buffers {
            batch: &mut self.batch,
            control: &mut self.control,
        }
    }

    fn for_rtsp(&mut self) -> rtsp::Buffers<'_> {
        rtsp::Buffers {
            batch: &mut self.batch,
            stream: &mut self.stream,
        }
    }
}

impl Peer {
    pub(super) fn signalling(id: Id, join: Join) -> Self {
        Self {
            id,
            join,
            armed: None,
            line: None,
            counts: Counts::default(),
        }
    }

    pub(super) fn fail(&mut self, reason: String) {
        self.counts.end(reason);
        self.line = None;
    }

    /// The server answered: connect.
    pub(super) fn begin(
        &mut self,
        dialled: Dialled,
        options: &Options,
        wall: WallClock,
        now: Instant,
        buffers: &mut Buffers,
    ) {
        let (counts, conduct) = (&mut self.counts, self.join.conduct);
        counts.state = State::Connecting;
        let line = match dialled {
            Dialled::WebRtc(answered) => {
                counts.started = Some(answered.started);
                let mut buffers = buffers.for_webrtc();
                let line = webrtc::Line::begin(*answered, conduct, wall, now, &mut buffers, counts);
                Line::WebRtc(Box::new(line))
            }
            Dialled::Rtsp {
                connection,
                url,
                transport,
            } => {
                counts.started = Some(connection.started);
                let profile = rtsp::Profile {
                    url,
                    transport,
                    mode: self.join.mode,
                    conduct,
                    kinds: options.kinds,
                    sockets: options.sockets(),
                    wall,
                };
                Line::Rtsp(Box::new(rtsp::Line::begin(connection, profile, now)))
            }
        };
        self.line = Some(line);
        self.hang_up_if_over();
    }

    /// Descriptors to wait for that were opened since the last call.
    pub(super) fn take_opened(&mut self) -> Vec<RawFd> {
        match &mut self.line {
            Some(Line::Rtsp(line)) => line.take_opened(),
            _ => Vec::new(),
        }
    }

    /// Its sockets are waited for even where others are swept: all that is there
    /// comes with one read, so that looking in vain would cost more, and the kernel
    /// notes no times for streams.
    pub(super) fn wants_events(&self) -> bool {
        let udp = RtspTransport::Udp;
        matches!(&self.join.endpoint, Endpoint::Rtsp { transport, .. } if *transport != udp)
    }

    /// The descriptor of a viewer that has just begun and has one for good.
    pub(super) fn descriptor(&self) -> Option<RawFd> {
        match &self.line {
            Some(Line::WebRtc(line)) => Some(line.descriptor()),
            _ => None,
        }
    }

    /// Takes what waits in the sockets.
    pub(super) fn receive(&mut self, buffers: &mut Buffers) {
        let counts = &mut self.counts;
        match &mut self.line {
            Some(Line::WebRtc(line)) => line.receive(&mut buffers.for_webrtc(), counts),
            Some(Line::Rtsp(line)) => {
                line.receive(Instant::now(), &mut buffers.for_rtsp(), counts);
            }
            None => return,
        }
        self.hang_up_if_over();
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, buffers: &mut Buffers) {
        let counts = &mut self.counts;
        match &mut self.line {
            Some(Line::WebRtc(line)) => {
                line.handle_timeout(now, &mut buffers.for_webrtc(), counts);
            }
            Some(Line::Rtsp(line)) => {
                counts.expire(now);
                line.handle_timeout(now, &mut buffers.for_rtsp(), counts);
            }
            None => return,
        }
        self.hang_up_if_over();
    }

    pub(super) fn poll_timeout(&mut self) -> Option<Instant> {
        match &mut self.line {
            Some(Line::WebRtc(line)) => line.poll_timeout(&self.counts),
            Some(Line::Rtsp(line)) => {
                let deadlines = [line.poll_timeout(), self.counts.deadline()];
                deadlines.into_iter().flatten().min()
            }
            None => None,
        }
    }

    /// Says goodbye; what is left to do for that on another thread.
    pub(super) fn leave(mut self, now: Instant, buffers: &mut Buffers) -> Option<Job> {
        match self.line? {
            Line::WebRtc(line) => line
                .leave(now, &mut buffers.for_webrtc(), &mut self.counts)
                .map(|location| Job::Leave { location }),
            Line::Rtsp(line) => line.leave(now).map(|it| Job::Farewell(Box::new(it))),
        }
    }

    /// It has ended, well or not.
    pub(super) fn is_over(&self) -> bool {
        self.counts.state == State::Ended
    }

    /// Who comes for a viewer that ended, if anybody does.
    pub(super) fn replacement(&self) -> Option<&Join> {
        (self.is_over() && self.join.conduct.is_replaced()).then_some(&self.join)
    }

    /// A good one's, to take what it recorded.
    pub(super) fn good_counts(&mut self) -> Option<&mut Counts> {
        (self.join.conduct == Conduct::Good).then_some(&mut self.counts)
    }

    pub(super) fn snapshot(&self) -> Viewer {
        self.counts.snapshot(self.id, self.join.endpoint.clone())
    }

    pub(super) fn progress(&self) -> Progress {
        self.counts
            .progress(self.id, self.join.mode, self.join.conduct)
    }

    /// Closes the sockets of a viewer that ended: nobody reads them any more.
    fn hang_up_if_over(&mut self) {
        if self.is_over() {
            self.line = None;
        }
    }
}
