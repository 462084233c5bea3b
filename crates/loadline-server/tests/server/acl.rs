//! Users and their rights: the replies are those of a real redis-server.

use loadline_server::ServerConfig;

use crate::support::{LATER, LATER_SUBCOMMANDS, Ours, ReadWrite, Redis, ask};

/// Lines of an operator (`*`) and of a client (`>`), in this order. Rules of users whose order Redis leaves open have one
/// command at most besides categories.
const LINES: &str = "\
*ACL WHOAMI|ACL USERS|ACL LIST|ACL GETUSER default|ACL GETUSER nobody|ACL CAT|ACL CAT nosuch|ACL GENPASS 0|ACL GENPASS x|ACL GENPASS 4097|ACL LOG|ACL LOG x|ACL LOG RESET|ACL LOAD|ACL SAVE|ACL NOSUCH|ACL|ACL SETUSER
*ACL SETUSER a|ACL GETUSER a|ACL SETUSER a on|ACL LIST|ACL SETUSER a >p1 >p2 >p1|ACL GETUSER a|ACL SETUSER a <p2|ACL SETUSER a <p2|ACL SETUSER a #zz|ACL SETUSER a #0123456789012345678901234567890123456789012345678901234567890123|ACL SETUSER a !0123456789012345678901234567890123456789012345678901234567890123|ACL GETUSER a
*ACL SETUSER a ~k* %R~r* %W~w* &c*|ACL GETUSER a|ACL SETUSER a ~*|ACL GETUSER a|ACL SETUSER a ~x|ACL SETUSER a resetkeys ~k* %R~r* %W~w* %RW~b* %r~b*|ACL LIST|ACL SETUSER a &*|ACL SETUSER a &x|ACL SETUSER a resetchannels &c*|ACL SETUSER a %X~a|ACL SETUSER a %RR~a|ACL SETUSER a bogus|ACL SETUSER a +nosuch|ACL SETUSER a +@nosuch|ACL SETUSER a -get|x|ACL SETUSER a +get|x|y
*ACL SETUSER a +@all -@dangerous|ACL GETUSER a|ACL SETUSER a -@all +@string|ACL GETUSER a|ACL SETUSER a +config|get|ACL GETUSER a|ACL SETUSER a -@all +@read -get|ACL LIST|ACL SETUSER a allcommands -config|set|ACL LIST|ACL SETUSER a nocommands +select|0 +select|1|ACL LIST|ACL SETUSER a +config|nosuch|ACL SETUSER a +config|get|x|ACL SETUSER a +get|
*ACL SETUSER a reset on >secret +@all -@dangerous -keys ~k* %R~r* %W~w* &c*|ACL LIST|ACL SETUSER b (%R~a +get|ACL SETUSER b on nopass (%R~a +get) (~b +set|ACL SETUSER b on nopass (%R~a +get) (~b +set )|ACL GETUSER b|ACL LIST|ACL SETUSER b clearselectors|ACL GETUSER b
>AUTH x|AUTH a wrong|AUTH nobody x|HELLO 2 AUTH a wrong|AUTH a secret|ACL WHOAMI|CONFIG GET maxmemory|CLIENT GETNAME
>AUTH a secret|SET k1 v|GET k1|GET r1|SET r1 v|SET w1 v|GET w1|SET w1 v GET|GETSET w1 v|MGET k1 r1|MGET k1 w1|MSET k1 a w2 b|MSET k1 a r2 b|COPY r1 w1|COPY w1 k1|DEL w1|RENAME w1 k1|EXISTS w1|GETEX r1|FLUSHALL|KEYS *|nosuch|GET|CONFIG|CONFIG NOSUCH|BITFIELD r1 GET u8 0|BITFIELD r1 SET u8 0 1|SORT k1 BY w_*|SORT k1 GET #|SORT k1|OBJECT ENCODING w1|SINTERSTORE w1 r1 k1|SINTERSTORE r1 r1
>AUTH a secret|PUBLISH c1 x|PUBLISH d1 x|SPUBLISH d x|MULTI|GET w1|GET k1|EXEC|MULTI|GET k1|SET w1 x|EXEC|EVAL \"return redis.call('get',KEYS[1])\" 1 k1|EVAL \"return redis.pcall('get','w1')\" 0|EVAL \"return redis.call('get','w1')\" 1 k1|EVAL \"return redis.pcall('keys','*')\" 0|EVAL \"return tostring(redis.acl_check_cmd('get','k1'))..tostring(redis.acl_check_cmd('get','w1'))..tostring(redis.acl_check_cmd('set','w1','x'))..tostring(redis.acl_check_cmd('flushall'))\" 0|EVAL \"return {redis.acl_check_cmd('flushall','x','y','z')}\" 0|XREAD STREAMS k1 w1 0 0|ZUNIONSTORE w1 2 k1 r1|ZUNIONSTORE w1 2 k1 w1|GEORADIUS r1 1 1 1 m STORE r2|LMOVE k1 w1 LEFT LEFT|LMOVE w1 k1 LEFT LEFT
*ACL LOG 2|ACL LOG RESET|ACL SETUSER a +keys -get|ACL SETUSER c on nopass +@all allkeys -subscribe|ACL DRYRUN a get k1|ACL DRYRUN a set k1 v|ACL DRYRUN a set r1 v|ACL DRYRUN a publish d x|ACL DRYRUN nobody get k|ACL DRYRUN a nosuch|ACL DRYRUN a get|ACL DRYRUN a config get x|ACL DRYRUN a config nosuch x|ACL DRYRUN default keys *|ACL DELUSER default|ACL DELUSER b nobody|ACL USERS|ACL HELP x
>AUTH a secret|GET k1|KEYS zzz*|SUBSCRIBE d|RESET|ACL WHOAMI|AUTH c x|GET k1|SUBSCRIBE c|CLIENT KILL USER nobody|HELLO 3 AUTH a secret|HELLO 2|RESET
*ACL SETUSER default -get|GET k1|ACL WHOAMI|ACL SETUSER default +get|GET k1|CONFIG SET acl-pubsub-default x|CONFIG SET acl-pubsub-default allchannels|ACL SETUSER d|ACL LIST|CONFIG SET acl-pubsub-default resetchannels|CONFIG SET acllog-max-len 1|CONFIG GET acllog-max-len
*CONFIG SET requirepass pw|CONFIG GET requirepass|ACL LIST|PING
>PING|AUTH pw|PING|RESET|GET k|HELLO|HELLO 3|HELLO 2 AUTH default pw|HELLO 2 AUTH default x|QUITX|AUTH default pw|ACL WHOAMI
*CONFIG SET requirepass \"\"|ACL GETUSER default|ACL DELUSER a c d|ACL USERS";

/// The reply without what differs between two servers: ids, and the age and the client of an entry of the log.
fn comparable(reply: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in reply.lines() {
        let is_own = |back: usize, name: &str| {
            lines
                .len()
                .checked_sub(back)
                .is_some_and(|at| lines[at] == name)
        };
        let is_masked = is_own(1, "age-seconds")
            || is_own(2, "age-seconds")
            || is_own(1, "id")
            || is_own(1, "client-info")
            || is_own(2, "client-info");
        // Redis leaves the order of single commands open.
        let mut words: Vec<&str> = line.split(' ').collect();
        if line.contains("@all") {
            words.sort_unstable();
        }
        let line = if is_masked {
            "-".to_owned()
        } else {
            words.join(" ")
        };
        lines.push(line);
    }
    lines
}

#[test]
fn users_have_the_rights_that_redis_gives_them() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let mut operators: [Box<dyn ReadWrite>; 2] =
        [Box::new(ours.connect()), Box::new(redis.connect())];
    for line in LINES.lines() {
        let mut fresh: [Box<dyn ReadWrite>; 2] =
            [Box::new(ours.connect()), Box::new(redis.connect())];
        let (who, commands) = line.split_at(1);
        // A bar between a command and its subcommand has no upper case behind it.
        let mut lines: Vec<String> = Vec::new();
        for part in commands.split('|') {
            let is_command =
                part.starts_with(|first: char| first.is_ascii_uppercase()) || part == "nosuch";
            match lines.last_mut() {
                Some(last) if !is_command => *last += &format!("|{part}"),
                _ => lines.push(part.to_owned()),
            }
        }
        for line in lines {
            let clients = if who == "*" {
                &mut operators
            } else {
                &mut fresh
            };
            let said = clients.each_mut().map(|client| ask_raw(client, &line));
            assert_eq!(
                comparable(&said[0]),
                comparable(&said[1]),
                "{line} (ours left)"
            );
        }
    }
}

/// The replies to a line; a client without rights has no ECHO, so that an error shows the end.
fn ask_raw(client: &mut Box<dyn ReadWrite>, line: &str) -> String {
    const END: &str = "-ERR unknown command 'END', with args beginning with: \r\n";
    client
        .write_all(format!("{line}\r\nEND\r\n").as_bytes())
        .unwrap();
    let (mut said, mut buffer) = (Vec::new(), [0; 4_096]);
    while !said.ends_with(END.as_bytes()) {
        let bytes = client.read(&mut buffer).unwrap();
        assert!(bytes > 0, "closed after {line}");
        said.extend_from_slice(&buffer[..bytes]);
    }
    said.into_iter().map(char::from).collect()
}

/// The categories of every command that this server has are those of Redis.
#[test]
fn commands_are_in_the_categories_of_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let (mut one, mut other) = (ours.connect(), redis.connect());
    let words = |reply: &str| -> Vec<String> {
        let lines = reply.lines().filter(|line| !line.starts_with(['*', '$']));
        lines.map(str::to_owned).collect()
    };
    let known = words(&ask(&mut one, "COMMAND LIST"));
    for category in words(&ask(&mut one, "ACL CAT")) {
        let line = format!("ACL CAT {category}");
        let (ours, theirs) = (words(&ask(&mut one, &line)), words(&ask(&mut other, &line)));
        let later = |name: &&String| {
            let name = name.to_uppercase();
            LATER.contains(&name.as_str()) || LATER_SUBCOMMANDS.contains(&name.as_str())
        };
        let ours: Vec<&String> = ours.iter().filter(|name| !later(name)).collect();
        let missing: Vec<_> = ours.iter().filter(|name| !theirs.contains(name)).collect();
        assert!(missing.is_empty(), "{category}: {missing:?}");
        let is_known = |name: &&String| !name.contains('|') && known.contains(name);
        let theirs = theirs.iter().filter(is_known).count();
        assert_eq!(
            ours.into_iter().filter(is_known).count(),
            theirs,
            "{category}"
        );
    }
}

