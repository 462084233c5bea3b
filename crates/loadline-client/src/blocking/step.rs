//! A connection that cannot prove that it is in step with the server is closed.
//!
//! Replies are matched to requests by their order alone, so one reply that was not asked for would shift all
//! that follow. Before a request is written nothing but push messages may be there, and after its last reply
//! nothing but push messages may follow.

use std::io;
use std::time::{Duration, Instant};

use super::input::Message;
use super::{Connection, protocol_error};
use crate::Error;
use crate::conn::session::{Unavailable, unasked};
use crate::request::Summary;

/// A request that follows the one before it sooner than this is not preceded by a look at the socket. What
/// comes in so short a time could as well come after the look, and a caller that never pauses is spared a
/// system call.
pub(super) const SOON: Duration = Duration::from_micros(200);
/// The most reads of a look at the socket. A server that sends push messages without end is heard later.
const MOST_READS: usize = 16;

impl Connection {
    /// Closes a connection that has ended, that has brought something that was not asked for, or whose server
    /// is not the one to ask. Nothing was written then, so nothing is ambiguous.
    #[inline]
    pub(super) fn get_in_step(&mut self, now: Instant) {
        let soon = now < self.look_from;
        self.look_from = now + SOON;
        let special = self.unavailable.is_some() || self.session.carried.is_streaming();
        if self.socket.is_some()
            && (!soon || special || !self.input.is_empty())
            && let Err(error) = self.look(soon)
        {
            crate::meter::lost(&self.config, &error);
            self.give_up(&error);
        }
    }

    #[cold]
    fn look(&mut self, soon: bool) -> Result<(), Error> {
        let ended =
            |what| Error::connection(io::Error::new(io::ErrorKind::ConnectionReset, what), false);
        if self.unavailable == Some(Unavailable::Demoted) {
            return Err(ended("the server has become a replica"));
        }
        if self.session.carried.is_streaming() {
            return Err(ended("the server sends messages that look like replies"));
        }
        self.take_pushes()?;
        for _ in 0..MOST_READS {
            if soon || !self.read_ahead()? {
                break;
            }
            self.take_pushes()?;
        }
        Ok(())
    }

    /// Reads what is there; false if that is nothing.
    fn read_ahead(&mut self) -> Result<bool, Error> {
        let Some(socket) = &mut self.socket else {
            return Ok(false);
        };
        let error = match socket.socket.read_now(self.input.room()) {
            Ok(0) => io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the server closed the connection",
            ),
            Ok(bytes) => {
                self.input.received(bytes);
                return Ok(true);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => error,
        };
        Err(Error::connection(error, false))
    }

    /// Takes the push messages that have come; the last one may lack its end.
    fn take_pushes(&mut self) -> Result<(), Error> {
        while let Some(message) = self.input.next().map_err(protocol_error)? {
            match message {
                Message::Push(range) => self.keep_push(range)?,
                Message::Reply(_) => return Err(unasked()),
            }
        }
        self.nothing_but_push()
    }

    /// Looks whether more came than was asked for, after the last reply to a request.
    #[inline]
    pub(super) fn check_surplus(&self, summary: &Summary) -> Result<(), Error> {
        let streams = matches!(
            summary.name,
            "MONITOR" | "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE"
        );
        if streams {
            return Ok(());
        }
        self.nothing_but_push()
    }

    #[inline]
    pub(super) fn nothing_but_push(&self) -> Result<(), Error> {
        match self.input.first() {
            None | Some(b'>') => Ok(()),
            Some(_) => Err(unasked()),
        }
    }
}
