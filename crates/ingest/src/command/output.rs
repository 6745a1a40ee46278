//! The standard output of a program, as bytes that are waited for.

use std::io::{self, Read};
use std::sync::Arc;

use mio::unix::pipe::Receiver;
use mio::{Events, Interest, Poll, Token};
use parking_lot::Mutex;

use super::last_words::LastWords;
use crate::file::{NAP, Stop};

const OUTPUT: Token = Token(0);
const WORDS: Token = Token(1);

/// Reads what a program writes, and meanwhile what it says. A read fails when the source is to stop.
pub(super) struct Output {
    pipe: Receiver,
    words: Arc<Mutex<LastWords>>,
    poll: Poll,
    events: Events,
    stop: Arc<Stop>,
}

impl Output {
    pub(super) fn new(
        mut pipe: Receiver,
        words: Arc<Mutex<LastWords>>,
        stop: Arc<Stop>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let registry = poll.registry();
        registry.register(&mut pipe, OUTPUT, Interest::READABLE)?;
        {
            let mut words = words.lock();
            registry.register(words.pipe_mut(), WORDS, Interest::READABLE)?;
        }
        Ok(Self {
            pipe,
            words,
            poll,
            events: Events::with_capacity(2),
            stop,
        })
    }
}

impl Read for Output {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !self.stop.is_given() {
            let words = &self.words;
            words.lock().read();
            match self.pipe.read(out) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => return read,
            }
            match self.poll.poll(&mut self.events, Some(NAP)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Err(io::Error::other("the source ends"))
    }
}
