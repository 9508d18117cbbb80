-- End a grant, and raise the version that API replicas poll.
-- KEYS  1 grant  2 grants of the user  3 revoked  4 version  5 grants of the client
-- ARGV  1 grant id  2 now ms  3 forget before ms
local gone = redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[5], ARGV[1])
if gone == 0 then
  return 0
end
redis.call('ZADD', KEYS[3], ARGV[2], ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', ARGV[3])
redis.call('INCR', KEYS[4])
return 1
