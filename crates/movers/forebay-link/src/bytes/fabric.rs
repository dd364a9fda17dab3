//! Over libfabric.

mod lending;

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use forebay_fabric::{Config, Endpoint, FabricError, Libfabric, Listener};

use super::{
    Address, ByteLink, ByteLinkError, Door, DoorError, FDS_MAX, Lending, Piece, Received, Room,
    TurnedAway,
};
use lending::Shared;

/// Pages for what is sent by itself. What is sent in pieces has memory of its own.
const SEND_PAGES_MAX: usize = 16;

/// The library, once it could be loaded.
fn library() -> Result<&'static Libfabric, FabricError> {
    static LOADED: OnceLock<Libfabric> = OnceLock::new();
    if let Some(loaded) = LOADED.get() {
        return Ok(loaded);
    }
    let loaded = Libfabric::load()?;
    Ok(LOADED.get_or_init(|| loaded))
}

fn config(room: Room) -> Config {
    Config {
        page_bytes: room.piece_bytes_max,
        receive_pages: room.pieces,
        send_pages: room.pieces.min(SEND_PAGES_MAX),
        region_sends: room.pieces,
        ..Config::default()
    }
}

/// A connection over libfabric. What is written into its [pieces](Lending::pieces) goes out from there; all else is copied into a page of registered
/// memory. What comes is read where the provider put it.
#[derive(Debug)]
pub struct FabricLink {
    endpoint: Endpoint,
    copied_bytes: u64,
    /// Regions of the user's from which the provider sends.
    shared: Vec<Shared>,
    /// Pieces that were copied.
    copied: VecDeque<(u64, Piece)>,
}

impl FabricLink {
    /// Begins to connect.
    ///
    /// # Errors
    /// The library or the provider is missing, or the address none.
    pub fn connect(provider: &str, place: &str, room: Room) -> Result<Self, ByteLinkError> {
        let endpoint = library()?.connect(provider, place, &config(room))?;
        Ok(Self::new(endpoint))
    }

    fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            copied_bytes: 0,
            shared: Vec::new(),
            copied: VecDeque::new(),
        }
    }

    fn unsent(&self, error: FabricError) -> ByteLinkError {
        match error {
            FabricError::AfterEnd => ByteLinkError::Lost {
                peer: self.peer().into(),
                source: io::Error::new(io::ErrorKind::BrokenPipe, FabricError::AfterEnd),
            },
            error => error.into(),
        }
    }
}

impl ByteLink for FabricLink {
    fn send(&mut self, parts: &[&[u8]]) -> Result<usize, ByteLinkError> {
        let taken = self.endpoint.send(parts);
        let taken = taken.map_err(|error| self.unsent(error))?;
        self.copied_bytes += taken as u64;
        Ok(taken)
    }

    fn lending(&mut self) -> Option<&mut dyn Lending> {
        Some(self)
    }

    fn receive(&mut self) -> Result<Received, ByteLinkError> {
        if !self.endpoint.bytes().is_empty() {
            return Err(ByteLinkError::Broken {
                peer: self.peer().into(),
                what: "a piece ends within a frame",
            });
        }
        Ok(match self.endpoint.receive()? {
            forebay_fabric::Received::Some => Received::Some,
            forebay_fabric::Received::Nothing => Received::Nothing,
            forebay_fabric::Received::Ended => Received::Ended,
        })
    }

    fn bytes(&self) -> &[u8] {
        self.endpoint.bytes()
    }

    fn used(&mut self, count: usize) {
        self.endpoint.used(count);
    }

    fn expect(&mut self, bytes_max: usize) -> Result<(), ByteLinkError> {
        // Pages are posted before the connection is made: what they hold is fixed.
        let most = self.endpoint.config().page_bytes;
        if bytes_max > most {
            let bytes = bytes_max;
            return Err(ByteLinkError::TooLong { bytes, most });
        }
        Ok(())
    }

    fn lingers(&mut self) -> bool {
        self.endpoint.drains()
    }

    fn finish(&mut self) {
        self.endpoint.finish();
    }

    fn arm(&mut self, for_room: bool) -> Result<bool, ByteLinkError> {
        Ok(self.endpoint.arm(for_room)? && self.copied.is_empty())
    }

    fn fds(&self) -> [Option<BorrowedFd<'_>>; FDS_MAX] {
        self.endpoint.fds()
    }

    fn must_be_polled(&self) -> bool {
        self.endpoint.must_be_polled()
    }

    fn copied_bytes(&self) -> u64 {
        self.copied_bytes
    }

    fn peer(&self) -> &str {
        self.endpoint.peer()
    }
}

/// Where connections over libfabric come in.
#[derive(Debug)]
pub struct FabricDoor {
    listener: Listener,
    provider: String,
}

impl FabricDoor {
    /// Listens.
    ///
    /// # Errors
    /// The library or the provider is missing, or the address cannot be had.
    pub fn listen(provider: &str, place: &str, room: Room) -> Result<Self, DoorError> {
        let listener = library()?.listen(provider, place, &config(room))?;
        Ok(Self {
            listener,
            provider: provider.into(),
        })
    }
}

impl Door for FabricDoor {
    fn accept(&mut self) -> Result<Option<Box<dyn ByteLink>>, DoorError> {
        let came = self.listener.accept()?;
        Ok(came.map(|endpoint| Box::new(FabricLink::new(endpoint)) as Box<dyn ByteLink>))
    }

    fn address(&self) -> Result<Address, DoorError> {
        Ok(Address::Fabric {
            provider: self.provider.clone(),
            place: self.listener.local_address()?,
        })
    }

    fn fds(&self) -> [Option<BorrowedFd<'_>>; FDS_MAX] {
        [self.listener.fd(), None]
    }

    fn turned_away(&self) -> TurnedAway {
        let totals = self.listener.totals();
        TurnedAway {
            malformed: totals.refused,
            given_up: totals.given_up,
            ..TurnedAway::default()
        }
    }

    fn must_be_polled(&self) -> bool {
        self.listener.must_be_polled()
    }
}
