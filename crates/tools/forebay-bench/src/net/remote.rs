//! Another host, reached with `ssh`: one connection for all runs, and nothing that goes on there when it ends.

use std::fmt::{self, Display};
use std::fs::File;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use forebay_report::conditions::Told;

/// How long `ssh` keeps a connection that nobody closes: that of a sweep that was killed.
const PERSIST: &str = "ControlPersist=60";
/// Runs a program, and ends it when standard input ends: `ssh` closes that when its own side ends, however it does.
const TIED: &str = "exec 3<&0; \"$@\" & p=$!; { cat <&3; kill $p; } >/dev/null 2>&1 & w=$!; wait $p; s=$?; kill $w 2>/dev/null; exit $s";
/// What a shell says of a program that is not there.
pub(super) const NOT_FOUND: i32 = 127;

/// `ssh://[USER@]HOST[:PORT]`; a host as `ssh` knows it, so that names of its own configuration do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target(String);

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rest = text
            .strip_prefix("ssh://")
            .ok_or("it is no address of ssh; write it as ssh://[USER@]HOST[:PORT]")?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let host = rest.rsplit_once('@').map_or(rest, |parts| parts.1);
        let fits = |letter: char| !letter.is_whitespace() && !letter.is_control() && letter != '/';
        if host.is_empty() || rest.starts_with('-') || !rest.chars().all(fits) {
            return Err("there is no host in it; write it as ssh://[USER@]HOST[:PORT]".into());
        }
        Ok(Self(format!("ssh://{rest}")))
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How another host is reached, and what runs there.
#[derive(Debug, Clone)]
pub struct PeerHost {
    /// The host.
    pub target: Target,
    /// `forebay` there.
    pub program: String,
    /// The address there that the data goes to; that of the host as `ssh` knows it when there is none.
    pub address: Option<IpAddr>,
    /// `ssh` and options of it.
    pub ssh: Vec<String>,
}

/// The host while it is connected.
#[derive(Debug)]
pub(super) struct Remote {
    peer: PeerHost,
    directory: TempDir,
    address: IpAddr,
    told: Told,
}

impl Remote {
    /// Connects and asks the program there what it is.
    pub(super) fn connect(peer: PeerHost) -> Result<Self> {
        let directory = tempfile::tempdir().context("a directory for ssh's connection")?;
        let mut remote = Self {
            address: IpAddr::from([0; 4]),
            told: Told::default(),
            peer,
            directory,
        };
        remote.open()?;
        remote.address = match remote.peer.address {
            Some(address) => address,
            None => remote.resolved()?,
        };
        remote.told = remote.ask()?;
        let ours = env!("CARGO_PKG_VERSION");
        ensure!(
            remote.told.version == ours,
            "{} has Forebay {}, and this is {ours}: install the same version on both hosts, or name it with --peer-program",
            remote.peer.target,
            remote.told.version
        );
        Ok(remote)
    }

    /// Where the data goes.
    pub(super) fn address(&self) -> IpAddr {
        self.address
    }

    /// `forebay` there.
    pub(super) fn program(&self) -> &str {
        &self.peer.program
    }

    /// What the host there is.
    pub(super) fn told(&self) -> &Told {
        &self.told
    }

    /// The same program there; it ends when the standard input of what is returned does.
    pub(super) fn command(&self, program: &Command) -> Command {
        let words = std::iter::once(program.get_program()).chain(program.get_args());
        let words: Vec<String> = words.map(|word| quoted(&word.to_string_lossy())).collect();
        let line = format!("exec sh -c {} sh {}", quoted(TIED), words.join(" "));
        let mut command = self.ssh();
        command.args([&self.peer.target.0, &line]);
        command
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("ssh")
    }

    /// `ssh` to the host, over the connection that is there.
    fn ssh(&self) -> Command {
        let mut command = Command::new(&self.peer.ssh[0]);
        command
            .args(&self.peer.ssh[1..])
            .args(["-T", "-o", "LogLevel=ERROR", "-S"])
            .arg(self.socket());
        command
    }

