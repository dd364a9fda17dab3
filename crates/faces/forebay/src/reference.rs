//! The reference of all files that `forebay` takes: `forebay check --reference` and `docs/CONFIGURATION.md`.

use forebay_config::ConfigFile;
use forebay_config::reference::{File, markdown};
use forebay_run::chain;
use forebay_run_emu::validate::BatchPlan;

use crate::model::ParametersFile;
use crate::run::PROGRAMS;

/// All of it, in Markdown: the programs, chains of them, and batches of cards.
pub(crate) fn text() -> String {
    let programs = PROGRAMS.iter().map(|program| File {
        name: program.title,
        command: program.command,
        sections: program.kind.sections,
    });
    let others = [
        File {
            name: "A chain of programs",
            command: "forebay run FILE.toml",
            sections: chain::SECTIONS,
        },
        File {
            name: "A batch of cards",
            command: "forebay card validate FILE.toml",
            sections: BatchPlan::SECTIONS,
        },
        File {
            name: "The model of a connection table",
            command: "forebay model ctt --parameters FILE.toml",
            sections: ParametersFile::SECTIONS,
        },
    ];
    markdown(&programs.chain(others).collect::<Vec<_>>())
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
