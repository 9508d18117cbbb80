-- Replace a record of a hash unless it is another one by now.
-- KEYS  1 records of one kind  2 version that API replicas poll, raised with the change (may be absent)
-- ARGV  1 field  2 what stands there, empty for nothing  3 sealed record
-- Gives 1, or 0 when something else stands there.
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
if KEYS[2] then
  redis.call('INCR', KEYS[2])
end
return 1
