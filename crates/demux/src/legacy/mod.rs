//! Formats and codings of archives and old devices: program streams with MPEG-1 and MPEG-2
//! video, MPEG-4 visual, DV tape, AMR speech, Theora.

pub(crate) mod amr;
pub(crate) mod dv;
pub(crate) mod mpeg4_visual;
pub(crate) mod program;
pub(crate) mod theora;
