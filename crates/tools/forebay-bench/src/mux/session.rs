//! One session: daemon, clients, load, and their ends in the order of the packets.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use forebay_load::target_name;
use forebay_run::Stop;
use forebay_sys::namespace;
use serde_json::Value;
use tempfile::TempDir;

use super::account::Told;
use super::file::{CLIENTS_USER, text};
use super::ground::{Ground, PREFIX, WIRE, Wire, client_address, client_mac};
use super::{ClientOptions, Options, Workload};
use crate::child::{Booked, Child};

/// Where clients and sockets listen.
pub(super) const PORT: u16 = 9_500;
/// Where they do not.
const CLOSED_PORT: u16 = 9;
/// Longest wait for a client's first answer.
const MEET_MOST: Duration = Duration::from_secs(60);
const MEET_LOOK: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_millis(10);
/// Such a client's load is ended by this process, and by itself only if that is gone.
const SENDING_MOST: Duration = Duration::from_secs(60);
/// An answer that comes later is lost.
const TIME_OUT: Duration = Duration::from_secs(1);
/// Where clients keep their books.
const CLIENTS: &str = "clients";
/// Datagrams of `tx-mostly` for one that comes.
const MOSTLY: u64 = 10_000;

/// Where files of a measurement lie, and this program where the clients' user can run it.
pub(super) struct Work {
    folder: TempDir,
    program: PathBuf,
    /// Where ledgers and records stay; none: nowhere.
    kept: Option<PathBuf>,
}

impl Work {
    pub(super) fn make(program: &Path, kept: Option<&Path>) -> Result<Self> {
        let folder = TempDir::new().context("making a place for a measurement")?;
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
        let clients = folder.path().join(CLIENTS);
        fs::create_dir(&clients)?;
        fs::set_permissions(&clients, Permissions::from_mode(0o777))?;
        let kept = kept.map(std::path::absolute).transpose()?;
        if let Some(kept) = &kept {
            fs::create_dir_all(kept).with_context(|| format!("making {}", kept.display()))?;
        }
        let tried = Command::new("setpriv")
            .args(["--reuid", &CLIENTS_USER.to_string(), "--clear-groups"])
            .args(["test", "-x"])
            .arg(program)
            .output();
        if tried.is_ok_and(|tried| tried.status.success()) {
            return Ok(Self {
                folder,
                program: program.to_owned(),
                kept,
            });
        }
        let copy = folder.path().join("forebay");
        fs::copy(program, &copy).context("copying this program for the clients' user")?;
        Ok(Self {
            folder,
            program: copy,
            kept,
        })
    }

    /// The place of a file or directory of a program of this process's user.
    pub(super) fn of(&self, name: &str) -> PathBuf {
        let folder = self.kept.as_deref();
        folder.unwrap_or(self.folder.path()).join(name)
    }

    /// Where clients find the daemon.
    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Where the daemon is asked how it stands, and set otherwise.
    pub(super) fn control(&self) -> PathBuf {
        self.folder.path().join("socket.control")
    }

    /// The directory of a client's books while it is at work: one that its user can write to.
    fn client(&self, name: &str) -> PathBuf {
        self.folder.path().join(CLIENTS).join(name)
    }

    /// Keeps the clients' books as well, if any are kept.
    fn keep_clients(&self, clients: usize) -> Result<()> {
        for name in (0..clients).map(target_name) {
            let (from, to) = (self.client(&name), self.of(CLIENTS).join(&name));
            if self.kept.is_none() {
                break;
            }
            let copied = copy_files(&from, &to);
            copied.with_context(|| format!("copying {} to {}", from.display(), to.display()))?;
        }
        Ok(())
    }
}

/// Copies the files of a directory, and no other ones.
fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if fs::metadata(entry.path()).is_ok_and(|data| data.is_file()) {
            let at = to.join(entry.file_name());
            // A ledger of an earlier run there may be a link to its memory.
            let _ = fs::remove_file(&at);
            fs::copy(entry.path(), at)?;
        }
    }
    Ok(())
}

