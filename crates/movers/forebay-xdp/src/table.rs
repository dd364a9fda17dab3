//! The maps that have the flows: keys to entries, or, where the kernel locks no entry for us, keys to slots of an array (`filter.bpf.h` says why).

use crate::abi::{Key, RawEntry};
use crate::btf;
use crate::error::XdpError;
use crate::sys::{Kind, Map, MapKind, MapSpec, load_types};

/// The slot that is told where there is none: the kernel does not look at it.
const NO_SLOT: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) flows: Map,
    slots: Option<Slots>,
}

/// Entries that are of no flow are free. What knows them is user space alone.
#[derive(Debug)]
struct Slots {
    entries: Map,
    free: Vec<u32>,
}

pub(crate) const fn spec(
    name: &'static str,
    kind: MapKind,
    sizes: [usize; 2],
    entries: u32,
) -> MapSpec {
    MapSpec {
        name,
        kind,
        key_bytes: sizes[0] as u32,
        value_bytes: sizes[1] as u32,
        entries,
    }
}

impl Table {
    /// Makes it, empty, with room for so many flows.
    pub(crate) fn new(kind: Kind, room: u32) -> Result<Self, XdpError> {
        let (key, value) = (size_of::<Key>(), size_of::<RawEntry>());
        if kind == Kind::Filter {
            let slots = Slots {
                entries: Map::new(spec("entries", MapKind::Array, [4, value], room), None)?,
                free: (0..room).rev().collect(),
            };
            return Ok(Self {
                flows: Map::new(spec("flows", MapKind::Hash, [key, 4], room), None)?,
                slots: Some(slots),
            });
        }
        let lock_at = std::mem::offset_of!(RawEntry, lock);
        let types = load_types(&btf::of_map(key as u32, value as u32, lock_at as u32))?;
        let types = (&types, btf::KEY_TYPE, btf::VALUE_TYPE);
        let flows = spec("flows", MapKind::Hash, [key, value], room);
        Ok(Self {
            flows: Map::new(flows, Some(types))?,
            slots: None,
        })
    }

    /// The map that programs call so, if it is one of these.
    pub(crate) fn map(&self, called: &str) -> Option<&Map> {
        match called {
            "flows" => Some(&self.flows),
            "entries" => self.slots.as_ref().map(|slots| &slots.entries),
            _ => None,
        }
    }

    /// A slot for a flow that is new. There is none if all are in use, and the table is full then.
    pub(crate) fn take_slot(&mut self) -> u32 {
        let free = self.slots.as_mut().and_then(|slots| slots.free.pop());
        free.unwrap_or(NO_SLOT)
    }

    /// A slot is of no flow any more.
    pub(crate) fn give_slot(&mut self, slot: u32) {
        if let Some(slots) = &mut self.slots
            && slot != NO_SLOT
        {
            slots.free.push(slot);
        }
    }
}
