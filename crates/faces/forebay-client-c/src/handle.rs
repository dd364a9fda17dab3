//! A client as C has it: a pointer, behind which one thread works at a time.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_client::ip::{IpClient, Network};
use forebay_client::protocol::Welcome;
use forebay_client::{Client, Held, Reserved};

use crate::error::Failure;
use crate::types::*;

/// A client. Its memory is the library's.
#[derive(Debug)]
pub struct ForebayClient {
    is_entered: AtomicBool,
    parts: UnsafeCell<Parts>,
}

/// What is behind a pointer.
#[derive(Debug)]
pub(crate) struct Parts {
    client: Kind,
    /// Frames that the program has, by their numbers.
    pub(crate) held: Vec<Option<Held>>,
    /// Buffers that the program has, by their numbers.
    pub(crate) reserved: Vec<Option<Reserved>>,
    /// Set while a call is in it: found by the next one, if a panic ended that call.
    is_broken: bool,
}

/// What receives the frames of a client.
#[derive(Debug)]
enum Kind {
    /// To the program.
    Frames(Box<Client>),
    /// To a stack.
    Ip(Box<IpClient>),
    /// To nobody: a stack could not be had after all.
    Nobody,
}

impl ForebayClient {
    pub(crate) fn new(client: Client) -> Self {
        let of_pool = |frames: u32| 0..frames as usize;
        let Welcome {
            receive, transmit, ..
        } = client.welcome();
        let parts = Parts {
            held: of_pool(receive.frames).map(|_| None).collect(),
            reserved: of_pool(transmit.frames).map(|_| None).collect(),
            client: Kind::Frames(Box::new(client)),
            is_broken: false,
        };
        Self {
            is_entered: AtomicBool::new(false),
            parts: UnsafeCell::new(parts),
        }
    }

    /// Works with the client behind a pointer.
    ///
    /// # Safety
    /// The pointer is null, or from `forebay_client_connect` and was not disconnected.
    pub(crate) unsafe fn enter<T>(
        this: *const Self,
        work: impl FnOnce(&mut Parts) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // SAFETY: it is a client that is there, as the caller promises.
        let this = unsafe { present(this, "client")?.as_ref() }
            .ok_or_else(|| Failure::argument("client is NULL"))?;
        if this.is_entered.swap(true, Ordering::Acquire) {
            let text = "another thread is in a call with this client";
            return Err(Failure::new(FOREBAY_CLIENT_BUSY, text));
        }
        let _leaves = Leaves(&this.is_entered);
        // SAFETY: whoever finds `is_entered` unset is alone until it is unset again, behind this borrow.
        let parts = unsafe { &mut *this.parts.get() };
        if parts.is_broken {
            let text = "a call with this client met a defect before: disconnect it";
            return Err(Failure::new(FOREBAY_CLIENT_DEFECT, text));
        }
        parts.is_broken = true;
        let done = work(parts);
        parts.is_broken = false;
        done
    }
}

/// Unset also when a panic goes by.
struct Leaves<'a>(&'a AtomicBool);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Parts {
    /// The client, for what it has with a stack and without one.
    pub(crate) fn client(&mut self) -> Result<&mut Client, Failure> {
        match &mut self.client {
            Kind::Frames(client) => Ok(client),
            Kind::Ip(ip) => Ok(ip.client_mut()),
            Kind::Nobody => Err(Failure::stack("the client has lost its frames to no stack")),
        }
    }

    /// The client whose frames are the program's.
    pub(crate) fn frames(&mut self) -> Result<&mut Client, Failure> {
        match &mut self.client {
            Kind::Frames(client) => Ok(client),
            _ => Err(Failure::stack(
                "the client has an IP stack, which has its frames",
            )),
        }
    }

