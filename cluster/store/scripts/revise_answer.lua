-- Write what is left of a finished answer whose sources changed.
-- KEYS  1 question
-- ARGV  1 revision it must have  2 sealed answer  3 sealed public record  4 revision
-- Gives 1, or 0 when nothing was written.
local now = redis.call('HMGET', KEYS[1], 'finished', 'revision')
if now[1] ~= '1' or now[2] ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'answer', ARGV[2], 'shown', ARGV[3], 'revision', ARGV[4])
return 1
