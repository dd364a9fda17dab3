//! A network namespace without a name, so that nothing of it outlives this process.
//!
//! It is held by a process that the kernel kills when its parent dies; with its last process a namespace goes, and with it its devices.
//! `ip netns` keeps names as mounts instead: they stay after a kill, and making them fails where the root directory is no mount point
//! (a plain `chroot`).

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Programs that are needed, with the Debian package of each.
const NEEDED: [(&str, &str); 4] = [
    ("unshare", "util-linux"),
    ("setpriv", "util-linux"),
    ("nsenter", "util-linux"),
    ("ip", "iproute2"),
];

/// How long a namespace may take to appear.
const MAKE_LIMIT: Duration = Duration::from_secs(10);

/// Runs the program that is given as arguments unless the parent, named first, is dead by then.
const UNLESS_ORPHAN: &str = "[ \"$PPID\" = \"$1\" ] || exit 1; shift; exec \"$@\"";

/// What the arguments to come name, killed by the kernel when this process dies. One that dies before the kernel knows of that wish
/// leaves an orphan, which finds another parent and does not begin.
fn mortal() -> Command {
    mortal_child_of(std::process::id())
}

fn mortal_child_of(parent: u32) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "sh", "-c", UNLESS_ORPHAN, "sh"])
        .arg(parent.to_string());
    command
}

/// Names the first program that is not there, of those that are always needed and of these further ones with their Debian packages.
pub(crate) fn check_programs(further: &[(&str, &str)]) -> Result<()> {
    for (name, package) in NEEDED.iter().chain(further) {
        let mut command = Command::new(name);
        let quiet = command.arg("-V").stdin(Stdio::null());
        let tried = quiet.stdout(Stdio::null()).stderr(Stdio::null()).status();
        if let Err(error) = tried {
            bail!("`{name}` cannot be run ({error}): install Debian's package {package}");
        }
    }
    Ok(())
}

/// What the kernel has counted at an interface, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) received: u64,
    pub(crate) receive_dropped: u64,
    pub(crate) sent: u64,
    pub(crate) send_dropped: u64,
}

impl Interface {
    /// Reads the kernel's table of interfaces (`proc_net_dev(5)`).
    fn parse(table: &str, name: &str) -> Option<Self> {
        let line = table.lines().find_map(|line| {
            let (found, rest) = line.split_once(':')?;
            (found.trim() == name).then_some(rest)
        })?;
        let numbers = line.split_whitespace().map(|word| word.parse().ok());
        let numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
        // Eight numbers of what came in: bytes, packets, errors, dropped, …; then the same of what went out.
        Some(Self {
            received: *numbers.get(1)?,
            receive_dropped: *numbers.get(3)?,
            sent: *numbers.get(9)?,
            send_dropped: *numbers.get(11)?,
        })
    }
}

/// One network namespace, without a name.
pub(crate) struct Namespace(Child);

