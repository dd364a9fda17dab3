//! Processes of a readout chain that one command starts: each is a command of its own, which a user could have typed.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_sys::process;
use serde_json::Value;

use crate::error::RunError;
use crate::hops;

/// Names the process without which a child has nothing to do.
const PARENT: &str = "FOREBAY_PARENT";
/// The argument of a command that is told by its standard input when it shall end.
pub const BY_STDIN: &str = "--orders-by-stdin";
/// What is written there for each order to end.
const ORDER: u8 = b'\n';
/// Standard input, by which orders came, has ended: the process that started the chain is gone.
static ORDERS_ENDED: AtomicBool = AtomicBool::new(false);
/// One look at a child.
const LOOK: Duration = Duration::from_millis(10);

/// The process that started this one as a part of its chain.
#[derive(Clone, Copy, Debug)]
pub struct Parent(Option<u32>);

impl Parent {
    /// As the environment says; none for a command that a user has typed.
    #[must_use]
    pub fn from_env() -> Self {
        let named = std::env::var(PARENT).ok();
        Self(named.and_then(|text| text.parse().ok()))
    }

    /// Of what nobody has started.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Whether there was one, and it is gone.
    #[must_use]
    pub fn is_gone(self) -> bool {
        let is_other = |parent| std::os::unix::process::parent_id() != parent;
        ORDERS_ENDED.load(Ordering::Relaxed) || self.0.is_some_and(is_other)
    }
}

/// Takes orders by standard input: each byte is as a signal to end, and its end as the death of the process that started the chain.
///
/// # Errors
/// Threads run out.
pub fn take_orders_by_stdin() -> Result<(), RunError> {
    let own = std::process::id();
    let listen = move || {
        let mut orders = std::io::stdin();
        let mut order = [0];
        while orders.read_exact(&mut order).is_ok() {
            let _ = process::terminate(own);
        }
        ORDERS_ENDED.store(true, Ordering::Relaxed);
    };
    let thread = std::thread::Builder::new().name("fb-orders".into());
    let started = thread.spawn(listen);
    started.map_err(RunError::file("starting", "the thread that takes orders"))?;
    Ok(())
}

/// A process of the chain. One that is left alone is killed.
#[derive(Debug)]
pub struct Part {
    name: String,
    child: Child,
    status: Option<ExitStatus>,
    output: Option<JoinHandle<Vec<u8>>>,
}

impl Part {
    /// Starts `forebay ARGUMENTS`. Its standard error is this process's, or goes into a file. The fault switch is for it alone, if it is given one.
    pub fn start(
        name: &str,
        arguments: &[String],
        errors: Option<PathBuf>,
        leak: Option<&str>,
    ) -> Result<Self, RunError> {
        let mut command = Command::new("/proc/self/exe");
        command
            .args(arguments)
            .env(PARENT, std::process::id().to_string())
            .env_remove(hops::VARIABLE)
            .envs(leak.map(|text| (hops::VARIABLE, text)))
            .stdin(Stdio::null());
        Self::spawn(name, command, errors)
    }

    /// Starts the same behind a command, which may stay in between, or run it on another host. `arguments` say that it gets its orders by standard input.
    pub fn launch(
        name: &str,
        command: &[String],
        arguments: &[String],
        errors: Option<PathBuf>,
    ) -> Result<Self, RunError> {
        let own = std::env::current_exe();
        let own = own.map_err(RunError::file("finding", "the program of this process"))?;
        let mut words = command.iter();
        let mut launcher = Command::new(words.next().map_or("", String::as_str));
        launcher
            .args(words)
            .arg(own)
            .args(arguments)
            .env_remove(PARENT)
            .env_remove(hops::VARIABLE)
            .stdin(Stdio::piped());
        Self::spawn(name, launcher, errors)
    }

