//! RTP and RTCP bytes, payload formats, loss repair and receive statistics.
