//! Writes a file that must be complete or absent: to a temporary file beside it until it is complete. What is no
//! regular file is written to directly.

use crate::failure::Failure;
use crate::pool::when_told_to_stop;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tempfile::NamedTempFile;

/// Names of the standard output. Opening one of them again would overwrite a file to which the output is appended.
const STANDARD_OUTPUT: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Where to write. If this is dropped without [`Destination::keep`], or the process is told to stop, the unfinished
/// file is removed.
pub(super) enum Destination {
    /// A target without a name to replace: the standard output, a pipe, a device.
    Stream(Box<dyn Write>),
    /// A regular file.
    File {
        /// The temporary file, in the same directory.
        temporary: NamedTempFile,
        /// The final name.
        path: PathBuf,
        /// Permissions of the file that it replaces.
        permissions: Option<Permissions>,
        /// The file that the thread removes if the process is told to stop.
        unfinished: Unfinished,
    },
}

/// The temporary file, for the thread that removes it. Locked while the file is created or gets its name, so that the
/// thread never misses it.
type Unfinished = Arc<Mutex<Option<PathBuf>>>;

impl Destination {
    /// Opens what `path` names. A symbolic link is followed, and stays. An existing file stays as it is until
    /// [`Destination::keep`].
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::Run(format!("{}: {error}", path.display()));
        if STANDARD_OUTPUT.iter().any(|name| path == Path::new(name)) {
            return Ok(Self::Stream(Box::new(io::stdout().lock())));
        }
        match fs::metadata(path) {
            Ok(there) if there.is_dir() => Err(Failure::Run(format!("{}: is a directory", path.display()))),
            Ok(there) if there.is_file() => {
                let path = fs::canonicalize(path).map_err(failed)?;
                Self::beside(&path, Some(there.permissions()))
            }
            // Opening a pipe waits for its reader.
            Ok(_) => Ok(Self::Stream(Box::new(OpenOptions::new().write(true).open(path).map_err(failed)?))),
            Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_ok() => {
                Err(Failure::Run(format!("{}: a link to nothing: remove it, or make what it leads to", path.display())))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::beside(path, None),
            Err(error) => Err(failed(error)),
        }
    }

    fn beside(path: &Path, permissions: Option<Permissions>) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::Run(format!("{}: {error}", path.display()));
        let Some(name) = path.file_name() else {
            return Err(Failure::Run(format!("{}: not a name of a file", path.display())));
        };
        let unfinished = Unfinished::default();
        let to_remove = Arc::clone(&unfinished);
        when_told_to_stop(move || {
            // Stays locked until the process ends, so that no file gets its name any more.
            let path = to_remove.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(path) = &*path {
                let _ = fs::remove_file(path);
            }
            std::mem::forget(path);
        })?;
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(name);
        let mut known = unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        let temporary = tempfile::Builder::new().prefix(&prefix).suffix(".partial").make_in(directory(path), |path| {
            let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
            OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(flags).open(path)
        });
        let temporary = temporary.map_err(failed)?;
        *known = Some(temporary.path().to_owned());
        drop(known);
        Ok(Self::File { temporary, path: path.to_owned(), permissions, unfinished })
    }

    /// The file is complete: it gets its name. The directory is synchronised, so that the name survives a loss of
    /// power.
    pub(super) fn keep(self) -> Result<(), Failure> {
        let Self::File { temporary, path, permissions, unfinished } = self else { return Ok(()) };
        let failed = |error: io::Error| Failure::Run(format!("{}: {error}", path.display()));
        if let Some(permissions) = permissions {
            temporary.as_file().set_permissions(permissions).map_err(failed)?;
        }
        temporary.as_file().sync_all().map_err(failed)?;
        let mut known = unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        temporary.persist(&path).map_err(|error| failed(error.error))?;
        *known = None;
        drop(known);
        File::open(directory(&path)).and_then(|directory| directory.sync_all()).map_err(failed)
    }
}

/// The directory that a file is in.
fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stream(stream) => stream.write(bytes),
            Self::File { temporary, .. } => temporary.as_file_mut().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stream(stream) => stream.flush(),
            Self::File { temporary, .. } => temporary.as_file_mut().flush(),
        }
    }
}
