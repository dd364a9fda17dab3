//! The reference: a bare `recvmmsg` loop over as many sockets, from the same emulated sources.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use forebay_run_evb::presets;
use forebay_run_hades::GeneratorReport;
use forebay_sys::clock::thread_cpu_ns;
use forebay_sys::epoll::{Interest, Poller, Trigger};
use forebay_sys::socket::{UdpOptions, bind_udp, mem_info};
use forebay_sys::udp_batch::BareRecv;

use super::Session;
use super::search::Sample;
use crate::chain::Setup;

const BATCH: usize = 64;
const BASE_PORTS: std::ops::Range<u16> = 50..64;

/// Receives what the sources of `setup` send, looks at nothing, counts datagrams.
pub(super) fn receive(setup: &Setup, session: &Session) -> Result<Sample> {
    session.go_on()?;
    let (sockets, base_port) = bind(setup.sources())?;
    let mut sources = Sources::start(setup, session, base_port)?;
    let mut bare = BareRecv::new(BATCH, 1 << 16);
    let mut poller = Poller::create(256)?;
    for (index, socket) in sockets.iter().enumerate() {
        poller.add(socket, index as u64, Interest::Readable, Trigger::Level)?;
    }
    let started = Instant::now();
    let (warm, end) = (
        started + Duration::from_secs_f64(setup.warm_s),
        started + Duration::from_secs_f64(setup.warm_s + setup.measure_s),
    );
    let (mut received, mut first, mut last) = (0_u64, None, None);
    let mut ready = Vec::new();
    loop {
        ready.clear();
        ready.extend(
            poller
                .wait(Some(Duration::from_millis(10)), Duration::ZERO)?
                .map(|event| event.token as usize),
        );
        for index in &ready {
            received += bare.receive(sockets[*index].as_fd()).context("receiving")? as u64;
        }
        let now = Instant::now();
        if now >= warm && first.is_none() {
            first = Some((now, received, thread_cpu_ns()));
        }
        if now >= end && last.is_none() {
            last = Some((now, received, thread_cpu_ns()));
        }
        if ready.is_empty() && sources.have_ended()? {
            break;
        }
    }
    let report = sources.report()?;
    let dropped: u64 = sockets
        .iter()
        .map(|socket| mem_info(socket).map(|info| u64::from(info.drops)))
        .sum::<Result<_, _>>()?;
    let (Some(first), Some(last)) = (first, last) else {
        bail!("the sources ended too early")
    };
    let seconds = (last.0 - first.0).as_secs_f64();
    let datagrams_hz = (last.1 - first.1) as f64 / seconds;
    let events_hz = datagrams_hz * report.events_sent as f64 / report.datagrams_sent as f64;
    Ok(Sample {
        lossless: dropped == 0 && received == report.datagrams_sent,
        full_rate: events_hz > 0.97 * setup.rate_hz,
        events_hz,
        datagrams_hz,
        bytes_per_s: datagrams_hz * report.bytes_sent as f64 / report.datagrams_sent as f64,
        cpu_us_per_event: (last.2 - first.2) as f64 / 1e3 / seconds / events_hz,
        cpu_us_per_datagram: (last.2 - first.2) as f64 / 1e3 / seconds / datagrams_hz,
    })
}

/// The same sockets as the chain has.
fn bind(count: usize) -> Result<(Vec<OwnedFd>, u16)> {
    forebay_sys::process::raise_open_files()?;
    let receive_buffer_bytes = Some(presets::socket_buffer_bytes(count));
    let options = UdpOptions {
        receive_buffer_bytes,
        ..UdpOptions::default()
    };
    for thousand in BASE_PORTS {
        let base = thousand * 1000;
        let port = |index: usize| SocketAddr::from((Ipv4Addr::LOCALHOST, base + index as u16));
        let bound: Result<Vec<_>, _> = (0..count)
            .map(|index| bind_udp(port(index), &options).map(|bound| bound.fd))
            .collect();
        match bound {
            Ok(sockets) => return Ok((sockets, base)),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error.into()),
        }
    }
    bail!("no free range of {count} UDP ports")
}

/// The emulator in a process of its own, as in the chain; killed when dropped.
struct Sources(Child);

impl Sources {
    fn start(setup: &Setup, session: &Session, base_port: u16) -> Result<Self> {
        let mut command = Command::new(&session.program);
        command.args([
            "emulate",
            "hades",
            "--format",
            "json",
            "--base-port",
            &base_port.to_string(),
        ]);
        command.args([
            "--rate",
            &setup.rate_hz.to_string(),
            "--seed",
            &setup.seed.to_string(),
        ]);
        command.args([
            "--water-mark",
            &setup.water_mark_bytes.unwrap_or(0).to_string(),
        ]);
        command
            .args([
                "--duration",
                &format!("{:.0}ms", (setup.warm_s + setup.measure_s) * 1e3 + 300.0),
            ])
            .arg("--group");
        command.args(
            setup
                .groups
                .iter()
                .map(|(count, bytes, sigma)| format!("{count}:{bytes}:{sigma}")),
        );
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        Ok(Self(child.with_context(|| {
            format!("starting {}", session.program.display())
        })?))
    }

    fn have_ended(&mut self) -> Result<bool> {
        Ok(self.0.try_wait()?.is_some())
    }

    fn report(&mut self) -> Result<GeneratorReport> {
        let out = self
            .0
            .stdout
            .take()
            .context("the sources were asked before")?;
        serde_json::from_reader(out).context("reading the report of the sources")
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        // It has ended, or it is ended now.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
