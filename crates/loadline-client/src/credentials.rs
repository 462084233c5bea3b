//! Credentials that change while the client runs.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A password, which `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Takes the password.
    #[must_use]
    pub fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }

    /// The password itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(hidden)")
    }
}

/// A user and password that can be replaced at any time, such as a token that expires. A clone is the same
/// credentials.
///
/// A task of the application fetches new tokens and replaces the old one in time. Every handshake takes the present
/// credentials, those of reconnections too. An open connection logs in again, with `AUTH` in front of its next request;
/// a multiplexed one without requests does so when its next keepalive is due. If the server
/// refuses them, the connection stays logged in as it was, and the application gets
/// [`ConnectionEvent::LoginRefused`](crate::ConnectionEvent::LoginRefused).
///
/// A connection of a subscriber logs in with them when it is made again, and so does one on which the application has
/// sent `AUTH` itself, which keeps that login. A transaction that was begun with `MULTI` or `WATCH` ends first.
///
/// ```
/// use loadline_client::{Client, Credentials, Password};
///
/// let credentials = Credentials::new(Some("app".into()), Password::new("token-1"));
/// let client = Client::builder()
///     .url("rediss://cache.example")?
///     .credentials(credentials.clone())
///     .build();
/// // Later, and as often as needed:
/// credentials.replace(Password::new("token-2"));
/// # drop(client);
/// # Ok::<(), loadline_client::Error>(())
/// ```
#[derive(Clone)]
pub struct Credentials {
    shared: Arc<CurrentLogin>,
}

struct CurrentLogin {
    login: Mutex<(Option<String>, Password)>,
    /// The number of replacements.
    version: AtomicU64,
}

impl Credentials {
    /// The credentials to begin with. Without a user it is `default`.
    #[must_use]
    pub fn new(user: Option<String>, password: Password) -> Self {
        Self {
            shared: Arc::new(CurrentLogin {
                login: Mutex::new((user, password)),
                version: AtomicU64::new(0),
            }),
        }
    }

    /// Replaces the password, for new connections and open ones.
    pub fn replace(&self, password: Password) {
        self.change(|login| login.1 = password);
    }

    /// Replaces the user and the password, for new connections and open ones.
    pub fn replace_login(&self, user: Option<String>, password: Password) {
        self.change(|login| *login = (user, password));
    }

    fn change(&self, what: impl FnOnce(&mut (Option<String>, Password))) {
        let mut login = self.lock();
        what(&mut login);
        self.shared.version.fetch_add(1, Ordering::Release);
    }

    /// The number of replacements so far.
    pub(crate) fn version(&self) -> u64 {
        self.shared.version.load(Ordering::Acquire)
    }

    /// The present user and password.
    pub(crate) fn present(&self) -> (Option<String>, Password) {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, (Option<String>, Password)> {
        self.shared
            .login
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The user without the password.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.lock().0)
            .finish_non_exhaustive()
    }
}
