//! Arguments from Python: numbers, times, tags, settings. What is wrong is told with its name and its value.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use forebay_run::hops::{Leak, VARIABLE};
use forebay_run_net::hops::NET;
use forebay_run_net::{Address, CertificateFiles, Certificates, Entry, Security, Settings, Slow};
use pyo3::exceptions::{PyOSError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::failure;

/// Names of the settings, for a user who writes another one.
const NAMES: &str = "buffer_bytes, buffer_count, water_mark_bytes, flush_time, block_time, spin_time, connections_max, per_tag, out, \
     tls_certificate, tls_key, tls_authority, plain, acknowledge_by_hand";
/// Longest time that can be said, in seconds: what nanoseconds in 64 bits hold.
const SECONDS_MAX: f64 = 1.8e10;

/// A whole number from `low` to `high`.
pub(crate) fn whole(name: &str, object: &Bound<'_, PyAny>, low: u64, high: u64) -> PyResult<u64> {
    let rule = || format!("it must be from {low} to {high}");
    match object.extract::<i128>() {
        Ok(number) => u64::try_from(number)
            .ok()
            .filter(|number| (low..=high).contains(number))
            .ok_or_else(|| failure::value(name, number, rule())),
        Err(error) if error.is_instance_of::<PyTypeError>(object.py()) => {
            Err(failure::kind(name, object, "it must be a whole number"))
        }
        Err(_) => Err(failure::value(name, object, rule())),
    }
}

pub(crate) fn tag(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    whole("tag", object, 0, u64::MAX)
}

pub(crate) fn status(object: &Bound<'_, PyAny>) -> PyResult<u8> {
    Ok(whole("status", object, 0, u8::MAX.into())? as u8)
}

/// Seconds.
pub(crate) fn seconds(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let seconds: f64 = object
        .extract()
        .map_err(|_| failure::kind(name, object, "it must be a number of seconds"))?;
    if !(0.0..=SECONDS_MAX).contains(&seconds) {
        let rule = format!("it must be from 0 to {SECONDS_MAX:e} seconds");
        return Err(failure::value(name, seconds, rule));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// A time to wait; none for without an end.
pub(crate) fn timeout(object: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Duration>> {
    object.map(|object| seconds("timeout", object)).transpose()
}

pub(crate) fn address(text: &str) -> PyResult<Address> {
    text.parse()
        .map_err(|error: forebay_run_net::AddressError| {
            pyo3::exceptions::PyValueError::new_err(error.to_string())
        })
}

/// An IP address.
pub(crate) fn ip(text: &str) -> PyResult<IpAddr> {
    let rule = "it must be an IP address in numbers";
    text.parse().map_err(|_| failure::value("host", text, rule))
}

/// A host and a port, as sockets of Python have them.
pub(crate) fn host_and_port(object: &Bound<'_, PyAny>) -> PyResult<SocketAddr> {
    let rule = "it must be a pair (host, port)";
    let pair: (String, Bound<'_, PyAny>) = object
        .extract()
        .map_err(|_| failure::kind("address", object, rule))?;
    let port = port(&pair.1)?;
    Ok(SocketAddr::new(ip(&pair.0)?, port))
}

/// A port, 0 among them.
pub(crate) fn port(object: &Bound<'_, PyAny>) -> PyResult<u16> {
    let rule = || failure::kind("port", object, "it must be a whole number");
    match object.extract::<i128>() {
        Ok(number) => u16::try_from(number).map_err(|_| failure::port(number)),
        Err(error) if error.is_instance_of::<PyTypeError>(object.py()) => Err(rule()),
        Err(_) => Err(failure::port(object)),
    }
}

/// One address, or several.
pub(crate) fn addresses(object: &Bound<'_, PyAny>) -> PyResult<Vec<Address>> {
    if let Ok(one) = object.cast::<PyString>() {
        return Ok(vec![address(one.to_str()?)?]);
    }
    let texts: Vec<String> = object
        .extract()
        .map_err(|_| failure::kind("addresses", object, "it must be a text or a list of texts"))?;
    if texts.is_empty() {
        return Err(failure::value("addresses", "empty", "name one at least"));
    }
    texts.iter().map(|text| address(text)).collect()
}

pub(crate) fn policy(text: &str) -> PyResult<Slow> {
    match text {
        "block" => Ok(Slow::Block),
        "drop-newest" => Ok(Slow::DropNewest),
        "drop-oldest" => Ok(Slow::DropOldest),
        "disconnect" => Ok(Slow::Disconnect),
        _ => Err(failure::value(
            "policy",
            format!("{text:?}"),
            "it must be 'block', 'drop-newest', 'drop-oldest' or 'disconnect'",
        )),
    }
}

/// Tags and patterns; `all` when there are neither.
pub(crate) fn entries(
    tags: Option<&Bound<'_, PyAny>>,
    patterns: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Entry>> {
    let mut entries = Vec::new();
    if let Some(tags) = tags {
        if tags.extract::<i128>().is_ok() {
            entries.push(Entry::one(tag(tags)?));
        } else {
            let items = tags.try_iter().map_err(|_| {
                failure::kind("tags", tags, "it must be a tag or an iterable of tags")
            })?;
            for item in items {
                entries.push(Entry::one(tag(&item?)?));
            }
        }
    }
    if let Some(patterns) = patterns {
        let rule = "it must be an iterable of pairs (tag, mask)";
        let items = patterns
            .try_iter()
            .map_err(|_| failure::kind("patterns", patterns, rule))?;
        for item in items {
            let item = item?;
            let (bits, mask): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item
                .extract()
                .map_err(|_| failure::kind("a pattern", &item, rule))?;
            entries.push(Entry {
                tag: tag(&bits)?,
                mask: whole("mask", &mask, 0, u64::MAX)?,
            });
        }
    }
    if tags.is_none() && patterns.is_none() {
        entries.push(Entry { tag: 0, mask: 0 });
    }
    Ok(entries)
}

/// The settings that all end points have. What is delivered is gathered.
pub(crate) fn settings(given: Option<&Bound<'_, PyDict>>) -> PyResult<Settings> {
    let mut settings = Settings {
        gathers: true,
        ..Settings::default()
    };
    if let Ok(text) = std::env::var(VARIABLE) {
        settings.leak =
            Leak::parse(&text, NET).map_err(|error| failure::value(VARIABLE, &text, error))?;
    }
    let mut asked = Asked::default();
    for (name, object) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        if !asked.set(&name, &object)? {
            set(&mut settings, &name, &object)?;
        }
    }
    settings.security = asked.security()?;
    Ok(settings)
}

/// What is asked for of encryption.
#[derive(Default)]
struct Asked {
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    authority: Option<PathBuf>,
    plain: bool,
}

impl Asked {
    /// Whether it is one of these settings.
    fn set(&mut self, name: &str, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        let file = match name {
            "tls_certificate" => &mut self.certificate,
            "tls_key" => &mut self.key,
            "tls_authority" => &mut self.authority,
            "plain" => {
                self.plain = truth(name, object)?;
                return Ok(true);
            }
            _ => return Ok(false),
        };
        if !object.is_none() {
            *file = Some(path(name, object)?);
        }
        Ok(true)
    }

    fn security(self) -> PyResult<Security> {
        match (self.certificate, self.key, self.authority, self.plain) {
            (None, None, None, true) => Ok(Security::Plain),
            (None, None, None, false) => Ok(Security::PlainOnLoopback),
            (Some(certificate), Some(key), Some(authority), false) => {
                let files = CertificateFiles {
                    certificate,
                    key,
                    authority,
                };
                Certificates::load(&files)
                    .map(Security::Tls)
                    .map_err(|error| PyOSError::new_err(error.to_string()))
            }
            _ => Err(PyTypeError::new_err(
                "tls_certificate, tls_key and tls_authority are given together, and without plain",
            )),
        }
    }
}

/// Whether an end that receives is told by its user what is acknowledged.
pub(crate) fn by_hand(given: Option<&Bound<'_, PyDict>>) -> PyResult<bool> {
    let name = "acknowledge_by_hand";
    let given = given.map(|given| given.get_item(name)).transpose()?;
    given
        .flatten()
        .map_or(Ok(false), |object| truth(name, &object))
}

fn truth(name: &str, object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let truth = object.extract();
    truth.map_err(|_| failure::kind(name, object, "it must be True or False"))
}

fn path(name: &str, object: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let path = object.extract();
    path.map_err(|_| failure::kind(name, object, "it must be a path"))
}

fn set(settings: &mut Settings, name: &str, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let messages = &mut settings.messages;
    let ns = |object| seconds(name, object).map(|time| time.as_nanos() as u64);
    // The engine knows the ranges and tells them; these are those of the type.
    let word = |object| whole(name, object, 0, u32::MAX.into()).map(|number| number as u32);
    match name {
        "buffer_bytes" => messages.buffer_bytes = word(object)?,
        "buffer_count" => messages.buffer_count = word(object)?,
        "water_mark_bytes" => messages.water_mark_bytes = word(object)?,
        "flush_time" => messages.flush_ns = ns(object)?,
        "block_time" => messages.block_ns = ns(object)?,
        "spin_time" => settings.spin_ns = ns(object)?,
        "connections_max" => settings.connections_max = whole(name, object, 1, 4096)? as usize,
        "per_tag" => settings.per_tag = truth(name, object)?,
        // For end points that receive: they look at it themselves.
        "acknowledge_by_hand" => drop(truth(name, object)?),
        "out" if object.is_none() => {}
        "out" => settings.out = Some(path(name, object)?),
        _ => {
            return Err(PyTypeError::new_err(format!(
                "there is no setting '{name}'; there are {NAMES}"
            )));
        }
    }
    Ok(())
}
