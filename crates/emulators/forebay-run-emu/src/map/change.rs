//! Changes the map in the text of a card's file; what it does not change stays as it was written, remarks too.

use forebay_config::{Mistakes, parse};
use forebay_wire::felix::Elink;
use thiserror::Error;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, value};

use crate::card::CardPlan;

/// What is to become of some E-links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Whole links, in FULL mode.
    pub links: Vec<u16>,
    /// E-links of GBT links.
    pub elinks: Vec<Elink>,
    /// They are taken out.
    pub remove: bool,
    /// Where their blocks go.
    pub dma_buffer: Option<u8>,
    /// Bits of each 25 ns, for E-links of GBT links.
    pub width_bits: Option<u8>,
    /// First byte of their chunks.
    pub stream: Option<u8>,
}

/// Why a file is not changed.
#[derive(Debug, Error)]
pub enum ChangeError {
    /// It has mistakes, before or after.
    #[error("{0}")]
    Mistakes(#[from] Mistakes),
    /// It cannot be edited.
    #[error("{file} is not TOML: {source}")]
    Toml {
        /// The file.
        file: String,
        /// What is wrong.
        source: toml_edit::TomlError,
    },
    /// The map is written in a way that is not edited.
    #[error(
        "{file}: links are written in one line, as links = [{{ … }}]; write each of them below [[links]] to have them changed"
    )]
    Inline {
        /// The file.
        file: String,
    },
    /// Nothing is named.
    #[error(
        "no E-link is named; give --links 0-5 for whole links, or --elinks 0x40,0x48 for those of GBT links"
    )]
    Nothing,
}

/// The text of the card's file called `file`, changed. Each E-link that is named leaves the block that it stands in, and comes into a block of its own kind; one that was
/// in none is new.
///
/// # Errors
/// The file has mistakes, or would have.
pub fn change(file: &str, text: &str, change: &Change) -> Result<String, ChangeError> {
    if change.links.is_empty() && change.elinks.is_empty() {
        return Err(ChangeError::Nothing);
    }
    parse::<CardPlan>(file, text)?;
    let mut document: DocumentMut = text.parse().map_err(|source| ChangeError::Toml {
        file: file.to_owned(),
        source,
    })?;
    let blocks = document
        .entry("links")
        .or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    let Some(blocks) = blocks.as_array_of_tables_mut() else {
        return Err(ChangeError::Inline {
            file: file.to_owned(),
        });
    };
    let elinks: Vec<u16> = change.elinks.iter().map(|elink| elink.number()).collect();
    for (key, kind, numbers) in [("links", "full", &change.links), ("elinks", "gbt", &elinks)] {
        // What is not asked for stays as it was.
        let mut groups: Vec<(Kept, Vec<u16>)> = Vec::new();
        for number in numbers.iter().copied() {
            let kept = kept(blocks, key, number);
            match groups.iter_mut().find(|(of, _)| *of == kept) {
                Some((_, numbers)) => numbers.push(number),
                None => groups.push((kept, vec![number])),
            }
        }
        take_out(blocks, key, numbers);
        if !change.remove {
            for (kept, numbers) in groups {
                blocks.push(block(change, key, kind, &numbers, kept));
            }
        }
    }
    let changed = document.to_string();
    parse::<CardPlan>(file, &changed)?;
    Ok(changed)
}

/// Keys of a block that a change may leave as they were.
type Kept = [Option<i64>; 3];
const KEPT: [&str; 3] = ["dma_buffer", "width_bits", "stream"];

/// What the block of a number says.
fn kept(blocks: &ArrayOfTables, key: &str, number: u16) -> Kept {
    let has = |block: &&Table| {
        let list = block.get(key).and_then(Item::as_array);
        list.is_some_and(|list| {
            list.iter()
                .any(|one| one.as_integer() == Some(number.into()))
        })
    };
    let found = blocks.iter().find(has);
    KEPT.map(|name| found?.get(name)?.as_integer())
}

