-- Let another snapshot serve, if the engine is still the one that was read, and write it into the history.
-- KEYS  1 engines  2 history of the engine
-- ARGV  1 engine id  2 the sealed engine that was read  3 the sealed engine to be  4 sealed entry
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('RPUSH', KEYS[2], ARGV[4])
return 1
