//! Packets one after the other on a connection of TCP, of which each says its own length.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use forebay_load::{Due, Load};
use forebay_sys::clock::monotonic_ns;
use forebay_wire::load::{HEAD_BYTES, LoadHead};

use crate::end::{End, Seen, Trouble};

/// Longest wait for a connection.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// Bytes that are read at once.
const READ_BYTES: usize = 256 << 10;
/// Reads before others have their turn.
const ROUNDS: usize = 8;

pub(crate) struct Tcp {
    stream: TcpStream,
    out: Vec<u8>,
    written: usize,
    /// Where packets end in it that the kernel has not taken whole.
    ends: VecDeque<usize>,
    input: Box<[u8]>,
    filled: usize,
    packet_bytes_max: usize,
    due: Vec<Due>,
    trouble: Trouble,
    is_lost: bool,
}

impl Tcp {
    pub(crate) fn open(to: SocketAddr, packet_bytes_max: usize) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&to, CONNECT_TIME)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            out: Vec::new(),
            written: 0,
            ends: VecDeque::new(),
            input: vec![0; READ_BYTES + packet_bytes_max].into(),
            filled: 0,
            packet_bytes_max,
            due: Vec::new(),
            trouble: Trouble::default(),
            is_lost: false,
        })
    }

    /// Writes down what is due behind what was sent: whether there is anything.
    fn fill(&mut self, load: &mut Load, at: usize) -> bool {
        self.due.clear();
        self.due
            .extend_from_slice(load.poll_due(at, monotonic_ns()));
        self.out.clear();
        self.written = 0;
        for due in &self.due {
            let start = self.out.len();
            self.out.resize(start + due.bytes, 0);
            load.emit(at, due, &mut self.out[start..]);
            self.ends.push_back(self.out.len());
        }
        !self.out.is_empty()
    }

    /// So many bytes more were taken: the packets that are whole with them have left.
    fn took(&mut self, load: &mut Load, at: usize, bytes: usize, asked_ns: u64) {
        self.written += bytes;
        let written = self.written;
        let whole = self.ends.iter().take_while(|end| **end <= written).count();
        self.ends.drain(..whole);
        load.handle_sent(at, whole, asked_ns);
    }

    fn lose(&mut self, load: &mut Load, at: usize, why: impl std::fmt::Display) {
        self.trouble.note(why);
        self.is_lost = true;
        load.handle_lost(at);
    }

    /// Takes the packets that are whole; whether what came were packets.
    fn take(&mut self, load: &mut Load, at: usize, seen: &mut Seen) -> bool {
        let mut from = 0;
        let now_ns = monotonic_ns();
        let came = loop {
            let there = &self.input[from..self.filled];
            if there.len() < HEAD_BYTES {
                break true;
            }
            let said = LoadHead::parse(there).map_or(0, |head| head.bytes as usize);
            if !(HEAD_BYTES..=self.packet_bytes_max).contains(&said) {
                seen.take(
                    at,
                    load.handle_packet(at, &there[..HEAD_BYTES], now_ns, None),
                );
                break false;
            }
            let Some(packet) = there.get(..said) else {
                break true;
            };
            seen.take(at, load.handle_packet(at, packet, now_ns, None));
            from += said;
        };
        self.input.copy_within(from..self.filled, 0);
        self.filled -= from;
        came
    }
}

impl End for Tcp {
    fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    fn send(&mut self, load: &mut Load, at: usize) -> bool {
        for _ in 0..ROUNDS {
            if self.is_lost || (self.written == self.out.len() && !self.fill(load, at)) {
                return true;
            }
            // Before the call: an answer may come before it returns.
            let asked_ns = monotonic_ns();
            match self.stream.write(&self.out[self.written..]) {
                Ok(bytes) => self.took(load, at, bytes, asked_ns),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) => self.lose(load, at, error),
            }
        }
        true
    }

    fn receive(&mut self, load: &mut Load, at: usize, seen: &mut Seen) {
        for _ in 0..ROUNDS {
            if self.is_lost {
                return;
            }
            match self.stream.read(&mut self.input[self.filled..]) {
                Ok(0) => self.lose(load, at, "the target closed the connection"),
                Ok(bytes) => {
                    self.filled += bytes;
                    if !self.take(load, at, seen) {
                        self.lose(
                            load,
                            at,
                            "what the target sends are no packets of this load",
                        );
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => self.lose(load, at, error),
            }
        }
    }

    fn trouble(&self) -> &Trouble {
        &self.trouble
    }

    fn is_lost(&self) -> bool {
        self.is_lost
    }

    fn dropped(&self) -> u64 {
        0
    }
}