/// Takes numbers out of all blocks; one that has none left goes.
fn take_out(blocks: &mut ArrayOfTables, key: &str, numbers: &[u16]) {
    for block in blocks.iter_mut() {
        let Some(list) = block.get_mut(key).and_then(Item::as_array_mut) else {
            continue;
        };
        list.retain(|one| {
            let number = one.as_integer().and_then(|one| u16::try_from(one).ok());
            number.is_none_or(|number| !numbers.contains(&number))
        });
    }
    blocks.retain(|block| {
        let list = block.get(key).and_then(Item::as_array);
        list.is_none_or(|list| !list.is_empty())
    });
}

fn block(change: &Change, key: &str, kind: &str, numbers: &[u16], kept: Kept) -> Table {
    let mut block = Table::new();
    if kind != "full" {
        block.insert("kind", value(kind));
    }
    let list: Array = numbers.iter().map(|number| i64::from(*number)).collect();
    block.insert(key, value(list));
    let asked = [change.dma_buffer, change.width_bits, change.stream];
    for ((name, asked), kept) in KEPT.into_iter().zip(asked).zip(kept) {
        let number = asked.map(i64::from).or(kept);
        if let Some(number) = number.filter(|_| kind != "full" || name != "width_bits") {
            block.insert(name, value(number));
        }
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        "# A card.\n[card]\ndma_buffers = 2 # two of them\n\n[[links]]\nlinks = [0, 1, 2]\n";

    fn map(text: &str) -> Vec<(u16, usize)> {
        let plan = parse::<CardPlan>("card.toml", text).unwrap();
        let elinks = plan.config.elinks.iter();
        let mut map: Vec<_> = elinks.map(|one| (one.elink.number(), one.buffer)).collect();
        map.sort_unstable();
        map
    }

    #[test]
    fn e_links_move_come_and_go_and_remarks_stay() {
        let to_second = Change {
            links: vec![1, 5],
            dma_buffer: Some(1),
            ..Change::default()
        };
        let moved = change("card.toml", FILE, &to_second).unwrap();
        assert_eq!(map(&moved), [(0, 0), (64, 1), (128, 0), (320, 1)]);
        assert!(
            moved.starts_with("# A card.") && moved.contains("# two of them"),
            "{moved}"
        );
        let slow = Change {
            elinks: vec![Elink::new(0x208).unwrap()],
            width_bits: Some(16),
            ..Change::default()
        };
        let added = change("card.toml", &moved, &slow).unwrap();
        assert!(
            added.contains("kind = \"gbt\"") && added.contains("width_bits = 16"),
            "{added}"
        );
        // What is not asked for stays.
        let again = Change {
            elinks: slow.elinks.clone(),
            dma_buffer: Some(1),
            ..Change::default()
        };
        let kept = change("card.toml", &added, &again).unwrap();
        assert!(kept.contains("width_bits = 16"), "{kept}");
        let gone = Change {
            links: vec![0, 2],
            remove: true,
            ..Change::default()
        };
        let left = change("card.toml", &added, &gone).unwrap();
        assert_eq!(map(&left), [(64, 1), (320, 1), (0x208, 0)]);
    }

    #[test]
    fn what_would_be_no_card_is_refused_with_what_would_be_right() {
        let refused = |change_to: Change| {
            change("card.toml", FILE, &change_to)
                .unwrap_err()
                .to_string()
        };
        assert!(refused(Change::default()).contains("--links 0-5"));
        let third = Change {
            links: vec![0],
            dma_buffer: Some(2),
            ..Change::default()
        };
        assert!(refused(third).contains("no such buffer"));
        let all = Change {
            links: vec![0, 1, 2],
            remove: true,
            ..Change::default()
        };
        assert!(refused(all).contains("no link is named"));
        let inline = "links = [{ links = [0, 1] }]\n";
        let first = Change {
            links: vec![0],
            ..Change::default()
        };
        let refused_inline = change("card.toml", inline, &first).unwrap_err();
        assert!(refused_inline.to_string().contains("[[links]]"));
        let odd = Change {
            elinks: vec![Elink::new(8).unwrap()],
            width_bits: Some(3),
            ..Change::default()
        };
        assert!(refused(odd).contains("power of two"));
    }
}
