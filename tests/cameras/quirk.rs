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
    /// Requests need the password; these lines of `WWW-Authenticate`, in which `{nonce}` stands for the
    /// nonce, ask for it.
    Challenges(&'static [&'static str]),
    /// The connection is closed after the response 401.
    ClosesAfterChallenge,
    /// DESCRIBE of any path is redirected with this status.
    Redirect(u16, Target),
    /// The response that redirects has no CSeq.
    RedirectUnnumbered,
    /// A second session is refused with 453 until the first one was ended by TEARDOWN.
    OneSession,
    /// The response to OPTIONS has this `Public`.
    Public(&'static str),
    /// The response to SETUP has this behind the identifier of its `Session`.
    SessionTail(&'static str),
    /// These header fields are in every response without a body.
    AlsoAnswered(&'static str),
    /// A part of the head of each response that has it is replaced.
    Answered(&'static str, &'static str),
    /// Lines of responses end with a line feed alone.
    LineFeeds,
    /// PLAY with a range is refused with 457.
    NoRanges,
    /// The first packets of a session come in front of the response to PLAY, which has these fields.
    PacketsBeforeAnswer(&'static str),
    /// SETUP is granted for the URL of the stream with `/trackID=` and a number alone.
    ExactUrls,
    /// The camera sends a request of this method, once a second.
    Asks(&'static str),
    /// These bytes follow each frame within the connection.
    BytesBetween(&'static [u8]),
    /// RTP comes on the second channel of each track, and RTCP on the first.
    SwappedChannels,
    /// Packets come on the channels that were asked for, whatever was answered.
    OnChannelsAsked,
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
    /// The camera speaks TLS, with a certificate that it signed itself. Its source has this option.
    WithinTls(CertificateOption),
    /// Datagrams come from this address.
    From(&'static str),

    /// A part of the session description is replaced. Letters up to U+00FF are single bytes.
    Described(&'static str, &'static str),
    /// Lines of another track follow in the description.
    AlsoDescribed(&'static str),
    /// The description has no parameter sets.
    NoSetsDescribed,
    /// Lines of the description end with a line feed alone.
    LineFeedsDescribed,
    /// The description ends without a line end.
    NoLastLineEnd,
    /// A track of this sound is described and sent.
    Sound(Sound),
    /// No video is described and sent.
    NoVideo,

    /// No parameter sets are sent between the frames.
    NoSetsSent,
    /// No messages (SEI) are sent, such as recovery points.
    NoMessages,
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
    /// Sequence numbers begin again at each keyframe, and the SSRC stays.
    NumbersBeginAgain,
    /// Timestamps go on three hours later every two seconds.
    StampsLeap,
    /// Timestamps begin a second before they wrap.
    StampsWrap,
    /// Every packet comes twice.
    Twice,
    /// Two packets of a frame overtake each other.
    Overtaking,
    /// No packet has a marker.
    NoMarkers,
    /// Every packet has a marker.
    OnlyMarkers,
    /// Packets have a contributing source, a header extension and padding.
    FullHeaders,
    /// Every second the stream says goodbye by RTCP, and goes on.
    SaysBye,
    /// The parameter sets of a keyframe come in one aggregate, which ends in these bytes.
    AggregatedSets(&'static [u8]),
    /// The payloads of H.265 have decoding order numbers.
    OrderNumbers,
    /// A start code is in front of each NAL unit.
    StartCodesInFront,
    /// This NAL unit comes in front of each frame, in a packet of its own.
    UnitInFront(&'static [u8]),
    /// This NAL unit comes behind each frame, in a packet of its own that has the marker.
    UnitBehind(&'static [u8]),
    /// No fragment has the end bit.
    EndlessFragments,
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
    /// The port of the camera at another address of this machine, which plays.
    OtherHost,
    /// A URL at which clouds answer their machines.
    Metadata,
}

/// The option of a source within TLS.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CertificateOption {
    /// Only certificates of known authorities are accepted.
    None,
    /// The camera's certificate is pinned.
    Pin,
    /// A certificate is pinned that the camera does not have.
    WrongPin,
    /// Any certificate is accepted.
    Insecure,
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
    /// AAC at 16 kHz whose headers have sizes of 13 bits alone; the parameters do not tell.
    AacOfSizes,
    /// AAC at 16 kHz whose access units are counted in the indices of their headers.
    AacCounted,
    /// AAC at 16 kHz whose access units have ADTS headers.
    AacOfFiles,
    /// AAC at 16 kHz in one channel that is described as of two.
    AacOfTwoChannels,
    /// 16-bit samples at 16 kHz.
    Linear16,
}
