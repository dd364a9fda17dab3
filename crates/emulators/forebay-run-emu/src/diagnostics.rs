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
use forebay_wire::felix::board::{DMA_TEST_HOLD, TTC_SELECT};
use rustix::event::{PollFd, PollFlags, Timespec};
use serde::{Deserialize, Serialize};

use forebay_run_felix::device::{
    Device, DeviceError, DeviceInfo, Diagnosis, Diagnostics, Wanted, ask, hear,
};

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
enum Told {
    /// What the reads have said.
    Values(Vec<u64>),
    /// What was sent.
    Sent { l1a: u64, bcr: u64, ecr: u64 },
    /// Nothing was done.
    Refused(String),
}

/// Carries a request out.
fn answer(board: &mut Board, asked: &[u8]) -> Told {
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

/// The board of a card at work, whose diagnostics are served.
#[derive(Debug)]
pub struct ServedBoard(pub Board);

impl Diagnostics for ServedBoard {
    fn answer(&mut self, asked: &[u8]) -> Diagnosis {
        let told = answer(&mut self.0, asked);
        Diagnosis {
            is_refused: matches!(told, Told::Refused(_)),
            text: serde_json::to_vec(&told).ok(),
        }
    }

    fn end(&mut self) {
        self.0.write(DMA_TEST_HOLD.address, 0);
        self.0.write(TTC_SELECT.address, 0);
    }
}

/// The board of such a card, with nothing wrong.
#[must_use]
pub fn board_of(info: &DeviceInfo) -> BoardConfig {
    let usual = BoardConfig::new(info.links(), info.blocks.len());
    BoardConfig {
        format: info.format().unwrap_or(usual.format),
        ..usual
    }
}

/// The diagnostics of a card at work, as the process that uses them has them.
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

#[cfg(test)]
mod tests {
    use forebay_ring::BlockRingMemory;
    use forebay_run_felix::device::Door;

    use super::*;

    fn info() -> DeviceInfo {
        DeviceInfo {
            name: "card".into(),
            marker: 0xc0ce,
            headers: false,
            blocks: vec![64, 128],
            elinks: vec![vec![0], vec![64]],
            from_host: None,
            pid: std::process::id(),
        }
    }

    fn memories() -> Vec<BlockRingMemory> {
        let specs = (0..2).map(|buffer| info().spec(buffer).unwrap());
        specs
            .map(|spec| BlockRingMemory::create(&spec).unwrap())
            .collect()
    }

    /// Serves until the thread's answer is there.
    fn serving<T: Send + 'static>(
        door: &mut Door<ServedBoard>,
        ask: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let asking = std::thread::spawn(ask);
        while !asking.is_finished() {
            door.serve().unwrap();
            std::thread::yield_now();
        }
        asking.join().unwrap()
    }

    #[test]
    fn diagnostics_have_one_user_and_bear_what_he_says() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("card.sock");
        let mut door: Door<ServedBoard> = Door::open(&path, info(), memories()).unwrap();
        let opens = |path: &Path| {
            let path = path.to_path_buf();
            move || ask(&path, Wanted::Diagnostics, &|| false).map(|(socket, ..)| socket)
        };
        let without = serving(&mut door, opens(&path)).unwrap_err();
        assert!(without.to_string().contains("it has none"), "{without}");
        door.offer_board(ServedBoard(Board::new(&board_of(&info())).unwrap()));
        let socket = serving(&mut door, opens(&path)).unwrap();
        assert!(door.is_diagnosed() && door.readers() == 0);
        let second = serving(&mut door, opens(&path)).unwrap_err();
        assert!(second.to_string().contains("somebody else"), "{second}");
        let mut tell = |asked: &[u8]| {
            socket.send(asked, &[]).unwrap();
            door.serve().unwrap();
            let (text, _) = hear(&socket, &path, &|| false).unwrap();
            (String::from_utf8(text).unwrap(), door.refused())
        };
        let many = format!(r#"{{"access":[{}[0,null]]}}"#, "[0,null],".repeat(100));
        let refused: [&[u8]; 5] = [
            b"x",
            br#"{"access":[[-1,null]]}"#,
            br#"{"version":1,"buffer":0}"#,
            br#"{"ttc":{"rate_hz":10000000,"for_ns":10000000000,"ecr_period_ns":0}}"#,
            many.as_bytes(),
        ];
        // Two were turned away before.
        for (asked, count) in refused.into_iter().zip(3_u64..) {
            let (told, refused) = tell(asked);
            assert!(told.starts_with(r#"{"refused":"#), "{told}");
            assert_eq!(refused, count);
        }
        let (told, _) =
            tell(br#"{"access":[[256,7],[256,null],[4294967295,1],[4294967295,null],[0,null]]}"#);
        assert_eq!(told, r#"{"values":[7,0,1810]}"#);
        let (told, _) = tell(br#"{"ttc":{"rate_hz":4294967295,"for_ns":1000,"ecr_period_ns":0}}"#);
        assert!(told.starts_with(r#"{"sent":"#), "{told}");
        let (_, refused) = tell(br#"{"access":[[2304,255]]}"#);
        assert_eq!(refused, 7);
        assert!(door.board_mut().unwrap().0.holds(1));
        drop(socket);
        door.serve().unwrap();
        assert!(!door.is_diagnosed() && !door.board_mut().unwrap().0.holds(1));
    }
}
