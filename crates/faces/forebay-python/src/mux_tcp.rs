//! `forebay.TcpSocket` and `forebay.TcpListener`.

use std::time::{Duration, Instant};

use forebay_client::ip::{IpClient, IpError, SocketId, TcpCounts, TcpLimits};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyBytes, PyDict, PyTuple};

use crate::arguments;
use crate::buffers::payload;
use crate::failure;
use crate::mux_client::MuxClient;
use crate::mux_socket::{Address, slice};

/// Most bytes that one call receives.
const RECEIVE_MAX: usize = 1 << 20;

/// A connection of TCP over the IP stack of a client of the multiplexer, in the way of Python's own: `MuxClient.tcp_connect` or `TcpListener.accept` makes it.
///
/// The stack works while one of its client's calls does. Several threads may use it and other sockets of the client, one at a time. One that is not closed is so
/// when the program has no name for it any more. `timeout` is in seconds, without an end when it is None, and 0 raises BlockingIOError.
#[pyclass(frozen, module = "forebay")]
#[derive(Debug)]
pub(crate) struct TcpSocket {
    client: Py<MuxClient>,
    id: SocketId,
    peer: Address,
    port: u16,
}

/// What listens for connections of TCP over the IP stack of a client of the multiplexer: `MuxClient.tcp_listen` opens it.
#[pyclass(frozen, module = "forebay")]
#[derive(Debug)]
pub(crate) struct TcpListener {
    client: Py<MuxClient>,
    id: SocketId,
    port: u16,
}

impl Drop for TcpSocket {
    fn drop(&mut self) {
        self.client.get().lose(self.id);
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        self.client.get().lose(self.id);
    }
}

/// Has the stack work until `look` finds something, in slices, between which signals are seen.
fn waited<T: Send>(
    client: &MuxClient,
    py: Python<'_>,
    limit: Option<Duration>,
    mut look: impl FnMut(&mut IpClient) -> Result<Option<T>, IpError> + Send,
) -> PyResult<T> {
    let (begun, mut is_first) = (Instant::now(), true);
    loop {
        let slice = slice(limit, begun, is_first)?;
        let found = client.with_ip(py, |ip| {
            let mut found = look(ip).map_err(failure::of_ip)?;
            if found.is_none() {
                let stepped = ip.step(Instant::now() + slice);
                stepped.map_err(failure::of_client)?;
                found = look(ip).map_err(failure::of_ip)?;
            }
            ip.client_mut().flush();
            Ok(found)
        })?;
        if let Some(found) = found {
            return Ok(found);
        }
        if limit == Some(Duration::ZERO) {
            return Err(failure::would_block());
        }
        is_first = false;
        py.check_signals()?;
    }
}

/// A connection that is made, or is to be.
pub(crate) fn connection(
    client: Py<MuxClient>,
    py: Python<'_>,
    id: SocketId,
    limit: Option<Duration>,
) -> PyResult<TcpSocket> {
    // One that is not made is dropped, and so closed.
    let socket = accepted(client, py, id)?;
    waited(socket.client.get(), py, limit, |ip| {
        Ok(ip.tcp_is_connected(id)?.then_some(()))
    })?;
    Ok(socket)
}

pub(crate) const fn listener(client: Py<MuxClient>, id: SocketId, port: u16) -> TcpListener {
    TcpListener { client, id, port }
}

/// What connections keep, and how long their peers may say nothing.
pub(crate) fn limits(
    buffer_bytes: usize,
    peer_timeout: Option<&Bound<'_, PyAny>>,
) -> PyResult<TcpLimits> {
    let other = TcpLimits::default();
    let timeout = peer_timeout.map(|object| arguments::seconds("peer_timeout", object));
    Ok(TcpLimits {
        receive_bytes: buffer_bytes,
        send_bytes: buffer_bytes,
        timeout: timeout.transpose()?.unwrap_or(other.timeout),
    })
}

