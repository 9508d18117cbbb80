-- Take over a question nobody holds any more.
-- KEYS  1 question  2 open questions
-- ARGV  1 id  2 holder  3 now  4 held until
-- Gives {question, answer, attempts}, or nothing when it is held, finished or gone.
local until_ms = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not until_ms or tonumber(until_ms) > tonumber(ARGV[3]) then
  return false
end
-- Also an expired question: its id would stay among the open ones for ever.
if redis.call('HGET', KEYS[1], 'finished') ~= '0' then
  redis.call('ZREM', KEYS[2], ARGV[1])
  return false
end
redis.call('HSET', KEYS[1], 'holder', ARGV[2])
redis.call('HINCRBY', KEYS[1], 'attempts', 1)
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[1])
return redis.call('HMGET', KEYS[1], 'asked', 'answer', 'attempts')
