//! Profiles of flows as FlowTest has them: text, a biflow a row, values separated by commas.
//!
//! ```text
//! START_TIME,END_TIME,L3_PROTO,L4_PROTO,SRC_PORT,DST_PORT,PACKETS,BYTES,PACKETS_REV,BYTES_REV[,SRC_IP,DST_IP]
//! ms         ms       4 or 6   number                     forward octets of IP  reverse
//! ```
//!
//! Rows are sorted by their start. Columns may stand in another order.

use std::fmt;
use std::io::{BufRead, Read};
use std::net::IpAddr;
use std::str::FromStr;

use crate::ProfileError;

const COLUMNS: [&str; 12] = [
    "START_TIME",
    "END_TIME",
    "L3_PROTO",
    "L4_PROTO",
    "SRC_PORT",
    "DST_PORT",
    "PACKETS",
    "BYTES",
    "PACKETS_REV",
    "BYTES_REV",
    "SRC_IP",
    "DST_IP",
];
/// Columns without which there is no profile: all but the addresses.
const REQUIRED: usize = 10;
const EXPECTED: &str = "START_TIME,END_TIME,L3_PROTO,L4_PROTO,SRC_PORT,DST_PORT,PACKETS,BYTES,PACKETS_REV,BYTES_REV[,SRC_IP,DST_IP]";
/// Most bytes of a line; one with all columns and IPv6 addresses has some 200.
const LINE_BYTES_MAX: usize = 1024;
/// 31 years.
const TIME_MS_MAX: u64 = 1_000_000_000_000;
const PACKETS_MAX: u64 = 1 << 40;
const BYTES_MAX: u64 = 1 << 53;

/// One biflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// When its first packet is sent, ms.
    pub start_ms: u64,
    /// When its last packet is sent, ms; not before the first.
    pub end_ms: u64,
    /// Whether it is of IPv6, and not of IPv4.
    pub is_ipv6: bool,
    /// What IP carries: 6 is TCP, 17 UDP, 1 and 58 ICMP.
    pub protocol: u8,
    /// Port of the side that sends forward.
    pub source_port: u16,
    /// Port of the other side.
    pub destination_port: u16,
    /// Packets forward.
    pub packets: u64,
    /// Octets of IP forward.
    pub bytes: u64,
    /// Packets of the other direction.
    pub packets_reverse: u64,
    /// Octets of IP of the other direction.
    pub bytes_reverse: u64,
    /// Source and destination, of the version of the row; made up where there are none.
    pub addresses: Option<(IpAddr, IpAddr)>,
}

impl Row {
    /// The header of a profile, as rows are written below it.
    pub const HEADER: &str = "START_TIME,END_TIME,L3_PROTO,L4_PROTO,SRC_PORT,DST_PORT,PACKETS,BYTES,PACKETS_REV,BYTES_REV,SRC_IP,DST_IP";
}

/// As a line of a profile has it, below [`Row::HEADER`].
impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = if self.is_ipv6 { 6 } else { 4 };
        let (start_ms, end_ms, protocol) = (self.start_ms, self.end_ms, self.protocol);
        let ports = (self.source_port, self.destination_port);
        write!(
            f,
            "{start_ms},{end_ms},{version},{protocol},{},{},",
            ports.0, ports.1
        )?;
        let (packets, bytes) = (self.packets, self.bytes);
        let (packets_reverse, bytes_reverse) = (self.packets_reverse, self.bytes_reverse);
        write!(f, "{packets},{bytes},{packets_reverse},{bytes_reverse},")?;
        match self.addresses {
            Some((source, destination)) => write!(f, "{source},{destination}"),
            None => f.write_str(","),
        }
    }
}

/// The rows of a profile, to the first that is none.
#[derive(Debug)]
pub struct Profile<R> {
    text: R,
    line: u64,
    /// Where each of [`COLUMNS`] stands in a line.
    places: [Option<usize>; COLUMNS.len()],
    columns: usize,
    start_ms: u64,
    buffer: Vec<u8>,
    ended: bool,
}