    /// Makes the connection. What `ssh` asks it asks on the terminal.
    fn open(&self) -> Result<()> {
        let complaints = self.directory.path().join("complaints");
        let status = self
            .ssh()
            .args([
                "-o",
                "ControlMaster=yes",
                "-o",
                PERSIST,
                "-o",
                "ConnectTimeout=20",
            ])
            .args([&self.peer.target.0, "true"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // No pipe: the connection outlives this command and would keep it open.
            .stderr(File::create(&complaints).context("a file for what ssh says")?)
            .status()
            .with_context(|| {
                format!(
                    "{} cannot be run; it comes with the Debian package openssh-client",
                    self.peer.ssh[0]
                )
            })?;
        if status.success() {
            return Ok(());
        }
        let said = std::fs::read_to_string(&complaints).unwrap_or_default();
        let said = said.lines().map(str::trim).rfind(|line| !line.is_empty());
        bail!(
            "{} cannot be reached ({}); try `{} {}` by hand",
            self.peer.target,
            said.unwrap_or("ssh said nothing"),
            self.peer.ssh.join(" "),
            self.peer.target
        )
    }

    /// The host's address, from the name behind which `ssh` finds it.
    fn resolved(&self) -> Result<IpAddr> {
        let said = self.ssh().args(["-G", &self.peer.target.0]).output()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let name = said
            .lines()
            .find_map(|line| line.strip_prefix("hostname "))
            .context("ssh -G names no host")?;
        let found = (name, 0_u16).to_socket_addrs();
        let found = found.ok().and_then(|mut found| found.next());
        let found = found.with_context(|| {
            format!("no address is known for {name}: name the one that the data is to go to with --peer-address")
        })?;
        Ok(found.ip())
    }

    /// What `forebay` there says of itself and its host.
    fn ask(&self) -> Result<Told> {
        let program = quoted(&self.peer.program);
        let said: Output = self
            .ssh()
            .args([
                &self.peer.target.0,
                &format!("{program} sweep conditions --format json"),
            ])
            .stdin(Stdio::null())
            .output()?;
        let complaint = String::from_utf8_lossy(&said.stderr).trim().to_owned();
        let what = format!("{} on {}", self.peer.program, self.peer.target);
        match said.status.code() {
            Some(0) => serde_json::from_slice(&said.stdout)
                .with_context(|| format!("{what} gave no conditions: is it of another version?")),
            Some(NOT_FOUND) => bail!(
                "{what} is not there ({complaint}): install it, or say where it is with --peer-program"
            ),
            _ => bail!(
                "{what} gave no conditions ({complaint}): is it of another version? Install the same one on both hosts"
            ),
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // Without an answer the connection ends by itself after a minute.
        let _ = self
            .ssh()
            .args(["-O", "exit", &self.peer.target.0])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

/// A word for the shell there, whatever is in it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_a_host_and_is_no_option() {
        for good in [
            "ssh://daq1",
            "ssh://daq@daq1.example:2222",
            "ssh://[fe80::1]:22/",
        ] {
            let target: Target = good.parse().unwrap();
            assert_eq!(target.to_string(), good.trim_end_matches('/'));
        }
        for bad in [
            "daq1",
            "ssh://",
            "ssh://user@",
            "ssh://-oProxyCommand=x",
            "ssh://a b",
            "ssh://a/b",
        ] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_shell_gives_back_the_words_that_were_quoted() {
        let words = ["plain", "two words", "it's", "$HOME `id` *", "\\", ""];
        let line: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let said = Command::new("sh")
            .args(["-c", &format!("printf '%s|' {}", line.join(" "))])
            .output()
            .unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        assert_eq!(said, words.map(|word| format!("{word}|")).concat());
    }

    #[test]
    fn a_tied_program_ends_with_its_input_and_its_status_is_kept() {
        let tied = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", TIED, "sh", "sh", "-c", script]);
            command
        };
        let mut ends = tied("exit 7").stdin(Stdio::piped()).spawn().unwrap();
        let input = ends.stdin.take();
        assert_eq!(ends.wait().unwrap().code(), Some(7));
        drop(input);
        // Its input is over at once.
        let status = tied("exec sleep 60").stdin(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(128 + 15));
    }
}
