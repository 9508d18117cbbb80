-- Write a run if nobody wrote it meanwhile; forget the oldest ended ones beyond a number.
-- KEYS  1 runs  2 revisions  3 run ids by time  4 open runs
-- ARGV  1 run id  2 revision it must have ('0': it must not exist)  3 sealed run  4 created at
--       5 '1' while it has not ended  6 most kept
local revision = redis.call('HGET', KEYS[2], ARGV[1]) or '0'
if revision ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('HINCRBY', KEYS[2], ARGV[1], 1)
redis.call('ZADD', KEYS[3], ARGV[4], ARGV[1])
if ARGV[5] == '1' then
  redis.call('SADD', KEYS[4], ARGV[1])
else
  redis.call('SREM', KEYS[4], ARGV[1])
end
local over = redis.call('ZCARD', KEYS[3]) - tonumber(ARGV[6])
-- Only a new run makes the list longer.
if revision == '0' and over > 0 then
  for _, old in ipairs(redis.call('ZRANGE', KEYS[3], 0, over - 1)) do
    if redis.call('SISMEMBER', KEYS[4], old) == 0 then
      redis.call('HDEL', KEYS[1], old)
      redis.call('HDEL', KEYS[2], old)
      redis.call('ZREM', KEYS[3], old)
    end
  end
end
return 1
