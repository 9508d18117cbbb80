-- Read some small keys whole, the newest offsets of some logs, and some strings, all of one moment.
-- KEYS  the small keys, then the logs, then the strings
-- ARGV  1 number of small keys  2 number of logs
-- Gives {{type, ms to live, value, state of a stream} of each small key, newest offset of each log, value of each
-- string}. The state of a stream is {XINFO STREAM, XINFO GROUPS, oldest unacknowledged id of each group}.
local function state_of(key)
  local facts, groups, pending = redis.call('XINFO', 'STREAM', key), redis.call('XINFO', 'GROUPS', key), {}
  local plain = {}
  for i = 1, #facts, 2 do
    if type(facts[i + 1]) ~= 'table' then
      plain[#plain + 1] = facts[i]
      plain[#plain + 1] = facts[i + 1]
    end
  end
  for n, group in ipairs(groups) do
    for i = 1, #group, 2 do
      if group[i] == 'name' then
        pending[n] = redis.call('XPENDING', key, group[i + 1])[2] or ''
      end
    end
  end
  return {plain, groups, pending}
end

local small, logs = tonumber(ARGV[1]), tonumber(ARGV[2])
local keys, offsets, strings = {}, {}, {}
for n = 1, #KEYS do
  local kind = redis.call('TYPE', KEYS[n])
  kind = kind.ok or kind
  if n <= small then
    local value, state = false, false
    if kind == 'string' then
      value = redis.call('GET', KEYS[n])
    elseif kind == 'hash' then
      value = redis.call('HGETALL', KEYS[n])
    elseif kind == 'set' then
      value = redis.call('SMEMBERS', KEYS[n])
    elseif kind == 'zset' then
      value = redis.call('ZRANGE', KEYS[n], 0, -1, 'WITHSCORES')
    elseif kind == 'list' then
      value = redis.call('LRANGE', KEYS[n], 0, -1)
    elseif kind == 'stream' then
      value, state = redis.call('XRANGE', KEYS[n], '-', '+'), state_of(KEYS[n])
    end
    keys[n] = {kind, redis.call('PTTL', KEYS[n]), value, state}
  elseif n <= small + logs then
    local offset = '0'
    if kind == 'stream' then
      local facts = redis.call('XINFO', 'STREAM', KEYS[n])
      for i = 1, #facts, 2 do
        if facts[i] == 'last-generated-id' then
          offset = facts[i + 1]
        end
      end
    end
    offsets[#offsets + 1] = offset
  else
    strings[#strings + 1] = kind == 'string' and redis.call('GET', KEYS[n]) or ''
  end
end
return {keys, offsets, strings}
