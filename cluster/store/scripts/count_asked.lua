-- Add up how often engines were asked, and when last.
-- KEYS  1 counts of this minute  2 last times
-- ARGV  1 life of the counts ms  2 life of the times ms  3 now ms  4... name and count in turn
for at = 4, #ARGV, 2 do
  redis.call('HINCRBY', KEYS[1], ARGV[at], ARGV[at + 1])
  redis.call('HSET', KEYS[2], ARGV[at], ARGV[3])
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1
