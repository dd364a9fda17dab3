//! The truth of each flow, as a table.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use forebay_run::whole_file::WholeFile;
use forebay_traffic::FlowTruth;

use crate::{TrafficError, writing};

/// Its columns: those of a flow record, and the row of the profile.
const HEADER: &str = "row,src,dst,src_port,dst_port,protocol,packets,octets,packets_rev,octets_rev,\
                      start_ns,end_ns,tcp_flags,tcp_flags_rev\n";

/// A file of comma-separated values that has its name when it is whole.
pub(crate) struct Truth {
    file: WholeFile,
    to: BufWriter<File>,
    path: PathBuf,
}

impl Truth {
    pub(crate) fn create(path: &Path) -> Result<Self, TrafficError> {
        let file = WholeFile::create(path, "--truth")?;
        let mut to = BufWriter::new(file.handle().map_err(writing(path))?);
        to.write_all(HEADER.as_bytes()).map_err(writing(path))?;
        Ok(Self {
            file,
            to,
            path: path.to_path_buf(),
        })
    }

    /// Writes a flow that ended, on a clock that begins at `start_ns`.
    pub(crate) fn take(&mut self, flow: &FlowTruth, start_ns: u64) -> Result<(), TrafficError> {
        let FlowTruth {
            row,
            key,
            forward,
            reverse,
            ..
        } = flow;
        let sides = [forward, reverse].into_iter();
        let sides = sides.filter(|side| side.packets > 0);
        let first_ns = sides.clone().map(|side| side.first_ns).min().unwrap_or(0);
        let last_ns = sides.map(|side| side.last_ns).max().unwrap_or(0);
        writeln!(
            self.to,
            "{row},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            key.source,
            key.destination,
            key.source_port,
            key.destination_port,
            key.protocol,
            forward.packets,
            forward.octets,
            reverse.packets,
            reverse.octets,
            start_ns + first_ns,
            start_ns + last_ns,
            forward.tcp_flags,
            reverse.tcp_flags,
        )
        .map_err(writing(&self.path))
    }

    /// Gives it its name.
    pub(crate) fn finish(mut self) -> Result<(), TrafficError> {
        let flushed = self.to.flush();
        flushed.map_err(writing(&self.path))?;
        self.file.finish().map_err(writing(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use forebay_traffic::{FlowKey, SideTruth};

    use super::*;

    #[test]
    fn a_flow_is_from_its_earliest_packet_to_its_latest_of_either_side() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("truth.csv");
        let mut truth = Truth::create(&path).unwrap();
        let side = |packets, first_ns, last_ns| SideTruth {
            packets,
            octets: packets * 100,
            first_ns,
            last_ns,
            tcp_flags: packets as u8,
        };
        let none = SideTruth::default();
        for (row, forward, reverse) in [
            (0, side(3, 20, 30), side(2, 10, 25)),
            (1, side(3, 20, 30), none),
            (2, none, side(2, 10, 25)),
        ] {
            let key = FlowKey {
                source: [10, 0, 0, 1].into(),
                destination: [10, 0, 0, 2].into(),
                protocol: 6,
                source_port: 1,
                destination_port: 2,
            };
            let flow = FlowTruth {
                row,
                key,
                forward,
                reverse,
                is_adjusted: false,
            };
            truth.take(&flow, 1_000).unwrap();
        }
        truth.finish().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let rows: Vec<_> = text.lines().collect();
        assert_eq!(
            rows,
            [
                HEADER.trim_end(),
                "0,10.0.0.1,10.0.0.2,1,2,6,3,300,2,200,1010,1030,3,2",
                "1,10.0.0.1,10.0.0.2,1,2,6,3,300,0,0,1020,1030,3,0",
                "2,10.0.0.1,10.0.0.2,1,2,6,0,0,2,200,1010,1025,0,2",
            ]
        );
    }
}
