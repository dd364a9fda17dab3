//! Reasons for which items are lost, as types: each has a place of its own in an account, which is found by the type and by no number.

use std::marker::PhantomData;
use std::ops::{AddAssign, Index, IndexMut};

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

    /// The one that the ledger calls by this name.
    #[must_use]
    fn named(name: &str) -> Option<Self> {
        Self::all().find(|why| why.name() == name)
    }
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

/// A value for each reason `R`, found by the reason. `N` is how many there are: another number does not compile.
///
/// ```
/// use forebay_ledger::{DropReason, PerReason, reasons};
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
/// let mut lost = PerReason::<SinkDrop, u64, { SinkDrop::COUNT }>::default();
/// lost[SinkDrop::PeerLost] += 3;
/// assert!(lost.iter().eq([(SinkDrop::DiskFull, 0), (SinkDrop::PeerLost, 3)]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerReason<R, T, const N: usize> {
    values: [T; N],
    of: PhantomData<fn() -> R>,
}

impl<R: DropReason, T: Copy, const N: usize> PerReason<R, T, N> {
    const fn of_values(values: [T; N]) -> Self {
        const { assert!(N == R::COUNT, "as many values as there are reasons") };
        let of = PhantomData;
        Self { values, of }
    }

    /// Of each reason what `value` gives for it.
    pub fn from_fn(value: impl FnMut(R) -> T) -> Self {
        let mut all = R::all().map(value);
        let values = [(); N].map(|()| all.next());
        // There are N reasons, by the check above.
        Self::of_values(values.map(|value| value.unwrap_or_else(|| unreachable!())))
    }

    /// The reasons and their values, in the ledger's order.
    pub fn iter(&self) -> impl Iterator<Item = (R, T)> {
        R::all().zip(self.values)
    }

    /// The reasons and their values, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (R, &mut T)> {
        R::all().zip(&mut self.values)
    }

    /// Of each reason what `change` makes of its value.
    #[must_use]
    pub fn map<U: Copy>(&self, change: impl FnMut(T) -> U) -> PerReason<R, U, N> {
        PerReason::of_values(self.values.map(change))
    }
}

impl<R: DropReason, T: Copy + AddAssign + Default, const N: usize> PerReason<R, T, N> {
    /// All values together.
    #[must_use]
    pub fn total(&self) -> T {
        let mut sum = T::default();
        self.values.into_iter().for_each(|value| sum += value);
        sum
    }

    /// Adds to the value of each reason another's.
    pub fn add(&mut self, other: &Self) {
        for (value, more) in self.values.iter_mut().zip(other.values) {
            *value += more;
        }
    }
}

impl<R: DropReason, T: Copy + Default, const N: usize> Default for PerReason<R, T, N> {
    fn default() -> Self {
        Self::of_values([T::default(); N])
    }
}

/// Those that are not named have the value of nothing.
impl<R: DropReason, T: Copy + Default, const N: usize, const M: usize> From<[(R, T); M]>
    for PerReason<R, T, N>
{
    fn from(values: [(R, T); M]) -> Self {
        let mut all = Self::default();
        for (why, value) in values {
            all[why] = value;
        }
        all
    }
}

impl<R: DropReason, T, const N: usize> Index<R> for PerReason<R, T, N> {
    type Output = T;

    fn index(&self, why: R) -> &T {
        &self.values[why.index()]
    }
}

impl<R: DropReason, T, const N: usize> IndexMut<R> for PerReason<R, T, N> {
    fn index_mut(&mut self, why: R) -> &mut T {
        &mut self.values[why.index()]
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
        assert_eq!(Both::named("duplicate"), Some(OneOf::First(Engine::Again)));
        assert_eq!(Both::named("dup"), None);
        let turned = OneOf::<Around, Engine>::all();
        let places: Vec<_> = turned.map(DropReason::index).collect();
        assert_eq!(places, [0, 1, 2]);
        let crash = OneOf::<Engine, _>::Second(OneOf::<_, Lossless>::First(Around::Crash));
        assert_eq!((crash.index(), crash.name()), (2, "receiver_crash"));
    }

    /// A value is found by its reason, and each reason has its own.
    #[test]
    fn each_reason_has_its_own_value() {
        type Lost = PerReason<Both, u64, { Both::COUNT }>;
        let crash = Both::Second(OneOf::First(Around::Crash));
        let again = Both::First(Engine::Again);
        let mut lost = Lost::default();
        lost[again] += 3;
        lost[crash] += 20;
        let found: Vec<_> = lost.iter().map(|(why, sum)| (why.name(), sum)).collect();
        assert_eq!(
            found,
            [("late", 0), ("duplicate", 3), ("receiver_crash", 20)]
        );
        assert_eq!(lost, Lost::from([(crash, 20), (again, 3)]));
        assert_eq!(lost.total(), 23);
        let mut sum = lost;
        sum.add(&lost);
        assert_eq!((sum[again], sum[crash]), (6, 40));
        sum.iter_mut()
            .for_each(|(why, sum)| *sum += why.index() as u64);
        assert_eq!((sum[again], sum[crash]), (7, 42));
        assert_eq!(sum.map(|of| of * 2)[crash], 84);
        let places = PerReason::<Both, usize, 3>::from_fn(DropReason::index);
        assert!(places.iter().all(|(why, at)| why.index() == at));
    }
}
