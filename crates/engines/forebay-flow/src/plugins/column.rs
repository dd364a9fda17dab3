//! What the fields of plugins are called, and what kind they are.

use forebay_wire::ipfix::Element;

/// The enterprise of elements that neither IANA nor CESNET has numbered: the one that RFC 5612 keeps for examples, until there is a number of our own.
pub const PRIVATE_ENTERPRISE: u32 = 32_473;
/// CESNET, whose collectors and probe have elements with these meanings.
const CESNET: u32 = 8_057;

/// How the value of a column is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number of so many bytes.
    Unsigned(u16),
    /// A number with a fraction, 64 bits (IEEE 754).
    Float,
    /// A text, UTF-8.
    Text,
    /// Any bytes.
    Octets,
    /// Numbers of so many bytes each.
    Unsigneds(u16),
    /// Numbers with a sign, of one byte each.
    Signeds,
}

/// A field of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its key in JSON. Its unit, if it has one, is the last part.
    pub name: &'static str,
    /// Its element in IPFIX: of a list, that of what is in it.
    pub element: Element,
    /// How its value is written.
    pub kind: Kind,
}

impl Column {
    /// One of IANA's.
    pub(super) const fn iana(name: &'static str, id: u16, kind: Kind) -> Self {
        Self::of(name, 0, id, kind)
    }

    /// One of IANA's, of the direction to the initiator.
    pub(super) const fn reverse(name: &'static str, id: u16, kind: Kind) -> Self {
        Self::of(name, forebay_wire::ipfix::REVERSE_ENTERPRISE, id, kind)
    }

    /// One of CESNET's.
    pub(super) const fn cesnet(name: &'static str, id: u16, kind: Kind) -> Self {
        Self::of(name, CESNET, id, kind)
    }

    /// One of ours.
    pub(super) const fn own(name: &'static str, id: u16, kind: Kind) -> Self {
        Self::of(name, PRIVATE_ENTERPRISE, id, kind)
    }

    const fn of(name: &'static str, enterprise: u32, id: u16, kind: Kind) -> Self {
        Self {
            name,
            element: Element { enterprise, id },
            kind,
        }
    }
}