/// Terms of connections under their names.
pub(crate) const fn terms(of: &TcpCounts) -> [(&'static str, u64); 13] {
    [
        ("received_bytes", of.received_bytes),
        ("taken_bytes", of.taken_bytes),
        ("unread_bytes", of.unread_bytes),
        ("closed_unread_bytes", of.closed_unread_bytes),
        ("asked_bytes", of.asked_bytes),
        ("acknowledged_bytes", of.acknowledged_bytes),
        ("unacknowledged_bytes", of.unacknowledged_bytes),
        (
            "closed_unacknowledged_bytes",
            of.closed_unacknowledged_bytes,
        ),
        ("refused", of.refused),
        ("reset", of.reset),
        ("timed_out", of.timed_out),
        ("given_up", of.given_up),
        ("backlog_full", of.backlog_full),
    ]
}

fn close(client: &MuxClient, py: Python<'_>, id: SocketId) {
    // One that is closed, or whose client is, stays so.
    let _ = client.with_ip(py, |ip| {
        let _ = ip.tcp_close(id);
        ip.client_mut().flush();
        Ok(())
    });
}

#[pymethods]
impl TcpSocket {
    /// Hands over as many of these bytes as there is room for, and says how many.
    #[pyo3(signature = (data, timeout=None))]
    fn send(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let limit = arguments::timeout(timeout)?;
        let (payload, _) = payload(data)?;
        let bytes = payload.as_slice()?;
        waited(self.client.get(), py, limit, |ip| {
            let sent = ip.tcp_send(self.id, bytes)?;
            Ok(Some(sent).filter(|sent| *sent > 0 || bytes.is_empty()))
        })
    }

    /// Hands all of these bytes over. After an error nobody says how many were.
    #[pyo3(signature = (data, timeout=None))]
    fn sendall(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let limit = arguments::timeout(timeout)?;
        let (payload, _) = payload(data)?;
        let mut bytes = payload.as_slice()?;
        waited(self.client.get(), py, limit, |ip| {
            let sent = ip.tcp_send(self.id, bytes)?;
            bytes = &bytes[sent..];
            Ok(bytes.is_empty().then_some(()))
        })
    }

    /// So many bytes at most that came; none when the peer has said all that it will say.
    #[pyo3(signature = (bufsize, timeout=None))]
    fn recv<'py>(
        &self,
        py: Python<'py>,
        bufsize: usize,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let limit = arguments::timeout(timeout)?;
        let mut room = vec![0; bufsize.min(RECEIVE_MAX)];
        let came = waited(self.client.get(), py, limit, |ip| {
            ip.tcp_receive(self.id, &mut room)
        })?;
        Ok(PyBytes::new(py, &room[..came]))
    }

    /// Says that this end sends no more: the peer is told behind all that was handed over.
    fn shutdown(&self, py: Python<'_>) -> PyResult<()> {
        self.client.get().with_ip(py, |ip| {
            ip.tcp_shut_down(self.id).map_err(failure::of_ip)?;
            ip.client_mut().flush();
            Ok(())
        })
    }

    /// What it has counted, in the terms of `MuxClient.ip_counts` without `tcp_`.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = self
            .client
            .get()
            .with_ip(py, |ip| ip.tcp_counts(self.id).map_err(failure::of_ip))?;
        let said = PyDict::new(py);
        for (name, count) in terms(&counts) {
            said.set_item(name, count)?;
        }
        Ok(said)
    }

    /// Closes it. What was handed over still goes to the peer, while the client works; if something is unread, the peer is told by a reset.
    fn close(&self, py: Python<'_>) {
        close(self.client.get(), py, self.id);
    }

    /// The far end, (host, port).
    fn getpeername(&self) -> Address {
        self.peer.clone()
    }

    /// Its own port.
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
        let (host, port) = &self.peer;
        format!("TcpSocket(port {}, peer {host} port {port})", self.port)
    }
}

#[pymethods]
impl TcpListener {
    /// The next connection and its far end, (host, port).
    #[pyo3(signature = (timeout=None))]
    fn accept(
        &self,
        py: Python<'_>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(TcpSocket, Address)> {
        let limit = arguments::timeout(timeout)?;
        let id = waited(self.client.get(), py, limit, |ip| ip.tcp_accept(self.id))?;
        let socket = accepted(self.client.clone_ref(py), py, id)?;
        let peer = socket.peer.clone();
        Ok((socket, peer))
    }

    /// Closes it, and connections that it has and nobody has accepted.
    fn close(&self, py: Python<'_>) {
        close(self.client.get(), py, self.id);
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
        format!("TcpListener(port {})", self.port)
    }
}

/// A connection that a listener had, which may be at its end already: its first call says so.
fn accepted(client: Py<MuxClient>, py: Python<'_>, id: SocketId) -> PyResult<TcpSocket> {
    let (peer, port) = client.get().with_ip(py, |ip| {
        let peer = ip.tcp_peer(id).map_err(failure::of_ip)?;
        Ok((peer, ip.tcp_port(id).map_err(failure::of_ip)?))
    })?;
    Ok(TcpSocket {
        id,
        peer: (peer.ip().to_string(), peer.port()),
        port,
        client,
    })
}
