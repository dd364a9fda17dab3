//! Words of a card's file that are one of several.

use forebay_settings::choices;

choices! {
    /// What blocks a card makes.
    pub enum BlockWord {
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
    pub enum LinkWord {
        /// Links in FULL mode.
        Full = "full",
        /// E-links of GBT links.
        Gbt = "gbt",
    }
}

choices! {
    /// How triggers are spread in time.
    pub enum SpreadWord {
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
    pub enum SizeWord {
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

choices! {
    /// How packets to front ends say their length.
    pub enum PacketWord {
        /// In bytes.
        Rm5 = "rm5",
        /// In words of 16 bits.
        Rm4 = "rm4",
    }
}

choices! {
    /// What helps against a defect.
    pub enum CureWord {
        /// Nothing.
        None = "none",
        /// Taking the card out and putting it in.
        Reseat = "reseat",
        /// Loading the firmware.
        Reprogram = "reprogram",
        /// Cleaning fibres.
        CleanFibre = "clean_fibre",
        /// Plugging fibres as they should be.
        Replug = "replug",
        /// Another transceiver.
        Transceiver = "transceiver",
        /// Soldering.
        Resolder = "resolder",
    }
}
