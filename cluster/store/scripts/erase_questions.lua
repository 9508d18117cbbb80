-- Forget the questions of a reader.
-- KEYS  1 the reader's questions  2 open questions  3... questions
-- ARGV  the ids of the questions, in the order of KEYS
-- Gives how many there were.
local gone = 0
for at = 3, #KEYS do
  gone = gone + redis.call('DEL', KEYS[at])
  redis.call('ZREM', KEYS[2], ARGV[at - 2])
  redis.call('SREM', KEYS[1], ARGV[at - 2])
end
return gone