/// What looks on while the load is made.
pub(super) trait Watch {
    /// It goes on: one look of many, at the generator and at clients.
    fn look(&mut self, load: &Booked, clients: &[Booked]) -> Result<()>;

    /// It has been made for as long as it shall, and answers are still to come.
    fn over(&mut self, load: &Booked, clients: &[Booked]) -> Result<()>;
}

/// Carries one out; what its parties say of it.
pub(super) fn run(
    options: &Options,
    ground: &Ground,
    work: &Work,
    (stop, watch): (&Stop, &mut dyn Watch),
) -> Result<Told> {
    let file = work.of("mux.toml");
    let directory = work.of("mux");
    let text = text(options, &work.socket(), &directory);
    fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    let before = ground.counted()?;
    let mut command = ground.at_card(&options.program, options.placement.daemon);
    command.args(["mux", "run", "--format", "json"]).arg(&file);
    let daemon = Child::start(&mut command, "the multiplexer")?;
    let daemon = Booked::begin(daemon, directory)?;
    let mut started = Vec::new();
    for (at, client) in options.clients.iter().enumerate() {
        let name = target_name(at);
        let placed = options.placement.clients;
        let mut command = ground.at_card_of(CLIENTS_USER, Path::new("nice"), placed);
        command
            .args(["-n", &client.niceness.to_string()])
            .arg(&work.program);
        command.current_dir("/");
        command.args(["mux", "client", options.workload.name(), "--name", &name]);
        command.arg("--socket").arg(work.socket());
        command.args(["--prefix", &PREFIX.to_string(), "--reconnect", "false"]);
        command.args(["--format", "json", "--port", &PORT.to_string()]);
        if options.is_raw {
            command.arg("--raw");
        }
        if let Some(rounds) = client.rounds {
            command.args(["--rounds", &rounds.to_string()]);
        }
        if options.workload == Workload::TxInitiated {
            command.args(["--packets", &packets(options, client).to_string()]);
        }
        let out = work.client(&name);
        let started_one = Child::start(command.arg("--out").arg(&out), "a client")?;
        started.push((started_one, out));
    }
    // One that has its books has its place: what is sent to it from now on is not for nobody.
    let clients = started
        .into_iter()
        .map(|(child, out)| Booked::begin(child, out));
    let mut clients: Vec<Booked> = clients.collect::<Result<_>>()?;
    // Without a stack none has anything to learn.
    if !options.is_raw {
        meet(ground, &mut clients, stop)?;
    }
    let load = load(options, ground, client_address);
    let load = (load, work.of("load"));
    let load = under_way(load, options, &mut clients, (stop, watch))?;
    let (records, load) = match options.workload.is_sending() {
        true => {
            let records = ended(clients)?;
            (records, load.end()?)
        }
        false => {
            let load = load.child.record()?;
            (ended(clients)?, load)
        }
    };
    let daemon = daemon.end()?;
    work.keep_clients(options.clients.len())?;
    Ok(Told {
        load,
        daemon,
        clients: records,
        counted: ground.counted()?.since(before),
    })
}

/// Tells clients to end; their records.
fn ended(clients: Vec<Booked>) -> Result<Vec<Value>> {
    clients.iter().for_each(|client| client.child.terminate());
    clients.into_iter().map(Booked::end).collect()
}

/// How many packets a client sends by itself: what is asked of it over the whole duration.
fn packets(options: &Options, client: &ClientOptions) -> u64 {
    let bits = client.load_bps as f64 * options.duration.as_secs_f64();
    ((bits / 8.0 / options.size_bytes as f64) as u64).max(1)
}

/// How long an answer is waited for: also what lies in a slow wire's full ports, there and back, is counted by the generator.
fn time_out(wire_bps: Option<u64>) -> Duration {
    let empties = wire_bps.and_then(|bps| Wire::even(bps).back_empties_in(0.0));
    let both = 2 * empties.unwrap_or_default();
    match both > TIME_OUT / 2 {
        true => TIME_OUT + both,
        false => TIME_OUT,
    }
}

