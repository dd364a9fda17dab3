//! The reference of all files that `forebay` takes: `forebay check --reference` and `docs/CONFIGURATION.md`.

use forebay_config::ConfigFile;
use forebay_config::reference::{File, markdown};
use forebay_run::chain;
use forebay_run_emu::card::CardPlan;
use forebay_run_emu::validate::BatchPlan;
use forebay_run_evb::config::SECTIONS;
use forebay_run_felix::toflx::ToFlxPlan;
use forebay_run_felix::tohost::ToHostFile;

/// Kinds of files, and what takes them.
const FILES: [File; 6] = [
    File {
        name: "A chain",
        command: "forebay evb FILE.toml",
        sections: SECTIONS,
    },
    File {
        name: "A chain of programs",
        command: "forebay run FILE.toml",
        sections: chain::SECTIONS,
    },
    File {
        name: "A card",
        command: "forebay emulate card FILE.toml",
        sections: CardPlan::SECTIONS,
    },
    File {
        name: "To-host",
        command: "forebay tohost FILE.toml",
        sections: ToHostFile::SECTIONS,
    },
    File {
        name: "A batch of cards",
        command: "forebay card validate FILE.toml",
        sections: BatchPlan::SECTIONS,
    },
    File {
        name: "To-flx",
        command: "forebay toflx FILE.toml",
        sections: ToFlxPlan::SECTIONS,
    },
];

/// All of it, in Markdown.
pub(crate) fn text() -> String {
    markdown(&FILES)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_document_holds_the_reference() {
        let path = forebay_testing::root().join("docs/CONFIGURATION.md");
        let text = std::fs::read_to_string(&path).unwrap();
        let marks = ["<!-- reference: begin -->\n\n", "\n<!-- reference: end -->"];
        let (head, rest) = text.split_once(marks[0]).unwrap();
        let (found, tail) = rest.split_once(marks[1]).unwrap();
        let made = super::text();
        if found != made && std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, [head, marks[0], &made, marks[1], tail].concat()).unwrap();
            return;
        }
        for (found, made) in found.lines().zip(made.lines()) {
            assert_eq!(found, made, "UPDATE_DOCS=1 with this test writes it anew");
        }
        assert_eq!(
            found.len(),
            made.len(),
            "UPDATE_DOCS=1 with this test writes it anew"
        );
    }
}
