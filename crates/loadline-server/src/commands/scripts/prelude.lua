-- Builds the environments of scripts and of functions, once. Gets the functions of the server as `server`, and returns the
-- environment of scripts, the global variables behind it, the handler of errors, the function that loads a library, the
-- environment of functions, and the function that switches it to what libraries see while they are loaded, and back.
local server = ...
local real = _G
local setfenv, error, rawset, setmetatable, getmetatable = setfenv, error, rawset, setmetatable, getmetatable
local real_next, real_pairs, type, tostring, pcall, xpcall = next, pairs, type, tostring, pcall, xpcall

local READONLY = "Attempt to modify a readonly table"

-- Tables that scripts cannot change: empty ones in front of the real ones. `behind` has the real one of each.
local behind = {}
local function protect(target, metatable)
  local front = setmetatable({}, {
    __index = target,
    __newindex = function() error(READONLY, 2) end,
    __metatable = metatable or false,
  })
  behind[front] = target
  return front
end

local library = server.libraries
for _, name in real_pairs({ "string", "table", "math", "coroutine" }) do
  library[name] = real[name]
end
library.math.random = server.random
library.math.randomseed = server.random_seed

-- What scripts see. The functions that could reach around the protection are replaced.
local visible = {}
for _, name in real_pairs({
  "_VERSION", "assert", "collectgarbage", "error", "gcinfo", "getmetatable", "ipairs", "rawequal", "rawget", "select",
  "tonumber", "tostring", "type", "unpack",
}) do
  visible[name] = real[name]
end
for name, functions in real_pairs(library) do
  visible[name] = protect(functions)
end
local strict = {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
}
setmetatable(visible, strict)
-- Of the protected tables, the globals show their metatable.
local shown = protect(strict)
local environment = protect(visible, shown)
visible._G = environment

-- Libraries of functions see all of that only after they have been loaded.
local loading = setmetatable({ redis = protect(setmetatable(server.loading, strict)) }, strict)
local of_functions = {}
local switch = {
  __index = visible,
  __newindex = function() error(READONLY, 2) end,
  __metatable = shown,
}
setmetatable(of_functions, switch)
behind[of_functions] = visible
local function set_loading(is_loading)
  switch.__index = is_loading and loading or visible
end

function visible.next(target, key)
  return real_next(behind[target] or target, key)
end
function visible.pairs(target)
  return real_next, behind[target] or target, nil
end
function visible.rawset(target, key, value)
  if behind[target] then error(READONLY, 0) end
  return rawset(target, key, value)
end
function visible.setmetatable(target, metatable)
  if behind[target] then error(READONLY, 0) end
  return setmetatable(target, metatable)
end
local rawget = rawget
function visible.rawget(target, key)
  return rawget(behind[target] or target, key)
end

-- Scripts that catch errors see those of the server as tables or strings. Of a table with a text, pcall shows the text.
local function caught(is_done, ...)
  if is_done then return true, ... end
  local failure = (...)
  if type(failure) == "userdata" then failure = server.caught(failure) end
  if type(failure) == "table" then
    local text = failure.err
    if type(text) == "string" or type(text) == "number" then return false, text end
  end
  return false, failure
end
function visible.pcall(...)
  return caught(pcall(...))
end
local resume = library.coroutine.resume
local function resumed(is_done, ...)
  if is_done then return true, ... end
  return false, server.caught((...))
end
function library.coroutine.resume(...)
  return resumed(resume(...))
end
function visible.xpcall(call, handle)
  return xpcall(call, function(failure) return handle(server.caught(failure)) end)
end

local loadstring = loadstring
local function compile(text, name)
  if text:byte(1) == 27 then return nil, "scripts are loaded as text only" end
  local chunk, failure = loadstring(text, name)
  if chunk then setfenv(chunk, environment) end
  return chunk, failure
end
function visible.loadstring(text, name)
  if type(text) ~= "string" then error("bad argument #1 to 'loadstring' (string expected)", 2) end
  return compile(text, name or text)
end
function visible.load(reader, name)
  local parts = {}
  while true do
    local part = reader()
    if part == nil or part == "" then break end
    if type(part) ~= "string" then error("reader function must return a string", 2) end
    parts[#parts + 1] = part
  end
  return compile(library.table.concat(parts), name or "=(load)")
end

-- Methods of strings.
local of_strings = getmetatable("")
of_strings.__index = visible.string
of_strings.__metatable = protect({ __index = visible.string })

local function handler(failure)
  return server.failure(failure)
end

local function run_library(library)
  return xpcall(library, handler)
end

return environment, visible, handler, run_library, of_functions, set_loading
