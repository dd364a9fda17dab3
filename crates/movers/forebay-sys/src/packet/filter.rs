//! Filters of packet sockets, as programs of the kernel's first kind (`linux/filter.h`): the value of one is how many bytes of a packet are taken.

use std::os::fd::BorrowedFd;

use super::socket::set_plain;

/// Loads a word of 1, 2 or 4 bytes.
const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const IS_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const HAS_BITS: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
/// Where the kernel keeps a packet's kind by its address (`PACKET_HOST` and others).
const KIND: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE).cast_unsigned();
/// The packet is for this interface.
const FOR_US: u32 = libc::PACKET_HOST as u32;
/// Offset of the sender in a frame of Ethernet, and the bit of its first byte that a group has.
const SENDER: u32 = 6;
const GROUP: u32 = 1;

/// Lets in so many bytes of each packet.
pub(super) fn limit(fd: BorrowedFd<'_>, snap_bytes: u32) -> std::io::Result<()> {
    attach(fd, &mut [step(RETURN, snap_bytes, 0, 0)])
}

/// Lets in frames for the interface itself, from one station or from all that are one.
pub(super) fn addressed(fd: BorrowedFd<'_>, from: Option<[u8; 6]>) -> std::io::Result<()> {
    attach(fd, &mut addressed_steps(from))
}

fn addressed_steps(from: Option<[u8; 6]>) -> Vec<libc::sock_filter> {
    let [takes, takes_none] = [u32::MAX, 0].map(|bytes| step(RETURN, bytes, 0, 0));
    let kind = step(LOAD_BYTE, KIND, 0, 0);
    match from {
        Some([a, b, c, d, e, f]) => vec![
            kind,
            step(IS_EQUAL, FOR_US, 0, 5),
            step(LOAD_WORD, SENDER, 0, 0),
            step(IS_EQUAL, u32::from_be_bytes([a, b, c, d]), 0, 3),
            step(LOAD_HALF, SENDER + 4, 0, 0),
            step(IS_EQUAL, u16::from_be_bytes([e, f]).into(), 0, 1),
            takes,
            takes_none,
        ],
        None => vec![
            kind,
            step(IS_EQUAL, FOR_US, 0, 3),
            step(LOAD_BYTE, SENDER, 0, 0),
            step(HAS_BITS, GROUP, 1, 0),
            takes,
            takes_none,
        ],
    }
}

/// One instruction, with how many are passed over where its condition holds and where it does not.
fn step(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    let code = code as u16;
    libc::sock_filter { code, jt, jf, k }
}

fn attach(fd: BorrowedFd<'_>, steps: &mut [libc::sock_filter]) -> std::io::Result<()> {
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // The kernel copies the instructions within the call.
    set_plain(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATION: [u8; 6] = [2, 0x10, 0x20, 0x30, 0x40, 0x50];

    /// What a program says of a frame of this kind, by the rules of its machine.
    fn run(steps: &[libc::sock_filter], kind: u32, frame: &[u8]) -> u32 {
        let (mut at, mut word) = (0, 0);
        loop {
            let it = steps[at];
            at += 1;
            let load = |bytes: usize| {
                let from = it.k as usize;
                let found = frame.get(from..from + bytes)?;
                Some(
                    found
                        .iter()
                        .fold(0, |sum, byte| sum << 8 | u32::from(*byte)),
                )
            };
            let jump = |holds: bool| usize::from(if holds { it.jt } else { it.jf });
            let loaded = match u32::from(it.code) {
                LOAD_BYTE if it.k == KIND => Some(kind),
                LOAD_BYTE => load(1),
                LOAD_HALF => load(2),
                LOAD_WORD => load(4),
                IS_EQUAL => {
                    at += jump(word == it.k);
                    continue;
                }
                HAS_BITS => {
                    at += jump(word & it.k != 0);
                    continue;
                }
                _ => return it.k,
            };
            // What lies behind the end of a frame ends the program with 0.
            match loaded {
                Some(loaded) => word = loaded,
                None => return 0,
            }
        }
    }

    fn frame(from: [u8; 6]) -> Vec<u8> {
        [&[9; 6][..], &from, &[0x88, 0xb5, 1, 2, 3]].concat()
    }

    #[test]
    fn frames_for_us_from_one_station_are_taken_whole() {
        let one = addressed_steps(Some(STATION));
        assert_eq!(run(&one, FOR_US, &frame(STATION)), u32::MAX);
        for at in 0..6 {
            let mut other = STATION;
            other[at] ^= 4;
            assert_eq!(run(&one, FOR_US, &frame(other)), 0, "{at}");
        }
        for kind in [
            libc::PACKET_BROADCAST,
            libc::PACKET_MULTICAST,
            libc::PACKET_OTHERHOST,
        ] {
            assert_eq!(run(&one, kind as u32, &frame(STATION)), 0);
        }
        assert_eq!(run(&one, FOR_US, &frame(STATION)[..11]), 0);
    }

    #[test]
    fn frames_for_us_from_any_station_are_taken_and_none_from_a_group() {
        let any = addressed_steps(None);
        assert_eq!(run(&any, FOR_US, &frame(STATION)), u32::MAX);
        assert_eq!(run(&any, FOR_US, &frame([0xfe; 6])), u32::MAX);
        assert_eq!(run(&any, FOR_US, &frame([3, 0, 0, 0, 0, 1])), 0);
        assert_eq!(run(&any, libc::PACKET_OTHERHOST as u32, &frame(STATION)), 0);
    }
}
