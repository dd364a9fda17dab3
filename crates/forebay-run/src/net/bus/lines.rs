//! What is said to a registry and by it: one JSON object on each line.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};

use serde::{Deserialize, Serialize};

use super::{EXCHANGE_LIMIT, Offer};

/// Longest line: an offer of all tags that it may have.
pub(super) const LINE_BYTES_MAX: usize = 4 << 20;

/// What a registry is told or asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Request {
    /// Keeps this connection's offer for another lease.
    Announce(Offer),
    /// Asks for all offers.
    Find,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Answer {
    /// The offer is kept.
    Kept,
    /// All offers.
    Offers(Vec<Offer>),
    /// What was said cannot be served.
    Refused(String),
}

/// A client's connection to a registry.
#[derive(Debug)]
pub(super) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(super) fn connect(host: &str, port: u16) -> io::Result<Self> {
        let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, EXCHANGE_LIMIT) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(EXCHANGE_LIMIT))?;
                    stream.set_write_timeout(Some(EXCHANGE_LIMIT))?;
                    return Ok(Self {
                        stream: BufReader::new(stream),
                    });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Says one thing and reads the answer to it.
    pub(super) fn ask(&mut self, request: &Request) -> io::Result<Answer> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line)?;
        let mut answer = Vec::new();
        let limit = LINE_BYTES_MAX as u64 * 16;
        (&mut self.stream)
            .take(limit)
            .read_until(b'\n', &mut answer)?;
        if answer.last() != Some(&b'\n') {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_slice(&answer)?)
    }
}
