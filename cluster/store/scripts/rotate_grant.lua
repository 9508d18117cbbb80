-- Exchange a refresh token for the next one.
-- KEYS  1 grant  2 grants of the user  3 grants of the client
-- ARGV  1 presented sha  2 next sha  3 now ms  4 grace ms  5 life ms  6 grant id  7 most siblings
local held = redis.call('HMGET', KEYS[1], 'current', 'previous', 'until')
local current, previous = held[1], held[2] or ''
if not current then
  return 'gone'
end
local now = tonumber(ARGV[3])
if string.find(current, ARGV[1], 1, true) then
  -- The first use of a round ends the round before it, and forgives its own siblings for a while.
  local till = string.format('%.0f', now + tonumber(ARGV[4]))
  redis.call('HSET', KEYS[1], 'current', ARGV[2], 'previous', current, 'until', till, 'used_at', ARGV[3])
elseif string.find(previous, ARGV[1], 1, true) and now <= tonumber(held[3] or '0') then
  -- Hashes of 64 digits with blanks between them: so many siblings a round has at most.
  if #current >= 65 * tonumber(ARGV[7]) - 1 then
    return 'crowded'
  end
  redis.call('HSET', KEYS[1], 'current', current .. ' ' .. ARGV[2], 'used_at', ARGV[3])
else
  return 'stolen'
end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[6])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
redis.call('ZADD', KEYS[3], ARGV[3], ARGV[6])
redis.call('PEXPIRE', KEYS[3], ARGV[5])
return 'rotated'
