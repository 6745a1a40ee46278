use std::fmt;
use std::str::FromStr;

/// A way to send a frame to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// One `send` for the framing and one for the packet, with `TCP_NODELAY`.
    TwoSends,
    /// One `send` for the framing and one for the packet, with Nagle's algorithm.
    TwoSendsNagle,
    /// One `send` for the framing and one for the packet, all but the last with `MSG_MORE`.
    TwoSendsMore,
    /// One `send` for each framed packet, between setting `TCP_CORK` and clearing it.
    Cork,
    /// One `writev` for framing and packet.
    WritevPacket,
    /// One `send` for each framed packet.
    SendPacket,
    /// One `writev` for all framing and packets of a frame.
    WritevFrame,
    /// One `send` for the framed frame.
    SendFrame,
    /// One `send` for the framed frame, from our memory (`MSG_ZEROCOPY`); completions are read
    /// later.
    ZeroCopyFrame,
    /// One `sendfile` from a memory file.
    SendfileFrame,
    /// One `splice` from a memory file through a pipe.
    SpliceFrame,
    /// One call of `io_uring` for the sends to all connections.
    UringFrame,
    /// One call of `io_uring` for the sends to all connections, without copying.
    UringZeroCopyFrame,
}

/// Error for a name that no method has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no method to send is called '{name}'; there are {}", Method::names())]
pub struct UnknownMethod {
    name: String,
}

impl Method {
    /// All methods, from most system calls to fewest.
    pub const ALL: [Self; 13] = [
        Self::TwoSends,
        Self::TwoSendsNagle,
        Self::TwoSendsMore,
        Self::WritevPacket,
        Self::SendPacket,
        Self::Cork,
        Self::WritevFrame,
        Self::SendFrame,
        Self::ZeroCopyFrame,
        Self::SendfileFrame,
        Self::SpliceFrame,
        Self::UringFrame,
        Self::UringZeroCopyFrame,
    ];

    /// Name in flags and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TwoSends => "two-sends",
            Self::TwoSendsNagle => "two-sends-nagle",
            Self::TwoSendsMore => "two-sends-more",
            Self::Cork => "cork",
            Self::WritevPacket => "writev-packet",
            Self::SendPacket => "send-packet",
            Self::WritevFrame => "writev-frame",
            Self::SendFrame => "send-frame",
            Self::ZeroCopyFrame => "zerocopy-frame",
            Self::SendfileFrame => "sendfile-frame",
            Self::SpliceFrame => "splice-frame",
            Self::UringFrame => "uring-frame",
            Self::UringZeroCopyFrame => "uring-zerocopy-frame",
        }
    }

    /// Description in a few words.
    pub const fn description(self) -> &'static str {
        match self {
            Self::TwoSends => "one send for framing and one for the packet, TCP_NODELAY",
            Self::TwoSendsNagle => {
                "one send for framing and one for the packet, Nagle's algorithm, as in live555"
            }
            Self::TwoSendsMore => {
                "one send for framing and one for the packet, all but the last with MSG_MORE"
            }
            Self::Cork => "one send per framed packet, TCP_CORK around the frame",
            Self::WritevPacket => "one writev per packet, with its framing",
            Self::SendPacket => "one send per framed packet",
            Self::WritevFrame => "one writev per frame, with all framing",
            Self::SendFrame => "one send per frame, framed once for all clients",
            Self::ZeroCopyFrame => "one send per frame with MSG_ZEROCOPY, completions read later",
            Self::SendfileFrame => "sendfile of a frame from a memory file",
            Self::SpliceFrame => "splice of a frame from a memory file through a pipe",
            Self::UringFrame => "io_uring: one call for the frame to all connections",
            Self::UringZeroCopyFrame => "io_uring: one call for zero-copy sends to all connections",
        }
    }

    /// Whether the method needs `TCP_NODELAY`.
    pub(super) const fn is_nodelay(self) -> bool {
        !matches!(self, Self::TwoSendsNagle)
    }

    /// Whether all connections are sent the same framed memory.
    pub(super) const fn is_framed(self) -> bool {
        !matches!(
            self,
            Self::TwoSends
                | Self::TwoSendsNagle
                | Self::TwoSendsMore
                | Self::WritevPacket
                | Self::WritevFrame
        )
    }

    fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(name: &str) -> Result<Self, UnknownMethod> {
        Self::ALL
            .into_iter()
            .find(|method| method.name() == name)
            .ok_or_else(|| UnknownMethod {
                name: name.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_are_told_what_there_is() {
        for method in Method::ALL {
            assert_eq!(method.name().parse(), Ok(method));
        }
        let error = "sendto".parse::<Method>().expect_err("no such method");
        assert!(error.to_string().contains("two-sends, two-sends-nagle"));
    }
}
