//! Frames past the kernel's stack on a virtual cable, in a network namespace that ends with its thread: each is accounted for, by parties that do not know each other.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by a panic and says what it skips"
)]

mod frames;

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use forebay_xdp::{
    Copying, Mode, NotSent, Port, PortConfig, Redirect, SharedBuffers, Tally, XdpError,
};
use frames::cable::{self, cable, packet_socket, send};
use frames::{Made, until};

/// Set for the child that is killed.
const CHILD: &str = "FOREBAY_XDP_PORT_CHILD";

fn sh(line: &str) {
    let ended = Command::new("sh").args(["-c", line]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{line}: {said}");
}

/// Runs in a thread, with the cable and the program on its near end, or not at all.
fn on_cable(test: impl FnOnce(Redirect) + Send + 'static) {
    let thread = std::thread::spawn(move || {
        if let Err(why) = cable() {
            forebay_testing::skip!("{why}");
            return;
        }
        match Redirect::attach("near") {
            Ok(redirect) => test(redirect),
            Err(error @ (XdpError::NotBuilt { .. } | XdpError::NotAllowed { .. })) => {
                forebay_testing::skip!("{error}");
            }
            Err(error) => panic!("{error}"),
        }
    });
    thread.join().unwrap();
}

fn small(receive_buffers: u32, receive_ring: u32) -> PortConfig {
    PortConfig {
        receive_buffers,
        receive_ring,
        send_buffers: 16,
        ..PortConfig::default()
    }
}

/// A port on the near end that frames are steered to.
fn port(redirect: &Redirect, config: &PortConfig) -> Port {
    let port = Port::open("near", 0, config).unwrap();
    redirect.steer(&port).unwrap();
    port
}

/// Frame of a number, with the number in its ports.
fn frame(number: u16) -> Vec<u8> {
    let payload_bytes = usize::from(number) * 13 % 1_400;
    Made {
        ports: [number, 443],
        payload_bytes,
        ..Made::new()
    }
    .frame()
}

/// Sends so many frames from the far end, and waits until each of them is in the port's ring or lost: the program sees it earlier.
fn send_all(redirect: &Redirect, port: &Port, count: u16) {
    let (far, _) = packet_socket("far", 0);
    let before = redirect.steered(0).unwrap().redirected.frames;
    let told_before = told(port);
    for number in 0..count {
        send(&far, &frame(number));
        // A burst may be more than the cable holds: each is waited for.
        until("a frame", || {
            redirect.steered(0).unwrap().redirected.frames == before + u64::from(number) + 1
        });
    }
    until("the last frame at the port", || {
        told(port) - told_before == u64::from(count)
    });
}

/// Frames that came out, were not believed, were lost, or are held.
fn told(port: &Port) -> u64 {
    let counts = port.counts();
    counts.received + counts.disbelieved + port.statistics().unwrap().lost() + port.held()
}

fn received(port: &mut Port) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while port.look() > 0 {
        let before = frames.len();
        let visited = port.receive(7, |bytes| frames.push(bytes.to_vec()));
        assert_eq!(visited as usize, frames.len() - before);
    }
    frames
}

/// What the program counted is what came out, was lost, or is held, by the account of each of three parties.
fn assert_closed(redirect: &Redirect, port: &Port) {
    let redirected = redirect.steered(port.queue()).unwrap().redirected.frames;
    let (statistics, counts) = (port.statistics().unwrap(), port.counts());
    assert_eq!(redirected, told(port), "{statistics:?} {counts:?}");
    assert_eq!(counts.disbelieved, 0);
    let buffers = port.buffers();
    assert_eq!(buffers.sum(), buffers.total, "{buffers:?}");
}

#[test]
fn frames_come_to_the_port_of_their_queue_and_others_go_on() {
    on_cable(|redirect| {
        assert_eq!(redirect.mode(), Mode::Native);
        // Without a port they go on.
        let (far, _) = packet_socket("far", 0);
        send(&far, &frame(1));
        until("a frame that goes on", || {
            redirect.passed_from(0).unwrap().frames == 1
        });
        let octets = frame(1).len() as u64;
        assert_eq!(
            redirect.passed_from(0).unwrap(),
            Tally { frames: 1, octets }
        );
        assert_eq!(redirect.passed_from(1).unwrap(), Tally::default());
        let mut port = port(&redirect, &small(256, 256));
        assert!(!port.is_zero_copy());
        let mut sent = 0;
        // Each buffer is used several times.
        for _ in 0..10 {
            send_all(&redirect, &port, 100);
            sent += 100;
            until("100 frames at the port", || port.held() == 100);
            assert_closed(&redirect, &port);
            let frames = received(&mut port);
            assert_eq!(frames.len(), 100);
            for (number, bytes) in frames.iter().enumerate() {
                assert_eq!(*bytes, frame(number as u16), "{number}");
            }
        }
        assert_eq!(port.counts().received, sent);
        assert_eq!(
            redirect.steered(0).unwrap().redirected.octets,
            port.counts().received_octets
        );
        assert_eq!(port.statistics().unwrap().lost(), 0);
        assert_closed(&redirect, &port);
        // A port that is closed leaves its queue as it was.
        drop(port);
        until("a frame that goes on", || {
            send(&far, &frame(1));
            redirect.passed_from(0).unwrap().frames > 1
        });
    });
}

