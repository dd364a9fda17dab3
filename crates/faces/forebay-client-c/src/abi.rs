//! The functions. The test `header` makes the header of this file, `ip.rs` and their types: the documentation here is for people who write C.

use std::ffi::c_char;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use forebay_client::{Client, Counts, Woken};

use crate::error::{self, Failure, guarded};
use crate::handle::{ForebayClient, Parts, present, put, text};
use crate::types::*;

/// The version of the library's interface: that of the header is FOREBAY_CLIENT_ABI.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_client_abi() -> u32 {
    FOREBAY_CLIENT_ABI
}

/// The name of a code, as "gone"; "unknown" for others.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_client_code_name(code: i32) -> *const c_char {
    error::name(code).as_ptr()
}

/// What went wrong in the last call of this thread that failed, for people; empty if none has. It is there until the next call of this thread that fails.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_client_error_text() -> *const c_char {
    error::text()
}

/// Asks the multiplexer at this socket for the place of this name, and waits for the answer as long as `patience_ms`. The client is put into `*client`, which
/// is NULL after an error: FOREBAY_CLIENT_SYSTEM, _REFUSED, _SILENT, _GONE, _PROTOCOL or _ARGUMENT.
///
/// # Safety
/// `socket` and `name` are NULL or texts that end with a zero; `client` is NULL or memory of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_connect(
    socket: *const c_char,
    name: *const c_char,
    patience_ms: u32,
    client: *mut *mut ForebayClient,
) -> i32 {
    guarded(|| {
        // SAFETY: memory of the caller's, or null.
        unsafe { put(client, "client", std::ptr::null_mut())? };
        // SAFETY: texts of the caller's, or null.
        let (socket, name) = unsafe { (text(socket, "socket")?, text(name, "name")?) };
        let patience = Duration::from_millis(patience_ms.into());
        let connected = Client::connect(Path::new(socket), name, patience)?;
        let made = Box::new(ForebayClient::new(connected));
        // SAFETY: memory of the caller's, which was written above.
        unsafe { put(client, "client", Box::into_raw(made))? };
        Ok(FOREBAY_CLIENT_OK)
    })
}

/// Ends the client, and sets `*client` to NULL. Its frames and buffers go with it: their memory is no longer there. What was sent is shown to the multiplexer
/// first, which sends as much as the card takes at once. NULL in `*client`, as after an earlier call, is FOREBAY_CLIENT_ARGUMENT.
///
/// # Safety
/// `client` is NULL or has NULL or a client that is connected, with which no thread is in a call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_disconnect(client: *mut *mut ForebayClient) -> i32 {
    guarded(|| {
        // SAFETY: memory of the caller's, or null.
        let this = unsafe { present(client, "client")?.read() };
        let flush = |parts: &mut Parts| {
            parts.client()?.flush();
            Ok(())
        };
        // SAFETY: a client that is connected, or null.
        match unsafe { ForebayClient::enter(this, flush) } {
            // One that met a defect is ended all the same.
            Err(failure) if failure.code != FOREBAY_CLIENT_DEFECT => return Err(failure),
            _ => {}
        }
        // SAFETY: memory of the caller's, which was read above.
        unsafe { put(client, "client", std::ptr::null_mut())? };
        // SAFETY: it was made by `Box::into_raw`, and the caller has no pointer to it any more.
        drop(unsafe { Box::from_raw(this) });
        Ok(FOREBAY_CLIENT_OK)
    })
}

/// What the multiplexer gave: addresses, MTU, sizes.
///
/// # Safety
/// `client` is NULL or connected; `properties` is NULL or memory of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_get_properties(
    client: *const ForebayClient,
    properties: *mut ForebayClientProperties,
) -> i32 {
    guarded(|| {
        // SAFETY: a client that is connected, or null.
        let said = unsafe { ForebayClient::enter(client, |parts| parts.properties())? };
        // SAFETY: memory of the caller's, or null.
        unsafe { put(properties, "properties", said)? };
        Ok(FOREBAY_CLIENT_OK)
    })
}

