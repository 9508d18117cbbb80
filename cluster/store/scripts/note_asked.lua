-- Note that a reader asked a question on a day, once for all the days it is counted.
-- KEYS  1 readers of the day's questions  2 number of readers by question  3... readers of earlier days' questions
-- ARGV  1 text  2 reader's mark  3 time to live  4 most texts of a day
-- Gives nothing.
for at = 3, #KEYS do
  if redis.call('SISMEMBER', KEYS[at], ARGV[2]) == 1 then
    return
  end
end
if redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[4]) and not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  return
end
if redis.call('SADD', KEYS[1], ARGV[2]) == 1 then
  redis.call('ZINCRBY', KEYS[2], 1, ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
end
