//! Packets of an interface past the kernel's stack (AF_XDP): a port for each of its queues, and the program that steers to them, which belongs to all threads.
//!
//! There is no time with a frame: the clock of the host is read once for each batch, when its frames are there.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_link::packet::{Event, InterfaceState, KernelCounts, PacketError};
use forebay_run::error::RunError;
use forebay_sys::driver_stats::receive_queues;
use forebay_sys::packet::FrameSocket;
use forebay_sys::{addresses, clock, wait};
use forebay_xdp::{Copying, Mode, Port, PortConfig, Redirect};

use crate::config::{OffloadChoice, ProbeSettings};
use crate::error::ProbeError;
use crate::live::RingCounts;
use crate::port::Seen;

/// Frames that are read at once.
const BATCH: u32 = 64;
/// Memory for a frame, in bytes.
const BUFFER_BYTES: u32 = 4_096;
/// Kinds of interfaces that are read (`linux/if_arp.h`): Ethernet, and loopback, whose frames are the same.
const KINDS: [u16; 2] = [1, 772];

/// Whether what is asked for can be at all.
pub(crate) fn check(settings: &ProbeSettings) -> Result<(), ProbeError> {
    if settings.interface.is_none() {
        return Err(ProbeError::NothingToSteer);
    }
    if settings.vlan_in_key {
        return Err(ProbeError::TagsMayNotCome);
    }
    match settings.offload {
        OffloadChoice::Xdp => Err(ProbeError::TwoPrograms),
        OffloadChoice::Filter => Err(ProbeError::NothingToFilter),
        OffloadChoice::Off | OffloadChoice::Software => Ok(()),
    }
}

/// The ring of one queue.
pub(crate) struct XdpPort {
    port: Port,
    program: Arc<Mutex<Redirect>>,
    /// It takes no frame: it says how the interface is, and keeps it promiscuous.
    beside: Arc<FrameSocket>,
    snap_bytes: usize,
    /// Frames that were not believed, as were told.
    disbelieved: u64,
    /// It counts the frames of queues without a port, from the first of these on.
    without: Option<u32>,
}

impl XdpPort {
    /// Ethernet.
    pub(crate) const LINK_TYPE: i32 = 1;

    /// Opens one for each queue of an interface.
    pub(crate) fn open(interface: &str, settings: &ProbeSettings) -> Result<Vec<Self>, ProbeError> {
        let beside = beside(interface, settings.promiscuous)?;
        let queues = u32::from(settings.queues);
        let has = receive_queues(interface).map_err(PacketError::from)?;
        if let Some(has) = has.filter(|has| *has != queues) {
            return Err(ProbeError::Queues {
                interface: interface.to_owned(),
                has,
                queues,
            });
        }
        let reached = addresses::reached_by(interface).map_err(RunError::System)?;
        if let Some((interface, address)) = reached {
            return Err(ProbeError::Taken { interface, address });
        }
        let program = Redirect::attach(interface)?;
        let config = config(settings.ring_bytes);
        let ports = (0..queues).map(|queue| Port::open(interface, queue, &config));
        let ports = ports.collect::<Result<Vec<_>, _>>()?;
        // All of them together, so that no flow comes in part.
        for port in &ports {
            program.steer(port)?;
        }
        let (program, beside) = (Arc::new(Mutex::new(program)), Arc::new(beside));
        let ports = ports.into_iter().map(|port| Self {
            program: Arc::clone(&program),
            beside: Arc::clone(&beside),
            snap_bytes: settings.snap_bytes as usize,
            disbelieved: 0,
            without: (port.queue() == 0).then_some(queues),
            port,
        });
        Ok(ports.collect())
    }

    fn program(&self) -> MutexGuard<'_, Redirect> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn interface(&self) -> &str {
        self.port.interface()
    }

    /// Where the program is, and what becomes of a frame's bytes.
    pub(crate) fn kind(&self) -> &'static str {
        match (self.program().mode(), self.port.is_zero_copy()) {
            (Mode::Native, true) => "xdp, in the driver, without a copy",
            (Mode::Native, false) => "xdp, in the driver, copied",
            (Mode::Generic, true) => "xdp, behind the driver, without a copy",
            (Mode::Generic, false) => "xdp, behind the driver, copied",
        }
    }

    pub(crate) fn is_ready(&mut self) -> bool {
        self.port.look() > 0
    }

    pub(crate) fn wait(
        &mut self,
        other: BorrowedFd<'_>,
        until_ns: u64,
    ) -> Result<Event, ProbeError> {
        if self.is_ready() {
            return Ok(Event::Block);
        }
        wait::sleep_until_or([self.port.as_fd(), other], until_ns, 0).map_err(PacketError::from)?;
        if self.is_ready() {
            return Ok(Event::Block);
        }
        // Such a socket is not told that its interface went down.
        Ok(match self.beside.interface().state(&*self.beside) {
            InterfaceState::Up => Event::Quiet,
            InterfaceState::Down => Event::Down,
            InterfaceState::Gone => Event::Gone,
        })
    }

    pub(crate) fn read(&mut self, mut visit: impl FnMut(Seen<'_>)) -> Option<u64> {
        if !self.is_ready() {
            return None;
        }
        let (time_ns, snap_bytes) = (clock::realtime_ns(), self.snap_bytes);
        self.port.receive(BATCH, |frame| {
            let bytes = &frame[..frame.len().min(snap_bytes)];
            visit((time_ns, frame.len() as u32, bytes));
        });
        let before = self.disbelieved;
        self.disbelieved = self.port.counts().disbelieved;
        Some(self.disbelieved - before)
    }

    /// What came is what the program steered, by its own count; what was lost is what the kernel's socket tells.
    pub(crate) fn count(&self, ring: &mut RingCounts) -> Result<(), ProbeError> {
        ring.held = self.port.held();
        let lost = self.port.statistics()?;
        let program = self.program();
        ring.kernel = KernelCounts {
            packets: program.steered(self.port.queue())?.redirected.frames,
            drops: lost.ring_full,
            freezes: lost.fill_empty,
        };
        ring.no_buffer = lost.dropped;
        if let Some(from) = self.without {
            ring.passed = program.passed_from(from)?.frames;
        }
        Ok(())
    }

    /// The program goes: what the queues had until then is in their rings.
    pub(crate) fn close(&self) {
        self.program().detach();
        wait::for_programs();
    }

    /// Whether the program is where it was put.
    pub(crate) fn is_steered(&self) -> bool {
        self.program().is_attached().unwrap_or(false)
    }
}

