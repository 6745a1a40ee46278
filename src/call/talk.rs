//! A call with one other end, or a call in a room, behind one interface.

use std::collections::BTreeSet;

use glassline_client::call::{
    Call, CallError, Change, Config, Devices, Dial, Ended, JoinError, MediaTransport, Room,
};

use super::terminal::Terminal;

pub(super) enum Talk {
    Direct(Box<Call>),
    Room {
        room: Box<Room>,
        others: usize,
        /// Troubles that were shown already; each is shown once.
        troubles: BTreeSet<String>,
    },
}

impl Talk {
    pub(super) fn direct(
        transport: MediaTransport,
        config: Config,
        devices: Devices,
    ) -> Result<Self, CallError> {
        let call = Call::start(transport, config, devices)?;
        Ok(Self::Direct(Box::new(call)))
    }

    pub(super) fn room(dial: Dial, config: &Config, devices: Devices) -> Result<Self, JoinError> {
        Ok(Self::Room {
            room: Box::new(Room::join(dial, config, devices)?),
            others: 0,
            troubles: BTreeSet::new(),
        })
    }

    pub(super) fn call(&self) -> &Call {
        match self {
            Self::Direct(call) => call,
            Self::Room { room, .. } => room.call(),
        }
    }

    /// Number of other participants in the room; `None` for a call with one other end.
    pub(super) const fn others(&self) -> Option<usize> {
        match self {
            Self::Direct(_) => None,
            Self::Room { others, .. } => Some(*others),
        }
    }

    /// URLs of the room at other servers of the cluster, for the case that this server is lost.
    pub(super) fn alternates(&self) -> Vec<url::Url> {
        match self {
            Self::Direct(_) => Vec::new(),
            Self::Room { room, .. } => room.alternates(),
        }
    }

    /// Prints who came, who left, and what went wrong since the last call.
    pub(super) fn print_changes(&mut self, terminal: &Terminal) {
        let Self::Room {
            room,
            others,
            troubles,
        } = self
        else {
            return;
        };
        for change in room.poll() {
            match change {
                Change::Joined(who) => {
                    *others += 1;
                    terminal.say(&format!("{who} is here"));
                }
                Change::Left(who) => {
                    *others = others.saturating_sub(1);
                    terminal.say(&format!("{who} has left"));
                }
                Change::Failed(text) if troubles.insert(text.clone()) => {
                    terminal.say(&format!("{text}; trying again"));
                }
                _ => {}
            }
        }
    }

    pub(super) fn end(&mut self) -> Result<Ended, CallError> {
        match self {
            Self::Direct(call) => call.hang_up(),
            Self::Room { room, .. } => room.leave(),
        }
    }
}
