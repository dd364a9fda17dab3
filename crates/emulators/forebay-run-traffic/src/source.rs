//! Where the rows come from: a file, or a profile that has a name.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use forebay_run::whole_file::WholeFile;
use forebay_traffic::{NAMED, NamedProfile, Profile, ProfileError, Row, Timing, Trains, named};
use serde::Serialize;

use crate::{TrafficError, writing};

/// Of a profile from a file whose packets are asked to come in trains: as those of the profiles like an exchange.
const TRAINS: Trains = Trains {
    packets_max: 7,
    gap_ns: 12_000,
    gap_doublings: 8,
};

/// A profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file, a biflow a row.
    File(PathBuf),
    /// One that is made from its parameters.
    Named {
        /// The profile.
        profile: &'static NamedProfile,
        /// Its packets.
        packets: u64,
    },
}

pub(crate) type Rows = Box<dyn Iterator<Item = Result<Row, ProfileError>>>;

impl Source {
    /// The profile of this name, with so many packets, or the file of this path.
    ///
    /// # Errors
    /// There is no such file, and it looks like a name; or a number of packets is said of a file, which has its own.
    pub fn of(text: &Path, packets: Option<u64>) -> Result<Self, TrafficError> {
        let name = text.to_str().and_then(named);
        match (name, packets) {
            (Some(profile), packets) => Ok(Self::Named {
                profile,
                packets: packets.unwrap_or(forebay_traffic::PACKETS),
            }),
            (None, None) if text.extension().is_some() || text.exists() => {
                Ok(Self::File(text.to_path_buf()))
            }
            (None, Some(_)) if text.exists() => Err(TrafficError::PacketsOfFile {
                path: text.to_path_buf(),
            }),
            (None, _) => Err(TrafficError::Unknown {
                name: text.display().to_string(),
                names: NAMED.map(|profile| profile.name).join(", "),
            }),
        }
    }

    /// Its rows.
    pub(crate) fn rows(&self, seed: u64) -> Result<Rows, TrafficError> {
        match self {
            Self::Named { profile, packets } => Ok(Box::new(profile.rows(*packets, seed).map(Ok))),
            Self::File(path) => {
                let opened = File::open(path).map_err(|source| TrafficError::Unopened {
                    path: path.clone(),
                    source,
                })?;
                let rows = Profile::new(BufReader::with_capacity(1 << 20, opened))?;
                Ok(Box::new(rows))
            }
        }
    }

    /// How its packets are sent: as is asked for, or as it has it. A file cannot say it, and its flows are uniform.
    pub(crate) fn timing(&self, trains: Option<bool>) -> Timing {
        match (self, trains) {
            (Self::Named { profile, .. }, None | Some(true)) => profile.timing,
            (Self::File(_), Some(true)) => Timing::Trains(TRAINS),
            (Self::File(_), None) | (_, Some(false)) => Timing::Uniform,
        }
    }
}

/// A profile that was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WrittenProfile {
    /// Its rows, a biflow each.
    pub rows: u64,
    /// Packets in them.
    pub packets: u64,
    /// Octets of IP in them.
    pub octets: u64,
}

/// Writes the rows of a profile to a file that has its name when it is whole.
///
/// # Errors
/// The profile cannot be read, or the file cannot be written; it is there already.
pub fn write_profile(
    source: &Source,
    seed: u64,
    path: &Path,
) -> Result<WrittenProfile, TrafficError> {
    let rows = source.rows(seed)?;
    let file = WholeFile::create(path, "--write-profile")?;
    let mut to = BufWriter::new(file.handle().map_err(writing(path))?);
    let mut written = WrittenProfile::default();
    writeln!(to, "{}", Row::HEADER).map_err(writing(path))?;
    for row in rows {
        let row = row?;
        writeln!(to, "{row}").map_err(writing(path))?;
        written.rows += 1;
        written.packets += row.packets + row.packets_reverse;
        written.octets += row.bytes + row.bytes_reverse;
    }
    to.flush().map_err(writing(path))?;
    file.finish().map_err(writing(path))?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_name_and_a_path_a_path() {
        let of = |text: &str, packets| {
            Source::of(Path::new(text), packets).map_err(|error| error.to_string())
        };
        assert!(matches!(
            of("geant-like-morning", Some(5_000)),
            Ok(Source::Named { packets: 5_000, .. })
        ));
        assert!(matches!(
            of("nix-like-night", None),
            Ok(Source::Named {
                packets: 2_000_000,
                ..
            })
        ));
        assert_eq!(
            of("morning.csv", None),
            Ok(Source::File("morning.csv".into()))
        );
        let error = of("geant-morning", None).unwrap_err();
        assert!(error.contains("geant-like-morning"), "{error}");
        assert!(of("Cargo.toml", Some(5)).unwrap_err().contains("--packets"));
    }

    #[test]
    fn a_written_profile_makes_the_same_packets_as_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it.csv");
        let source = Source::of(Path::new("nix-like-morning"), Some(20_000)).unwrap();
        let written = write_profile(&source, 7, &path).unwrap();
        assert_eq!(written.packets, 20_000);
        let again = Source::of(&path, None).unwrap();
        let rows =
            |source: &Source| -> Vec<Row> { source.rows(7).unwrap().map(Result::unwrap).collect() };
        assert_eq!(rows(&source), rows(&again));
        assert_eq!(rows(&source).len() as u64, written.rows);
        assert!(write_profile(&source, 7, &path).is_err());
    }
}
