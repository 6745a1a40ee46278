use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use glassline_media::WallClock;
use glassline_net::ReceiveBatch;

use super::counts::Counts;
use super::frame_reports::FrameReport;
use super::job::{Dialled, Job};
use super::{
    Conduct, Endpoint, IceTransport, Id, Join, Options, Progress, RtspTransport, State, Viewer,
    rtsp, webrtc,
};

/// A viewer: its connection and its counts.
pub(super) struct Peer {
    id: Id,
    join: Join,
    /// Deadline of the timer that is set.
    pub(super) armed: Option<Instant>,
    transport: Option<MediaTransport>,
    counts: Counts,
}

/// Connection of a viewer; both kinds have the same methods.
enum MediaTransport {
    WebRtc(Box<webrtc::MediaTransport>),
    Rtsp(Box<rtsp::MediaTransport>),
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
            stream: &mut self.stream,
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
            transport: None,
            counts: Counts::default(),
        }
    }

    pub(super) fn fail(&mut self, reason: String) {
        self.counts.end(reason);
        self.transport = None;
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
        let transport = match dialled {
            Dialled::WebRtc(answered) => {
                counts.started = Some(answered.started);
                let mut buffers = buffers.for_webrtc();
                let transport = webrtc::MediaTransport::begin(
                    *answered,
                    conduct,
                    wall,
                    now,
                    &mut buffers,
                    counts,
                );
                MediaTransport::WebRtc(Box::new(transport))
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
                MediaTransport::Rtsp(Box::new(rtsp::MediaTransport::begin(
                    connection, profile, now,
                )))
            }
        };
        self.transport = Some(transport);
        self.hang_up_if_over();
    }

    /// Descriptors opened since the last call, which are to be waited for.
    pub(super) fn take_opened(&mut self) -> Vec<RawFd> {
        match &mut self.transport {
            Some(MediaTransport::Rtsp(transport)) => transport.take_opened(),
            _ => Vec::new(),
        }
    }

    /// Whether the viewer's sockets make events even where others are swept. A TCP stream is
    /// read whole with one call, so looking in vain would cost more, and the kernel does not
    /// stamp streams.
    pub(super) fn wants_events(&self) -> bool {
        match &self.join.endpoint {
            Endpoint::Rtsp { transport, .. } => *transport != RtspTransport::Udp,
            Endpoint::Whep { transport, .. } => *transport == IceTransport::Tcp,
            Endpoint::DoSignaling(_) | Endpoint::Hls(_) => false,
        }
    }

    /// Descriptor of a viewer that has just begun and has a single one.
    pub(super) fn descriptor(&self) -> Option<RawFd> {
        match &self.transport {
            Some(MediaTransport::WebRtc(transport)) => Some(transport.descriptor()),
            _ => None,
        }
    }

    /// Reads what waits at the sockets.
    pub(super) fn receive(&mut self, buffers: &mut Buffers) {
        let counts = &mut self.counts;
        match &mut self.transport {
            Some(MediaTransport::WebRtc(transport)) => {
                transport.receive(&mut buffers.for_webrtc(), counts);
            }
            Some(MediaTransport::Rtsp(transport)) => {
                transport.receive(Instant::now(), &mut buffers.for_rtsp(), counts);
            }
            None => return,
        }
        self.hang_up_if_over();
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, buffers: &mut Buffers) {
        let counts = &mut self.counts;
        match &mut self.transport {
            Some(MediaTransport::WebRtc(transport)) => {
                transport.handle_timeout(now, &mut buffers.for_webrtc(), counts);
            }
            Some(MediaTransport::Rtsp(transport)) => {
                counts.expire(now);
                transport.handle_timeout(now, &mut buffers.for_rtsp(), counts);
            }
            None => return,
        }
        self.hang_up_if_over();
    }

    /// Takes the report of the viewer's frames that is due at `now`, if one is.
    pub(super) fn take_report(&mut self, now: Instant) -> Option<FrameReport> {
        match &mut self.transport {
            Some(MediaTransport::WebRtc(transport)) => transport.reports.as_mut()?.take(now),
            _ => None,
        }
    }

    /// Lets the next report of the viewer's frames come `interval` after `now`.
    pub(super) fn report_again(&mut self, interval: Duration, now: Instant) {
        if let Some(MediaTransport::WebRtc(transport)) = &mut self.transport
            && let Some(reports) = &mut transport.reports
        {
            reports.taken(interval, now);
        }
    }

    pub(super) fn poll_timeout(&mut self) -> Option<Instant> {
        match &mut self.transport {
            Some(MediaTransport::WebRtc(transport)) => transport.poll_timeout(&self.counts),
            Some(MediaTransport::Rtsp(transport)) => {
                let deadlines = [transport.poll_timeout(), self.counts.deadline()];
                deadlines.into_iter().flatten().min()
            }
            None => None,
        }
    }

    /// Leaves with a farewell; returns the part of it that blocks, for a signalling thread.
    pub(super) fn leave(mut self, now: Instant, buffers: &mut Buffers) -> Option<Job> {
        match self.transport? {
            MediaTransport::WebRtc(transport) => transport
                .leave(now, &mut buffers.for_webrtc(), &mut self.counts)
                .map(|location| Job::Leave { location }),
            MediaTransport::Rtsp(transport) => transport
                .leave(now)
                .map(|it| Job::ControlTeardown(Box::new(it))),
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
            self.transport = None;
        }
    }
}
