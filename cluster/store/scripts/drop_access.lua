-- Remove an app or a key, and raise the version that API replicas poll.
-- KEYS  1 apps or keys  2 version
-- ARGV  1 field
local removed = redis.call('HDEL', KEYS[1], ARGV[1])
if removed == 1 then
  redis.call('INCR', KEYS[2])
end
return removed
