//! Dialling ends: WHEP viewers.
