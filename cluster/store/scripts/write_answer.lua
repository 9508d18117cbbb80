-- Write the next revision of an unfinished answer; only its holder may.
-- KEYS  1 question  2 open questions  3... questions by product, one for each that a finished answer cites
-- ARGV  1 id  2 holder  3 sealed answer  4 sealed public record  5 revision  6 finished ('1' or '0')
--       7 held until  8 time to live
-- Gives 1, or 0 when nothing was written.
local now = redis.call('HMGET', KEYS[1], 'finished', 'holder', 'revision')
-- A holder whose lease ran out is not the holder any more, even if it goes on writing.
if now[1] ~= '0' or now[2] ~= ARGV[2] or tonumber(ARGV[5]) <= tonumber(now[3]) then
  return 0
end
redis.call('HSET', KEYS[1], 'answer', ARGV[3], 'shown', ARGV[4], 'revision', ARGV[5], 'finished', ARGV[6])
if ARGV[6] == '1' then
  redis.call('ZREM', KEYS[2], ARGV[1])
  for at = 3, #KEYS do
    redis.call('SADD', KEYS[at], ARGV[1])
    if redis.call('PTTL', KEYS[at]) < tonumber(ARGV[8]) then
      redis.call('PEXPIRE', KEYS[at], ARGV[8])
    end
  end
else
  redis.call('ZADD', KEYS[2], ARGV[7], ARGV[1])
end
return 1
