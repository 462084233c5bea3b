//! The ways of connections to the servers and sentinels behind a name.

use std::sync::Arc;
use std::time::Instant;

use super::names::Sentinel;
use super::watch::{Handle, Lease, Watch};
use crate::cluster::Node;
use crate::{Address, Config, Error, RetryPolicy, blocking};

impl Sentinel {
    /// The watch over the sentinels, which begins with the first call.
    pub(crate) fn watch(&self, config: &Config) -> &Arc<Watch> {
        let start = || Handle::start(self, config, blocking::listen);
        let running = self.running(|| Box::new(start()));
        let handle: &Handle = running.downcast_ref().expect("nothing else starts them");
        handle.watch()
    }

    /// The server to connect to by now, in this thread.
    ///
    /// # Errors
    /// The reason why no sentinel names one, or the end of the connect timeout.
    pub(crate) fn find(&self, config: &Config, deadline: Instant) -> Result<Arc<Lease>, Error> {
        self.watch(config).find(self, deadline)
    }

    /// The server to connect to by now.
    ///
    /// # Errors
    /// The reason why no sentinel names one.
    #[cfg(feature = "tokio")]
    pub(crate) async fn find_async(&self, config: &Config) -> Result<Arc<Lease>, Error> {
        self.watch(config).find_async(self).await
    }

    /// The address of a master or a replica.
    pub(crate) fn server(&self, node: &Node) -> Address {
        self.address(node, self.settings().tls)
    }

    /// The address of a sentinel.
    pub(crate) fn address_of(&self, sentinel: &Node) -> Address {
        self.address(sentinel, self.settings().sentinel_tls)
    }

    /// The configuration of connections to the sentinels, with the address of none.
    pub(crate) fn own_config(&self, config: &Config) -> Config {
        let settings = self.settings();
        let mut own = Config::new(self.address_of(&Node::new("", 0)));
        own.user.clone_from(&settings.user);
        own.password.clone_from(&settings.password);
        own.connect_timeout = settings.timeout;
        own.response_timeout = Some(settings.timeout);
        own.retry = RetryPolicy::Never;
        own.tcp_keepalive = config.tcp_keepalive;
        own.client_name.clone_from(&config.client_name);
        #[cfg(feature = "tls")]
        {
            own.tls = settings.trust.as_ref().unwrap_or(&config.tls).clone();
        }
        own
    }

    fn address(&self, node: &Node, tls: bool) -> Address {
        let node = self.settings().instead.get(node).unwrap_or(node);
        let (host, port) = (node.host().to_owned(), node.port());
        if tls {
            Address::Tls { host, port }
        } else {
            Address::Tcp { host, port }
        }
    }
}
