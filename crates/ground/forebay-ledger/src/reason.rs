//! Reasons for which items are lost, as types: each has a place of its own in an account, which is found by the type and by no number.

/// Why an account loses items. Made by [`reasons!`](crate::reasons!).
pub trait DropReason: Copy + 'static {
    /// How many there are.
    const COUNT: usize;

    /// All of them, in the order in which the ledger has them.
    fn all() -> impl Iterator<Item = Self>;

    /// Its name in the ledger.
    fn name(self) -> &'static str;

    /// Its place among all of them.
    fn index(self) -> usize;
}

/// The reasons of two, for an account that an engine and its surroundings share: first all of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneOf<A, B> {
    /// One of the first.
    First(A),
    /// One of the second.
    Second(B),
}

impl<A: DropReason, B: DropReason> DropReason for OneOf<A, B> {
    const COUNT: usize = A::COUNT + B::COUNT;

    fn all() -> impl Iterator<Item = Self> {
        let first = A::all().map(Self::First);
        first.chain(B::all().map(Self::Second))
    }

    fn name(self) -> &'static str {
        match self {
            Self::First(why) => why.name(),
            Self::Second(why) => why.name(),
        }
    }

    fn index(self) -> usize {
        match self {
            Self::First(why) => why.index(),
            Self::Second(why) => A::COUNT + why.index(),
        }
    }
}

/// Of an account that loses nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lossless {}

impl DropReason for Lossless {
    const COUNT: usize = 0;

    fn all() -> impl Iterator<Item = Self> {
        std::iter::empty()
    }

    fn name(self) -> &'static str {
        match self {}
    }

    fn index(self) -> usize {
        match self {}
    }
}

/// Declares reasons to lose items, each with its name in the ledger, and makes them a [`DropReason`](crate::DropReason).
///
/// ```
/// use forebay_ledger::{DropReason, reasons};
///
/// reasons! {
///     /// Why a sink loses events.
///     pub enum SinkDrop {
///         /// There is no room on the disk.
///         DiskFull = "disk_full",
///         /// The other side is gone.
///         PeerLost = "peer_lost",
///     }
/// }
/// assert_eq!(SinkDrop::PeerLost.name(), "peer_lost");
/// assert!(SinkDrop::all().eq([SinkDrop::DiskFull, SinkDrop::PeerLost]));
/// ```
#[macro_export]
macro_rules! reasons {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$of:meta])* $reason:ident = $text:expr),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$of])* $reason),+
        }

        impl $name {
            /// All reasons, in the ledger's order.
            $vis const ALL: &'static [Self] = &[$(Self::$reason),+];

            /// The reason's name in the ledger.
            #[must_use]
            $vis const fn name(self) -> &'static str {
                match self {
                    $(Self::$reason => $text),+
                }
            }
        }

        impl $crate::DropReason for $name {
            const COUNT: usize = Self::ALL.len();

            fn all() -> impl Iterator<Item = Self> {
                Self::ALL.iter().copied()
            }

            fn name(self) -> &'static str {
                Self::name(self)
            }

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    reasons! {
        /// Of an engine.
        enum Engine {
            /// Behind its time.
            Late = "late",
            /// Seen before.
            Again = "duplicate",
        }
    }

    reasons! {
        enum Around {
            Crash = "receiver_crash",
        }
    }

    type Both = OneOf<Engine, OneOf<Around, Lossless>>;

    /// Each is where the names say that it is.
    #[test]
    fn reasons_of_two_stand_one_behind_the_other() {
        let names: Vec<_> = Both::all().map(DropReason::name).collect();
        assert_eq!(names, ["late", "duplicate", "receiver_crash"]);
        assert_eq!(Both::COUNT, 3);
        let places: Vec<_> = Both::all().map(DropReason::index).collect();
        assert_eq!(places, [0, 1, 2]);
        let turned = OneOf::<Around, Engine>::all();
        let places: Vec<_> = turned.map(DropReason::index).collect();
        assert_eq!(places, [0, 1, 2]);
        let crash = OneOf::<Engine, _>::Second(OneOf::<_, Lossless>::First(Around::Crash));
        assert_eq!((crash.index(), crash.name()), (2, "receiver_crash"));
    }
}
