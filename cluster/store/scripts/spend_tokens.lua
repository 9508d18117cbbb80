-- Spend tokens of the language model, unless that is more than an app may on this day.
-- KEYS  1 tokens spent on the day
-- ARGV  1 tokens; less than 0 gives back  2 most of the day; 0: no bound  3 time to live ms
-- Gives 1, or 0 when they are not there to be spent.
local most = tonumber(ARGV[2])
local spent = tonumber(redis.call('GET', KEYS[1]) or '0') + tonumber(ARGV[1])
if most > 0 and tonumber(ARGV[1]) > 0 and spent > most then
  return 0
end
-- Not below 0: giving back on the next day would allow more than a day's bound.
redis.call('SET', KEYS[1], math.max(0, spent), 'PX', ARGV[3])
return 1
