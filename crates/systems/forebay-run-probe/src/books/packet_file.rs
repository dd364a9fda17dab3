//! The part of a probe's ledger that is about the file of packets.

use forebay_ledger::{Account, GroupId, LinkSpec, SchemaBuilder, Tally, Unit, reasons};

use super::{Declared, LaneWords, Part};
use crate::packets::{Lane, Written};

reasons! {
    /// Why a packet is not in the file of packets.
    pub(crate) enum PacketFileDrop {
        /// It could not be written.
        NotWritten = "not_written",
    }
}

/// The words of the thread that writes packets: of each lane the account, and what was taken out.
pub(super) struct PacketWords {
    pub(super) group: GroupId,
    pub(super) lanes: Vec<(Account<PacketFileDrop>, Tally)>,
}

pub(super) fn declare(
    schema: &mut SchemaBuilder,
    declared: Declared,
    lanes: &[LaneWords],
) -> PacketWords {
    let group = schema.group("packet_file");
    let mut words = Vec::new();
    for (lane, from) in lanes.iter().enumerate() {
        let Some(from) = &from.tap else {
            continue;
        };
        let (owner, _) = declared.lane_names(lane);
        let (id, account) = schema.account(group, "packet_file", &owner, Unit::Packets);
        let taken = schema.cursor_tally(group, &format!("untapped_{owner}"));
        let link = LinkSpec::new("packet_queue", &owner).from(from.id).to(id);
        schema.link(link.in_flight(from.put, taken));
        words.push((account, taken));
    }
    PacketWords {
        group,
        lanes: words,
    }
}

/// The part of the thread that writes packets.
pub(crate) struct PacketBook {
    pub(super) part: Part,
    pub(super) words: PacketWords,
}

impl PacketBook {
    /// Fills in what there is now, and shows it.
    pub(crate) fn show(&mut self, lanes: &[Lane], written: &[Written]) {
        let Self { part, words } = self;
        let lanes = lanes.iter().zip(written);
        for ((account, taken), (lane, written)) in words.lanes.iter().zip(lanes) {
            part.bulk(account.incoming, written.came);
            part.bulk(account.outgoing, written.written);
            let not_written = account.lost(PacketFileDrop::NotWritten);
            part.bulk(not_written, written.unwritten);
            part.volume(*taken, lane.taken());
        }
        part.commit();
    }
}
