-- Keep a code for as long as a replay is to be recognised.
-- KEYS  1 code
-- ARGV  1 sealed code  2 life ms
redis.call('HSET', KEYS[1], 'code', ARGV[1])
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
