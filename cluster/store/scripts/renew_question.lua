-- Hold on to an unfinished question, or let go of it.
-- KEYS  1 question  2 open questions
-- ARGV  1 id  2 holder  3 held until; 0 lets go
-- Gives 1, or 0 when it is not the holder's any more.
local now = redis.call('HMGET', KEYS[1], 'finished', 'holder')
if now[1] ~= '0' or now[2] ~= ARGV[2] then
  return 0
end
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
return 1
