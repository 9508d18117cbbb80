-- Write an experiment if nobody wrote any of the app's experiments meanwhile.
-- KEYS  1 experiments  2 revisions  3 slug -> id  4 version of the app's experiments
-- ARGV  1 experiment id  2 revision it must have ('0': it must not exist)  3 sealed experiment  4 its slug
--       5 its former slug or ''  6 version of the app's experiments
-- Gives 1, or 0 when nothing was written.
if (redis.call('HGET', KEYS[2], ARGV[1]) or '0') ~= ARGV[2] or (redis.call('GET', KEYS[4]) or '0') ~= ARGV[6] then
  return 0
end
local holder = redis.call('HGET', KEYS[3], ARGV[4])
if holder and holder ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('HINCRBY', KEYS[2], ARGV[1], 1)
if ARGV[5] ~= '' and ARGV[5] ~= ARGV[4] then
  redis.call('HDEL', KEYS[3], ARGV[5])
end
redis.call('HSET', KEYS[3], ARGV[4], ARGV[1])
redis.call('INCR', KEYS[4])
return 1
