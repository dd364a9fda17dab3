//! `forebay.MuxClient`.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use forebay_client::ip::{IpClient, IpTotals, Network, SocketId, UdpLimits};
use forebay_client::protocol::Welcome;
use forebay_client::{Client, Woken};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyBytes, PyDict, PyTuple};

use crate::arguments;
use crate::buffers::payload;
use crate::failure;
use crate::mux_socket::{UdpSocket, terms};
use crate::mux_tcp::{self, TcpListener, TcpSocket};
use crate::turnstile::Turnstile;

/// One wait: a signal and another thread cost this much.
pub(crate) const SLICE: Duration = Duration::from_millis(20);

/// A client of the multiplexer: frames of a network card that `forebay mux run` owns, without privileges.
///
/// `socket` is that of the multiplexer, `name` the place that its file has for this user, and `timeout` how many seconds the answer is waited for. A refusal is
/// ConnectionRefusedError with its reason, a multiplexer that is gone ConnectionResetError: make another client then. Several threads may use it, one
/// at a time, and what waits releases the interpreter's lock.
#[pyclass(frozen, module = "forebay")]
#[derive(Debug)]
pub(crate) struct MuxClient {
    /// None when it is closed.
    client: Turnstile<Option<Kind>>,
    welcome: Welcome,
    frame_bytes_max: usize,
    /// What its sockets had counted when it was closed.
    last: OnceLock<IpTotals>,
    /// Sockets that the program has lost without closing them: the next call does.
    lost: Mutex<Vec<SocketId>>,
}

/// What receives the frames of a client.
#[derive(Debug)]
enum Kind {
    Frames(Box<Client>),
    Ip(Box<IpClient>),
}

impl Kind {
    /// The client, for what it has with a stack and without one.
    fn any(&mut self) -> &mut Client {
        match self {
            Self::Frames(client) => client,
            Self::Ip(ip) => ip.client_mut(),
        }
    }
}

fn closed() -> PyErr {
    failure::closed("client of the multiplexer")
}

impl MuxClient {
    /// Works with the client, without the interpreter's lock.
    fn with_kind<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Option<Kind>) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| {
            let mut kind = self.client.enter();
            if kind.is_none() {
                return Err(closed());
            }
            self.close_lost(&mut kind);
            work(&mut kind)
        })
    }

    /// Closes the sockets that the program has lost.
    fn close_lost(&self, kind: &mut Option<Kind>) {
        let lost = std::mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(Kind::Ip(ip)) = kind {
            // One that is closed stays so.
            for id in lost {
                let _ = ip.close(id).is_err() && ip.tcp_close(id).is_err();
            }
        }
    }

    /// Takes a socket back from a program that has lost it. It may be in any thread, and in the midst of anything: nothing is waited for.
    pub(crate) fn lose(&self, id: SocketId) {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.push(id);
        drop(lost);
        if let Some(mut kind) = self.client.enter_if_free() {
            self.close_lost(&mut kind);
        }
    }

    /// With the client, under a stack or not.
    fn with_any<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Client) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        let work = |kind: &mut Option<Kind>| work(kind.as_mut().ok_or_else(closed)?.any());
        self.with_kind(py, work)
    }

    /// With the client whose frames are the program's.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Client) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        self.with_kind(py, |kind| match kind {
            Some(Kind::Frames(client)) => work(client),
            Some(Kind::Ip(_)) => Err(failure::stack(
                "the client has an IP stack, which has its frames",
            )),
            None => Err(closed()),
        })
    }

    /// With the client under its stack.
    pub(crate) fn with_ip<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut IpClient) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        self.with_kind(py, |kind| match kind {
            Some(Kind::Ip(ip)) => work(ip),
            Some(Kind::Frames(_)) => Err(failure::stack(
                "the client has no IP stack: call open_ip or udp",
            )),
            None => Err(closed()),
        })
    }

    /// Gives the frames to a stack, unless one has them and `is_new` is not asked for.
    fn have_ip(&self, py: Python<'_>, network: Network, is_new: bool) -> PyResult<()> {
        self.with_kind(py, |kind| {
            match kind {
                Some(Kind::Frames(client)) => {
                    IpClient::check(client, &network).map_err(failure::of_ip)?;
                }
                Some(Kind::Ip(_)) if is_new => {
                    return Err(failure::stack("the client has an IP stack already"));
                }
                _ => return Ok(()),
            }
            if let Some(Kind::Frames(client)) = kind.take() {
                let ip = IpClient::open(*client, &network).map_err(failure::of_ip)?;
                *kind = Some(Kind::Ip(Box::new(ip)));
            }
            Ok(())
        })
    }
}