    /// The client under its stack.
    pub(crate) fn ip(&mut self) -> Result<&mut IpClient, Failure> {
        match &mut self.client {
            Kind::Ip(ip) => Ok(ip),
            _ => {
                let text = "the client has no IP stack: call forebay_client_ip_open first";
                Err(Failure::stack(text))
            }
        }
    }

    /// Gives the frames to a stack.
    pub(crate) fn open_ip(&mut self, network: &Network) -> Result<(), Failure> {
        IpClient::check(self.frames()?, network)?;
        if let Kind::Frames(client) = std::mem::replace(&mut self.client, Kind::Nobody) {
            self.client = Kind::Ip(Box::new(IpClient::open(*client, network)?));
        }
        Ok(())
    }

    /// A frame that the program has, which is no longer its own.
    pub(crate) fn take_held(&mut self, number: u32) -> Result<Held, Failure> {
        let held = self.held.get_mut(number as usize).and_then(Option::take);
        held.ok_or_else(|| Failure::no_frame(number, "frame"))
    }

    /// A buffer that the program has, which is no longer its own.
    pub(crate) fn take_reserved(&mut self, number: u32) -> Result<Reserved, Failure> {
        let reserved = self.reserved.get_mut(number as usize);
        let reserved = reserved.and_then(Option::take);
        reserved.ok_or_else(|| Failure::no_frame(number, "buffer"))
    }

    pub(crate) fn properties(&mut self) -> Result<ForebayClientProperties, Failure> {
        let client = self.client()?;
        let welcome = client.welcome();
        let mut said = ForebayClientProperties {
            mtu_bytes: welcome.mtu_bytes,
            frame_bytes_max: client.frame_bytes_max() as u32,
            receive_frames: welcome.receive.frames,
            receive_frame_bytes: welcome.receive.frame_bytes,
            transmit_frames: welcome.transmit.frames,
            transmit_frame_bytes: welcome.transmit.frame_bytes,
            vlan: welcome.vlan.unwrap_or(0),
            mac: welcome.mac,
            number: welcome.client,
            ..ForebayClientProperties::default()
        };
        for (to, from) in said.addresses.iter_mut().zip(&welcome.addresses) {
            *to = address(*from);
            said.address_count += 1;
        }
        Ok(said)
    }
}

pub(crate) fn address(from: IpAddr) -> ForebayClientAddress {
    let mut to = ForebayClientAddress::default();
    match from {
        IpAddr::V4(from) => {
            to.version = 4;
            to.bytes[..4].copy_from_slice(&from.octets());
        }
        IpAddr::V6(from) => {
            to.version = 6;
            to.bytes = from.octets();
        }
    }
    to
}

/// A pointer that is neither null nor at an impossible place.
pub(crate) fn present<T>(pointer: *const T, name: &str) -> Result<*const T, Failure> {
    match (pointer.is_null(), pointer.is_aligned()) {
        (true, _) => Err(Failure::argument(format!("{name} is NULL"))),
        (_, false) => Err(Failure::argument(format!("{name} is not aligned"))),
        _ => Ok(pointer),
    }
}

/// Writes what a call gives.
///
/// # Safety
/// The pointer is null, or memory of the caller's for a `T`.
pub(crate) unsafe fn put<T>(to: *mut T, name: &str, value: T) -> Result<(), Failure> {
    let to = present(to, name)?.cast_mut();
    // SAFETY: it is not null and aligned, and the caller's memory, as the caller promises.
    unsafe { to.write(value) };
    Ok(())
}

/// A text of the caller's.
///
/// # Safety
/// The pointer is null, or a text that ends with a zero and does not change during the call.
pub(crate) unsafe fn text<'a>(from: *const c_char, name: &str) -> Result<&'a str, Failure> {
    let from = present(from, name)?;
    // SAFETY: it is not null, and ends with a zero, as the caller promises.
    let text = unsafe { CStr::from_ptr(from) };
    let not_utf8 = |_| Failure::argument(format!("{name} is not UTF-8"));
    text.to_str().map_err(not_utf8)
}
