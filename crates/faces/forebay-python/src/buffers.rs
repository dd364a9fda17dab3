//! What is sent: buffers of Python, without a copy where that is possible.

use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyMemoryView, PyModule};

use crate::end::Outgoing;
use crate::failure;
use crate::format::is_plain;

/// Shorter ones are copied, which costs less than to make an array of them.
const COPIED_BYTES_MAX: usize = 4096;

/// NumPy, where it is installed.
pub(crate) fn numpy_module(py: Python<'_>) -> Option<&Bound<'_, PyModule>> {
    static FOUND: PyOnceLock<Option<Py<PyModule>>> = PyOnceLock::new();
    let found = FOUND.get_or_init(py, || {
        let module = py.import("numpy").ok()?;
        // Looked for here: what uses it below would panic.
        py.import("numpy._core.multiarray")
            .or_else(|_| py.import("numpy.core.multiarray"))
            .ok()?;
        Some(module.unbind())
    });
    found.as_ref().map(|module| module.bind(py))
}

/// Bytes that somebody else cannot take away.
#[derive(Debug)]
pub(crate) enum Payload<'py> {
    /// Immutable anyway.
    Bytes(Bound<'py, PyBytes>),
    /// Any other buffer, seen through NumPy.
    Array(PyReadonlyArray1<'py, u8>),
    /// A copy.
    Copied(Vec<u8>),
}

impl Payload<'_> {
    pub(crate) fn as_slice(&self) -> PyResult<&[u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.as_bytes()),
            Self::Array(array) => Ok(array.as_slice()?),
            Self::Copied(bytes) => Ok(bytes),
        }
    }
}

/// A buffer as bytes, and the length of its rows when it has two dimensions or more.
pub(crate) fn payload<'py>(
    object: &Bound<'py, PyAny>,
) -> PyResult<(Payload<'py>, Option<(usize, usize)>)> {
    let py = object.py();
    if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        return Ok((Payload::Bytes(bytes.clone()), None));
    }
    let view = PyMemoryView::from(object).map_err(|_| {
        failure::kind(
            "data",
            object,
            "it must have the buffer protocol, as bytes, a memoryview or a NumPy array",
        )
    })?;
    check_plain(object, &view)?;
    if !view.getattr("c_contiguous")?.extract::<bool>()? {
        return Err(PyValueError::new_err(
            "data is not contiguous; copy it first, as with numpy.ascontiguousarray(data)",
        ));
    }
    let bytes: usize = view.getattr("nbytes")?.extract()?;
    let shape: Vec<usize> = view.getattr("shape")?.extract()?;
    let rows = match shape[..] {
        [] | [_] => None,
        [0, ..] => Some((0, 0)),
        [count, ..] => Some((count, bytes / count)),
    };
    if bytes == 0 {
        return Ok((Payload::Copied(Vec::new()), rows));
    }
    let flat = view.call_method1("cast", ("B",))?;
    if bytes > COPIED_BYTES_MAX
        && let Some(numpy) = numpy_module(py)
    {
        let array = numpy.call_method1("frombuffer", (flat, "u1"))?;
        let array = array.cast_into::<PyArray1<u8>>()?;
        return Ok((Payload::Array(array.try_readonly()?), rows));
    }
    let copy = PyBuffer::<u8>::get(&flat)?.to_vec(py)?;
    Ok((Payload::Copied(copy), rows))
}

/// What is sent must mean the same elsewhere: an address of this process does not, and is nobody else's business.
fn check_plain(object: &Bound<'_, PyAny>, view: &Bound<'_, PyMemoryView>) -> PyResult<()> {
    let format: String = view.getattr("format")?.extract()?;
    if is_plain(&format) {
        return Ok(());
    }
    let dtype = object.getattr("dtype").map_or_else(
        |_| String::new(),
        |dtype| format!("the dtype {dtype}, that is "),
    );
    Err(PyTypeError::new_err(format!(
        "data has {dtype}the format '{format}', which is not bytes and numbers alone; convert it first, as with data.astype('f8') for numbers, \
         text.encode() for text, or pickle.dumps(data) for objects"
    )))
}

/// Whole numbers from 0 on: of an array of any such type, or of any iterable.
pub(crate) fn numbers(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    fn of<T: Element + Into<i128>>(
        name: &str,
        object: &Bound<'_, PyAny>,
    ) -> Option<PyResult<Vec<u64>>> {
        let buffer = PyBuffer::<T>::get(object).ok()?;
        let items = match buffer.to_vec(object.py()) {
            Ok(items) => items,
            Err(error) => return Some(Err(error)),
        };
        let all = items.into_iter().enumerate().map(|(at, item)| {
            let item: i128 = item.into();
            u64::try_from(item).map_err(|_| below(name, at, item))
        });
        Some(all.collect())
    }
    let found = of::<i64>(name, object)
        .or_else(|| of::<u64>(name, object))
        .or_else(|| of::<i32>(name, object))
        .or_else(|| of::<u32>(name, object))
        .or_else(|| of::<u16>(name, object))
        .or_else(|| of::<u8>(name, object));
    if let Some(found) = found {
        return found;
    }
    let rule = "it must be an array or an iterable of whole numbers";
    let items = object
        .try_iter()
        .map_err(|_| failure::kind(name, object, rule))?;
    let mut all = Vec::new();
    for (at, item) in items.enumerate() {
        let item = item?;
        let number: i128 = item
            .extract()
            .map_err(|_| failure::kind(&format!("{name}[{at}]"), &item, rule))?;
        all.push(u64::try_from(number).map_err(|_| below(name, at, number))?);
    }
    Ok(all)
}

