-- Forget users and the visitors linked to them, and log that.
-- KEYS  1 change log  2 links  3 deleted users  4... per user: recent list, set of visitors, then each visitor's recent list
-- ARGV  1 change payload  2 now ms  3 oldest kept ms  4 most kept  5 number of keyed hashes  6... the hashes
--       then per user: number of visitors, then their anonymous ids
-- Gives 1, or 0 when the visitors are no longer those the caller read: then nothing is written.
local first = 6 + tonumber(ARGV[5])
local at, key = first, 4
while at <= #ARGV do
  local n = tonumber(ARGV[at])
  -- All keys were named before: a visitor linked meanwhile would be missed.
  if redis.call('SCARD', KEYS[key + 1]) ~= n then
    return 0
  end
  for i = 1, n do
    if redis.call('SISMEMBER', KEYS[key + 1], ARGV[at + i]) == 0 then
      return 0
    end
  end
  at, key = at + 1 + n, key + 2 + n
end

-- Deleting first: it is allowed also when memory is full.
for k = 4, #KEYS do
  redis.call('DEL', KEYS[k])
end
at = first
while at <= #ARGV do
  local n = tonumber(ARGV[at])
  for i = 1, n do
    redis.call('HDEL', KEYS[2], ARGV[at + i])
  end
  at = at + 1 + n
end
for i = 6, first - 1 do
  redis.call('ZADD', KEYS[3], ARGV[2], ARGV[i])
end
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', ARGV[3])
for _, oldest in ipairs(redis.call('ZRANGE', KEYS[3], 0, -tonumber(ARGV[4]) - 1)) do
  redis.call('ZREM', KEYS[3], oldest)
end
redis.call('XADD', KEYS[1], '*', 'op', 'erase', 'payload', ARGV[1], 'copy', ARGV[1])
return 1
