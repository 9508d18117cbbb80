-- Add counts to a window of live figures.
-- KEYS  1 the window
-- ARGV  1 its life in ms  2... name and count in turn
for at = 2, #ARGV, 2 do
  redis.call('HINCRBY', KEYS[1], ARGV[at], ARGV[at + 1])
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
