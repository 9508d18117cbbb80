-- Write a reader's threads if nobody wrote them meanwhile.
-- KEYS  1 threads  2 revisions  3 readers with something new  4 watchers by version  5 version of the app's threads
-- ARGV  1 user id  2 revision it must have ('0': nothing is stored)  3 sealed threads, '' for none
--       4 '1' while the account's indicator is on  5 watching: 'changed', 'same' or 'nothing'
-- Gives the new revision, or 0 when nothing was written.
if (redis.call('HGET', KEYS[2], ARGV[1]) or '0') ~= ARGV[2] then
  return 0
end
local version = redis.call('INCR', KEYS[5])
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('HDEL', KEYS[2], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
  redis.call('HSET', KEYS[2], ARGV[1], version)
end
if ARGV[4] == '1' then
  redis.call('SADD', KEYS[3], ARGV[1])
else
  redis.call('SREM', KEYS[3], ARGV[1])
end
if ARGV[5] == 'changed' then
  redis.call('ZADD', KEYS[4], version, ARGV[1])
elseif ARGV[5] == 'nothing' then
  redis.call('ZREM', KEYS[4], ARGV[1])
end
return version
