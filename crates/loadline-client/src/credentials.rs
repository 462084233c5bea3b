//! Credentials that change while the client runs.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Password;

/// A user and password that can be replaced at any time, such as a token that expires. A clone is the same
/// credentials.
///
/// Every handshake takes the present ones, those of reconnections too. A task of the application fetches new tokens
/// and replaces the old one in time; a connection that the server closes because its token expired then logs in with
/// the new one. Connections that are open stay logged in as they are.
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
    login: Arc<Mutex<(Option<String>, Password)>>,
}

impl Credentials {
    /// The credentials to begin with. Without a user it is `default`.
    #[must_use]
    pub fn new(user: Option<String>, password: Password) -> Self {
        Self {
            login: Arc::new(Mutex::new((user, password))),
        }
    }

    /// Replaces the password, for all connections from now on.
    pub fn replace(&self, password: Password) {
        self.lock().1 = password;
    }

    /// Replaces the user and the password, for all connections from now on.
    pub fn replace_login(&self, user: Option<String>, password: Password) {
        *self.lock() = (user, password);
    }

    /// The present user and password.
    pub(crate) fn present(&self) -> (Option<String>, Password) {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, (Option<String>, Password)> {
        self.login.lock().unwrap_or_else(PoisonError::into_inner)
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
