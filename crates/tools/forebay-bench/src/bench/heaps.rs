//! spead2, which sends heaps over UDP: one sender to one receiver over loopback, driven by a script of ours in an environment of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::running::Running;
use crate::tdm::loopback::DATAGRAM_BYTES;

const SCRIPT: &str = include_str!("../../reference/heaps.py");

/// spead2, installed.
pub(super) struct Spead2 {
    python: PathBuf,
    script: PathBuf,
    /// Its version.
    pub(super) version: String,
}

/// What the script says at its end.
#[derive(Deserialize)]
struct Came {
    packets: f64,
    seconds: f64,
}

impl Spead2 {
    /// Finds it below `work`, or installs it there from the Python Package Index.
    pub(super) fn find(work: &Path) -> Result<Self> {
        let place = work.join("spead2");
        let python = place.join("bin/python");
        let version = || {
            let print = "import numpy, spead2; print(spead2.__version__)";
            output(Command::new(&python).args(["-c", print]))
        };
        let version = match version() {
            Ok(version) => version,
            Err(_) => {
                output(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
                output(Command::new(&python).args(["-m", "pip", "install", "-q", "spead2"]))?;
                version()?
            }
        };
        let script = place.join("heaps.py");
        std::fs::write(&script, SCRIPT).with_context(|| format!("writing {}", script.display()))?;
        Ok(Self {
            python,
            script,
            version,
        })
    }

    /// Bits/s of datagrams that came; `cpus`: those of the receiver's and the sender's thread.
    pub(super) fn one_sender(&self, seconds: f64, cpus: Option<[usize; 2]>) -> Result<f64> {
        let start = |words: &[String], cpu: Option<usize>| -> Result<Running> {
            let mut command = Command::new(&self.python);
            command.arg(&self.script).args(words);
            command.args(cpu.map(|cpu| cpu.to_string()));
            Running::start(&mut command, Stdio::null()).context("starting spead2")
        };
        let [there, here] = cpus.map_or([None; 2], |cpus| cpus.map(Some));
        let mut receiver = start(&["receive".into(), seconds.to_string()], there)?;
        let stdout = receiver.stdout.take().context("its output")?;
        let mut lines = BufReader::new(stdout).lines();
        let port = lines.next().context("spead2 said no port")??;
        let long = (4.0 * seconds + 5.0).to_string();
        let sender = start(&["send".into(), port, long], here)?;
        let told = lines.next().context("spead2 received nothing")??;
        drop(sender);
        let came: Came = serde_json::from_str(&told).context("reading what spead2 said")?;
        Ok(came.packets * DATAGRAM_BYTES as f64 * 8.0 / came.seconds.max(f64::MIN_POSITIVE))
    }
}

/// What a command prints; an error holds the end of its complaint.
fn output(command: &mut Command) -> Result<String> {
    let out = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("running {}", command.get_program().display()))?;
    if !out.status.success() {
        let told = String::from_utf8_lossy(&out.stderr);
        let last = told.trim_end().lines().last().unwrap_or("no reason given");
        bail!("{}: {last}", command.get_program().display());
    }
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}
