-- Hand out batches without waiting: those the consumer holds, those idle at another, then new ones.
-- KEYS  the intake of each app
-- ARGV  1 group  2 consumer  3 most per app  4 idle ms after which another consumer counts as dead
-- Gives per app an array of {entry id, fields, deliveries}; fields is false when the entry is gone.
local group, consumer, most, idle = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local function entries_of(reply)
  if reply and reply[1] then
    return reply[1][2]
  end
  return {}
end

local answer = {}
for n, intake in ipairs(KEYS) do
  local held = redis.pcall('XREADGROUP', 'GROUP', group, consumer, 'COUNT', most, 'STREAMS', intake, '0')
  if held and held.err then
    if not string.find(held.err, 'NOGROUP', 1, true) then
      return held
    end
    redis.call('XGROUP', 'CREATE', intake, group, '0', 'MKSTREAM')
    held = false
  end
  local batches, given = {}, {}
  local function hand_out(entries)
    for _, entry in ipairs(entries) do
      if entry and not given[entry[1]] then
        given[entry[1]] = true
        local pending = redis.call('XPENDING', intake, group, entry[1], entry[1], 1)
        local deliveries = pending[1] and pending[1][4] or 1
        batches[#batches + 1] = {entry[1], entry[2], deliveries}
      end
    end
  end
  hand_out(entries_of(held))
  if #batches < most then
    hand_out(redis.call('XAUTOCLAIM', intake, group, consumer, idle, '0-0', 'COUNT', most - #batches)[2])
  end
  if #batches < most then
    hand_out(entries_of(redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', most - #batches,
      'STREAMS', intake, '>')))
  end
  answer[n] = batches
end
return answer
