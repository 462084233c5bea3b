-- Values as replies.
return 1
return 3.99
return -3.99
return 1e300
return 0/0
return 'text'
return true
return false
return nil
return {1, 2, {3, 'a', false, true, 1.7, nil, 9}}
return {}
return {err='MY error'}
return {err='short'}
return {ok='fine'}
return {ok='two\Nlines'}
return {double=3.5}
return {double=3}
return {map={a=1}}
return {map={}}
return {set={a=true}}
return {big_number='123456789012345678901234567890'}
return {verbatim_string={format='txt', string='hello'}}
return {1, {double=0.1}, {ok='x'}}
return redis.status_reply('fine')
return redis.error_reply('short')
return redis.error_reply('MY error')
return redis.error_reply('-MY error')
return redis.error_reply('')
return redis.error_reply({})
return redis.status_reply(1)
return function() end
return KEYS
return ARGV
return {#KEYS, #ARGV, ARGV[2] + 1, KEYS[3]}
return tostring(1e15) .. ' ' .. tostring(0.1) .. ' ' .. 2^53
-- Commands.
return redis.call('set', KEYS[1], ARGV[1])
return redis.call('get', KEYS[1])
return redis.call('get', 'nope')
return redis.call('incr', KEYS[1])
return redis.pcall('incr', KEYS[1])
return redis.pcall('incr', KEYS[1]).err
return redis.call('set', KEYS[2], 1.5)
return redis.call('set', KEYS[2], 1e17)
return redis.call('set', KEYS[2], 9007199254740991)
return redis.call('set', KEYS[2], 0.1)
return redis.call('get', KEYS[2])
return redis.call('set', KEYS[2], true)
return redis.call('set', KEYS[2], nil)
return redis.call('set', KEYS[2], {})
return redis.call('set', KEYS[2], '10')
return redis.call('incr', KEYS[2]) + 1
return redis.call()
return redis.pcall()
return redis.call('nosuch')
return redis.pcall('nosuch', 1)
return redis.call('get')
return redis.pcall('get', 1, 2)
return redis.call('multi')
return redis.pcall('eval', 'return 1', 0)
return redis.call('blpop', 'nope', 0)
return redis.call('subscribe', 'c')
return redis.call('hset', 'h', 'a', 1, 'b', 2)
return redis.call('hgetall', 'h')
return redis.call('hget', 'h', 'a')
return redis.call('mget', KEYS[2], 'nope', KEYS[1])
return redis.call('sadd', 's', 'm')
return redis.call('smembers', 's')
return redis.call('sismember', 's', 'm')
return redis.call('type', 's')
return redis.call('ping')
return redis.call('echo', ARGV[1])
return redis.call('lpush', 'l', 1, 2, 3)
return redis.call('lrange', 'l', 0, -1)
return redis.call('del', 'l')
return redis.call('lrange', 'l', 0, -1)
return redis.call('lpop', 'l')
return redis.call('lpop', 'l', 1)
return #redis.call('lrange', 'l', 0, -1)
return redis.call('select', 16)
return redis.call('exists', KEYS[1], KEYS[2])
return redis.call('object', 'encoding', KEYS[2])
return redis.call('expire', KEYS[2], 1000)
return redis.call('persist', KEYS[2])
-- RESP3 inside.
redis.setresp(3) return redis.call('hgetall', 'h')
redis.setresp(3) return redis.call('smembers', 's')
redis.setresp(3) return redis.call('get', 'nope')
redis.setresp(3) return type(redis.call('get', 'nope'))
redis.setresp(2) return type(redis.call('get', 'nope'))
redis.setresp(3) local r = redis.call('hgetall', 'h') return r.map.a
redis.setresp(3) return tostring(redis.call('smembers', 's').set.m)
redis.setresp(4)
redis.setresp()
redis.setresp('3')
return type(redis.call('get', 'nope'))
-- Errors.
syntax error here
return foo
foo = 1
local a = {} a.b.c = 1
error('x')
error({err='MY err'})
error()
error(nil)
error('x', 0)
error('x', 2)
\N\Nerror('third line')
local function f() error('inside') end f()
return pcall(error, 'x')
local ok, e = pcall(redis.call, 'nosuch') return {tostring(ok), type(e), e.err}
local ok, e = pcall(function() return nosuch end) return e
assert(false)
assert(false, 'because')
assert(nil, 'because')
string.foo = 1
string.upper = 1
rawset(string, 'a', 1)
setmetatable(string, {})
getmetatable('').__index = 1
KEYS[1] = 'changed' return KEYS[1]
_G.x = 1
return print
return dofile
return tostring(getmetatable('').__index == string)
return ('abc'):upper():rep(2)
return #'abc'
for i = 1, 3 do local s = i end return 1
return table.concat({1, 2, 3}, ',')
local t = {3, 1, 2} table.sort(t) return t
return select('#', 1, 2, 3)
return {unpack({1, 2, 3})}
return loadstring('return 1 + 1')()
return loadstring('x y')
return load(function() return nil end)
local co = coroutine.wrap(function() coroutine.yield(1) return 2 end) return {co(), co()}
return type(collectgarbage('count'))
local n = 0 for k, v in pairs(math) do n = n + 1 end return n
local n = 0 for k, v in pairs(string) do n = n + 1 end return n
return next({}) == nil
return rawequal(string, string) and rawget(string, 'len') ~= nil
return tostring(next(bit) ~= nil)
return {math.floor(2.7), math.max(1, 5), tostring(math.huge)}
return tostring(math.random())
return {math.random(100), math.random(5, 9), tostring(math.random())}
math.randomseed(5) return {math.random(100), math.random(1000000)}
return math.random(0)
return math.random(5, 1)
return math.random(1, 2, 3)
return tonumber('0x10')
return string.format('%5.2f|%d|%s|%q', 3.14159, 42, 'x', 'y')
return redis.sha1hex('')
return redis.sha1hex(1)
return redis.sha1hex()
return redis.REDIS_VERSION_NUM - redis.REDIS_VERSION_NUM % 65536
return {redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING, redis.REPL_NONE, redis.REPL_AOF, redis.REPL_SLAVE, redis.REPL_REPLICA, redis.REPL_ALL}
return tostring(redis.replicate_commands())
redis.log(redis.LOG_DEBUG, 'said')
redis.log('said')
redis.log(9, 'said')
redis.log('x', 'said')
redis.set_repl(redis.REPL_ALL)
redis.set_repl(9)
redis.set_repl()
return redis.breakpoint()
return tostring(redis.acl_check_cmd('set', 'a', 1))
return redis.acl_check_cmd('nosuch')
return redis.acl_check_cmd()
-- Flags.
#!lua\Nreturn 1
#!lua flags=no-writes\Nreturn redis.call('set', 'a', 1)
#!lua flags=no-writes,allow-stale\Nreturn 5
#!lua flags=bad\Nreturn 1
#!lua bad=x\Nreturn 1
#!python\Nreturn 1
#!lua
#!lua flags=allow-oom\Nerror('second line')
-- bit
return {bit.tobit(4294967296 + 5), bit.bnot(0), bit.band(255, 15, 7), bit.bor(1, 2, 4), bit.bxor(15, 5)}
return {bit.lshift(1, 33), bit.rshift(-1, 28), bit.arshift(-256, 4), bit.rol(305419896, 8), bit.ror(305419896, 8), bit.bswap(305419896)}
return {bit.tohex(255), bit.tohex(255, 4), bit.tohex(-1, -4), bit.tohex(1, 0), bit.tohex(-1, 20)}
return {bit.tobit(2.5), bit.tobit(3.5), bit.tobit(-1e10), bit.tobit('7')}
return bit.band('x')
return bit.bnot()
-- cjson
return cjson.encode({1, 2, {a='x'}, 'y', true, cjson.null})
return cjson.encode({}) .. cjson.encode({{}})
return cjson.encode(1.5) .. cjson.encode(0.1) .. cjson.encode(1e100) .. cjson.encode(100000000000000)
return cjson.encode('a"b\\c/d\Ne\tf' .. string.char(1, 127, 200))
return cjson.encode({[1]=1, [2]=2, [20]=3})
return cjson.encode({[1]=1, [3]=3})
return cjson.encode({['5']=1})
return cjson.encode({[1.5]=1})
return cjson.encode({[true]=1})
return cjson.encode(function() end)
return cjson.encode(1/0)
return cjson.encode()
return cjson.encode(nil)
local t = {} t.t = t return cjson.encode(t)
return cjson.decode('[1, 2.5, -3e2, "x", true, false, null, {"a": {"b": []}}]')
return cjson.decode('{"a":1,"b":[1,2]}').b
return tostring(cjson.decode('null') == cjson.null)
return cjson.decode('"\\u00e9\\ud83d\\ude00\\n\\/"')
return cjson.decode('"\\ud83d"')
return cjson.decode('"\\x"')
return cjson.decode('"open')
return cjson.decode('[1,')
return cjson.decode('[1 2]')
return cjson.decode('{"a" 1}')
return cjson.decode('{1:2}')
return cjson.decode('{"a":1,}')
return cjson.decode('[1] x')
return cjson.decode('')
return cjson.decode('nope')
return cjson.decode('tru')
return tostring(cjson.decode('[Infinity]')[1]) .. tostring(cjson.decode('-inf'))
return cjson.decode('01')
return cjson.decode('1.')
return cjson.decode('-')
return cjson.decode(string.rep('[', 1001))
return cjson.decode(string.rep('[', 1000) .. string.rep(']', 1000)) and 1
local t = {} for i = 1, 999 do t = {t} end return cjson.encode(t) .. cjson.encode({{t[1]}, {a = {t[1], {}}}, {{}, {}}})
local t = {} for i = 1, 1000 do t = {t} end return cjson.encode(t)
return cjson.decode('{"a":[{"b":[[],{}]},[[1],2]],"c":{"d":{}}}') and cjson.encode(cjson.decode('[{"b":[[],{"e":[3,[4]]}]},[[1],2]]'))
return cjson.decode('[[1,2],[3 4]]')
return cjson.decode('{"a":{"b":1]}')
return cjson.decode('[{"a":[1}]')
return cjson.decode('[[1,],2]')
cjson.decode_max_depth(2000000000) return tostring(pcall(cjson.decode, string.rep('[', 300000)))
local n = 3000 return #cjson.encode(cjson.decode(string.rep('[', n) .. string.rep(']', n)))
local t = {} for i = 1, 300000 do t = {t} end cjson.encode_max_depth(2000000000) return tostring(pcall(cjson.encode, t))
cjson.encode_max_depth(1000) cjson.decode_max_depth(1000) return cjson.decode('[1.5e2,1.e1,-2E+1]')[3]
return cjson.decode('[1e,2]')
return cjson.decode('[1e+]')
return cjson.decode('[-.5]')[1] * 10
return cjson.decode('[-]')
return cjson.decode('[--1]')
return cjson.decode('[1-2]')
return cjson.decode('[1.2.3]')
return cjson.decode('[-e5]')
return cjson.decode('[' .. string.rep('1', 300000) .. string.rep('-', 300000))
return cjson.decode({})
return cjson.encode(cjson.decode('{"nested":{"list":[1,{"x":null}]}}'))
return {cjson.encode_max_depth(), cjson.decode_max_depth(), cjson.encode_number_precision()}
return cjson.encode_number_precision(15)
return cjson.encode_max_depth(0)
return tostring(cjson.encode_keep_buffer()) .. tostring(cjson.encode_invalid_numbers()) .. tostring(cjson.decode_invalid_numbers())
local a, b, c = cjson.encode_sparse_array() return {tostring(a), b, c}
cjson.encode_sparse_array(true) local t = cjson.encode({[1]=1, [20]=2}) cjson.encode_sparse_array(false) return #t
-- cmsgpack
return cmsgpack.pack(1, -1, 127, 128, 255, 256, 65535, 65536, 4294967295, 4294967296)
return cmsgpack.pack(-32, -33, -128, -129, -32768, -32769, -2147483648, -2147483649)
return cmsgpack.pack(1.5, 0.1, true, false, nil, 'x', string.rep('y', 40))
return cmsgpack.pack({1, 2, 3}, {a=1}, {}, {{}})
return #cmsgpack.pack(string.rep('z', 300), string.rep('w', 70000))
return cmsgpack.pack()
return {cmsgpack.unpack(cmsgpack.pack(1, -5, 'x', {1, {2}}, 70000, -70000, 1e10))}
return cmsgpack.unpack(cmsgpack.pack({a={1, 2}})).a
return {cmsgpack.unpack_one(cmsgpack.pack(1, 2, 3))}
return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2)}
return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 1, 1)}
return {cmsgpack.unpack_limit(cmsgpack.pack(1), 5)}
return cmsgpack.unpack(string.char(0xc1))
return cmsgpack.unpack(string.char(0xd9))
return cmsgpack.unpack(string.char(0xdd, 255, 255, 255, 255))
local t = {} for i = 1, 30 do t = {t} end return cmsgpack.pack(t)
return tostring(cmsgpack.unpack(cmsgpack.pack(0.1)))
-- struct
return struct.pack('>HBl', 1, 2, 3)
return struct.pack('<i4I8', -5, 2^40)
return struct.pack('bBhHiIlLT', -1, 255, -2, 65535, -3, 7, -4, 8, 9)
return struct.pack('fd', 1.5, 0.1)
return struct.pack('sc3c0', 'abc', 'defg', 'rest')
return struct.pack('!4 b i', 1, 2)
return struct.pack('>i3', 70000)
return struct.pack('x')
return {struct.unpack('>HBl', struct.pack('>HBl', 1, 2, 3))}
return {struct.unpack('<i4I8', struct.pack('<i4I8', -5, 2^40))}
return {struct.unpack('s', struct.pack('s', 'abc'))}
return {struct.unpack('Bc0', struct.pack('Bc0', 3, 'abcdef'))}
return {struct.unpack('i', struct.pack('bi', 1, 2), 2)}
return struct.size('>i4!8 b d')
return struct.size('s')
return struct.unpack('i', 'ab')
return struct.unpack('z', 'ab')
return struct.pack('c5', 'ab')
return struct.pack('i33', 1)
return struct.pack('!3i', 1)
return struct.unpack('s', 'abc')
return struct.unpack('i4', 'abcd', -1)
return struct.unpack('i4', 'abcd', 0)
return struct.unpack('!8i8', 'x', 1e300)
return cmsgpack.unpack_one(string.rep(string.char(1), 10), -5)
return cmsgpack.unpack_limit(string.rep(string.char(1), 10), 2, -1)
return cmsgpack.unpack_limit(string.rep(string.char(1), 10), -1, 3)
return cmsgpack.unpack_limit(string.rep(string.char(1), 10), 0)
return {cmsgpack.unpack_limit(string.char(1, 2, 3), 0)}
return {cmsgpack.unpack_limit(string.char(1, 2, 3), 0, 1)}
-- Streams that a script would wait for.
return redis.pcall('xread', 'BLOCK', 1, 'STREAMS', 'nokey', '$')
return redis.call('XREADGROUP', 'group', 'g', 'c', 'block', 0, 'streams', 'nokey', '>')
-- More values than Lua has room for outside of itself.
local t = {} for i=1,20000 do t[tostring(i)] = i end local u = cmsgpack.unpack(cmsgpack.pack(t)) return {#cmsgpack.pack(t), u['777'], u['20000']}
-- The metatable of the globals.
getmetatable(_G).__index = {}
local g = getmetatable(_G) g.__index = function() return 1 end return x
getmetatable(_G).__newindex = nil
return type(getmetatable(_G))
local found = getmetatable(_G).__index(_G, 'abc') return found
local t = {} for name in pairs(getmetatable(_G)) do t[#t + 1] = name end return t
setmetatable(getmetatable(_G), {})
rawset(getmetatable(_G), '__index', nil)
return getmetatable()
return tostring(getmetatable(1)) .. tostring(getmetatable(nil))
local t = {} return tostring(getmetatable(setmetatable({}, t)) == t)
setmetatable(_G, {})
-- SORT BY a constant: a set is sorted, what has an order keeps it.
redis.call('sadd', KEYS[1], 'c', 'a', 'b', 'aa', 'zz', 'z', 'm', '10', '9') return redis.call('sort', KEYS[1], 'by', '_')
return redis.call('sort_ro', KEYS[1], 'by', '_', 'desc', 'get', '#', 'get', '_:*')
redis.call('del', KEYS[1]) redis.call('rpush', KEYS[1], 'c', 'a', 'b') return redis.call('sort', KEYS[1], 'by', '_', 'desc')
redis.call('del', KEYS[1])
local t, n = redis.pcall('nosuch'), {} for k, v in pairs(t) do n[#n + 1] = k .. '=' .. tostring(v) end table.sort(n) return n
local t, n = redis.pcall('incr', 'k1', 'k2'), {} for k, v in pairs(t) do n[#n + 1] = k .. '=' .. tostring(v) end table.sort(n) return n
local t, n = redis.pcall(), {} for k, v in pairs(t) do n[#n + 1] = k .. '=' .. tostring(v) end table.sort(n) return n
local t, n = redis.error_reply('MY own'), {} for k, v in pairs(t) do n[#n + 1] = k .. '=' .. tostring(v) end table.sort(n) return n
return redis.pcall('cluster', 'reset')
return redis.pcall('cluster', 'info')
return redis.pcall('cluster', 'meet')
return redis.pcall('cluster', 'nosuch')
return redis.pcall('cluster')
return redis.pcall('object', 'nosuch', 'k1')
return redis.pcall('object', 'freq')
return redis.pcall('object', 'help', 'k1')
-- Words and answers in place.
return {rawget(_G, 'newproxy') == nil, pcall(function() return newproxy end)}
local words = {'rpush', KEYS[1]} for i = 1, 14 do words[#words + 1] = i end return redis.call(unpack(words))
local words = {'rpush', KEYS[1]} for i = 1, 15 do words[#words + 1] = 'a' .. i end return redis.call(unpack(words))
local words = {'rpush', KEYS[1]} for i = 1, 300 do words[#words + 1] = i / 7 end return redis.call(unpack(words))
return redis.call('lrange', KEYS[1], 0, -1)
redis.call('del', KEYS[1]) return redis.call('set', KEYS[1], 'a\0b\Nc\255')
return redis.call('get', KEYS[1])
return #redis.call('get', KEYS[1])
return redis.call('echo', '')
return redis.call('echo', string.rep('long', 100000))
return {redis.call('echo', -1), redis.call('echo', -0), redis.call('echo', 0), redis.call('echo', 1e14), redis.call('echo', -123456789012345)}
return {redis.call('echo', 999999999999999), redis.call('echo', 1e15), redis.call('echo', 1e16), redis.call('echo', 1e17), redis.call('echo', 2^53)}
return {redis.call('echo', -1.5), redis.call('echo', 1/0), redis.call('echo', -1/0), redis.call('echo', 1e-5)}
return {redis.call('set', KEYS[1], 5), redis.call('incrby', KEYS[1], 2147483648), redis.call('decrby', KEYS[1], 9007199254740992)}
return {redis.call('strlen', KEYS[1]), redis.call('incrby', KEYS[1], -99), redis.call('incrby', KEYS[1], 10000000000)}
return redis.pcall('set', KEYS[1], {}, 'x')
return redis.pcall({}).err
local co = coroutine.wrap(function() coroutine.yield(redis.call('get', KEYS[1])) return redis.call('lrange', 'nope', 0, -1) end) return {co(), co()}
local co = coroutine.create(function() redis.call('incr', KEYS[1], 1) end) return {coroutine.resume(co)}
local co = coroutine.create(function() return redis.pcall('incr', KEYS[1], 1) end) local _, answer = coroutine.resume(co) return answer
return {pcall(redis.call, 'get')}
return {pcall(redis.call, 'echo', 'x')}
return table.concat({redis.call('echo', 'a'), redis.call('echo', 'b')}, redis.call('echo', ','))
local ok = 0 for i = 1, 3000 do if redis.call('set', KEYS[1], i).ok == 'OK' and redis.call('get', KEYS[1]) == tostring(i) then ok = ok + 1 end end return ok
redis.setresp(3) return {redis.call('get', 'nope') == nil, redis.call('exists', 'nope')}
return redis.call('get', 'nope') == false
return {redis.acl_check_cmd('set', 'x', 1), redis.acl_check_cmd('get', 'x')}
return redis.acl_check_cmd()
return redis.acl_check_cmd('nosuch')
return redis.acl_check_cmd({})
-- Errors that are caught.
local ok, text = pcall(error, {err = 'MY own'}) return {ok, type(text), text}
local ok, text = pcall(error, {err = 7}) return {ok, type(text), text}
local ok, text = pcall(error, {err = {}}) return {ok, type(text)}
local ok, text = pcall(error, {}) return {ok, type(text)}
local ok, text = pcall(error, setmetatable({}, {__index = function() return 'MY computed' end})) return {ok, type(text), text}
local ok, text = pcall(error) return {ok, type(text)}
local ok, seen = xpcall(function() return redis.call('get') end, function(e) return e end) return {ok, type(seen), seen.err}
local ok, seen = xpcall(function() return redis.call('get') end, function(e) local n = {} for k, v in pairs(e) do n[#n + 1] = k .. '=' .. tostring(v) end table.sort(n) return n end) return seen
local ok, seen = xpcall(function() return redis.call('incr', KEYS[1], 1) end, function(e) return e end) return seen
local ok, seen = xpcall(function() return redis.acl_check_cmd('nosuch') end, function(e) return e end) return {type(seen), seen.err}
local ok, text = pcall(function() local x = redis.call('get') return x end) return text
local ok, text = pcall(function() redis.call('get', 1, 2) end) error(text)
local ok, seen = xpcall(function() redis.call('get', 1, 2) end, function(e) return e end) error(seen)
local co = coroutine.wrap(function() return redis.call('nosuch') end) return co()
local co = coroutine.wrap(function() return redis.call('get') end) return {pcall(co)}
local f = function() return redis.call('get') end return f()
local function deep(n) if n == 0 then redis.call('get') end deep(n - 1) return 1 end return deep(20)
local co = coroutine.create(function() return cjson.decode('{') end) local _, seen = coroutine.resume(co) return type(seen)
local co = coroutine.create(function() return redis.sha1hex() end) local _, seen = coroutine.resume(co) return {type(seen), type(seen) == 'table' and seen.err}
local _, seen = xpcall(function() return redis.sha1hex() end, function(e) return e end) return {type(seen), type(seen) == 'table' and seen.err}
local _, seen = xpcall(function() return cjson.decode('{') end, function(e) return e end) return type(seen)
local _, seen = pcall(redis.sha1hex) return seen
local _, seen = pcall(redis.log) return seen
local co = coroutine.create(function() error({err = 'MY own'}) end) local _, seen = coroutine.resume(co) return seen
-- Results without a handle, and errors as results.
redis.call('SET', KEYS[1], 'abc') return 1
return {ok='a', err='b'}
return {err=1, ok='x'}
return {ok=1}
return setmetatable({}, {__index={ok='x'}})
return setmetatable({ok='y'}, {__index={err='x'}})
KEYS[3]='x' return #KEYS
KEYS.ok='z' return KEYS
ARGV=nil return 1
local e = redis.pcall('INCR', KEYS[1]) local t = {} for k,v in pairs(e) do t[#t+1] = tostring(k)..'='..tostring(v) end return t
local e = redis.pcall() local t = {} for k,v in pairs(e) do t[#t+1] = tostring(k)..'='..tostring(v) end return t
local e = redis.pcall('INCR', KEYS[1]) e.err = 'CHANGED it' return e
local e = redis.pcall('INCR', KEYS[1]) error(e)
local co = coroutine.wrap(function() coroutine.yield(redis.call('SET', KEYS[1], 'abc')) end) return co()
local co = coroutine.create(function() return redis.call('INCR', KEYS[1]) end) local ok, e = coroutine.resume(co) return {tostring(ok), type(e), e}
coroutine.yield(1)
error('x', 3)
local ok, e = pcall(redis.acl_check_cmd, 'NOSUCH') return {tostring(ok), type(e), e}
