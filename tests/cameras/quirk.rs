//! The ways in which a camera departs from the standards. Each is one switch of the fake camera.

/// One departure. A [`Row`](super::row::Row) has any number of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Quirk {
    /// The session ends after this many seconds without a request; all others end after a minute.
    SessionSeconds(u32),
    /// Keep-alives (GET_PARAMETER, OPTIONS and SET_PARAMETER of a playing session) have this answer.
    KeepAlive(Answer),
    /// Every response has the number of the request before.
    NumbersBehind,
    /// A request whose first header is not CSeq is refused with 400.
    NumberFirst,
    /// Requests need user `u` and password `p` by Digest.
    Password,
    /// The password has signs that mean something in URLs.
    PasswordOfSigns,
    /// The connection is closed after the response 401.
    ClosesAfterChallenge,
    /// DESCRIBE of any path is redirected with this status.
    Redirect(u16, Target),
    /// The response that redirects has no CSeq.
    RedirectUnnumbered,
    /// A second session is refused with 453 until the first one was ended by TEARDOWN.
    OneSession,
    /// TEARDOWN has no response.
    SilentTeardown,
    /// A keyframe is made when the client asks for one (PLI or FIR).
    HeedsRequests,
    /// The connection is closed after this many seconds without an RTCP packet.
    NeedsReports(u32),
    /// The response to SETUP has this `Transport`, in which `{channels}`, `{client}` and `{server}` stand
    /// for numbers; no such header if it is empty.
    Transport(&'static str),
    /// The connection breaks after this many seconds of each session, as if the camera had restarted.
    Restarts(u32),
    /// Datagrams come from this address.
    From(&'static str),

    /// A part of the session description is replaced. Letters up to U+00FF are single bytes.
    Described(&'static str, &'static str),
    /// Lines of another track follow in the description.
    AlsoDescribed(&'static str),
    /// The description has no parameter sets.
    NoSetsDescribed,
    /// The description ends without a line end.
    NoLastLineEnd,
    /// A track of this sound is described and sent.
    Sound(Sound),

    /// No parameter sets are sent between the frames.
    NoSetsSent,
    /// The last packet of every NAL unit has the marker.
    MarkerAtEveryNal,
    /// A keyframe with its parameter sets is one NAL unit that contains start codes.
    StartCodesWithin,
    /// Parameter sets have a marker and the timestamp of the frame before.
    SetsOfFramesBefore,
    /// These bytes follow each sequence parameter set.
    BehindSets(&'static [u8]),
    /// The padding bit is set on the last packet of each frame, with a count of zero.
    PaddingOfZero,
    /// A packet of SSRC 0 comes once a second between two frames.
    StrayPacket,
    /// A packet of another payload type follows each frame.
    OtherPayloadType,
    /// Sender reports come on the channel or port of RTP.
    ReportsAmongMedia,
    /// Each keyframe begins a new SSRC with new sequence numbers.
    NewSourceAtKeyframes,
    /// Every 20th frame is stamped 300 ms in the past.
    StepsBack,
    /// A frame every two seconds is stamped hours in the past.
    StampedHoursOff,
    /// Fragments have at most this many bytes.
    FragmentBytes(usize),
    /// A NAL unit of one packet is sent as one fragment with both the start and the end bit.
    WholeFragments,
    /// The reserved bit of fragmentation units is set.
    ReservedBit,
}

/// The answer to a keep-alive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Answer {
    /// No response comes.
    None,
    /// The response has this status.
    Status(u16),
    /// The response has status 400 and the number of the request before.
    BehindWith400,
    /// Every second keep-alive meets a fresh nonce, which is not called stale.
    FreshNonce,
}

/// Where a redirect leads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Target {
    /// An absolute URL on the same host and port, which plays.
    Absolute,
    /// A path without scheme and host, which plays.
    Relative,
    /// The URL that was asked for.
    Itself,
}

/// A track of sound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sound {
    /// G.711 A-law at the usual 8 kHz.
    Alaw8,
    /// G.711 A-law at 16 kHz.
    Alaw16,
    /// AAC at 16 kHz.
    Aac,
    /// AAC at 16 kHz whose parameters name another payload type.
    AacOfOtherType,
    /// AAC at 16 kHz, four access units to a packet.
    AacInFours,
}
