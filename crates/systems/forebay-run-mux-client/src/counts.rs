//! What a client counts, each term where it happens.

use forebay_ledger::{DropReason, PerReason, reasons};

reasons! {
    /// Why a datagram that came is not answered.
    pub enum WorkDrop {
        /// The workload does not answer it.
        ByDesign = "by_design",
        /// As many wait for an answer as can.
        NoRoom = "no_room",
    }
}

reasons! {
    /// Why a datagram that was due is not sent.
    pub enum SendDrop {
        /// Nobody said which Ethernet address its receiver has.
        Unresolved = "unresolved",
        /// The IP stack did not send it: there is no way to its receiver, or it is longer than the link takes.
        NoWay = "no_way",
        /// The multiplexer went away.
        DaemonGone = "daemon_gone",
        /// The program ended first.
        Stopped = "stopped",
    }
}

reasons! {
    /// Why what came on a connection of TCP does not go back.
    pub enum TcpDrop {
        /// The connection has ended.
        Disconnected = "disconnected",
    }
}

/// Packets and the bytes of their payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Packets.
    pub packets: u64,
    /// Bytes of their payload.
    pub bytes: u64,
}

impl Amount {
    /// So many more packets of so many bytes each.
    pub const fn add(&mut self, packets: u64, bytes: usize) {
        self.packets += packets;
        self.bytes += packets * bytes as u64;
    }
}

impl core::ops::AddAssign for Amount {
    fn add_assign(&mut self, more: Self) {
        self.packets += more.packets;
        self.bytes += more.bytes;
    }
}

/// Datagrams that came: `came` = `answered` + `dropped`.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkCounts {
    /// Those that came.
    pub came: Amount,
    /// Those that are answered, with one datagram or more.
    pub answered: Amount,
    /// Those that are not.
    pub dropped: PerReason<WorkDrop, Amount, { WorkDrop::COUNT }>,
}

/// Datagrams to be sent: `due` = `sent` + `held` + `dropped`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SendCounts {
    pub(crate) due: Amount,
    pub(crate) sent: Amount,
    pub(crate) held: Amount,
    pub(crate) dropped: PerReason<SendDrop, Amount, { SendDrop::COUNT }>,
}

/// Reads of connections of TCP: `came` = `returned` + `dropped`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TcpCounts {
    pub(crate) came: Amount,
    pub(crate) returned: Amount,
    pub(crate) dropped: PerReason<TcpDrop, Amount, { TcpDrop::COUNT }>,
}