/// The generator, with a target for each client.
pub(super) fn load(options: &Options, ground: &Ground, address: fn(usize) -> Ipv4Addr) -> Command {
    let mut command = ground.at_generator(&options.program, options.placement.generator);
    command.args(["load", "--format", "json"]);
    command.args(["--size", &options.size_bytes.to_string()]);
    let is_sending = options.workload.is_sending() && address(0) == client_address(0);
    let duration = match is_sending {
        true => options.duration + SENDING_MOST,
        false => options.duration,
    };
    command.args(["--duration", &format!("{}ms", duration.as_millis())]);
    let time_out = time_out(options.wire_bps);
    command.args(["--timeout", &format!("{}ms", time_out.as_millis())]);
    for (at, client) in options.clients.iter().enumerate() {
        let rate = match options.workload {
            Workload::TxInitiated if is_sending => "1pps".to_owned(),
            Workload::TxMostly if is_sending => (client.load_bps / MOSTLY).max(1).to_string(),
            _ => client.load_bps.to_string(),
        };
        command.args(["--rate", &format!("{}={rate}", target_name(at))]);
    }
    let targets = 0..options.clients.len();
    if options.is_raw {
        command.args(["--raw", WIRE]);
        command.args(targets.map(client_mac));
    } else {
        command.args(targets.map(|at| format!("{}:{PORT}", address(at))));
    }
    command
}

/// Load until it has been made for as long as it shall. `others` must not end by a failure meanwhile.
pub(super) fn under_way(
    (mut load, out): (Command, PathBuf),
    options: &Options,
    others: &mut [Booked],
    (stop, watch): (&Stop, &mut dyn Watch),
) -> Result<Booked> {
    let load = Child::start(load.arg("--out").arg(&out), "the generator")?;
    let mut load = Booked::begin(load, out)?;
    let begun = Instant::now();
    while begun.elapsed() < options.duration && !stop.is_asked() && !load.child.is_over()? {
        watch.look(&load, others)?;
        for other in &mut *others {
            let other = &mut other.child;
            if let Some(status) = other.status()?
                && !status.success()
            {
                bail!(
                    "{} ended with {status}: {}",
                    other.what(),
                    other.complaint()?
                );
            }
        }
        std::thread::sleep(LOOK);
    }
    watch.over(&load, others)?;
    if stop.is_asked() {
        load.child.terminate();
    }
    Ok(load)
}

/// Waits until each client has answered once: by a datagram to a port at which it does not listen, of which it says so. Then each knows the generator's Ethernet address.
fn meet(ground: &Ground, clients: &mut [Booked], stop: &Stop) -> Result<()> {
    let begun = Instant::now();
    let count = clients.len();
    let mut has_met = vec![false; count];
    while !has_met.iter().all(|met| *met) && !stop.is_asked() {
        for (at, client) in clients.iter_mut().enumerate() {
            if client.child.is_over()? {
                let name = target_name(at);
                bail!("client {name} ended: {}", client.child.complaint()?);
            }
        }
        ensure!(
            begun.elapsed() < MEET_MOST,
            "client {} does not answer",
            target_name(has_met.iter().position(|met| !met).unwrap_or(0))
        );
        let holder = ground.generator_holder();
        let asking = &mut has_met;
        std::thread::scope(|scope| {
            let asked = scope.spawn(move || -> Result<()> {
                namespace::enter_network_of(holder)?;
                for (at, met) in asking.iter_mut().enumerate().filter(|(_, met)| !**met) {
                    *met = answers(client_address(at))?;
                }
                Ok(())
            });
            asked
                .join()
                .unwrap_or_else(|_| bail!("asking for the clients panicked"))
        })?;
    }
    Ok(())
}

fn answers(address: Ipv4Addr) -> Result<bool> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect((address, CLOSED_PORT))?;
    socket.set_read_timeout(Some(MEET_LOOK))?;
    socket.send(b"who?")?;
    match socket.recv(&mut [0; 64]) {
        Err(error) => Ok(error.kind() == ErrorKind::ConnectionRefused),
        Ok(_) => Ok(true),
    }
}
