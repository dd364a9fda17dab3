//! The lock of the program for packet sockets, as another CPU would have it; rights.

use super::*;
use crate::connections::Term;

/// 10.0.0.1:50000 to 10.0.0.2:50001 over UDP, "hi".
const FRAME: [u8; 44] = [
    2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 30, 0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0,
    0, 1, 10, 0, 0, 2, 0xc3, 0x50, 0xc3, 0x51, 0, 10, 0, 0, b'h', b'i',
];
const SEED: Seed = Seed {
    heard_ns: 0,
    active_due_ns: u64::MAX,
};

/// The others say that they are skipped where there is no program: that is only right where there is no clang.
#[test]
fn where_clang_is_the_programs_are_built() {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&folders);
    if folders.any(|folder| folder.join("clang").is_file()) {
        assert_eq!(WHY_NOT, "");
    }
}

/// The program with one flow, which is in the first slot.
fn programs() -> Option<(Programs, Key)> {
    let config = Config {
        idle_timeout_ns: i64::MAX.unsigned_abs(),
        ..Config::default()
    };
    let mut programs = match Programs::load_filter(&config, u32::MAX) {
        Ok(programs) => programs,
        Err(error) => {
            let is_known = matches!(
                error,
                XdpError::NotBuilt { .. } | XdpError::NotAllowed { .. } | XdpError::System { .. }
            );
            assert!(is_known, "{error}");
            forebay_testing::skip!("{error} (needs root)");
            return None;
        }
    };
    let end = |host| ([10, 0, 0, host].into(), 49_999 + u16::from(host));
    let (key, _) = Key::of(end(1), end(2), 0, 17);
    programs.insert(&key, State::Stat, &SEED).unwrap();
    assert_eq!(programs.run(&FRAME, 1).unwrap().0, Verdict::Drop);
    Some((programs, key))
}

/// Sets the lock; gives the entry.
fn set_lock(programs: &Programs, lock: u32) -> RawEntry {
    let entries = programs.table.map("entries").unwrap();
    let mut entry = [RawEntry::ZERO];
    entries.first(&mut entry).unwrap();
    entry[0].lock = lock;
    entries.set_first(&entry[0]).unwrap();
    entry[0]
}

/// Frames that found the entry in use, and those that found it closed.
fn up(programs: &Programs) -> [u64; 2] {
    let counts = programs.counts().unwrap();
    [Term::Contended, Term::Closed].map(|term| counts.of(term).frames)
}

#[test]
fn a_frame_that_does_not_get_the_lock_goes_up_and_closes() {
    let Some((mut programs, key)) = programs() else {
        return;
    };
    assert_eq!(set_lock(&programs, 1).contended, 0);
    assert_eq!(programs.run(&FRAME, 1).unwrap().0, Verdict::Pass);
    assert_eq!(up(&programs), [1, 0]);
    assert_eq!(set_lock(&programs, 0).contended, 1);
    // It counts no more, and user space is told of it by the next frame.
    let told = &mut |_: &Export| panic!("too soon");
    assert_eq!(programs.poll_exports(9, told), 0);
    assert_eq!(programs.run(&FRAME, 1).unwrap().0, Verdict::Pass);
    assert_eq!(up(&programs), [1, 1]);
    let mut reasons = Vec::new();
    programs.poll_exports(9, &mut |export| reasons.push(export.reason));
    assert_eq!(reasons, [Reason::Contended]);
    let entry = programs.remove(&key).unwrap().unwrap();
    assert_eq!((entry.frames, entry.octets), ([1, 0], [30, 0]));
    assert_eq!(entry.closed, Some(Reason::Contended));
    // The same slot for the same flow, which is open again.
    programs.insert(&key, State::Stat, &SEED).unwrap();
    assert_eq!(programs.run(&FRAME, 1).unwrap().0, Verdict::Drop);
    assert_eq!(programs.remove(&key).unwrap().unwrap().closed, None);
}

#[test]
fn what_is_closed_without_the_lock_cannot_be_counted() {
    let Some((mut programs, key)) = programs() else {
        return;
    };
    set_lock(&programs, 1);
    programs.run(&FRAME, 1).unwrap();
    set_lock(&programs, 0);
    let changed = programs.set(&key, State::Stat, &SEED).unwrap();
    assert_eq!(changed, Changed::Closed);
}