fn beside(interface: &str, promiscuous: bool) -> Result<FrameSocket, ProbeError> {
    let socket = FrameSocket::open(interface).map_err(PacketError::from)?;
    let kind = socket.hardware_type();
    if !KINDS.contains(&kind) {
        return Err(ProbeError::NotEthernet {
            interface: interface.to_owned(),
            kind,
        });
    }
    if promiscuous {
        socket.be_promiscuous().map_err(PacketError::from)?;
    }
    Ok(socket)
}

/// So much memory in buffers, the next power of two below.
fn config(ring_bytes: u64) -> PortConfig {
    let buffers = u32::try_from(ring_bytes / u64::from(BUFFER_BYTES)).unwrap_or(u32::MAX);
    let buffers = 1 << buffers.max(2).ilog2();
    PortConfig {
        receive_buffers: buffers,
        receive_ring: buffers,
        send_buffers: 0,
        buffer_bytes: BUFFER_BYTES,
        copying: Copying::IfNeeded,
        pieces: true,
    }
}

#[cfg(test)]
mod tests {
    use forebay_testing::wire;

    use super::*;

    #[test]
    fn a_ring_has_as_many_buffers_as_its_memory_holds() {
        for (bytes, buffers) in [
            (524_288, 128),
            (33_554_432, 8_192),
            (33_554_431, 4_096),
            (4_294_967_296, 1 << 20),
        ] {
            let config = config(bytes);
            assert_eq!(
                (config.receive_buffers, config.receive_ring),
                (buffers, buffers)
            );
        }
    }

    #[test]
    fn what_cannot_be_is_told_with_a_remedy() {
        let told = |settings: ProbeSettings| check(&settings).err().map(|error| error.to_string());
        let right = || ProbeSettings {
            interface: Some("eth1".into()),
            ..ProbeSettings::default()
        };
        assert_eq!(told(right()), None);
        let wrong = [
            (ProbeSettings::default(), "--interface"),
            (
                ProbeSettings {
                    vlan_in_key: true,
                    ..right()
                },
                "--vlan-in-key",
            ),
            (
                ProbeSettings {
                    offload: OffloadChoice::Xdp,
                    ..right()
                },
                "--offload software",
            ),
        ];
        for (settings, remedy) in wrong {
            let told = told(settings).unwrap();
            let (_, tail) = told.split_once("; ").unwrap();
            assert!(tail.contains(remedy), "{told}");
        }
    }

    #[test]
    fn an_interface_is_this_hosts_by_an_address_that_others_reach() {
        if !wire::is_inside(
            "xdp::tests::an_interface_is_this_hosts_by_an_address_that_others_reach",
        ) {
            return;
        }
        let of = |interface| addresses::reached_by(interface).unwrap();
        let at_near = |name: &str, address: [u8; 4]| Some((name.to_owned(), address.into()));
        wire::sh("ip link set lo up; ip link add near type veth peer name far");
        assert_eq!(
            (of("near"), of("lo")),
            (None, at_near("lo", [127, 0, 0, 1]))
        );
        // Of IPv6, one of the link alone is for nobody's packets but its own.
        wire::sh(
            "f=/proc/sys/net/ipv6/conf/near/disable_ipv6; [ ! -e $f ] || echo 0 > $f; ip address add fe80::9/64 dev near",
        );
        assert_eq!(of("near"), None);
        wire::sh("ip address add fd00::9/64 dev near");
        let address = "fd00::9".parse().unwrap();
        assert_eq!(of("near"), Some(("near".to_owned(), address)));
        wire::sh("ip address flush dev near; ip address add 10.0.0.1/24 dev near label near:1");
        assert_eq!(
            (of("near"), of("far")),
            (at_near("near:1", [10, 0, 0, 1]), None)
        );
    }
}