    fn spawn(name: &str, mut command: Command, errors: Option<PathBuf>) -> Result<Self, RunError> {
        use std::os::unix::process::CommandExt;
        let program = command.get_program().to_owned();
        let failed = RunError::file("starting", format!("{name} by {}", program.display()));
        let errors = match errors {
            Some(path) => {
                Stdio::from(std::fs::File::create(&path).map_err(RunError::file("writing", &path))?)
            }
            None => Stdio::inherit(),
        };
        // Ctrl-C at a terminal is for the whole chain: its head tells the others.
        command.process_group(0).stdout(Stdio::piped());
        let mut child = command.stderr(errors).spawn().map_err(failed)?;
        let output = child.stdout.take().map(|mut stdout| {
            std::thread::spawn(move || {
                let mut text = Vec::new();
                // What came before a failure is looked at all the same.
                let _ = stdout.read_to_end(&mut text);
                text
            })
        });
        Ok(Self {
            name: name.to_owned(),
            child,
            status: None,
            output,
        })
    }

    /// Its name in the chain.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks it to end in order.
    pub fn stop(&self) {
        if self.status.is_none() {
            // It may have ended meanwhile.
            let _ = match &self.child.stdin {
                Some(orders) => {
                    let mut orders = orders;
                    orders.write_all(&[ORDER]).is_ok()
                }
                None => process::terminate(self.child.id()).is_ok(),
            };
        }
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        if self.status.is_some() {
            // What a launcher has left behind is told that nobody is there any more.
            drop(self.child.stdin.take());
        }
        self.status.is_some()
    }

    /// Whether it has ended with its work done, whatever it found: its data may be wrong (1), or some of them lost where none should be (3).
    pub fn has_finished(&self) -> bool {
        let code = self.status.and_then(|status| status.code());
        matches!(code, Some(0 | 1 | 3))
    }

    /// Waits for its end, and gives what it said: one JSON object; none when it said something else.
    pub fn finish(mut self, most: Duration) -> Ended {
        let begun = Instant::now();
        while !self.has_ended() && begun.elapsed() < most {
            std::thread::sleep(LOOK);
        }
        let killed = !self.has_ended();
        if killed {
            // It may end by itself meanwhile.
            let _ = self.child.kill();
            self.status = self.child.wait().ok();
        }
        // What a launcher has left behind may hold the output open.
        let has_said = |output: &JoinHandle<Vec<u8>>| output.is_finished();
        while !self.output.as_ref().is_none_or(has_said) && begun.elapsed() < most + most {
            std::thread::sleep(LOOK);
        }
        let output = self.output.take().filter(has_said);
        let text = output.and_then(|output| output.join().ok());
        let said = serde_json::from_slice(&text.unwrap_or_default()).ok();
        let how = match self.status {
            _ if killed => format!("did not end within {} s and was killed", most.as_secs()),
            Some(status) => status.to_string(),
            None => "was lost sight of".into(),
        };
        Ended {
            name: self.name.clone(),
            pid: self.child.id(),
            code: self.status.and_then(|status| status.code()),
            how,
            said,
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.has_ended() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// How a process of the chain ended.
#[derive(Debug)]
pub struct Ended {
    /// Its name in the chain.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Its exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// How it ended, in words.
    pub how: String,
    /// The JSON object that it printed; none when it printed something else.
    pub said: Option<Value>,
}

impl Ended {
    /// A number that it said, found by its path; 0 where it said nothing.
    pub fn number(&self, path: &str) -> u64 {
        self.value(path).and_then(Value::as_u64).unwrap_or(0)
    }

    /// The same with a fraction.
    pub fn real(&self, path: &str) -> f64 {
        self.value(path).and_then(Value::as_f64).unwrap_or(0.0)
    }

    /// What it said, by its path (RFC 6901).
    pub fn value(&self, path: &str) -> Option<&Value> {
        self.said.as_ref()?.pointer(path)
    }

    /// What went wrong with it, and the last line of its log; none when it ended well and said what it came to.
    pub fn failure(&self, log: &Path) -> Option<String> {
        if self.code == Some(0) && self.said.is_some() {
            return None;
        }
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let last = text.lines().last();
        let last = last.map_or_else(String::new, |line| format!(" ({line})"));
        Some(format!("{}: {}{last}", self.name, self.how))
    }

    /// What it counted by name.
    pub fn counts(&self, path: &str) -> Vec<(String, u64)> {
        let object = self.value(path).and_then(Value::as_object);
        let entries = object.into_iter().flatten();
        let entries = entries.filter_map(|(name, count)| Some((name.clone(), count.as_u64()?)));
        entries.filter(|(_, count)| *count > 0).collect()
    }
}