#[test]
fn the_hand_of_user_space_waits_for_the_lock() {
    let Some((mut programs, key)) = programs() else {
        return;
    };
    set_lock(&programs, 1);
    let command = RawCommand {
        operation: control::REMOVE,
        key,
        ..RawCommand::ZERO
    };
    let mut bytes = [0; size_of::<RawCommand>()];
    let ran = programs.control.run(bytes_of(&command), &mut bytes, 1);
    ran.unwrap();
    let answer: RawCommand = of_bytes(&bytes).unwrap();
    assert_eq!(answer.outcome, control::BUSY);
    // It changed nothing, and does not close what it waits for.
    assert_eq!(set_lock(&programs, 1).contended, 0);
    let entries = programs.table.map("entries").unwrap().again();
    let (going, goes) = std::sync::mpsc::channel();
    let removed = std::thread::scope(|scope| {
        scope.spawn(move || {
            goes.recv().unwrap();
            let mut entry = [RawEntry::ZERO];
            entries.first(&mut entry).unwrap();
            entry[0].lock = 0;
            entries.set_first(&entry[0]).unwrap();
        });
        going.send(()).unwrap();
        programs.remove(&key)
    });
    assert_eq!(removed.unwrap().unwrap().frames, [1, 0]);
}

#[test]
fn a_flow_that_finds_its_slot_locked_is_not_left_behind() {
    let Some((mut programs, key)) = programs() else {
        return;
    };
    programs.remove(&key).unwrap().unwrap();
    set_lock(&programs, 1);
    let slot = programs.table.take_slot();
    assert_eq!(slot, 0);
    let command = RawCommand {
        operation: control::INSERT,
        key,
        slot,
        ..with(State::Stat, &SEED)
    };
    let mut bytes = [0; size_of::<RawCommand>()];
    programs
        .control
        .run(bytes_of(&command), &mut bytes, 1)
        .unwrap();
    let answer: RawCommand = of_bytes(&bytes).unwrap();
    assert_eq!(answer.outcome, control::BUSY);
    assert_eq!(programs.counts().unwrap().held, 0);
    set_lock(&programs, 0);
    programs.table.give_slot(slot);
    let inserted = programs.insert(&key, State::Stat, &SEED).unwrap();
    assert!(matches!(inserted, Inserted::At(_)));
}

/// A frame has found a slot, and meanwhile its flow is taken out and the slot given to another one.
#[test]
fn a_slot_that_was_given_on_counts_nothing_of_the_flow_before() {
    let Some((mut programs, key)) = programs() else {
        return;
    };
    programs.remove(&key).unwrap().unwrap();
    let (other, _) = Key::of(([10, 0, 0, 9].into(), 1), ([10, 0, 0, 8].into(), 2), 0, 17);
    programs.insert(&other, State::Stat, &SEED).unwrap();
    // As the frame still has it: its key leads to the slot of the other.
    programs.table.flows.put(&key, &0_u32);
    assert_eq!(programs.run(&FRAME, 1).unwrap().0, Verdict::Pass);
    assert_eq!(programs.counts().unwrap().of(Term::NewFlow).frames, 1);
    let entry = programs.remove(&other).unwrap().unwrap();
    assert_eq!((entry.frames, entry.closed), ([0, 0], None));
}

#[test]
fn rights_that_lack_are_named() {
    use CapabilitySet as Set;

    let further = [(Set::PERFMON, "CAP_PERFMON")];
    let lacks = |effective| lacking(effective, &further);
    assert_eq!(lacks(Set::SYS_ADMIN), "");
    assert_eq!(lacks(Set::BPF | Set::NET_ADMIN | Set::PERFMON), "");
    assert_eq!(lacks(Set::NET_RAW), "CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON");
    assert_eq!(lacks(Set::BPF | Set::NET_ADMIN), "CAP_PERFMON");
    assert_eq!(lacking(Set::NET_ADMIN, &[]), "CAP_BPF");
}