#[pymethods]
impl MuxClient {
    #[new]
    #[pyo3(signature = (socket, name, *, timeout=None))]
    fn new(
        py: Python<'_>,
        socket: PathBuf,
        name: &str,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let patience = arguments::timeout(timeout)?.unwrap_or(Duration::from_secs(5));
        let connected = py.detach(|| Client::connect(&socket, name, patience));
        let client = connected.map_err(failure::of_client)?;
        Ok(Self {
            welcome: client.welcome().clone(),
            frame_bytes_max: client.frame_bytes_max(),
            last: OnceLock::new(),
            lost: Mutex::default(),
            client: Turnstile::new(Some(Kind::Frames(Box::new(client)))),
        })
    }

    /// A copy of the next frame, whose buffer goes back; None if none has come.
    fn receive<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut frame = Vec::new();
        let came = self.with(py, |client| {
            let came = client.receive_into(&mut frame);
            came.map_err(failure::of_client)
        })?;
        Ok(came.then(|| PyBytes::new(py, &frame)))
    }

    /// Copies an Ethernet frame, without its check sum, into a buffer, and hands it over with the next `flush` or `wait`. Raises BlockingIOError while all buffers
    /// are on their way: `wait` says 'room' when some are back.
    fn send(&self, py: Python<'_>, frame: &Bound<'_, PyAny>) -> PyResult<()> {
        let (payload, _) = payload(frame)?;
        let bytes = payload.as_slice()?;
        self.with(py, |client| client.send(bytes).map_err(failure::of_send))
    }

    /// Shows the multiplexer what was sent, and which buffers went back, and rings once if it sleeps: once for many frames.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.with_any(py, |client| {
            client.flush();
            Ok(())
        })
    }

    /// Flushes, and waits up to `timeout` seconds, without an end when it is None: 'frame' if one is there, 'room' if buffers are back after BlockingIOError,
    /// 'due' when the time is over.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<&'static str> {
        in_slices(py, timeout, |until| {
            let woken = self.with(py, |client| client.wait(until).map_err(failure::of_client));
            Ok(word(woken?))
        })
    }

    /// Flushes, and asks to be woken by the descriptor, for `select` and the like: None, or what is there already, 'frame' or 'room'. Call `wait(0)` when the
    /// descriptor is readable.
    fn arm(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        let found = self.with(py, |client| client.arm().map_err(failure::of_client))?;
        Ok(found.and_then(word))
    }

    /// The descriptor that is readable when the multiplexer has rung: see `arm`. It is not to be read.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.with_any(py, |client| Ok(client.as_fd().as_raw_fd()))
    }

    /// What it has counted itself, the second party of its account: received, received_bytes, sent, sent_bytes, refused_full.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = self.with_any(py, |client| Ok(client.counts()))?;
        let said = PyDict::new(py);
        for (name, count) in [
            ("received", counts.received),
            ("received_bytes", counts.received_bytes),
            ("sent", counts.sent),
            ("sent_bytes", counts.sent_bytes),
            ("refused_full", counts.refused_full),
        ] {
            said.set_item(name, count)?;
        }
        Ok(said)
    }

    /// Gives the frames to an IP stack with the client's addresses, in networks of so many bits: from now on it has sockets, and what receives or sends frames
    /// is RuntimeError. `gateways` are the ways to other networks, one of each version of IP at most. `udp` does the same with what holds without arguments.
    #[pyo3(signature = (*, prefix_v4=24, prefix_v6=64, gateways=None))]
    fn open_ip(
        &self,
        py: Python<'_>,
        prefix_v4: u8,
        prefix_v6: u8,
        gateways: Option<Vec<String>>,
    ) -> PyResult<()> {
        let mut network = Network {
            prefix_v4,
            prefix_v6,
            ..Network::default()
        };
        for gateway in gateways.unwrap_or_default() {
            let second =
                || failure::value("gateways", &gateway, "one of each version of IP at most");
            match arguments::ip(&gateway)? {
                IpAddr::V4(to) if network.gateway_v4.is_none() => network.gateway_v4 = Some(to),
                IpAddr::V6(to) if network.gateway_v6.is_none() => network.gateway_v6 = Some(to),
                _ => return Err(second()),
            }
        }
        self.have_ip(py, network, true)
    }

    /// A socket of UDP at a port of all addresses of the client, or at one that is free (0), which keeps so many datagrams that came and that are to be sent.
    #[pyo3(signature = (port=None, *, unread_max=1024, unsent_max=256))]
    fn udp(
        slf: Bound<'_, Self>,
        port: Option<&Bound<'_, PyAny>>,
        unread_max: usize,
        unsent_max: usize,
    ) -> PyResult<UdpSocket> {
        let (this, py) = (slf.get(), slf.py());
        let port = port.map(arguments::port).transpose()?.unwrap_or(0);
        let limits = UdpLimits {
            unread_max,
            unsent_max,
        };
        this.have_ip(py, Network::default(), false)?;
        let (id, port) = this.with_ip(py, |ip| {
            let id = ip.udp(port, limits).map_err(failure::of_ip)?;
            Ok((id, ip.port(id).map_err(failure::of_ip)?))
        })?;
        Ok(UdpSocket::new(slf.unbind(), id, port))
    }

    /// A connection of TCP to (host, port), which is waited for up to `timeout` seconds, without an end when it is None. It keeps so many bytes each way, and is
    /// given up when its peer says nothing for `peer_timeout` seconds. Raises ConnectionRefusedError, ConnectionResetError or TimeoutError.
    #[pyo3(signature = (address, timeout=None, *, buffer_bytes=262_144, peer_timeout=None))]
    fn tcp_connect(
        slf: Bound<'_, Self>,
        address: &Bound<'_, PyAny>,
        timeout: Option<&Bound<'_, PyAny>>,
        buffer_bytes: usize,
        peer_timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<TcpSocket> {
        let (this, py) = (slf.get(), slf.py());
        let limit = arguments::timeout(timeout)?;
        let to = arguments::host_and_port(address)?;
        let limits = mux_tcp::limits(buffer_bytes, peer_timeout)?;
        this.have_ip(py, Network::default(), false)?;
        let id = this.with_ip(py, |ip| ip.tcp_connect(to, limits).map_err(failure::of_ip))?;
        mux_tcp::connection(slf.unbind(), py, id, limit)
    }

    /// What listens for connections of TCP at a port of all addresses of the client, or at one that is free (0): so many of them wait for the program, 1 to 64,
    /// and one that comes then is refused.
    #[pyo3(signature = (port=None, *, backlog=16, buffer_bytes=262_144, peer_timeout=None))]
    fn tcp_listen(
        slf: Bound<'_, Self>,
        port: Option<&Bound<'_, PyAny>>,
        backlog: usize,
        buffer_bytes: usize,
        peer_timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<TcpListener> {
        let (this, py) = (slf.get(), slf.py());
        let port = port.map(arguments::port).transpose()?.unwrap_or(0);
        let limits = mux_tcp::limits(buffer_bytes, peer_timeout)?;
        this.have_ip(py, Network::default(), false)?;
        let (id, port) = this.with_ip(py, |ip| {
            let id = ip.tcp_listen(port, backlog, limits);
            let id = id.map_err(failure::of_ip)?;
            Ok((id, ip.tcp_port(id).map_err(failure::of_ip)?))
        })?;
        Ok(mux_tcp::listener(slf.unbind(), id, port))
    }

    /// Has the stack work up to `timeout` seconds, without an end when it is None: 'ready' if a socket has something, 'due' when the time is over.
    #[pyo3(signature = (timeout=None))]
    fn wait_ip(
        &self,
        py: Python<'_>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<&'static str> {
        in_slices(py, timeout, |until| {
            let is_ready = self.with_ip(py, |ip| ip.wait(until).map_err(failure::of_client));
            Ok(is_ready?.then_some("ready"))
        })
    }

    /// Has the stack work, and asks to be woken by the descriptor, for `select` and the like: the longest time for that in seconds, behind which `wait_ip(0)` is
    /// due; 0 if a socket has something already.
    fn arm_ip(&self, py: Python<'_>) -> PyResult<f64> {
        let most = Duration::from_secs(3_600);
        let armed = self.with_ip(py, |ip| ip.arm(most).map_err(failure::of_client))?;
        Ok(armed.map_or(0.0, |most| most.as_secs_f64()))
    }

    /// What became of all datagrams and connections of the client: received = taken + queue_full + unread + closed_unread, asked = sent + unresolved + no_way + unsent +
    /// closed_unsent, each with `_bytes` as well; also when it is closed. Of connections: tcp_received_bytes = tcp_taken_bytes + tcp_unread_bytes + tcp_closed_unread_bytes, tcp_asked_bytes =
    /// tcp_acknowledged_bytes + tcp_unacknowledged_bytes + tcp_closed_unacknowledged_bytes. `frames_sent` is what the multiplexer was handed, `unclaimed` came for no socket; `no_room`, `answers_lost`
    /// and `foreign_tag` are of frames.
    fn ip_counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let totals = match self.last.get() {
            Some(last) => *last,
            None => self.with_ip(py, |ip| Ok(ip.counts()))?,
        };
        let said = PyDict::new(py);
        for (name, count) in terms(&totals.udp) {
            said.set_item(name, count)?;
        }
        for (name, count) in mux_tcp::terms(&totals.tcp) {
            said.set_item(format!("tcp_{name}"), count)?;
        }
        for (name, count) in [
            ("frames_sent", totals.device.datagrams_sent),
            ("frames_sent_bytes", totals.device.datagrams_sent_bytes),
            ("segments_sent", totals.device.segments_sent),
            ("segments_sent_bytes", totals.device.segments_sent_bytes),
            ("segments_received", totals.device.segments_received),
            (
                "segments_received_bytes",
                totals.device.segments_received_bytes,
            ),
            ("segments_unclaimed", totals.segments_unclaimed),
            ("others_sent", totals.device.others_sent),
            ("unclaimed", totals.unclaimed),
            ("no_room", totals.device.no_room),
            ("answers_lost", totals.device.answers_lost),
            ("foreign_tag", totals.device.foreign_tag),
        ] {
            said.set_item(name, count)?;
        }
        Ok(said)
    }

    /// Flushes, and gives the place up. What was sent goes out as far as the card takes it at once. Its sockets are closed first. Connections are reset, also those that were closed and have bytes that their peers have not acknowledged: a program that wants these there waits until `tcp_unacknowledged_bytes` of `counts` is 0.
    fn close(&self, py: Python<'_>) {
        py.detach(|| match self.client.enter().take() {
            Some(Kind::Frames(mut client)) => client.flush(),
            Some(Kind::Ip(mut ip)) => drop(self.last.set(ip.close_all())),
            None => {}
        });
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        py.detach(|| self.client.enter().is_none())
    }

    /// The Ethernet address, which frames must name as their sender, as '02:00:00:00:00:01'.
    #[getter]
    fn mac(&self) -> String {
        let pairs: Vec<_> = self
            .welcome
            .mac
            .iter()
            .map(|of| format!("{of:02x}"))
            .collect();
        pairs.join(":")
    }

    /// Its VLAN, None if it has none of its own.
    #[getter]
    fn vlan(&self) -> Option<u16> {
        self.welcome.vlan
    }

    /// MTU of the link in bytes, without the header of a frame.
    #[getter]
    fn mtu(&self) -> u32 {
        self.welcome.mtu_bytes
    }

    /// Most bytes of a frame that can be sent.
    #[getter]
    fn frame_bytes_max(&self) -> usize {
        self.frame_bytes_max
    }

    /// Its IP addresses, for which the multiplexer answers.
    #[getter]
    fn addresses(&self) -> Vec<String> {
        let all = self.welcome.addresses.iter();
        all.map(ToString::to_string).collect()
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        format!("MuxClient({})", self.mac())
    }
}

/// Waits for a word in slices, between which signals are seen, and for `timeout` altogether: then it is 'due'.
fn in_slices(
    py: Python<'_>,
    timeout: Option<&Bound<'_, PyAny>>,
    mut wait: impl FnMut(Instant) -> PyResult<Option<&'static str>>,
) -> PyResult<&'static str> {
    let limit = arguments::timeout(timeout)?;
    let begun = Instant::now();
    loop {
        let left = limit.map(|limit| limit.saturating_sub(begun.elapsed()));
        let slice = left.map_or(SLICE, |left| left.min(SLICE));
        if let Some(word) = wait(Instant::now() + slice)? {
            return Ok(word);
        }
        py.check_signals()?;
        if left == Some(Duration::ZERO) {
            return Ok("due");
        }
    }
}

const fn word(woken: Woken) -> Option<&'static str> {
    match woken {
        Woken::Frame => Some("frame"),
        Woken::Room => Some("room"),
        Woken::Due | Woken::Early => None,
    }
}
