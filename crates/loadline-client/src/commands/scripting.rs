//! Lua scripts, sent once and then called by their digest.

use std::marker::PhantomData;

use sha1_smol::Sha1;

use super::*;
use crate::Error;
use crate::request::{Replies, Request, Requests};

commands! {
    /// Loads a script into the cache of the server. Replies with its digest.
    ///
    /// Redis documentation: [`SCRIPT LOAD`](https://redis.io/docs/latest/commands/script-load/).
    script_load(code: impl Arg) -> String = "SCRIPT" "LOAD"(code);
    /// Checks which of these digests belong to scripts that the server has in its cache. Replies with a value for
    /// each digest.
    ///
    /// Redis documentation: [`SCRIPT EXISTS`](https://redis.io/docs/latest/commands/script-exists/).
    script_exists(digests: impl ToArgs) -> Vec<bool> = "SCRIPT" "EXISTS"(digests);
    /// Runs a script whose code is sent along. Replies with the result of the script. For a script that runs more
    /// than once, see [`Script`].
    ///
    /// Redis documentation: [`EVAL`](https://redis.io/docs/latest/commands/eval/).
    eval<T>(code: impl Arg, keys: impl ToArgs, args: impl ToArgs) -> T
        = "EVAL"(code, counted(keys), args);
    /// Runs a script as [`eval`] does, and stops it if it tries to write.
    ///
    /// Redis documentation: [`EVAL_RO`](https://redis.io/docs/latest/commands/eval_ro/).
    eval_ro<T>(code: impl Arg, keys: impl ToArgs, args: impl ToArgs) -> T
        = "EVAL_RO"(code, counted(keys), args);
    /// Removes all scripts from the cache of the server.
    ///
    /// Redis documentation: [`SCRIPT FLUSH`](https://redis.io/docs/latest/commands/script-flush/).
    script_flush() -> () = "SCRIPT" "FLUSH"() + FlushOptions;
    /// Stops the script that is running, if it has not written yet.
    ///
    /// Redis documentation: [`SCRIPT KILL`](https://redis.io/docs/latest/commands/script-kill/).
    script_kill() -> () = "SCRIPT" "KILL"();
}

/// A Lua script.
///
/// A call sends the digest of the script, and the code if the server does not know the script (`NOSCRIPT`), as
/// after a restart. A pipeline or transaction cannot be sent a second time, since its other commands were
/// executed; [`ScriptCall::whole`] sends the code there, which costs its bytes and no round trip.
///
/// Redis documentation: [`EVALSHA`](https://redis.io/docs/latest/commands/evalsha/).
///
/// ```
/// use loadline_client::commands::Script;
///
/// let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
/// assert_eq!(script.digest().len(), 40);
/// let call = script.call::<i64>("counter", 5);
/// # drop(call);
/// ```
#[derive(Clone, Debug)]
pub struct Script {
    code: String,
    digest: String,
    read_only: bool,
}

impl Script {
    /// A script that may write.
    #[must_use]
    pub fn new(code: impl Into<String>) -> Self {
        let code = code.into();
        let digest = Sha1::from(&code).digest().to_string();
        Self {
            code,
            digest,
            read_only: false,
        }
    }

    /// The same script as a read (`EVALSHA_RO`, since Redis 7.0): the server stops it if it tries to write, so a
    /// call is sent again after a connection broke.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self {
            read_only: true,
            ..self
        }
    }

    /// The SHA-1 digest of the code in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// A call with these keys and arguments (`KEYS` and `ARGV`); use `()` for none.
    #[must_use]
    pub fn call<T: FromReply>(
        &self,
        keys: impl ToArgs,
        args: impl ToArgs,
    ) -> ScriptCall<'_, impl ToArgs, T> {
        ScriptCall {
            script: self,
            args: (counted(keys), args),
            whole: false,
            reply: PhantomData,
        }
    }
}

/// A call of a [`Script`].
#[derive(Clone, Copy, Debug)]
pub struct ScriptCall<'s, A, T> {
    script: &'s Script,
    args: A,
    whole: bool,
    reply: PhantomData<fn() -> T>,
}

impl<A, T> ScriptCall<'_, A, T> {
    /// The same call with the code of the script in place of its digest, which works whether the server knows the
    /// script or not. Use it in pipelines and transactions; later calls in the same one can send the digest.
    ///
    /// ```
    /// use loadline_client::commands::{Script, set};
    ///
    /// let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    /// let pipeline = (
    ///     set("counter", 1),
    ///     script.call::<i64>("counter", 5).whole(),
    ///     script.call::<i64>("counter", 7),
    /// );
    /// # drop(pipeline);
    /// ```
    #[must_use]
    pub fn whole(self) -> Self {
        Self {
            whole: true,
            ..self
        }
    }
}

impl<A: ToArgs, T: FromReply> Request for ScriptCall<'_, A, T> {
    type Output = Result<T, Error>;

    fn commands(&self) -> usize {
        1
    }

    fn encode(&self, out: &mut Requests<'_>) {
        let whole = self.whole || out.is_second_try();
        let meta = match (whole, self.script.read_only) {
            (false, false) => const { facts::of(&["EVALSHA"]) },
            (false, true) => const { facts::of(&["EVALSHA_RO"]) },
            (true, false) => const { facts::of(&["EVAL"]) },
            (true, true) => const { facts::of(&["EVAL_RO"]) },
        };
        let script = if whole {
            &self.script.code
        } else {
            &self.script.digest
        };
        out.command(meta, &(script, &self.args));
    }

    fn decode<R: Replies>(&self, replies: &mut R) -> Self::Output {
        crate::request::read(replies)
    }

    fn wants_second_try(&self, output: &Self::Output) -> bool {
        matches!(output, Err(error) if error.is_server_code("NOSCRIPT"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_is_called_by_its_digest_and_then_sent_whole() {
        let script = Script::new("return 1");
        assert_eq!(script.digest(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        let call = script.call::<i64>(["a", "b"], 7);
        let encoded = |second_try| {
            let mut out = Vec::new();
            call.encode(&mut Requests::new(&mut out, second_try));
            String::from_utf8(out).unwrap()
        };
        let tail = "$1\r\n2\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\n7\r\n";
        assert_eq!(
            encoded(false),
            format!(
                "*6\r\n$7\r\nEVALSHA\r\n$40\r\n{}\r\n{tail}",
                script.digest()
            )
        );
        assert_eq!(
            encoded(true),
            format!("*6\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n{tail}")
        );
        let mut whole = Vec::new();
        let call = script.call::<i64>(["a", "b"], 7).whole();
        call.encode(&mut Requests::new(&mut whole, false));
        assert_eq!(String::from_utf8(whole).unwrap(), encoded(true));
    }
}
