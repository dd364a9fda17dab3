//! A foreign sender: plain UDP sockets and messages made by hand.

use std::net::UdpSocket;

use forebay_wire::hadtu::{ByteOrder, MessageWriter};
use forebay_wire::subevent::SubEventRepr;

/// Sub-event address of source `source`.
pub(crate) fn address(source: u16) -> u32 {
    0x8000 + u32::from(source)
}

/// A message with one sub-event of `payload_bytes` for each of `triggers`.
pub(crate) fn message(
    source: u16,
    triggers: impl IntoIterator<Item = u32>,
    payload_bytes: usize,
) -> Vec<u8> {
    let mut writer = MessageWriter::new(ByteOrder::Big);
    for trigger in triggers {
        let sub = SubEventRepr {
            id: address(source),
            trigger_word: (trigger & 0xff_ffff) << 8 | 0x5a,
            ..SubEventRepr::default()
        };
        writer
            .push(&sub, &vec![trigger as u8; payload_bytes])
            .unwrap();
    }
    writer.finish().to_vec()
}

/// One socket that sends to the ports of a run on this machine.
pub(crate) struct Sender {
    socket: UdpSocket,
    base_port: u16,
    pub(crate) datagrams: u64,
}

impl Sender {
    pub(crate) fn new(base_port: u16) -> Self {
        Self {
            socket: UdpSocket::bind("127.0.0.1:0").unwrap(),
            base_port,
            datagrams: 0,
        }
    }

    /// Sends one datagram to the port of `source`.
    pub(crate) fn send(&mut self, source: u16, datagram: &[u8]) {
        let sent = self
            .socket
            .send_to(datagram, ("127.0.0.1", self.base_port + source))
            .unwrap();
        assert_eq!(sent, datagram.len());
        self.datagrams += 1;
    }

    /// Sends a message, in datagrams of 64,512 bytes when it is longer than one.
    pub(crate) fn send_message(&mut self, source: u16, message: &[u8]) {
        for piece in message.chunks(forebay_wire::hadtu::MTU_BYTES) {
            self.send(source, piece);
        }
    }
}
