//! Hosts and the switch between them: network namespaces without names, so that nothing of them outlives this process.
//!
//! Each namespace is held by a process that the kernel kills when its parent dies; with the last process a namespace goes, and with it its devices.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::Options;

/// How long a namespace may take to appear.
const MAKE_LIMIT: Duration = Duration::from_secs(10);
/// The receiver's address; senders follow in the next /24.
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 213, 0, 1);
/// The switch's port to the receiver.
const PORT: &str = "port";

/// One namespace.
struct Host(Child);

impl Host {
    fn make() -> Result<Self> {
        let holder = Command::new("setpriv")
            .args([
                "--pdeathsig",
                "KILL",
                "unshare",
                "--net",
                "--",
                "sleep",
                "infinity",
            ])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("running `setpriv` (Debian package util-linux)")?;
        let mut host = Self(holder);
        let begun = Instant::now();
        let ours =
            std::fs::read_link("/proc/self/ns/net").context("reading this process's namespace")?;
        loop {
            if let Some(status) = host.0.try_wait()? {
                bail!(
                    "a network namespace cannot be made ({status}): that needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN)"
                );
            }
            // It is there when the holder has another one than we, and is what it shall be.
            let theirs = std::fs::read_link(host.path());
            let name = std::fs::read_to_string(format!("/proc/{}/comm", host.0.id()));
            if theirs.is_ok_and(|theirs| theirs != ours)
                && name.is_ok_and(|name| name.trim() == "sleep")
            {
                return Ok(host);
            }
            if begun.elapsed() > MAKE_LIMIT {
                bail!("a network namespace did not come within {MAKE_LIMIT:?}");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn path(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.0.id()).into()
    }

    /// A program in it, which goes when this process goes.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "nsenter"])
            .arg(format!("--net={}", self.path().display()))
            .arg(program);
        command
    }

    fn run(&self, line: &str) -> Result<String> {
        let mut words = line.split_ascii_whitespace();
        let program = words.next().unwrap_or_default();
        let out = self
            .command(program)
            .args(words)
            .output()
            .with_context(|| format!("running `{line}`"))?;
        if !out.status.success() {
            bail!("{line}: {}", String::from_utf8_lossy(&out.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// All hosts and the switch.
pub(super) struct Ground {
    switch: Host,
    receiver: Host,
    senders: Vec<Host>,
}

impl Ground {
    pub(super) fn make(options: &Options) -> Result<Self> {
        let ground = Self {
            switch: Host::make()?,
            receiver: Host::make()?,
            senders: (0..options.senders)
                .map(|_| Host::make())
                .collect::<Result<_>>()?,
        };
        ground
            .connect(options)
            .context("joining network namespaces by a bridge")?;
        Ok(ground)
    }

    fn connect(&self, options: &Options) -> Result<()> {
        let switch = &self.switch;
        switch.run("ip link add name bridge type bridge forward_delay 0 mcast_snooping 0")?;
        switch.run("ip link set bridge up")?;
        let hosts =
            std::iter::once((&self.receiver, RECEIVER)).chain(self.senders.iter().zip(senders()));
        for (number, (host, address)) in hosts.enumerate() {
            let port = if number == 0 {
                PORT.to_owned()
            } else {
                format!("from{number}")
            };
            // Address resolution of IPv6 would be traffic that nobody asked for.
            host.run("sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1")?;
            switch.run(&format!(
                "ip link add {port} type veth peer name wire netns {}",
                host.0.id()
            ))?;
            switch.run(&format!("ip link set {port} master bridge"))?;
            switch.run(&format!("ip link set {port} up"))?;
            host.run(&format!("ip address add {address}/16 dev wire"))?;
            host.run("ip link set wire up")?;
            host.run("ip link set lo up")?;
        }
        if let Some(queue) = &options.sender_queue {
            for host in &self.senders {
                host.run(&format!("tc qdisc replace dev wire root {queue}"))
                    .with_context(|| {
                        format!("the queue {queue} of a sender, which this kernel may not have")
                    })?;
            }
        }
        switch.run(&format!(
            "tc qdisc add dev {PORT} root tbf rate {}bit burst {} limit {}",
            options.port_rate_bps, options.port_burst_bytes, options.port_buffer_bytes
        ))?;
        Ok(())
    }

    /// A program at the receiver.
    pub(super) fn at_receiver(&self, program: &std::path::Path) -> Command {
        self.receiver.command(program)
    }

    /// A program at each sender.
    pub(super) fn at_senders(&self, program: &std::path::Path) -> Vec<Command> {
        self.senders
            .iter()
            .map(|host| host.command(program))
            .collect()
    }

    /// The receiver's address.
    pub(super) const fn address(&self) -> Ipv4Addr {
        RECEIVER
    }

    /// Packets that the port's queue has dropped so far, by the kernel.
    pub(super) fn port_drops(&self) -> Result<u64> {
        let told = self
            .switch
            .run(&format!("tc -s -j qdisc show dev {PORT}"))?;
        let told: serde_json::Value =
            serde_json::from_str(&told).context("reading what tc says")?;
        let drops = told[0]["drops"].as_u64();
        drops.context("tc tells no drops of the port")
    }
}

/// Addresses of senders, one after the other.
fn senders() -> impl Iterator<Item = Ipv4Addr> {
    (0..u32::from(u16::MAX))
        .map(|number| Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 213, 1, 1)) + number))
}
