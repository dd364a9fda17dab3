//! Words of a card's file that are one of several.

use forebay_settings::choices;

choices! {
    /// What blocks a card makes.
    pub(crate) enum BlockWord {
        /// Those of phase 2, of any size.
        Phase2 = "phase2",
        /// Those of phase 1, with words of 16 bits.
        Phase1 = "phase1",
        /// Those of phase 1, with words of 32 bits.
        Phase1Wide = "phase1-wide",
    }
}

choices! {
    /// What a block of links is about.
    pub(crate) enum LinkWord {
        /// Links in FULL mode.
        Full = "full",
        /// E-links of GBT links.
        Gbt = "gbt",
    }
}

choices! {
    /// How triggers are spread in time.
    pub(crate) enum SpreadWord {
        /// All at one distance.
        Fixed = "fixed",
        /// At random.
        Poisson = "poisson",
        /// At random over the filled bunches of an orbit.
        Trains = "trains",
    }
}

choices! {
    /// How long chunks are.
    pub(crate) enum SizeWord {
        /// All of one length.
        Fixed = "fixed",
        /// Any length between two.
        Uniform = "uniform",
        /// Normally distributed.
        Normal = "normal",
        /// With normally distributed logarithms.
        LogNormal = "lognormal",
        /// From one length to another over a number of triggers.
        Ramp = "ramp",
    }
}
