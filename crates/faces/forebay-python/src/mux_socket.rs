//! `forebay.UdpSocket`.

use std::time::{Duration, Instant};

use forebay_client::ip::{Datagrams, IpError, SocketId, UdpCounts};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyBytes, PyDict, PyTuple};

use crate::arguments;
use crate::buffers::payload;
use crate::failure;
use crate::mux_client::{MuxClient, SLICE};

/// A socket of UDP over the IP stack of a client of the multiplexer, in the way of Python's own: `MuxClient.udp` opens it.
///
/// The stack works while one of its client's calls does. Several threads may use it and other sockets of the client, one at a time. One that is not closed is so
/// when the program has no name for it any more.
#[pyclass(frozen, module = "forebay")]
#[derive(Debug)]
pub(crate) struct UdpSocket {
    client: Py<MuxClient>,
    id: SocketId,
    port: u16,
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        self.client.get().lose(self.id);
    }
}

/// A host and a port.
pub(crate) type Address = (String, u16);

impl UdpSocket {
    pub(crate) const fn new(client: Py<MuxClient>, id: SocketId, port: u16) -> Self {
        Self { client, id, port }
    }
}

/// Terms of sockets under their names.
pub(crate) fn terms(counts: &UdpCounts) -> Vec<(String, u64)> {
    let all: [(&str, Datagrams); 11] = [
        ("received", counts.received),
        ("taken", counts.taken),
        ("queue_full", counts.queue_full),
        ("unread", counts.unread),
        ("closed_unread", counts.closed_unread),
        ("asked", counts.asked),
        ("sent", counts.sent),
        ("unresolved", counts.unresolved),
        ("no_way", counts.no_way),
        ("unsent", counts.unsent),
        ("closed_unsent", counts.closed_unsent),
    ];
    let mut said = vec![("refused_full".to_owned(), counts.refused_full)];
    for (name, of) in all {
        said.push((name.to_owned(), of.items));
        said.push((format!("{name}_bytes"), of.bytes));
    }
    said
}

/// What is left of a time, and how much of it one look takes; an error when nothing is.
pub(crate) fn slice(limit: Option<Duration>, begun: Instant, is_first: bool) -> PyResult<Duration> {
    let left = limit.map(|limit| limit.saturating_sub(begun.elapsed()));
    match left {
        Some(Duration::ZERO) if !is_first => Err(failure::timed_out()),
        left => Ok(left.map_or(SLICE, |left| left.min(SLICE))),
    }
}

#[pymethods]
impl UdpSocket {
    /// Sends a datagram to (host, port), and says how many bytes that are. It goes at once, or when its receiver's Ethernet address is known; one that nobody
    /// says for 3 s is given up, and counted as `unresolved`. While as many wait as the socket keeps, it is waited for up to `timeout` seconds, without an end
    /// when it is None; 0 raises BlockingIOError.
    #[pyo3(signature = (data, address, timeout=None))]
    fn sendto(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        address: &Bound<'_, PyAny>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let limit = arguments::timeout(timeout)?;
        let to = arguments::host_and_port(address)?;
        let (payload, _) = payload(data)?;
        let bytes = payload.as_slice()?;
        let (begun, mut is_first) = (Instant::now(), true);
        loop {
            let slice = slice(limit, begun, is_first)?;
            let sent = self.client.get().with_ip(py, |ip| {
                let sent = match ip.send_to(self.id, to, bytes) {
                    Ok(()) => true,
                    Err(IpError::Full { .. }) if limit != Some(Duration::ZERO) => {
                        let stepped = ip.step(Instant::now() + slice);
                        stepped.map_err(failure::of_client)?;
                        false
                    }
                    Err(error) => return Err(failure::of_ip(error)),
                };
                ip.client_mut().flush();
                Ok(sent)
            })?;
            if sent {
                return Ok(bytes.len());
            }
            is_first = false;
            py.check_signals()?;
        }
    }

    /// The next datagram and its sender, (host, port), which is waited for up to `timeout` seconds, without an end when it is None. Raises TimeoutError.
    #[pyo3(signature = (timeout=None))]
    fn recvfrom<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Bound<'py, PyBytes>, Address)> {
        let limit = arguments::timeout(timeout)?;
        let (begun, mut is_first) = (Instant::now(), true);
        loop {
            let slice = slice(limit, begun, is_first)?;
            let came = self.client.get().with_ip(py, |ip| {
                let came = ip.take(self.id).map_err(failure::of_ip)?;
                if came.is_some() {
                    return Ok(came);
                }
                let stepped = ip.step(Instant::now() + slice);
                stepped.map_err(failure::of_client)?;
                ip.take(self.id).map_err(failure::of_ip)
            })?;
            if let Some(came) = came {
                let from = (came.from.ip().to_string(), came.from.port());
                return Ok((PyBytes::new(py, &came.payload), from));
            }
            is_first = false;
            py.check_signals()?;
        }
    }

    /// What became of the socket's datagrams, in the terms of `MuxClient.ip_counts`.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = self
            .client
            .get()
            .with_ip(py, |ip| ip.udp_counts(self.id).map_err(failure::of_ip))?;
        let said = PyDict::new(py);
        for (name, count) in terms(&counts) {
            said.set_item(name, count)?;
        }
        Ok(said)
    }

    /// Closes it. What waits in it is counted as `closed_unread` and `closed_unsent`.
    fn close(&self, py: Python<'_>) {
        // One that is closed, or whose client is, stays so.
        let _ = self.client.get().with_ip(py, |ip| {
            let _ = ip.close(self.id);
            Ok(())
        });
    }

    /// Its port.
    #[getter]
    const fn port(&self) -> u16 {
        self.port
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        format!("UdpSocket(port {})", self.port)
    }
}
