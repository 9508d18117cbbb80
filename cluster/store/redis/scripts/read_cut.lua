-- Read some small keys whole, the newest offsets of some logs, and some strings, all of one moment.
-- KEYS  the small keys, then the logs, then the strings
-- ARGV  1 number of small keys  2 number of logs
-- Gives {{type, ms to live, value} of each small key, newest offset of each log, value of each string}.
local small, logs = tonumber(ARGV[1]), tonumber(ARGV[2])
local keys, offsets, strings = {}, {}, {}
for n = 1, #KEYS do
  local kind = redis.call('TYPE', KEYS[n])
  kind = kind.ok or kind
  if n <= small then
    local value = false
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
      value = redis.call('XRANGE', KEYS[n], '-', '+')
    end
    keys[n] = {kind, redis.call('PTTL', KEYS[n]), value}
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