/// The next frame, if one has come: FOREBAY_CLIENT_FRAME, or FOREBAY_CLIENT_OK without one. It is the program's until forebay_client_release(): one that keeps
/// as many as its queue gets no more.
///
/// # Safety
/// `client` is NULL or connected; `frame` is NULL or memory of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_receive(
    client: *mut ForebayClient,
    frame: *mut ForebayClientFrame,
) -> i32 {
    guarded(|| {
        present(frame, "frame")?;
        let next = |parts: &mut Parts| {
            let client = parts.frames()?;
            let Some(received) = client.receive()? else {
                return Ok(None);
            };
            let held = received.hold();
            let Some(view) = client.view(&held) else {
                client.release(held);
                let text = "a frame that is not in the memory of the multiplexer";
                return Err(Failure::new(FOREBAY_CLIENT_PROTOCOL, text));
            };
            let number = held.number();
            let came = ForebayClientFrame {
                data: view.as_ptr(),
                bytes: view.len() as u32,
                number,
            };
            if let Some(place) = parts.held.get_mut(number as usize) {
                *place = Some(held);
            }
            Ok(Some(came))
        };
        // SAFETY: a client that is connected, or null.
        match unsafe { ForebayClient::enter(client, next)? } {
            None => Ok(FOREBAY_CLIENT_OK),
            Some(came) => {
                // SAFETY: memory of the caller's.
                unsafe { put(frame, "frame", came)? };
                Ok(FOREBAY_CLIENT_FRAME)
            }
        }
    })
}

/// Gives a received frame back, with the next forebay_client_flush() or forebay_client_wait(). FOREBAY_CLIENT_NO_FRAME: the program has no such frame, as it
/// gave it back before, say.
///
/// # Safety
/// `client` is NULL or connected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_release(client: *mut ForebayClient, number: u32) -> i32 {
    let give = |parts: &mut Parts| {
        let held = parts.take_held(number)?;
        parts.client()?.release(held);
        Ok(FOREBAY_CLIENT_OK)
    };
    // SAFETY: a client that is connected, or null.
    guarded(|| unsafe { ForebayClient::enter(client, give) })
}

/// A buffer to make a frame in: an Ethernet frame without its check sum. FOREBAY_CLIENT_FULL: all are on their way.
///
/// # Safety
/// `client` is NULL or connected; `buffer` is NULL or memory of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_reserve(
    client: *mut ForebayClient,
    buffer: *mut ForebayClientBuffer,
) -> i32 {
    guarded(|| {
        present(buffer, "buffer")?;
        let take = |parts: &mut Parts| {
            let client = parts.frames()?;
            let mut reserved = client.reserve()?;
            let number = reserved.number();
            let bytes = client.reserved_mut(&mut reserved);
            let made = ForebayClientBuffer {
                data: bytes.as_mut_ptr(),
                bytes_max: bytes.len() as u32,
                number,
            };
            if let Some(place) = parts.reserved.get_mut(number as usize) {
                *place = Some(reserved);
            }
            Ok(made)
        };
        // SAFETY: a client that is connected, or null.
        let made = unsafe { ForebayClient::enter(client, take)? };
        // SAFETY: memory of the caller's.
        unsafe { put(buffer, "buffer", made)? };
        Ok(FOREBAY_CLIENT_OK)
    })
}

/// Hands the first `bytes` of a buffer over as a frame, with the next forebay_client_flush() or forebay_client_wait(). After FOREBAY_CLIENT_LENGTH and
/// FOREBAY_CLIENT_STACK (the buffer was reserved before there was a stack: put it back) the buffer is still the program's, and after no other code.
///
/// # Safety
/// `client` is NULL or connected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_send(
    client: *mut ForebayClient,
    number: u32,
    bytes: u32,
) -> i32 {
    let hand_over = |parts: &mut Parts| {
        // The stack's account has its own frames alone.
        parts.frames()?;
        let reserved = parts.take_reserved(number)?;
        match parts.frames()?.send_reserved(reserved, bytes as usize) {
            Ok(()) => Ok(FOREBAY_CLIENT_OK),
            Err((error, back)) => {
                parts.reserved[number as usize] = back;
                Err(error.into())
            }
        }
    };
    // SAFETY: a client that is connected, or null.
    guarded(|| unsafe { ForebayClient::enter(client, hand_over) })
}

/// Puts a buffer back that is not to be sent.
///
/// # Safety
/// `client` is NULL or connected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_put_back(client: *mut ForebayClient, number: u32) -> i32 {
    let back = |parts: &mut Parts| {
        let reserved = parts.take_reserved(number)?;
        parts.client()?.put_back(reserved);
        Ok(FOREBAY_CLIENT_OK)
    };
    // SAFETY: a client that is connected, or null.
    guarded(|| unsafe { ForebayClient::enter(client, back) })
}