#[test]
fn the_program_has_room_for_sixty_four_queues() {
    on_cable(|_| {
        let queues = "numrxqueues 66 numtxqueues 66";
        sh(&format!(
            "ip link add name many {queues} type veth peer name most {queues}"
        ));
        sh("ip link set dev many up; ip link set dev most up");
        let redirect = Redirect::attach("many").unwrap();
        let last = Port::open("many", 63, &small(64, 64)).unwrap();
        redirect.steer(&last).unwrap();
        let behind = Port::open("many", 64, &small(64, 64)).unwrap();
        let refused = redirect.steer(&behind).unwrap_err();
        assert!(refused.to_string().contains("0 to 63"), "{refused}");
    });
}

#[test]
fn a_port_is_of_its_queue_and_a_program_that_is_taken_off_sees_no_more() {
    on_cable(|_| {
        let queues = "numrxqueues 2 numtxqueues 2";
        sh(&format!(
            "ip link add name wide {queues} type veth peer name broad {queues}"
        ));
        sh("ip link set dev wide up; ip link set dev broad up");
        let mut redirect = Redirect::attach("wide").unwrap();
        let port = Port::open("wide", 1, &small(64, 64)).unwrap();
        redirect.steer(&port).unwrap();
        assert_eq!((port.interface(), port.queue()), ("wide", 1));
        assert!(redirect.is_attached().unwrap());
        let (broad, _) = packet_socket("broad", 0);
        let (wide, _) = packet_socket("wide", libc::ETH_P_ALL as u16);
        let seen = |redirect: &Redirect| {
            let of_queue = |queue| redirect.steered(queue).unwrap();
            let all = [0, 1].map(of_queue);
            all.map(|of| of.redirected.frames + of.passed.frames)
                .iter()
                .sum::<u64>()
        };
        let mut sent = 0;
        until("a frame that the program sees", || {
            send(&broad, &frame(1));
            sent += 1;
            seen(&redirect) != 0
        });
        redirect.detach();
        assert!(!redirect.is_attached().unwrap());
        let goes_by = |number| {
            send(&broad, &frame(number));
            until("a frame that goes by", || {
                cable::received(&wide).contains(&frame(number))
            });
        };
        // What was sent before may be seen late, on either queue; of more than that none is.
        (0..=sent as u16).for_each(|number| goes_by(76 + number));
        let seen = seen(&redirect);
        assert!(seen <= sent, "{seen} of {sent}");
    });
}

#[test]
fn a_full_receive_ring_is_counted_as_that_and_as_nothing_else() {
    on_cable(|redirect| {
        let mut port = port(&redirect, &small(64, 8));
        send_all(&redirect, &port, 100);
        let statistics = port.statistics().unwrap();
        assert_eq!(
            (statistics.ring_full, statistics.dropped),
            (92, 0),
            "{statistics:?}"
        );
        assert_eq!(port.held(), 8);
        assert_closed(&redirect, &port);
        let buffers = port.buffers();
        assert_eq!(
            (buffers.received, buffers.fill + buffers.kernel_receiving),
            (8, 56)
        );
        assert_eq!(received(&mut port).len(), 8);
        assert_closed(&redirect, &port);
        // It goes on.
        send_all(&redirect, &port, 8);
        assert_eq!(received(&mut port).len(), 8);
        assert_closed(&redirect, &port);
    });
}

#[test]
fn an_empty_fill_ring_drops_and_its_own_count_is_no_term() {
    on_cable(|redirect| {
        let mut port = port(&redirect, &small(8, 64));
        send_all(&redirect, &port, 100);
        let statistics = port.statistics().unwrap();
        assert_eq!(
            (statistics.ring_full, statistics.dropped),
            (0, 92),
            "{statistics:?}"
        );
        assert!(statistics.fill_empty > 0, "{statistics:?}");
        assert_closed(&redirect, &port);
        let buffers = port.buffers();
        assert_eq!(
            (buffers.received, buffers.fill, buffers.kernel_receiving),
            (8, 0, 0)
        );
        assert_eq!(received(&mut port).len(), 8);
        send_all(&redirect, &port, 8);
        assert_eq!(received(&mut port).len(), 8);
        assert_closed(&redirect, &port);
    });
}

