//! The shared secret, and proofs of knowing it.

use super::wire::PROOF_BYTES;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Least bytes of a secret: 128 bits, if they are random.
pub const SECRET_BYTES_MIN: usize = 16;

/// Most bytes of a secret: a file with more than a key of SHA-256 can use is a mistake.
pub const SECRET_BYTES_MAX: usize = 4096;

/// Why there is no secret.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The file cannot be read.
    #[error("--secret-file {path}: {source}; make one with `(umask 077; head -c 32 /dev/urandom > {path})`", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// Other users can read the file.
    #[error("--secret-file {path}: mode {mode:04o} lets others read it, only 0600 or less may be given; run `chmod 0600 {path}`", path = path.display())]
    Public {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The secret is too short or too long.
    #[error("--secret-file {path}: {bytes} bytes, a secret has {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}; make one with `head -c 32 /dev/urandom > {path}`", path = path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        bytes: usize,
    },
}

/// A secret that memory nodes and compute nodes share. Its `Debug` does not show it.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// Reads the secret: all bytes of a file that only its owner can read.
    pub fn load(path: &Path) -> Result<Self, SecretError> {
        let failed = |source| SecretError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        // Metadata of the open file, so that it is the file read below.
        let mode = file.metadata().map_err(failed)?.mode() & 0o7777;
        if mode & 0o177 != 0 {
            return Err(SecretError::Public { path: path.to_owned(), mode });
        }
        let mut bytes = Vec::new();
        file.take(SECRET_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&bytes.len()) {
            return Err(SecretError::Length { path: path.to_owned(), bytes: bytes.len() });
        }
        Ok(Self(bytes))
    }

    fn mac(&self, who: Side, client: &[u8; PROOF_BYTES], server: &[u8; PROOF_BYTES]) -> Option<Hmac<Sha256>> {
        // HMAC takes keys of any length: there is no error.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        mac.update(who.name());
        mac.update(client);
        mac.update(server);
        Some(mac)
    }

    /// The proof of `who` for these nonces.
    pub fn proof(&self, who: Side, client: &[u8; PROOF_BYTES], server: &[u8; PROOF_BYTES]) -> [u8; PROOF_BYTES] {
        self.mac(who, client, server).map_or([0; PROOF_BYTES], |mac| mac.finalize().into_bytes().into())
    }

    /// Whether `proof` is the one of `who`. Takes equally long in both cases.
    pub fn check(
        &self,
        who: Side,
        client: &[u8; PROOF_BYTES],
        server: &[u8; PROOF_BYTES],
        proof: &[u8; PROOF_BYTES],
    ) -> bool {
        self.mac(who, client, server).is_some_and(|mac| mac.verify_slice(proof).is_ok())
    }
}

/// The side that proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The compute node.
    Client,
    /// The memory node.
    Server,
}

impl Side {
    /// The side's text in the proof: it keeps the proof of one side from being sent back as that of the other.
    const fn name(self) -> &'static [u8] {
        match self {
            Self::Client => b"dm-memd client 1",
            Self::Server => b"dm-memd server 1",
        }
    }
}

/// A random number that no other process can guess.
pub fn nonce() -> std::io::Result<[u8; PROOF_BYTES]> {
    let mut nonce = [0; PROOF_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut nonce)?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn only_who_knows_the_secret_can_prove_it() {
        let (ours, theirs) = (Secret(vec![7; 32]), Secret(vec![8; 32]));
        let (a, b) = ([1; 32], [2; 32]);
        let proof = ours.proof(Side::Client, &a, &b);
        assert!(ours.check(Side::Client, &a, &b, &proof));
        assert!(!theirs.check(Side::Client, &a, &b, &proof), "another secret");
        assert!(!ours.check(Side::Server, &a, &b, &proof), "sent back");
        assert!(!ours.check(Side::Client, &a, &[3; 32], &proof), "said again");
    }

    #[test]
    fn a_secret_others_can_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        let load = |mode, bytes: usize| {
            std::fs::write(&path, vec![1; bytes]).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Secret::load(&path).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(load(0o600, 32), Ok(()));
        assert_eq!(load(0o400, 16), Ok(()));
        assert!(load(0o640, 32).unwrap_err().contains("mode 0640 lets others read it"));
        assert!(load(0o600, 15).unwrap_err().contains("15 bytes"));
        std::fs::remove_file(&path).unwrap();
        assert!(Secret::load(&path).unwrap_err().to_string().contains("head -c 32 /dev/urandom"));
    }
}
