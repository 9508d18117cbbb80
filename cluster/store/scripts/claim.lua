-- Hand out batches without waiting: those the consumer holds, those idle at another, then new ones.
-- KEYS  the intake of each app
-- ARGV  1 group  2 consumer  3 most per app  4 idle ms after which another consumer counts as dead
--       5 bytes after which no further batch is handed out in this call
-- Gives per app an array of {entry id, fields, deliveries}; fields is false when the entry is gone.
local group, consumer, most, idle, bytes = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])

local function one(intake, from)
  local reply = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', 1, 'STREAMS', intake, from)
  return reply and reply[1] and reply[1][2][1]
end

local answer = {}
for n, intake in ipairs(KEYS) do
  -- `pcall`: without a group this is an error, and the group is made below.
  local probe = redis.pcall('XPENDING', intake, group)
  if probe.err then
    if not string.find(probe.err, 'NOGROUP', 1, true) then
      return probe
    end
    -- From 0: batches that were accepted before the first claim count too.
    redis.call('XGROUP', 'CREATE', intake, group, '0', 'MKSTREAM')
  end

  local batches, given = {}, {}
  local function hand_out(entry)
    -- The same entry may come as held and as idle.
    if entry and not given[entry[1]] then
      given[entry[1]] = true
      local pending = redis.call('XPENDING', intake, group, entry[1], entry[1], 1)
      batches[#batches + 1] = {entry[1], entry[2], pending[1] and pending[1][4] or 1}
      for _, field in ipairs(entry[2] or {}) do
        bytes = bytes - #field
      end
    end
  end
  local function more()
    return #batches < most and bytes > 0
  end

  -- Entries of this consumer without an acknowledgement, oldest first: its former process died with them.
  local held = more() and one(intake, '0')
  while held do
    hand_out(held)
    held = more() and one(intake, held[1])
  end
  local cursor = '0-0'
  while more() and cursor do
    local reply = redis.call('XAUTOCLAIM', intake, group, consumer, idle, cursor, 'COUNT', 1)
    hand_out(reply[2][1])
    cursor = reply[1] ~= '0-0' and reply[1] or false
  end
  local fresh = more() and one(intake, '>')
  while fresh do
    hand_out(fresh)
    fresh = more() and one(intake, '>')
  end
  answer[n] = batches
end
return answer