#[test]
fn a_frame_longer_than_a_buffer_comes_in_pieces_and_is_one_again_or_is_counted() {
    for pieces in [true, false] {
        on_cable(move |redirect| {
            sh("ip link set near mtu 9000; ip link set far mtu 9000");
            let config = PortConfig {
                pieces,
                ..small(64, 64)
            };
            let mut port = port(&redirect, &config);
            let (far, _) = packet_socket("far", 0);
            let long = |payload_bytes| Made {
                payload_bytes,
                ..Made::new()
            };
            let headers = long(0).frame().len();
            let most = port.piece_bytes_max();
            let frames: Vec<_> = [100, most - 1, most, most + 1, 2 * most, 8_900, 60]
                .map(|bytes| long(bytes - headers).frame())
                .to_vec();
            for frame in &frames {
                send(&far, frame);
            }
            until("seven frames", || {
                redirect.steered(0).unwrap().redirected.frames == 7
            });
            // Linux before 6.6 knows no pieces.
            let comes = |frame: &&Vec<u8>| port.takes_pieces() || frame.len() <= most;
            let come: Vec<_> = frames.iter().filter(comes).cloned().collect();
            assert_eq!(come.len(), if port.takes_pieces() { 7 } else { 4 });
            assert!(pieces || !port.takes_pieces());
            until("those at the port", || port.held() == come.len() as u64);
            assert_closed(&redirect, &port);
            assert!(received(&mut port) == come);
            assert_closed(&redirect, &port);
            let statistics = port.statistics().unwrap();
            assert_eq!(
                (statistics.dropped, statistics.ring_full),
                (7 - come.len() as u64, 0)
            );
            assert_eq!(port.buffers().received, 0);
        });
    }
}

#[test]
fn what_is_sent_comes_in_whole_and_every_buffer_comes_back() {
    on_cable(|redirect| {
        let mut near = port(&redirect, &small(256, 256));
        let config = PortConfig {
            receive_buffers: 0,
            send_buffers: 64,
            ..PortConfig::default()
        };
        let mut far = Port::open("far", 0, &config).unwrap();
        let (mut sent, mut came) = (0_u16, Vec::new());
        while sent < 1_000 {
            let before = sent;
            while sent < 1_000 && sent - before < 40 {
                match far.send(&frame(sent)) {
                    Ok(()) => sent += 1,
                    Err(error) => {
                        assert_eq!(error, NotSent::Full);
                        break;
                    }
                }
            }
            // More than the kernel sends in a call.
            assert_eq!(far.flush().unwrap(), 0);
            let buffers = far.buffers();
            assert_eq!(buffers.sum(), buffers.total, "{buffers:?}");
            until("all that was sent", || {
                far.flush().unwrap();
                came.extend(received(&mut near));
                came.len() == usize::from(sent)
            });
        }
        for (number, bytes) in came.iter().enumerate() {
            assert_eq!(*bytes, frame(number as u16), "{number}");
        }
        until("all buffers", || {
            far.flush().unwrap();
            far.buffers().free == 64
        });
        let counts = far.counts();
        assert_eq!((counts.sent, counts.completed), (1_000, 1_000));
        assert_eq!(counts.sent_octets, near.counts().received_octets);
        assert_eq!(far.statistics().unwrap().invalid_send, 0);
        // More than there are buffers is refused, and not lost.
        let taken = (0..200).take_while(|number| far.send(&frame(*number)).is_ok());
        assert_eq!(taken.count(), 64);
        let wrong = far.send(&[0; 13]).unwrap_err();
        assert!(matches!(wrong, NotSent::Length { .. }), "{wrong}");
        assert!(far.send(&[0; 4097]).is_err());
        assert_closed(&redirect, &near);
    });
}

