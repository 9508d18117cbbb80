-- Take tokens from a bucket that refills by time.
-- KEYS  1 bucket
-- ARGV  1 rate per s  2 burst  3 want  4 now ms  5 life ms
-- Gives {granted, retry after ms}.
local rate, burst, want, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local held = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(held[1]) or burst, tonumber(held[2]) or now
if now > at then
  tokens = tokens + (now - at) * rate / 1000
  at = now
elseif at - now > 60000 then
  -- The clock was set back; without this the bucket would stay dry until it has caught up.
  at = now
end
tokens = math.min(tokens, burst)
-- Whole tokens: a leased part of one could be spent by nobody.
local granted = math.max(0, math.min(want, math.floor(tokens)))
tokens = tokens - granted
-- Formatted: Lua would write large numbers with an exponent and lose digits.
redis.call('HSET', KEYS[1], 'tokens', string.format('%.6f', tokens), 'at', string.format('%.0f', at))
redis.call('PEXPIRE', KEYS[1], ARGV[5])
if granted > 0 or want <= 0 then
  return {granted, 0}
end
if rate <= 0 then
  return {0, tonumber(ARGV[5])}
end
return {0, math.max(1, math.ceil((1 - tokens) * 1000 / rate))}
