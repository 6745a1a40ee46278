//! BBR on acknowledgements made by hand, and over a bottleneck.