#[test]
fn users_are_saved_and_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("users.acl");
    std::fs::write(
        &path,
        "user default on nopass ~* &* +@all\nuser a on >x ~k* +get\n",
    )
    .unwrap();
    let config = || ServerConfig {
        acl_file: Some(path.clone()),
        ..ServerConfig::default()
    };
    let ours = Ours::start(config());
    let mut operator = ours.connect();
    assert_eq!(
        ask(&mut operator, "ACL SETUSER b on nopass\r\nACL SAVE"),
        "+OK\r\n+OK\r\n"
    );
    let users = ask(&mut operator, "ACL LIST");
    drop((operator, ours));
    let ours = Ours::start(config());
    let mut operator = ours.connect();
    assert_eq!(ask(&mut operator, "ACL LIST"), users);
    std::fs::write(&path, "user a off nosuch\n").unwrap();
    assert!(ask(&mut operator, "ACL LOAD").starts_with("-ERR "));
    assert_eq!(ask(&mut operator, "ACL LIST"), users);
    std::fs::write(&path, "user a on nopass ~k* +get +echo\n").unwrap();
    assert_eq!(
        ask(&mut operator, "ACL LOAD\r\nACL USERS"),
        "+OK\r\n*2\r\n$1\r\na\r\n$7\r\ndefault\r\n"
    );
    // The connections of a user who is deleted end.
    let mut client = ours.connect();
    assert_eq!(ask(&mut client, "AUTH a x\r\nGET k"), "+OK\r\n$-1\r\n");
    ask(&mut operator, "ACL DELUSER a");
    let mut end = Vec::new();
    std::io::Read::read_to_end(&mut client, &mut end).unwrap();
    assert_eq!(end, b"");
}
