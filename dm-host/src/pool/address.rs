//! Addresses of pools, as text: in settings, arguments and environments of programs.

use super::{Pool, PoolError};
use crate::fabric::shm::ShmOptions;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;

/// How an address of a pool begins.
const SCHEME: &str = "dm://";

/// What names the file of the secret, behind the memory nodes.
const SECRET_FILE: &str = "secret-file=";

/// Why a text is no address of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It begins with something else.
    #[error("it does not begin with dm://, as dm:///run/dm/0 does")]
    Scheme,
    /// It names nothing between two commas, or nothing at all.
    #[error("it names nothing where a memory node should be")]
    Empty,
    /// It names a path that is not absolute.
    #[error("the path of a control socket begins with /, as in dm:///run/dm/0,/run/dm/1")]
    Relative,
    /// It names control sockets, and memory nodes on RDMA devices.
    #[error("it names control sockets and hosts, which are never of one pool")]
    Mixed,
    /// Something else than the file of the secret is behind the memory nodes.
    #[error("behind the hosts it may have ?secret-file=PATH, and nothing else; control sockets have none")]
    Option,
    /// It names hosts, and the program was built without the feature `verbs`.
    #[error("it names hosts, which this program cannot reach: it was built without the feature `verbs`")]
    NoVerbs,
}

/// What an address says.
#[derive(Debug, PartialEq, Eq)]
enum Address<'a> {
    /// Control sockets of memory nodes on this machine.
    Sockets(Vec<PathBuf>),
    /// Memory nodes on RDMA devices, and the file of the secret.
    Hosts(Vec<&'a str>, Option<&'a str>),
}

impl<'a> Address<'a> {
    fn parse(text: &'a str) -> Result<Self, AddressError> {
        let rest = text.strip_prefix(SCHEME).ok_or(AddressError::Scheme)?;
        let (names, option) = rest.split_once('?').map_or((rest, None), |(names, option)| (names, Some(option)));
        let names: Vec<&str> = names.split(',').collect();
        if names.contains(&"") {
            return Err(AddressError::Empty);
        }
        let sockets = names.iter().filter(|name| name.starts_with('/')).count();
        if sockets == names.len() {
            return match option {
                None => Ok(Self::Sockets(names.into_iter().map(PathBuf::from).collect())),
                Some(_) => Err(AddressError::Option),
            };
        }
        if sockets > 0 {
            return Err(AddressError::Mixed);
        }
        if names.iter().any(|name| name.contains('/')) {
            return Err(AddressError::Relative);
        }
        let secret_file = match option {
            None => None,
            Some(option) => match option.strip_prefix(SECRET_FILE) {
                Some(path) if !path.is_empty() => Some(path),
                _ => return Err(AddressError::Option),
            },
        };
        Ok(Self::Hosts(names, secret_file))
    }
}

impl Pool {
    /// Connects to the pool at an address: `dm:///run/dm/0,/run/dm/1` names the control sockets of all its memory nodes
    /// on this machine, in any order; `dm://10.0.0.1,10.0.0.2?secret-file=/etc/dm/secret` names memory nodes on RDMA
    /// devices (feature `verbs`) and the file of the secret, if they have one.
    ///
    /// A path with a comma or a question mark, and other options, need [`Pool::connect`] or `Pool::connect_verbs`.
    pub fn open(address: &str) -> Result<Arc<Self>, PoolError> {
        let wrong = |source| PoolError::Address { address: address.to_owned(), source };
        match Address::parse(address).map_err(wrong)? {
            Address::Sockets(sockets) => Self::connect(&sockets, ShmOptions::default()).map(Arc::new),
            #[cfg(feature = "verbs")]
            Address::Hosts(hosts, secret_file) => Self::open_hosts(hosts, secret_file),
            #[cfg(not(feature = "verbs"))]
            Address::Hosts(..) => Err(wrong(AddressError::NoVerbs)),
        }
    }

    #[cfg(feature = "verbs")]
    fn open_hosts(hosts: Vec<&str>, secret_file: Option<&str>) -> Result<Arc<Self>, PoolError> {
        use crate::fabric::verbs::VerbsOptions;
        use crate::memory_node::verbs::secret::Secret;
        let secret = secret_file.map(|path| Secret::load(path.as_ref())).transpose()?;
        let hosts: Vec<String> = hosts.into_iter().map(str::to_owned).collect();
        Self::connect_verbs(&hosts, VerbsOptions { secret, ..VerbsOptions::default() }).map(Arc::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_sockets_or_hosts() {
        let sockets = |paths: &[&str]| Ok(Address::Sockets(paths.iter().map(PathBuf::from).collect()));
        for (text, said) in [
            ("dm:///run/dm/0", sockets(&["/run/dm/0"])),
            ("dm:///run/dm/1,/run/dm/0", sockets(&["/run/dm/1", "/run/dm/0"])),
            ("dm://10.0.0.1", Ok(Address::Hosts(vec!["10.0.0.1"], None))),
            ("dm://a:1,[::1]:2?secret-file=/x", Ok(Address::Hosts(vec!["a:1", "[::1]:2"], Some("/x")))),
            ("/run/dm/0", Err(AddressError::Scheme)),
            ("", Err(AddressError::Scheme)),
            ("dm://", Err(AddressError::Empty)),
            ("dm:///run/dm/0,", Err(AddressError::Empty)),
            ("dm://run/dm/0", Err(AddressError::Relative)),
            ("dm:///run/dm/0,host", Err(AddressError::Mixed)),
            ("dm:///run/dm/0?secret-file=/x", Err(AddressError::Option)),
            ("dm://host?secret-file=", Err(AddressError::Option)),
            ("dm://host?mtu=1024", Err(AddressError::Option)),
        ] {
            assert_eq!(Address::parse(text), said, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_opened_says_why() {
        let error = |address: &str| Pool::open(address).unwrap_err().to_string();
        assert!(error("/run/dm/0").contains("\"/run/dm/0\" is no address of a pool: it does not begin with dm://"));
        assert!(error("dm:///no/such/socket").contains("/no/such/socket"));
        #[cfg(not(feature = "verbs"))]
        assert!(error("dm://host").contains("without the feature `verbs`"));
        #[cfg(feature = "verbs")]
        assert!(error("dm://host?secret-file=/no/such/file").contains("/no/such/file"));
    }
}
