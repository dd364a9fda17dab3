//! States and reasons as the program writes them; tallies; settings.

use super::*;

#[test]
fn states_and_reasons_are_read_as_the_program_writes_them() {
    let states = [State::Data, State::Trim, State::NoData, State::Stat];
    assert_eq!(states.map(|state| State::of(state as u8)), states.map(Some));
    assert_eq!([0, 5, u8::MAX].map(State::of), [None; 3]);
    let reasons = Reason::ALL;
    assert_eq!(
        reasons.map(|reason| Reason::of(reason as u8)),
        reasons.map(Some)
    );
    assert_eq!([0, 6, u8::MAX].map(Reason::of), [None; 3]);
}

#[test]
fn each_reason_has_a_name_and_a_sentence_of_its_own() {
    let names = Reason::ALL.map(Reason::name);
    assert_eq!(names, ["tcp_eof", "active", "idle", "limit", "contended"]);
    for (text, of) in Reason::ALL.map(Reason::help).iter().zip([
        "SYN",
        "active",
        "idle",
        "N packets",
        "other CPUs",
    ]) {
        let what = text.strip_prefix("How often the table told of a flow: ");
        assert!(what.is_some_and(|what| what.contains(of)), "{text}");
    }
}

#[test]
fn an_entry_has_what_was_counted_both_ways() {
    let entry = Entry {
        key: Key::default(),
        frames: [3, 5],
        octets: [700, 1100],
        tcp_flags: [0; 2],
        first_ns: 0,
        last_ns: 0,
        state: State::Stat,
        closed: None,
    };
    let expected = Tally {
        frames: 8,
        octets: 1800,
    };
    assert_eq!(Tally::of(&entry), expected);
}

#[test]
fn a_frame_without_an_end_is_left_over_and_one_with_two_is_lacking() {
    let mut counts = Counts::default();
    for (frames, term) in [(60, Term::Seen), (40, Term::Counted), (20, Term::Protocol)] {
        counts.of[term as usize] = Tally {
            frames,
            octets: frames * 100,
        };
    }
    let residual = |counts: &Counts| (counts.residual_frames(), counts.residual_octets());
    assert_eq!(residual(&counts), (0, 0));
    counts.of[Term::Seen as usize] += Tally {
        frames: 1,
        octets: 90,
    };
    assert_eq!(residual(&counts), (1, 90));
    counts.of[Term::NewFlow as usize] += Tally {
        frames: 3,
        octets: 190,
    };
    assert_eq!(residual(&counts), (-2, -100));
}

#[test]
fn settings_are_checked_at_both_ends() {
    fn with(change: impl FnOnce(&mut Config)) -> Option<String> {
        let mut config = Config::default();
        change(&mut config);
        config.validate().err().map(|error| error.to_string())
    }
    assert_eq!(with(|_| ()), None);
    for right in [1, 1 << 22] {
        assert_eq!(with(|config| config.flows = right), None);
    }
    for wrong in [0, (1 << 22) + 1] {
        assert!(with(|config| config.flows = wrong).is_some_and(|told| told.contains("flows")));
    }
    for (right, wrong) in [(1, 0), (i64::MAX as u64, 1 << 63)] {
        assert_eq!(with(|config| config.idle_timeout_ns = right), None);
        let told = with(|config| config.idle_timeout_ns = wrong);
        assert!(told.is_some_and(|told| told.contains("idle_timeout_ns")));
    }
    assert_eq!(with(|config| config.trim_bytes = 1 << 16), None);
    let told = with(|config| config.trim_bytes = (1 << 16) + 1);
    assert!(told.is_some_and(|told| told.contains("trim_bytes")));
    assert_eq!(with(|config| config.ring_bytes = [4096, 1 << 28]), None);
    for wrong in [2048, 5000, 1 << 29] {
        for rings in [[wrong, 4096], [4096, wrong]] {
            let told = with(|config| config.ring_bytes = rings);
            assert!(told.is_some_and(|told| told.contains("ring_bytes")));
        }
    }
}
