// An expression: starts an embedded server for an example of the documentation, which ends with the process. Its
// value is the URL.
{
    use loadline_server::{Listen, Server, ServerConfig};

    let config = ServerConfig {
        listen: vec![Listen::Tcp(([127, 0, 0, 1], 0).into())],
        ..ServerConfig::default()
    };
    let mut server = Server::bind(config).expect("a free port");
    let address = server.local_addrs()[0];
    std::thread::spawn(move || server.run(&std::sync::atomic::AtomicBool::new(false)));
    format!("redis://{address}")
}
