use std::os::fd::RawFd;
use std::time::Instant;

use glassline_media::WallClock;
use glassline_net::ReceiveBatch;

use super::counts::Counts;
use super::job::{Dialled, Job};
use super::{
    Conduct, Endpoint, Id, Join, Options, Progress, RtspTransport, State, Viewer, rtsp, webrtc,
};

/// A viewer: its connection and its counts.
pub(super) struct Peer {
    id: Id,
    join: Join,
    /// Deadline of the timer that is set.
    pub(super) armed: Option<Instant>,
    line: Option<Line>,
    counts: Counts,
}

/// Connection of a viewer; both kinds have the same methods.
enum Line {
    WebRtc(Box<webrtc::Line>),
    Rtsp(Box<rtsp::Line>),
}

/// Buffers that the viewers of a thread share.
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

    /// Takes the server's answer and begins to connect.
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

    /// Descriptors opened since the last call, which are to be waited for.
    pub(super) fn take_opened(&mut self) -> Vec<RawFd> {
        match &mut self.line {
            Some(Line::Rtsp(line)) => line.take_opened(),
            _ => Vec::new(),
        }
    }

    /// Whether the viewer's sockets make events even where others are swept. A TCP stream is
    /// read whole with one call, so looking in vain would cost more, and the kernel does not
    /// stamp streams.
    pub(super) fn wants_events(&self) -> bool {
        let udp = RtspTransport::Udp;
        matches!(&self.join.endpoint, Endpoint::Rtsp { transport, .. } if *transport != udp)
    }

    /// Descriptor of a viewer that has just begun and has a single one.
    pub(super) fn descriptor(&self) -> Option<RawFd> {
        match &self.line {
            Some(Line::WebRtc(line)) => Some(line.descriptor()),
            _ => None,
        }
    }

    /// Reads what waits at the sockets.
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

    /// Leaves with a farewell; returns the part of it that blocks, for a signalling thread.
    pub(super) fn leave(mut self, now: Instant, buffers: &mut Buffers) -> Option<Job> {
        match self.line? {
            Line::WebRtc(line) => line
                .leave(now, &mut buffers.for_webrtc(), &mut self.counts)
                .map(|location| Job::Leave { location }),
            Line::Rtsp(line) => line.leave(now).map(|it| Job::Farewell(Box::new(it))),
        }
    }

    /// Whether the viewer has ended, for any reason.
    pub(super) fn is_over(&self) -> bool {
        self.counts.state == State::Ended
    }

    /// The viewer that replaces this one after its end, if any does.
    pub(super) fn replacement(&self) -> Option<&Join> {
        (self.is_over() && self.join.conduct.is_replaced()).then_some(&self.join)
    }

    /// Counts of a correct viewer, from which records are taken; `None` for others.
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

    /// Closes the sockets of a viewer that has ended.
    fn hang_up_if_over(&mut self) {
        if self.is_over() {
            self.line = None;
        }
    }
}
