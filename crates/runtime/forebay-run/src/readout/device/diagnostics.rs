//! Diagnostics of a card at work: its registers, and triggers for its test input, over a connection of their own.
//!
//! After the first request each further one is a list of accesses, or a burst of triggers; each has one answer. Test blocks come through the DMA buffers that
//! nobody else reads.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_emu::card::board::{Board, BoardConfig, TtcBurst};
use forebay_readout::validate::{Access, Burst, Card, Counts};
use forebay_sys::seqpacket::SeqSocket;
use forebay_wire::felix::Elink;
use forebay_wire::felix::board::{BOARD_LINKS, DMA_TEST_HOLD, TTC_SELECT};
use rustix::event::{PollFd, PollFlags, Timespec};
use serde::{Deserialize, Serialize};

use super::{Device, DeviceError, DeviceInfo, Wanted, ask, hear};

/// Accesses of a request, at most.
const ACCESSES_MOST: usize = 100;
/// Triggers of a burst, at most, on average.
const TRIGGERS_MOST: u64 = 1_000_000;

/// What is asked for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Asked {
    /// Addresses, and what is to be written there; none: they are read.
    Access(Vec<(u32, Option<u64>)>),
    /// Triggers for the test input.
    Ttc {
        rate_hz: u32,
        for_ns: u64,
        ecr_period_ns: u64,
    },
}

/// What is told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Told {
    /// What the reads have said.
    Values(Vec<u64>),
    /// What was sent.
    Sent { l1a: u64, bcr: u64, ecr: u64 },
    /// Nothing was done.
    Refused(String),
}

/// Carries a request out.
pub(super) fn answer(board: &mut Board, asked: &[u8]) -> Told {
    match serde_json::from_slice(asked) {
        Err(error) => Told::Refused(format!("no request: {error}")),
        Ok(Asked::Access(accesses)) if accesses.len() > ACCESSES_MOST => Told::Refused(format!(
            "{} accesses; {ACCESSES_MOST} are possible",
            accesses.len()
        )),
        Ok(Asked::Access(accesses)) => {
            let mut values = Vec::new();
            for (address, value) in accesses {
                match value {
                    Some(value) => board.write(address, value),
                    None => values.push(board.read(address)),
                }
            }
            Told::Values(values)
        }
        Ok(Asked::Ttc {
            rate_hz,
            for_ns,
            ecr_period_ns,
        }) => {
            let triggers = u128::from(rate_hz) * u128::from(for_ns) / 1_000_000_000;
            if triggers > TRIGGERS_MOST.into() {
                return Told::Refused(format!("{triggers} triggers; {TRIGGERS_MOST} are possible"));
            }
            let sent = board.send_ttc(&TtcBurst {
                rate_hz,
                for_ns,
                ecr_period_ns,
            });
            Told::Sent {
                l1a: sent.l1a,
                bcr: sent.bcr,
                ecr: sent.ecr,
            }
        }
    }
}

/// Who was at the diagnostics is gone: DMA buffers and triggers are those of the data again.
pub(super) fn end(board: &mut Board) {
    board.write(DMA_TEST_HOLD.address, 0);
    board.write(TTC_SELECT.address, 0);
}

impl DeviceInfo {
    /// Links that it has: up to the last one with an E-link.
    #[must_use]
    pub fn links(&self) -> usize {
        let elinks = self.elinks.iter().flatten();
        let links = elinks
            .filter_map(|number| Elink::new(*number))
            .map(|elink| usize::from(elink.link()));
        let last = links.filter(|link| *link < BOARD_LINKS).max();
        1 + last.unwrap_or(0)
    }

    /// The board of such a card, with nothing wrong.
    #[must_use]
    pub fn board(&self) -> BoardConfig {
        let usual = BoardConfig::new(self.links(), self.blocks.len());
        BoardConfig {
            format: self.format().unwrap_or(usual.format),
            ..usual
        }
    }
}

/// The diagnostics of a card at work, as who uses them has them.
#[derive(Debug)]
pub struct Diagnosed {
    /// What the card says of itself.
    pub info: DeviceInfo,
    path: PathBuf,
    socket: SeqSocket,
    /// DMA buffers, or why they cannot be had.
    buffers: Vec<Result<Device, String>>,
    interrupts: Vec<u64>,
    copy: Vec<u8>,
}

