//! Where a file goes that must be whole or not there: beside its name until it is done, or straight into what is no file.

use crate::failure::Failure;
use crate::pool::when_told_to_stop;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tempfile::NamedTempFile;

/// Names of the standard output. To open one of them again would write over what a file has already that it was appended to.
const STANDARD_OUTPUT: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Where to write. What was begun and not kept is gone when this is dropped, and when the process is told to stop.
pub(super) enum Destination {
    /// What has no name that something whole could be put under: the standard output, a pipe, a device.
    Stream(Box<dyn Write>),
    /// A regular file.
    File {
        /// What is written, in the same directory.
        temporary: NamedTempFile,
        /// What it is to be called.
        path: PathBuf,
        /// Those of the file that it replaces.
        permissions: Option<Permissions>,
        /// What the thread that is told to stop removes.
        unfinished: Unfinished,
    },
}

/// The temporary file, for the thread that removes it. Locked while it is made or gets its name, so that there is always one who knows.
type Unfinished = Arc<Mutex<Option<PathBuf>>>;

impl Destination {
    /// Opens what `path` names. A link leads to what is written, and stays. A file that is there stays as it is until
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
            // Stays locked until the process ends: nothing gets a name any more.
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

    /// What is written is whole: it gets its name, in a directory that says so even after a loss of power.
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