impl<R: BufRead> Profile<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// The text cannot be read, or the header lacks a column, or has another one.
    pub fn new(text: R) -> Result<Self, ProfileError> {
        let mut profile = Self {
            text,
            line: 0,
            places: [None; COLUMNS.len()],
            columns: 0,
            start_ms: 0,
            buffer: Vec::new(),
            ended: false,
        };
        profile.read_line()?;
        let header = String::from_utf8_lossy(line_of(&profile.buffer)).into_owned();
        for (place, name) in header.split(',').enumerate() {
            let column = COLUMNS.iter().position(|column| *column == name.trim());
            let problem = match column.map(|column| profile.places[column].replace(place)) {
                None => "it is unknown",
                Some(Some(_)) => "it is there twice",
                Some(None) => continue,
            };
            return Err(header_error(name, problem));
        }
        profile.columns = header.split(',').count();
        let mut required = COLUMNS.iter().zip(&profile.places).take(REQUIRED);
        if let Some((name, _)) = required.find(|(_, place)| place.is_none()) {
            return Err(header_error(name, "it is missing"));
        }
        Ok(profile)
    }

    /// Whether there was one.
    fn read_line(&mut self) -> Result<bool, ProfileError> {
        self.line += 1;
        self.buffer.clear();
        let line = self.line;
        let mut limited = self.text.by_ref().take(LINE_BYTES_MAX as u64 + 1);
        let read = limited.read_until(b'\n', &mut self.buffer);
        let bytes = read.map_err(|source| ProfileError::Read { line, source })?;
        if bytes > LINE_BYTES_MAX {
            let most = LINE_BYTES_MAX;
            return Err(ProfileError::LineBytes { line, most });
        }
        Ok(bytes > 0)
    }

    /// The next row; lines without any text are passed over.
    fn read_row(&mut self) -> Result<Option<Row>, ProfileError> {
        while self.read_line()? {
            if !line_of(&self.buffer).is_empty() {
                let row = self.row()?;
                self.start_ms = row.start_ms;
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    fn row(&self) -> Result<Row, ProfileError> {
        let text = String::from_utf8_lossy(line_of(&self.buffer));
        let have = text.split(',').count();
        let (line, need) = (self.line, self.columns);
        if have != need {
            return Err(ProfileError::Values { line, have, need });
        }
        let mut values = [""; COLUMNS.len()];
        for (place, text) in text.split(',').enumerate() {
            let column = self.places.iter().position(|of| *of == Some(place));
            if let Some(column) = column {
                values[column] = text.trim();
            }
        }
        let values = Values { line, values };
        let port = "a port, 0 to 65535";
        let row = Row {
            start_ms: values.at_most(0, TIME_MS_MAX, "a time in ms, at most 10^12")?,
            end_ms: values.at_most(1, TIME_MS_MAX, "a time in ms, at most 10^12")?,
            is_ipv6: values.number::<u8>(2, "4 or 6")? == 6,
            protocol: values.number(3, "the number of a protocol, 0 to 255")?,
            source_port: values.number(4, port)?,
            destination_port: values.number(5, port)?,
            packets: values.at_most(6, PACKETS_MAX, "a count of packets, at most 2^40")?,
            bytes: values.at_most(7, BYTES_MAX, "a count of octets, at most 2^53")?,
            packets_reverse: values.at_most(8, PACKETS_MAX, "a count of packets, at most 2^40")?,
            bytes_reverse: values.at_most(9, BYTES_MAX, "a count of octets, at most 2^53")?,
            addresses: values.addresses()?,
        };
        if !matches!(values.values[2], "4" | "6") {
            return Err(values.error(2, "4 or 6"));
        }
        if row.start_ms < self.start_ms {
            return Err(values.error(0, "not before that of the row above: sort the rows by it"));
        }
        if row.end_ms < row.start_ms {
            return Err(values.error(1, "not before START_TIME"));
        }
        let is_other = |address: IpAddr| address.is_ipv6() != row.is_ipv6;
        if let Some((source, destination)) = row.addresses
            && (is_other(source) || is_other(destination))
        {
            let column = if is_other(source) { 10 } else { 11 };
            return Err(values.error(column, "an address of the version that L3_PROTO says"));
        }
        Ok(row)
    }
}

impl<R: BufRead> Iterator for Profile<R> {
    type Item = Result<Row, ProfileError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let row = self.read_row().transpose();
        self.ended = !matches!(row, Some(Ok(_)));
        row
    }
}

/// A line without its end.
fn line_of(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii_end()
}

fn header_error(column: &str, problem: &'static str) -> ProfileError {
    ProfileError::Header {
        column: column.to_owned(),
        problem,
        expected: EXPECTED,
    }
}

/// The values of a line, as of [`COLUMNS`].
struct Values<'a> {
    line: u64,
    values: [&'a str; COLUMNS.len()],
}

impl Values<'_> {
    fn error(&self, column: usize, remedy: &'static str) -> ProfileError {
        ProfileError::Value {
            line: self.line,
            column: COLUMNS[column],
            value: self.values[column].to_owned(),
            remedy,
        }
    }

    fn number<T: FromStr>(&self, column: usize, remedy: &'static str) -> Result<T, ProfileError> {
        let text = self.values[column];
        // A sign is none of a count.
        let number = Some(text).filter(|text| !text.starts_with('+'));
        let number = number.and_then(|text| text.parse().ok());
        number.ok_or_else(|| self.error(column, remedy))
    }

    fn at_most(&self, column: usize, most: u64, remedy: &'static str) -> Result<u64, ProfileError> {
        let number = self.number(column, remedy)?;
        if number > most {
            return Err(self.error(column, remedy));
        }
        Ok(number)
    }

    /// Both or none.
    fn addresses(&self) -> Result<Option<(IpAddr, IpAddr)>, ProfileError> {
        let (source, destination) = (10, 11);
        if self.values[source].is_empty() && self.values[destination].is_empty() {
            return Ok(None);
        }
        let remedy = "an IP address, where the other side has one";
        let source = self.number(source, remedy)?;
        let destination = self.number(destination, remedy)?;
        Ok(Some((source, destination)))
    }
}
