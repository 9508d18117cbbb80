-- Store or remove rules, and append their versions.
-- KEYS  1 rules  2 versions
-- ARGV  1 number of rules  2 versions to keep  3.. field and sealed rule of each, empty to remove it
--       then sealed versions
-- Gives the number of removed rules.
local count, gone = tonumber(ARGV[1]), 0
for at = 3, 2 * count + 1, 2 do
  if ARGV[at + 1] == '' then
    gone = gone + redis.call('HDEL', KEYS[1], ARGV[at])
  else
    redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1])
  end
end
for at = 2 * count + 3, #ARGV do
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], '*', 'version', ARGV[at])
end
return gone
