//! The program on an interface.

use crate::abi::Key;
use crate::attached::Attached;
use crate::connections::{
    Changed, Config, Connections, Counts, Entry, Export, Inserted, Metadata, Seed, State, Tally,
};
use crate::error::XdpError;
use crate::programs::Programs;
use crate::sys::{Mode, interface_number};

/// A table of connections in the kernel that sees the frames which an interface receives.
///
/// It is taken off when it is dropped, and when the process ends in whatever way. Frames that are counted are dropped below user space and go to nobody else: this is
/// for an interface at a tap or a mirror port, and never for one through which a host is reached.
#[derive(Debug)]
pub struct Offload {
    programs: Programs,
    attached: Attached,
}

impl Offload {
    /// Loads the program and puts it on an interface of this thread's network namespace: into the driver if that can do it, else behind it.
    ///
    /// # Errors
    /// As [`Programs::load`]; there is no such interface, or it has another program, which stays.
    pub fn attach(interface: &str, config: &Config) -> Result<Self, XdpError> {
        let number = interface_number(interface)?;
        let programs = Programs::load(config)?;
        let attached = Attached::put(&programs.connections, interface, number)?;
        Ok(Self { programs, attached })
    }

    /// Where frames meet it.
    pub const fn mode(&self) -> Mode {
        self.attached.mode
    }

    /// Whether it is still where it was put: it may have been taken off, or the interface be gone. What it has counted is there all the same.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn is_attached(&self) -> Result<bool, XdpError> {
        self.attached.is_there()
    }

    /// Takes the program off its interface. What it has counted stays; a frame that is under way through it may still be counted.
    pub fn detach(&mut self) {
        self.attached.take_off();
    }

    /// As [`Programs::set_clock_offset`].
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn set_clock_offset(&self, offset_ns: u64) -> Result<(), XdpError> {
        self.programs.set_clock_offset(offset_ns)
    }
}

impl Connections for Offload {
    fn insert(&mut self, key: &Key, state: State, seed: &Seed) -> Result<Inserted, XdpError> {
        self.programs.insert(key, state, seed)
    }

    fn set(&mut self, key: &Key, state: State, seed: &Seed) -> Result<Changed, XdpError> {
        self.programs.set(key, state, seed)
    }

    fn remove(&mut self, key: &Key) -> Result<Option<Entry>, XdpError> {
        self.programs.remove(key)
    }

    fn collect(&mut self, key: &Key) -> Result<Option<Entry>, XdpError> {
        self.programs.collect(key)
    }

    fn read(&self, key: &Key) -> Result<Option<Entry>, XdpError> {
        self.programs.read(key)
    }

    fn poll_exports(&mut self, most: usize, taken: &mut dyn FnMut(&Export)) -> usize {
        self.programs.poll_exports(most, taken)
    }

    fn poll_metadata(&mut self, most: usize, taken: &mut dyn FnMut(&Metadata)) -> usize {
        self.programs.poll_metadata(most, taken)
    }

    fn held(&self) -> Result<Tally, XdpError> {
        self.programs.held()
    }

    fn counts(&self) -> Result<Counts, XdpError> {
        self.programs.counts()
    }
}
