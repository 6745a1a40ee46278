//! Virtual clock and seeded links with rate, delay, loss and reorder.
