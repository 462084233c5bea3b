//! The same commands to our server and to a real redis-server: the replies must be the same bytes.

use std::io::{Read as _, Write as _};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use loadline_server::ServerConfig;

use crate::support::{Ours, ReadWrite, Redis, ask};

/// Inline commands, in this order. Collections hold one element where their whole is asked for, since
/// their order is unspecified.
const COMMANDS: &str = "\
PING|PING hello|PING a b|ECHO x|ECHO|get|GET a|SET a 1|GET a|SET a 2 NX|SET a 2 XX|GET a|SET b 2 XX
SET a 3 GET|SET none 3 GET XX|SET a v EX 100|TTL a|SET a w KEEPTTL|TTL a|SET a x|TTL a|SET a v EX 0|SET a v EX -1|SET a v EX x
SET a v PX|SET a v NX XX|SET a v bogus|SETNX a 1|SETNX n 1|SETEX e 100 v|TTL e|SETEX e 0 v|PSETEX e 100000 v|GETSET a 5|GETDEL a|GETDEL a
INCR c|INCR c|DECR c|INCRBY c 10|DECRBY c 3|INCRBY c x|SET s abc|INCR s|SET big 9223372036854775807|INCR big|DECRBY c -9223372036854775808
SET z 01|INCR z|INCRBY c 1.5|MSET m1 1 m2 2|MSET m1|MSET m1 1 m2|MGET m1 m2 m3|APPEND s def|APPEND new x|STRLEN s|STRLEN nope|GET s
EXISTS s s nope|DEL s nope|UNLINK m1 m2|EXISTS s|TYPE c|TYPE nope|EXPIRE c 100|TTL c|PERSIST c|PERSIST c|TTL c|TTL nope|PTTL nope
EXPIRE nope 10|EXPIRE c -1|EXISTS c|EXPIRE c x|EXPIREAT n 1|EXISTS n|SET r 1|RENAME r q|RENAME r q|GET q
SADD set a|SADD set a b c|SCARD set|SISMEMBER set a|SISMEMBER set x|SREM set a b x|SMEMBERS set|TYPE set|GET set|INCR set|SADD q x|SREM set c|EXISTS set
SMEMBERS set|SPOP set|SPOP set 2|SADD one m|SPOP one|SPOP one -1|HSET h f v|HSET h f w|HSET h a|HSET h f 1 g 2|HGET h f|HGET h x|HGET nope x|HMGET h f g x
HLEN h|HEXISTS h f|HEXISTS h x|HDEL h g x|HGETALL h|HGETALL nope|HINCRBY h f 5|HINCRBY h f x|HSET h s abc|HINCRBY h s 1|HMSET h2 a b|HMSET h2 a|TYPE h|SADD h x|HSET q f v|HDEL h f s|EXISTS h
MULTI|SET t 1|INCR t|GET t|NOSUCHX|EXEC|MULTI|SET t 5|INCR t|EXEC|GET t|MULTI|NOSUCH a|EXEC|EXEC|DISCARD|MULTI|MULTI|DISCARD|MULTI|SHUTDOWN NOSAVE|PING|EXEC|MULTI|GET one|SADD t x|EXEC
SELECT 3|GET t|SELECT 0|SELECT 16|SELECT x|NOSUCH|NOSUCH a b c|HELLO 9|HELLO x|AUTH x|AUTH a b|CLIENT GETNAME|CLIENT SETNAME me|CLIENT GETNAME|CLIENT
SET f 10.5|INCRBYFLOAT f 0.1|INCRBYFLOAT f -5|SET f 1.5|INCRBYFLOAT f 5.0e3|INCRBYFLOAT f x|SET f abc|INCRBYFLOAT f 1|INCRBYFLOAT nf 3|SET f 3.0|INCRBYFLOAT f 1.500
MSETNX y1 a y2 b|MSETNX y2 c y3 d|MSETNX y1|EXISTS y1 y2 y3|GETEX y1|GETEX y1 EX 100|TTL y1|GETEX y1 PERSIST|TTL y1|GETEX y1 EX 0|GETEX y1 BOGUS|GETEX nope EX 5|GETEX y1 PXAT 1|EXISTS y1
SET rg Hello|GETRANGE rg 0 -1|GETRANGE rg 1 3|GETRANGE rg -3 -1|GETRANGE rg 3 1|GETRANGE rg -1 -3|GETRANGE rg 10 20|GETRANGE nope 0 1|SUBSTR rg 0 1|GETRANGE rg a b|GETRANGE h 0 1
SETRANGE rg 1 ipp|GET rg|SETRANGE rg 8 x|GET rg|SETRANGE rg -1 x|SETRANGE none 5 \"\"|EXISTS none|SETRANGE rg 536870912 x|SETRANGE rg a b
DEL u1 u2 u3|SADD u1 a b c|SADD u2 b|SADD u3 b z|SINTER u1 u2 u3|SINTER u1 nope|SUNION u2 nope|SDIFF u2 u1|SDIFF u3 u1|SINTERSTORE d1 u1 u2|SMEMBERS d1|SUNIONSTORE d2 u2|SDIFFSTORE d3 u3 u1|SMEMBERS d3|SINTERSTORE d1 u1 nope|EXISTS d1
SINTERCARD 2 u1 u2|SINTERCARD 2 u1 u3 LIMIT 1|SINTERCARD 0 u1|SINTERCARD 3 u1|SINTERCARD 1 u1 LIMIT -1|SINTERCARD 1 u1 BOGUS|SINTERCARD x u1|SMISMEMBER u1 a x|SMISMEMBER nope a|SMISMEMBER rg a
SMOVE u1 u2 a|SMOVE u1 u2 nope|SMOVE nope u2 x|SMOVE u2 rg b|SMOVE rg u2 b|SCARD u2|SMOVE u2 u2 a|SRANDMEMBER nope|SRANDMEMBER nope 2|SRANDMEMBER d2|SRANDMEMBER d2 5|SRANDMEMBER d2 -3|SRANDMEMBER d2 x|SSCAN d2 0|SSCAN d2 0 MATCH x*|SSCAN nope 0|SSCAN d2 x|SSCAN d2 0 COUNT 0|SINTER u1 rg
HSET k a 1|HSETNX k a 2|HSETNX k b 2|HDEL k b|HKEYS k|HVALS k|HKEYS nope|HSTRLEN k a|HSTRLEN k x|HINCRBYFLOAT k a 1.5|HINCRBYFLOAT k n 0.1|HDEL k n|HINCRBYFLOAT k a x|HSET k s abc|HINCRBYFLOAT k s 1|HDEL k s
HRANDFIELD k|HRANDFIELD k 3|HRANDFIELD k -2|HRANDFIELD k 2 WITHVALUES|HRANDFIELD nope|HRANDFIELD nope 2|HRANDFIELD k x|HRANDFIELD k 1 BOGUS|HSCAN k 0|HSCAN k 0 MATCH z|HSCAN nope 0|HSCAN k x|HKEYS rg
SET c1 v|COPY c1 c2|COPY c1 c2|COPY c1 c2 REPLACE|COPY c1 c1|COPY nope c9|COPY c1 c2 DB 3|COPY c1 c2 DB 99|COPY c1 c2 BOGUS|GET c2|RENAMENX c1 c2|RENAMENX c1 c3|RENAMENX nope c4|RENAMENX c3 c3|TOUCH c2 c3 nope|FLUSHDB|RANDOMKEY|SET only 1|RANDOMKEY
SET x1 v EXAT 33177117420|EXPIRETIME x1|PEXPIRETIME x1|EXPIRETIME nope|SET x2 v|EXPIRETIME x2|EXPIRE x2 100 XX|EXPIRE x2 100 NX|EXPIRE x2 50 GT|EXPIRE x2 200 GT|TTL x2|EXPIRE x2 100 LT|TTL x2|EXPIRE x2 10 NX XX|EXPIRE x2 10 GT LT|EXPIRE x2 10 BOGUS|EXPIRE x2 5 NX|PERSIST x2|EXPIRE x2 5 GT|EXPIRE x2 500 LT|TTL x2
OBJECT ENCODING x1|SET num 12|OBJECT ENCODING num|OBJECT REFCOUNT x1|OBJECT ENCODING nope|OBJECT BOGUS x1|OBJECT FREQ x1|SADD ints 1 2|OBJECT ENCODING ints|HSET small a b|OBJECT ENCODING small
WAIT 0 0|WAIT x 0|WAIT 0 -1|ACL WHOAMI|CONFIG RESETSTAT|CONFIG SET maxmemory 0|CONFIG SET a|CLIENT NO-EVICT on|CLIENT NO-EVICT x|CLIENT KILL ID 0|CLIENT KILL ID 999999|CLIENT KILL 1.2.3.4:5|CLIENT KILL BOGUS x|CLIENT LIST TYPE pubsub|CLIENT LIST TYPE x|CLIENT LIST ID x|MEMORY USAGE nope|MEMORY PURGE|MEMORY PURGE x|MEMORY STATS x|MEMORY|PFSELFTEST x
WATCH x1|MULTI|SET x1 2|EXEC|UNWATCH|MULTI|WATCH x1|EXEC|WATCH x1|SET x1 3|MULTI|GET x1|EXEC|WATCH x1|SET x1 4|UNWATCH|MULTI|GET x1|EXEC|WATCH nope|DEL nope|MULTI|EXEC|WATCH x1|FLUSHALL|MULTI|EXEC|WATCH|LASTSAVE x
CLIENT REPLY ON|CLIENT REPLY SKIP|PING|PING|CLIENT REPLY OFF|PING|CLIENT REPLY SKIP|CLIENT REPLY ON|CLIENT REPLY SKIP|CLIENT REPLY SKIP|PING|PING|CLIENT REPLY x|CLIENT REPLY
FLUSHALL|SET m1 v|MOVE m1 1|MOVE m1 1|MOVE m1 0|MOVE m1 99|MOVE m1 x|SELECT 1|GET m1|SELECT 0|SWAPDB 0 1|GET m1|SWAPDB 0 0|SWAPDB 0 99|SWAPDB x 1|SWAPDB 0 x|SWAPDB 0
COMMAND GETKEYS GET a|COMMAND GETKEYS MSET a 1 b 2|COMMAND GETKEYS SINTERCARD 2 a b LIMIT 1|COMMAND GETKEYS SINTERCARD 3 a b|COMMAND GETKEYS PING|COMMAND GETKEYS PING x|COMMAND GETKEYS GET a b|COMMAND GETKEYS nosuch a|COMMAND GETKEYS GET|COMMAND GETKEYS RENAME a b|COMMAND GETKEYS BLPOP a b 0|COMMAND GETKEYS SUNIONSTORE a b c|COMMAND LIST FILTERBY x|COMMAND LIST FILTERBY PATTERN smembe*|COMMAND NOSUCH|COMMAND COUNT x
SHUTDOWN SAVE NOSAVE|SHUTDOWN nosave NOW save|SHUTDOWN NOW NOW SAVE NOSAVE|SHUTDOWN ABORT|SHUTDOWN ABORT ABORT|SHUTDOWN NOW ABORT|SHUTDOWN ABORT NOSAVE|SHUTDOWN SAVE ABORT|SHUTDOWN FORCE x|BGREWRITEAOF x|SAVE x|BGSAVE x|CONFIG REWRITE|CONFIG REWRITE x|CONFIG SET appendfsync no|CONFIG SET appendfsync no APPENDFSYNC no|CONFIG SET maxmemory 0 maxmemory 1|CONFIG SET maxmemory-policy x
CONFIG SET maxmemory-policy allkeys-lru|CONFIG GET maxmemory-policy|CONFIG SET maxmemory-policy allkeys-random|CONFIG SET maxmemory-policy volatile-lru|CONFIG SET maxmemory-policy volatile-random|CONFIG SET maxmemory-policy VOLATILE-TTL|CONFIG GET maxmemory-policy|CONFIG SET maxmemory-policy noeviction
OBJECT HELP|OBJECT ENCODING|OBJECT NOSUCH a|SRANDMEMBER s 1 2|SHUTDOWN BOGUS|MEMORY NOSUCH|CLIENT NOSUCH|CONFIG NOSUCH|COMMAND NOSUCH|OBJECT HELP x|MEMORY USAGE nope SAMPLES x|MEMORY USAGE nope BOGUS 1
HELLO 3 SETNAME|HELLO 3 BOGUS|HELLO 3 SETNAME \"a b\"|HELLO 3 AUTH default|HELLO 3 AUTH nobody x|AUTH default x|SETEX k 9223372036854775807 v|EXPIRE k 9223372036854775807|GETEX k EX 9223372036854775807|SET k v PX 9223372036854775807|GETSET k
SET e \"\"|SETRANGE e 0 \"\"|EXISTS e|STRLEN e|SETRANGE e 5 \"\"|EXPIRE e 100|EXPIRE e 50 gt|SET e w KEEPTTL|TTL e|RENAME e e|TTL e|RENAME e f|TTL f|COPY f g|TTL g|APPEND g x|TTL g|INCRBYFLOAT nf 1|TTL nf
nosuch aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b c|nosuch a b c d e f g h i j k l m n o p q r s t u v w x y z 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6
FLUSHALL|LPUSH l a b c|RPUSH l d|LRANGE l 0 -1|LRANGE l -2 -1|LRANGE l 5 9|LRANGE l 2 1|LRANGE l x 1|LLEN l|LLEN nope|LINDEX l 0|LINDEX l -1|LINDEX l 9|LINDEX l -9|LINDEX l x|LINDEX nope x|LSET l 0 z|LSET l 9 z|LSET l x z|LSET nope 0 z|LPOP l|RPOP l|LPOP l 0|LPOP l -1|LPOP l x|LPOP l 9|EXISTS l|LPOP l|LPOP l 2|LPOP l 1 2|LPUSHX l a|RPUSHX l a|RPUSH l a|RPUSHX l b c|TYPE l|OBJECT ENCODING l|GET l|SADD l a|SET s v|LPUSH s a|LRANGE s 0 1|COPY l m|LRANGE m 0 -1|RENAME m n|LRANGE n 0 -1
SETBIT b 7 1|GET b|GETBIT b 7|GETBIT b 6|GETBIT b 100|GETBIT nope 0|SETBIT b 7 0|SETBIT b 0 2|SETBIT b x 1|SETBIT b -1 1|SETBIT b 4294967296 1|SETBIT b 0 x|GETBIT b 4294967296|SETBIT l 0 1|GETBIT l 0|OBJECT ENCODING b|SET b foobar|BITCOUNT b|BITCOUNT b 0 0|BITCOUNT b 1 1|BITCOUNT b 5 30 BIT|BITCOUNT b -2 -1|BITCOUNT b 3 1|BITCOUNT b 0|BITCOUNT b 0 1 BOGUS|BITCOUNT nope|BITCOUNT l|BITCOUNT b 0 -100|SET c abcdef|BITOP AND d b c|GET d|BITOP OR d b c nope|GET d|BITOP XOR d b c|BITOP NOT d b|BITOP NOT d b c|BITOP BOGUS d b|BITOP AND d nope|EXISTS d|BITOP AND d l
MSET v1 ohmytext v2 mynewtext|LCS v1 v2|LCS v1 v2 LEN|LCS v1 v2 IDX|LCS v1 v2 IDX MINMATCHLEN 4|LCS v1 v2 IDX MINMATCHLEN 4 WITHMATCHLEN|LCS v1 nope|LCS v1 l|LCS v1 v2 LEN IDX|LCS v1 v2 BOGUS|LCS v1 v2 MINMATCHLEN x|SET e1 \"\"|LCS e1 v1 IDX
RPUSH so 3 1 2 10|SORT so|SORT so DESC|SORT so ALPHA|SORT so LIMIT 1 2|SORT so LIMIT 5 2|SORT so LIMIT -1 -1|SORT so LIMIT x 1|SORT so BOGUS|SORT so BY|SORT so STORE sd|LRANGE sd 0 -1|SORT nope STORE sd|EXISTS sd|MSET w_1 9 w_2 8 w_3 7 w_10 6|SORT so BY w_*|SORT so BY w_* DESC|SORT so BY w_* GET # GET w_* GET x_*|SORT so BY nosort|SORT so BY nosort DESC LIMIT 0 2|HSET h_1 f b|HSET h_2 f a|SORT so BY h_*->f ALPHA GET h_*->f GET #|RPUSH so x|SORT so|SORT so ALPHA DESC|SORT s|SORT_RO so ALPHA|SORT_RO so STORE x|SADD ss 5 3 4|SORT ss|SORT ss BY nosort STORE sd|LRANGE sd 0 -1
SET bp \"\\xff\\xf0\\x00\"|BITPOS bp 0|BITPOS bp 1|BITPOS bp 1 2|BITPOS bp 0 0 0|BITPOS bp 0 0|BITPOS bp 0 -1|BITPOS bp 1 0 -1|BITPOS bp 1 1 -2|BITPOS bp 0 3 12 BIT|BITPOS bp 0 13 23 BIT|BITPOS bp 1 12 -1 BIT|BITPOS bp 0 0 7 bit|BITPOS bp 1 5 2|BITPOS bp 0 -1 -3|BITPOS bp 0 -100 100 BYTE|BITPOS bp 0 9|BITPOS bp 2|BITPOS bp x|BITPOS bp 0 x|BITPOS bp 0 0 x|BITPOS bp 0 0 1 BOGUS|BITPOS bp 0 x 1 BOGUS|BITPOS bp 0 0 x BOGUS|BITPOS bp 0 0 1 BIT x|BITPOS nope 0|BITPOS nope 1|BITPOS nope 2|BITPOS nope 0 x|BITPOS l 0|BITPOS bp|SET bp \"\\xff\\xff\"|BITPOS bp 0|BITPOS bp 0 1|BITPOS bp 0 0 -1|BITPOS bp 0 -1 -1|SET bp \"\"|BITPOS bp 0|BITPOS bp 1|BITPOS bp 0 0|BITPOS bp 0 0 -1
SET du 1|DUMP du|SET du 127|DUMP du|SET du -129|DUMP du|SET du 70000|DUMP du|SET du 12345678901|DUMP du|SET du abc|DUMP du|SET du \"\"|DUMP du|DUMP nope|DUMP|APPEND du x|DUMP du|DEL dl dh ds|RPUSH dl a 1|DUMP dl|RPUSH dl -5|DUMP dl|HSET dh f 1|DUMP dh|SADD ds 1 2|DUMP ds|SADD ds -40000|DUMP ds|DEL ds|SADD ds one|DUMP ds|RESTORE du 0 x|RESTORE du 0 x REPLACE|RESTORE rs x x|RESTORE rs -1 x|RESTORE rs 0 x BOGUS|RESTORE rs 0 x IDLETIME -1|RESTORE rs 0 x FREQ 256|RESTORE rs 0 x FREQ 1 IDLETIME 1|RESTORE rs 0 x IDLETIME|RESTORE rs 0 x FREQ x|RESTORE rs 0 0123456789ab|RESTORE rs 0
CLIENT UNPAUSE|CLIENT PAUSE 0|PING|CLIENT PAUSE -1|CLIENT PAUSE x|CLIENT PAUSE 1 BOGUS|CLIENT PAUSE|CLIENT PAUSE 1 ALL x|CLIENT PAUSE 20 WRITE|GET nope|SET paused 1|GET paused|CLIENT PAUSE 20|PING|CLIENT UNPAUSE x|CLIENT UNBLOCK 999999|CLIENT UNBLOCK 999999 ERROR|CLIENT UNBLOCK 999999 TIMEOUT|CLIENT UNBLOCK 999999 BOGUS|CLIENT UNBLOCK x|CLIENT UNBLOCK
FUNCTION FLUSH|FUNCTION FLUSH ASYNC|FUNCTION FLUSH BOGUS|FUNCTION LIST|FUNCTION LIST WITHCODE|FUNCTION|FUNCTION NOSUCH|CONFIG SET hash-max-listpack-entries x|CONFIG SET maxmemory bla|CONFIG SET maxmemory 100mb|CONFIG GET maxmemory|CONFIG SET maxmemory 0|CONFIG SET set-max-intset-entries -1|CONFIG SET hash-max-ziplist-value 1kb|CONFIG GET hash-max-listpack-value|CONFIG SET hash-max-listpack-value 64|CONFIG SET nosuch 1
PFADD hl a b c d e|PFADD hl a|PFADD hl|PFADD hl2|PFADD hl2|PFCOUNT hl|GET hl|PFCOUNT hl|OBJECT ENCODING hl|PFADD hl f|GET hl|PFCOUNT hl hl2 nope|PFCOUNT nope|PFMERGE hm hl hl2|PFCOUNT hm|GET hm|PFMERGE hn nope|GET hn|PFMERGE hl|PFDEBUG ENCODING hl|PFDEBUG DECODE hl|PFDEBUG DECODE nope|PFDEBUG BOGUS hl|PFDEBUG ENCODING|CONFIG SET hll-sparse-max-bytes 30|PFADD hl g h i j k l m n o p|PFDEBUG ENCODING hl|PFDEBUG DECODE hl|GET hl|PFCOUNT hl|PFCOUNT hl hm|PFADD hl q r s|GET hl|PFMERGE hm hl|PFDEBUG ENCODING hm|GET hm|PFDEBUG GETREG hm|PFDEBUG TODENSE hl|PFDEBUG TODENSE hn|PFDEBUG TODENSE hn|CONFIG SET hll-sparse-max-bytes 3000|CONFIG GET hll-sparse-max-bytes|SET hx x|PFADD hx a|PFCOUNT hx|PFCOUNT hl hx|PFMERGE hx hl|PFMERGE hl hx|PFDEBUG ENCODING hx|SADD hs a|PFADD hs a|PFCOUNT hs|PFMERGE hs hl|SET hz \"HYLL\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x80\\x7f\\xf0\"|PFCOUNT hz|PFADD hz a|PFADD hz a b c|PFCOUNT hl hz|PFMERGE hl hz|PFDEBUG TODENSE hz|PFADD big e0 e1 e2 e3 e4 e5 e6 e7 e8 e9 e10 e11 e12 e13 e14 e15 e16 e17 e18 e19 e20 e21 e22 e23 e24 e25 e26 e27 e28 e29 e30 e31 e32 e33 e34 e35 e36 e37 e38 e39 e40 e41 e42 e43 e44 e45 e46 e47 e48 e49 e50 e51 e52 e53 e54 e55 e56 e57 e58 e59 e60 e61 e62 e63 e64 e65 e66 e67 e68 e69 e70 e71 e72 e73 e74 e75 e76 e77 e78 e79 e80 e81 e82 e83 e84 e85 e86 e87 e88 e89 e90 e91 e92 e93 e94 e95 e96 e97 e98 e99 e100 e101 e102 e103 e104 e105 e106 e107 e108 e109 e110 e111 e112 e113 e114 e115 e116 e117 e118 e119 e120 e121 e122 e123 e124 e125 e126 e127 e128 e129 e130 e131 e132 e133 e134 e135 e136 e137 e138 e139 e140 e141 e142 e143 e144 e145 e146 e147 e148 e149 e150 e151 e152 e153 e154 e155 e156 e157 e158 e159 e160 e161 e162 e163 e164 e165 e166 e167 e168 e169 e170 e171 e172 e173 e174 e175 e176 e177 e178 e179 e180 e181 e182 e183 e184 e185 e186 e187 e188 e189 e190 e191 e192 e193 e194 e195 e196 e197 e198 e199 e200 e201 e202 e203 e204 e205 e206 e207 e208 e209 e210 e211 e212 e213 e214 e215 e216 e217 e218 e219 e220 e221 e222 e223 e224 e225 e226 e227 e228 e229 e230 e231 e232 e233 e234 e235 e236 e237 e238 e239 e240 e241 e242 e243 e244 e245 e246 e247 e248 e249 e250 e251 e252 e253 e254 e255 e256 e257 e258 e259 e260 e261 e262 e263 e264 e265 e266 e267 e268 e269 e270 e271 e272 e273 e274 e275 e276 e277 e278 e279 e280 e281 e282 e283 e284 e285 e286 e287 e288 e289 e290 e291 e292 e293 e294 e295 e296 e297 e298 e299|GET big|PFCOUNT big|PFDEBUG DECODE big
BITFIELD bf SET i8 0 -100 GET i8 0 GET u8 0|BITFIELD bf SET u8 #1 300 INCRBY u8 #1 255|BITFIELD bf OVERFLOW SAT INCRBY i8 0 -100 SET u4 8 -1 INCRBY u4 8 1|BITFIELD bf OVERFLOW FAIL INCRBY i8 0 -100 SET i8 0 200 GET i8 0|BITFIELD bf OVERFLOW BOGUS|BITFIELD bf OVERFLOW|BITFIELD bf GET u64 0|BITFIELD bf GET i65 0|BITFIELD bf GET x8 0|BITFIELD bf GET u8 -1|BITFIELD bf GET u8 #x|BITFIELD bf GET u8 4294967296|BITFIELD bf SET u8 0 x|BITFIELD bf BOGUS u8 0|BITFIELD bf GET u8|BITFIELD bf|BITFIELD nope GET u8 0|EXISTS nope|BITFIELD_RO bf GET u8 0|BITFIELD_RO bf SET u8 0 1|BITFIELD bf SET i64 5 -9223372036854775808 INCRBY i64 5 -1|BITFIELD bf OVERFLOW SAT INCRBY i64 5 1|GET bf|STRLEN bf|BITFIELD bf OVERFLOW FAIL INCRBY u1 400 2|STRLEN bf|SADD bs x|BITFIELD bs GET u8 0|BITFIELD bs SET u8 0 1|ROLE|CONFIG SET list-max-ziplist-size -1 list-compress-depth 1|CONFIG GET list-compress-depth|CONFIG SET list-compress-depth 0 list-max-listpack-size -2
FLUSHALL|RPUSH l a b c d e|LTRIM l 1 -2|LRANGE l 0 -1|LTRIM l 5 1|EXISTS l|LTRIM nope 0 1|LTRIM l x 1|SET s v|LTRIM s 0 1|RPUSH l a b a c a|LREM l 1 a|LRANGE l 0 -1|LREM l -1 a|LRANGE l 0 -1|LREM l 0 x|LREM l x a|LREM nope 0 a|LREM s 0 a|LREM l 0 a|LRANGE l 0 -1|LINSERT l BEFORE b x|LINSERT l after c y|LRANGE l 0 -1|LINSERT l AFTER nope y|LINSERT nope BEFORE a b|LINSERT l BOGUS a b|LINSERT s BEFORE a b|LREM l 0 b|LREM l 0 x|LREM l 0 c|LREM l 0 y|EXISTS l
RPUSH l a b c 1 2 3 c c|LPOS l c|LPOS l c RANK 2|LPOS l c RANK -1|LPOS l c RANK 0|LPOS l c COUNT 2|LPOS l c COUNT 0|LPOS l c COUNT 0 MAXLEN 3|LPOS l c RANK -1 COUNT 2|LPOS l c RANK 5|LPOS l c RANK 5 COUNT 1|LPOS l x|LPOS nope c|LPOS nope c COUNT 1|LPOS l c COUNT -1|LPOS l c MAXLEN -1|LPOS l c RANK x|LPOS l c BOGUS 1|LPOS l c RANK|LPOS s c|LPOS l c RANK -2 MAXLEN 7
LMOVE l m LEFT RIGHT|LMOVE l m RIGHT LEFT|LRANGE m 0 -1|LMOVE l l LEFT RIGHT|LRANGE l 0 -1|LMOVE nope m LEFT LEFT|LMOVE l s LEFT LEFT|LMOVE nope s LEFT LEFT|LMOVE s l LEFT LEFT|LMOVE l m UP LEFT|LMOVE l m LEFT UP|RPOPLPUSH l m|RPOPLPUSH nope m|RPOPLPUSH m m|LRANGE m 0 -1|RPOPLPUSH s m|RPUSH one x|RPOPLPUSH one one|RPOPLPUSH one two|EXISTS one
LMPOP 2 nope l LEFT|LMPOP 1 l RIGHT COUNT 2|LMPOP 0 l LEFT|LMPOP x l LEFT|LMPOP 2 l LEFT|LMPOP 1 l UP|LMPOP 1 l LEFT COUNT 0|LMPOP 1 l LEFT COUNT|LMPOP 1 l LEFT COUNT 1 COUNT 1|LMPOP 1 nope LEFT|LMPOP 2 s l LEFT|LMPOP 1 l LEFT COUNT 100|EXISTS l|LMPOP 9223372036854775807 l LEFT
ZADD z 1 a 2 b 3 c|ZADD z 1 a 5 d|ZADD z CH 9 a 5 d 7 e|ZADD z NX 100 a 8 f|ZADD z XX 100 nope 2.5 b|ZADD z GT CH 1 a 10 a|ZADD z LT CH 1 a 10 c|ZADD z NX XX 1 a|ZADD z GT LT 1 a|ZADD z NX GT 1 a|ZADD z INCR 1.5 b|ZADD z INCR NX 1 b|ZADD z INCR GT -1 b|ZADD z INCR 1 a 2 b|ZADD z x a|ZADD z 1|ZADD z 1 a 2|ZADD z NX|ZADD z nan a|ZADD s 1 a|ZADD nope XX 1 a|EXISTS nope|ZADD z inf i|ZADD z INCR -inf i|ZINCRBY z 2 a|ZINCRBY z x a|ZINCRBY z 0.1 new|ZINCRBY s 1 a|ZINCRBY z 1e400 a|ZINCRBY z 0x10 a|ZADD z 1e-400 a|ZADD z \" 1\" a|ZADD z \"\" a|TYPE z|OBJECT ENCODING z|GET z|SADD z x
ZRANGE z 0 -1|ZRANGE z 0 -1 WITHSCORES|ZRANGE z 1 2|ZRANGE z -2 -1 REV WITHSCORES|ZRANGE z 5 1|ZRANGE z x 1|ZRANGE nope 0 -1|ZRANGE s 0 -1|ZRANGE z 1 3 BYSCORE|ZRANGE z (1 +inf BYSCORE WITHSCORES LIMIT 1 2|ZRANGE z +inf -inf BYSCORE REV|ZRANGE z 0 1 LIMIT 0 1|ZRANGE z 0 1 LIMIT 0 -1|ZRANGE z - + BYLEX|ZRANGE z - + BYLEX WITHSCORES|ZRANGE z a b BYLEX|ZRANGE z 0 1 BYSCORE BYLEX|ZRANGE z 0 1 REV REV|ZRANGE z 0 1 BOGUS|ZRANGE z x 1 BYSCORE|ZRANGE z 0 1 BYSCORE LIMIT x 1|ZRANGE z 0 1 BYSCORE LIMIT 1|ZREVRANGE z 0 1 WITHSCORES|ZREVRANGE z 0 1 REV|ZREVRANGE z 0 1 BYSCORE|ZREVRANGE z 9223372036854775807 -9223372036854775808|ZRANGE z -9223372036854775808 9223372036854775807
ZRANGEBYSCORE z -inf +inf|ZRANGEBYSCORE z (2.5 10 WITHSCORES|ZRANGEBYSCORE z 10 (2.5|ZRANGEBYSCORE z -inf inf LIMIT 2 3|ZRANGEBYSCORE z -inf inf LIMIT -1 3|ZRANGEBYSCORE z -inf inf LIMIT 1 -5|ZRANGEBYSCORE z -inf inf LIMIT 100 1|ZRANGEBYSCORE z 0 0x20 LIMIT 0 0|ZRANGEBYSCORE z (x 1|ZRANGEBYSCORE z nan 1|ZRANGEBYSCORE z \"\" 5|ZRANGEBYSCORE z ( 5|ZRANGEBYSCORE z 1e400 1|ZRANGEBYSCORE nope x 1|ZREVRANGEBYSCORE z +inf -inf WITHSCORES LIMIT 1 2|ZREVRANGEBYSCORE z 5 (3|ZREVRANGEBYSCORE z 3 5|ZCOUNT z -inf +inf|ZCOUNT z (3 8|ZCOUNT z x 1|ZCOUNT nope 0 1|ZCOUNT s 0 1|ZCOUNT nope x 1|ZRANGEBYSCORE s 0 1
ZADD lx 0 a 0 b 0 bb 0 c 0 d|ZRANGEBYLEX lx - +|ZRANGEBYLEX lx [b (d|ZRANGEBYLEX lx (b +|ZRANGEBYLEX lx [b [b|ZRANGEBYLEX lx (b [b|ZRANGEBYLEX lx + -|ZRANGEBYLEX lx - -|ZRANGEBYLEX lx + +|ZRANGEBYLEX lx - + LIMIT 1 2|ZRANGEBYLEX lx - + LIMIT -1 2|ZRANGEBYLEX lx - + LIMIT 1 -1|ZRANGEBYLEX lx - + LIMIT 9 1|ZRANGEBYLEX lx - + WITHSCORES|ZRANGEBYLEX lx a c|ZRANGEBYLEX lx -x +|ZRANGEBYLEX lx \"\" +|ZRANGEBYLEX lx ( [c|ZRANGEBYLEX nope - +|ZRANGEBYLEX s - +|ZREVRANGEBYLEX lx + -|ZREVRANGEBYLEX lx [c (a|ZREVRANGEBYLEX lx [c (a LIMIT 1 1|ZREVRANGEBYLEX lx - +|ZLEXCOUNT lx - +|ZLEXCOUNT lx [b (d|ZLEXCOUNT lx d a|ZLEXCOUNT nope - +|ZLEXCOUNT nope x +|ZREMRANGEBYLEX lx [b (c|ZRANGE lx 0 -1|ZREMRANGEBYLEX lx x y|ZREMRANGEBYLEX nope - +|ZREMRANGEBYLEX lx - +|EXISTS lx
ZSCORE z a|ZSCORE z nope|ZSCORE nope a|ZSCORE s a|ZMSCORE z a nope c|ZMSCORE nope a|ZRANK z a|ZRANK z nope|ZREVRANK z a|ZREVRANK nope a|ZRANK s a|ZCARD z|ZCARD nope|ZCARD s|ZREM z a nope a|ZREM nope a|ZREM s a|ZREMRANGEBYRANK z 0 0|ZREMRANGEBYRANK z x 0|ZREMRANGEBYRANK z 5 1|ZREMRANGEBYRANK z -1 -1|ZREMRANGEBYSCORE z (2 3|ZREMRANGEBYSCORE z x 3|ZREMRANGEBYSCORE nope x 3|ZREMRANGEBYSCORE s 0 3|ZRANGE z 0 -1 WITHSCORES
ZADD p 1 a 2 b 3 c 4 d 5 e 6 f|ZPOPMIN p|ZPOPMAX p|ZPOPMIN p 2|ZPOPMAX p 0|ZPOPMIN p -1|ZPOPMIN p x|ZPOPMIN p 1 2|ZPOPMIN nope|ZPOPMIN nope 2|ZPOPMAX s|ZMPOP 2 nope p MIN|ZMPOP 1 p MAX COUNT 10|EXISTS p|ZMPOP 1 nope MIN|ZMPOP 0 p MIN|ZMPOP 2 p MIN|ZMPOP 1 p UP|ZMPOP 1 p MIN COUNT 0|ZMPOP 1 p MIN COUNT 1 COUNT 1|ZMPOP 1 s MIN|ZMPOP x p MIN|ZPOPMAX p
ZADD u1 1 a 2 b 3 c|ZADD u2 10 b 20 c 30 d|SADD u3 c d x|ZUNION 2 u1 u2|ZUNION 2 u1 u2 WITHSCORES|ZUNION 2 u1 u2 WEIGHTS 2 0.5 AGGREGATE MAX WITHSCORES|ZUNION 3 u1 u2 u3 AGGREGATE MIN WITHSCORES|ZINTER 2 u1 u2 WITHSCORES|ZINTER 3 u1 u2 u3 WITHSCORES|ZINTER 2 u1 u1 WEIGHTS 1 -1 WITHSCORES|ZINTER 2 u1 nope|ZDIFF 2 u1 u2 WITHSCORES|ZDIFF 2 u1 u1|ZDIFF 2 u3 u1 WITHSCORES|ZDIFF 2 u1 u2 WEIGHTS 1 1|ZDIFF 1 nope|ZUNION 0 u1|ZUNION x u1|ZUNION 3 u1 u2|ZUNION 2 u1 s|ZUNION 2 u1 u2 WEIGHTS 1|ZUNION 2 u1 u2 WEIGHTS 1 x|ZUNION 2 u1 u2 AGGREGATE|ZUNION 2 u1 u2 AGGREGATE BOGUS|ZUNION 2 u1 u2 BOGUS|ZUNION 1 s BOGUS|ZUNION 2 u1 u2 WEIGHTS inf 0 WITHSCORES|ZUNION 1 u1 WEIGHTS -0.0 WITHSCORES
ZUNIONSTORE d 2 u1 u2|ZRANGE d 0 -1 WITHSCORES|OBJECT ENCODING d|ZINTERSTORE d 2 u1 u2 WEIGHTS 1 0|ZRANGE d 0 -1 WITHSCORES|ZDIFFSTORE d 2 u1 u2|ZRANGE d 0 -1 WITHSCORES|ZDIFFSTORE d 1 nope|EXISTS d|ZUNIONSTORE d 1 u1 WITHSCORES|ZUNIONSTORE d 0 u1|ZINTERSTORE s 1 u1|TYPE s|SET s v|ZUNIONSTORE d 2 u1 s|ZUNIONSTORE d 1 u3|ZRANGE d 0 -1 WITHSCORES|ZINTERCARD 2 u1 u2|ZINTERCARD 2 u1 u2 LIMIT 1|ZINTERCARD 2 u1 u2 LIMIT 0|ZINTERCARD 2 u1 u2 LIMIT -1|ZINTERCARD 2 u1 u2 LIMIT x|ZINTERCARD 0 u1|ZINTERCARD 2 u1|ZINTERCARD 1 u1 BOGUS|ZRANGESTORE d u1 0 1|ZRANGE d 0 -1 WITHSCORES|ZRANGESTORE d u1 (1 +inf BYSCORE LIMIT 0 1|ZRANGE d 0 -1|ZRANGESTORE d u1 [c [a BYLEX REV|ZRANGESTORE d u1 0 -1 WITHSCORES|ZRANGESTORE d s 0 -1|ZRANGESTORE d nope 0 -1|EXISTS d|ZRANGESTORE d u1 5 9|EXISTS d
ZRANDMEMBER nope|ZRANDMEMBER nope 2|ZADD rm 1.5 m|ZRANDMEMBER rm|ZRANDMEMBER rm 5|ZRANDMEMBER rm -3|ZRANDMEMBER rm 2 WITHSCORES|ZRANDMEMBER rm -2 WITHSCORES|ZRANDMEMBER rm 0|ZRANDMEMBER rm x|ZRANDMEMBER rm 1 BOGUS|ZRANDMEMBER rm 1 WITHSCORES x|ZRANDMEMBER rm 9223372036854775807 WITHSCORES|ZRANDMEMBER s|ZRANDMEMBER u1 100 WITHSCORES|ZSCAN u1 0|ZSCAN u1 0 MATCH b|ZSCAN nope 0|ZSCAN u1 x|ZSCAN s 0|ZSCAN rm 0 COUNT 0
ZADD f 0.1 a 1e300 b 1e17 c 123456789012345678 d 1e-5 e -0 g -inf h 3.0 i 0.30000000000000004 j 5e-324 k 1.7976931348623157e308 l|ZRANGE f 0 -1 WITHSCORES|ZSCAN f 0|ZINCRBY f 0.2 a|ZSCORE f c|ZSCORE f g|ZINCRBY f -0 g|ZADD f2 1 m|CONFIG SET zset-max-listpack-entries 2|ZADD f2 -0 n -0.5 o|ZRANGE f2 0 -1 WITHSCORES|OBJECT ENCODING f2|ZREM f2 o|OBJECT ENCODING f2|COPY f2 f3|OBJECT ENCODING f3|ZUNIONSTORE f4 1 f2|OBJECT ENCODING f4|ZRANGE f4 0 -1 WITHSCORES|CONFIG SET zset-max-listpack-entries 0|ZADD f5 1 a|OBJECT ENCODING f5|CONFIG SET zset-max-ziplist-entries 128|CONFIG GET zset-max-listpack-entries|ZADD f6 1 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa|OBJECT ENCODING f6
ZADD so 3 1 1 10 2 5|SORT so|SORT so DESC|SORT so BY nosort|SORT so BY nosort DESC|SORT so BY nosort LIMIT 1 1|SORT so BY nosort DESC LIMIT 1 2|MSET w_1 3 w_10 1 w_5 2|SORT so BY w_* GET # GET w_*|SORT so BY nosort STORE sd|LRANGE sd 0 -1|ZADD sa 1 x|SORT sa|SORT sa ALPHA|ZADD sb 1 x|DUMP sb|ZADD sb -5 y 0.5 z 70000 12|DUMP sb|COMMAND GETKEYS ZUNIONSTORE d 2 a b WEIGHTS 1 2|COMMAND GETKEYS ZINTERCARD 2 a b LIMIT 1|COMMAND GETKEYS ZMPOP 1 a MIN|COMMAND GETKEYS LMPOP 2 a b LEFT|COMMAND GETKEYS ZRANGESTORE a b 0 1|COMMAND GETKEYS ZADD a 1 b|COMMAND GETKEYS ZUNION 3 a b|MEMORY USAGE nope
SADD i 5 3 1 4 2 -7 9223372036854775807|SMEMBERS i|SSCAN i 0|SREM i 3|SADD i 0 6|SMEMBERS i|SADD j 2 5 8|SUNION i j|SINTER i j|SDIFF i j|SDIFFSTORE k i j|SMEMBERS k|OBJECT ENCODING k|SUNIONSTORE k i j|SMEMBERS k|SMOVE i j 1|SMEMBERS j|SPOP k 100|SRANDMEMBER i 100|SADD i x|OBJECT ENCODING i|SREM i x|OBJECT ENCODING i|DEL i|SADD i 1|OBJECT ENCODING i|COPY i i2|OBJECT ENCODING i2
HSET o z 1 a 2 m 3|HGETALL o|HKEYS o|HVALS o|HSET o a 9|HGETALL o|HDEL o z|HSET o z 4 b 5|HGETALL o|HSCAN o 0|HRANDFIELD o 100|HRANDFIELD o 100 WITHVALUES|HINCRBY o c 1|HGETALL o|COPY o p|HGETALL p|OBJECT ENCODING p
SET q 12|APPEND q 3|GET q|OBJECT ENCODING q|APPEND fresh 12|OBJECT ENCODING fresh|APPEND fresh 3|OBJECT ENCODING fresh|INCR fresh|OBJECT ENCODING fresh|SETRANGE fresh 0 7|OBJECT ENCODING fresh|RENAME fresh f2|OBJECT ENCODING f2|COPY f2 f3|OBJECT ENCODING f3|GETSET f3 5|OBJECT ENCODING f3|SETRANGE f4 0 12|OBJECT ENCODING f4|INCRBYFLOAT f4 0.5|OBJECT ENCODING f4|SET f5 abc|SETRANGE f5 0 \"\"|OBJECT ENCODING f5|SETBIT f5 0 1|OBJECT ENCODING f5|SETBIT f6 7 1|OBJECT ENCODING f6|SET f7 7|SETRANGE f7 1 x|OBJECT ENCODING f7|SETRANGE f7 600000000 x|SETRANGE nope 600000000 x|EXISTS nope
SET g 1.5|INCRBYFLOAT g 1.5|GET g|OBJECT ENCODING g|COPY g g2|OBJECT ENCODING g2|RENAME g2 g3|OBJECT ENCODING g3|EXPIRE g 100|OBJECT ENCODING g|INCR g|OBJECT ENCODING g|INCRBYFLOAT g 1|OBJECT ENCODING g|SET g 5|OBJECT ENCODING g|INCRBYFLOAT g4 12|OBJECT ENCODING g4|GETSET g4 34|OBJECT ENCODING g4|INCRBYFLOAT g4 0|APPEND g4 5|OBJECT ENCODING g4|INCRBYFLOAT g4 1|SETRANGE g4 0 7|OBJECT ENCODING g4
SET y abc|APPEND y \"\"|OBJECT ENCODING y|SET y 12|APPEND y \"\"|OBJECT ENCODING y|APPEND y2 \"\"|OBJECT ENCODING y2|APPEND y2 \"\"|OBJECT ENCODING y2|SET y3 a|SETBIT y3 0 0|OBJECT ENCODING y3|SET y3 7|SETBIT y3 2 1|GET y3|OBJECT ENCODING y3|INCR y3|OBJECT ENCODING y3|SETBIT y4 0 0|OBJECT ENCODING y4|SET y5 7|SETRANGE y5 0 7|OBJECT ENCODING y5|SADD y6 a|SETBIT y6 0 0|APPEND y6 \"\"|SET y7 a EX 100|APPEND y7 \"\"|TTL y7
XADD st 1-1 a b|XADD st 1-1 a b|XADD st 1-* a c|XADD st 5 a d e f|XADD st 5-0 x y|XADD st 0-0 a b|XADD st x a b|XADD st 6-6 a|XADD st MAXLEN 10 MINID 1 7-7 a b|XADD st MAXLEN -1 7-7 a b|XADD st LIMIT 1 7-7 a b|XADD st MAXLEN 5 LIMIT 1 7-7 a b|XADD st MAXLEN ~ 5 LIMIT -1 7-7 a b|XADD st NOMKSTREAM 7-7 a b|XADD nost NOMKSTREAM 7-7 a b|XADD st MAXLEN x 8 a b|XADD st|TYPE st|OBJECT ENCODING st|EXISTS nost|XLEN st|XLEN nost|XLEN s|XRANGE st - +|XRANGE st (1-1 5|XRANGE st 5 (7-7 COUNT 1|XRANGE st - + COUNT 0|XRANGE st - + COUNT|XRANGE st (18446744073709551615-18446744073709551615 +|XREVRANGE st + - COUNT 2|XREVRANGE st 5 (0-0|XREVRANGE st (0-0 -|XRANGE st x +|XRANGE nost - +|XRANGE s - +|XREAD STREAMS st 0|XREAD COUNT 1 STREAMS st nost 1-1 0|XREAD STREAMS st $|XREAD STREAMS st|XREAD STREAMS st >|XREAD COUNT x STREAMS st 0|XREAD GROUP g c STREAMS st 0|XREAD NOACK STREAMS st 0|XREAD BOGUS STREAMS st 0|XREAD STREAMS s 0
XDEL st 1-1 1-1 9-9|XDEL st x|XDEL nost x|XDEL s 1-1|XINFO STREAM st|XSETID st 1-1|XSETID st 9-9 ENTRIESADDED 1|XSETID st 9-9 ENTRIESADDED -1|XSETID st 9-9 MAXDELETEDID 10-0|XSETID st 9-9 BOGUS|XSETID st 9-9 ENTRIESADDED 20 MAXDELETEDID 2-2|XSETID nost 1-1|XADD st 9-* m n|XINFO STREAM st|XTRIM st MAXLEN 2|XTRIM st MINID 9|XTRIM st|XTRIM st MAXLEN|XTRIM st LIMIT 1|XTRIM st BOGUS 1|XTRIM st MAXLEN = 0|XINFO STREAM st|XINFO STREAM st FULL|XADD st 18446744073709551615-18446744073709551615 a b|XADD st 9-* m n|XADD st * a b|XINFO STREAM nost|XINFO STREAM|XINFO STREAM st BOGUS|XINFO STREAM st FULL COUNT|XINFO STREAM st FULL BOGUS 1|XINFO NOSUCH st|XINFO HELP|COMMAND GETKEYS XREAD COUNT 1 STREAMS a b 0 0|COMMAND GETKEYS XREADGROUP GROUP g c STREAMS a 0|COMMAND GETKEYS XADD a b c d
DEL st|XGROUP CREATE st g $|XGROUP CREATE st g $ MKSTREAM|XGROUP CREATE st g 0|XGROUP CREATE st h 0 ENTRIESREAD -2|XGROUP CREATE st h x|XGROUP CREATE st h 0 BOGUS|XGROUP CREATE s h 0|XINFO GROUPS st|XADD st 1-1 a b|XADD st 2-2 a c|XADD st 3-3 d e|XREADGROUP GROUP g c COUNT 2 STREAMS st >|XINFO GROUPS st|XREADGROUP GROUP g c STREAMS st 0|XREADGROUP GROUP g c STREAMS st nost > >|XREADGROUP GROUP nog c STREAMS st >|XREADGROUP GROUP g c STREAMS st $|XREADGROUP GROUP g STREAMS st >|XREADGROUP COUNT 1 STREAMS st st st > > >|XPENDING st g|XPENDING st nog|XPENDING nost g|XPENDING st g - +|XPENDING st g - + x|XPENDING st g IDLE 1 - +|XPENDING st g - + 10 nobody|XPENDING st g 5 - 10|XACK st g 1-1 9-9 1-1|XACK st g x|XACK st nog 1-1|XACK nost g 1-1|XCLAIM st g d 0 2-2|XCLAIM st g d 0 2-2 JUSTID|XCLAIM st g d 0 3-3|XCLAIM st g d 0 3-3 FORCE|XCLAIM st g d 1000000 3-3 2-2|XCLAIM st g d x 3-3|XCLAIM st nog d 0 3-3|XCLAIM st g d 0 3-3 BOGUS|XCLAIM st g d 0 3-3 IDLE x|XCLAIM st g d 0 3-3 RETRYCOUNT 7 LASTID 3-3|XDEL st 2-2|XREADGROUP GROUP g d STREAMS st 0|XAUTOCLAIM st g c 0 - COUNT 1|XAUTOCLAIM st g c 0 0|XAUTOCLAIM st g c 0 (0-0 JUSTID|XAUTOCLAIM st g c 1000000 0|XAUTOCLAIM st g c 0 0 COUNT 0|XAUTOCLAIM st g c 0 0 COUNT 9223372036854775807|XAUTOCLAIM st g c 0 0 COUNT 576460752303423487|XAUTOCLAIM st g c x 0|XAUTOCLAIM st nog c 0 0|XINFO GROUPS st|XGROUP CREATECONSUMER st g e|XGROUP CREATECONSUMER st g e|XGROUP DELCONSUMER st g c|XGROUP DELCONSUMER st g c|XGROUP DELCONSUMER st nog c|XGROUP SETID st g 1|XGROUP SETID st g $ ENTRIESREAD 3|XGROUP SETID st nog 1|XINFO GROUPS st|XGROUP DESTROY st g|XGROUP DESTROY st g|XGROUP NOSUCH st g|XGROUP CREATE|XGROUP HELP|XINFO CONSUMERS st g|XINFO GROUPS st|WATCH st|XGROUP CREATE st g 0|MULTI|PING|EXEC|WATCH st|XREADGROUP GROUP g c STREAMS st >|MULTI|PING|EXEC|WATCH st|XADD st 9-9 a b|MULTI|PING|EXEC
PUBSUB CHANNELS|PUBSUB NUMSUB|PUBSUB NUMSUB a b|PUBSUB NUMPAT|PUBSUB NUMPAT x|PUBSUB SHARDCHANNELS|PUBSUB SHARDNUMSUB a|PUBSUB CHANNELS a b|PUBSUB NOSUCH|PUBSUB|PUBSUB HELP|PUBLISH a x|SPUBLISH a x|PUBLISH a|UNSUBSCRIBE|PUNSUBSCRIBE|SUNSUBSCRIBE a b|CLIENT KILL TYPE x|CLIENT LIST TYPE pubsub|CLIENT KILL TYPE pubsub|CONFIG GET client-output-buffer-limit|CONFIG SET client-output-buffer-limit \"pubsub 1\"|CONFIG SET client-output-buffer-limit \"x 1 2 3\"|CONFIG SET client-output-buffer-limit \"normal 1 2 x\"|CONFIG SET client-output-buffer-limit \"normal 1gb 2 30 replica 1k 0 0\"|CONFIG GET client-output-buffer-limit|CONFIG SET client-output-buffer-limit \"normal 0 0 0 slave 268435456 67108864 60\"
FLUSHALL|GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania|GEOADD g NX 1 1 Palermo|GEOADD g XX CH 13.361389 38.1155561 Palermo|GEOADD g CH 2 41 x 13 38|GEOADD g NX XX 1 1 a|GEOADD g 181 1 a|GEOADD g 1 86 a|GEOADD g x 1 a|GEOADD g 1e300 1 a|GEOADD g inf 1 a|GEOADD g nx ch nx|GEOADD g 180 85.05112878 ne -180 -85.05112878 sw|SET s v|GEOADD s 1 1 a|ZSCORE g Palermo|ZSCORE g ne|ZRANGE g 0 -1 WITHSCORES
GEODIST g Palermo Catania|GEODIST g Palermo Catania km|GEODIST g Palermo Catania MI|GEODIST g Palermo Catania ft|GEODIST g Palermo Catania x|GEODIST g Palermo nope|GEODIST g Palermo Palermo|GEODIST nope a b|GEODIST s a b|GEODIST g a b m x|GEODIST g ne sw|GEOHASH g Palermo nope Catania ne sw|GEOHASH g|GEOHASH nope a|GEOHASH s a|GEOPOS g Palermo nope Catania ne sw|GEOPOS nope a|GEOPOS s a|GEOPOS g|ZADD odd -1 a 1e300 b -inf c inf d 1.5 e 9007199254740993 f|GEOPOS odd a b c d e f|GEOHASH odd a b c d e f|GEODIST odd b e|GEOSEARCH odd FROMLONLAT -180 -85 BYRADIUS 1000 km
GEORADIUS g 15 37 200 km|GEORADIUS g 15 37 200 km WITHDIST WITHCOORD WITHHASH|GEORADIUS g 15 37 200 km DESC WITHDIST|GEORADIUS g 15 37 200 km COUNT 1|GEORADIUS g 15 37 200 km COUNT 1 ANY|GEORADIUS g 15 37 200 km ANY|GEORADIUS g 15 37 200 km COUNT 0|GEORADIUS g 15 37 200 km COUNT x|GEORADIUS g 15 37 -1 km|GEORADIUS g 15 37 x km|GEORADIUS g 15 37 1 parsec|GEORADIUS g 15 97 1 km|GEORADIUS g 15 37 200 km STORE|GEORADIUS g 15 37 200 km STORE d WITHDIST|GEORADIUS g 15 37 200 km STORE d|ZRANGE d 0 -1 WITHSCORES|GEORADIUS g 15 37 200 km STOREDIST d|ZRANGE d 0 -1 WITHSCORES|GEORADIUS g 0 0 1 m STORE d|EXISTS d|GEORADIUS_RO g 15 37 200 km STORE d|GEORADIUS_RO g 15 37 200 km ASC WITHDIST|GEORADIUS s 1 1 1 m|GEORADIUS nope 1 1 1 m STORE s|EXISTS s|GEORADIUS nope 1 1 1 m|GEORADIUS g 15 37 inf km|GEORADIUS g 15 37 0 km|GEORADIUS g 13.361389 38.1155561 0.1 m WITHDIST
GEORADIUSBYMEMBER g Palermo 200 km WITHDIST|GEORADIUSBYMEMBER g nope 200 km|GEORADIUSBYMEMBER nope x y z|GEORADIUSBYMEMBER nope x y z WITHDIST STORE a|GEORADIUSBYMEMBER g Palermo 200 km STORE d|ZCARD d|GEORADIUSBYMEMBER_RO g Palermo 200 km DESC COUNT 1|GEORADIUSBYMEMBER_RO g Palermo 200 km STORE d|GEORADIUSBYMEMBER g Palermo 20000 km STOREDIST d COUNT 2|ZRANGE d 0 -1 WITHSCORES
GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km ASC|GEOSEARCH g FROMLONLAT 15 37 BYBOX 400 400 km ASC WITHCOORD WITHDIST WITHHASH|GEOSEARCH g FROMMEMBER Palermo BYRADIUS 200 km DESC WITHDIST|GEOSEARCH g FROMMEMBER nope BYRADIUS 1 m|GEOSEARCH nope FROMMEMBER nope BYRADIUS 1 m|GEOSEARCH g FROMLONLAT 1 1 FROMMEMBER a BYBOX 1 1 m|GEOSEARCH g BYRADIUS 1 km COUNT 1 ASC|geosearch g FROMLONLAT 1 1 ASC COUNT 1|GEOSEARCH g FROMLONLAT 1 1 BYRADIUS 1 m BYBOX 1 1 m|GEOSEARCH g FROMLONLAT 1 1 BYBOX -1 1 m|GEOSEARCH g FROMLONLAT 1 1 BYBOX x 1 m|GEOSEARCH g FROMLONLAT 1 1 BYBOX 1 x m|GEOSEARCH g FROMLONLAT 1 1 BYBOX 1 1 m STOREDIST|GEOSEARCH g FROMLONLAT 1 1 BYRADIUS 1 m STORE d|GEOSEARCH g FROMLONLAT 1 1 BYRADIUS 22000 km ASC WITHDIST|GEOSEARCH g FROMLONLAT -179 -85 BYBOX 30000 30000 km ASC COUNT 3 ANY WITHDIST
GEOSEARCHSTORE d g FROMLONLAT 15 37 BYRADIUS 200 km ASC|ZRANGE d 0 -1 WITHSCORES|GEOSEARCHSTORE d g FROMLONLAT 15 37 BYBOX 400 400 km STOREDIST|ZRANGE d 0 -1 WITHSCORES|OBJECT ENCODING d|GEOSEARCHSTORE d g FROMLONLAT 15 37 BYBOX 400 400 km WITHDIST|GEOSEARCHSTORE d nope FROMLONLAT 15 37 BYBOX 400 400 km|EXISTS d|COMMAND GETKEYS GEORADIUS a 1 2 3 m STORE b STOREDIST c|COMMAND GETKEYS GEORADIUSBYMEMBER a 1 2 m x store|COMMAND GETKEYS GEOSEARCHSTORE a b FROMLONLAT 15 37 BYRADIUS 1 m|GEORADIUSBYMEMBER_ROX a|RESET
SCAN x|SCAN 0 MATCH|SCAN 0 COUNT 0|SCAN 0 BOGUS 1|KEYS nope*|DBSIZE x|FLUSHALL|DBSIZE|RESET";

#[test]
fn replies_are_those_of_redis_to_the_byte() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    for hello in [None, Some("HELLO 3")] {
        let (mut one, mut other) = (ours.connect(), redis.connect());
        if let Some(hello) = hello {
            ask(&mut one, hello);
            ask(&mut other, hello);
        }
        let mut count = 0;
        // A group is sent whole, since what is sent after MULTI is queued.
        for group in COMMANDS.lines() {
            let commands = group.replace('|', "\r\n");
            let (one, other) = (ask(&mut one, &commands), ask(&mut other, &commands));
            assert_eq!(one, other, "{group} (ours left, after {hello:?})");
            count += group.split('|').count();
        }
        assert!(count > 700, "{count} commands");
    }
}

/// A web page can make a browser send a request to any port of its machine, with commands in the body.
#[test]
fn http_requests_are_cut_off_as_by_redis() {
    static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let (ours, redis) = (
        Ours::start(ServerConfig {
            on_warning: |text| WARNINGS.lock().unwrap().push(text.to_owned()),
            ..ServerConfig::default()
        }),
        Redis::start(),
    );
    for request in [
        "POST / HTTP/1.1\r\n",
        "Host: localhost:6379\r\n",
        "GET / HTTP/1.1\r\nhOsT: localhost:6379\r\n",
        "*1\r\n$4\r\npost\r\n",
        "MULTI\r\nPOST\r\n",
    ] {
        let said = [
            &mut ours.connect() as &mut dyn ReadWrite,
            &mut redis.connect(),
        ]
        .map(|stream| {
            // Redis throws away what it has not written yet, so the parts are sent one after the other.
            let mut said = Vec::new();
            for line in request.split_inclusive("\r\n") {
                stream.write_all(line.as_bytes()).unwrap();
                if request.starts_with('*') {
                    continue;
                }
                let mut reply = [0; 256];
                let bytes = stream.read(&mut reply).unwrap_or(0);
                said.extend_from_slice(&reply[..bytes]);
            }
            let _ = stream.write_all(b"\r\nSET stolen 1\r\n");
            let _ = stream.read_to_end(&mut said);
            String::from_utf8(said).unwrap()
        });
        assert_eq!(said[0], said[1], "{request:?} (ours left)");
        for stream in [
            &mut ours.connect() as &mut dyn ReadWrite,
            &mut redis.connect(),
        ] {
            let mut stream = stream;
            assert_eq!(ask(&mut stream, "EXISTS stolen"), ":0\r\n", "{request:?}");
        }
    }
    let warnings = WARNINGS.lock().unwrap();
    // One for all of them, or a client could fill the log.
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("closed the connection from 127.0.0.1:"),
        "{warnings:?}"
    );
}

/// The fields of CLIENT LIST, in their order; their values are about each server.
#[test]
fn client_list_has_the_fields_of_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let mut shown = Vec::new();
    for stream in [
        &mut ours.connect() as &mut dyn ReadWrite,
        &mut redis.connect(),
    ] {
        let mut stream = stream;
        ask(&mut stream, "SELECT 3\r\nCLIENT SETNAME me");
        let reply = ask(
            &mut stream,
            "MULTI\r\nPING\r\nCLIENT LIST\r\nDISCARD\r\nCLIENT LIST",
        );
        let line = reply.lines().find(|line| line.starts_with("id=")).unwrap();
        let fields: Vec<String> = line
            .split(' ')
            .map(|field| field.split('=').next().unwrap().to_owned())
            .collect();
        for same in [
            "name=me",
            "db=3",
            "multi=-1",
            "cmd=client|list",
            "resp=2",
            "events=r",
        ] {
            assert!(line.split(' ').any(|field| field == same), "{same}: {line}");
        }
        shown.push(fields);
    }
    assert_eq!(shown[0], shown[1], "ours left");
}

/// CLIENT LIST about a connection in the middle of something.
#[test]
fn client_list_shows_what_connections_hold() {
    let ours = Ours::start(ServerConfig::default());
    let (mut one, mut other) = (ours.connect(), ours.connect());
    ask(&mut one, "CLIENT SETNAME one\r\nWATCH k");
    one.write_all(b"MULTI\r\nSET k v\r\nGET k\r\n").unwrap();
    one.read_exact(&mut [0; b"+OK\r\n+QUEUED\r\n+QUEUED\r\n".len()])
        .unwrap();
    // The beginning of a request.
    one.write_all(b"*2\r\n$3\r\nGET\r\n").unwrap();
    let field = |line: &str, name: &str| {
        let value = line.split(' ').find_map(|field| field.strip_prefix(name));
        value.unwrap().to_owned()
    };
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let list = ask(&mut other, "CLIENT LIST");
        let line = list.lines().find(|line| line.contains("name=one")).unwrap();
        if field(line, "qbuf=") == "13" {
            assert_eq!(field(line, "multi="), "2", "{line}");
            assert_eq!(field(line, "flags="), "x", "{line}");
            assert_ne!(field(line, "multi-mem="), "0", "{line}");
            break;
        }
        assert!(Instant::now() < until, "{line}");
    }
    ask(&mut other, "SET k w");
    let list = ask(&mut other, "CLIENT LIST");
    let line = list.lines().find(|line| line.contains("name=one")).unwrap();
    assert_eq!(field(line, "flags="), "xd", "{line}");
}

/// With `maxmemory`, what adds to the data is refused as by Redis, with `min-replicas-to-write` what writes, and the rest goes on.
#[test]
fn writes_are_refused_as_by_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let (mut one, mut other) = (ours.connect(), redis.connect());
    for group in [
        "SET k v\r\nSADD s a b\r\nCONFIG SET maxmemory 1\r\nSET k w\r\nSADD s c\r\nGET k\r\nSREM s a\r\nEXPIRE k 100",
        "MULTI\r\nSET k w\r\nGET k\r\nEXEC\r\nMULTI\r\nDISCARD\r\nMULTI\r\nGET k\r\nDEL k\r\nEXEC\r\nMULTI\r\nEXEC",
        "CONFIG SET maxmemory 0\r\nSET k x\r\nMULTI\r\nGET k\r\nCONFIG SET maxmemory 1\r\nEXEC\r\nSET k y\r\nCONFIG SET maxmemory 0\r\nSET k z",
        "CONFIG GET min-slaves-to-write\r\nCONFIG SET min-replicas-to-write -1\r\nCONFIG SET min-slaves-to-write 1\r\nCONFIG GET min-replicas-to-write\r\nSET k v\r\nGET k\r\nDEL k\r\nSORT k\r\nPUBLISH a b\r\nFLUSHALL\r\nPFCOUNT k\r\nFUNCTION FLUSH\r\nFUNCTION DELETE x\r\nBLPOP l 0",
        "EVAL \"return redis.call('get', KEYS[1])\" 1 k\r\nEVAL \"return redis.call('set', KEYS[1], 1)\" 1 k\r\nEVAL_RO \"return 1\" 0\r\nEVAL \"#!lua\\nreturn 1\" 0\r\nEVAL \"#!lua flags=no-writes\\nreturn 1\" 0\r\nEVAL \"#!lua\\nreturn 1\" 0\r\nFCALL nope 0",
        "MULTI\r\nGET k\r\nSET k v\r\nEXEC\r\nMULTI\r\nEVAL \"return 1\" 0\r\nEXEC\r\nCONFIG SET min-replicas-to-write 0\r\nMULTI\r\nSET k v\r\nCONFIG SET min-replicas-to-write 1\r\nEXEC\r\nMULTI\r\nSET k v\r\nEXEC\r\nCONFIG SET min-replicas-to-write 0\r\nSET k x",
    ] {
        let (one, other) = (ask(&mut one, group), ask(&mut other, group));
        assert_eq!(one, other, "{group} (ours left)");
    }
}

/// More arguments than Redis took before version 7.
#[test]
fn million_arguments_are_taken_as_by_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let count = 1_100_000;
    let mut request = format!("*{count}\r\n$6\r\nEXISTS\r\n").into_bytes();
    request.extend(b"$0\r\n\r\n".repeat(count - 1));
    for stream in [
        &mut ours.connect() as &mut dyn ReadWrite,
        &mut redis.connect(),
    ] {
        let mut stream = stream;
        stream.write_all(&request).unwrap();
        assert_eq!(ask(&mut stream, "PING"), ":0\r\n+PONG\r\n");
    }
}

/// Large values are encoded otherwise than small ones; the borders are those of Redis.
#[test]
fn encodings_change_where_those_of_redis_do() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let (mut one, mut other) = (ours.connect(), redis.connect());
    let numbered = |command: &str, word: &str, count: usize| {
        let words = (0..count).map(|n| word.replace('#', &n.to_string()));
        format!("{command} k {}", words.collect::<Vec<_>>().join(" "))
    };
    let long = |bytes: usize| "x".repeat(bytes);
    for make in [
        numbered("HSET", "f# v", 512),
        numbered("HSET", "f# v", 513),
        numbered("ZADD", "# m#", 128),
        numbered("ZADD", "# m#", 129),
        format!("ZADD k 1 {}", long(64)),
        format!("ZADD k 1 {}", long(65)),
        numbered("SADD", "#", 512),
        numbered("SADD", "#", 513),
        "SADD k 1 x".into(),
        format!("HSET k f {}", long(64)),
        format!("HSET k f {}", long(65)),
        format!("HSET k {} v", long(65)),
        format!("SET k {}", long(44)),
        format!("SET k {}", long(45)),
        "SET k 9223372036854775807".into(),
        "SET k 9223372036854775808".into(),
        "SET k 01".into(),
    ] {
        let lines = format!("DEL k\r\n{make}\r\nOBJECT ENCODING k");
        let (one, other) = (ask(&mut one, &lines), ask(&mut other, &lines));
        assert_eq!(one, other, "{make} (ours left)");
    }
}

/// Commands of another connection between WATCH and EXEC decide about the transaction, as in Redis.
#[test]
fn watched_keys_are_watched_over_connections() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let (mut one, mut other) = (ours.connect(), redis.connect());
    let (mut one_else, mut other_else) = (ours.connect(), redis.connect());
    let setup = "FLUSHALL\r\nSET a 1\r\nSADD s m\r\nHSET h f v\r\nRPUSH l a b\r\nZADD z 1 m";
    for (watched, meanwhile) in [
        ("a", "SET a 1"),
        ("a", "SET b 1"),
        ("a", "DEL a"),
        ("a", "EXPIRE a 100"),
        ("a", "SET a x NX"),
        ("a", "SADD a x"),
        ("s", "SADD s m"),
        ("s", "SADD s n"),
        ("s", "SMOVE s t m"),
        ("t", "SMOVE s t m"),
        ("h", "HSET h f w"),
        ("h", "HDEL h nope"),
        ("a b", "RENAME a b"),
        ("b", "COPY a b"),
        ("nope", "FLUSHALL"),
        ("a", "FLUSHALL"),
        ("a", "SELECT 1\r\nSET a 2\r\nSELECT 0"),
        ("a", "MULTI\r\nINCR a\r\nEXEC"),
        ("a", "GETEX a EX 9"),
        ("a", "APPEND a x"),
        ("a", "SETBIT a 0 0"),
        ("a", "SETBIT a 0 1"),
        ("b", "SETBIT b 0 0"),
        ("a", "BITFIELD a SET u8 0 49 INCRBY u8 0 0"),
        ("a", "BITFIELD a SET u8 0 50"),
        ("l", "LTRIM l 0 -1"),
        ("l", "LREM l 0 nope"),
        ("l", "LMOVE l t LEFT LEFT"),
        ("t", "LMOVE l t LEFT LEFT"),
        ("z", "ZADD z 1 m"),
        ("z", "ZADD z 2 m"),
        ("z", "ZREM z nope"),
        ("z", "ZPOPMIN z"),
        ("t", "ZRANGESTORE t z 0 -1"),
        ("t", "ZRANGESTORE t nope 0 -1"),
    ] {
        let ends = [
            (
                &mut one as &mut dyn ReadWrite,
                &mut one_else as &mut dyn ReadWrite,
            ),
            (&mut other, &mut other_else),
        ]
        .map(|(mut watcher, mut writer)| {
            ask(&mut watcher, setup);
            ask(&mut watcher, &format!("WATCH {watched}"));
            let said = ask(&mut writer, meanwhile);
            let end = ask(&mut watcher, "MULTI\r\nPING\r\nEXEC");
            (said, end)
        });
        assert_eq!(ends[0], ends[1], "{watched} watched, then {meanwhile}");
    }
    // A key whose time comes between the two is a change; one that was not there is none.
    for stream in [&mut one as &mut dyn ReadWrite, &mut other] {
        let mut stream = stream;
        // In one request, so that the key is there when it is watched.
        ask(&mut stream, "SET gone v PX 300\r\nWATCH gone");
        std::thread::sleep(Duration::from_millis(400));
        let end = ask(&mut stream, "MULTI\r\nPING\r\nEXEC");
        assert!(end.ends_with("*-1\r\n"), "{end}");
        ask(&mut stream, "WATCH gone");
        let end = ask(&mut stream, "MULTI\r\nPING\r\nEXEC");
        assert!(end.ends_with("+PONG\r\n"), "{end}");
    }
}

/// A request of words that can hold any bytes.
fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// The bytes of `key` as DUMP has them.
fn dump(mut stream: &mut dyn ReadWrite, key: &str) -> Vec<u8> {
    let reply = ask(&mut stream, &format!("DUMP {key}"));
    let bytes: Vec<u8> = reply
        .chars()
        .map(|byte| u8::try_from(byte).unwrap())
        .collect();
    let begin = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    bytes[begin..bytes.len() - 2].to_vec()
}

/// Type and contents of `key`, its elements sorted where they have no order.
fn content(mut stream: &mut dyn ReadWrite, key: &str) -> (String, Vec<String>) {
    let show = format!("OBJECT ENCODING {key}\r\nTTL {key}\r\nTYPE {key}");
    let kind = ask(&mut stream, &show);
    let (command, is_sorted) = match kind.lines().last() {
        Some("+string") => ("GET #", false),
        Some("+list") => ("LRANGE # 0 -1", false),
        Some("+set") => ("SORT # ALPHA", false),
        Some("+hash") => ("HGETALL #", true),
        Some("+zset") => ("ZRANGE # 0 -1 WITHSCORES", false),
        Some("+stream") => ("XINFO STREAM # FULL COUNT 0", false),
        other => panic!("{other:?}"),
    };
    let shown = ask(&mut stream, &command.replace('#', key));
    let mut lines: Vec<String> = shown.lines().map(str::to_owned).collect();
    // Each server has seen the consumers at another time.
    while let Some(place) = lines.iter().position(|line| line == "seen-time") {
        lines.drain(place..place + 2);
    }
    if is_sorted {
        lines.sort_unstable();
    }
    (kind, lines)
}

/// Each of the two restores the dumps of the other one, compressed or not.
#[test]
fn dumps_are_exchanged_with_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let (mut one, mut other) = (ours.connect(), redis.connect());
    let many = |word: &str, count: usize| {
        let words = (0..count).map(|n| word.replace('#', &n.to_string()));
        words.collect::<Vec<_>>().join(" ")
    };
    for make in [
        "SET k v".to_owned(),
        "SET k -70000".into(),
        "SET k 9223372036854775807".into(),
        format!("SET k {}", many("word#", 3_000).replace(' ', "-")),
        format!("SET k {}", "x".repeat(60_000)),
        "RPUSH k a -1 127 128 -4097 5000 70000 9000000 3000000000 -9223372036854775808".into(),
        format!("RPUSH k {}", many("item-#", 3_000)),
        format!("RPUSH k a {} {} b", "y".repeat(70), "z".repeat(20_000)),
        "SADD k 1 -2 300".into(),
        "SADD k 1 70000 -70000".into(),
        "SADD k 1 9223372036854775807 -9223372036854775808".into(),
        format!("SADD k {}", many("#", 600)),
        format!("SADD k {}", many("member-#", 600)),
        "HSET k f v g 12 h -5000".into(),
        format!("HSET k {}", many("field-# value-#", 400)),
        format!("HSET k {}", many("field-# value-#", 600)),
        format!("HSET k f {}", "x".repeat(300)),
        "ZADD k 1 a -5000 b 0.1 c inf d 1e300 12 70000 f".into(),
        format!("ZADD k {}", many("# member-#", 128)),
        format!("ZADD k {}", many("0.# member-#", 600)),
        format!("ZADD k -inf {}", "x".repeat(300)),
        "XADD k 5-5 a 1 b 2\r\nXADD k 6-1 a 3 b 4\r\nXADD k 7-0 c -5000\r\nXADD k 8-9 a x b y\r\nXDEL k 6-1 8-9".into(),
        format!("{}\r\nXTRIM k MAXLEN 150", many("XADD k #1-7 field value-#", 250).replace(" XADD", "\r\nXADD")),
        "XGROUP CREATE k g $ MKSTREAM\r\nXGROUP CREATE k h 3 ENTRIESREAD 7\r\nXSETID k 9-9 ENTRIESADDED 20 MAXDELETEDID 8-8".into(),
        "XADD k 1-1 a b\r\nXADD k 2-1 a b\r\nXGROUP CREATE k g 0\r\nXCLAIM k g c 0 1-1 FORCE TIME 1000 RETRYCOUNT 300\r\nXCLAIM k g d 0 2-1 FORCE TIME 2000\r\nXGROUP CREATECONSUMER k g e".into(),
    ] {
        for stream in [&mut one as &mut dyn ReadWrite, &mut other] {
            let mut stream = stream;
            ask(&mut stream, &format!("FLUSHALL\r\n{make}"));
        }
        let wanted = content(&mut other, "k");
        assert_eq!(content(&mut one, "k"), wanted, "{make}");
        let dumps = [dump(&mut one, "k"), dump(&mut other, "k")];
        for (to, stream) in [&mut one as &mut dyn ReadWrite, &mut other]
            .into_iter()
            .enumerate()
        {
            for (from, payload) in dumps.iter().enumerate() {
                let mut stream = &mut *stream;
                stream
                    .write_all(&request(&[b"RESTORE", b"copy", b"0", payload, b"REPLACE"]))
                    .unwrap();
                let reply = ask(&mut stream, "PING");
                assert_eq!(reply, "+OK\r\n+PONG\r\n", "{make}, from {from} to {to}");
                assert_eq!(
                    content(stream, "copy"),
                    wanted,
                    "{make}, from {from} to {to}"
                );
            }
        }
        // Every byte of a payload counts.
        let mut damaged = dumps[1].clone();
        damaged[1] ^= 1;
        for stream in [&mut one as &mut dyn ReadWrite, &mut other] {
            let mut stream = stream;
            stream
                .write_all(&request(&[b"RESTORE", b"d", b"0", &damaged]))
                .unwrap();
            let reply = ask(&mut stream, "EXISTS d");
            let wanted = "-ERR DUMP payload version or checksum are wrong\r\n:0\r\n";
            assert_eq!(reply, wanted, "{make}");
        }
    }
}

/// The time of a restored key counts from now, or is a time of day.
#[test]
fn restored_keys_expire_as_in_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let replies = [
        &mut ours.connect() as &mut dyn ReadWrite,
        &mut redis.connect(),
    ]
    .map(|stream| {
        let mut stream = stream;
        ask(&mut stream, "SET k v");
        let payload = dump(stream, "k");
        let mut said = String::new();
        for options in [
            &[&b"100000"[..]][..],
            &[b"100000"],
            &[b"100000", b"replace"],
            &[b"33177117420000", b"ABSTTL", b"REPLACE"],
            &[b"1", b"ABSTTL", b"REPLACE", b"IDLETIME", b"5"],
            &[b"0", b"FREQ", b"255"],
        ] {
            let mut words = vec![&b"RESTORE"[..], b"r", options[0], &payload];
            words.extend_from_slice(&options[1..]);
            stream.write_all(&request(&words)).unwrap();
            said += &ask(&mut stream, "TTL r\r\nEXPIRETIME nope\r\nGET r");
        }
        said
    });
    let without_ttl = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with(":3117"));
        lines.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(
        without_ttl(&replies[0]),
        without_ttl(&replies[1]),
        "ours left"
    );
}

/// While a pause lasts, the commands that it is about wait, and those behind them.
#[test]
fn pause_holds_what_it_holds_in_redis() {
    let (ours, redis) = (Ours::start(ServerConfig::default()), Redis::start());
    let ends = [
        (
            Box::new(ours.connect()) as Box<dyn ReadWrite>,
            Box::new(ours.connect()) as Box<dyn ReadWrite>,
        ),
        (Box::new(redis.connect()), Box::new(redis.connect())),
    ]
    .map(|(mut holder, mut held)| {
        let mut said = ask(&mut holder, "SET k 1\r\nCLIENT PAUSE 60000 WRITE");
        // Reads go on, and a transaction is queued up to its first write.
        said += &ask(
            &mut held,
            "GET k\r\nMULTI\r\nGET k\r\nDISCARD\r\nCLIENT SETNAME held",
        );
        held.write_all(b"INCR k\r\nGET k\r\nECHO behind\r\n")
            .unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let list = ask(&mut holder, "CLIENT LIST\r\nINFO clients");
            let line = list
                .lines()
                .find(|line| line.contains("name=held"))
                .unwrap();
            if line.contains(" flags=b") || line.contains(" flags=bU") {
                assert!(list.contains("blocked_clients:1\r\n"), "{list}");
                break;
            }
            assert!(Instant::now() < until, "{line}");
        }
        said += &ask(&mut holder, "GET k\r\nCLIENT UNPAUSE");
        let wanted = b":2\r\n$1\r\n2\r\n$6\r\nbehind\r\n";
        let mut reply = vec![0; wanted.len()];
        held.read_exact(&mut reply).unwrap();
        assert_eq!(reply, wanted);
        // A pause of everything ends by itself.
        let begun = Instant::now();
        said += &ask(&mut holder, "CLIENT PAUSE 300");
        assert!(
            begun.elapsed() >= Duration::from_millis(290),
            "{:?}",
            begun.elapsed()
        );
        said += &ask(&mut held, "INCR k");
        said
    });
    assert_eq!(ends[0], ends[1], "ours left");
}