fn below(name: &str, at: usize, number: i128) -> PyErr {
    let rule = format!("it must be from 0 to {}", u64::MAX);
    failure::value(&format!("{name}[{at}]"), number, rule)
}

/// Tags of a batch: one for all, or one for each.
#[derive(Debug)]
pub(crate) enum Tags {
    Same(u64),
    Each(Vec<u64>),
}

/// One message.
#[derive(Debug)]
pub(crate) struct One<'a>(pub(crate) u64, pub(crate) &'a [u8]);

impl Outgoing for One<'_> {
    fn len(&self) -> usize {
        1
    }

    fn message(&self, _at: usize) -> (u64, &[u8]) {
        (self.0, self.1)
    }
}

/// Messages that lie one after the other.
#[derive(Debug)]
pub(crate) struct Many<'a> {
    tags: Tags,
    data: &'a [u8],
    /// Where each begins, and where the last one ends.
    offsets: Vec<u64>,
}

impl Outgoing for Many<'_> {
    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    fn message(&self, at: usize) -> (u64, &[u8]) {
        let tag = match &self.tags {
            Tags::Same(tag) => *tag,
            Tags::Each(tags) => tags[at],
        };
        let (begin, end) = (self.offsets[at] as usize, self.offsets[at + 1] as usize);
        (tag, &self.data[begin..end])
    }
}

impl<'a> Many<'a> {
    /// Holds everything against everything else, before anything is sent. `longest` is what a message may have.
    pub(crate) fn new(
        tags: &Bound<'_, PyAny>,
        data: &'a [u8],
        rows: Option<(usize, usize)>,
        sizes: Option<&Bound<'_, PyAny>>,
        offsets: Option<&Bound<'_, PyAny>>,
        longest: u32,
    ) -> PyResult<Self> {
        let offsets = match (sizes, offsets, rows) {
            (Some(sizes), None, _) => of_sizes(&numbers("sizes", sizes)?, data.len())?,
            (None, Some(offsets), _) => checked(numbers("offsets", offsets)?, data.len())?,
            (None, None, Some((count, bytes))) => {
                (0..=count as u64).map(|at| at * bytes as u64).collect()
            }
            (Some(_), Some(_), _) => {
                return Err(PyTypeError::new_err(
                    "both sizes and offsets are given; give one of them",
                ));
            }
            (None, None, None) => {
                return Err(PyTypeError::new_err(
                    "neither sizes nor offsets are given, and data has no rows; give sizes, offsets, or an array of two dimensions",
                ));
            }
        };
        let count = offsets.len() - 1;
        let long = offsets
            .windows(2)
            .position(|pair| pair[1] - pair[0] > longest.into());
        if let Some(at) = long {
            let rule = format!(
                "a buffer has {longest}; raise buffer_bytes on both sides, or split the message"
            );
            let bytes = format!("{} bytes", offsets[at + 1] - offsets[at]);
            return Err(failure::value(&format!("message {at}"), bytes, rule));
        }
        let tags = if tags.extract::<i128>().is_ok() {
            Tags::Same(crate::arguments::tag(tags)?)
        } else {
            let each = numbers("tags", tags)?;
            if each.len() != count {
                let rule = format!("there are {count} messages; give a tag for each, or one");
                return Err(failure::value("the number of tags", each.len(), rule));
            }
            Tags::Each(each)
        };
        Ok(Self {
            tags,
            data,
            offsets,
        })
    }
}

fn of_sizes(sizes: &[u64], bytes: usize) -> PyResult<Vec<u64>> {
    let mut offsets = Vec::with_capacity(sizes.len() + 1);
    let mut end = 0_u64;
    offsets.push(end);
    for size in sizes {
        end = end.saturating_add(*size);
        offsets.push(end);
    }
    if end != bytes as u64 {
        let rule = format!("data has {bytes} bytes, and they must be equal");
        return Err(failure::value("the sum of sizes", end, rule));
    }
    Ok(offsets)
}

fn checked(offsets: Vec<u64>, bytes: usize) -> PyResult<Vec<u64>> {
    let Some(last) = offsets.last() else {
        let rule = "it must have one more than there are messages";
        return Err(failure::value("offsets", "empty", rule));
    };
    if let Some(at) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
        let rule = format!("it must be offsets[{at}], {}, or more", offsets[at]);
        let name = format!("offsets[{}]", at + 1);
        return Err(failure::value(&name, offsets[at + 1], rule));
    }
    if *last > bytes as u64 {
        let rule = format!("data has {bytes} bytes");
        return Err(failure::value("the last of offsets", last, rule));
    }
    Ok(offsets)
}
