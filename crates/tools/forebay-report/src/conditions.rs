//! The conditions of a measurement, without which its numbers say nothing.

use std::net::{Ipv4Addr, SocketAddr};

use forebay_sys::host::Host;
use forebay_sys::socket::{UdpOptions, bind_udp};

use crate::rows::Row;

/// Load average of the last minute from which on results are doubtful, for each CPU.
const BUSY: f64 = 0.5;
/// Change of the CPUs' clock from which on results are doubtful, of the clock before.
const CLOCK_DRIFT: f64 = 0.05;

/// What machine, what program, what time.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Conditions {
    /// The host's name.
    pub host: String,
    /// Release of its kernel.
    pub kernel: String,
    /// Its processor.
    pub cpu: String,
    /// CPUs that may be used.
    pub cpus: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Load average over a minute, before the measurement.
    pub load_before: f64,
    /// Mean clock of the CPUs in MHz, before the measurement; 0 where the kernel does not tell.
    pub clock_mhz: f64,
    /// What was built.
    pub commit: &'static str,
    /// Whether the compiler optimised.
    pub profile: &'static str,
    /// When, as local time with its offset.
    pub date: String,
}

/// The same, as one host tells it to another.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Told {
    /// The program's version.
    pub version: String,
    /// What was built.
    pub commit: String,
    /// The host's name.
    pub host: String,
    /// Release of its kernel.
    pub kernel: String,
    /// Its processor.
    pub cpu: String,
    /// CPUs that may be used.
    pub cpus: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Load average over a minute.
    pub load: f64,
    /// When, as local time with its offset.
    pub date: String,
    /// What makes any number of this host and this build doubtful.
    pub warnings: Vec<String>,
}

/// Mean of what the kernel tells of the CPUs' clocks, in MHz.
fn clock_mhz() -> f64 {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let clocks: Vec<f64> = text
        .lines()
        .filter(|line| line.starts_with("cpu MHz"))
        .filter_map(|line| line.split(':').nth(1)?.trim().parse().ok())
        .collect();
    clocks.iter().sum::<f64>() / clocks.len().max(1) as f64
}

/// The governor of the first CPU's clock, where it may slow the CPU down.
fn slow_governor() -> Option<String> {
    let path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    let governor = std::fs::read_to_string(path).ok()?.trim().to_owned();
    (governor != "performance").then_some(governor)
}

/// What the kernel withholds of a receive buffer as the chain asks for.
fn buffer_shortfall() -> Option<String> {
    let options = UdpOptions {
        receive_buffer_bytes: Some(forebay_run_evb::presets::socket_buffer_bytes(1)),
        ..UdpOptions::default()
    };
    let bound = bind_udp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &options).ok()?;
    bound.shortfall.map(|shortfall| shortfall.to_string())
}

impl Conditions {
    /// As they are now.
    #[must_use]
    pub fn now() -> Self {
        let host = Host::read();
        Self {
            host: host.name,
            kernel: host.kernel,
            cpu: host.cpu_model,
            cpus: host.cpus,
            memory_bytes: host.memory_bytes,
            load_before: host.load_average[0],
            clock_mhz: clock_mhz(),
            commit: env!("FOREBAY_COMMIT"),
            profile: if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
            },
            date: jiff::Zoned::now()
                .strftime("%Y-%m-%dT%H:%M:%S%:z")
                .to_string(),
        }
    }

    /// The load average over the last minute, now.
    #[must_use]
    pub fn load() -> f64 {
        Host::read().load_average[0]
    }

    /// What makes any number of this host and this build doubtful.
    #[must_use]
    pub fn doubts(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.load_before > BUSY * self.cpus as f64 {
            warnings.push(format!("load {:.2} on {} CPUs before the measurement: other programs take part of the machine", self.load_before, self.cpus));
        }
        if let Some(governor) = slow_governor() {
            warnings.push(format!(
                "the CPUs' clock is set by the governor {governor:?}: set it to \"performance\""
            ));
        }
        if self.profile == "debug" {
            warnings.push("a debug build: times say nothing".to_owned());
        }
        if self.commit.ends_with("-dirty") || self.commit == "unknown" {
            warnings.push(format!("built from a changed tree ({})", self.commit));
        }
        warnings
    }

    /// What makes the numbers of the event builder doubtful.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.doubts();
        if self.cpus < 3 {
            warnings.push(format!(
                "sources, receiver and builder share {} CPUs",
                self.cpus
            ));
        }
        warnings.extend(buffer_shortfall());
        warnings
    }

    /// How the CPUs' clock changed meanwhile, if that makes numbers doubtful.
    #[must_use]
    pub fn clock_drift(&self) -> Option<String> {
        let now = clock_mhz();
        let drifted = (now - self.clock_mhz).abs() > CLOCK_DRIFT * self.clock_mhz;
        drifted.then(|| {
            format!(
                "the CPUs' clock changed from {:.0} to {now:.0} MHz meanwhile",
                self.clock_mhz
            )
        })
    }

    /// What makes the numbers doubtful, when it is known only after the measurement.
    #[must_use]
    pub fn warnings_after(&self) -> Vec<String> {
        let mut warnings = self.warnings();
        warnings.extend(self.clock_drift());
        warnings
    }

    /// As cells of a row.
    #[must_use]
    pub fn row(&self) -> Row {
        let mut row = Row::default();
        row.add("host", self.host.as_str());
        row.add("kernel", self.kernel.as_str());
        row.add("cpu", self.cpu.as_str());
        row.add("cpus", self.cpus);
        row.add("memory_bytes", self.memory_bytes);
        row.add("commit", self.commit);
        row.add("profile", self.profile);
        row.add("date", self.date.as_str());
        row
    }

    /// One line for people.
    #[must_use]
    pub fn line(&self) -> String {
        format!(
            "{} CPUs {}, Linux {}, load before {:.2}, commit {}, {}",
            self.cpus, self.cpu, self.kernel, self.load_before, self.commit, self.date
        )
    }
}

impl Told {
    /// This host and this program, now.
    #[must_use]
    pub fn here() -> Self {
        let now = Conditions::now();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            warnings: now.doubts(),
            commit: now.commit.to_owned(),
            host: now.host,
            kernel: now.kernel,
            cpu: now.cpu,
            cpus: now.cpus,
            memory_bytes: now.memory_bytes,
            load: now.load_before,
            date: now.date,
        }
    }

    /// As cells of a row of a measurement that this host took part in as the other side.
    #[must_use]
    pub fn row(&self) -> Row {
        let mut row = Row::default();
        row.add("peer_host", self.host.as_str());
        row.add("peer_kernel", self.kernel.as_str());
        row.add("peer_cpu", self.cpu.as_str());
        row.add("peer_cpus", self.cpus);
        row.add("peer_commit", self.commit.as_str());
        row
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = vec![format!(
            "{}: {} CPUs {}, Linux {}, load {:.2}, Forebay {} (commit {}), {}",
            self.host,
            self.cpus,
            self.cpu,
            self.kernel,
            self.load,
            self.version,
            self.commit,
            self.date
        )];
        let warnings = self.warnings.iter();
        lines.extend(warnings.map(|warning| format!("WARNING: {warning}")));
        lines.join("\n")
    }
}
