-- Write an app or a key, and raise the version that API replicas poll.
-- KEYS  1 apps or keys  2 version
-- ARGV  1 field  2 sealed record
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return redis.call('INCR', KEYS[2])