#[test]
fn an_interface_that_is_down_sends_nothing_and_loses_no_buffer() {
    on_cable(|redirect| {
        let mut near = port(&redirect, &small(64, 64));
        let mut far = Port::open("far", 0, &small(0, 0)).unwrap();
        far.send(&frame(1)).unwrap();
        sh("ip link set far down");
        let error = far.flush().unwrap_err();
        assert!(
            error.to_string().starts_with("sendto(AF_XDP) far"),
            "{error}"
        );
        let buffers = far.buffers();
        assert_eq!(
            (buffers.send, buffers.free, buffers.sum()),
            (1, 15, 16),
            "{buffers:?}"
        );
        sh("ip link set far up");
        until("the frame", || {
            far.flush().unwrap();
            near.look() > 0
        });
        assert_eq!(received(&mut near), [frame(1)]);
        until("the buffer", || {
            far.flush().unwrap();
            far.buffers().free == 16
        });
        assert_closed(&redirect, &near);
    });
}

#[test]
fn a_queue_has_one_port_at_a_time_and_is_free_again_when_it_is_closed() {
    on_cable(|redirect| {
        let config = small(16, 16);
        for _ in 0..20 {
            let port = port(&redirect, &config);
            send_all(&redirect, &port, 3);
            assert_eq!(port.held(), 3);
        }
        let first = port(&redirect, &config);
        let error = Port::open("near", 0, &config).unwrap_err();
        assert!(matches!(error, XdpError::QueueInUse { .. }), "{error}");
        let error = Port::open("near", 63, &config).unwrap_err();
        assert!(matches!(error, XdpError::NoQueue { .. }), "{error}");
        let error = Port::open("nowhere", 0, &config).unwrap_err();
        assert!(matches!(error, XdpError::NoInterface(_)), "{error}");
        let never = PortConfig {
            copying: Copying::Never,
            ..config
        };
        let error = Port::open("far", 0, &never).unwrap_err();
        assert!(matches!(error, XdpError::Copies { .. }), "{error}");
        let error = Redirect::attach("near").unwrap_err();
        assert!(matches!(error, XdpError::Foreign { .. }), "{error}");
        let other = Port::open("far", 0, &config).unwrap();
        assert!(redirect.steer(&other).is_err());
        drop(first);
    });
}

#[test]
fn frames_come_into_the_buffers_of_a_file_that_were_lent_and_no_more_are_lent_than_may_be() {
    on_cable(|redirect| {
        let (config, bytes) = (small(4, 4), 10 * 4_096);
        let file = rustix::fs::memfd_create("shared", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, bytes as u64).unwrap();
        // A page and a half, and nothing.
        for wrong in [6_144, 0] {
            assert!(SharedBuffers::map(file.as_fd(), wrong, &config).is_err());
        }
        let buffers = SharedBuffers::map(file.as_fd(), bytes, &config).unwrap();
        let mut port = Port::open_shared("near", 0, buffers).unwrap();
        redirect.steer(&port).unwrap();
        let lent: Vec<_> = (0..10).rev().filter(|number| port.lend(*number)).collect();
        assert_eq!(lent, [9, 8, 7, 6]);
        port.show_lent();
        send_all(&redirect, &port, 6);
        assert_eq!(
            (port.look(), port.receive(9, |_| panic!("visited"))),
            (4, 0)
        );
        let mut came = Vec::new();
        port.take(9, |arrived| came.push(arrived));
        let numbers: Vec<_> = came.iter().map(|arrived| arrived.buffer).collect();
        assert_eq!(numbers, lent, "in the order in which they were lent");
        for (number, arrived) in (0..).zip(&came) {
            let mut content = vec![0; arrived.bytes];
            let at = u64::from(arrived.buffer) * 4_096 + arrived.start as u64;
            rustix::io::pread(&file, &mut content, at).unwrap();
            assert!(content == frame(number), "{number}: {arrived:?}");
        }
        assert_eq!(told(&port), 6);
        let buffers = port.buffers();
        assert_eq!((buffers.shared, buffers.sum()), (10, buffers.total));
        // One that is here can be lent again, and one that is no buffer cannot.
        assert_eq!(
            [9, 9, 10].map(|number| port.lend(number)),
            [true, false, false]
        );
    });
}

/// The part of the child in the test below.
#[test]
fn child_that_has_a_port() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let redirect = Redirect::attach("near").unwrap();
    let _port = port(&redirect, &small(16, 16));
    println!("\nattached");
    // Until it is killed.
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn a_killed_process_leaves_neither_program_nor_port() {
    on_cable(|redirect| {
        drop(redirect);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_has_a_port", "--nocapture"])
            .env(CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line == "attached"));
        let error = Redirect::attach("near").unwrap_err();
        assert!(matches!(error, XdpError::Foreign { .. }), "{error}");
        child.kill().unwrap();
        child.wait().unwrap();
        until("the end of the link", || Redirect::attach("near").is_ok());
        Port::open("near", 0, &small(16, 16)).unwrap();
    });
}
