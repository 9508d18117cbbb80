-- Forget readers' threads. The version grows on, so that nobody who read before can write after.
-- KEYS  1 threads  2 revisions  3 readers with something new  4 watchers by version  5 version of the app's threads
-- ARGV  user ids, at most 1,000
-- Gives how many had threads.
local gone = 0
for _, user in ipairs(ARGV) do
  gone = gone + redis.call('HDEL', KEYS[2], user)
  redis.call('HDEL', KEYS[1], user)
  redis.call('SREM', KEYS[3], user)
  redis.call('ZREM', KEYS[4], user)
end
redis.call('INCR', KEYS[5])
return gone
