//! HELP: what errors point to must be there.

use loadline_server::ServerConfig;

use crate::support::{Ours, ask};

/// The error about an unknown subcommand says where the known ones are listed.
#[test]
fn every_command_with_subcommands_lists_them() {
    let ours = Ours::start(ServerConfig::default());
    let mut stream = ours.connect();
    let known = ask(&mut stream, "COMMAND LIST");
    let names = known
        .lines()
        .filter(|line| !line.starts_with(['*', '$']) && *line != "quit")
        // Without a cluster, Redis refuses its help, too.
        .filter(|line| *line != "cluster")
        // They would leave the connection with messages between its replies.
        .filter(|line| !line.ends_with("subscribe"));
    let mut containers = 0;
    for name in names.map(str::to_uppercase) {
        let refusal = ask(&mut stream, &format!("{name} NO-SUCH-SUBCOMMAND"));
        if !refusal.contains("HELP") {
            continue;
        }
        containers += 1;
        assert!(refusal.contains(&format!("Try {name} HELP.")), "{refusal}");
        let help = ask(&mut stream, &format!("{name} HELP"));
        let lines: Vec<&str> = help
            .lines()
            .map(|line| line.trim_start_matches('+'))
            .collect();
        let first = format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
        assert_eq!(lines[1], first);
        assert_eq!(lines[lines.len() - 2..], ["HELP", "    Prints this help."]);
        for line in &lines[2..] {
            if let Some(sub) = line.split(' ').next().filter(|sub| !sub.is_empty()) {
                let reply = ask(&mut stream, &format!("{name} {sub} a b c d e f g h i j"));
                assert!(
                    !reply.contains("unknown subcommand '"),
                    "{name} {sub}: {reply}"
                );
            }
        }
    }
    assert!(containers >= 6, "{containers} commands with subcommands");
}
