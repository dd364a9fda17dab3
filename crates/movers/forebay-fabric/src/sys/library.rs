//! The library, loaded while the program runs.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Arc, OnceLock};

use super::abi::{FiFabricAttr, FiInfo, FidFabric};
use super::signals::kept;
use crate::error::{FabricError, Fault};

/// The file that the package `libfabric1` brings.
pub(crate) const NAME: &str = "libfabric.so.1";
/// The interface that is asked for: later libraries keep to it.
const API: u32 = version(1, 17);
const OLDEST: u32 = version(1, 9);

pub(super) type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const FiInfo,
    *mut *mut FiInfo,
) -> c_int;
pub(super) type FreeInfo = unsafe extern "C" fn(*mut FiInfo);
pub(super) type DupInfo = unsafe extern "C" fn(*const FiInfo) -> *mut FiInfo;
pub(super) type OpenFabric =
    unsafe extern "C" fn(*mut FiFabricAttr, *mut *mut FidFabric, *mut c_void) -> c_int;
type StrError = unsafe extern "C" fn(c_int) -> *const c_char;
type Version = unsafe extern "C" fn() -> u32;

/// The functions that the library exports; all others are behind its tables. It is never unloaded: providers keep threads and handlers.
pub(crate) struct Library {
    version: u32,
    pub(super) getinfo: GetInfo,
    pub(super) freeinfo: FreeInfo,
    pub(super) dupinfo: DupInfo,
    pub(super) fabric: OpenFabric,
    strerror: StrError,
}

const fn version(major: u32, minor: u32) -> u32 {
    (major << 16) | minor
}

impl Library {
    /// The host's library, loaded once.
    pub(crate) fn load() -> Result<Arc<Self>, FabricError> {
        static LOADED: OnceLock<Result<Arc<Library>, FabricError>> = OnceLock::new();
        LOADED.get_or_init(|| Self::load_from(NAME)).clone()
    }

    pub(crate) fn load_from(path: &str) -> Result<Arc<Self>, FabricError> {
        let handle = open(path)?;
        let symbol = |name, version| find(handle, path, name, version);
        // SAFETY: each symbol is found by the version that has this signature (`<rdma/fabric.h>` of 1.9 to 1.17), and the library
        // stays loaded, so that the addresses stay functions.
        let library = unsafe {
            use std::mem::transmute;
            Self {
                version: transmute::<*mut c_void, Version>(symbol(c"fi_version", c"FABRIC_1.0")?)(),
                getinfo: transmute::<*mut c_void, GetInfo>(symbol(c"fi_getinfo", c"FABRIC_1.3")?),
                freeinfo: transmute::<*mut c_void, FreeInfo>(symbol(
                    c"fi_freeinfo",
                    c"FABRIC_1.3",
                )?),
                dupinfo: transmute::<*mut c_void, DupInfo>(symbol(c"fi_dupinfo", c"FABRIC_1.3")?),
                fabric: transmute::<*mut c_void, OpenFabric>(symbol(c"fi_fabric", c"FABRIC_1.1")?),
                strerror: transmute::<*mut c_void, StrError>(symbol(
                    c"fi_strerror",
                    c"FABRIC_1.0",
                )?),
            }
        };
        if library.version < OLDEST {
            let (major, minor) = library.version();
            return Err(FabricError::LibraryTooOld { major, minor });
        }
        Ok(Arc::new(library))
    }

    /// Major and minor version.
    pub(crate) fn version(&self) -> (u32, u32) {
        (self.version >> 16, self.version & 0xffff)
    }

    /// The version of the interface that is asked for.
    pub(super) fn api(&self) -> u32 {
        self.version.min(API)
    }

    /// What the library says about a number, whatever its sign.
    pub(crate) fn fault(&self, errno: i32) -> Fault {
        let errno = errno.saturating_abs();
        // SAFETY: the function takes any number and gives a string that it keeps, or null.
        let text = unsafe {
            let text = (self.strerror)(errno);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        };
        Fault {
            errno,
            text: text.unwrap_or_default(),
        }
    }

    /// An error when `code` is one.
    pub(super) fn check(
        &self,
        call: &'static str,
        code: impl Into<i64>,
    ) -> Result<(), FabricError> {
        match code.into() {
            0.. => Ok(()),
            code => Err(self.failed(call, code)),
        }
    }

    pub(super) fn failed(&self, call: &'static str, code: i64) -> FabricError {
        let errno = i32::try_from(code).unwrap_or(libc::EOVERFLOW);
        let fault = self.fault(errno);
        FabricError::Call { call, fault }
    }
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (major, minor) = self.version();
        write!(f, "libfabric {major}.{minor}")
    }
}

fn open(path: &str) -> Result<*mut c_void, FabricError> {
    let missing = |what: String| FabricError::LibraryMissing {
        path: path.into(),
        what,
    };
    let name = CString::new(path).map_err(|_| missing("the name has a zero byte".into()))?;
    // SAFETY: the name is a string that ends in zero. Running the library's constructors is what loading means.
    let handle = kept(|| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) });
    if !handle.is_null() {
        return Ok(handle);
    }
    // SAFETY: after a failed call it is null or a string that stays until this thread's next call.
    let what = unsafe {
        let text = libc::dlerror();
        (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
    };
    Err(missing(what.unwrap_or_default()))
}

fn find(
    handle: *mut c_void,
    path: &str,
    symbol: &'static CStr,
    version: &'static CStr,
) -> Result<*mut c_void, FabricError> {
    // SAFETY: the handle is of an open library, both names end in zero.
    let address = unsafe { libc::dlvsym(handle, symbol.as_ptr(), version.as_ptr()) };
    if address.is_null() {
        return Err(FabricError::SymbolMissing {
            path: path.into(),
            symbol: symbol.to_str().unwrap_or_default(),
            version: version.to_str().unwrap_or_default(),
        });
    }
    Ok(address)
}
