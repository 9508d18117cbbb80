-- Write a new question, held by whoever took it.
-- KEYS  1 question  2 open questions  3 the reader's questions  4 recent questions
-- ARGV  1 id  2 sealed question  3 sealed answer  4 sealed public record  5 revision  6 finished ('1' or '0')
--       7 holder  8 held until  9 time to live  10 most that may be open  11 has a reader ('1' or '0')
--       12 asked at  13 most recent questions; 0: it is not listed among them
-- Gives 1; 0 when it was there before; -1 when too many are open.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
if ARGV[6] == '0' and redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[10]) then
  return -1
end
redis.call('HSET', KEYS[1], 'asked', ARGV[2], 'answer', ARGV[3], 'shown', ARGV[4], 'revision', ARGV[5],
  'finished', ARGV[6], 'holder', ARGV[7], 'attempts', '1')
redis.call('PEXPIRE', KEYS[1], ARGV[9])
if ARGV[13] ~= '0' then
  redis.call('ZADD', KEYS[4], ARGV[12], ARGV[1])
  local over = redis.call('ZCARD', KEYS[4]) - tonumber(ARGV[13])
  if over > 0 then
    redis.call('ZREM', KEYS[4], unpack(redis.call('ZRANGE', KEYS[4], 0, math.min(over, 100) - 1)))
  end
end
if ARGV[6] == '0' then
  redis.call('ZADD', KEYS[2], ARGV[8], ARGV[1])
end
if ARGV[11] == '1' then
  redis.call('SADD', KEYS[3], ARGV[1])
  -- as long as the longest of them: what can't be found can't be erased
  if redis.call('PTTL', KEYS[3]) < tonumber(ARGV[9]) then
    redis.call('PEXPIRE', KEYS[3], ARGV[9])
  end
end
return 1
