//! Records as a table, in Parquet or CSV. Columns are the keys of JSON lines; of plugins those that were chosen.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::mem;
use std::path::Path;

use forebay_flow::plugins::{Kind, PluginKind, Value};
use forebay_flow::{FlowKey, FlowRecord};
use forebay_rows::{Column, CsvWriter, ParquetWriter};
use forebay_run::error::RunError;
use forebay_run::whole_file::WholeFile;

use super::json_lines::end_name;
use super::{Output, Row, Unwritten, begin};
use crate::config::ProbeSettings;
use crate::error::ProbeError;

/// Rows of a group of Parquet, of some 5 MB without plugins.
const GROUP_ROWS: usize = 32_768;

/// A record, and what plugins found of it by the number of its column.
struct Line {
    record: FlowRecord,
    found: Vec<Found>,
}

#[derive(Clone, Default)]
enum Found {
    #[default]
    Nothing,
    Number(i64),
    Real(f64),
    Word(String),
}

impl Found {
    fn of(kind: Kind, value: Value<'_>) -> Self {
        match kind {
            Kind::Unsigned(_) => Self::Number(value.unsigned().cast_signed()),
            Kind::Float => Self::Real(value.float()),
            Kind::Text => Self::Word(value.text().into_owned()),
            Kind::Octets => Self::Word(hexadecimal(value.bytes())),
            Kind::Unsigneds(bytes) => Self::Word(listed(value.unsigneds(bytes))),
            Kind::Signeds => {
                let each = value.bytes().iter();
                Self::Word(listed(each.map(|byte| i8::from_be_bytes([*byte]))))
            }
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // A text takes all that is written into it.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Numbers with blanks between.
fn listed(numbers: impl Iterator<Item = impl ToString>) -> String {
    let texts: Vec<String> = numbers.map(|number| number.to_string()).collect();
    texts.join(" ")
}

/// Which column of those of plugins has a name.
type Places = BTreeMap<&'static str, usize>;

fn columns(settings: &ProbeSettings) -> (Vec<Column<Line>>, Places) {
    let key =
        |name, of: fn(&FlowKey) -> u64| Column::count(name, move |it: &Line| of(&it.record.key));
    let count =
        |name, of: fn(&FlowRecord) -> u64| Column::count(name, move |it: &Line| of(&it.record));
    let time = |name, of: fn(&FlowRecord) -> u64| {
        Column::unix_ns(name, move |it: &Line| Some(of(&it.record)))
    };
    let address = |name, of: fn(&FlowKey) -> std::net::IpAddr| {
        Column::word(name, move |it: &Line| {
            Cow::Owned(of(&it.record.key).to_string())
        })
    };
    let mut columns = vec![
        address("src", FlowKey::source),
        address("dst", FlowKey::destination),
        key("src_port", |key| key.source_port.into()),
        key("dst_port", |key| key.destination_port.into()),
        key("protocol", |key| key.protocol.into()),
    ];
    if settings.vlan_in_key {
        columns.push(key("vlan", |key| key.vlan.into()));
    }
    columns.extend([
        count("packets", |record| record.packets),
        count("octets", |record| record.octets),
        count("packets_rev", |record| record.packets_rev),
        count("octets_rev", |record| record.octets_rev),
        time("start_ns", |record| record.start_ns),
        time("end_ns", |record| record.end_ns),
        count("tcp_flags", |record| record.tcp_flags.into()),
        count("tcp_flags_rev", |record| record.tcp_flags_rev.into()),
        Column::word("end_reason", |it: &Line| {
            Cow::Borrowed(end_name(it.record.end_reason))
        }),
    ]);
    let mut places = Places::new();
    for kind in PluginKind::ALL {
        if !settings.plugins.iter().any(|chosen| chosen.0 == kind) {
            continue;
        }
        for column in kind.columns() {
            let place = places.len();
            places.insert(column.name, place);
            columns.push(found(column.name, column.kind, place));
        }
    }
    (columns, places)
}

/// A column of a plugin.
fn found(name: &'static str, kind: Kind, place: usize) -> Column<Line> {
    match kind {
        Kind::Unsigned(_) => Column::optional(name, move |it: &Line| match it.found[place] {
            Found::Number(number) => Some(number),
            _ => None,
        }),
        Kind::Float => Column::real(name, move |it: &Line| match it.found[place] {
            Found::Real(real) => Some(real),
            _ => None,
        }),
        Kind::Text | Kind::Octets | Kind::Unsigneds(_) | Kind::Signeds => {
            Column::word(name, move |it: &Line| match &it.found[place] {
                Found::Word(word) => Cow::Borrowed(word.as_str()),
                _ => Cow::Borrowed(""),
            })
        }
    }
}

fn lines(rows: &[Row], places: &Places) -> Vec<Line> {
    let line = |row: &Row| {
        let mut found = vec![Found::Nothing; places.len()];
        for (column, value) in row.fields.values() {
            if let (Some(value), Some(place)) = (value, places.get(column.name)) {
                found[*place] = Found::of(column.kind, value);
            }
        }
        Line {
            record: row.record,
            found,
        }
    };
    rows.iter().map(line).collect()
}

/// A file of CSV, that has its name when it is whole.
pub(super) struct Csv {
    file: WholeFile,
    to: CsvWriter<File, Line>,
    places: Places,
}

impl Csv {
    pub(super) fn create(path: &Path, settings: &ProbeSettings) -> Result<Self, ProbeError> {
        let (file, to) = begin(path)?;
        let (columns, places) = columns(settings);
        let to = CsvWriter::begin(to, columns).map_err(RunError::file("writing", path))?;
        Ok(Self { file, to, places })
    }
}

impl Output for Csv {
    fn write(&mut self, rows: &[Row]) -> Result<usize, Unwritten> {
        match self.to.write(&lines(rows, &self.places)) {
            Ok(()) => Ok(rows.len()),
            Err(why) => Err(Unwritten {
                records: rows.len(),
                why,
            }),
        }
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.file.finish()
    }
}

/// A file of Parquet, that has its name when it is whole. Without its end nobody can read it: until then nothing of it counts as written.
pub(super) struct Parquet {
    file: WholeFile,
    to: Option<ParquetWriter<File, Line>>,
    gathered: Vec<Line>,
    places: Places,
}

impl Parquet {
    pub(super) fn create(path: &Path, settings: &ProbeSettings) -> Result<Self, ProbeError> {
        let (file, to) = begin(path)?;
        let (columns, places) = columns(settings);
        let to = ParquetWriter::begin(to, "flow", columns);
        let to = to.map_err(RunError::file("writing", path))?;
        Ok(Self {
            file,
            to: Some(to),
            gathered: Vec::new(),
            places,
        })
    }

    fn write_group(&mut self) -> io::Result<()> {
        let group = mem::take(&mut self.gathered);
        match &mut self.to {
            Some(to) if !group.is_empty() => to.write(&group),
            _ => Ok(()),
        }
    }
}

impl Output for Parquet {
    fn write(&mut self, rows: &[Row]) -> Result<usize, Unwritten> {
        self.gathered.extend(lines(rows, &self.places));
        let written = match self.gathered.len() {
            GROUP_ROWS.. => self.write_group(),
            _ => Ok(()),
        };
        written.map(|()| rows.len()).map_err(|why| Unwritten {
            records: rows.len(),
            why,
        })
    }

    fn is_whole_at_end(&self) -> bool {
        true
    }

    fn close(&mut self) -> io::Result<()> {
        self.write_group()?;
        match self.to.take() {
            Some(to) => to.finish().map(drop),
            None => Ok(()),
        }
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.file.finish()
    }
}
