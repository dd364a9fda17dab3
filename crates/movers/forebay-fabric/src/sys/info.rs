//! What the library offers, and what is asked of it.

use std::ffi::{CStr, CString, c_char, c_int};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::abi::*;
use super::library::Library;
use super::signals::kept;
use crate::error::FabricError;

/// Longest address that is looked at, in bytes.
pub(crate) const ADDRESS_BYTES_MAX: usize = 256;

/// What is asked for; `None` and 0 leave it to the provider.
#[derive(Default, Clone, Copy)]
pub(crate) struct Query<'a> {
    pub(crate) provider: Option<&'a str>,
    /// `FI_EP_MSG`; 0: any, without any wish.
    pub(crate) endpoint: c_int,
    pub(crate) node: Option<&'a str>,
    pub(crate) service: Option<&'a str>,
    /// The node is where to listen, not whereto to connect.
    pub(crate) listens: bool,
    pub(crate) send_operations: usize,
    pub(crate) receive_operations: usize,
    /// A send is complete when the peer has it.
    pub(crate) confirm_delivery: bool,
}

/// An owned list of what the library offers; one entry, unless it says otherwise.
pub(crate) struct Info {
    pub(super) library: Arc<Library>,
    pub(super) raw: NonNull<FiInfo>,
}

// SAFETY: the list is plain memory that this value alone owns; the library keeps no thread's state for it.
unsafe impl Send for Info {}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: the list came from the library and is freed once.
        unsafe { (self.library.freeinfo)(self.raw.as_ptr()) }
    }
}

impl Info {
    /// Asks the library; the list is not empty.
    pub(crate) fn query(library: &Arc<Library>, query: &Query<'_>) -> Result<Self, FabricError> {
        let hints = Self::hints(library, query)?;
        let node = optional(query.node)?;
        let service = optional(query.service)?;
        let flags = if query.listens { FI_SOURCE } else { 0 };
        let mut list = ptr::null_mut();
        // SAFETY: strings end in zero, the hints are a whole structure of the library's own making.
        let ask = || unsafe {
            (library.getinfo)(
                library.api(),
                string_pointer(node.as_ref()),
                string_pointer(service.as_ref()),
                flags,
                hints.raw.as_ptr(),
                &raw mut list,
            )
        };
        // The first time, providers are loaded.
        library.check("fi_getinfo", kept(ask))?;
        Self::own(library, list).ok_or_else(|| library.failed("fi_getinfo", libc::ENODATA.into()))
    }

    pub(super) fn own(library: &Arc<Library>, raw: *mut FiInfo) -> Option<Self> {
        Some(Self {
            library: Arc::clone(library),
            raw: NonNull::new(raw)?,
        })
    }

    fn hints(library: &Arc<Library>, query: &Query<'_>) -> Result<Self, FabricError> {
        // SAFETY: with null the function allocates an empty entry with all its parts.
        let raw = unsafe { (library.dupinfo)(ptr::null()) };
        let hints = Self::own(library, raw)
            .ok_or_else(|| library.failed("fi_dupinfo", libc::ENOMEM.into()))?;
        // SAFETY: the entry is ours alone, and the library has just allocated all parts (checked for null). The name is allocated by
        // `malloc`, as the library frees it.
        unsafe {
            let info = &mut *hints.raw.as_ptr();
            if [
                info.tx_attr.is_null(),
                info.rx_attr.is_null(),
                info.ep_attr.is_null(),
            ]
            .contains(&true)
                || info.domain_attr.is_null()
                || info.fabric_attr.is_null()
            {
                return Err(library.failed("fi_dupinfo", libc::ENOMEM.into()));
            }
            if let Some(provider) = optional(query.provider)? {
                (*info.fabric_attr).prov_name = libc::strdup(provider.as_ptr());
            }
            if query.endpoint != 0 {
                info.caps = FI_MSG;
                info.mode = FI_CONTEXT | FI_CONTEXT2;
                (*info.ep_attr).kind = query.endpoint;
                (*info.domain_attr).mr_mode =
                    FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
                (*info.domain_attr).threading = FI_THREAD_SAFE;
                (*info.tx_attr).size = query.send_operations;
                (*info.rx_attr).size = query.receive_operations;
                if query.confirm_delivery {
                    (*info.tx_attr).op_flags = FI_DELIVERY_COMPLETE;
                }
            } else {
                (*info.domain_attr).mr_mode =
                    FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
                info.mode = FI_CONTEXT | FI_CONTEXT2;
            }
        }
        Ok(hints)
    }

