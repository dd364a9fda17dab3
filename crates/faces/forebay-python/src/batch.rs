//! What is received: many messages at once, in memory without a gap.

use std::sync::atomic::{AtomicUsize, Ordering};

use numpy::{Element, PyArray1, PyArrayMethods};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyMemoryView, PySlice};

use crate::buffers::numpy_module;
use crate::gathered::Messages;

/// Messages that were received together.
///
/// `data` has the payloads one after the other; message `i` is `data[offsets[i]:offsets[i + 1]]` and has the tag `tags[i]` and the
/// status `status[i]`. With NumPy these are arrays that cannot be written to (`data` without a copy), else memoryviews. The memory
/// belongs to the batch and to whatever refers to it: nothing is ever written over.
///
/// A batch has a length, is false when it is empty, and gives pairs (tag, memoryview) when it is iterated or indexed.
#[pyclass(frozen, module = "forebay.net")]
pub(crate) struct Batch {
    data: Py<PyAny>,
    view: Py<PyMemoryView>,
    begins: Vec<i64>,
    tag_of: Vec<u64>,
    status_of: Vec<u8>,
    data_bytes: usize,
    offsets: PyOnceLock<Py<PyAny>>,
    sizes: PyOnceLock<Py<PyAny>>,
    tags: PyOnceLock<Py<PyAny>>,
    status: PyOnceLock<Py<PyAny>>,
}

/// An array that has this memory, or a memoryview of a copy.
fn array<T: Element>(
    py: Python<'_>,
    items: Vec<T>,
    format: &str,
    bytes: impl FnOnce(&[T]) -> Vec<u8>,
) -> PyResult<Py<PyAny>> {
    if numpy_module(py).is_some() {
        let array = PyArray1::from_vec(py, items);
        let fixed = array.try_readwrite()?.make_nonwriteable();
        return Ok(fixed.as_any().clone().unbind());
    }
    let view = PyMemoryView::from(PyBytes::new(py, &bytes(&items)).as_any())?;
    Ok(view.call_method1("cast", (format,))?.unbind())
}

fn words<T: Copy, const N: usize>(items: &[T], of: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    items.iter().flat_map(|item| of(*item)).collect()
}

impl Batch {
    pub(crate) fn new(py: Python<'_>, messages: Messages) -> PyResult<Self> {
        let data_bytes = messages.data.len();
        let data = if numpy_module(py).is_some() {
            array(py, messages.data, "B", <[u8]>::to_vec)?
        } else {
            let bytes = PyBytes::new(py, &messages.data);
            PyMemoryView::from(bytes.as_any())?.into_any().unbind()
        };
        Ok(Self {
            view: PyMemoryView::from(data.bind(py))?.unbind(),
            data,
            begins: messages.offsets,
            tag_of: messages.tags,
            status_of: messages.status,
            data_bytes,
            offsets: PyOnceLock::new(),
            sizes: PyOnceLock::new(),
            tags: PyOnceLock::new(),
            status: PyOnceLock::new(),
        })
    }

    fn message<'py>(&self, py: Python<'py>, at: usize) -> PyResult<(u64, Bound<'py, PyAny>)> {
        let slice = PySlice::new(
            py,
            self.begins[at] as isize,
            self.begins[at + 1] as isize,
            1,
        );
        Ok((self.tag_of[at], self.view.bind(py).get_item(slice)?))
    }
}

#[pymethods]
impl Batch {
    /// The payloads, one after the other: a NumPy array of uint8 without a copy, or a memoryview.
    #[getter]
    fn data(&self, py: Python<'_>) -> Py<PyAny> {
        self.data.clone_ref(py)
    }

    /// Where each message begins in `data`, and at last where the last one ends: int64, one more than there are messages.
    #[getter]
    fn offsets<'py>(&'py self, py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
        let made = self.offsets.get_or_try_init(py, || {
            let bytes = |items: &[i64]| words(items, i64::to_ne_bytes);
            array(py, self.begins.clone(), "q", bytes)
        });
        made.map(|array| array.bind(py))
    }

    /// Bytes of each payload: int64.
    #[getter]
    fn sizes<'py>(&'py self, py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
        let made = self.sizes.get_or_try_init(py, || {
            let sizes = self.begins.windows(2).map(|pair| pair[1] - pair[0]);
            let bytes = |items: &[i64]| words(items, i64::to_ne_bytes);
            array(py, sizes.collect(), "q", bytes)
        });
        made.map(|array| array.bind(py))
    }

    /// The tag of each message: uint64.
    #[getter]
    fn tags<'py>(&'py self, py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
        let made = self.tags.get_or_try_init(py, || {
            let bytes = |items: &[u64]| words(items, u64::to_ne_bytes);
            array(py, self.tag_of.clone(), "Q", bytes)
        });
        made.map(|array| array.bind(py))
    }

    /// What the source says of each message, 0 for good: uint8.
    #[getter]
    fn status<'py>(&'py self, py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
        let made = self.status.get_or_try_init(py, || {
            array(py, self.status_of.clone(), "B", <[u8]>::to_vec)
        });
        made.map(|array| array.bind(py))
    }

    fn __len__(&self) -> usize {
        self.tag_of.len()
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: isize,
    ) -> PyResult<(u64, Bound<'py, PyAny>)> {
        let count = self.tag_of.len() as isize;
        let at = if index < 0 { index + count } else { index };
        match usize::try_from(at) {
            Ok(at) if at < self.tag_of.len() => self.message(py, at),
            _ => Err(PyIndexError::new_err(format!(
                "message {index} of a batch of {}",
                self.tag_of.len()
            ))),
        }
    }

    fn __iter__(slf: Bound<'_, Self>) -> BatchIterator {
        BatchIterator {
            batch: slf.unbind(),
            next: AtomicUsize::new(0),
        }
    }

    fn __repr__(&self) -> String {
        format!(
            "<forebay.net.Batch: {} messages, {} bytes>",
            self.tag_of.len(),
            self.data_bytes
        )
    }
}

/// Goes over a batch.
#[pyclass(frozen, module = "forebay.net")]
pub(crate) struct BatchIterator {
    batch: Py<Batch>,
    next: AtomicUsize,
}

#[pymethods]
impl BatchIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<(u64, Bound<'py, PyAny>)>> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        let batch = self.batch.get();
        if at >= batch.tag_of.len() {
            return Ok(None);
        }
        batch.message(py, at).map(Some)
    }
}
