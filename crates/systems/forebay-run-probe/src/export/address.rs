//! How the command line and files name an exporter.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use forebay_link::collector::host_of;
use forebay_settings::{Text, Wrong, text_setting};

const RIGHT: &str = "a file that ends in .ipfix, .jsonl, .csv or .parquet, ipfix+udp://HOST:PORT, ipfix+tcp://HOST:PORT, ipfix+tls://HOST:PORT or none";
const UDP: &str = "ipfix+udp://";
const TCP: &str = "ipfix+tcp://";
const TLS: &str = "ipfix+tls://";

/// An exporter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Export {
    /// Nowhere: records are formed and counted as exported.
    None,
    /// A file with a JSON object in each line.
    JsonLines(PathBuf),
    /// A file of comma-separated values.
    Csv(PathBuf),
    /// A file of Parquet.
    Parquet(PathBuf),
    /// A file of IPFIX messages (RFC 5655).
    IpfixFile(PathBuf),
    /// A collector of IPFIX over UDP, `HOST:PORT`.
    IpfixUdp(String),
    /// A collector of IPFIX over TCP, `HOST:PORT`.
    IpfixTcp(String),
    /// A collector of IPFIX over TLS, `HOST:PORT`.
    IpfixTls(String),
}

impl FromStr for Export {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self::None);
        }
        if let Some(collector) = text.strip_prefix(UDP) {
            return collector_of(collector).map(Self::IpfixUdp);
        }
        if let Some(collector) = text.strip_prefix(TCP) {
            return collector_of(collector).map(Self::IpfixTcp);
        }
        if let Some(collector) = text.strip_prefix(TLS) {
            let collector = collector_of(collector)?;
            if host_of(&collector).is_none() {
                return Err(format!(
                    "the host of {collector:?} can stand in no certificate; give a name of DNS or a number"
                ));
            }
            return Ok(Self::IpfixTls(collector));
        }
        let path = PathBuf::from(text);
        match path.extension().and_then(|end| end.to_str()) {
            Some("jsonl") => Ok(Self::JsonLines(path)),
            Some("csv") => Ok(Self::Csv(path)),
            Some("parquet") => Ok(Self::Parquet(path)),
            Some("ipfix") => Ok(Self::IpfixFile(path)),
            _ => Err(format!("{text:?} names no exporter; give {RIGHT}")),
        }
    }
}

impl Export {
    /// The file that it is, if it is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::JsonLines(path)
            | Self::Csv(path)
            | Self::Parquet(path)
            | Self::IpfixFile(path) => Some(path),
            Self::None | Self::IpfixUdp(_) | Self::IpfixTcp(_) | Self::IpfixTls(_) => None,
        }
    }
}

/// `HOST:PORT`, an address of IPv6 in brackets.
fn collector_of(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    let port = port.and_then(|(_, port)| port.parse::<u16>().ok());
    match port {
        None => Err(format!(
            "{text:?} is no collector; give HOST:PORT, as 127.0.0.1:4739"
        )),
        Some(0) => {
            Err("port 0 is none that can be sent to; IPFIX has 4739, and 4740 over TLS".to_owned())
        }
        Some(_) => Ok(text.to_owned()),
    }
}

impl fmt::Display for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::IpfixUdp(collector) => write!(f, "{UDP}{collector}"),
            Self::IpfixTcp(collector) => write!(f, "{TCP}{collector}"),
            Self::IpfixTls(collector) => write!(f, "{TLS}{collector}"),
            Self::JsonLines(path)
            | Self::Csv(path)
            | Self::Parquet(path)
            | Self::IpfixFile(path) => write!(f, "{}", path.display()),
        }
    }
}

static EXPORT: Text = Text {
    right: RIGHT,
    right_list: "a list of different exporters, as [\"flows.ipfix\", \"ipfix+udp://127.0.0.1:4739\"]",
    check: |text| {
        text.parse::<Export>().map(drop).map_err(|_| {
            Wrong::new(
                "it names no exporter",
                "write the name of a file that ends in .ipfix, .jsonl, .csv or .parquet, ipfix+udp://HOST:PORT, ipfix+tcp://HOST:PORT, ipfix+tls://HOST:PORT, or none",
            )
        })
    },
};

text_setting!(Export, EXPORT);