impl Diagnosed {
    /// Opens the diagnostics of the card that listens at `path`, and those of its DMA buffers that nobody reads.
    ///
    /// # Errors
    /// There is no card, or it has no diagnostics.
    pub fn open(path: &Path) -> Result<Self, DeviceError> {
        let (socket, info, _) = ask(path, Wanted::Diagnostics, &|| false)?;
        let mut buffers = Vec::new();
        for buffer in 0..info.blocks.len() {
            buffers.push(match Device::open(path, buffer) {
                Ok(device) => {
                    device.blocks.prepare_wait();
                    Ok(device)
                }
                Err(DeviceError::Refused { why, .. }) => Err(why),
                Err(other) => return Err(other),
            });
        }
        Ok(Self {
            interrupts: vec![0; buffers.len()],
            info,
            path: path.into(),
            socket,
            buffers,
            copy: Vec::new(),
        })
    }

    fn ask(&self, asked: &Asked) -> Result<Told, DeviceError> {
        let wrong = |error: serde_json::Error| self.no_card(error.to_string());
        let text = serde_json::to_vec(asked).map_err(wrong)?;
        self.socket.send(&text, &[])?;
        let (text, _) = hear(&self.socket, &self.path, &|| false)?;
        match serde_json::from_slice(&text).map_err(wrong)? {
            Told::Refused(why) => Err(DeviceError::Refused {
                path: self.path.clone(),
                asked: "a diagnosis".into(),
                why,
            }),
            told => Ok(told),
        }
    }

    fn no_card(&self, what: String) -> DeviceError {
        DeviceError::NotACard {
            path: self.path.clone(),
            what,
        }
    }

    /// Notes which buffers have interrupted, within this time.
    fn listen(&mut self, most: Duration) {
        let Ok(most) = Timespec::try_from(most) else {
            return;
        };
        let opened = self.buffers.iter().enumerate();
        let opened: Vec<(usize, &Device)> = opened
            .filter_map(|(number, device)| Some((number, device.as_ref().ok()?)))
            .collect();
        let mut fds = Vec::new();
        for (_, device) in &opened {
            let fd = device.blocks.as_fd();
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        // Interrupted or not: it is looked at.
        let _ = rustix::event::poll(&mut fds, Some(&most));
        for ((number, device), fd) in opened.iter().zip(&fds) {
            if fd.revents().contains(PollFlags::IN) {
                self.interrupts[*number] += 1;
                device.blocks.finish_wait();
                device.blocks.prepare_wait();
            }
        }
    }
}

impl Card for Diagnosed {
    type Error = DeviceError;

    fn access(&mut self, accesses: &[Access]) -> Result<Vec<u64>, DeviceError> {
        let mut all = Vec::new();
        for some in accesses.chunks(ACCESSES_MOST) {
            let asked = some.iter().map(|access| match *access {
                Access::Read(address) => (address, None),
                Access::Write(address, value) => (address, Some(value)),
            });
            match self.ask(&Asked::Access(asked.collect()))? {
                Told::Values(values) => all.extend(values),
                _ => return Err(self.no_card("it answers another question".into())),
            }
        }
        Ok(all)
    }

    fn run(&mut self, ns: u64) -> Result<(), DeviceError> {
        let end = Instant::now() + Duration::from_nanos(ns);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            self.listen(left);
            if left.is_zero() {
                return Ok(());
            }
        }
    }

    fn take_blocks(
        &mut self,
        buffer: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<u64, DeviceError> {
        let Some(Ok(device)) = self.buffers.get_mut(buffer) else {
            return Ok(0);
        };
        let reader = &mut device.blocks;
        let there = reader.look()?;
        for ahead in 0..there {
            if let Some(view) = reader.block(ahead) {
                self.copy.resize(view.len(), 0);
                if view.copy_to(0, &mut self.copy) {
                    each(&self.copy);
                }
            }
        }
        reader.take(there);
        reader.release(reader.read_position());
        reader.notify();
        Ok(there)
    }

    fn withheld(&self, buffer: usize) -> Option<String> {
        match self.buffers.get(buffer) {
            Some(Ok(_)) => None,
            Some(Err(why)) => Some(why.clone()),
            None => Some("there is none".into()),
        }
    }

    fn take_interrupts(&mut self, buffer: usize) -> Result<u64, DeviceError> {
        self.listen(Duration::ZERO);
        Ok(self.interrupts.get_mut(buffer).map_or(0, std::mem::take))
    }

    fn send_ttc(&mut self, burst: &Burst) -> Result<Counts, DeviceError> {
        let asked = Asked::Ttc {
            rate_hz: burst.rate_hz,
            for_ns: burst.for_ns,
            ecr_period_ns: burst.ecr_period_ns,
        };
        match self.ask(&asked)? {
            Told::Sent { l1a, bcr, ecr } => Ok(Counts { l1a, bcr, ecr }),
            _ => Err(self.no_card("it answers another question".into())),
        }
    }
}
