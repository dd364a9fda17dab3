//! What must hold for any bytes taken as a request at the control socket of the multiplexer. Shared by the fuzz target and by the test that replays its corpus.

use forebay_run_mux::MuxPlan;
use forebay_run_mux::config::{ClassSettings, ClientSettings};
use forebay_run_mux::control::{Change, RecordError, Request, Target};
use forebay_settings::Settings;

const FILE: &str = "[mux]\ninterface = \"none\"\nreceive_buffers = 64\ntransmit_buffers = 16\n\
    [[classes]]\npolicy = \"token-bucket\"\n[[classes]]\n\
    [[clients]]\nname = \"a\"\nuid = 1\nmac = \"02:00:00:00:00:01\"\nqueue = 16\n\
    [[clients]]\nname = \"b\"\nuid = 2\nmac = \"02:00:00:00:00:02\"\nqueue = 16\nclass = 1\n";

/// Whether a key of a client or a class was said.
fn is_said(changes: &[Change], is_of: impl Fn(&Target) -> bool, key: &str) -> bool {
    changes
        .iter()
        .any(|change| is_of(&change.of) && change.keys.contains_key(key))
}

/// All that was not said is what it was.
fn assert_rest(before: &MuxPlan, after: &MuxPlan, changes: &[Change]) {
    assert_eq!(before.clients.len(), after.clients.len());
    for (old, new) in before.clients.iter().zip(&after.clients) {
        for key in ClientSettings::SECTION.keys {
            let is_of =
                |of: &Target| matches!(of, Target::Client(name) if Some(name) == old.name.as_ref());
            let is_same = old.get(key.name) == new.get(key.name);
            assert!(is_same || is_said(changes, is_of, key.name), "{}", key.name);
        }
    }
    assert_eq!(before.classes.len(), after.classes.len());
    for (number, (old, new)) in (0..).zip(before.classes.iter().zip(&after.classes)) {
        for key in ClassSettings::SECTION.keys {
            let is_same = old.get(key.name) == new.get(key.name);
            let is_of = |of: &Target| *of == Target::Class(number);
            assert!(is_same || is_said(changes, is_of, key.name), "{}", key.name);
        }
    }
}

fn check_changes(changes: &[Change]) {
    let plan: MuxPlan = forebay_config::parse("mux.toml", FILE).expect("a file");
    match plan.changed(changes) {
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            for told in &mistakes {
                let texts = [&told.wrong, &told.right, &told.remedy];
                assert!(texts.iter().all(|text| !text.is_empty()), "{told}");
            }
        }
        Ok((new, changed)) => {
            let said = changes.iter().map(|change| change.keys.len());
            assert_eq!(changed.len(), said.sum::<usize>());
            assert_rest(&plan, &new, changes);
            // It can stand: the same again is taken, and changes nothing.
            let (again, same) = new.changed(changes).expect("what was taken before");
            assert_rest(&new, &again, &[]);
            for (change, same) in changed.iter().zip(&same) {
                assert_eq!((&same.before, &same.now), (&change.now, &change.now));
            }
        }
    }
}

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let found = Request::parse(bytes);
    let is_head = bytes.len() >= 8 && bytes.starts_with(b"FBMC") && bytes[6..8] == [1, 0];
    match found {
        Ok(request) => {
            assert!(is_head && bytes[4..6] == [1, 0] && bytes.len() <= 16 << 10);
            let again = Request::parse(&request.emit().expect("as long at most"));
            assert_eq!(again.as_ref(), Ok(&request));
            if let Request::Set(changes) = &request {
                check_changes(changes);
            }
        }
        Err(RecordError::Head) => assert!(!is_head),
        Err(why) => assert!(!why.to_string().is_empty()),
    }
}
