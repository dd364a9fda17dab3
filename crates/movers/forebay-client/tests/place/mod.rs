//! A daemon that is only as much of one as a test needs: one place, whose frames the test carries.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use forebay_client::Client;
use forebay_client::protocol::{Message, PoolShape, Welcome};
use forebay_ring::{BareReceiver, BareSender, FramePoolMemory, FramePoolSpec};
use forebay_sys::seqpacket::{Arrived, SeqListener, SeqSocket};

pub(crate) const FRAMES: u32 = 4;
const SHAPE: PoolShape = PoolShape {
    frames: FRAMES,
    frame_bytes: 1536,
};
/// A place at the daemon.
pub(crate) struct Place {
    _socket: SeqSocket,
    sender: BareSender,
    receiver: BareReceiver,
    free: Vec<u32>,
}

pub(crate) fn place(number: u8, vlan: Option<u16>, addresses: &[&str]) -> (Client, Place) {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("mux");
    let listener = SeqListener::bind(&path, 4).unwrap();
    let connecting =
        std::thread::spawn(move || Client::connect(&path, "one", Duration::from_secs(30)));
    let socket = loop {
        match listener.accept().unwrap() {
            Some(socket) => break socket,
            None => std::thread::yield_now(),
        }
    };
    let mut record = [0; 256];
    while socket.receive(&mut record).unwrap() == Arrived::Nothing {
        std::thread::yield_now();
    }
    let spec = FramePoolSpec {
        name: "test".into(),
        frames: SHAPE.frames,
        frame_bytes: SHAPE.frame_bytes,
    };
    let [down, up] = [0; 2].map(|_| FramePoolMemory::create(&spec).unwrap());
    let mut fds = down.receiver_fds().unwrap();
    fds.extend(up.sender_fds().unwrap());
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    let welcome = Message::Welcome(Welcome {
        client: number,
        mac: [2, 0, 0, 0, 0, number],
        vlan,
        mtu_bytes: 1500,
        receive: SHAPE,
        transmit: SHAPE,
        addresses: addresses.iter().map(|one| one.parse().unwrap()).collect(),
    });
    assert!(socket.send(&welcome.emit(), &fds).unwrap());
    let place = Place {
        _socket: socket,
        sender: BareSender::map(&spec, down.sender_fds().unwrap()).unwrap(),
        receiver: BareReceiver::map(&spec, up.receiver_fds().unwrap()).unwrap(),
        free: (0..FRAMES).collect(),
    };
    (connecting.join().unwrap().unwrap(), place)
}

impl Place {
    /// Takes what the client sent.
    pub(crate) fn taken(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while let Some(frame) = self.receiver.next().unwrap() {
            frames.push(self.receiver.view(&frame).unwrap().to_vec());
            self.receiver.free(frame.frame);
        }
        self.receiver.publish();
        frames
    }

    /// Gives the client a frame.
    pub(crate) fn give(&mut self, bytes: &[u8]) {
        let free = &mut self.free;
        self.sender
            .reclaim(|frame| free.push(frame as u32))
            .unwrap();
        let frame = free.pop().unwrap();
        self.sender.send(frame, bytes, 0).unwrap();
        self.sender.publish();
    }
}
