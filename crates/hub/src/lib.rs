//! Streams by name: publish, subscribe, rings, keyframe cache.
