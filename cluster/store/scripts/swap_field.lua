-- Replace a record of a hash unless it is another one by now.
-- KEYS  1 records of one kind
-- ARGV  1 field  2 what stands there  3 sealed record
-- Gives 1, or 0 when something else stands there.
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