/// Copies a frame into a buffer and hands it over, as forebay_client_reserve() and forebay_client_send() do.
///
/// # Safety
/// `client` is NULL or connected; `frame` is NULL or `bytes` bytes of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_send_copy(
    client: *mut ForebayClient,
    frame: *const u8,
    bytes: usize,
) -> i32 {
    let copy = |parts: &mut Parts| {
        let frame = present(frame, "frame")?;
        // A length that is none is told before it is believed.
        let client = parts.frames()?;
        let room = client.frame_bytes_max();
        // SAFETY: so many bytes of the caller's, or fewer.
        let copied = unsafe { std::slice::from_raw_parts(frame, bytes.min(room)) };
        let fill = |to: &mut [u8]| to.copy_from_slice(copied);
        client.send_with(bytes, fill)?;
        Ok(FOREBAY_CLIENT_OK)
    };
    // SAFETY: a client that is connected, or null.
    guarded(|| unsafe { ForebayClient::enter(client, copy) })
}

/// Shows the multiplexer what was sent and given back, and rings once if it sleeps: call it once for many frames.
///
/// # Safety
/// `client` is NULL or connected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_flush(client: *mut ForebayClient) -> i32 {
    let flush = |parts: &mut Parts| {
        parts.client()?.flush();
        Ok(FOREBAY_CLIENT_OK)
    };
    // SAFETY: a client that is connected, or null.
    guarded(|| unsafe { ForebayClient::enter(client, flush) })
}

/// Flushes, and sleeps until a frame has come (FOREBAY_CLIENT_FRAME), buffers are back after FOREBAY_CLIENT_FULL (FOREBAY_CLIENT_ROOM), or so many nanoseconds
/// are over (FOREBAY_CLIENT_DUE). FOREBAY_CLIENT_EARLY: wait again. The multiplexer that is gone is FOREBAY_CLIENT_GONE, behind all frames that it gave.
///
/// # Safety
/// `client` is NULL or connected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_wait(client: *mut ForebayClient, timeout_ns: u64) -> i32 {
    let wait = |parts: &mut Parts| {
        let (now, timeout) = (Instant::now(), Duration::from_nanos(timeout_ns));
        Ok(code(parts.frames()?.wait(now + timeout)?))
    };
    // SAFETY: a client that is connected, or null.
    guarded(|| unsafe { ForebayClient::enter(client, wait) })
}

/// The descriptor for a poll of the program's own, which stays the client's: call forebay_client_arm(), sleep only if that says FOREBAY_CLIENT_OK until it is
/// readable, and then call forebay_client_wait() with 0. It is not to be read or closed.
///
/// # Safety
/// `client` is NULL or connected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_descriptor(client: *const ForebayClient) -> i32 {
    // SAFETY: a client that is connected, or null.
    guarded(|| unsafe {
        ForebayClient::enter(client, |parts| Ok(parts.client()?.as_fd().as_raw_fd()))
    })
}

/// Flushes, and asks to be woken by the descriptor: FOREBAY_CLIENT_OK, or what there is to do already, FOREBAY_CLIENT_FRAME or FOREBAY_CLIENT_ROOM.
///
/// # Safety
/// `client` is NULL or connected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_arm(client: *mut ForebayClient) -> i32 {
    let arm = |parts: &mut Parts| {
        let found = parts.frames()?.arm()?;
        Ok(found.map_or(FOREBAY_CLIENT_OK, code))
    };
    // SAFETY: a client that is connected, or null.
    guarded(|| unsafe { ForebayClient::enter(client, arm) })
}

/// What the client has counted so far.
///
/// # Safety
/// `client` is NULL or connected; `counts` is NULL or memory of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_get_counts(
    client: *const ForebayClient,
    counts: *mut ForebayClientCounts,
) -> i32 {
    guarded(|| {
        // SAFETY: a client that is connected, or null.
        let own = unsafe { ForebayClient::enter(client, |parts| Ok(parts.client()?.counts()))? };
        let Counts {
            received,
            received_bytes,
            sent,
            sent_bytes,
            refused_full,
        } = own;
        let said = ForebayClientCounts {
            received,
            received_bytes,
            sent,
            sent_bytes,
            refused_full,
        };
        // SAFETY: memory of the caller's, or null.
        unsafe { put(counts, "counts", said)? };
        Ok(FOREBAY_CLIENT_OK)
    })
}

const fn code(woken: Woken) -> i32 {
    match woken {
        Woken::Frame => FOREBAY_CLIENT_FRAME,
        Woken::Room => FOREBAY_CLIENT_ROOM,
        Woken::Due => FOREBAY_CLIENT_DUE,
        Woken::Early => FOREBAY_CLIENT_EARLY,
    }
}
