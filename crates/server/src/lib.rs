//! Listening sockets: ingest, shards, HTTP.