impl Namespace {
    /// Makes one.
    ///
    /// # Errors
    /// Without the privilege, which the error names.
    pub(crate) fn make() -> Result<Self> {
        let holder = mortal()
            .args(["unshare", "--net", "--", "sleep", "infinity"])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            // A terminal's Ctrl-C is for the process that ends it: it has still to read what was counted here.
            .process_group(0)
            .spawn()
            .context("running `setpriv` (Debian package util-linux)")?;
        let mut host = Self(holder);
        let begun = Instant::now();
        let ours =
            std::fs::read_link("/proc/self/ns/net").context("reading this process's namespace")?;
        loop {
            if let Some(status) = host.0.try_wait()? {
                bail!(
                    "a network namespace cannot be made ({status}): that needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN): run this command as root, as with sudo"
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

    /// The process that holds it.
    pub(crate) fn holder(&self) -> u32 {
        self.0.id()
    }

    fn path(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.0.id()).into()
    }

    /// A program in it, which goes when this process goes.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = mortal();
        command
            .arg("nsenter")
            .arg(format!("--net={}", self.path().display()))
            .arg(program);
        command
    }

    /// The same, of a user without rights.
    pub(crate) fn command_of(&self, user: u32, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.command("setpriv");
        let user = user.to_string();
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
        // The kernel forgets that wish of a process that changes its user.
        command.args(["--pdeathsig", "KILL"]).arg(program);
        command
    }

    /// Runs a command line in it, to its end.
    pub(crate) fn run(&self, line: &str) -> Result<String> {
        let mut words = line.split_ascii_whitespace();
        let program = words.next().unwrap_or_default();
        self.output(self.command(program).args(words), line)
    }

    /// What the kernel has counted at these interfaces of it until now.
    pub(crate) fn interfaces<const N: usize>(&self, names: [&str; N]) -> Result<[Interface; N]> {
        let path = format!("/proc/{}/net/dev", self.holder());
        let table = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        let mut found = [Interface::default(); N];
        for (place, name) in found.iter_mut().zip(names) {
            let parsed = Interface::parse(&table, name);
            *place = parsed.with_context(|| format!("{path} does not tell of {name}: {table}"))?;
        }
        Ok(found)
    }

    /// Packets that the queue of an interface of it has dropped so far, by the kernel.
    pub(crate) fn queue_drops(&self, interface: &str) -> Result<u64> {
        let told = self.run(&format!("tc -s -j qdisc show dev {interface}"))?;
        let told: serde_json::Value =
            serde_json::from_str(&told).context("reading what tc says")?;
        let drops = told[0]["drops"].as_u64();
        drops.with_context(|| format!("tc tells no drops of {interface}"))
    }

    /// Turns IPv6 off, where the kernel has it: its address resolution would be traffic that nobody asked for. The settings below
    /// `/proc/sys/net` are those of the namespace that the writing process is in.
    pub(crate) fn without_ipv6(&self) -> Result<()> {
        const OFF: &str = "for file in /proc/sys/net/ipv6/conf/all/disable_ipv6 /proc/sys/net/ipv6/conf/default/disable_ipv6; do [ ! -e $file ] || echo 1 > $file || exit; done";
        let mut shell = self.command("sh");
        self.output(shell.args(["-c", OFF]), OFF).map(drop)
    }

    /// Keeps its kernel from telling senders of datagrams that no socket wanted them: that would be traffic that nobody asked for. One such message may go to a host in so
    /// many ms (`icmp(7)`).
    pub(crate) fn without_unreachables(&self) -> Result<()> {
        const OFF: &str = "echo 1000000000 > /proc/sys/net/ipv4/icmp_ratelimit";
        let mut shell = self.command("sh");
        self.output(shell.args(["-c", OFF]), OFF).map(drop)
    }

    fn output(&self, command: &mut Command, line: &str) -> Result<String> {
        let out = command
            .output()
            .with_context(|| format!("running `{line}`"))?;
        if !out.status.success() {
            bail!("{line}: {}", String::from_utf8_lossy(&out.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_read_from_the_table() {
        let table = "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n\
                    \x20   lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0\n\
                    \x20  far: 1000 95 0 3 0 0 0 0 0 0 0 0 0 0 0 0\n near: 0 0 0 0 0 0 0 0 1000 98 0 2 0 0 0 0\n";
        let far = Interface {
            received: 95,
            receive_dropped: 3,
            ..Interface::default()
        };
        let near = Interface {
            sent: 98,
            send_dropped: 2,
            ..Interface::default()
        };
        assert_eq!(Interface::parse(table, "far"), Some(far));
        assert_eq!(Interface::parse(table, "near"), Some(near));
        for wrong in ["near: 1 2 3\n", "near: 1 2 x\n", ""] {
            assert_eq!(Interface::parse(wrong, "near"), None, "{wrong}");
        }
    }

    #[test]
    fn an_orphan_does_not_begin() {
        let said = |parent: u32| {
            let out = mortal_child_of(parent).args(["echo", "a b"]).output();
            String::from_utf8(out.unwrap().stdout).unwrap()
        };
        assert_eq!(said(std::process::id()), "a b\n");
        assert_eq!(said(std::process::id() + 1), "");
    }
}
