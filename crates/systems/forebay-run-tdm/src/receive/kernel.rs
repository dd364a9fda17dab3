//! What the kernel says of the receiver's socket and host.

use forebay_sys::{snmp, socket};
use forebay_tdm::receiver::Stall;

use super::super::TdmError;
use super::{BUFFERS, Work};

impl Work<'_> {
    /// Was the socket left alone for so long that the kernel dropped datagrams?
    pub(super) fn look_at_stalls(
        &mut self,
        came: usize,
        now_ns: u64,
        (epoch, is_exact): (u64, bool),
    ) -> Result<(), TdmError> {
        let is_empty = came < BUFFERS;
        if is_empty && self.stalls.is_behind(now_ns) {
            self.look_at_drops(epoch, is_exact)?;
        }
        if is_empty {
            self.stalls.emptied(now_ns);
        }
        Ok(())
    }

    /// The kernel's count of what it dropped at the socket.
    pub(super) fn look_at_drops(&mut self, epoch: u64, is_exact: bool) -> Result<(), TdmError> {
        let raw = socket::mem_info(&self.socket)?.drops;
        let drops = self.drops.observe(epoch, raw);
        if drops == 0 {
            return Ok(());
        }
        self.receiver.handle_socket_drops(drops);
        self.books.overflowed(drops);
        self.sums.socket_drops += drops;
        if let Some((stall, (times, ns))) = self.stalls.dropped(drops, self.clock.now_ns()) {
            self.receiver.handle_stall(Stall { is_exact, ..stall });
            self.books.stalled(times, ns);
        }
        Ok(())
    }

    /// Datagrams that this host could not put together from fragments since the last look. The kernel counts them for the whole host: some may be others'.
    pub(super) fn look_at_reassembly(&mut self) {
        // A host that does not tell has the packets lost by their places.
        let Ok(now) = snmp::read() else {
            return;
        };
        let before = self.reassembly_failed.replace(now.ip_reasm_fails);
        let failed = before.map_or(0, |before| now.ip_reasm_fails.wrapping_sub(before));
        self.receiver.handle_reassembly_failures(failed);
    }
}
