//! A small C program that drives a library, built when it is needed and run as a pair.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::super::child::{Ended, Says};
use super::super::ground::{Ground, Side};
use super::Scratch;
use forebay_report::rows::Row;

const SLACK: Duration = Duration::from_secs(20);

/// What is built.
#[derive(Debug)]
pub(super) struct Driver {
    /// Its name, and that of the file.
    pub(super) name: &'static str,
    /// What it drives.
    pub(super) library: &'static str,
    pub(super) source: &'static str,
    /// The linker's option.
    pub(super) link: &'static str,
    /// Debian package with the library's headers.
    pub(super) package: &'static str,
}

/// The built program; removed when dropped.
#[derive(Debug)]
pub(super) struct Built {
    driver: Driver,
    directory: Scratch,
}

impl Built {
    /// Builds it with the host's C compiler and the library.
    pub(super) fn make(driver: Driver) -> Result<Self> {
        let directory =
            Scratch::make(driver.name).context("making a directory for the reference")?;
        let built = Self { driver, directory };
        let source = built.program().with_extension("c");
        std::fs::write(&source, built.driver.source).context("writing the reference's source")?;
        let out = Command::new("cc")
            .args(["-O2", "-o"])
            .arg(built.program())
            .arg(&source)
            .arg(built.driver.link)
            .output()
            .context("no C compiler; it comes with the Debian package gcc")?;
        if !out.status.success() {
            let text = String::from_utf8_lossy(&out.stderr);
            let line = text
                .lines()
                .find(|line| line.contains("error"))
                .or(text.lines().next());
            bail!(
                "the program that drives it cannot be built ({}); it needs the Debian packages {}, gcc and libc6-dev",
                line.unwrap_or("cc failed").trim(),
                built.driver.package
            );
        }
        Ok(built)
    }

    fn program(&self) -> PathBuf {
        self.directory.0.join(self.driver.name)
    }

    /// Runs both sides once; `words` gives a side's arguments by its role and the address.
    pub(super) fn measure(
        &self,
        words: impl Fn(&str, &str) -> Vec<String>,
        place: &str,
        message_bytes: u32,
        duration: Duration,
        ground: &Ground<'_>,
    ) -> Result<Row> {
        let stop = ground.stop();
        let side = |side: Side, role: &str, address: &str| {
            let mut command = Command::new(self.program());
            command.args(words(role, address));
            ground.start(self.driver.library, command, side, Says::OnStderr)
        };
        let mut listener = side(Side::Listener, "listen", place)?;
        let address = listener.line(SLACK, stop, |line| {
            line.strip_prefix("listening on ").map(str::to_owned)
        })?;
        let sender = side(Side::Sender, "send", &address)?;
        let sent = self.result(sender.end(duration + SLACK, stop)?)?;
        let received = self.result(listener.end(SLACK, stop)?)?;
        Ok(row(&sent, &received, message_bytes))
    }

    fn result(&self, ended: Ended) -> Result<Value> {
        let library = self.driver.library;
        if ended.code != Some(0) {
            bail!("{}", ended.complaint(library));
        }
        serde_json::from_str(&ended.stdout).with_context(|| format!("reading {library}'s result"))
    }
}

fn row(sent: &Value, received: &Value, message_bytes: u32) -> Row {
    let number = |of: &Value, name: &str| of[name].as_f64().unwrap_or_default();
    let answered = sent["rtt_samples"].is_number();
    let rates = if answered { sent } else { received };
    let (messages, elapsed_s) = (number(rates, "messages"), number(rates, "elapsed_s"));
    let hz = if elapsed_s > 0.0 {
        messages / elapsed_s
    } else {
        0.0
    };
    let mut row = Row::default();
    row.add("messages", messages);
    row.add("bytes", messages * f64::from(message_bytes));
    row.add("elapsed_s", elapsed_s);
    row.add("message_rate_hz", hz);
    row.add("goodput_bps", hz * 8.0 * f64::from(message_bytes));
    if let (true, Value::Object(told)) = (answered, sent) {
        for (name, value) in told.iter().filter(|cell| cell.0.starts_with("rtt_")) {
            row.add(name, value.as_f64().unwrap_or_default());
        }
    }
    row.add("cpu_sender_s", number(sent, "cpu_s"));
    row.add("cpu_receiver_s", number(received, "cpu_s"));
    row.add(
        "dropped",
        number(sent, "messages") - number(received, "messages"),
    );
    row
}
