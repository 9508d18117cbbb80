-- Write a registration that a client changed or removed, unless it is another one by now.
-- KEYS  1 registrations  2 when each was used
-- ARGV  1 short id  2 what stands there, empty: nothing  3 sealed registration  4 now ms  5 most
-- Gives 1, or 0 when something else stands there.
local known = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if known ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[1])
local over = redis.call('ZCARD', KEYS[2]) - tonumber(ARGV[5])
if over > 0 then
  for _, name in ipairs(redis.call('ZRANGE', KEYS[2], 0, over - 1)) do
    redis.call('HDEL', KEYS[1], name)
    redis.call('ZREM', KEYS[2], name)
  end
end
return 1
