-- Replace an engine if it is still the one that was read.
-- KEYS  1 engines
-- ARGV  1 engine id  2 as it was read  3 as it is to be
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
