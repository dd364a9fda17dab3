//! The mover's file.

use std::net::SocketAddr;
use std::path::PathBuf;

use forebay_config::{ConfigFile, Document, Sections};
use forebay_run::chain::{Joints, Member};
use forebay_settings::{Settings as _, settings};
use forebay_sink::FilePlan;

use crate::MoverPlan;

/// Shortest time that a silent connection is kept, in ms: with less, senders would do nothing but connect.
pub const IDLE_LIMIT_MIN_MS: u64 = 100;

settings! {
    /// The mover: writes HLD files of what event builders send it.
    pub struct MoverSettings in [mover] {
        /// Where event builders connect, as a sink of kind `tcp` names it. Nothing is encrypted, and senders are not authenticated: use a network of your own.
        listen: Option<SocketAddr>,
        /// Where files and ledgers lie. Made if it is not there.
        directory: PathBuf = "forebay-mover".into(),
        /// Letters at the front of file names.
        prefix: String = "be".into(),
        /// Number of the event builder at the end of file names.
        builder_number: u8 [0..=99] = 1,
        /// Flushes each block to the device before it is acknowledged (against power loss).
        sync: bool = false,
        /// Ends when one stream has ended in order.
        once: bool = false,
        /// How long a connection is kept on which nothing comes: its sender may be gone without a word.
        idle_limit_ms: u64 [IDLE_LIMIT_MIN_MS..=86_400_000] = 300_000,
    }
}

impl ConfigFile for MoverPlan {
    const SECTIONS: Sections = &[MoverSettings::SECTION];

    fn of(document: &Document<'_>) -> Option<Self> {
        let (said, block) = document.one::<MoverSettings>();
        if !block.has("listen") {
            block.complain_whole(
                "its address is not named",
                "the address at which event builders connect",
                "add listen = \"127.0.0.1:9400\"",
            );
        }
        Some(Self {
            listen: said.listen?,
            file: FilePlan {
                prefix: said.prefix,
                builder_number: said.builder_number,
                sync: said.sync,
                ..FilePlan::of_streams(said.directory)
            },
            once: said.once,
            idle_limit_ms: said.idle_limit_ms,
        })
    }
}

impl Member for MoverPlan {
    const KIND: &'static str = "mover";
    const DIRECTORY: &'static str = "mover.directory";

    fn joints(&self) -> Joints {
        Joints {
            listens: vec![format!("tcp://{}", self.listen)],
            ..Joints::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_config::parse;

    use super::*;

    #[test]
    fn a_file_comes_to_the_plan_that_it_says() {
        let plan = parse::<MoverPlan>(
            "mover.toml",
            "[mover]\nlisten = \"127.0.0.1:9400\"\ndirectory = \"d\"\nsync = true\nidle_limit_ms = 100\n",
        );
        let plan = plan.unwrap();
        assert_eq!((plan.listen.port(), plan.idle_limit_ms), (9400, 100));
        assert!(plan.file.sync && !plan.once);
        assert_eq!(plan.file.directory, PathBuf::from("d"));
        assert_eq!(plan.joints().listens, ["tcp://127.0.0.1:9400"]);
    }

    #[test]
    fn a_file_without_an_address_is_told_what_lacks() {
        let told = parse::<MoverPlan>("mover.toml", "[mover]\nidle_limit_ms = 99\n");
        let told = told.unwrap_err().to_string();
        assert!(told.contains("its address is not named"), "{told}");
        assert!(told.contains("idle_limit_ms"), "{told}");
    }
}