    /// The entries of the list.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut next = Some(self.raw);
        std::iter::from_fn(move || {
            // SAFETY: the list is valid while `self` is, which the entry borrows.
            let entry = unsafe { next?.as_ref() };
            next = NonNull::new(entry.next);
            Some(Entry(entry))
        })
    }

    /// The first entry, the provider's best.
    pub(crate) fn first(&self) -> Entry<'_> {
        // SAFETY: as above.
        Entry(unsafe { self.raw.as_ref() })
    }
}

/// One thing that a provider offers.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a>(pub(super) &'a FiInfo);

impl Entry<'_> {
    pub(crate) fn provider(&self) -> String {
        // SAFETY: the parts are null or valid as long as the entry, whose lifetime this borrows; strings end in zero.
        unsafe { self.0.fabric_attr.as_ref() }
            .map_or_else(String::new, |part| string(part.prov_name))
    }

    pub(crate) fn provider_version(&self) -> (u32, u32) {
        // SAFETY: as in `provider`.
        let version = unsafe { self.0.fabric_attr.as_ref() }.map_or(0, |part| part.prov_version);
        (version >> 16, version & 0xffff)
    }

    pub(crate) fn domain(&self) -> String {
        // SAFETY: as in `provider`.
        unsafe { self.0.domain_attr.as_ref() }.map_or_else(String::new, |part| string(part.name))
    }

    pub(crate) fn mr_mode(&self) -> c_int {
        // SAFETY: as in `provider`.
        unsafe { self.0.domain_attr.as_ref() }.map_or(0, |part| part.mr_mode)
    }

    pub(crate) fn data_progress_is_automatic(&self) -> bool {
        // SAFETY: as in `provider`.
        unsafe { self.0.domain_attr.as_ref() }
            .is_some_and(|part| part.data_progress == FI_PROGRESS_AUTO)
    }

    pub(crate) fn endpoint_kind(&self) -> c_int {
        // SAFETY: as in `provider`.
        unsafe { self.0.ep_attr.as_ref() }.map_or(0, |part| part.kind)
    }

    pub(crate) fn message_bytes_max(&self) -> usize {
        // SAFETY: as in `provider`.
        unsafe { self.0.ep_attr.as_ref() }.map_or(0, |part| part.max_msg_size)
    }

    pub(crate) fn send_operations(&self) -> usize {
        // SAFETY: as in `provider`.
        unsafe { self.0.tx_attr.as_ref() }.map_or(0, |part| part.size)
    }

    pub(crate) fn send_parts(&self) -> usize {
        // SAFETY: as in `provider`.
        unsafe { self.0.tx_attr.as_ref() }.map_or(0, |part| part.iov_limit)
    }

    pub(crate) fn receive_operations(&self) -> usize {
        // SAFETY: as in `provider`.
        unsafe { self.0.rx_attr.as_ref() }.map_or(0, |part| part.size)
    }

    pub(crate) fn caps(&self) -> u64 {
        self.0.caps
    }

    /// The address whereto, for people.
    pub(crate) fn destination(&self) -> String {
        if self.0.dest_addr.is_null() {
            return String::new();
        }
        let len = self.0.dest_addrlen.min(ADDRESS_BYTES_MAX);
        // SAFETY: the library says that so many bytes are there; they live as long as the entry.
        let bytes = unsafe { std::slice::from_raw_parts(self.0.dest_addr.cast::<u8>(), len) };
        address_text(bytes)
    }
}

/// A socket's address, or a provider's string, for people.
pub(crate) fn address_text(bytes: &[u8]) -> String {
    match socket_address(bytes) {
        Some(address) => address.to_string(),
        None => String::from_utf8_lossy(bytes.split(|&b| b == 0).next().unwrap_or_default())
            .chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .collect(),
    }
}

/// Reads `sockaddr_in` and `sockaddr_in6`.
pub(crate) fn socket_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(bytes.first_chunk().copied()?));
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    let ip: IpAddr = match family {
        libc::AF_INET => {
            let octets: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            Ipv4Addr::from(octets).into()
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            Ipv6Addr::from(octets).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

fn string(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: only called for strings of a valid entry, which end in zero.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

fn optional(text: Option<&str>) -> Result<Option<CString>, FabricError> {
    text.map(CString::new)
        .transpose()
        .map_err(|_| FabricError::Place {
            place: text.unwrap_or_default().escape_debug().to_string(),
            what: "a name cannot have a zero byte",
        })
}

fn string_pointer(text: Option<&CString>) -> *const c_char {
    text.map_or(ptr::null(), |text| text.as_ptr())
}
